"""Writes a table by the rules of the format, one row group per record batch given."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa
import zstandard

from tests.support.oracle import names
from tests.support.oracle.columns import shred, slots
from tests.support.oracle.encodings import ALL_NULL, CONST, DICT, PLAIN, Encoded, encode
from tests.support.oracle.statistics import extremes
from tests.support.oracle.types import pack_field
from tests.support.oracle.wire import pack_bits, uv, zz


@dataclass(frozen=True)
class Options:
    compression: str = "zstd"
    compression_level: int = 1
    num_buckets: int = 100
    dict_max_bytes: int = 32768
    dict_max_entries: int = 255
    page_size_threshold: int = 32768
    stats_columns: tuple[str, ...] = ()
    checksum: bool = False

    def compress(self, data: bytes) -> bytes:
        if self.compression == "none":
            return data
        return zstandard.ZstdCompressor(self.compression_level, write_checksum=self.checksum).compress(data)


@dataclass(frozen=True)
class Bucket:
    """A bucket as the index lists it; a paged one has an uncompressed size of 0."""

    id: int
    stored: bytes
    uncompressed_size: int


@dataclass(frozen=True)
class RowGroup:
    num_rows: int
    buckets: tuple[Bucket, ...]
    statistics: bytes = b"\0"


def write(schema: pa.Schema, batches: list[pa.RecordBatch], options: Options | None = None) -> bytes:
    options = options or Options()
    fields = sorted(schema, key=lambda field: field.name.encode())
    num_buckets = max(1, min(options.num_buckets, len(fields)))
    groups = [_row_group(fields, num_buckets, batch, options) for batch in batches if batch.num_rows]
    return assemble(schema_payload(schema, num_buckets), groups, num_buckets, options)


def schema_payload(schema: pa.Schema, num_buckets: int) -> bytes:
    fields = sorted(schema, key=lambda field: field.name.encode())
    encoding, pieces = names.encode([field.name.encode() for field in fields])
    described = b"".join(piece + pack_field(field) for piece, field in zip(pieces, fields, strict=True))
    position = {field.name: index for index, field in enumerate(fields)}
    order = [position[field.name] for field in schema]
    deltas = b"".join(zz(here - before) for before, here in zip([0, *order], order, strict=False))
    return uv(len(fields)) + uv(num_buckets) + encoding + described + deltas


def assemble(schema: bytes, groups: list[RowGroup], num_buckets: int, options: Options) -> bytes:
    """Buckets, schema block, index and footer in one piece."""
    body, index = bytearray(), bytearray()
    for group in groups:
        index += uv(group.num_rows) + uv(len(group.buckets))
        for bucket in group.buckets:
            index += uv(bucket.id) + struct.pack(">Q", len(body))
            index += uv(len(bucket.stored)) + uv(bucket.uncompressed_size)
            body += bucket.stored
        index += group.statistics
    schema_offset = len(body)
    body += struct.pack(">I", len(schema)) + options.compress(schema)
    flags = (options.compression == "zstd", 1, 0, 0, b"MOSA")
    footer = struct.pack(">QQIIBBBB4s", len(body), schema_offset, num_buckets, len(groups), *flags)
    return bytes(body) + bytes(index) + footer


def bucket_fields(fields: list[pa.Field], num_buckets: int, bucket: int) -> list[pa.Field]:
    return [field for at, field in enumerate(fields) if at * num_buckets // len(fields) == bucket]


def _row_group(fields: list[pa.Field], num_buckets: int, batch: pa.RecordBatch, options: Options) -> RowGroup:
    buckets = []
    for number in range(num_buckets if fields else 0):
        mine = bucket_fields(fields, num_buckets, number)
        buckets.append(pack_bucket(number, mine, [batch.column(field.name) for field in mine], options))
    records = []
    for at, field in enumerate(fields):
        if field.name in options.stats_columns:
            nulls, low, high = extremes(batch.column(field.name))
            records.append(uv(at) + uv(nulls) + low + high)
    return RowGroup(batch.num_rows, tuple(buckets), uv(len(records)) + b"".join(records))


def pack_bucket(number: int, fields: list[pa.Field], arrays: list[pa.Array], options: Options) -> Bucket:
    columns = [
        encode(cells, slot.kind, options.dict_max_entries, options.dict_max_bytes)
        for slot, cells in zip(slots(fields), shred(arrays), strict=True)
    ]
    if _is_paged(columns, options):
        return Bucket(number, _paged(columns, len(fields), options), 0)
    plain = _monolithic(columns, len(fields))
    return Bucket(number, options.compress(plain), len(plain))


def _is_paged(columns: list[Encoded], options: Options) -> bool:
    """Paged when the average of the pages that matter reaches the threshold (notes, 8)."""
    counted = [
        column.size - len(column.const)
        for column in columns
        if column.encoding in (PLAIN, DICT) or (column.encoding == CONST and column.bitmap)
    ]
    return (
        options.compression == "zstd" and bool(counted) and sum(counted) // len(counted) >= options.page_size_threshold
    )


def _monolithic(columns: list[Encoded], num_logical: int) -> bytes:
    children = columns[num_logical:]
    head = b""
    if children:
        head = uv(num_logical) + uv(len(children)) + b"".join(uv(child.num_values) for child in children)
    return (
        head
        + pack_bits([column.encoding for column in columns], 2)
        + pack_bits([int(column.has_nulls) for column in columns], 1)
        + b"".join(column.const for column in columns)
        + b"".join(column.table for column in columns)
        + b"".join(column.bitmap for column in columns)
        + b"".join(column.data for column in columns)
    )


def _paged(columns: list[Encoded], num_logical: int, options: Options) -> bytes:
    children = columns[num_logical:]
    head = b""
    if children:
        head = struct.pack("<H", len(children)) + b"".join(struct.pack("<I", c.num_values) for c in children)
    pages = [_slot(column, options) for column in columns]
    return head + b"".join(struct.pack("<I", len(page)) for page in pages) + b"".join(pages)


def _slot(column: Encoded, options: Options) -> bytes:
    if column.encoding == ALL_NULL:
        return b""
    head = column.table if column.encoding == DICT else column.const
    page = bytes([column.encoding, column.has_nulls]) + head + column.bitmap + column.data
    return uv(len(page)) + options.compress(page)
