"""The hidden column `_metadata`: file and number of each row, as Spark's own formats tell them, and the row group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

import pyarrow as pa

from smalti.mosaic.rows import RowIndex
from smalti.table.splits import Piece

HIDDEN = "_metadata"
#: The field that has the number of a row in its file, which only the reader of the file knows.
ROW_INDEX = "row_index"
#: The field that has the number of the row group of a row.
ROW_GROUP = "row_group"
#: The column of row numbers in batches on their way to the hidden column; no column of a table has this name.
NUMBERS = RowIndex("\0row number")
#: What a path of Hadoop's leaves as it is in a URI.
_SAFE = "/=:@!$&'()*+,;~-._"


def file_uri(path: str, scheme: str) -> str:
    """A path as Spark spells those of its own formats: a URI, with characters escaped that a URI cannot have.

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
    ROW_GROUP: lambda piece, _: piece.row_groups[0] if piece.row_groups else 0,
}


def stored_part(schema: pa.Schema) -> pa.Schema:
    """A schema without the hidden column."""
    index = schema.get_field_index(HIDDEN)
    return schema if index < 0 or not pa.types.is_struct(schema.field(index).type) else schema.remove(index)


def asks_for(schema: pa.Schema, field: str) -> bool:
    """Whether a schema has the hidden column, with a field."""
    return stored_part(schema) is not schema and schema.field(HIDDEN).type.get_field_index(field) >= 0


def add_hidden(batch: pa.RecordBatch, schema: pa.Schema, piece: Piece, uri: str) -> pa.RecordBatch:
    """A batch of a piece with the hidden column, where a schema has it.

    The batch may end with row numbers. Rows that pypaimon has merged are in no file, and have none.
    """
    index = schema.get_field_index(HIDDEN)
    fields = list(schema.field(index).type)
    columns = list(batch.columns)
    numbers = columns.pop() if batch.schema.names[-1:] == [NUMBERS.name] else pa.nulls(batch.num_rows, pa.int64())
    arrays = [
        numbers
        if field.name == ROW_INDEX
        else pa.repeat(pa.scalar(_FIELDS[field.name](piece, uri), field.type), batch.num_rows)
        for field in fields
    ]
    hidden = pa.StructArray.from_arrays(arrays, fields=fields)
    columns.insert(index, hidden)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
