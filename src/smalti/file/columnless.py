"""Record batches that have rows and no columns, which pyarrow's constructors cannot make."""

from __future__ import annotations

import pyarrow as pa

from smalti._core.batch import Batch


def columnless_batch(num_rows: int) -> pa.RecordBatch:
    """
    Examples
    --------
    >>> columnless_batch(5).num_rows
    5
    """
    batch = Batch(0, num_rows)  # named, so that it outlives the import
    return pa.RecordBatch._import_from_c(batch.address(), pa.schema([]))
