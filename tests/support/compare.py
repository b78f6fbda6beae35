"""Bit-exact comparison of Arrow data: NaN payloads and signed zeros count, bytes under nulls do not."""

from __future__ import annotations

import itertools

import pyarrow as pa

BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def has_floats(kind: pa.DataType) -> bool:
    return kind in BITS or any(has_floats(kind.field(at).type) for at in range(kind.num_fields))


def same_bits(left: pa.Array, right: pa.Array) -> bool:
    """Both arrays have the same type, nulls and bits."""
    if left.type != right.type or len(left) != len(right):
        return False
    if left.type in BITS:
        return left.view(BITS[left.type]).equals(right.view(BITS[left.type]))
    if not has_floats(left.type):
        return left.equals(right)
    if not left.is_valid().equals(right.is_valid()):
        return False
    if not _lengths(left).equals(_lengths(right)):
        return False
    return all(same_bits(a, b) for a, b in zip(_children(left), _children(right), strict=True))


def _lengths(array: pa.Array) -> pa.Array:
    offsets = array.offsets.to_pylist()
    sizes = [end - start for start, end in itertools.pairwise(offsets)]
    return pa.array([n if ok else None for n, ok in zip(sizes, array.is_valid().to_pylist(), strict=True)], pa.int32())


def _children(array: pa.Array) -> list[pa.Array]:
    """Elements of the non-null containers, in order."""
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    wanted = pa.array(
        [at for row, ok in enumerate(valid) if ok for at in range(offsets[row], offsets[row + 1])], pa.int64()
    )
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return [part.take(wanted) for part in parts]


def assert_same(found: pa.Table | pa.RecordBatch, expected: pa.Table | pa.RecordBatch) -> None:
    """Same schema (order, types, nullability), same rows, same bits; the result is also valid Arrow."""
    found.validate(full=True)
    assert found.schema.equals(expected.schema), f"{found.schema}\n--- expected\n{expected.schema}"
    assert found.num_rows == expected.num_rows
    for at, field in enumerate(expected.schema):
        mine, theirs = _whole(found.column(at)), _whole(expected.column(at))
        if not same_bits(mine, theirs):
            differing = [row for row in range(len(mine)) if not same_bits(mine.slice(row, 1), theirs.slice(row, 1))]
            row = differing[0]
            raise AssertionError(
                f"column {field.name!r} ({field.type}) differs in {len(differing)} of {len(mine)} rows, first {row}: "
                f"found {mine[row]!r}, expected {theirs[row]!r}"
            )


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    # An extra empty chunk keeps concat_arrays happy with none, and always copies: no offsets left to compare.
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])
