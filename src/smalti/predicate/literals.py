"""Tokens and literals of the language of `predicate.text`; literals as values of the type of the column beside them.

Types are matched strictly, and not left to Arrow's implicit casts: a string compared with a number is a mistake, and
Arrow's message for it names kernels instead of columns.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from math import isfinite

import pyarrow as pa
import pyarrow.types as pt

from smalti.moments import parse_moment
from smalti.predicate.fitting import exact_number, kind_of, misfit, nearest_float
from smalti.predicate.tree import Exact, Value

_ANY_SIZE = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
#: The words of `date '…'` and the like, which columns can have as names too.
TYPED = ("date", "time", "timestamp")


@dataclass(frozen=True)
class Token:
    """A word or mark of a condition. `text` is as written, but unquoted, and `start` its index in the condition.

    Literals are of kind "string", "number", "boolean", or one of `TYPED`.
    """

    kind: str
    text: str
    start: int


def to_value(literal: Token, column: str, op: str, type_: pa.DataType) -> Value:
    """The value that a literal means for a column of a type; `op` is the sign between them, for messages."""
    kind, expected = literal.kind, kind_of(type_)
    if kind == expected == "number":
        return Exact("number", _number(literal.text, type_))
    if kind == expected == "boolean":
        return pa.scalar(literal.text == "true")
    if kind == "string" and expected in ("string", "bytes"):
        return pa.scalar(literal.text)
    is_moment = (
        (pt.is_date(type_) and kind in ("string", "date"))
        or (pt.is_time(type_) and kind in ("string", "time"))
        or (pt.is_timestamp(type_) and kind in ("string", "date", "timestamp"))
    )
    with suppress(ValueError):
        if is_moment:
            return Exact(expected, parse_moment(literal.text, type_))
    written = literal.text if kind in ("number", "boolean") else "'" + literal.text.replace("'", "''") + "'"
    condition = f"{column} in ({written})" if op == "in" else f"{column} {op} {written}"
    raise misfit(condition, type_, kind, literal.text, booleans="true or false")


def _number(text: str, type_: pa.DataType) -> Fraction | float:
    """The number that a literal means for a type: exactly the number as it is written, with one exception.

    For a float column, a literal with a point or exponent means the nearest float if that float, rounded to as many
    digits, is the literal.

    Examples
    --------
    >>> _number("0.1", pa.float64()) == 0.1, _number("0.1", pa.float32()) == 0.1, _number("0.1", pa.int8())
    (True, False, Fraction(1, 10))
    >>> _number("9007199254740993.0", pa.float64())
    Fraction(9007199254740993, 1)
    """
    digits, mark, exponent = text.lower().partition("e")
    power = exponent.lstrip("+-0") or "0"
    if len(power) > 9:  # Python has no decimals with such an exponent, and no type has such a number.
        power = "9" * 9
    number = _ANY_SIZE.create_decimal(f"{digits}e-{power}" if exponent.startswith("-") else f"{digits}e{power}")
    exact = exact_number(number)
    if not pt.is_floating(type_) or not (mark or "." in digits):
        return exact
    near = nearest_float(exact, type_.bit_width)
    if not near or not isfinite(near):
        return exact  # A number beyond the type's is neither infinity nor zero.
    shown = f"{near:.{max(0, len(number.normalize(_ANY_SIZE).as_tuple().digits) - 1)}e}"
    return Fraction(near) if Decimal(shown) == number else exact
