"""Arrow types and stored types (section 3): which Arrow type is stored as which, and questions asked of types.

An Arrow type without a type of its own in the format is stored as another one that holds its values, else refused. The
companion of the file keeps the given type. `smalti.logical.tree` does the same for structs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeGuard

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.format.types import TYPE_IDS
from smalti.spec import MAX_DECIMAL_PRECISION, MAX_NESTING

#: Types that are stored as another one, with nothing lost.
_STORED_AS: dict[pa.DataType, pa.DataType] = {
    pa.null(): pa.int32(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
#: For each layout of lists by its type id, a function that makes the type of an element field and a list size.
_LISTS: dict[int, Callable[[Any, int], pa.DataType]] = {
    pa.list_(pa.int8()).id: lambda field, _: pa.list_(field),
    pa.large_list(pa.int8()).id: lambda field, _: pa.large_list(field),
    pa.list_(pa.int8(), 1).id: lambda field, size: pa.list_(field, size),
    pa.list_view(pa.int8()).id: lambda field, _: pa.list_view(field),
    pa.large_list_view(pa.int8()).id: lambda field, _: pa.large_list_view(field),
}
_TICKS: dict[str, Literal["ms", "us", "ns"]] = {"s": "ms", "ms": "ms", "us": "us", "ns": "ns"}
#: Largest int16 (narrowest run ends) and largest int32 (widest needed).
MAX_INT16, MAX_INT32 = (1 << 15) - 1, (1 << 31) - 1
_LEGACY_TIMESTAMP = [("millis", pa.int64()), ("nanos_of_milli", pa.int32())]

# --- questions ------------------------------------------------------------------------------------------------------


def is_number(type_: pa.DataType) -> bool:
    """Whether values of a type are numbers."""
    return pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_)


def is_string_like(type_: pa.DataType) -> bool:
    """Whether a type is a string, of any layout."""
    return pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_)


def is_binary_like(type_: pa.DataType) -> bool:
    """Whether values of a type are bytes, of any layout, fixed sizes included."""
    return (
        pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_)
    )


def is_list_like(type_: pa.DataType) -> TypeGuard[pa.ListType]:
    """Whether a type is a list, of any layout."""
    return type_.id in _LISTS


def is_encoded(type_: Any) -> bool:
    """Whether a type is a dictionary or runs, which have a `value_type`."""
    return pt.is_dictionary(type_) or pt.is_run_end_encoded(type_)


def keeps_entries(type_: Any) -> bool:
    """Whether a type is a dictionary, or a list of values of a dictionary: the companion keeps its entries."""
    type_ = unwrapped(type_)
    while is_list_like(type_):
        type_ = unwrapped(type_.value_type)
    return bool(pt.is_dictionary(type_))


def is_legacy_timestamp(type_: Any) -> bool:
    """Whether a type is the struct that some writers use for nanosecond timestamps; it is stored as TIMESTAMP(9)."""
    is_pair = pt.is_struct(type_) and type_.num_fields == 2
    return is_pair and [(field.name, field.type) for field in type_] == _LEGACY_TIMESTAMP


def is_long_decimal(type_: pa.DataType) -> bool:
    """Whether a type is a decimal of more digits than the format has, which is stored as bytes."""
    return pt.is_decimal(type_) and type_.precision > MAX_DECIMAL_PRECISION


def contains_type(type_: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Whether a type, or a type that it is made of, is of some kind."""
    type_ = unwrapped(type_)
    if is_kind(type_) or is_encoded(type_):
        return is_kind(type_) or contains_type(type_.value_type, is_kind)
    return any(contains_type(type_.field(i).type, is_kind) for i in range(type_.num_fields))


def keeps_units(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether a value means the same in two types that may be stored alike.

    A number is no duration and no time of day, and bytes are no decimal: their unit or scale would be unknown.

    Examples
    --------
    >>> keeps_units(pa.duration("s"), pa.duration("ms")), keeps_units(pa.duration("s"), pa.int64())
    (True, False)
    """
    return all(is_kind(a) == is_kind(b) for is_kind in (pt.is_duration, pt.is_time64, is_long_decimal))


# --- other types ----------------------------------------------------------------------------------------------------


def unwrapped(type_: Any) -> Any:
    """The type without extension types around it."""
    while isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return type_


def storage_kind(type_: Any) -> pa.DataType:
    """The type without extensions, dictionaries and runs around it."""
    type_ = unwrapped(type_)
    kind: pa.DataType = storage_kind(type_.value_type) if is_encoded(type_) else type_
    return kind


def entry_field(type_: Any) -> pa.Field:
    """The field of the elements of a list, or of the entries of a map."""
    type_ = unwrapped(type_)
    if pt.is_map(type_):
        return pa.field("entries", pa.struct([type_.key_field, type_.item_field]), False)
    field: pa.Field = type_.value_field
    return field


def with_element(type_: Any, field: pa.Field) -> pa.DataType:
    """A list of the same layout with other elements."""
    return _LISTS[type_.id](field, getattr(type_, "list_size", -1))


def map_of(key: pa.Field, item: pa.Field, keys_sorted: bool = False) -> pa.DataType:
    """A map of two fields, which pyarrow's stubs do not know to be possible."""
    type_: pa.DataType = pa.map_(key, item, keys_sorted)  # type: ignore[call-overload]
    return type_


def map_children(type_: Any, change: Callable[[Any], pa.DataType]) -> Any:
    """Apply `change` to the types of the children of a nested type. Values of dictionaries are no children."""
    if pt.is_run_end_encoded(type_):
        values: Any = change(type_.value_type)
        return pa.run_end_encoded(type_.run_end_type, values)
    if pt.is_struct(type_):
        return pa.struct([field.with_type(change(field.type)) for field in type_])
    if is_list_like(type_):
        return with_element(type_, type_.value_field.with_type(change(type_.value_type)))
    if pt.is_map(type_):
        key, item = (field.with_type(change(field.type)) for field in (type_.key_field, type_.item_field))
        return map_of(key, item, type_.keys_sorted)
    return type_


def without_extensions(type_: Any) -> Any:
    """The type as Arrow lays it out, without extension types at any depth.

    Examples
    --------
    >>> without_extensions(pa.list_(pa.bool8()))
    ListType(list<item: int8>)
    """
    return map_children(unwrapped(type_), without_extensions)


def with_capacity(type_: Any, entries: int, rows: int) -> Any:
    """The type, with indices or run ends that can count this many dictionary entries and rows.

    An extension type has one storage type, and is dropped where that would have to change.

    Examples
    --------
    >>> with_capacity(pa.dictionary(pa.int8(), pa.string()), 129, 0).index_type
    DataType(int16)
    """
    if isinstance(type_, pa.BaseExtensionType):
        inner = with_capacity(type_.storage_type, entries, rows)
        return type_ if inner == type_.storage_type else inner
    if pt.is_dictionary(type_):
        return pa.dictionary(_wide_enough(type_.index_type, entries - 1), type_.value_type, type_.ordered)
    if pt.is_run_end_encoded(type_):
        values: Any = with_capacity(type_.value_type, entries, rows)
        return pa.run_end_encoded(_wide_enough(type_.run_end_type, rows), values)
    return map_children(type_, lambda child: with_capacity(child, entries, rows))


def _wide_enough(type_: Any, number: int) -> Any:
    """The type of integers, or the next wider one that holds a number."""
    candidates = type_, pa.int16(), pa.int32(), pa.int64()
    return next(each for each in candidates if number < 1 << each.bit_width - pt.is_signed_integer(each))


def own_buffers(type_: Any) -> int:
    """The number of buffers that a struct, list or map has besides those of its children."""
    if pt.is_struct(type_) or pt.is_fixed_size_list(type_):
        return 1
    return 3 if pt.is_list_view(type_) or pt.is_large_list_view(type_) else 2


def fixed_bytes(type_: Any) -> int:
    """Bytes of a value, also of a null, in Arrow's memory. A value of variable size counts 8, without its content."""
    type_ = unwrapped(type_)
    if pt.is_fixed_size_binary(type_):
        return int(type_.byte_width)
    if pt.is_fixed_size_list(type_):
        return int(type_.list_size) * fixed_bytes(type_.value_type)
    return sum(fixed_bytes(field.type) for field in type_) if pt.is_struct(type_) else 8


# --- stored types and compared types --------------------------------------------------------------------------------


def storage_type(type_: Any, depth: int = 0) -> pa.DataType:
    """The Arrow type that a column of `type_`, which has no structs in it, is stored as.

    Raise SchemaError if the format cannot hold it without loss.

    Examples
    --------
    >>> storage_type(pa.large_string())
    DataType(string)
    >>> storage_type(pa.dictionary(pa.int8(), pa.uint8()))
    DataType(int16)
    """
    if isinstance(type_, pa.BaseExtensionType):  # first, because extension types of users need not be hashable
        return storage_type(type_.storage_type, depth)
    stored: pa.DataType | None = type_ if type_ in TYPE_IDS else _STORED_AS.get(type_)
    if stored is not None:
        return stored
    if depth > MAX_NESTING:
        raise nested_too_deep(depth)
    if pt.is_dictionary(type_) and (
        pt.is_nested(type_.value_type)
        or pt.is_dictionary(type_.value_type)
        or isinstance(type_.value_type, pa.BaseExtensionType)
    ):  # Arrow cannot build such a dictionary from values, and its schema message cannot describe all of them.
        raise SchemaError("a dictionary of this type has no place in Mosaic", found=str(type_.value_type))
    if is_encoded(type_):
        return storage_type(type_.value_type, depth)
    if pt.is_duration(type_) or pt.is_time64(type_):
        return pa.int64()
    if pt.is_timestamp(type_):
        return pa.timestamp(_TICKS[type_.unit], type_.tz)
    if pt.is_decimal(type_) and type_.scale > type_.precision:
        raise SchemaError("decimal scale is above its precision", found=str(type_))
    if pt.is_fixed_size_binary(type_) or is_long_decimal(type_):
        return pa.binary()
    if pt.is_decimal(type_):
        return pa.decimal128(type_.precision, type_.scale)
    if is_list_like(type_):
        return pa.list_(_storage_field(type_.value_field, depth + 1))
    if pt.is_map(type_):
        return map_of(_storage_field(type_.key_field, depth + 1), _storage_field(type_.item_field, depth + 1))
    if is_legacy_timestamp(type_):
        return pa.timestamp("ns")
    raise SchemaError("type has no place in Mosaic", found=str(type_))


def nested_too_deep(depth: int) -> SchemaError:
    return SchemaError("types are nested too deep", found=depth, expected=f"{MAX_NESTING} levels at most")


def _storage_field(field: pa.Field, depth: int) -> pa.Field:
    return pa.field(field.name, storage_type(field.type, depth), field.nullable)


def filter_type(type_: Any) -> pa.DataType:
    """The type that a filter compares a leaf in: its own where the stored one means something else, as for durations.

    A filter may also compute with a column, so that bits and units count, not only the order of values. Where they are
    the same, a leaf is compared as it is stored: Arrow compares no dictionaries or 16-bit floats.
    """
    kind = storage_kind(type_)
    keeps = pt.is_decimal256(kind) or pt.is_null(kind) or pt.is_unsigned_integer(kind) or pt.is_temporal(kind)
    return kind if keeps else storage_type(kind)


def compared_type(type_: Any) -> Any:
    """As `filter_type`, for columns of any type: structs, lists and maps are compared as they are."""
    type_ = unwrapped(type_)
    is_leaf = not pt.is_nested(type_) or pt.is_run_end_encoded(type_) or is_legacy_timestamp(type_)
    return filter_type(type_) if is_leaf else type_
