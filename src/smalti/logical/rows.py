"""Rows of columns, batches and tables of any type: taken, filtered, and joined into one array or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from smalti._compat import arrow as compat
from smalti.logical.arrays import take_rows


def take_chunks(chunks: Sequence[Any], rows: Any) -> list[Any]:
    """Rows of a column that is given in one chunk or more: in one array, or in several if they are too large for one.

    Raise ArrowIndexError if there is no such row. A null among `rows` is a null row.
    """
    try:
        return [take_rows(concat_rows(chunks), rows)]
    except compat.TOO_LARGE:
        needed, places = _needed(chunks, rows)
        if sum(map(len, needed)) < sum(map(len, chunks)) or len(needed) < len(chunks):
            return take_chunks(needed, places)
        if len(rows) < 2:
            raise
    half = len(rows) // 2
    return take_chunks(chunks, rows.slice(0, half)) + take_chunks(chunks, rows.slice(half))


def _needed(chunks: Sequence[Any], rows: Any) -> tuple[Sequence[Any], Any]:
    """The rows of chunks that are among `rows`, in chunks, and where in these they are."""
    if len(chunks) == 1:
        return chunks, rows
    by_number = pc.sort_indices(rows)  # nulls last
    wanted = rows.take(by_number).drop_null()
    parts, start, at = [], 0, 0
    for chunk in chunks:
        count = pc.less(wanted.slice(at), pa.scalar(start + len(chunk), wanted.type)).true_count
        if count:
            parts.append(take_rows(chunk, pc.subtract(wanted.slice(at, count), pa.scalar(start, wanted.type))))
        start, at = start + len(chunk), at + count
    if at < len(wanted):
        raise pa.ArrowIndexError(f"no row {wanted[at]} of {start}")
    return parts or [chunks[0].slice(0, 0)], pc.if_else(rows.is_valid(), pc.sort_indices(by_number), None)


def take_batch(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """Rows of a batch of any types, in any order."""
    if not batch.num_columns:
        return batch.slice(0, len(rows))
    return pa.RecordBatch.from_arrays([take_rows(column, rows) for column in batch.columns], schema=batch.schema)


def take_table(table: pa.Table, rows: pa.Array) -> pa.Table:
    """Rows of a table of any types, in any order. Each column is one array, or several if it is too large."""
    if not table.num_columns:
        return pa.Table.from_batches([compat.columnless_batch(len(rows))], table.schema)
    columns = [pa.chunked_array(take_chunks(chunks_of(column), rows)) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def concat_rows(arrays: Sequence[Any]) -> Any:
    """The rows of one array or more in one. Raise one of `compat.TOO_LARGE` if it cannot hold them."""
    return arrays[0] if len(arrays) == 1 else compat.concat_arrays(arrays)


def chunks_of(column: Any) -> list[Any]:
    """The chunks of a column, at least one."""
    return [*column.chunks] or [compat.null_array(0, column.type)]


def filter_rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of a batch of any types where a mask is true."""
    if all(map(compat.can_select, batch.schema.types)):
        return batch.filter(mask)
    return take_batch(batch, pc.indices_nonzero(mask))


def filter_table(table: pa.Table, mask: Any) -> pa.Table:
    """The rows of a table where a mask is true."""
    kept, start = [], 0
    for batch in table.to_batches():
        kept.append(filter_rows(batch, mask.slice(start, batch.num_rows)))
        start += batch.num_rows
    return pa.Table.from_batches(kept, table.schema)
