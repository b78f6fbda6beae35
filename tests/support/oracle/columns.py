"""Physical columns of a bucket: logical columns first, then the children of containers, depth first (notes, 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pyarrow as pa

from tests.support.oracle.types import from_cells, is_container, to_cells

LENGTH = pa.int32()


@dataclass(frozen=True)
class Slot:
    """One physical column: `name` is the logical column, `path` says which part of it, `kind` what is stored."""

    name: str
    path: str
    kind: pa.DataType


def slots(fields: list[pa.Field]) -> list[Slot]:
    """The physical columns of a bucket that holds these fields."""
    logical = [Slot(field.name, field.name, _stored(field.type)) for field in fields]
    return logical + [slot for field in fields for slot in _children(field.name, field.name, field.type)]


def _stored(kind: pa.DataType) -> pa.DataType:
    return LENGTH if is_container(kind) else kind


def _parts(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_list(kind):
        return [("element", kind.value_type)]
    if pa.types.is_map(kind):
        return [("key", kind.key_type), ("value", kind.item_type)]
    return []


def _children(name: str, path: str, kind: pa.DataType) -> Iterator[Slot]:
    for part, child in _parts(kind):
        yield Slot(name, f"{path}.{part}", _stored(child))
        yield from _children(name, f"{path}.{part}", child)


def shred(arrays: list[pa.Array]) -> list[list[bytes | None]]:
    """The cells of every physical column, in the order of `slots`."""
    logical = [_own_cells(array) for array in arrays]
    return logical + [cells for array in arrays for cells in _child_cells(array)]


def _own_cells(array: pa.Array) -> list[bytes | None]:
    if not is_container(array.type):
        return to_cells(array)
    offsets = array.offsets.to_pylist()
    lengths = [end - start for start, end in pairwise(offsets)]
    valid = array.is_valid().to_pylist()
    return to_cells(pa.array([n if ok else None for n, ok in zip(lengths, valid, strict=True)], LENGTH))


def _child_cells(array: pa.Array) -> Iterator[list[bytes | None]]:
    if not is_container(array.type):
        return
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    wanted = [at for row, ok in enumerate(valid) if ok for at in range(offsets[row], offsets[row + 1])]
    children = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    for child in children:
        elements = child.take(pa.array(wanted, pa.int64()))
        yield _own_cells(elements)
        yield from _child_cells(elements)


def build(fields: list[pa.Field], columns: list[list[bytes | None]]) -> list[pa.Array]:
    """The reverse of `shred`: one Arrow array per field."""
    logical, children = columns[: len(fields)], iter(columns[len(fields) :])
    return [_build(field.type, cells, children) for field, cells in zip(fields, logical, strict=True)]


def _build(kind: pa.DataType, cells: list[bytes | None], children: Iterator[list[bytes | None]]) -> pa.Array:
    if not is_container(kind):
        return from_cells(cells, kind)
    lengths = [0 if cell is None else int.from_bytes(cell, "big") for cell in cells]
    offsets = list(accumulate(lengths, initial=0))
    parts = [_build(child, next(children), children) for _, child in _parts(kind)]
    assert all(len(part) == offsets[-1] for part in parts), (kind, offsets[-1], [len(part) for part in parts])
    mask = pa.array([cell is None for cell in cells], pa.bool_())
    maker = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
    return maker.from_arrays(pa.array(offsets, pa.int32()), *parts, type=kind, mask=mask)
