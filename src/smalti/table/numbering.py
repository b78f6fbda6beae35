"""Row numbers for readers that cannot start at a row, such as merged rows of Paimon tables and files of other formats.

They read their rows from the first one on; rows that are not wanted are dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from smalti.logical.adapt import adapt_batch
from smalti.logical.arrays import take_rows
from smalti.mosaic.rows import RowIndex, Rows, as_ascending, last_row, row_numbers, rows_within
from smalti.table.reading import filtered

if TYPE_CHECKING:
    from smalti.predicate import Filter


def numbered(
    batches: Iterable[pa.RecordBatch],
    output: pa.Schema,
    *,
    filter_: Filter | None = None,
    row_index: RowIndex | None = None,
    rows: Rows | None = None,
) -> Iterator[pa.RecordBatch]:
    """Number the rows of batches, and keep those that are wanted and match.

    `batches` have all rows, with the columns of the output and of the filter; what comes after the last wanted row is
    not read. `output` has the column of the row index, if there is one. `filter_` has values in the types of the
    columns, and may ask for the row index. `rows` are counted from the first row of the batches.
    """
    wanted, start = None if rows is None else as_ascending(rows), 0
    end = None if wanted is None else last_row(wanted) + 1
    for batch in batches:
        if end is not None and start >= end:
            return
        span = range(start, start + batch.num_rows)
        start = span.stop
        if row_index is not None:
            numbers = row_numbers(row_index.start + span.start, len(span))
            if batch.num_columns:
                batch = batch.add_column(0, row_index.field, numbers)
            else:
                batch = pa.RecordBatch.from_arrays([numbers], schema=pa.schema([row_index.field]))
        if isinstance(wanted, range):
            first = max(wanted.start, span.start)
            batch = batch.slice(first - span.start, max(0, min(wanted.stop, span.stop) - first))
        elif wanted is not None:
            batch = _take(batch, rows_within(wanted, span))
        if batch.num_rows:
            found = adapt_batch(batch, output) if filter_ is None else filtered(batch, filter_, output)
            if found.num_rows:
                yield found


def _take(batch: pa.RecordBatch, rows: pa.UInt64Array) -> pa.RecordBatch:
    if not batch.num_columns:
        return batch.slice(0, len(rows))
    return pa.RecordBatch.from_arrays([take_rows(column, rows) for column in batch.columns], schema=batch.schema)
