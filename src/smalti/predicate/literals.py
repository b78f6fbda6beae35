"""Values of the `--where` language as scalars of the type of the column they are compared with.

Types are matched here, strictly, and not left to Arrow's implicit casts: a text compared with a number is a mistake,
and Arrow's message for it names kernels instead of columns.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import time
from decimal import Decimal, InvalidOperation
from math import ulp

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import MosaicError
from smalti.types import decimal_scalar

#: Texts and bytes of any layout; bytes are compared with the UTF-8 of what is written.
_TEXTS = (
    pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_binary, pt.is_large_binary, pt.is_binary_view
)  # fmt: skip
#: `date '…'` and the like; the words stay usable as names.
TYPED = ("date", "time", "timestamp")


class WhereError(MosaicError):
    """A condition that cannot be understood; says where."""


@dataclass(frozen=True)
class Literal:
    """`kind` is "string", "number", "boolean", or one of `TYPED`; `text` is as written, unquoted."""

    kind: str
    text: str


def is_number(type_: pa.DataType) -> bool:
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_))


def to_scalar(value: Literal, column: str, type_: pa.DataType) -> pa.Scalar:
    """A value as the type of the column it is compared with, or as a number close to it."""
    kind = value.kind
    if kind == "number" and is_number(type_):
        return _number(value.text, type_)
    if kind == "boolean" and pt.is_boolean(type_):
        return pa.scalar(value.text == "true")
    if kind == "string" and any(is_kind(type_) for is_kind in _TEXTS):
        return pa.scalar(value.text, type_)
    if kind == "string" and pt.is_fixed_size_binary(type_) and not pt.is_decimal(type_):
        return pa.scalar(value.text, pa.binary())  # of another size, maybe, and then equal to none
    if (
        (pt.is_date(type_) and kind in ("string", "date"))
        or (pt.is_time(type_) and kind in ("string", "time"))
        or (pt.is_timestamp(type_) and kind in ("string", "date", "timestamp"))
    ):
        return _moment(value.text, column, type_)
    found, expected = f"{kind} {value.text!r}", str(type_)
    raise WhereError(f"--where: column {column!r} cannot be compared with this", found=found, expected=expected)


def _number(text: str, type_: pa.DataType) -> pa.Scalar:
    """A number as the type of its column, or where that cannot hold it, as another type that compares with it."""
    if pt.is_floating(type_):
        return pa.scalar(float(text), type_)
    with suppress(pa.ArrowInvalid, OverflowError, InvalidOperation):
        exact = Decimal(text)
        if pt.is_decimal(type_):
            with suppress(pa.ArrowInvalid):
                return decimal_scalar(text, type_)
            return pa.scalar(exact)
        if exact.adjusted() < 20 and exact == exact.to_integral_value():
            return pa.scalar(int(exact), type_)
    # All values of the column are above or below a number beyond its type. A float near it says so, unless it is 0.
    near = float(text)
    if not near and text.lower().partition("e")[0].strip("+-0."):
        near = -ulp(0.0) if text.startswith("-") else ulp(0.0)
    return pa.scalar(near)


def _moment(written: str, column: str, type_: pa.DataType) -> pa.Scalar:
    text = written.strip()
    try:
        if pt.is_time(type_):  # Arrow has no cast from text to times
            return pa.scalar(time.fromisoformat(text), type_)
        if not isinstance(type_, pa.TimestampType) or type_.tz is None:
            return pa.scalar(text).cast(type_)
        if len(text) <= 10:
            text += "T00:00:00"
        if not (text.endswith(("Z", "z")) or "+" in text[10:] or "-" in text[10:]):
            text += "Z"
        return pa.scalar(text).cast(pa.timestamp(type_.unit, "UTC")).cast(type_)
    except ValueError:  # Arrow's own errors are among them
        example = "2026-01-31" if pt.is_date(type_) else "12:34:56"
        if isinstance(type_, pa.TimestampType):
            example = "2026-01-31T12:34:56" + ("Z" if type_.tz else "")
        expected = f"{type_}, such as {example}"
        raise WhereError(
            f"--where: column {column!r} cannot be compared with this", found=written, expected=expected
        ) from None
