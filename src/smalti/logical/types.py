"""Arrow types and Mosaic types (section 3): which is stored as which, and what is turned into another type first.

An Arrow type without a type of its own in the format is stored as another one that holds its values, else refused. What
the original type was is kept in the companion of the file; `smalti.logical.tree` does the same for structs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
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

_LISTS = {
    pa.list_(pa.int8()).id,
    pa.large_list(pa.int8()).id,
    pa.list_(pa.int8(), 1).id,
    pa.list_view(pa.int8()).id,
    pa.large_list_view(pa.int8()).id,
}
_TICKS: dict[str, Literal["ms", "us", "ns"]] = {"s": "ms", "ms": "ms", "us": "us", "ns": "ns"}


def is_legacy_timestamp(type_: pa.DataType) -> bool:
    """The struct some writers use for nanosecond timestamps; stored as TIMESTAMP(9)."""
    return (
        pt.is_struct(type_)
        and type_.num_fields == 2
        and [(type_.field(i).name, type_.field(i).type) for i in range(2)]
        == [("millis", pa.int64()), ("nanos_of_milli", pa.int32())]
    )


def is_long_decimal(type_: pa.DataType) -> bool:
    """Whether a type is a decimal of more digits than the format has, which is stored as bytes."""
    return pt.is_decimal(type_) and type_.precision > MAX_DECIMAL_PRECISION


def keeps_units(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether a value means the same as either of two types that may be stored alike.

    A number is no duration and no time of day, and bytes are no decimal: nobody could tell their unit or scale.

    Examples
    --------
    >>> keeps_units(pa.duration("s"), pa.duration("ms")), keeps_units(pa.duration("s"), pa.int64())
    (True, False)
    """
    return all(is_kind(a) == is_kind(b) for is_kind in (pt.is_duration, pt.is_time64, is_long_decimal))


def contains_type(type_: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Whether a type, or one that it is made of, is of some kind."""
    if isinstance(type_, pa.BaseExtensionType):
        return contains_type(type_.storage_type, is_kind)
    if is_kind(type_):
        return True
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return contains_type(type_.value_type, is_kind)
    return any(contains_type(type_.field(i).type, is_kind) for i in range(type_.num_fields))


def is_list_like(type_: pa.DataType) -> TypeGuard[pa.ListType]:
    """Whether a type is a list, of any layout."""
    return type_.id in _LISTS


def is_string_like(type_: pa.DataType) -> bool:
    """Whether a type is a string, of any layout."""
    return pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_)


def is_binary_like(type_: pa.DataType) -> bool:
    """Whether a type is binary, of any layout or of a fixed size."""
    is_variable = pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_)
    return is_variable or pt.is_fixed_size_binary(type_)


def storage_kind(type_: Any) -> pa.DataType:
    """A type without what is wrapped around it: extension, dictionary, runs."""
    if isinstance(type_, pa.BaseExtensionType):
        return storage_kind(type_.storage_type)
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return storage_kind(type_.value_type)
    kind: pa.DataType = type_
    return kind


def storage_type(type_: pa.DataType, depth: int = 0) -> pa.DataType:
    """The Arrow type a column of `type_`, which has no structs in it, is stored as.

    Raises
    ------
    SchemaError
        If the format cannot hold it without loss.

    Examples
    --------
    >>> storage_type(pa.large_string())
    DataType(string)
    >>> storage_type(pa.dictionary(pa.int8(), pa.uint8()))
    DataType(int16)
    """
    if isinstance(type_, pa.BaseExtensionType):  # first, because extension types of users need not be hashable
        return storage_type(type_.storage_type, depth)
    if type_ in TYPE_IDS:
        return type_
    if type_ in _STORED_AS:
        return _STORED_AS[type_]
    if depth > MAX_NESTING:
        raise SchemaError("types are nested too deep", found=depth, expected=f"{MAX_NESTING} levels at most")
    if pt.is_dictionary(type_) and (
        pt.is_nested(type_.value_type)
        or pt.is_dictionary(type_.value_type)
        or isinstance(type_.value_type, pa.BaseExtensionType)
    ):  # Arrow cannot make such a dictionary of values, and its schema message cannot say all of them.
        raise SchemaError("a dictionary of this type has no place in Mosaic", found=str(type_.value_type))
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return storage_type(type_.value_type, depth)
    if pt.is_duration(type_) or pt.is_time64(type_):
        return pa.int64()
    if pt.is_fixed_size_binary(type_):
        return pa.binary()
    if pt.is_timestamp(type_):
        return pa.timestamp(_TICKS[type_.unit], type_.tz)
    if pt.is_decimal(type_):
        if type_.scale > type_.precision:
            raise SchemaError("decimal scale is above its precision", found=str(type_))
        if is_long_decimal(type_):
            return pa.binary()
        return pa.decimal128(type_.precision, type_.scale)
    if is_list_like(type_):
        return pa.list_(_storage_field(type_.value_field, depth + 1))
    if pt.is_map(type_):
        key, item = _storage_field(type_.key_field, depth + 1), _storage_field(type_.item_field, depth + 1)
        stored: pa.DataType = pa.map_(key, item)  # type: ignore[call-overload]
        return stored
    if is_legacy_timestamp(type_):
        return pa.timestamp("ns")
    raise SchemaError("type has no place in Mosaic", found=str(type_))


def _storage_field(field: pa.Field, depth: int) -> pa.Field:
    return pa.field(field.name, storage_type(field.type, depth), field.nullable)


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def decimal_scalar(text: str, type_: Any) -> pa.Scalar:
    """A number that is written in digits as a decimal of some type.

    Arrow itself looks up powers of ten without a look at how many there are: `1e-99999999` would end the process.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the type cannot hold the number exactly, or it is none.

    Examples
    --------
    >>> decimal_scalar("150e-2", pa.decimal128(10, 2))
    <pyarrow.Decimal128Scalar: Decimal('1.50')>
    """
    exact = Context(prec=max(1, len(text)), Emin=MIN_EMIN, Emax=MAX_EMAX)
    with suppress(ArithmeticError):  # of exponents that Python has no numbers for
        number = exact.create_decimal(text if _NUMBER.fullmatch(text) else "NaN").normalize(exact)
        exponent = number.as_tuple().exponent
        fits = isinstance(exponent, int) and -type_.scale <= exponent
        if not number or (fits and number.adjusted() < type_.precision - type_.scale):
            scalar: pa.Scalar = pa.scalar(number or Decimal(0), type_)
            return scalar
    raise pa.ArrowInvalid(f"{text} is no number that {type_} can hold")
