"""The array block as a whole: all types, all encodings, and every invariant between the parts broken once."""

from __future__ import annotations

import datetime
import decimal
import struct
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.kudu import Dictionary, decode_array_block, encode_array_block
from smalti.kudu._kernels import leb128
from tests.kudu.runs import encode_bitmap, encode_counts
from tests.kudu.strategies import ELEMENTS, codecs, columns

INT32 = pa.list_(pa.int32())


def block_of(
    elements: list[int], counts: list[int], arrays: list[int], values: list[int], *, ordinal: int = 0
) -> bytes:
    """An int32 PLAIN block from its parts, which need not fit together."""
    out = leb128.encode(len(elements)) + leb128.encode(len(arrays))
    for part in (encode_bitmap(elements), encode_counts(counts), encode_bitmap(arrays)):
        out += leb128.encode(len(part)) + part
    return out + struct.pack(f"<II{len(values)}i", len(values), ordinal, *values)


def decode(block: bytes, **options: int | None) -> list[list[int | None] | None]:
    array = decode_array_block(block, pa.int32(), checksum=False, **options)
    array.validate(full=True)
    return array.to_pylist()


@given(columns(), codecs, st.booleans(), st.integers(0, 2**32 - 1))
def test_round_trip(column: tuple[pa.Array, str], compression: str | None, checksum: bool, ordinal: int) -> None:
    array, encoding = column
    words = Dictionary()
    options = {"encoding": encoding, "compression": compression, "checksum": checksum, "first_ordinal": ordinal}
    block = encode_array_block(array, **options, dictionary=words)
    back = decode_array_block(block, array.type, **options, dictionary=words)
    back.validate(full=True)
    assert back.type == array.type
    assert back.to_pylist() == array.to_pylist()
    assert encode_array_block(back, **options, dictionary=Dictionary()) == block


@given(columns(), st.data())
def test_large_and_fixed_size_lists_give_the_same_bytes(column: tuple[pa.Array, str], data: st.DataObject) -> None:
    array, encoding = column
    block = encode_array_block(array, encoding=encoding)
    assert encode_array_block(array.cast(pa.large_list(array.type.value_type)), encoding=encoding) == block
    cells = [cell if cell is None else (cell + [None] * 3)[:3] for cell in array.to_pylist()]
    as_list, as_fixed = (pa.array(cells, kind) for kind in (array.type, pa.list_(array.type.value_type, 3)))
    start = data.draw(st.integers(0, len(cells) - 1))
    assert encode_array_block(as_fixed.slice(start), encoding=encoding) == encode_array_block(
        as_list.slice(start), encoding=encoding
    )


def test_negative_zero_and_nan_keep_their_bits() -> None:
    for arrow, code in ((pa.float32(), "f"), (pa.float64(), "d")):
        array = pa.array([[-0.0, float("nan"), float("-inf"), 1e-45 if code == "f" else 5e-324]], pa.list_(arrow))
        for encoding in ("plain", "bit_shuffle"):
            back = decode_array_block(encode_array_block(array, encoding=encoding), arrow, encoding=encoding)
            size = struct.calcsize(code) * 4
            assert bytes(back.values.buffers()[1])[:size] == bytes(array.values.buffers()[1])[:size]


def test_values_under_a_null_list_are_no_part_of_the_column() -> None:
    hidden = pa.ListArray.from_buffers(
        INT32,
        2,
        [pa.py_buffer(b"\2"), pa.py_buffer(struct.pack("<3i", 0, 2, 3))],
        children=[pa.array([7, 8, 9], pa.int32())],
    )
    assert encode_array_block(hidden) == encode_array_block(pa.array([None, [9]], INT32))


@pytest.mark.parametrize(
    ("array", "stored"),
    [
        (pa.array([[datetime.date(1970, 1, 3)]], pa.list_(pa.date32())), struct.pack("<i", 2)),
        (pa.array([[1]], pa.list_(pa.timestamp("s"))), struct.pack("<q", 1_000_000)),
        (pa.array([[5]], pa.list_(pa.timestamp("ms", "UTC"))), struct.pack("<q", 5_000)),
        (pa.array([[7000]], pa.list_(pa.timestamp("ns"))), struct.pack("<q", 7)),
        (pa.array([[decimal.Decimal("-1.25")]], pa.list_(pa.decimal128(9, 2))), struct.pack("<i", -125)),
        (pa.array([[decimal.Decimal("-1.25")]], pa.list_(pa.decimal128(10, 2))), struct.pack("<q", -125)),
    ],
)
def test_logical_types_are_stored_as_their_physical_ones(array: pa.Array, stored: bytes) -> None:
    assert encode_array_block(array, checksum=False).endswith(stored)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1]], pa.list_(pa.uint8())),
        pa.array([[[1]]], pa.list_(pa.list_(pa.int8()))),
        pa.array([[decimal.Decimal(1)]], pa.list_(pa.decimal128(19, 0))),
        pa.array([[1]], pa.list_(pa.timestamp("ns"))),
        pa.array([[2**62]], pa.list_(pa.timestamp("s"))),
        pa.array([1], pa.int32()),
        pa.array([], INT32),
    ],
    ids=lambda a: f"{a.type}",
)
def test_what_kudu_cannot_hold_is_refused(array: pa.Array) -> None:
    with pytest.raises(SchemaError):
        encode_array_block(array)


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.large_list(pa.int8())])
def test_longest_array(kind: pa.DataType) -> None:
    """65,535 elements fit; one more would come back as an empty array from Kudu."""
    array = pa.array([[1], [3] * 65535], kind)
    assert decode_array_block(encode_array_block(array), pa.int8()).to_pylist() == array.to_pylist()
    with pytest.raises(SchemaError, match=r"array 1 .*65536") as refused:
        encode_array_block(pa.array([[1], [3] * 65536], kind))
    assert refused.value.found == 65536


@pytest.mark.parametrize(
    "options", [{"encoding": "rle"}, {"encoding": "dict"}, {"encoding": "zip"}, {"compression": "zstd"}]
)
def test_wrong_options(options: dict[str, str]) -> None:
    array = pa.array([[1.5]])
    with pytest.raises(SchemaError):
        encode_array_block(array, **options)
    with pytest.raises(SchemaError):
        decode_array_block(b"", pa.float64(), **options)


def test_every_type_has_kudus_default() -> None:
    for element_type, _, encodings in ELEMENTS:
        array = pa.array([[], [None]], pa.list_(element_type))
        default = "rle" if element_type == pa.bool_() else "dict" if "dict" in encodings else "bit_shuffle"
        assert encode_array_block(array, encoding="auto") == encode_array_block(array, encoding=default)


class TestInvariants:
    """A block that is right, and the same with one thing wrong."""

    RIGHT = ([1, 0, 1], [1, 0, 2, 0], [1, 0, 1, 1], [5, 6])

    def test_right(self) -> None:
        assert decode(block_of(*self.RIGHT)) == [[5], None, [None, 6], []]
        assert decode(block_of(*self.RIGHT, ordinal=9), first_ordinal=9) == [[5], None, [None, 6], []]

    @pytest.mark.parametrize(
        ("block", "reason"),
        [
            (block_of([1, 0, 1], [1, 1, 1, 0], [1, 0, 1, 1], [5, 6]), "array 1 has elements though it is null"),
            (block_of([1, 0, 1], [1, 0, 1, 0], [1, 0, 1, 1], [5, 6]), "do not add up to the flattened count"),
            (block_of([1, 0, 1], [1, 0, 2, 1], [1, 0, 1, 1], [5, 6]), "array 3 reaches past the flattened count"),
            (block_of([1, 0, 1], [1, 0, 2], [1, 0, 1, 1], [5, 6]), "another number of values than counted"),
            (block_of([1, 1, 1], [1, 0, 2, 0], [1, 0, 1, 1], [5, 6]), "number of values in the data header"),
            (block_of([1, 0, 1], [1, 0, 2, 0], [1, 0, 1, 1], [5]), "number of values in the data header"),
            (block_of(*RIGHT) + b"\0", "another number of bytes"),
            (block_of(*RIGHT)[:-1], "another number of bytes"),
            (b"\0\0\0\0\0" + bytes(8), "block without cells"),
            (bytes.fromhex("010402020109ff"), "part is longer than the block"),
        ],
    )
    def test_wrong(self, block: bytes, reason: str) -> None:
        with pytest.raises(CorruptFileError, match=reason):
            decode(block)

    def test_ordinal_is_checked_when_known(self) -> None:
        block = block_of(*self.RIGHT, ordinal=8)
        assert len(decode(block)) == 4
        with pytest.raises(CorruptFileError, match="first ordinal") as wrong:
            decode(block, first_ordinal=9)
        assert (wrong.value.found, wrong.value.expected) == (8, 9)
        assert wrong.value.place["section"] == "data"
        assert block[wrong.value.place["offset"] :][:4] == struct.pack("<I", 8)

    def test_place_is_an_offset_in_the_block(self) -> None:
        block = bytearray(block_of(*self.RIGHT))
        at = bytes(block).index(encode_counts(self.RIGHT[1]))
        block[at] = 0  # the header of the run
        with pytest.raises(CorruptFileError) as wrong:
            decode(bytes(block))
        assert wrong.value.place == {"section": "array element numbers", "offset": at}

    @pytest.mark.parametrize("encoding", ["bit_shuffle", "dict"])
    def test_place_inside_the_planes(self, encoding: str) -> None:
        array = pa.array([["a", "b"]] if encoding == "dict" else [[1, 2]])
        block = bytearray(encode_array_block(array, encoding=encoding, checksum=False))
        start = bytes(block).index(struct.pack("<II", 0, 2)) + 20  # behind ordinal, count and the rest of the header
        block[start : start + 4] = b"\0\0\1\0"  # a chunk longer than the block
        with pytest.raises(CorruptFileError, match="ends early") as wrong:
            decode_array_block(bytes(block), array.type, encoding=encoding, checksum=False, dictionary=Dictionary())
        assert wrong.value.place["offset"] == start + 4
        assert wrong.value.place["section"].endswith("bit planes")


class TestClaims:
    """A few bytes may claim anything: nothing is allocated for it."""

    @pytest.mark.parametrize(
        "block",
        [
            # 2**28 null arrays, all parts agreeing; the same as elements; runs of values; counts past the bytes
            "00 80808080 01 00 07 80808080 02 0000 06 80808080 02 00 00000000 00000000",
            "80808080 01 01 06 80808080 02 00 03 020000 02 0201 00000000 00000000",
            "ffffffff0f ffffffff0f 00 00 00",
            "0a 01 02 1401 03 020a00 02 0201 0a000000 00000000",
        ],
    )
    def test_claims_cost_nothing(self, block: str) -> None:
        tracemalloc.start()
        try:
            with pytest.raises((CorruptFileError, UnsupportedFeatureError)):
                decode(bytes.fromhex(block))
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()

    def test_dictionary_cannot_multiply_without_end(self) -> None:
        """One word of 64 KiB, 65,535 times."""
        words = Dictionary(1 << 30)
        block = encode_array_block(pa.array([["x"] * 65535], pa.list_(pa.string())), encoding="dict", dictionary=words)
        with pytest.raises(UnsupportedFeatureError, match="too large"):
            decode_array_block(block, pa.string(), encoding="dict", dictionary=pa.array(["y" * 65536]))


class TestDictionary:
    def test_codes_narrow_to_the_largest(self) -> None:
        for count, width in ((256, 1), (257, 2), (65536, 2), (65537, 4)):
            words = Dictionary(1 << 30)
            array = pa.array([[f"{i}" for i in range(s, min(s + 60000, count))] for s in range(0, count, 60000)])
            block = encode_array_block(array, encoding="dict", dictionary=words, checksum=False)
            header = block.index(b"\1\0\0\0" + struct.pack("<II", 0, count))
            assert struct.unpack_from("<I", block, header + 4 + 16) == (width,)
            back = decode_array_block(block, pa.string(), encoding="dict", dictionary=words, checksum=False)
            assert back.equals(array)

    def test_words_are_shared_by_blocks(self) -> None:
        words = Dictionary()
        first = encode_array_block(pa.array([["a", "b"]]), encoding="dict", dictionary=words)
        second = encode_array_block(pa.array([["c", "a"]]), encoding="dict", dictionary=words)
        assert words.words().to_pylist() == [b"a", b"b", b"c"]
        for block, values in ((first, ["a", "b"]), (second, ["c", "a"])):
            back = decode_array_block(block, pa.string(), encoding="dict", dictionary=words.words())
            assert back.to_pylist() == [values]

    def test_full_dictionary_gives_plain_blocks(self) -> None:
        words = Dictionary(20)
        encode_array_block(pa.array([["abcdefgh"]]), encoding="dict", dictionary=words)
        assert words.full
        block = encode_array_block(pa.array([["new", "abcdefgh"]]), encoding="dict", dictionary=words)
        assert decode_array_block(block, pa.string(), encoding="dict").to_pylist() == [["new", "abcdefgh"]]
        assert len(words) == 1

    def test_codes_without_words(self) -> None:
        block = encode_array_block(pa.array([["a", "b"]]), encoding="dict")
        with pytest.raises(CorruptFileError, match="no dictionary"):
            decode_array_block(block, pa.string(), encoding="dict")
        with pytest.raises(CorruptFileError, match="no word"):
            decode_array_block(block, pa.string(), encoding="dict", dictionary=pa.array(["a"]))

    def test_text_that_is_not_utf8(self) -> None:
        block = encode_array_block(pa.array([[b"\xff\xfe"]]))
        assert decode_array_block(block, pa.binary()).to_pylist() == [[b"\xff\xfe"]]
        with pytest.raises(CorruptFileError, match="UTF-8"):
            decode_array_block(block, pa.string())


def test_decimal_with_more_digits_than_its_type() -> None:
    block = encode_array_block(pa.array([[12345]], INT32))
    assert decode_array_block(block, pa.decimal128(5, 2)).to_pylist() == [[decimal.Decimal("123.45")]]
    with pytest.raises(CorruptFileError, match="digits"):
        decode_array_block(block, pa.decimal128(4, 2))
