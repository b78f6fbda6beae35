"""Sorting rows that do not fit in memory: sort the keys first, then gather the rows in chunks.

Only the key columns are in memory as a whole. The source is read once more for every chunk of the result, so memory
holds no more than a chunk and a batch, and a file of a few chunks is read a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from smalti._compat.arrow import concat_arrays, size_of
from smalti.errors import MosaicError, SchemaError, no_column
from smalti.logical.adapt import widen_array
from smalti.logical.arrays import as_compared
from smalti.logical.rows import take_batch, take_chunks
from smalti.logical.types import storage_kind, with_capacity
from smalti.sizes import SORT_CHUNK_BYTES

ORDERS = ("ascending", "descending")
#: More than the rows of a chunk, or entries of its dictionaries.
MAX_COUNT = (1 << 31) - 1

#: Returns all batches from the start, each time it is called.
Batches = Callable[[], Iterator[tuple[pa.RecordBatch, int]]]


def parse_sort(sort_by: str | Sequence[str | tuple[str, str]] | None) -> tuple[tuple[str, str], ...]:
    """Sort keys as pairs of name and order.

    Examples
    --------
    >>> parse_sort(["day", ("reading", "descending")])
    (('day', 'ascending'), ('reading', 'descending'))
    """
    if sort_by is None:
        return ()
    keys = [sort_by] if isinstance(sort_by, str) else list(sort_by)
    parsed = tuple((key, "ascending") if isinstance(key, str) else (key[0], key[1]) for key in keys)
    for name, order in parsed:
        if order not in ORDERS:
            raise MosaicError("unknown sort order", column=name, found=order, expected=" or ".join(ORDERS))
    return parsed


def check_sort_keys(schema: pa.Schema, keys: Sequence[tuple[str, str]]) -> None:
    """Refuse keys that are not in the schema, and types that have no order."""
    for name, _ in keys:
        if schema.get_field_index(name) < 0:
            raise no_column(name, schema.names, "to sort by")
        if pa.types.is_nested(storage_kind(schema.field(name).type)):
            raise SchemaError("cannot sort by this type", column=name, found=str(schema.field(name).type))


def sorted_batches(
    batches: Batches, schema: pa.Schema, keys: Sequence[tuple[str, str]]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """All rows in the order of `keys`. Nulls come last, and rows with equal keys keep their order."""
    order, row_bytes, source_bytes = _order(batches, keys)
    if len(order) == 0:
        return
    rows = max(1, SORT_CHUNK_BYTES // max(1, row_bytes))
    for start in range(0, len(order), rows):
        part = order.slice(start, rows)
        for batch in _gather(batches, schema, part):
            yield batch, source_bytes * batch.num_rows // len(order)


def _order(batches: Batches, keys: Sequence[tuple[str, str]]) -> tuple[pa.Array, int, int]:
    """Row numbers in sorted order, the mean size of a row, and the bytes of the source."""
    names = [name for name, _ in keys]
    parts = []
    rows = held = source = 0
    for batch, num_bytes in batches():
        # A copy, because a slice would keep everything in memory that it was cut from.
        copies = [concat_arrays([as_compared(batch.column(name))]) for name in names]
        parts.append(pa.RecordBatch.from_arrays(copies, names=names))
        rows += batch.num_rows
        held += size_of(batch)
        source += num_bytes
    if not rows:
        return pa.array([], pa.uint64()), 1, source
    table = pa.Table.from_batches(parts)
    # Arrow's sort is stable and puts nulls last.
    ordered = pc.sort_indices(table, sort_keys=list(keys))  # type: ignore[arg-type]
    return ordered, held // rows, source


def _gather(batches: Batches, schema: pa.Schema, order: pa.Array) -> Iterator[pa.RecordBatch]:
    """The rows of `order`, in that order: in one batch, or in several if a column is too large for one array.

    Dictionaries and runs of several batches may be more together than their types can count: they get wider ones, in
    which they stay if they have to. Writers of Mosaic take them.
    """
    wide = [field.with_type(with_capacity(field.type, MAX_COUNT, MAX_COUNT)) for field in schema]
    by_number = pc.sort_indices(order)
    wanted = order.take(by_number)
    parts = []
    base = at = 0
    for batch, _ in batches():
        end = base + batch.num_rows
        stop = at + pc.less(wanted.slice(at), pa.scalar(end, pa.uint64())).true_count if at < len(wanted) else at
        if stop > at:
            widened = pa.RecordBatch.from_arrays(list(map(_recounted, batch.columns, wide)), schema=pa.schema(wide))
            parts.append(take_batch(widened, pc.subtract(wanted.slice(at, stop - at), pa.scalar(base, pa.uint64()))))
        base, at = end, stop
        if at == len(wanted):
            break
    # by_number[k] is the index in `order` of the k-th gathered row, so its inverse puts the rows in order.
    places = pc.sort_indices(by_number)
    columns = [pa.chunked_array(take_chunks([part.column(i) for part in parts], places)) for i in range(len(wide))]
    for batch in pa.Table.from_arrays(columns, schema=pa.schema(wide)).to_batches():
        arrays = list(map(_narrowed, batch.columns, schema))
        fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields).with_metadata(schema.metadata or {}))


def _recounted(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array with the indices and run ends of a field, which Arrow changes without touching values if it can."""
    try:
        return array if array.type == field.type else array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return widen_array(array, field)


def _narrowed(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return _recounted(array, field)
    except SchemaError:
        return array
