"""A batch of cells in Kudu's terms: how many elements each has, which are null, and the elements themselves.

Owns the way from Arrow lists (list, large_list, fixed_size_list) or plain arrays to that form, and cutting it into
blocks. Values that Arrow keeps under a null list are dropped, since they are no part of the column.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import SchemaError
from smalti.file.inspection import sound_array
from smalti.kudu._kernels import lists
from smalti.kudu.encodings.dense import Dense, buffer_view, dense_of
from smalti.kudu.types import physical_of, to_physical

_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)


@dataclass(frozen=True)
class Bitmap:
    """`count` bits of a buffer from bit `start`; no buffer means that all are ones."""

    buffer: memoryview | None
    start: int
    count: int

    def slice(self, start: int, count: int) -> Bitmap:
        """Some of the bits."""
        return Bitmap(self.buffer, self.start + start, count)


@dataclass(frozen=True)
class Cells:
    """Cells of one column: `lengths` are the uint16 numbers of elements, `values` the non-null elements."""

    lengths: memoryview
    non_null_cells: Bitmap
    non_null_elements: Bitmap
    values: Dense

    def __len__(self) -> int:
        return len(self.lengths) // 2

    def cut(self, cells: int, elements: int, values: int) -> tuple[Cells, Cells]:
        """The first cells, which have so many elements and non-null values, and the rest."""
        front = Cells(
            self.lengths[: cells * 2],
            self.non_null_cells.slice(0, cells),
            self.non_null_elements.slice(0, elements),
            self.values.slice(0, values),
        )
        rest = Cells(
            self.lengths[cells * 2 :],
            self.non_null_cells.slice(cells, self.non_null_cells.count - cells),
            self.non_null_elements.slice(elements, self.non_null_elements.count - elements),
            self.values.slice(values, self.values.count - values),
        )
        return front, rest


def is_list(arrow: pa.DataType) -> bool:
    """Whether an Arrow type is one of the lists that can become Kudu's arrays."""
    return isinstance(arrow, _LISTS)


def element_type_of(arrow: pa.DataType | str) -> pa.DataType:
    """The element type of a list type; any other type, or its name ("int32"), is an element type itself."""
    if isinstance(arrow, str):
        try:
            named: pa.DataType = pa.type_for_alias(arrow)  # type: ignore[call-overload]
        except ValueError:
            raise SchemaError("unknown element type", found=arrow) from None
        return element_type_of(named)
    return arrow.value_type if isinstance(arrow, _LISTS) else arrow


def cells_of_lists(array: pa.Array) -> Cells:
    """Cells of a list array. A list of more than 65,535 elements is refused."""
    if not is_list(array.type):
        raise SchemaError(
            "not an array of lists", found=str(array.type), expected="list, large_list or fixed_size_list"
        )
    return _cells(memoryview(lengths_of(array)), _non_null(array), pc.list_flatten(array))


def sound_cells(array: pa.Array) -> pa.Array:
    """An array from outside, after the proof that it may be read (see `smalti.file.inspection`).

    The buffers of empty arrays may be missing, which Arrow's functions do not expect: they are made anew.
    """
    element = element_type_of(array.type)
    is_text = pa.types.is_string(element) or pa.types.is_large_string(element)
    array = sound_array(array, "cells", full=is_text)  # Readers refuse texts that are not UTF-8.
    if not len(array):
        nothing: pa.Array = pa.array([], array.type)
        return nothing
    if not isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)) or len(array.values):
        return array
    elements: pa.Array = pa.array([], array.type.value_type)
    buffers = array.buffers()[: array.type.num_buffers]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset, children=[elements])


def lengths_of(array: pa.Array) -> bytes:
    """The uint16 numbers of elements of a list array, 0 for a null. A number that does not fit is refused."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    if lengths.type != pa.int32():  # of large lists; what is too long for int32 is too long for Kudu
        lengths = pc.min_element_wise(lengths, pa.scalar((1 << 31) - 1, pa.int64())).cast(pa.int32())
    at = lengths.offset * 4
    return lists.narrow_lengths(buffer_view(lengths.buffers()[1])[at : at + len(lengths) * 4])


def cells_of_values(array: pa.Array) -> Cells:
    """Cells of a plain array: each has one element, and a null cell counts as one null element."""
    return _cells(memoryview(b"\1\0" * len(array)), Bitmap(None, 0, len(array)), array)


def _cells(lengths: memoryview, non_null_cells: Bitmap, elements: pa.Array) -> Cells:
    stored = to_physical(elements)
    values = stored.drop_null() if stored.null_count else stored
    return Cells(lengths, non_null_cells, _non_null(stored), dense_of(values, physical_of(elements.type)))


def _non_null(array: pa.Array) -> Bitmap:
    return Bitmap(buffer_view(array.buffers()[0]) if array.null_count else None, array.offset, len(array))
