"""Values of filters brought to the types of the columns that they are compared with, without a change of meaning.

A value is an exact number: of seconds, if it is a moment or a duration. A type can represent only some numbers. A value
between two of them equals no value of the column, and ordering it means ordering the next representable number below.
So no value is ever rounded, none is too large, and Arrow only compares values of one type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date
from decimal import ROUND_05UP, Context, Decimal
from fractions import Fraction
from math import floor, inf, isfinite, nan
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.logical.types import is_binary_like, is_number, is_string_like
from smalti.moments import DAY, TICKS, in_seconds, parse_moment, python_value, unwrapped_scalar
from smalti.predicate import tree as t

#: Kinds of types, each with its test. Values of one kind can be compared; so can strings and bytes.
_KINDS: dict[str, Callable[[Any], bool]] = {
    "number": is_number,
    "moment": lambda type_: pt.is_date(type_) or (pt.is_timestamp(type_) and type_.tz is None),
    "moment with a zone": pt.is_timestamp,
    "time": pt.is_time,
    "duration": pt.is_duration,
    "boolean": pt.is_boolean,
    "string": is_string_like,
    "bytes": is_binary_like,
    "null": pt.is_null,
}
#: Kinds whose values are compared as they are; the others are compared as numbers.
_NOT_NUMBERS = ("boolean", "string", "bytes")
#: Numbers beyond these powers of ten are beyond every type, or nearer to zero than all numbers of any type.
_LARGEST, _SMALLEST = 400, -400
#: Enough digits for every number that a type has. ROUND_05UP keeps longer numbers from becoming equal to one of them.
_ENOUGH = Context(prec=1200, rounding=ROUND_05UP, Emin=-9999, Emax=9999)
#: Types between which Arrow casts values only if none changes.
_CAST_EXACTLY = (pt.is_integer, pt.is_decimal, pt.is_duration, is_string_like)
_FLOATS = {16: "e", 32: "f", 64: "d"}


def kind_of(type_: pa.DataType) -> str:
    """The kind of a type; for types that cannot be compared, their own name."""
    return next((kind for kind, is_kind in _KINDS.items() if is_kind(type_)), str(type_))


def exact_number(number: Decimal | float) -> Fraction | float:
    """A number as a fraction that compares like it with the numbers of every type; infinity and NaN as floats."""
    if not isinstance(number, Decimal):
        return Fraction(number) if isinstance(number, int) or isfinite(number) else float(number)
    if not number.is_finite():
        return float(number)
    if not number or _SMALLEST < number.adjusted() < _LARGEST:
        return Fraction(_ENOUGH.plus(number) if number else 0)
    power = Fraction(10) ** (_LARGEST if number.adjusted() > 0 else _SMALLEST)
    return -power if number.is_signed() else power


def fit_condition(tree: t.Tree, types: Mapping[str, pa.DataType]) -> t.Tree:
    """Return a condition with its value in the type of its column, or the tree itself if it has no value to fit.

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
        case t.Compare(column, op, value) if column in types:
            return t.Compare(column, *_fit_compare(column, op, unwrapped_scalar(value), types[column]))
        case t.IsIn(column, values) if column in types:
            return t.IsIn(column, _fit_set(column, values, types[column]))
        case t.MatchString(column, op) if column in types:
            if kind_of(types[column]) not in ("string", "bytes", "null"):
                raise SchemaError(f"filter on {column!r}: column is {types[column]}, and {op} is for text")
        case t.CompareColumns(left, op, right) if left in types and right in types:
            kinds = [kind_of(types[name]) for name in (left, right)]
            if "null" not in kinds and not _are_comparable(*kinds):
                shown = f"filter {left!r} {t.SIGNS[op]} {right!r}"
                raise SchemaError(f"{shown}: the columns are {types[left]} and {types[right]}, which do not compare")
    return tree


#: What a value of each kind is called in messages.
_IN_WORDS = {
    "number": "a number",
    "moment": "a date or time without a zone",
    "moment with a zone": "a moment with a time zone",
    "time": "a time of day",
    "duration": "a duration",
    "boolean": "a boolean",
    "string": "text",
    "null": "null",
}
#: The most characters of a value that a message repeats.
_MAX_SHOWN = 60


def misfit(
    condition: str, type_: pa.DataType, kind: str, value: object, *, booleans: str = "True or False"
) -> SchemaError:
    """Return the error of a condition whose value does not compare with its column; it says what to write instead.

    `condition` is shown as it was written, `kind` is that of the value, and `booleans` is how both are written.

    Examples
    --------
    >>> str(misfit("filter ('user_id', '=', '1')", pa.int64(), "string", "1"))
    "filter ('user_id', '=', '1'): column is int64, value is text; write 1"
    """
    found = f"{condition}: column is {type_}, value is {_IN_WORDS.get(kind, kind)}"
    instead = _instead(type_, kind, value, booleans)
    return SchemaError(f"{found}; write {instead}" if instead else f"{found}; such a column cannot be compared")


def _instead(type_: Any, kind: str, value: object, booleans: str) -> str | None:
    expected = kind_of(type_)
    if expected == "number":
        with suppress(ValueError, TypeError):
            float(value)  # type: ignore[arg-type]
            return f"{value:d}" if isinstance(value, bool) else str(value).strip() if kind == "string" else "a number"
        return "a number"
    if expected == "string":
        return repr(str(value)) if kind == "number" or isinstance(value, date) else "text in single quotes"
    if pt.is_date(type_):
        return "a date such as '2026-01-31'"
    if pt.is_timestamp(type_):
        return f"a moment such as '2026-01-31T12:34:56{'Z' if type_.tz else ''}'"
    return {"time": "a time such as '12:34:56'", "duration": "a timedelta", "boolean": booleans, "bytes": "bytes"}.get(
        expected
    )


def _refusal(column: str, op: str, type_: pa.DataType, value: Any, kind: str) -> SchemaError:
    """Return the error of a condition of the tree, which is shown as Python programs write it."""
    python = value.amount if isinstance(value, t.Exact) else python_value(value)
    shown = repr(python) if not isinstance(python, (Fraction, pa.Scalar)) else str(python)
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[: _MAX_SHOWN - 1]}…"
    sign = t.SIGNS.get(op, op)
    return misfit(f"filter ({column!r}, {sign!r}, {f'[{shown}]' if op == 'in' else shown})", type_, kind, python)


def _are_comparable(one: str, other: str) -> bool:
    return (one == other and one in _KINDS) or {one, other} == {"string", "bytes"}


def _measure(column: str, op: str, value: Any, type_: pa.DataType) -> Any:
    """The Python value to compare, of a value that is not null: an exact number, a string, bytes or a boolean.

    Dates and times may be written as text, as on the command line.
    """
    kind, expected = value.kind if isinstance(value, t.Exact) else kind_of(value.type), kind_of(type_)
    if kind == "string" and expected in ("moment", "moment with a zone", "time"):
        with suppress(ValueError):
            return parse_moment(value.as_py(), type_)
    if not _are_comparable(kind, expected):
        raise _refusal(column, op, type_, value, kind)
    if isinstance(value, t.Exact):
        return value.amount
    if kind == "number":
        return exact_number(value.as_py())
    return value.as_py() if kind in _NOT_NUMBERS else in_seconds(value)


def step_of(type_: Any) -> Fraction:
    """The distance between two numbers of a type; in seconds, if the type is about time."""
    if pt.is_decimal(type_):
        return Fraction(1, 10**type_.scale) if type_.scale > 0 else Fraction(10**-type_.scale)
    if pt.is_date(type_):
        return Fraction(DAY) if pt.is_date32(type_) else Fraction(1, 1000)
    return Fraction(1) if pt.is_integer(type_) else Fraction(1, TICKS[type_.unit])


def _limits(type_: Any) -> tuple[int, int]:
    """The least and the greatest number of a type, in steps."""
    if pt.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if pt.is_unsigned_integer(type_):
        return 0, (1 << type_.bit_width) - 1
    return -(1 << type_.bit_width - 1), (1 << type_.bit_width - 1) - 1


def _below(amount: Fraction | float, type_: pa.DataType) -> tuple[Any, bool]:
    """The greatest number of a type that is not above `amount`, in steps, and whether the two are the same.

    (None, False) if `amount` is below the least number, or is NaN and the type has none.

    Examples
    --------
    >>> _below(Fraction(5, 2), pa.decimal128(3, 2)), _below(Fraction(-129), pa.int8()), _below(inf, pa.int8())
    ((250, True), (None, False), (127, False))
    >>> _below(Fraction(10) ** 39, pa.float32()), _below(inf, pa.float32()), _below(nan, pa.float32())
    ((3.4028234663852886e+38, False), (inf, True), (nan, True))
    """
    if amount != amount:
        return (nan, True) if pt.is_floating(type_) else (None, False)
    if pt.is_floating(type_):
        near = _float_below(amount, type_.bit_width)
        return near, near == amount
    low, high = _limits(type_)
    if amount in (inf, -inf):
        return (high if amount > 0 else None), False
    steps = Fraction(amount) / step_of(type_)
    whole = floor(steps)
    return None if whole < low else min(whole, high), low <= whole == steps <= high


def _float_below(amount: Fraction | float, bits: int) -> float:
    """The greatest floating-point number of `bits` bits that is not above `amount`."""
    near = nearest_float(amount, bits)
    if near <= amount:
        return near
    code = ">" + _FLOATS[bits]
    pattern = int.from_bytes(struct.pack(code, near), "big")
    pattern = pattern - 1 if near > 0 else pattern + 1 if near < 0 else (1 << bits - 1) + 1
    return float(struct.unpack(code, pattern.to_bytes(bits // 8, "big"))[0])


def nearest_float(amount: Fraction | float, bits: int) -> float:
    """The floating-point number of `bits` bits next to `amount`; beyond the largest one it is infinite."""
    try:
        return float(struct.unpack(_FLOATS[bits], struct.pack(_FLOATS[bits], float(amount)))[0])
    except OverflowError:
        return inf if amount > 0 else -inf


def _array(steps: Iterable[int | float], type_: pa.DataType) -> pa.Array:
    """An array of numbers of a type that are given in steps."""
    if pt.is_float16(type_):
        return pa.array(list(steps), pa.float32()).cast(type_)
    if not pt.is_decimal(type_):
        return pa.array(list(steps), type_)
    context = Context(prec=100)
    return pa.array([Decimal(each).scaleb(-type_.scale, context) for each in steps], type_)


def _fit_compare(column: str, op: str, value: t.Value, type_: pa.DataType) -> tuple[str, pa.Scalar]:
    """The operator and the value of the column's type that give the same answer for every value of the column."""
    is_comparable = kind_of(type_) in _KINDS
    if pt.is_null(type_) or not (isinstance(value, t.Exact) or value.is_valid):
        if not is_comparable:
            raise misfit(f"filter ({column!r}, {t.SIGNS.get(op, op)!r}, None)", type_, "null", None)
        return op, pa.scalar(None, type_)
    if isinstance(value, pa.Scalar) and value.type == type_ and is_comparable:
        return op, value
    amount = _measure(column, op, value, type_)
    if not isinstance(amount, (Fraction, float)):
        return op, _plain_scalar(amount, type_)
    number, is_same = _below(amount, type_)
    is_equality = op in ("equal", "not_equal")
    if not is_same and pt.is_floating(type_) and is_equality:
        number, is_same = nan, True  # NaN equals no number either.
    if not is_same and (number is None or is_equality):
        # Every value of the column gives the same answer. So does a comparison with the least number of the type.
        is_true = op == "not_equal" or (op.startswith("greater") and amount == amount)
        op, number = "greater_equal" if is_true else "less", _limits(type_)[0]
    elif not is_same:
        op = "less_equal" if op.startswith("less") else "greater"
    return op, _array([number], type_)[0]


def _plain_scalar(value: str | bytes | bool, type_: pa.DataType) -> pa.Scalar:
    """A scalar of the value. Convert between str and bytes as `type_` requires; bytes that are not UTF-8 stay bytes."""
    if is_binary_like(type_):
        return pa.scalar(value.encode() if isinstance(value, str) else value, pa.binary())
    try:
        return pa.scalar(value.decode() if isinstance(value, bytes) else value, type_)
    except UnicodeDecodeError:
        return pa.scalar(value)


def _of_one_type(values: tuple[t.Value, ...]) -> pa.Array | tuple[t.Value, ...]:
    """Integers or strings of one type as an array, which is fitted at once; other values as they are."""
    types = {value.type if isinstance(value, pa.Scalar) and value.is_valid else None for value in values}
    type_ = types.pop() if len(types) == 1 else None
    if type_ is None or not (pt.is_integer(type_) or is_string_like(type_)):
        return values
    return pa.array([value.as_py() for value in values], type_)  # type: ignore[union-attr]


def _fit_set(column: str, values: Any, type_: pa.DataType) -> pa.Array:
    """Return the values as an array of a type. Drop values that the type cannot represent: they match nothing."""
    while isinstance(values, (pa.ExtensionArray, pa.DictionaryArray)):
        values = values.storage if isinstance(values, pa.ExtensionArray) else values.dictionary_decode()
    if kind_of(type_) not in _KINDS:
        raise misfit(f"filter on {column!r}", type_, "a list of values", None)
    if not isinstance(values, pa.Array):
        values = _of_one_type(values)
    if isinstance(values, pa.Array):
        if values.type == type_:
            return values
        if any(is_kind(values.type) and is_kind(type_) for is_kind in _CAST_EXACTLY):
            with suppress(pa.ArrowInvalid):  # All values at once, if the type can represent all of them.
                return values.cast(type_)
    if pt.is_null(type_) or (isinstance(values, pa.Array) and pt.is_null(values.type)):
        return pa.array([], type_)
    amounts = [_measure(column, "in", unwrapped_scalar(value), type_) for value in values]
    if kind_of(type_) in _NOT_NUMBERS:
        plain = [_plain_scalar(amount, type_) for amount in amounts]
        held: list[Any] = [each.as_py() for each in plain if kind_of(each.type) == kind_of(type_)]
        if pt.is_fixed_size_binary(type_):
            held = [each for each in held if len(each) == type_.byte_width]
        return pa.array(held, type_)
    numbers = [number for number, is_same in (_below(amount, type_) for amount in amounts) if is_same]
    if pt.is_floating(type_) and 0 in numbers:
        numbers += (0.0, -0.0)  # They are equal, though not to Arrow's `is_in`.
    return _array(numbers, type_)
