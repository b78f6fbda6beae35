"""Reads a valid file whole: values as Arrow, layout as a tree with the names smalti's `layout()` uses."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import zstandard

from tests.support.oracle.columns import build, slots
from tests.support.oracle.encodings import NAMES, Decoder
from tests.support.oracle.names import expand, read_rules
from tests.support.oracle.statistics import read_records
from tests.support.oracle.types import read_field
from tests.support.oracle.wire import Cursor, unpack_bits
from tests.support.oracle.writer import bucket_fields


@dataclass
class ColumnLayout:
    name: str
    path: str
    encoding: str
    has_nulls: bool
    dict_entries: int
    num_values: int
    size: int
    stored_size: int | None


@dataclass
class BucketLayout:
    id: int
    mode: str
    offset: int
    size: int
    uncompressed_size: int
    columns: list[ColumnLayout]


@dataclass
class RowGroupLayout:
    index: int
    num_rows: int
    num_statistics: int
    buckets: list[BucketLayout]


@dataclass
class FileLayout:
    size: int
    compression: str
    num_columns: int
    num_buckets: int
    num_row_groups: int
    name_encoding: str
    bpe_rules: int
    row_groups: list[RowGroupLayout] = field(default_factory=list)


@dataclass
class OracleFile:
    """`statistics` has one {column: (null count, minimum cell, maximum cell)} per row group."""

    schema: pa.Schema
    batches: list[pa.RecordBatch]
    statistics: list[dict[str, tuple[int, Any, Any]]]
    layout: FileLayout

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, self.schema)


def read(data: bytes) -> OracleFile:
    index_offset, schema_offset, num_buckets, num_groups, zstd, version = struct.unpack_from(
        ">QQIIBB", data, len(data) - 32
    )
    assert data[-4:] == b"MOSA"
    assert version == 1
    assert zstd in (0, 1)
    block = _inflate(data[schema_offset + 4 : index_offset], zstd)
    assert len(block) == struct.unpack_from(">I", data, schema_offset)[0]
    fields, order, rules = _schema(Cursor(block), num_buckets)
    schema = pa.schema([fields[at] for at in order])
    layout = FileLayout(
        size=len(data),
        compression=("none", "zstd")[zstd],
        num_columns=len(fields),
        num_buckets=num_buckets,
        num_row_groups=num_groups,
        name_encoding="front" if rules is None else "bpe",
        bpe_rules=len(rules or ()),
    )
    result = OracleFile(schema, [], [], layout)
    cursor = Cursor(data[: len(data) - 32], index_offset)
    for number in range(num_groups):
        group = RowGroupLayout(number, cursor.uv(), 0, [])
        columns: dict[str, pa.Array] = {}
        for _ in range(cursor.uv()):
            entry = (cursor.uv(), cursor.be(8), cursor.uv(), cursor.uv())
            mine = bucket_fields(fields, num_buckets, entry[0])
            bucket, arrays = _bucket(data, entry, mine, group.num_rows, zstd)
            group.buckets.append(bucket)
            columns.update(zip([field.name for field in mine], arrays, strict=True))
        result.statistics.append(read_records(cursor, fields, group.num_rows))
        group.num_statistics = len(result.statistics[-1])
        layout.row_groups.append(group)
        result.batches.append(_batch(schema, columns, group.num_rows))
    assert cursor.left == 0
    return result


def _inflate(data: bytes, zstd: int) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data) if zstd else data


def _batch(schema: pa.Schema, columns: dict[str, pa.Array], num_rows: int) -> pa.RecordBatch:
    arrays = [columns.get(field.name, pa.nulls(num_rows, field.type)) for field in schema]
    rows = (
        pa.StructArray.from_arrays(arrays, fields=list(schema)) if arrays else pa.array([{}] * num_rows, pa.struct([]))
    )
    return pa.RecordBatch.from_struct_array(rows)


def _schema(cursor: Cursor, num_buckets: int) -> tuple[list[pa.Field], list[int], list[bytes] | None]:
    num_columns = cursor.uv()
    assert cursor.uv() == num_buckets
    rules = read_rules(cursor) if cursor.u8() == 1 else None
    fields, previous = [], b""
    for _ in range(num_columns):
        shared = cursor.uv()
        previous = previous[:shared] + cursor.take(cursor.uv())
        fields.append(read_field(cursor, expand(previous, rules or []).decode()))
    order, at = [], 0
    for _ in range(num_columns):
        at += cursor.zz()
        order.append(at)
    assert sorted(order) == list(range(num_columns))
    assert cursor.left == 0
    return fields, order, rules


def _bucket(
    data: bytes, entry: tuple[int, int, int, int], fields: list[pa.Field], num_rows: int, zstd: int
) -> tuple[BucketLayout, list[pa.Array]]:
    number, offset, size, uncompressed_size = entry
    stored = data[offset : offset + size]
    paged = uncompressed_size == 0
    if paged:
        decoders, columns, sizes = _paged(Cursor(stored), fields, num_rows)
    else:
        plain = _inflate(stored, zstd)
        assert len(plain) == uncompressed_size
        decoders, columns = _monolithic(Cursor(plain), fields, num_rows)
        sizes = [None] * len(columns)
    described = [
        ColumnLayout(
            name=slot.name,
            path=slot.path,
            encoding=NAMES[decoder.encoded.encoding],
            has_nulls=decoder.encoded.has_nulls,
            dict_entries=decoder.encoded.dict_entries,
            num_values=decoder.encoded.num_values,
            size=decoder.encoded.size,
            stored_size=stored_size,
        )
        for slot, decoder, stored_size in zip(slots(fields), decoders, sizes, strict=True)
    ]
    mode = "paged" if paged else "monolithic"
    return BucketLayout(number, mode, offset, size, uncompressed_size, described), build(fields, columns)


def _monolithic(cursor: Cursor, fields: list[pa.Field], num_rows: int) -> tuple[list[Decoder], list[Any]]:
    physical = slots(fields)
    counts = [num_rows] * len(fields)
    if len(physical) > len(fields):
        assert cursor.uv() == len(fields)
        counts += [cursor.uv() for _ in range(cursor.uv())]
    encodings = unpack_bits(cursor.take((2 * len(physical) + 7) // 8), len(physical), 2)
    nulls = unpack_bits(cursor.take((len(physical) + 7) // 8), len(physical), 1)
    decoders = [
        Decoder(encoding, bool(null), count, slot.kind)
        for encoding, null, count, slot in zip(encodings, nulls, counts, physical, strict=True)
    ]
    for read_piece in (Decoder.read_const, Decoder.read_table, Decoder.read_bitmap):
        for decoder in decoders:
            read_piece(decoder, cursor)
    columns = [decoder.read_data(cursor) for decoder in decoders]
    assert cursor.left == 0
    return decoders, columns


def _paged(cursor: Cursor, fields: list[pa.Field], num_rows: int) -> tuple[list[Decoder], list[Any], list[int]]:
    physical = slots(fields)
    counts = [num_rows] * len(fields)
    if len(physical) > len(fields):
        counts += [cursor.le(4) for _ in range(cursor.le(2))]
    sizes = [cursor.le(4) for _ in physical]
    decoders, columns = [], []
    for size, count, slot in zip(sizes, counts, physical, strict=True):
        if size == 0:
            page = Cursor(b"\x03\x00")
        else:
            stored = Cursor(cursor.take(size))
            length = stored.uv()
            page = Cursor(_inflate(stored.take(stored.left), 1))
            assert page.left == length
        decoder = Decoder(page.u8(), bool(page.u8() & 1), count, slot.kind)
        for read_piece in (Decoder.read_const, Decoder.read_table, Decoder.read_bitmap):
            read_piece(decoder, page)
        columns.append(decoder.read_data(page))
        assert page.left == 0
        decoders.append(decoder)
    assert cursor.left == 0
    return decoders, columns, sizes
