"""Columns of dictionary types, decoded to indices: kernels look values up in the dictionary of the companion.

Where the companion has none, because there are too many values, each row group gets a dictionary of its own.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from smalti._core.allowance import Allowance
from smalti._core.dictionary import DictionaryValues
from smalti.logical.tree import StoredColumn
from smalti.logical.types import is_list_like, map_of, unwrapped
from smalti.threads import renew_in_child

#: Most bytes of lookup tables that a process keeps for its next reads of the same columns.
MAX_KEPT_BYTES = 64 << 20
#: Memory of a lookup table: bytes of each value, and of the objects around the table.
VALUE_BYTES, TABLE_BYTES = 44, 1024


class Dictionary:
    """The dictionary of one stored column, by which kernels turn values into indices.

    Parameters
    ----------
    values : pyarrow.Array, optional
        The dictionary, in the type that was given; None if each row group gets its own.
    stored, given : pyarrow.DataType
        The type of the stored values, and the dictionary type.
    """

    def __init__(self, values: Any, stored: Any, given: Any) -> None:
        self.values = values
        self._stored, self._index_type = stored, given.index_type
        self._lookup: DictionaryValues | None = None

    @property
    def type(self) -> pa.DataType:
        """The type of a decoded array."""
        return self._index_type if self.values is not None else pa.dictionary(self._index_type, self._stored)

    def lookup(self, allowance: Allowance) -> DictionaryValues:
        """The table in which kernels look values up, made when it is first needed and counted in `allowance`."""
        found = self._lookup
        if found is None:
            if self.values is not None:
                allowance.take(TABLE_BYTES + VALUE_BYTES * len(self.values))
            found = self._lookup = self._make()
            if self.values is not None:
                _tables.add(self, TABLE_BYTES + found.nbytes)
        return found

    def _make(self) -> DictionaryValues:
        width = self._index_type.bit_width // 8
        if self.values is None:
            return DictionaryValues(width, max_index(self._index_type))
        from smalti.logical.arrays import to_stored  # slow to import: see its docstring

        stored: Any = pa.concat_arrays([to_stored(self.values, self._stored)])  # without an offset
        if pt.is_boolean(stored.type):
            stored = stored.cast(pa.uint8())
        *offsets, data = (memoryview(buffer or b"").cast("B") for buffer in stored.buffers()[1:])
        return DictionaryValues(
            width,
            max_index(self._index_type),
            len(stored),
            0 if offsets else stored.type.bit_width // 8,
            data,
            offsets[0].cast("i") if offsets else None,
            pt.is_floating(stored.type),
        )


class _Tables:
    """The dictionaries that have a table; the oldest lose theirs if all together are too large."""

    def __init__(self) -> None:
        self._sizes: dict[Dictionary, int] = {}
        renew_in_child(self)

    def renew_lock(self) -> None:
        self._lock = threading.Lock()
        self._num_bytes = sum(self._sizes.values())

    def add(self, dictionary: Dictionary, size: int) -> None:
        with self._lock:
            self._num_bytes += size - self._sizes.pop(dictionary, 0)
            self._sizes[dictionary] = size
            while self._num_bytes > MAX_KEPT_BYTES and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                self._num_bytes -= self._sizes.pop(oldest)
                oldest._lookup = None


_tables = _Tables()


def max_index(type_: Any) -> int:
    """The largest index that an index type can hold, at most 2^31 - 1.

    Examples
    --------
    >>> max_index(pa.int8()), max_index(pa.uint8())
    (127, 255)
    """
    bits = type_.bit_width - (not pt.is_unsigned_integer(type_))
    return int((1 << min(bits, 31)) - 1)


#: The type that a stored column is decoded to, and its dictionaries, each with the number of its physical column.
Indexed: TypeAlias = tuple[pa.DataType, list[tuple[int, Dictionary]]]


def plan_indices(column: StoredColumn, values: pa.Array | None) -> Indexed:
    """How a stored column is decoded: to indices where its given type has dictionaries whose values kernels look up.

    Physical columns are numbered within the stored column.
    """
    leaf = column.leaf

    def plan(stored: Any, first: int) -> Indexed:
        if leaf is None:
            return stored, []
        if stored == leaf.stored:
            return _plan(stored, leaf.type, values, first)
        element, found = plan(stored.value_type, first + 1)  # lists of structs are a list of each leaf
        return pa.list_(stored.value_field.with_type(element)), found

    return plan(column.type, 0)


def _plan(stored: Any, given: Any, values: pa.Array | None, at: int) -> Indexed:
    given = unwrapped(given)
    if pt.is_dictionary(given):
        if _can_look_up(stored, given, values):
            dictionary = Dictionary(values, stored, given)
            return dictionary.type, [(at, dictionary)]
    elif is_list_like(given) and pt.is_list(stored):
        element, found = _plan(stored.value_type, given.value_type, values, at + 1)
        return pa.list_(stored.value_field.with_type(element)), found
    elif pt.is_map(given) and pt.is_map(stored):  # whose dictionaries the companion does not have
        key, keys = _plan(stored.key_type, given.key_type, None, at + 1)
        item, items = _plan(stored.item_type, given.item_type, None, at + 1 + _num_physical(stored.key_type))
        return map_of(stored.key_field.with_type(key), stored.item_field.with_type(item)), keys + items
    return stored, []


def _can_look_up(stored: Any, given: Any, values: pa.Array | None) -> bool:
    if values is None:
        return pt.is_string(stored) or pt.is_binary(stored)
    return not pt.is_nested(stored) and len(values) <= max_index(given.index_type) + 1


def _num_physical(type_: Any) -> int:
    """The number of physical columns of a stored type."""
    if pt.is_map(type_):
        return 1 + _num_physical(type_.key_type) + _num_physical(type_.item_type)
    return 1 + (_num_physical(type_.value_type) if pt.is_list(type_) else 0)
