"""Literals of the language of `predicate.text` as values of the type of the column they are compared with.

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
from smalti.predicate.fitting import exact_number, kind_of, nearest_float
from smalti.predicate.tree import Exact, Value

_ANY_SIZE = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_CLOCK = r"(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?)?"
_TIME = re.compile(_CLOCK, re.ASCII)
_MOMENT = re.compile(rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK}(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
#: The words of `date '…'` and the like, which columns can have as names too.
TYPED = ("date", "time", "timestamp")


@dataclass(frozen=True)
class Literal:
    """`kind` is "string", "number", "boolean", or one of `TYPED`; `text` is as written, unquoted."""

    kind: str
    text: str


def to_value(value: Literal, column: str, type_: pa.DataType) -> Value:
    """The value that a literal means for a column of a type."""
    kind = value.kind
    if kind == kind_of(type_) == "number":
        return Exact("number", _number(value.text, type_))
    if kind == "boolean" and pt.is_boolean(type_):
        return pa.scalar(value.text == "true")
    if kind == "string" and kind_of(type_) in ("string", "bytes"):
        return pa.scalar(value.text)
    if (
        (pt.is_date(type_) and kind in ("string", "date"))
        or (pt.is_time(type_) and kind in ("string", "time"))
        or (pt.is_timestamp(type_) and kind in ("string", "date", "timestamp"))
    ):
        return Exact(kind_of(type_), _seconds(value.text, column, type_))
    raise _refusal(column, f"{kind} {value.text!r}", str(type_))


def _refusal(column: str, found: str, expected: str) -> SchemaError:
    return SchemaError(f"column {column!r} cannot be compared with this", found=found, expected=expected)


def _number(text: str, type_: pa.DataType) -> Fraction | float:
    """A number as it is written. With a point or an exponent, it may also be how a floating-point number is written.

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
        hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
        clock = time(hour, minute, second)
        seconds = Fraction(clock.hour * 3600 + clock.minute * 60 + clock.second) + Fraction(f"0.{found['part'] or 0}")
        if pt.is_time(type_):
            return seconds
        days = date.fromisoformat(found["date"]).toordinal() - date(1970, 1, 1).toordinal()
        zone = found["zone"] or ""
        if zone and not (isinstance(type_, pa.TimestampType) and type_.tz):
            raise ValueError
        hours, minutes = (int(zone[1:3]), int(zone[3:].lstrip(":") or 0)) if zone.upper() not in ("", "Z") else (0, 0)
        offset = time(hours, minutes)
        shift = (offset.hour * 60 + offset.minute) * (-60 if zone.startswith("-") else 60)
        return days * 86_400 + seconds - shift
    except ValueError:
        example = "2026-01-31" if pt.is_date(type_) else "12:34:56"
        if isinstance(type_, pa.TimestampType):
            example = "2026-01-31T12:34:56" + ("Z" if type_.tz else "")
        raise _refusal(column, written, f"{type_}, such as {example}") from None
