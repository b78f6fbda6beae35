"""Dates and times as strings and as exact numbers, also of years that Python, pandas or Arrow do not support."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

#: Ticks of a unit in a second.
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
#: Seconds from 1970 to the first time that Arrow can format, in the year -32767, and to the first that it cannot.
FIRST_SHOWN, FIRST_HIDDEN = -1_096_193_779_200, 971_890_963_200
#: Days of the 400 years after which the calendar repeats itself, and from the year 1 to 1970.
ERA_DAYS, EPOCH = 146_097, date(1970, 1, 1).toordinal() - 1


def moment_texts(array: Any) -> list[str | None]:
    """Format dates, times and timestamps in ISO 8601, with all their digits; those with a zone in UTC, with a Z.

    `datetime` is not used, because it would lose nanoseconds; no time zone database is needed.

    Examples
    --------
    >>> moment_texts(pa.array([0, 1 << 60], pa.timestamp("ms", "UTC")))
    ['1970-01-01T00:00:00.000Z', '36536598-01-28T21:54:06.976Z']
    """
    type_, mark = array.type, ""
    if pt.is_timestamp(type_) and type_.tz is not None:
        type_, mark = pa.timestamp(type_.unit), "Z"
        array = array.cast(pa.timestamp(type_.unit, "UTC")).cast(type_)
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    for index, text in enumerate(texts):
        if text is not None:  # Arrow writes "<value out of range...>" from the year 32768 on.
            texts[index] = (_far_moment(array[index]) if text.startswith("<") else text.replace(" ", "T")) + mark
    return texts


def _far_moment(scalar: Any) -> str:
    days, rest = divmod(in_seconds(scalar), DAY)
    eras, within = divmod(int(days) + EPOCH, ERA_DAYS)
    day = date.fromordinal(within + 1)
    year = day.year + 400 * eras
    text = f"{'-' * (year < 0)}{abs(year):04d}-{day.month:02d}-{day.day:02d}"
    if pt.is_date(scalar.type):
        return text
    seconds, fraction = divmod(rest, 1)
    minutes, seconds = divmod(int(seconds), 60)
    digits = len(str(TICKS[scalar.type.unit])) - 1
    point = f".{int(fraction * 10**digits):0{digits}d}" if digits else ""
    return f"{text}T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{point}"


def in_seconds(scalar: Any) -> Fraction:
    """Return the exact number of seconds of a date, time, timestamp or duration."""
    if pt.is_date(scalar.type):
        return Fraction(scalar.value * DAY if pt.is_date32(scalar.type) else Fraction(scalar.value, 1000))
    return Fraction(scalar.value, TICKS[scalar.type.unit])


def scalar_text(scalar: Any, limit: int | None = None) -> str:
    """An Arrow scalar, or a Python value, as a string: as Python shows it if it can, else in ISO 8601 or as a number.

    More characters than `limit` are cut off.
    """
    while isinstance(scalar, (pa.DictionaryScalar, pa.RunEndEncodedScalar, pa.ExtensionScalar)):
        scalar = scalar.value
    value = python_value(scalar) if isinstance(scalar, pa.Scalar) else scalar
    if isinstance(value, pa.Scalar):
        is_number = pt.is_duration(scalar.type)
        value = scalar.value if is_number else moment_texts(pa.array([scalar], scalar.type))[0]
    text = str(value)
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"


def python_value(scalar: Any) -> Any:
    """Convert an Arrow scalar to a Python value, or return it if neither Python nor pandas can hold it.

    Examples are nanoseconds without pandas, the year -5000, and the least nanoseconds, which pandas takes for missing.
    """
    try:
        value = scalar.as_py()
        is_same = not pt.is_temporal(scalar.type) or pa.scalar(value, scalar.type).equals(scalar)
    except (ValueError, OverflowError, LookupError, pa.ArrowException):  # also of unknown zones
        return scalar
    return value if is_same else scalar
