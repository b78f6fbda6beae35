"""Arrays changed to the type they are stored as (see `smalti.types`); a value that does not fit is refused.

Imported only when there is something to change: Arrow's compute functions take long to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.types import is_legacy_timestamp, is_list_like


def to_stored(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` as `target`, which must be the `storage_type` of its type.

    Raises
    ------
    SchemaError
        If a value does not fit, such as a date64 with a time of day.
    """
    if not len(array):
        return pa.array([], target)  # an empty array may lack its buffers, which Arrow's functions do not expect
    try:
        stored: pa.Array = array if array.type == target else _change(array, target)
        return stored
    except pa.ArrowInvalid as error:
        raise SchemaError(f"values cannot be stored as {target}", found=str(error)) from None


def _change(array: Any, target: pa.DataType) -> Any:
    source = array.type
    if isinstance(source, pa.BaseExtensionType):
        return to_stored(array.storage, target)
    if pt.is_dictionary(source):
        # Changes the few entries, not the many values. Arrow could not decode dictionaries of every type either.
        entries = to_stored(array.dictionary, target)
        return pa.DictionaryArray.from_arrays(array.indices, entries).dictionary_decode()
    if is_list_like(source) or pt.is_map(source):
        return rebuild(array, target, to_stored)
    if is_legacy_timestamp(source):
        millis, nanos = array.flatten()
        if not _all_between(nanos, 0, 999_999):
            raise SchemaError("nanos_of_milli out of range", expected="0 to 999999")
        return pc.add_checked(pc.multiply_checked(millis, 1_000_000), nanos.cast(pa.int64())).cast(target)
    if pt.is_date64(source):
        days = array.cast(pa.date32(), safe=False)
        if not pc.all(pc.equal(days.cast(pa.date64()), array), min_count=0).as_py():
            raise SchemaError("date64 holds a time of day, which DATE cannot")
        return days
    if pt.is_time32(source) and not _all_between(array.cast(pa.int32()), 0, 86_399):
        raise SchemaError("time is outside a day")  # Arrow's cast would multiply it to one that may be inside.
    return array.cast(target)


def rebuild(array: Any, target: Any, convert: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """A list or map of any layout as the list or map `target`, with its children changed by `convert`.

    Built from lengths and elements, which all layouts can tell: slices, list views, fixed-size lists. Elements that a
    null list has in its buffers are left out, so that `convert` sees only values that count.
    """
    if pt.is_map(array.type):  # Maps cannot be flattened, lists of their entries can.
        array = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    mask = array.is_null() if array.null_count else None
    elements = array.flatten()
    if not pt.is_map(target):
        return pa.ListArray.from_arrays(offsets, convert(elements, target.value_type), type=target, mask=mask)
    keys, items = elements.flatten()
    keys, items = convert(keys, target.key_type), convert(items, target.item_type)
    maps: pa.Array = pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)  # type: ignore[call-overload]
    return maps


def _all_between(array: Any, low: int, high: int) -> bool:
    above, below = pc.greater_equal(array, pa.scalar(low)), pc.less_equal(array, pa.scalar(high))
    return bool(pc.all(pc.and_(above, below), min_count=0).as_py())
