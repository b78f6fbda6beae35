"""Arrays of types that are stored as another one (see `smalti.types`), turned into that one. Never loses a value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
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
            return convert_array(array.dictionary_decode(), target)
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
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"values cannot be stored as {target}", found=str(error)) from None


def _convert_list(array: Any, target: pa.DataType) -> pa.Array:
    if not pt.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    values = convert_array(array.values, target.value_type)
    # Offsets and values both ignore the slice the array may be; its validity does not.
    return pa.ListArray.from_arrays(
        array.offsets, values, type=target, mask=array.is_null() if array.null_count else None
    )


def _convert_map(array: Any, target: pa.DataType) -> pa.Array:
    keys = convert_array(array.keys, target.key_type)
    items = convert_array(array.items, target.item_type)
    offsets = array.offsets
    if array.null_count:
        return pa.MapArray.from_arrays(offsets, keys, items, target, mask=array.is_null())
    return pa.MapArray.from_arrays(offsets, keys, items, target)


def _convert_date64(array: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    days = array.cast(pa.date32(), safe=False)
    if not pc.all(pc.equal(days.cast(pa.date64()), array), min_count=0).as_py():
        raise SchemaError("date64 holds a time of day, which DATE cannot")
    return days


def _convert_legacy_timestamp(array: Any) -> pa.Array:
    import pyarrow.compute as pc

    millis, nanos = array.flatten()
    if pc.any(pc.or_(pc.less(nanos, 0), pc.greater(nanos, 999_999)), min_count=0).as_py():
        raise SchemaError("nanos_of_milli out of range", expected="0 to 999999")
    total = pc.add_checked(pc.multiply_checked(millis, 1_000_000), nanos.cast(pa.int64()))
    return total.cast(pa.timestamp("ns"))
