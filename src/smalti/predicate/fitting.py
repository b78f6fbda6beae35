"""Values of filters brought to the types of the columns that they are compared with, without a change of meaning.

A value is an exact number, here: of seconds, if it is a moment or a duration. A type has some numbers and not others.
Between two of them, nothing is equal to the value, and a comparison with it is one with the number below. So no value
is ever rounded, none is too large, and Arrow compares nothing but values of one type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import ROUND_05UP, Context, Decimal
from fractions import Fraction
from math import floor, inf, isfinite, nan
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.predicate import tree as t

#: Kinds of types, and what tells them. Values of one kind can be compared; so can texts and bytes.
_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("number", lambda type_: pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_)),
    ("moment", lambda type_: pt.is_date(type_) or (pt.is_timestamp(type_) and type_.tz is None)),
    ("moment with a zone", pt.is_timestamp),
    ("time", pt.is_time),
    ("duration", pt.is_duration),
    ("boolean", pt.is_boolean),
    ("text", lambda type_: pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_)),
    ("bytes", lambda t: pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t) or pt.is_fixed_size_binary(t)),
    ("null", pt.is_null),
)
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Numbers beyond these powers of ten are beyond every type, or nearer to zero than all numbers of any type.
_LARGEST, _SMALLEST = 400, -400
#: Enough digits for every number that a type has. More of them are cut off so that none is mistaken for such a number.
_ENOUGH = Context(prec=1200, rounding=ROUND_05UP, Emin=-9999, Emax=9999)
#: Types between which Arrow casts values only if none changes.
_CAST_EXACTLY = (pt.is_integer, pt.is_decimal, pt.is_duration, lambda type_: kind_of(type_) == "text")
_FLOATS = {16: "e", 32: "f", 64: "d"}


def kind_of(type_: pa.DataType) -> str:
    """What a type has values of; for types that are not compared, their own name."""
    return next((kind for kind, is_kind in _KINDS if is_kind(type_)), str(type_))


def exact_number(number: Decimal) -> Fraction | float:
    """A decimal number as a fraction, or as one that compares like it with the numbers of every type."""
    if not number.is_finite() or not number:
        return float(number) if not number.is_finite() else Fraction(0)
    if _SMALLEST < number.adjusted() < _LARGEST:
        return Fraction(_ENOUGH.plus(number))
    power = Fraction(10) ** (_LARGEST if number.adjusted() > 0 else _SMALLEST)
    return -power if number.is_signed() else power


def fit_condition(tree: t.Condition, types: Mapping[str, pa.DataType]) -> t.Condition:
    """One condition with its value in the type of its column, as far as that is known.

    Raises
    ------
    SchemaError

    Examples
    --------
    >>> fit_condition(t.Compare("i", "greater", pa.scalar(2.5)), {"i": pa.int8()})
    Compare(column='i', op='greater', value=<pyarrow.Int8Scalar: 2>)
    >>> fit_condition(t.Compare("i", "less", pa.scalar(1e9)), {"i": pa.int8()})
    Compare(column='i', op='less_equal', value=<pyarrow.Int8Scalar: 127>)
    >>> fit_condition(t.IsIn("x", pa.array([2, (1 << 24) + 1])), {"x": pa.float32()}).values.to_pylist()
    [2.0]
    """
    match tree:
        case t.Compare(column, _, value) if column in types:
            return _fit_compare(tree, _unwrapped(value), types[column])
        case t.IsIn(column, values) if column in types:
            return t.IsIn(column, _fit_set(column, values, types[column]))
        case t.MatchText(column, op) if column in types:
            if kind_of(types[column]) not in ("text", "bytes", "null"):
                raise _refusal(column, types[column], f"a text, by {op}")
        case t.CompareColumns(left, _, right) if left in types and right in types:
            kinds = [kind_of(types[name]) for name in (left, right)]
            if "null" not in kinds and not (_is_compared(kinds[0]) and _are_alike(*kinds)):
                raise _refusal(left, types[left], f"column {right!r} of type {types[right]}")
    return tree


def _refusal(column: str, type_: pa.DataType, found: object) -> SchemaError:
    reason = "a filter compares a column with what it cannot be compared with"
    return SchemaError(reason, column=column, found=found, expected=f"what compares with {type_}")


def _is_compared(kind: str) -> bool:
    return any(kind == each for each, _ in _KINDS)


def _are_alike(one: str, other: str) -> bool:
    return one == other or {one, other} == {"text", "bytes"}


def _unwrapped(value: Any) -> t.Value:
    """A value of an extension type or a dictionary as what it holds: columns are compared as they are stored."""
    while isinstance(value, (pa.ExtensionScalar, pa.DictionaryScalar)) and value.is_valid:
        value = value.value
    plain: t.Value = value
    return plain


def _measure(column: str, value: t.Value, type_: pa.DataType) -> Any:
    """What is compared of a value that is not null: an exact number, a text or bytes, or whether it is true."""
    kind = value.kind if isinstance(value, t.Exact) else kind_of(value.type)
    if not _is_compared(kind) or not _are_alike(kind, kind_of(type_)):
        raise _refusal(column, type_, kind if isinstance(value, t.Exact) else f"{value.type} {value}")
    if isinstance(value, t.Exact):
        return value.amount
    if kind in ("boolean", "text", "bytes"):
        return value.as_py()
    if kind != "number":
        ticks: Any = value
        return ticks.value * step_of(value.type)
    number: Any = value.as_py()
    if isinstance(number, Decimal):
        return exact_number(number)
    return Fraction(number) if isfinite(number) else float(number)


def step_of(type_: Any) -> Fraction:
    """How far the numbers of a type are apart, of seconds if it is about time."""
    if pt.is_decimal(type_):
        return Fraction(1, 10**type_.scale) if type_.scale > 0 else Fraction(10**-type_.scale)
    if pt.is_date(type_):
        return Fraction(86_400) if pt.is_date32(type_) else Fraction(1, 1000)
    return Fraction(1) if pt.is_integer(type_) else Fraction(1, _TICKS[type_.unit])


def _limits(type_: Any) -> tuple[int, int]:
    """The least and the most steps that a type holds."""
    if pt.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if pt.is_unsigned_integer(type_):
        return 0, (1 << type_.bit_width) - 1
    return -(1 << type_.bit_width - 1), (1 << type_.bit_width - 1) - 1


def _below(amount: Fraction | float, type_: pa.DataType) -> tuple[int | float | None, bool]:
    """The greatest number of a type that is not above another one, in steps, and whether it is that one.

    Examples
    --------
    >>> _below(Fraction(5, 2), pa.decimal128(3, 2)), _below(Fraction(-129), pa.int8()), _below(inf, pa.int8())
    ((250, True), (None, False), (127, False))
    >>> _below(Fraction(10) ** 39, pa.float32()), _below(inf, pa.float32())
    ((3.4028234663852886e+38, False), (inf, True))
    """
    if pt.is_floating(type_):
        near = float_below(amount, type_.bit_width)
        return near, near == amount
    low, high = _limits(type_)
    if amount in (inf, -inf):
        return (high if amount > 0 else None), False
    steps = Fraction(amount) / step_of(type_)
    whole = floor(steps)
    return None if whole < low else min(whole, high), low <= whole == steps <= high


def float_below(amount: Fraction | float, bits: int) -> float:
    """The greatest floating-point number of so many bits that is not above another number."""
    near = nearest_float(amount, bits)
    if near <= amount:
        return near
    code, size = ">" + _FLOATS[bits], bits // 8
    pattern = int.from_bytes(struct.pack(code, near), "big")
    pattern = pattern - 1 if near > 0 else pattern + 1 if near < 0 else (1 << bits - 1) + 1
    below: float = struct.unpack(code, pattern.to_bytes(size, "big"))[0]
    return below


def nearest_float(amount: Fraction | float, bits: int) -> float:
    """A floating-point number of so many bits next to another number; beyond the largest one it is infinite."""
    try:
        near: float = struct.unpack(_FLOATS[bits], struct.pack(_FLOATS[bits], float(amount)))[0]
        return near
    except OverflowError:
        return inf if amount > 0 else -inf


def _array(steps: Iterable[int | float], type_: pa.DataType) -> pa.Array:
    """Numbers of a type, as `_below` tells them."""
    if pt.is_float16(type_):
        return pa.array(list(steps), pa.float32()).cast(type_)
    if not pt.is_decimal(type_):
        return pa.array(list(steps), type_)
    context = Context(prec=100)
    return pa.array([Decimal(each).scaleb(-type_.scale, context) for each in steps], type_)


def _fit_compare(tree: t.Compare, value: t.Value, type_: pa.DataType) -> t.Compare:
    column, op = tree.column, tree.op
    if pt.is_null(type_) or not (isinstance(value, t.Exact) or value.is_valid):
        if not _is_compared(kind_of(type_)):
            raise _refusal(column, type_, "null")
        return t.Compare(column, op, pa.scalar(None, type_))
    if isinstance(value, pa.Scalar) and value.type == type_ and _is_compared(kind_of(type_)):
        return t.Compare(column, op, value)
    amount = _measure(column, value, type_)
    if not isinstance(amount, (Fraction, float)):
        return t.Compare(column, op, _plain_scalar(amount, type_))
    is_never_less = amount != amount
    if pt.is_floating(type_) and is_never_less:
        return t.Compare(column, op, _array([nan], type_)[0])
    number, is_equal = (None, False) if is_never_less else _below(amount, type_)
    if is_equal and number is not None:
        return t.Compare(column, op, _array([number], type_)[0])
    if pt.is_floating(type_) and op in ("equal", "not_equal"):
        return t.Compare(column, op, _array([nan], type_)[0])  # which equals no number either, nor itself
    if number is not None and op not in ("equal", "not_equal"):
        return t.Compare(column, "less_equal" if op.startswith("less") else "greater", _array([number], type_)[0])
    # Every value of the column gives the same answer, and so it does in a comparison with the least number there is.
    is_true = op == "not_equal" or (op.startswith("greater") and not is_never_less)
    return t.Compare(column, "greater_equal" if is_true else "less", _array(_limits(type_)[:1], type_)[0])


def _plain_scalar(value: str | bytes | bool, type_: pa.DataType) -> pa.Scalar:
    """A text as bytes and bytes as a text, if that is what is compared. Bytes that are no text stay what they are."""
    if kind_of(type_) == "bytes":
        return pa.scalar(value.encode() if isinstance(value, str) else value, pa.binary())
    try:
        return pa.scalar(value.decode() if isinstance(value, bytes) else value, type_)
    except UnicodeDecodeError:
        return pa.scalar(value)


def _fit_set(column: str, values: Any, type_: pa.DataType) -> pa.Array:
    """Values to look for among those of a type. One that the type does not have is none of them."""
    while isinstance(values, (pa.ExtensionArray, pa.DictionaryArray)):
        values = values.storage if isinstance(values, pa.ExtensionArray) else values.dictionary_decode()
    if not _is_compared(kind_of(type_)):
        raise _refusal(column, type_, "a list of values")
    if isinstance(values, pa.Array):
        if values.type == type_:
            return values
        if any(is_kind(values.type) and is_kind(type_) for is_kind in _CAST_EXACTLY):
            with suppress(pa.ArrowInvalid):  # All of them at once, if the type has all of them.
                return values.cast(type_)
    if pt.is_null(type_) or (isinstance(values, pa.Array) and pt.is_null(values.type)):
        return pa.array([], type_)
    amounts = [_measure(column, _unwrapped(value), type_) for value in values]
    if kind_of(type_) in ("boolean", "text", "bytes"):
        plain = [_plain_scalar(amount, type_) for amount in amounts]
        held: list[Any] = [each.as_py() for each in plain if kind_of(each.type) == kind_of(type_)]
        if pt.is_fixed_size_binary(type_):
            held = [each for each in held if len(each) == type_.byte_width]
        return pa.array(held, type_)
    found: list[int | float] = [nan] if pt.is_floating(type_) and any(amount != amount for amount in amounts) else []
    for amount in amounts:
        number, is_equal = (None, False) if amount != amount else _below(amount, type_)
        if number is not None and is_equal:
            found += (0.0, -0.0) if number == 0 and pt.is_floating(type_) else (number,)
    return _array(found, type_)
