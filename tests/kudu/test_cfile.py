"""The container: blocks, index, dictionary, footer, and what a file may not say."""

from __future__ import annotations

import gc
import io
import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.errors import CorruptFileError, MosaicError, SchemaError, UnsupportedFeatureError
from smalti.kudu import CFileReader, CFileWriter
from smalti.kudu.checksum import crc32c
from smalti.kudu.index import Entry, IndexBuilder, Level, pack_index_block, parse_index_block, walk_index
from smalti.kudu.messages import BlockPointer, Footer
from smalti.kudu.protobuf import put_bytes, put_int
from smalti.kudu.spec import Compression, DataType, Encoding
from tests.kudu.strategies import ELEMENTS, codecs, columns
from tests.kudu.vectors import BY_NAME

INT32 = pa.list_(pa.int32())


def written(array: pa.Array, /, **options: Any) -> bytes:
    file = io.BytesIO()
    with CFileWriter(file, array.type, **options) as writer:
        writer.write(array)
    return file.getvalue()


def with_footer(data: bytes, footer: bytes, *, checksum: bool = True) -> bytes:
    """The same file with another footer."""
    (length,) = struct.unpack("<I", data[-4:])
    blocks = data[: len(data) - 12 - length - (4 if checksum else 0)]
    end = footer + data[-12:-4] + struct.pack("<I", len(footer))
    return blocks + (struct.pack("<I", crc32c(end)) if checksum else b"") + end


def footer_of(data: bytes) -> bytes:
    (length,) = struct.unpack("<I", data[-4:])
    return data[len(data) - 12 - length : len(data) - 12]


CHANGED = [
    pa.array([[1, 2], None, [3]], INT32),
    pa.array([["a", "bc"], None, ["d"]], pa.list_(pa.string())),
    pa.array([[True, None], None, [False]], pa.list_(pa.bool_())),
    pa.array([1, None, 3], pa.int64()),
]


@pytest.mark.parametrize("array", CHANGED, ids=[str(array.type) for array in CHANGED])
@pytest.mark.parametrize("calls", [1, 3])
def test_the_caller_may_change_buffers_after_a_call(array: pa.Array, calls: int) -> None:
    """Also offsets, which were checked in the call that brought them."""
    file = io.BytesIO()
    with CFileWriter(file, array.type, array=pa.types.is_list(array.type), encoding="plain") as writer:
        for _ in range(calls):
            memory = bytearray(pa.record_batch([array], ["a"]).serialize())
            writer.write(pa.ipc.read_record_batch(pa.py_buffer(memory), pa.schema([("a", array.type)])).column(0))
            memory[:] = b"\xff" * len(memory)
    assert CFileReader(file).read().to_pylist() == array.to_pylist() * calls


@given(columns(min_size=0), codecs, st.booleans(), st.integers(1, 9))
def test_round_trip(column: tuple[pa.Array, str], compression: str | None, checksum: bool, step: int) -> None:
    array, encoding = column
    file = io.BytesIO()
    options = {"encoding": encoding, "compression": compression, "checksum": checksum, "block_size": 512}
    with CFileWriter(file, array.type.value_type, **options) as writer:
        for start in range(0, len(array), step):
            writer.write(array.slice(start, step))
    reader = CFileReader(file)
    assert (reader.num_values, reader.element_type) == (len(array), array.type.value_type)
    assert reader.metadata.checksum is checksum
    back = reader.read()
    back.validate(full=True)
    assert back.type == array.type
    assert back.to_pylist() == array.to_pylist()
    # A file read and written again is the same file.
    assert written(back, **options) == file.getvalue()


@given(columns(min_size=0), codecs, st.booleans(), st.integers(0, 5))
def test_plain_columns(column: tuple[pa.Array, str], compression: str | None, nullable: bool, start: int) -> None:
    array, encoding = column
    values = array.flatten().slice(start)
    values = values if nullable else values.drop_null()
    options = {"encoding": encoding, "compression": compression, "nullable": nullable, "array": False}
    reader = CFileReader(written(values, **options, block_size=512))
    assert not reader.metadata.is_array
    assert reader.metadata.features == 1
    back = reader.read()
    back.validate(full=True)
    assert back.equals(values)


@pytest.mark.parametrize("encoding", ["plain", "bit_shuffle", "rle"])
def test_many_blocks_and_a_two_level_index(encoding: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    cells = [None if rng.random() < 0.1 else [rng.randrange(1 << 30)] * rng.randrange(9) for _ in range(120_000)]
    array = pa.array(cells, INT32)
    path = tmp_path / "a.cfile"
    with CFileWriter(path, pa.int32(), encoding=encoding, block_size=512) as writer:
        writer.write(pa.chunked_array([array.slice(0, 50_001), array.slice(50_001)]))
        assert writer.num_values == 120_000
    with CFileReader(path) as reader:
        blocks = list(reader.iter_arrays())
        assert len(blocks) == len(reader.blocks) > 2400
        assert [entry.ordinal for entry in reader.blocks[:2]] == [0, len(blocks[0])]
        assert pa.concat_arrays(blocks).equals(array)
        root, level = parse_index_block(reader._read_block(reader._footer.index))
        assert level is Level.INTERNAL
        assert len(root) >= 2
    assert [p.name for p in tmp_path.iterdir()] == ["a.cfile"]


@pytest.mark.parametrize(("count", "levels"), [(0, 1), (1, 1), (3, 1), (4, 2), (40, 3), (300, 4)])
def test_index_of_any_height(count: int, levels: int) -> None:
    """Small index blocks: the tree grows as Kudu's does, and is walked back in order."""
    blocks: list[bytes] = []

    def write(block: bytes) -> BlockPointer:
        blocks.append(block)
        return BlockPointer(len(blocks) - 1, len(block))

    builder = IndexBuilder(write, block_size=60)
    entries = [Entry(i * 7, BlockPointer(1000 + i, 5)) for i in range(count)]
    for entry in entries:
        builder.add(entry.ordinal, entry.pointer)
    root = builder.finish()
    assert walk_index(root, lambda p: memoryview(blocks[p.offset])) == entries
    height, pointer = 1, root
    while (parsed := parse_index_block(memoryview(blocks[pointer.offset])))[1] is Level.INTERNAL:
        height, pointer = height + 1, parsed[0][0].pointer
    assert height == levels


class TestIndexRefused:
    LEAF = pack_index_block([Entry(0, BlockPointer(16, 9)), Entry(5, BlockPointer(25, 9))], Level.LEAF)

    def test_right(self) -> None:
        assert [e.ordinal for e in parse_index_block(memoryview(self.LEAF))[0]] == [0, 5]

    @pytest.mark.parametrize(
        ("block", "reason"),
        [
            (
                pack_index_block([Entry(5, BlockPointer(1, 1)), Entry(5, BlockPointer(2, 1))], Level.LEAF),
                "out of order",
            ),
            (LEAF[:-1], "trailer|protobuf|field"),
            (LEAF[:7] + b"\1" + LEAF[8:], "length of a positional key"),
            (LEAF[:14] + b"\1" + LEAF[15:], "starts elsewhere"),
            (LEAF.replace(b"\x08\x02\x10\x00", b"\x08\x02\x10\x02"), "type of an index block"),
            (LEAF.replace(b"\x08\x02\x10\x00", b"\x08\x7f\x10\x00"), "more entries"),
            (LEAF.replace(b"\x08\x02\x10\x00", b"\x08\x01\x10\x00"), "starts elsewhere|after the last"),
            (b"\0\0\0", "no room"),
            (b"\xff\0\0\0", "longer than the block"),
        ],
    )
    def test_wrong(self, block: bytes, reason: str) -> None:
        with pytest.raises(CorruptFileError, match=reason):
            parse_index_block(memoryview(block))

    @pytest.mark.parametrize("entries", [1, 200])
    def test_index_that_points_into_itself(self, entries: int) -> None:
        loop = pack_index_block([Entry(i, BlockPointer(0, 1)) for i in range(entries)], Level.INTERNAL)
        with pytest.raises(CorruptFileError, match="points back"):
            walk_index(BlockPointer(0, len(loop)), lambda _: memoryview(loop))

    def test_leaf_that_begins_elsewhere(self) -> None:
        blocks = [pack_index_block([Entry(3, BlockPointer(1, 1))], Level.INTERNAL), self.LEAF]
        with pytest.raises(CorruptFileError, match="begins elsewhere"):
            walk_index(BlockPointer(0, 1), lambda p: memoryview(blocks[p.offset]))


class TestDictionary:
    def test_overflow_goes_on_in_plain_blocks(self) -> None:
        cells = [[f"word {i}", None, f"word {i // 2}"] for i in range(2000)]
        array = pa.array(cells)
        for step in (2000, 3):
            file = io.BytesIO()
            with CFileWriter(file, pa.string(), block_size=4096) as writer:
                for start in range(0, 2000, step):
                    writer.write(array.slice(start, step))
            reader = CFileReader(file)
            assert reader.metadata.encoding is Encoding.DICT
            assert reader.read().to_pylist() == cells
            words = reader._words
            assert words is not None
            assert 0 < words.count < 2000
            modes = []
            for entry in reader.blocks:
                body = bytes(reader._read_block(entry.pointer))
                modes.append(body.find(b"\2\0\0\0" + struct.pack("<I", entry.ordinal)) >= 0)
            # Codes first, plain texts ever after.
            assert modes == sorted(modes)
            assert True in modes
            assert False in modes

    def test_block_size_is_counted_in_codes_of_four_bytes(self) -> None:
        array = pa.array([["a"] * 10] * 100)
        reader = CFileReader(written(array, block_size=512))
        assert [len(a) for a in reader.iter_arrays()] == [
            13,
            13,
            13,
            13,
            13,
            13,
            13,
            9,
        ]  # 128 codes and what holds them

    def test_no_dictionary_block(self) -> None:
        data = written(pa.array([["a"]]))
        footer = Footer.parse(memoryview(footer_of(data)))
        bare = Footer(footer.data_type, footer.encoding, 1, footer.index, nullable=True, features=3, is_array=True)
        reader = CFileReader(with_footer(data, bare.pack()))
        with pytest.raises(CorruptFileError, match="no dictionary"):
            reader.read()


class TestBlocksEndWhereKudusDo:
    """Kudu asks its encoder after each array that is not empty whether the block is full."""

    @pytest.mark.parametrize(
        ("encoding", "per_block"),
        [("plain", 127), ("bit_shuffle", 128)],  # 8 + 4n > 512; 512 / 4
    )
    def test_single_elements(self, encoding: str, per_block: int) -> None:
        reader = CFileReader(written(pa.array([[i] for i in range(300)], INT32), encoding=encoding, block_size=512))
        assert [len(a) for a in reader.iter_arrays()] == [per_block, per_block, 300 - 2 * per_block]

    def test_arrays_are_never_split(self) -> None:
        array = pa.array([[1], [2] * 5000, [3], None, []], INT32)
        assert [len(a) for a in CFileReader(written(array, block_size=512)).iter_arrays()] == [2, 3]

    def test_null_and_empty_arrays_never_close_a_block(self) -> None:
        array = pa.array([None, []] * 35_000, INT32)
        reader = CFileReader(written(array, block_size=512))
        assert len(reader.blocks) == 1
        assert reader.read().equals(array)

    def test_longest_array_of_the_vectors(self) -> None:
        """[0] * 65535 fills a block of 256 KiB because the header counts; then null and [1]."""
        array = pa.array([[0] * 65535, None, [1]], INT32)
        data = written(array, encoding="plain")
        vector = BY_NAME["max_65535_int32_zero#1"]
        assert len(data) == vector.raw["cfile_size"]
        at = vector.raw["block_file_offset"]
        assert data[at:].startswith(vector.bytes("block_hex"))

    def test_texts(self) -> None:
        """12 for the header, 1 for a value, 1 or 2 for its offset, 1 for every fourth."""
        reader = CFileReader(written(pa.array([["x"]] * 600), encoding="plain", block_size=512))
        first = next(reader.iter_arrays())
        size, count = 12, 0
        while size <= 512:
            size += 1 + (1 if 12 + count < 256 else 2) + (count % 4 == 0)
            count += 1
        assert len(first) == count


class TestFooter:
    DATA = written(pa.array([[1], None], INT32), encoding="plain")

    @pytest.mark.parametrize("features", [4, 7, 11, 1 << 31])
    def test_unknown_incompatible_features_are_refused_by_number(self, features: int) -> None:
        footer = footer_of(self.DATA).replace(put_int(10, 3), put_int(10, features))
        with pytest.raises(UnsupportedFeatureError, match=str(features & ~3)) as refused:
            CFileReader(with_footer(self.DATA, footer))
        assert refused.value.found == features

    def test_array_without_its_feature_bit_is_read(self) -> None:
        """Kudu's reader looks at is_type_array only."""
        footer = footer_of(self.DATA).replace(put_int(10, 3), put_int(10, 1))
        assert CFileReader(with_footer(self.DATA, footer)).read().to_pylist() == [[1], None]

    def test_unknown_fields_are_skipped(self) -> None:
        footer = footer_of(self.DATA) + put_int(99, 5) + put_bytes(98, b"later")
        assert CFileReader(with_footer(self.DATA, footer)).num_values == 2

    @pytest.mark.parametrize(
        ("old", "new", "kind"),
        [
            (put_int(1, 5), put_int(1, 77), UnsupportedFeatureError),
            (put_int(1, 5), put_int(1, DataType.INT128), UnsupportedFeatureError),
            (put_int(1, 5), put_int(1, DataType.UINT32), UnsupportedFeatureError),
            (put_int(1, 5), b"", CorruptFileError),
            (put_int(2, 1), put_int(2, 3), UnsupportedFeatureError),
            (put_int(2, 1), put_int(2, Encoding.PREFIX), UnsupportedFeatureError),
            (put_int(6, 1), put_int(6, 9), UnsupportedFeatureError),
            (put_int(6, 1), put_int(6, Compression.LZ4), CorruptFileError),
            (put_int(3, 2), put_int(3, 3), CorruptFileError),
            (put_int(3, 2), put_int(3, 1), CorruptFileError),
            (put_int(3, 2), put_int(3, 0), CorruptFileError),
            (put_int(3, 2), put_int(3, 1 << 40), CorruptFileError),
            (put_int(8, 1), put_int(8, 0), CorruptFileError),
            (put_bytes(4, b"")[:1], put_bytes(5, b"")[:1], UnsupportedFeatureError),
        ],
    )
    def test_what_a_footer_may_not_say(self, old: bytes, new: bytes, kind: type[Exception]) -> None:
        footer = footer_of(self.DATA)
        assert old in footer
        with pytest.raises(kind):
            CFileReader(with_footer(self.DATA, footer.replace(old, new, 1))).read()

    @pytest.mark.parametrize("pointer", [BlockPointer(0, 20), BlockPointer(16, 10_000), BlockPointer(1 << 63, 5)])
    def test_pointer_out_of_the_blocks(self, pointer: BlockPointer) -> None:
        footer = Footer(DataType.INT32, Encoding.PLAIN, 2, pointer, nullable=True, features=3, is_array=True)
        with pytest.raises(CorruptFileError, match="outside"):
            CFileReader(with_footer(self.DATA, footer.pack())).read()

    def test_version_1(self) -> None:
        old = self.DATA.replace(b"kuducfl2", b"kuducfil")
        with pytest.raises(UnsupportedFeatureError, match="version 1"):
            CFileReader(old)

    @pytest.mark.parametrize("data", [b"", b"kuducfl2", b"x" * 200, b"PAR1" * 30])
    def test_no_cfile(self, data: bytes) -> None:
        with pytest.raises(CorruptFileError):
            CFileReader(data)


def test_metadata_of_header_and_footer() -> None:
    data = TestFooter.DATA
    pair = put_bytes(1, b"key") + put_bytes(2, b"\xff value")
    header = put_bytes(3, put_bytes(1, b"in header") + put_bytes(2, b""))
    start = data[:8] + struct.pack("<I", len(header)) + header
    start += struct.pack("<I", crc32c(start))
    moved = len(start) - 16
    footer = Footer.parse(memoryview(footer_of(data)))
    # The data block has moved, so its index must be written anew.
    leaf = pack_index_block([Entry(0, BlockPointer(16 + moved, footer.index.offset - 16))], Level.LEAF)
    leaf += struct.pack("<I", crc32c(leaf))
    at = footer.index.offset + moved
    packed = Footer(
        footer.data_type, footer.encoding, 2, BlockPointer(at, len(leaf)), nullable=True, features=3, is_array=True
    ).pack()
    packed += put_bytes(7, pair)
    file = with_footer(start + data[16 : footer.index.offset] + leaf + data[-12 - len(footer_of(data)) - 4 :], packed)
    reader = CFileReader(file)
    assert dict(reader.metadata.pairs) == {"in header": b"", "key": b"\xff value"}
    assert reader.read().to_pylist() == [[1], None]


@pytest.mark.parametrize("element_type", [t for t, _, _ in ELEMENTS], ids=str)
def test_element_type_comes_back(element_type: pa.DataType) -> None:
    array = pa.array([[None], None], pa.list_(element_type))
    assert CFileReader(written(array)).element_type == element_type


def test_any_time_zone_comes_back() -> None:
    for zone in ("America/Argentina/Buenos_Aires", "+05:30", "Etc/GMT+5", "my zone"):
        array = pa.array([[0]], pa.list_(pa.timestamp("us", zone)))
        assert CFileReader(written(array)).element_type == array.type.value_type


@pytest.mark.parametrize("note", [b"decimal128(19, 0)", b"timestamp[us, tz=UTC]", b"int32", b"\xff", b""])
def test_note_that_does_not_fit_the_type(note: bytes) -> None:
    data = written(pa.array([["1.25"]]).cast(pa.list_(pa.decimal128(10, 2))))
    footer = Footer.parse(memoryview(footer_of(data)))
    other = Footer(
        footer.data_type, footer.encoding, 1, footer.index, metadata={"smalti.element_type": note}, features=3
    )
    with pytest.raises(CorruptFileError, match="element type"):
        CFileReader(with_footer(data, other.pack()))


def test_more_cells_than_a_block_may_have() -> None:
    """Runs could hold them, but the reader's limit is the writer's, too."""
    array = pa.nulls((1 << 24) + 5, pa.list_(pa.int8()))
    reader = CFileReader(written(array))
    assert [entry.ordinal for entry in reader.blocks] == [0, 1 << 24]
    assert [a.null_count for a in reader.iter_arrays()] == [1 << 24, 5]


def test_words_of_plain_blocks_are_aligned_for_arrow() -> None:
    for lead in range(8):  # moves the data part by a byte each
        array = pa.array([[1, 2]] + [[]] * (1 << lead), pa.list_(pa.int64()))
        values = CFileReader(written(array, encoding="plain")).read().values
        assert values.buffers()[1].address % 8 == 0
        assert values.to_pylist() == [1, 2]


def test_type_of_kudus_own_decimals_is_the_callers_to_know() -> None:
    data = written(pa.array([["1.25"]]).cast(pa.list_(pa.decimal128(10, 2))))
    footer = Footer.parse(memoryview(footer_of(data)))
    kudus = with_footer(
        data,
        Footer(footer.data_type, footer.encoding, 1, footer.index, nullable=True, features=3, is_array=True).pack(),
    )
    assert CFileReader(kudus).element_type == pa.decimal128(18, 0)
    assert str(CFileReader(kudus, element_type=pa.decimal128(10, 2)).read()[0].as_py()) == "[Decimal('1.25')]"
    with pytest.raises(SchemaError, match="another element type"):
        CFileReader(kudus, element_type=pa.int64())


class TestWriter:
    def test_nulls_in_a_column_that_is_not_nullable(self) -> None:
        array = pa.array([[1, None], []], INT32)
        reader = CFileReader(written(array, nullable=False))
        assert not reader.metadata.nullable
        assert reader.read().equals(array)
        with pytest.raises(SchemaError, match="not nullable"):
            written(pa.array([None], INT32), nullable=False)

    def test_other_types_are_refused(self) -> None:
        writer = CFileWriter(io.BytesIO(), pa.int32())
        for array in (pa.array([[1]], pa.list_(pa.int64())), pa.array([1], pa.int32())):
            with pytest.raises(SchemaError, match="does not fit"):
                writer.write(array)
        for options in ({"block_size": 100}, {"encoding": "dict"}, {"compression": "brotli"}):
            with pytest.raises(SchemaError):
                CFileWriter(io.BytesIO(), pa.int32(), **options)

    def test_lists_of_all_kinds_in_one_column(self) -> None:
        file = io.BytesIO()
        with CFileWriter(file, pa.string()) as writer:
            writer.write(pa.array([["a"], None]))
            writer.write(pa.array([["b"]], pa.large_list(pa.large_string())))
            writer.write(pa.array([["c", None], None], pa.list_(pa.string(), 2)))
        assert CFileReader(file).read().to_pylist() == [["a"], None, ["b"], ["c", None], None]

    def test_too_long_an_array_leaves_no_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.cfile"
        with pytest.raises(SchemaError, match="65536"), CFileWriter(path, pa.int8()) as writer:
            writer.write(pa.array([[1] * 65536], pa.list_(pa.int8())))
        assert list(tmp_path.iterdir()) == []

    def test_what_does_not_fit_is_refused_at_once_and_writing_goes_on(self) -> None:
        file = io.BytesIO()
        with CFileWriter(file, pa.timestamp("us")) as writer:
            writer.write(pa.array([[1]], pa.list_(pa.timestamp("s"))))
            for bad in ([[1]], [[0] * 65536]):
                with pytest.raises(SchemaError):
                    writer.write(pa.array(bad, pa.list_(pa.timestamp("ns"))))
            writer.write(pa.array([[2000], None], pa.list_(pa.timestamp("ns"), 1)))
            assert writer.num_values == 3
        assert CFileReader(file).read().cast(pa.list_(pa.int64())).to_pylist() == [[1_000_000], [2], None]

    def test_closed(self) -> None:
        writer = CFileWriter(io.BytesIO(), pa.int32())
        writer.close()
        writer.close()
        with pytest.raises(ValueError, match="closed"):
            writer.write(pa.array([[1]], INT32))

    @pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
    def test_text_that_no_reader_takes_is_refused(self, type_: pa.DataType) -> None:
        width = 4 if type_ == pa.string() else 8
        offsets = pa.py_buffer((0).to_bytes(width, "little") + (1).to_bytes(width, "little"))
        text = pa.Array.from_buffers(type_, 1, [None, offsets, pa.py_buffer(b"\xff")])
        for array in (text, pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), text)):
            nested = pa.types.is_list(array.type)
            with pytest.raises(SchemaError, match="UTF"), CFileWriter(io.BytesIO(), type_, array=nested) as writer:
                writer.write(array)
            with CFileWriter(io.BytesIO(), pa.binary(), array=False) as writer:
                writer.write(text.view(pa.binary() if width == 4 else pa.large_binary()))

    def test_a_writer_that_is_dropped_leaves_nothing(self, tmp_path: Path) -> None:
        gc.disable()  # Who drops it last must be enough.
        try:
            writer = CFileWriter(tmp_path / "a.cfile", pa.int32(), block_size=512)
            writer.write(pa.array([list(range(1000))] * 5, INT32))
            assert len(list(tmp_path.iterdir())) == 1
            del writer
            assert list(tmp_path.iterdir()) == []
        finally:
            gc.enable()

    def test_a_writer_that_failed_stays_failed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who closes it afterwards must not believe that there is a file."""
        writer = CFileWriter(tmp_path / "a.cfile", pa.int32(), block_size=512)

        def full(_: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(writer._sink, "write", full)
        with pytest.raises(OSError, match="No space"):
            writer.write(pa.array([list(range(1000))], INT32))
        for call in (writer.close, lambda: writer.write(pa.array([[1]], INT32))):
            with pytest.raises(MosaicError, match=r"failed earlier.*No space"):
                call()
        assert list(tmp_path.iterdir()) == []

    def test_little_at_a_time_is_not_slow(self) -> None:
        """One cell a call: what waits is not looked at again each time."""
        cells = [pa.array([[i]], INT32) for i in range(5000)]
        file = io.BytesIO()
        with CFileWriter(file, pa.int32(), encoding="rle") as writer:
            for cell in cells:
                writer.write(cell)
            assert len(writer._waiting) > 4000
        assert CFileReader(file).read().flatten().to_pylist() == list(range(5000))


def test_error_says_which_file_block_and_part(tmp_path: Path) -> None:
    path = tmp_path / "broken.cfile"
    data = bytearray(written(pa.array([[i] for i in range(300)], INT32), encoding="plain", block_size=512))
    data[700] ^= 1
    path.write_bytes(data)
    with CFileReader(path) as reader, pytest.raises(CorruptFileError) as broken:
        reader.read()
    assert broken.value.place["path"] == str(path)
    assert broken.value.place["section"].startswith("data block 1 at byte ")
    assert "checksum" in str(broken.value)


def test_missing_file_stays_what_python_calls_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        CFileReader(tmp_path / "none.cfile")
