"""What is fuzzed: for each target a function that takes bytes, and the bytes of the goldens that it begins with.

A target may raise `MosaicError` and nothing else. What it reads must hold together: values are valid Arrow data, and
what can be written again reads as the same.
"""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
import zstandard

import smalti
from smalti._core.index import RowGroupIndex
from smalti._core.schema import SchemaBlock
from smalti.file.rewriting import GroupSource, rewrite_file
from smalti.format.bucket import pack_directory, pack_slots, parse_directory
from smalti.format.companion import ENVELOPE_SIZE, pack_companion, split_section
from smalti.format.compression import deflate
from smalti.format.footer import Footer
from smalti.format.index import MONOLITHIC, PAGED, BucketEntry, pack_row_group
from smalti.format.schema import pack_schema_section, parse_schema_section
from smalti.kudu import CFileReader, CFileWriter, decode_array_block, encode_array_block
from smalti.predicate.text import parse_where
from smalti.spec import Compression
from smalti.table.records import Addition, Checkpoint, Commit, FileId, Hidden, Removal, parse_record
from tests.support.compare import assert_same
from tests.support.files import written
from tests.support.golden import GOLDEN_FILES, golden_bytes
from tests.support.tables import matrix

Target = Callable[[bytes], None]
#: Files that ask for more cells are left to the tests of the memory limit.
MAX_CELLS = 1 << 15
MAX_SEED = 4_000

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("big", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("price", pa.decimal128(12, 2)),
        ("wide", pa.decimal128(30, 5)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("real", pa.float64()),
        ("list", pa.list_(pa.int16())),
        ("map", pa.map_(pa.string(), pa.int8())),
    ]
)


# --- targets --------------------------------------------------------------------------------------------------------


def whole_file(data: bytes) -> None:
    with smalti.open(data) as file:
        if file.num_rows * max(1, file.num_columns) > MAX_CELLS:
            return
        for number in range(file.num_row_groups):
            _ = file.row_group(number).statistics
        table = file.read()
        table.validate(full=True)
        assert table.num_rows == file.num_rows
        assert len(file.layout().row_groups) == file.num_row_groups


def rewrite(data: bytes) -> None:
    """A file made of the columns of another one is refused wherever that one is, and else reads as the same.

    A damaged frame is copied, because nothing is decompressed that need not be: then reading refuses both.
    """
    with smalti.open(data) as file:
        if file.num_rows * max(1, file.num_columns) > MAX_CELLS:
            return
        names = file.column_names[::-1][: max(1, file.num_columns - 1)]
        fields = [file.schema.field(name) for name in names]
        schema = pa.schema([*fields, pa.field(_unused_name(names), pa.int64())], file.schema.metadata)
        groups = [
            GroupSource(file, group, fresh=pa.table({schema.names[-1]: range(file.row_group(group).num_rows)}))
            for group in range(file.num_row_groups)
        ]
        out = io.BytesIO()
        rewrite_file(out, schema, groups)
        with smalti.open(out.getvalue()) as made:
            assert made.num_rows == file.num_rows
            try:
                found = made.read(columns=names)
            except smalti.MosaicError:
                with contextlib.suppress(smalti.MosaicError):
                    rewrite_file(io.BytesIO(), schema, groups, verify=True)
                    raise AssertionError("what was verified cannot be read") from None
                raise
        expected = file.read(columns=names)
        assert_same(found.replace_schema_metadata(None), expected.replace_schema_metadata(None))
        rewrite_file(io.BytesIO(), schema, groups, verify=True)


def _unused_name(names: list[str]) -> str:
    return max(names, key=len, default="") + "+"


def schema_block(data: bytes) -> None:
    block = SchemaBlock(data)
    if block.num_columns > 10_000:
        return
    names = block.names()
    assert block.find(names) == list(range(block.num_columns))
    assert sorted(block.column_order()) == list(range(block.num_columns))
    pa.Schema._import_from_c_capsule(block.arrow_schema(list(range(len(names))), names))
    assert sum(block.physical_columns(bucket).num_columns for bucket in _buckets(block)) == block.num_columns


def _buckets(block: SchemaBlock) -> range:
    return range(block.num_buckets if block.num_columns else 0)


def index(data: bytes) -> None:
    """One byte says how many row groups there are, and whether their buckets are compressed."""
    groups, compressed = (data[0] >> 1 if data else 0), bool(data and data[0] & 1)
    found = RowGroupIndex(data[1:], _block(), groups, 1 << 16, compressed)
    assert sum(found.rows(group) for group in range(groups)) == found.num_rows
    for group in range(groups):
        for bucket in _buckets(_block()):
            found.bucket(group, bucket)
        every = found.statistics(group)
        assert len(every) == found.num_statistics(group)
        for column in {record[0] for record in every}:
            assert found.statistics(group, {column}) == [record for record in every if record[0] == column]


def bucket(data: bytes) -> None:
    """Two bytes say how many rows there are, the rest is the block of a bucket; a file is put around it."""
    if len(data) >= 2:
        whole_file(_file(data[2:], MONOLITHIC, struct.unpack("<H", data[:2])[0], Compression.NONE))


def pages(data: bytes) -> None:
    """Two bytes for the rows, then for each physical column below a list or map two bytes for its rows, and for all of
    them two bytes for the size of the page, then the pages, before they are compressed."""
    nodes = _block().physical_columns(0)
    children = nodes.num_physical - nodes.num_columns
    head = 2 * (1 + children + nodes.num_physical)
    if len(data) < head:
        return
    rows, *numbers = struct.unpack_from(f"<{head // 2}H", data)
    found: list[bytes | None] = []
    at = head
    for size in numbers[children:]:
        found.append(data[at : at + size] or None)
        at += size
    slots = pack_slots(found, 1, checksum=False)
    blob = pack_directory(numbers[:children], list(map(len, slots))) + b"".join(slots)
    whole_file(_file(blob, PAGED, rows, Compression.ZSTD))


def companion(data: bytes) -> None:
    """The description in a companion, before it is compressed; its checksums are right."""
    file, section, _ = _described()
    with smalti.open(file) as opened:
        footer = opened._tail.footer
    payload = deflate(data, 1, False)
    moved = footer._replace(index_offset=footer.schema_offset + len(section) + ENVELOPE_SIZE + len(payload))
    end = file[footer.index_offset : -len(footer.pack())] + moved.pack()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole_file(file[: footer.schema_offset] + section + pack_companion(payload, end) + end)


def cfile(data: bytes) -> None:
    with CFileReader(data) as reader:
        if reader.num_values > MAX_CELLS:
            return
        array = reader.read()
        array.validate(full=True)
        assert len(array) == reader.num_values


ARRAY_TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.decimal128(20, 3)]
ENCODINGS = ["auto", "plain", "bit_shuffle", "rle"]


def array_block(data: bytes) -> None:
    """The first byte chooses the type and the encoding."""
    if data:
        type_ = ARRAY_TYPES[data[0] % len(ARRAY_TYPES)]
        found = decode_array_block(data[1:], type_, encoding=ENCODINGS[data[0] // len(ARRAY_TYPES) % len(ENCODINGS)])
        found.validate(full=True)


def commit(data: bytes) -> None:
    found = parse_record(data, "table/_mosaic_jobs/commit-0000000000000007.json", 7)
    again = parse_record(found.to_json(), "table/_mosaic_jobs/commit-0000000000000007.json", 7)
    assert again == found


def where(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    smalti.read_table(_template(), filters=parse_where(text, SCHEMA))


TARGETS: dict[str, Target] = {
    "file": whole_file,
    "rewrite": rewrite,
    "schema": schema_block,
    "index": index,
    "bucket": bucket,
    "pages": pages,
    "companion": companion,
    "cfile": cfile,
    "array_block": array_block,
    "commit": commit,
    "where": where,
}


def run(name: str, data: bytes) -> bool:
    """Whether the bytes were accepted; anything but an error of ours is raised."""
    try:
        TARGETS[name](data)
    except smalti.MosaicError:
        return False
    return True


# --- what they begin with -------------------------------------------------------------------------------------------


def _small() -> pa.Table:
    columns = {
        "a": [1, 2, None, 2],
        "big": [1 << 40, 1 << 40, 1 << 40, 1 << 40],
        "text": ["x", "y", "x", None],
        "flag": [True, None, False, True],
        "price": [1, 2, 3, None],
        "wide": [None, None, None, None],
        "day": [1, 2, 3, 4],
        "at": [10, 20, 30, None],
        "real": [0.5, -0.0, None, 2.5],
        "list": [[1, None], [], None, [3]],
        "map": [[("k", 1)], [], None, [("l", None), ("m", 2)]],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


@cache
def _template() -> bytes:
    return written(_small(), compression="none", num_buckets=1)


@cache
def _block() -> SchemaBlock:
    """The schema block that single buckets and indices are read with."""
    with smalti.open(_template()) as file:
        return file._tail.schema


@cache
def _packed_block(codec: Compression) -> bytes:
    """The same as a section of a file."""
    with smalti.open(_template()) as file:
        footer, size = file._tail.footer, file._tail.schema_size
    packed = _template()[footer.schema_offset : footer.index_offset]
    return packed if codec is Compression.NONE else pack_schema_section(size, deflate(packed[-size:], 1, False))


def _file(blob: bytes, mode: str, rows: int, codec: Compression) -> bytes:
    """A file of one row group with one bucket."""
    packed = _packed_block(codec)
    entry = pack_row_group(rows, [BucketEntry(mode, 0, len(blob), len(blob) if mode == MONOLITHIC else 0)], [])
    return blob + packed + entry + Footer(len(blob) + len(packed), len(blob), 1, 1, codec).pack()


def _footer(data: bytes) -> Footer:
    with smalti.open(data) as file:
        return file._tail.footer


def seeds(name: str) -> Iterator[bytes]:
    """Valid bytes for a target, most of them from the goldens."""
    yield from _SEEDS[name]()


def _goldens() -> Iterator[bytes]:
    for name in GOLDEN_FILES:
        if len(data := golden_bytes(name)) <= MAX_SEED:
            yield data
    yield written(_small(), compression="none", num_buckets=3, stats_columns="all")
    yield written(_small(), compression="none", num_buckets=2, row_group_max_rows=2)
    yield written(_small(), num_buckets=3, page_size_threshold=0)
    yield written(matrix(3, 7).select(range(12)), compression="none", num_buckets=2)


def _schemas() -> Iterator[bytes]:
    for data in [golden_bytes(name) for name in GOLDEN_FILES]:
        footer = _footer(data)
        block = parse_schema_section(data[footer.schema_offset : footer.index_offset], footer.compression)
        if len(block) <= MAX_SEED:
            yield bytes(block)


def _indices() -> Iterator[bytes]:
    for options in ({}, {"stats_columns": "all"}, {"row_group_max_rows": 1, "stats_columns": ["text"]}):
        data = written(_small(), compression="none", num_buckets=1, **options)  # type: ignore[arg-type]
        footer = _footer(data)
        yield bytes([footer.num_row_groups << 1]) + data[footer.index_offset : -len(footer.pack())]


def _bucket_bytes() -> Iterator[bytes]:
    for table in (_small(), pa.concat_tables([_small()] * 20), _small().slice(0, 1)):
        data = written(table, compression="none", num_buckets=1, page_size_threshold=1 << 30)
        yield struct.pack("<H", table.num_rows) + data[: _footer(data).schema_offset]


def _pages() -> Iterator[bytes]:
    nodes = _block().physical_columns(0)
    for table in (_small(), pa.concat_tables([_small()] * 20)):
        data = written(table, num_buckets=1, page_size_threshold=0)
        blob = data[: _footer(data).schema_offset]
        directory = parse_directory(blob, nodes, len(blob), list(range(nodes.num_physical)))
        opened = [_open_slot(blob[offset : offset + size]) for offset, size in directory.slots]
        numbers = [table.num_rows, *directory.child_rows, *map(len, opened)]
        yield struct.pack(f"<{len(numbers)}H", *numbers) + b"".join(opened)


def _open_slot(slot: bytes) -> bytes:
    """The page in a slot, after the size that is before it."""
    start = next((at + 1 for at, byte in enumerate(slot) if byte < 0x80), 0)
    return zstandard.ZstdDecompressor().decompressobj().decompress(slot[start:]) if slot else b""


@cache
def _described() -> tuple[bytes, bytes, bytes]:
    """A file whose columns are more than what is stored, the section of its schema block, and its description."""
    struct_ = pa.array([{"x": 1, "y": "a"}, None], pa.struct([("x", pa.uint16()), ("y", pa.string())]))
    words = pa.array(["p", "q"]).dictionary_encode()
    big = pa.array(["l", None], pa.large_string())
    file = written(pa.table({"s": struct_, "d": words, "u": pa.array([1, 2], pa.uint8()), "b": big}), num_buckets=1)
    with smalti.open(file) as opened:
        footer, found = opened._tail.footer, opened._tail.companion
    assert found is not None
    section, _ = split_section(file[footer.schema_offset : footer.index_offset])
    return file, section, zstandard.decompress(found.payload)


def _descriptions() -> Iterator[bytes]:
    yield _described()[2]


def _cfiles() -> Iterator[bytes]:
    columns = [
        (pa.int32(), [[1, 2], [], None, [3, None]]),
        (pa.string(), [["a", "b"], None, ["a"]]),
        (pa.bool_(), [[True], [False, None]]),
        (pa.decimal128(20, 3), [[1], None]),
    ]
    for type_, values in columns:
        for encoding in ("auto", "plain", "rle"):
            for compression in (None, "lz4"):
                for array in (True, False):
                    cells = values if array else [cell[0] if cell else None for cell in values]
                    file = io.BytesIO()
                    try:
                        with CFileWriter(
                            file, type_, encoding=encoding, compression=compression, array=array, checksum=False
                        ) as writer:
                            writer.write(pa.array(cells, pa.list_(type_) if array else type_))
                    except smalti.MosaicError:  # not every type has every encoding
                        continue
                    yield file.getvalue()


def _array_blocks() -> Iterator[bytes]:
    for number, type_ in enumerate(ARRAY_TYPES):
        for choice, encoding in enumerate(ENCODINGS):
            values = [["a", "bb"], [], None] if type_ == pa.string() else [[True, None], [], None]
            if type_ not in (pa.string(), pa.bool_()):
                values = [[1, 2, None], [], None]
            try:
                block = encode_array_block(pa.array(values, pa.list_(type_)), encoding=encoding)
            except smalti.MosaicError:
                continue
            yield bytes([number + choice * len(ARRAY_TYPES)]) + bytes(block)


def _commits() -> Iterator[bytes]:
    staged = "_mosaic_jobs/j1/t7/day=3/part-0.mosaic"
    removed = (Removal("old.mosaic"), Removal("a", None, True), Removal("b", FileId(3, "etag")))
    yield Commit("j1", (Addition(staged, "day=3/part-0.mosaic", 9),), removed, time=5, keep=7, number=7).to_json()
    yield Commit("j1", stream="s", batch=3, note={"rows": [1, None]}, discard=("j2",), number=7).to_json()
    yield Checkpoint({"a": Hidden(5), "b": Hidden(6, FileId(7, "8"))}, {"q": 3}).to_json()


def _conditions() -> Iterator[bytes]:
    texts = [
        "a = 1 and (text in ('x', 'y') or not flag)",
        "price >= 1.5 or day >= '2024-01-01' and at < '2024-01-01T00:00:00'",
        "flag = true and real != -1e3",
        'big is not null or "wide" is null',
        "a in (1, 2, -3) and text <> 'it''s'",
    ]
    yield from (text.encode() for text in texts)


_SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "file": _goldens,
    "rewrite": _goldens,
    "schema": _schemas,
    "index": _indices,
    "bucket": _bucket_bytes,
    "pages": _pages,
    "companion": _descriptions,
    "cfile": _cfiles,
    "array_block": _array_blocks,
    "commit": _commits,
    "where": _conditions,
}
