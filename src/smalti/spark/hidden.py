"""The hidden column `_metadata`: the file of each row, as Spark's own formats tell it, and the row group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

import pyarrow as pa

from smalti.table.splits import Piece

HIDDEN = "_metadata"
#: What a path of Hadoop's leaves as it is in a URI.
_SAFE = "/=:@!$&'()*+,;~-._"


def file_uri(path: str, scheme: str) -> str:
    """A path as Spark spells those of its own formats: a URI, with what a URI has no place for escaped.

    Examples
    --------
    >>> file_uri("/data/p=1/a b.mosaic", "file"), file_uri("bucket/a.mosaic", "s3")
    ('file:///data/p=1/a%20b.mosaic', 's3://bucket/a.mosaic')
    """
    return f"{scheme}://{quote(path, safe=_SAFE)}"


#: What each field says of a piece, given the URI of its file.
_FIELDS: Mapping[str, Callable[[Piece, str], object]] = {
    "file_path": lambda _, uri: uri,
    "file_name": lambda piece, _: PurePosixPath(piece.file.name).name,
    "file_size": lambda piece, _: piece.file.size,
    "file_block_start": lambda *_: 0,
    "file_block_length": lambda piece, _: piece.file.size,
    "file_modification_time": lambda piece, _: piece.file.modified // 1_000_000 * 1_000,  # Spark tells milliseconds
    "row_group": lambda piece, _: piece.row_groups[0] if piece.row_groups else 0,
}


def stored_part(schema: pa.Schema) -> pa.Schema:
    """A schema without the hidden column."""
    place = schema.get_field_index(HIDDEN)
    return schema if place < 0 or not pa.types.is_struct(schema.field(place).type) else schema.remove(place)


def add_hidden(batch: pa.RecordBatch, schema: pa.Schema, piece: Piece, uri: str) -> pa.RecordBatch:
    """A batch of a piece with the hidden column, in the place that a schema gives it."""
    place = schema.get_field_index(HIDDEN)
    fields = list(schema.field(place).type)
    values = [pa.scalar(_FIELDS[field.name](piece, uri), field.type) for field in fields]
    arrays = [pa.repeat(value, batch.num_rows) for value in values]
    hidden = pa.StructArray.from_arrays(arrays, fields=fields)
    columns = list(batch.columns)
    columns.insert(place, hidden)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
