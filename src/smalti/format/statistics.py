"""Statistics (section 11): the records of the index, and the bounds they hold as Arrow and Python values.

A bound is stored like a value of its column, so that the Arrow type of the column suffices to read it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from smalti.format.varint import pack_sized, pack_varint
from smalti.moments import python_value, scalar_text


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column in one row group.

    Attributes
    ----------
    null_count : int
    min, max : object
        Python values of the column's type, or None when every value is null, or when the writer could not tell
        (a floating-point column whose bounds are NaN).
    """

    null_count: int
    min: Any = None
    max: Any = None

    @property
    def has_min_max(self) -> bool:
        return self.min is not None

    def __repr__(self) -> str:
        ends = (self.min, self.max)
        low, high = (scalar_text(end) if isinstance(end, pa.Scalar) else repr(end) for end in ends)
        return f"ColumnStatistics(null_count={self.null_count}, min={low}, max={high})"


class StatisticsRecord(NamedTuple):
    """One record of the index: `column` is a position, `low` and `high` are absent when every value is null."""

    column: int
    null_count: int
    low: bytes | None
    high: bytes | None

    @property
    def bound_bytes(self) -> int:
        """Bytes of both bounds in the index."""
        return len(self.low or b"") + len(self.high or b"")

    def bounds(self, type_: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
        """Minimum and maximum as Arrow values of the column's type, null where they are unknown."""
        return _to_scalar(self.low, type_), _to_scalar(self.high, type_)

    def describe(
        self, type_: pa.DataType, restore: Callable[[pa.Scalar], pa.Scalar] = lambda bound: bound
    ) -> ColumnStatistics:
        """The record as users see it; `restore` turns a stored value into the value that was given."""
        low, high = (python_value(restore(bound)) for bound in self.bounds(type_))
        if low is None or high is None:
            return ColumnStatistics(self.null_count)
        return ColumnStatistics(self.null_count, low, high)

    def pack(self, type_: pa.DataType) -> bytes:
        """The bytes of the record in the index."""
        head = pack_varint(self.column) + pack_varint(self.null_count)
        if self.low is None or self.high is None:
            return head
        if pt.is_string(type_):
            return head + pack_sized(self.low) + pack_sized(self.high)
        return head + self.low + self.high


def _to_scalar(data: bytes | None, type_: pa.DataType) -> pa.Scalar:
    """A bound as an Arrow value; null for NaN, which is no bound of the other values."""
    if data is None:
        return pa.scalar(None, type_)
    if pt.is_string(type_):
        return pa.scalar(data.decode(), type_)
    if pt.is_boolean(type_):
        return pa.scalar(data != b"\0", type_)
    if pt.is_floating(type_):
        (floating,) = struct.unpack(">f" if len(data) == 4 else ">d", data)
        return pa.scalar(floating if floating == floating else None, type_)
    number = int.from_bytes(data[:8], "big", signed=True)
    if pt.is_timestamp(type_) and type_.unit == "ns":  # milliseconds, then the nanoseconds within
        number = number * 1_000_000 + int.from_bytes(data[8:], "big")
    if pt.is_decimal(type_):
        unscaled = pa.py_buffer(number.to_bytes(16, "little", signed=True))
        decimal: pa.Scalar = pa.Array.from_buffers(type_, 1, [None, unscaled])[0]
        return decimal
    return pa.scalar(number, type_)
