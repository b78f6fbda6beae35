"""Record batches that have rows and no columns, which pyarrow's constructors cannot make."""

from __future__ import annotations

import pyarrow as pa


def columnless_batch(num_rows: int) -> pa.RecordBatch:
    """
    Examples
    --------
    >>> columnless_batch(5).num_rows
    5
    """
    return pa.record_batch([pa.nulls(num_rows)], names=["no column"]).select([])
