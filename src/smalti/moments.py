"""Values of Arrow as text: floating-point numbers with the fewest digits, and dates and times of any year; and back.

Dates and times are also exact numbers here, because Python, pandas and Arrow each lack some years.
"""

from __future__ import annotations

import re
import struct
from datetime import date, time
from fractions import Fraction
from functools import cache
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

#: Ticks of a unit in a second.
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
#: Days in 400 years, after which the calendar repeats itself, and days from the first of January of year 1 to 1970.
ERA_DAYS, EPOCH = 146_097, date(1970, 1, 1).toordinal() - 1
_CLOCK = r"(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?)?"
_TIME = re.compile(_CLOCK, re.ASCII)
_ZONE = r"(?P<zone>[Zz]|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)"
_MOMENT = re.compile(rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK}{_ZONE}?)?", re.ASCII)


def parse_moment(written: str, type_: pa.DataType) -> Fraction:
    """Read a date, time or timestamp: seconds of the day, or since 1970, with as many digits as are written.

    Raises
    ------
    ValueError
        If the text is none of this type.

    Examples
    --------
    >>> parse_moment("1970-01-02T00:00:00.25", pa.timestamp("s"))
    Fraction(345601, 4)
    """
    found = (_TIME if pt.is_time(type_) else _MOMENT).fullmatch(written.strip())
    if found is None or (pt.is_date(type_) and found["hour"]):
        raise ValueError(written)
    seconds = _clock(found["hour"], found["minute"], found["second"]) + Fraction(f"0.{found['part'] or 0}")
    if pt.is_time(type_):
        return seconds
    if found["zone"] and not (isinstance(type_, pa.TimestampType) and type_.tz):
        raise ValueError(written)
    shift = _clock(found["hours"], found["minutes"]) * (-1 if found["sign"] == "-" else 1)
    return (date.fromisoformat(found["date"]).toordinal() - 1 - EPOCH) * DAY + seconds - shift


def _clock(hour: str | None, minute: str | None, second: str | None = None) -> int:
    """Seconds of hours, minutes and seconds, of which each can be left out. ValueError if there is no such time."""
    clock = time(int(hour or 0), int(minute or 0), int(second or 0))
    return clock.hour * 3600 + clock.minute * 60 + clock.second


def moment_texts(array: Any) -> list[str | None]:
    """Format dates, times and timestamps in ISO 8601, with all their digits; timestamps with a zone in UTC, with a Z.

    Values do not pass through `datetime`, which would lose nanoseconds, and no time zone database is needed.

    Examples
    --------
    >>> moment_texts(pa.array([0, 1 << 60], pa.timestamp("ms", "UTC")))
    ['1970-01-01T00:00:00.000Z', '36536598-01-28T21:54:06.976Z']
    """
    type_, mark = array.type, ""
    if pt.is_timestamp(type_) and type_.tz is not None:
        type_, mark = pa.timestamp(type_.unit), "Z"
        array = array.cast(pa.timestamp(type_.unit, "UTC")).cast(type_)
    strings: list[str | None] = array.cast(pa.string()).to_pylist()
    for index, string in enumerate(strings):
        if string is not None:  # Arrow says that a value is out of range from the year 32768 on.
            strings[index] = (_far_moment(array[index]) if string.startswith("<") else string.replace(" ", "T")) + mark
    return strings


def _far_moment(scalar: Any) -> str:
    days, rest = divmod(in_seconds(scalar), DAY)
    eras, within = divmod(int(days) + EPOCH, ERA_DAYS)
    day = date.fromordinal(within + 1)
    year = day.year + 400 * eras
    shown = f"{'-' * (year < 0)}{abs(year):04d}-{day.month:02d}-{day.day:02d}"
    if pt.is_date(scalar.type):
        return shown
    seconds, fraction = divmod(rest, 1)
    minutes, seconds = divmod(int(seconds), 60)
    digits = len(str(TICKS[scalar.type.unit])) - 1
    point = f".{int(fraction * 10**digits):0{digits}d}" if digits else ""
    return f"{shown}T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{point}"


def in_seconds(scalar: Any) -> Fraction:
    """Return a date, time, timestamp or duration as its exact number of seconds."""
    if pt.is_date(scalar.type):
        return Fraction(scalar.value * DAY if pt.is_date32(scalar.type) else Fraction(scalar.value, 1000))
    return Fraction(scalar.value, TICKS[scalar.type.unit])


def shortest_floats(array: Any) -> list[float | None]:
    """Floating-point numbers as Python's, each the one that is written with the fewest digits in the array's type.

    Examples
    --------
    >>> shortest_floats(pa.array([2.15, None], pa.float32()))
    [2.15, None]
    """
    if pt.is_float32(array.type):
        array = array.cast(pa.string()).cast(pa.float64())
    values: list[float | None] = array.to_pylist()
    if pt.is_float16(array.type):
        return [None if value is None else _shortest_half(float(value)) for value in values]
    return values


@cache  # There are 65,536 of them.
def _shortest_half(value: float) -> float:
    """The number that is written with the fewest digits and is `value` as a float16."""
    if not isfinite(value):
        return value
    packed = struct.pack("e", value)
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, 5))
    # 65504 rounded to two digits is more than the type can hold, which `struct` refuses.
    return next((each for each in rounded if abs(each) < 65520 and struct.pack("e", each) == packed), value)


def unwrapped_scalar(value: Any) -> Any:
    """Return the value inside an extension type, a dictionary or a run; nulls and other objects unchanged."""
    while isinstance(value, (pa.DictionaryScalar, pa.RunEndEncodedScalar, pa.ExtensionScalar)) and value.is_valid:
        value = value.value
    return value


def scalar_text(scalar: Any, limit: int | None = None) -> str:
    """Format an Arrow scalar or a Python value: as Python does if it can hold it, else in ISO 8601 or as a number.

    A string of more characters than `limit` is cut.
    """
    scalar = unwrapped_scalar(scalar)
    value = python_value(scalar) if isinstance(scalar, pa.Scalar) else scalar
    if isinstance(value, float) and isinstance(scalar, pa.Scalar):
        value = shortest_floats(pa.array([scalar], scalar.type))[0]
    elif isinstance(value, pa.Scalar):
        is_number = pt.is_duration(scalar.type)
        value = scalar.value if is_number else moment_texts(pa.array([scalar], scalar.type))[0]
    shown = str(value)
    return shown if limit is None or len(shown) <= limit else f"{shown[: limit - 1]}…"


def python_value(scalar: Any) -> Any:
    """Return a scalar as a Python value, or unchanged if neither Python nor pandas can hold the value.

    These are nanoseconds without pandas, the year -5000, and the least timestamp, which is NaT in pandas.
    """
    try:
        value = scalar.as_py()
        is_same = not pt.is_temporal(scalar.type) or pa.scalar(value, scalar.type).equals(scalar)
    except (ValueError, OverflowError, LookupError, pa.ArrowException):  # also for unknown time zones
        return scalar
    return value if is_same else scalar
