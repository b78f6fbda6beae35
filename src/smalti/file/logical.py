"""Arrays of types that are stored as another one (see `smalti.types`), turned into that one. Never loses a value.

Imported only when there is something to convert: Arrow's compute functions take long to load.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.types import is_legacy_timestamp, is_list_like


def convert_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` as `target`, which must be its `storage_type`.

    Raises
    ------
    SchemaError
        If a value does not fit, such as a date64 with a time of day.
    """
    if array.type == target:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return convert_array(array.storage, target)
    try:
        if pt.is_dictionary(array.type):
            return _convert_dictionary(array, target)
        if pt.is_null(array.type):
            return pa.nulls(len(array), target)
        if is_list_like(array.type):
            return _convert_list(array, target)
        if pt.is_map(array.type):
            return _convert_map(array, target)
        if is_legacy_timestamp(array.type):
            return _convert_legacy_timestamp(array)
        if pt.is_date64(array.type):
            return _convert_date64(array)
        if pt.is_time32(array.type):
            return _convert_seconds(array, target)
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"values cannot be stored as {target}", found=str(error)) from None


def _convert_dictionary(array: Any, target: pa.DataType) -> pa.Array:
    """The few entries are converted, not the many values; Arrow cannot decode dictionaries of every type either."""
    entries = convert_array(array.dictionary, target)
    return pa.DictionaryArray.from_arrays(array.indices, entries).dictionary_decode()


def _convert_list(array: Any, target: pa.DataType) -> pa.Array:
    """Rebuilt from elements and lengths, which any layout of lists can tell, slices and null lists included."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    values = convert_array(array.flatten(), target.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=array.is_null() if array.null_count else None)


def _convert_map(array: Any, target: pa.DataType) -> pa.Array:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    offsets = pc.subtract(array.offsets, array.offsets[0])  # a slice of offsets cannot go with a null bitmap
    keys = convert_array(array.keys.slice(first, last - first), target.key_type)
    items = convert_array(array.items.slice(first, last - first), target.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items, target, mask=array.is_null() if array.null_count else None)


def _convert_seconds(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Arrow multiplies without looking: a value outside a day could come out as one inside."""
    seconds = array.cast(pa.int32())
    if pc.any(pc.or_(pc.less(seconds, 0), pc.greater_equal(seconds, 86_400)), min_count=0).as_py():
        raise SchemaError("time is outside a day")
    return array.cast(target)


def _convert_date64(array: pa.Array) -> pa.Array:
    days = array.cast(pa.date32(), safe=False)
    if not pc.all(pc.equal(days.cast(pa.date64()), array), min_count=0).as_py():
        raise SchemaError("date64 holds a time of day, which DATE cannot")
    return days


def _convert_legacy_timestamp(array: Any) -> pa.Array:
    millis, nanos = array.flatten()
    if pc.any(pc.or_(pc.less(nanos, 0), pc.greater(nanos, 999_999)), min_count=0).as_py():
        raise SchemaError("nanos_of_milli out of range", expected="0 to 999999")
    total = pc.add_checked(pc.multiply_checked(millis, 1_000_000), nanos.cast(pa.int64()))
    return total.cast(pa.timestamp("ns"))
