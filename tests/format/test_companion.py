"""The companion against damage, strangers and enemies: what it cannot mean is an error, or for others a warning."""

from __future__ import annotations

import random
import struct
import warnings
from collections.abc import Iterator
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

import smalti
from smalti.format import companion
from smalti.format.compression import deflate
from smalti.format.varint import pack_sized, pack_varint
from tests.support.files import read, written
from tests.support.older_arrow import uuids

TABLE = pa.table(
    {
        "plain": pa.array([1, 2, 3], pa.int64()),
        "u8": pa.array([1, None, 255], pa.uint8()),
        "word": pa.array(["a", None, "b"]).dictionary_encode(),
        "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        "id": uuids([bytes(16), None, b"x" * 16]),
        "user": pa.array([{"age": 3, "tags": ["x"]}, None, {"age": None, "tags": []}]),
        "events": pa.array([[{"at": 1, "what": "x"}], None, []]),
        "by": pa.array([[("k", {"n": 1})], None, []], pa.map_(pa.string(), pa.struct([("n", pa.int8())]))),
    },
).replace_schema_metadata({"owner": "me"})


def parts(data: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Row groups and schema block; the payload; the index; the footer."""
    footer = data[-32:]
    index_at, schema_at = struct.unpack(">QQ", footer[:16])
    section, found = companion.split_section(data[schema_at:index_at])
    assert found is not None
    return data[:schema_at] + section, found.payload, data[index_at:-32], footer


def with_payload(data: bytes, payload: bytes, *, version: int = 1, writer: int = 0) -> bytes:
    """The file with another companion, all checksums and offsets of which are right."""
    before, _, index, footer = parts(data)
    size = companion.ENVELOPE_SIZE + len(payload)
    end = index + struct.pack(">Q", len(before) + size) + footer[8:]
    head = struct.pack("<II", 0x184D2A5D, size - 8)
    body = head + struct.pack(">4sBBI", b"SMLT", version, writer, google_crc32c.value(end)) + payload
    return before + body + struct.pack(">II4s", google_crc32c.value(body), size, b"SMLT") + end


@pytest.fixture(scope="module")
def data() -> bytes:
    return written(TABLE, row_group_max_rows=2)


@pytest.fixture(scope="module")
def stored(data: bytes) -> pa.Table:
    with smalti.open(data, logical=False) as file:
        return file.read()


def test_the_helper_makes_the_file_that_the_writer_makes(data: bytes) -> None:
    assert with_payload(data, parts(data)[1]) == data
    assert read(data).equals(TABLE, check_metadata=True)


def test_an_unknown_version_is_passed_over_with_a_warning(data: bytes, stored: pa.Table) -> None:
    with pytest.warns(UserWarning, match="its version is 2, this is 1"):
        assert read(with_payload(data, b"whatever", version=2)).equals(stored)


def payload(
    schema: pa.Schema,
    names: dict[int, tuple[str, ...]] | None = None,
    entries: dict[str, pa.Array] | None = None,
    after: bytes = b"",
) -> bytes:
    packed = companion.pack_description(companion.Description(schema, names or {}, entries or {}))
    return raw(_content(packed) + after) if after else packed


def raw(content: bytes) -> bytes:
    return deflate(content, 3, True)


def stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_batch(batch)
    return sink.getvalue().to_pybytes()


def schema_of(*fields: pa.Field) -> pa.Schema:
    return pa.schema(fields)


U8 = schema_of(pa.field("u8", pa.uint8()))
WORD = schema_of(TABLE.schema.field("word"))
NESTED = pa.int8()
for _ in range(40):
    NESTED = pa.list_(NESTED)


def message(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize().to_pybytes())


def broken() -> Iterator[Any]:
    """(payload, what the error says)"""
    text, in_struct = message(U8), message(schema_of(pa.field("plain", pa.struct(list(U8)))))
    lists = pa.RecordBatch.from_arrays([pa.array([["a", "b"]])], names=["word"])
    none = pack_varint(len(message(WORD))) + message(WORD) + b"\0"
    for name, packed, match in (
        ("no zstd", b"not zstd at all", "companion"),
        ("a huge size", bytes.fromhex("28b52ffde0") + b"\xff" * 7 + b"\x7f" + b"\0" * 9, "too large"),
        ("more than zstd can expand", bytes.fromhex("28b52ffda0") + struct.pack("<I", 60 << 20), "zstd"),
        ("nothing in it", raw(b""), "cut"),
        ("a schema that is cut", raw(pack_varint(len(text)) + text[:-9]), "cut"),
        ("a schema that is none", raw(pack_varint(40) + b"\xff" * 40), "cannot be read"),
        ("a size without end", raw(b"\xff" * 9), "too long"),
        ("many names", raw(pack_varint(len(text)) + text + b"\xff\xff\xff\xff\x0f"), "cut"),
        ("a name that is no text", raw(pack_varint(len(text)) + text + b"\x01\x00\x01\x01\xff"), "cannot be read"),
        ("a field that is no text", raw(pack_varint(len(text)) + text.replace(b"u8", b"\xff\xfe") + b"\0"), "cannot"),
        ("a field of a struct, no text", raw(pack_sized(in_struct.replace(b"u8", b"\xff\xfe")) + b"\0"), "utf-8"),
        ("a column that is not there", payload(schema_of(pa.field("nope", pa.uint8()))), "expects another column"),
        ("another type", payload(schema_of(pa.field("plain", pa.uint8()))), "expects another column"),
        ("another stored name", payload(U8, {0: ("nope",)}), "gives two columns one name"),
        ("too many stored names", payload(U8, {0: ("u8", "plain")}), "another number of columns"),
        ("one column twice", payload(schema_of(U8.field(0), pa.field("x", pa.uint8())), {1: ("u8",)}), "twice"),
        ("two columns of one name", payload(schema_of(U8.field(0), U8.field(0))), "of one name"),
        ("the name of another column", payload(schema_of(pa.field("plain", pa.uint8())), {0: ("u8",)}), "one name"),
        ("a type without a place", payload(schema_of(pa.field("u8", pa.month_day_nano_interval()))), "no place"),
        ("too many levels", payload(schema_of(pa.field("u8", NESTED))), "nested too deep"),
        ("a dictionary for numbers", payload(U8, None, {"u8": pa.array([1])}), "dictionary of another type"),
        ("a dictionary of numbers", payload(WORD, None, {"word": pa.array([1])}), "dictionary of another type"),
        ("a dictionary that lacks a value", payload(WORD, None, {"word": pa.array(["a"])}), "missing from the dict"),
        ("too many entries", payload(WORD, None, {"word": pa.array(map(str, range(70_000)))}), "no such dictionary"),
        ("entries that are null", payload(WORD, None, {"word": pa.nulls(9, pa.string())}), "no such dictionary"),
        ("no stream", raw(none + b"\xff" * 30), "companion"),
        ("a stream without a batch", raw(none + stream(lists)[:100]), "companion"),
        ("bytes after the stream", raw(none + stream(lists) + b"\0" * 8), "no stream of one batch"),
        ("a compressed stream", raw(none + stream(lists, compression="zstd")), "compressed once more"),
        ("no lists", raw(none + stream(pa.record_batch({"word": ["a"]}))), "are not lists"),
        ("lists of another size", payload(schema_of(pa.field("vector", pa.list_(pa.float32(), 3)))), "fixed size"),
        (
            "an extension type that cannot be read",
            payload(schema_of(pa.field("u8", pa.int16(), metadata={
                "ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": "{"}))),
            "cannot be read",
        ),
    ):  # fmt: skip
        yield pytest.param(packed, match, id=name)


@pytest.mark.parametrize(("packed", "match"), list(broken()))
def test_what_a_companion_cannot_say(data: bytes, stored: pa.Table, packed: bytes, match: str) -> None:
    """Of our own writer it is an error; what another writer means by it is not ours to say, unless values are wrong."""
    with pytest.raises(smalti.MosaicError, match=match):
        read(with_payload(data, packed))
    with smalti.open(with_payload(data, packed), logical=False) as file:
        assert file.read().equals(stored)
    if match in ("missing from the dict", "fixed size"):
        with pytest.raises(smalti.CorruptFileError, match=f"{match}|does not fit what the companion says"):
            read(with_payload(data, packed, writer=7))
    else:
        with pytest.warns(UserWarning, match="the companion of a Mosaic file is not used"):
            assert read(with_payload(data, packed, writer=7)).equals(stored)


def test_values_of_a_fixed_size_need_room() -> None:
    """Nulls take no bytes in the file, whatever size the companion claims for them."""
    table = pa.table({"v": pa.nulls(9, pa.list_(pa.int64(), 2)), "b": pa.nulls(9, pa.binary(2))})
    data = written(table)
    for field in (pa.field("v", pa.list_(pa.int64(), 1 << 30)), pa.field("b", pa.binary((1 << 28) - 1))):
        with pytest.raises(smalti.CorruptFileError, match="fixed size are too large"):
            read(with_payload(data, payload(schema_of(field))))


@pytest.mark.parametrize(
    ("stored", "claimed"),
    [
        (pa.binary(), pa.binary(2_000_000)),
        (pa.list_(pa.int64()), pa.list_(pa.int64(), 250_000)),
        (pa.list_(pa.binary()), pa.list_(pa.binary(2_000_000), 1)),
    ],
    ids=str,
)
def test_nulls_of_a_fixed_size_count_against_the_memory_limit(stored: pa.DataType, claimed: pa.DataType) -> None:
    """The like of this, 984 bytes that claim 20 columns of nulls of 100 MB each, took more than 10 GB."""
    names = [f"c{i}" for i in range(20)]
    data = written(pa.table({name: pa.nulls(4, stored) for name in names}))
    described = companion.Description(pa.schema([(name, claimed) for name in names]), {}, {})
    hostile = with_payload(data, companion.pack_description(described))
    assert len(hostile) < 2000
    with smalti.open(hostile, memory_limit=32_000_000) as file:
        with pytest.raises(smalti.MemoryLimitError, match="memory_limit raises it"):
            file.read()
        assert file.read(["c3"]).num_rows == 4
        with pytest.raises(smalti.MemoryLimitError):
            list(file.iter_batches(1))


def test_values_that_a_companion_cannot_mean_are_an_error_of_filters_too() -> None:
    data = written(pa.table({"x": pa.array([b"a", None]), "t": pa.array([-1, 5], pa.int64())}))
    claimed = pa.schema([("x", pa.decimal256(50, 2)), ("t", pa.time64("us"))])
    hostile = with_payload(data, companion.pack_description(companion.Description(claimed, {}, {})))
    for name in claimed.names:
        with pytest.raises(smalti.CorruptFileError, match="does not fit"):
            read(hostile, columns=[name])
        with pytest.raises(smalti.CorruptFileError, match="does not fit"):
            read(hostile, columns=[], filters=[(name, "!=", None)])


def test_damage_of_the_frame_itself(data: bytes) -> None:
    """Every byte of the frame, and of index and footer behind it, is under a checksum."""
    before, packed, index, footer = parts(data)
    assert data == with_payload(data, packed)
    start = len(before)
    for at in range(start, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(smalti.MosaicError):
            read(bytes(damaged))
    assert len(data) - start == companion.ENVELOPE_SIZE + len(packed) + len(index) + len(footer)


def test_a_hostile_companion_raises_nothing_but_our_errors(data: bytes) -> None:
    """Bytes of the description are changed, cut, doubled and moved, with all checksums right."""
    content = _content(parts(data)[1])
    choose = random.Random(14)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(2000):
        mutated = bytearray(content)
        for _ in range(choose.choice([1, 1, 2, 8])):
            at = choose.randrange(len(mutated))
            kind = choose.randrange(5)
            if kind == 0:
                mutated[at] = choose.randrange(256)
            elif kind == 1:
                mutated[at] ^= 1 << choose.randrange(8)
            elif kind == 2:
                del mutated[at : at + choose.choice([1, 4, 30])]
            elif kind == 3:
                mutated[at:at] = mutated[at : at + choose.choice([1, 4, 30])]
            else:
                mutated[at : at + 4] = struct.pack("<i", choose.choice([-1, 0, 1, 2**31 - 1, -(2**31), 64]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read(with_payload(data, raw(bytes(mutated))))
            found.validate(full=True)
            outcomes["read"] += 1
        except smalti.MosaicError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 1000
    assert outcomes["read"] > 50  # A changed name of a nested field, or a piece of metadata, may stand.


def _content(packed: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(packed)


def test_entries_stop_where_they_would_be_too_large_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the values decide the entries; metadata that is too large is refused before there is a file."""
    large = pa.array([f"{i:02d}" * 500_000 for i in range(17)])
    table = pa.table({"x": large.dictionary_encode(), "y": pa.array(["b", "a"] * 8 + ["b"]).dictionary_encode()})
    found = read(written(table))
    assert found.equals(table)
    batches = [pa.record_batch({"x": pa.array([str(i) for i in range(at, at + 40_000)]).dictionary_encode()})
               for at in (0, 40_000)]  # fmt: skip
    many = pa.Table.from_batches(batches)
    assert read(written(many))["x"].cast(pa.string()).equals(many["x"].cast(pa.string()))
    monkeypatch.setattr(companion, "MAX_PAYLOAD", 10_000)
    with pytest.raises(smalti.SchemaError, match="too large"):
        written(pa.table({"x": [1]}).replace_schema_metadata({"k": bytes(10_000)}))


def test_the_layout_and_the_summary_tell_of_it(data: bytes) -> None:
    before, packed, index, footer = parts(data)
    with smalti.open(data) as file:
        layout = file.layout([])
    found = layout.companion
    assert found is not None
    assert (found.offset, found.size) == (len(before), companion.ENVELOPE_SIZE + len(packed))
    assert found.offset + found.size == layout.index.offset == len(data) - len(footer) - len(index)
    assert found.uncompressed_size == len(_content(packed))
    assert "types and metadata as they were given" in layout._repr_html_()
    for options, words in (
        ({}, "30 bytes: a checksum"),
        ({"companion": False}, "none"),
        ({"compression": "none"}, "none"),
    ):
        with smalti.open(written(pa.table({"x": [1]}), **options)) as file:
            assert file.layout([]).companion_in_words.startswith(words)
    with smalti.MosaicWriter(pa.BufferOutputStream(), TABLE.schema) as writer:
        writer.write(TABLE)
    assert writer.summary is not None
    assert '<td style="text-align:left">u8: int16</td>' in writer.summary._repr_html_()


def coded(start: int, count: int, type_: pa.DataType) -> pa.Array:
    """Texts that no other start gives, as a dictionary with narrow indices."""
    entries = pa.array([f"{start + i}" for i in range(count)])
    return pa.DictionaryArray.from_arrays(pa.array(range(count), type_), entries)


def runs(rows: int) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows - 1, rows], pa.int16()), pa.array(["x", None]))


def in_structs(array: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([array], ["f"])


def in_lists(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 1, len(array)], pa.int32()), array)


@pytest.mark.parametrize("wrap", [lambda array: array, in_structs, in_lists], ids=["plain", "structs", "lists"])
@pytest.mark.parametrize(
    ("one", "other", "narrow", "wide"),
    [
        (coded(0, 100, pa.int8()), coded(500, 28, pa.int8()), "indices=int8", None),
        (coded(0, 100, pa.int8()), coded(500, 29, pa.int8()), "indices=int8", "indices=int16"),
        (coded(0, 200, pa.uint8()), coded(500, 56, pa.uint8()), "indices=uint8", None),
        (coded(0, 200, pa.uint8()), coded(500, 57, pa.uint8()), "indices=uint8", "indices=int16"),
        (runs(17_000), runs(15_767), "run_ends: int16", None),
        (runs(17_000), runs(15_768), "run_ends: int16", "run_ends: int32"),
    ],
)
def test_batches_that_are_more_together_than_their_type_can_count(
    wrap: Any, one: pa.Array, other: pa.Array, narrow: str, wide: str | None
) -> None:
    """Each batch is good by itself, but they become one row group, which could not be read."""
    given = pa.Table.from_batches([pa.record_batch([wrap(array)], ["x"]) for array in (one, other)])
    assert narrow in str(given.schema)
    found = read(written(given))
    found.validate(full=True)
    assert found["x"].to_pylist() == given["x"].to_pylist()
    assert (wide or narrow) in str(found.schema)


def test_entries_that_are_not_kept_need_no_wider_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smalti.logical.intake.MAX_ENTRY_BYTES", 100)
    same = coded(0, 100, pa.int8())
    for arrays, expected in (([same, same], pa.int8()), ([same, coded(500, 29, pa.int8())], pa.int16())):
        given = pa.Table.from_batches([pa.record_batch([array], ["x"]) for array in arrays])
        found = read(written(given))
        assert found["x"].to_pylist() == given["x"].to_pylist()
        assert found["x"].type.index_type == expected


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()])
def test_entries_that_are_equal_and_not_the_same(type_: pa.DataType) -> None:
    """0.0 equals -0.0; a file with only one of them in its dictionary could not be read."""
    values = [0.0, -0.0, float("nan"), 1.0, -0.0]
    arrays = [pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([v]).cast(type_)) for v in values]
    given = pa.Table.from_batches([pa.record_batch([array], ["x"]) for array in arrays])
    found = read(written(given))
    assert found.schema == given.schema
    assert repr([float(value) for value in found["x"].to_pylist()]) == repr(values)
