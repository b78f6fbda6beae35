"""The hidden column `_metadata`: file and number of each row, as Spark's own formats tell them, and the row group.

Which column of a scan is the hidden one, the provider says: a table may store a column of its name, and then Spark
calls the hidden one otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

import pyarrow as pa

from smalti.logical.mapping import ColumnMapping
from smalti.mosaic.rows import RowIndex
from smalti.table.splits import Piece

#: The field that has the number of a row in its file, which only the reader of the file knows.
ROW_INDEX = "row_index"
#: The field that has the number of the row group of a row.
ROW_GROUP = "row_group"
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


def stored_part(schema: pa.Schema, hidden: str | None) -> pa.Schema:
    """A schema without the hidden column."""
    return schema if hidden is None else schema.remove(schema.get_field_index(hidden))


def asks_for(schema: pa.Schema, hidden: str | None, field: str) -> bool:
    """Whether a schema has the hidden column, with a field."""
    return hidden is not None and schema.field(hidden).type.get_field_index(field) >= 0


def row_index(schema: pa.Schema, hidden: str | None, columns: ColumnMapping) -> RowIndex | None:
    """The column of row numbers that is read of a file with some columns, under a name that no column has.

    None if the hidden column does not have them.
    """
    if not asks_for(schema, hidden, ROW_INDEX):
        return None
    name = ROW_INDEX
    while schema.get_field_index(name) >= 0 or columns.present([name]):
        name += "_"
    return RowIndex(name)


def add_hidden(batch: pa.RecordBatch, schema: pa.Schema, hidden: str, piece: Piece, uri: str) -> pa.RecordBatch:
    """A batch of a piece with the hidden column.

    The batch may end with row numbers. Rows that pypaimon has merged are in no file, and have none.
    """
    index = schema.get_field_index(hidden)
    fields = list(schema.field(index).type)
    columns = list(batch.columns)
    numbers = columns.pop() if len(columns) == len(schema) else pa.nulls(batch.num_rows, pa.int64())
    arrays = [
        numbers
        if field.name == ROW_INDEX
        else pa.repeat(pa.scalar(_FIELDS[field.name](piece, uri), field.type), batch.num_rows)
        for field in fields
    ]
    columns.insert(index, pa.StructArray.from_arrays(arrays, fields=fields))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
