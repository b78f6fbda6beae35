"""What a `--where` tree means for a file: a pyarrow expression whose values have the types of their columns.

Types are matched here, strictly, and not left to Arrow's implicit casts: a text compared with a number is a mistake,
and Arrow's message for it names kernels instead of columns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from datetime import time
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.cli.where import (
    Among,
    Column,
    Comparison,
    Condition,
    Flag,
    Junction,
    Literal,
    Negation,
    NullTest,
    Operand,
    WhereError,
    parse_where,
)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def where_expression(text: str, schema: pa.Schema) -> pc.Expression:
    """The expression of a condition over the columns of `schema`.

    Examples
    --------
    >>> print(where_expression("id > 5 and name is not null", pa.schema({"id": pa.int8(), "name": pa.string()})))
    ((id > 5) and is_valid(name))
    """
    return _Meaning(schema).of(parse_where(text))


class _Meaning:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def of(self, condition: Condition, negated: bool = False) -> pc.Expression:
        """`not` is pushed down to single conditions: Arrow's "is in" says false where SQL says null."""
        match condition:
            case Junction(word, left, right):
                one, other = self.of(left, negated), self.of(right, negated)
                return one & other if (word == "and") is not negated else one | other
            case Negation(operand):
                return self.of(operand, not negated)
            case NullTest(column, is_not):
                self._type(column)
                field = pc.field(column.name)
                return field.is_valid() if is_not is not negated else field.is_null()
            case Among(column, values, is_not):
                return self._among(column, values, is_not is not negated)
            case Flag(column):
                expression = self._flag(column)
            case Comparison(op, left_side, right_side):
                expression = self._compare(op, left_side, right_side)
        return ~expression if negated else expression

    def _flag(self, column: Column) -> pc.Expression:
        type_ = self._type(column)
        if not pt.is_boolean(type_):
            raise WhereError(
                "--where: a column by itself must be boolean",
                column=column.name,
                found=str(type_),
                expected="a comparison",
            )
        return pc.field(column.name) == pa.scalar(True)

    def _type(self, column: Column) -> pa.DataType:
        at = self._schema.get_field_index(column.name)
        if at < 0:
            close = difflib.get_close_matches(column.name, self._schema.names, 3)
            raise WhereError("--where: no such column", found=column.name, expected=" or ".join(close) or None)
        return self._schema.field(at).type

    def _among(self, column: Column, values: tuple[Literal, ...], negated: bool) -> pc.Expression:
        type_ = self._type(column)
        scalars = [_scalar(value, column, type_) for value in values]
        if all(scalar.type == type_ for scalar in scalars):
            field = pc.field(column.name)
            matches = field.isin(pa.array([scalar.as_py() for scalar in scalars], type_))
        else:  # 1.5 among integers and the like: no one type for the list, the same answer
            matches = reduce(lambda a, b: a | b, [pc.field(column.name) == scalar for scalar in scalars])
        if not negated:
            return matches
        # As in SQL: null is neither in a list nor not in it.
        return ~matches & pc.field(column.name).is_valid()

    def _compare(self, op: str, left: Operand, right: Operand) -> pc.Expression:
        match left, right:
            case Column(), Column():
                self._comparable(left, right)
                return _COMPARE[op](pc.field(left.name), pc.field(right.name))
            case Column(), Literal():
                return _COMPARE[op](pc.field(left.name), _scalar(right, left, self._type(left)))
            case Literal(), Column():
                return _COMPARE[_SWAPPED[op]](pc.field(right.name), _scalar(left, right, self._type(right)))
        raise WhereError("--where: both sides of a comparison are values", expected="a column on one side")

    def _comparable(self, left: Column, right: Column) -> None:
        a, b = self._type(left), self._type(right)
        if a != b and not (_is_number(a) and _is_number(b)) and not (pt.is_timestamp(a) and pt.is_timestamp(b)):
            raise WhereError("--where: columns of different types", found=f"{left.name} {a}", expected=f"{b}")


def _is_number(type_: pa.DataType) -> bool:
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_))


def _scalar(value: Literal, column: Column, type_: pa.DataType) -> pa.Scalar:
    """A value as the type of the column it is compared with, or as a number close to it."""
    kind = value.kind
    if kind == "number" and _is_number(type_):
        return _number(value.text, type_)
    if kind == "boolean" and pt.is_boolean(type_):
        return pa.scalar(value.text == "true")
    if kind == "string" and pt.is_string(type_):
        return pa.scalar(value.text, type_)
    moment = (
        (pt.is_date(type_) and kind in ("string", "date"))
        or (pt.is_time(type_) and kind in ("string", "time"))
        or (pt.is_timestamp(type_) and kind in ("string", "date", "timestamp"))
    )
    if moment:
        return _moment(value, column, type_)
    if kind == "string" and pt.is_binary(type_):
        return pa.scalar(value.text.encode(), type_)
    raise WhereError(
        "--where: value does not fit the column's type",
        column=column.name,
        found=f"{kind} {value.text!r}",
        expected=str(type_),
    )


def _number(text: str, type_: pa.DataType) -> pa.Scalar:
    exact = Decimal(text)
    if pt.is_floating(type_):
        return pa.scalar(float(text), type_)
    if pt.is_integer(type_):
        if exact != exact.to_integral_value():
            return pa.scalar(float(text))
        try:
            return pa.scalar(int(exact), type_)
        except (pa.ArrowInvalid, OverflowError):
            # Beyond the column's type: everything is below or above it, which a float says well enough.
            return pa.scalar(float(text))
    try:
        return pa.scalar(exact, type_)
    except pa.ArrowInvalid:
        return pa.scalar(exact)


def _moment(value: Literal, column: Column, type_: pa.DataType) -> pa.Scalar:
    try:
        if pt.is_timestamp(type_) and type_.tz is not None:
            zoned = value.text.strip()
            if len(zoned) <= 10:
                zoned += "T00:00:00"
            if not (zoned.endswith(("Z", "z")) or "+" in zoned[10:] or "-" in zoned[10:]):
                zoned += "Z"
            return pa.scalar(zoned).cast(pa.timestamp(type_.unit, "UTC")).cast(type_)
        if pt.is_time(type_):  # Arrow has no cast from text to times
            return pa.scalar(time.fromisoformat(value.text.strip()), type_)
        return pa.scalar(value.text.strip()).cast(type_)
    except ValueError:  # Arrow's own errors are among them
        raise WhereError(
            "--where: not a moment of the column's type",
            column=column.name,
            found=value.text,
            expected=f"{type_}, such as {_example(type_)}",
        ) from None


def _example(type_: pa.DataType) -> str:
    if pt.is_date(type_):
        return "2026-01-31"
    return "12:34:56" if pt.is_time(type_) else "2026-01-31T12:34:56" + ("Z" if type_.tz else "")
