"""Tokens and literals of the language of `predicate.text`; literals as values of the type of the column beside them.

Types are matched strictly, and not left to Arrow's implicit casts: a string compared with a number is a mistake, and
Arrow's message for it names kernels instead of columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, time
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from math import isfinite

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.moments import DAY, EPOCH
from smalti.predicate.fitting import exact_number, kind_of, nearest_float
from smalti.predicate.tree import Exact, Value

_ANY_SIZE = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_CLOCK = r"(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?)?"
_TIME = re.compile(_CLOCK, re.ASCII)
_ZONE = r"(?P<zone>[Zz]|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)"
_MOMENT = re.compile(rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK}{_ZONE}?)?", re.ASCII)
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


def to_value(literal: Token, column: str, type_: pa.DataType) -> Value:
    """The value that a literal means for a column of a type."""
    kind, expected = literal.kind, kind_of(type_)
    if kind == expected == "number":
        return Exact("number", _number(literal.text, type_))
    if kind == expected == "boolean":
        return pa.scalar(literal.text == "true")
    if kind == "string" and expected in ("string", "bytes"):
        return pa.scalar(literal.text)
    if (
        (pt.is_date(type_) and kind in ("string", "date"))
        or (pt.is_time(type_) and kind in ("string", "time"))
        or (pt.is_timestamp(type_) and kind in ("string", "date", "timestamp"))
    ):
        return Exact(expected, _seconds(literal.text, column, type_))
    raise _refusal(column, f"{kind} {literal.text!r}", str(type_))


def _refusal(column: str, found: str, expected: str) -> SchemaError:
    return SchemaError(f"column {column!r} cannot be compared with this", found=found, expected=expected)


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


def _seconds(written: str, column: str, type_: pa.DataType) -> Fraction:
    """Seconds of the day, or since 1970, with as many digits as are written."""
    found = (_TIME if pt.is_time(type_) else _MOMENT).fullmatch(written.strip())
    try:
        if found is None or (pt.is_date(type_) and found["hour"]):
            raise ValueError
        seconds = _clock(found["hour"], found["minute"], found["second"]) + Fraction(f"0.{found['part'] or 0}")
        if pt.is_time(type_):
            return seconds
        if found["zone"] and kind_of(type_) != "moment with a zone":
            raise ValueError
        shift = _clock(found["hours"], found["minutes"]) * (-1 if found["sign"] == "-" else 1)
        return (date.fromisoformat(found["date"]).toordinal() - 1 - EPOCH) * DAY + seconds - shift
    except ValueError:
        example = "2026-01-31" if pt.is_date(type_) else "12:34:56"
        if isinstance(type_, pa.TimestampType):
            example = "2026-01-31T12:34:56" + ("Z" if type_.tz else "")
        raise _refusal(column, written, f"{type_}, such as {example}") from None


def _clock(hour: str | None, minute: str | None, second: str | None = None) -> int:
    """Seconds of hours, minutes and seconds, of which each can be left out. ValueError if there is no such time."""
    clock = time(int(hour or 0), int(minute or 0), int(second or 0))
    return clock.hour * 3600 + clock.minute * 60 + clock.second
