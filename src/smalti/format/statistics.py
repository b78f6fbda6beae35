"""Statistics (section 11): the records of the index, and what they say in Python values."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from smalti.format.varint import pack_varint
from smalti.spec import TypeId

_INTEGERS = {
    TypeId.TINYINT: ">b",
    TypeId.SMALLINT: ">h",
    TypeId.INTEGER: ">i",
    TypeId.BIGINT: ">q",
    TypeId.DATE: ">i",
    TypeId.TIME: ">i",
}


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


def raw_value(type_id: int, precision: int, data: bytes) -> Any:
    """A serialised value as the plain number or text Arrow stores: ticks for times, unscaled for decimals."""
    if type_id == TypeId.BOOLEAN:
        return data != b"\0"
    if type_id in _INTEGERS:
        return struct.unpack(_INTEGERS[TypeId(type_id)], data)[0]
    if type_id == TypeId.FLOAT:
        return struct.unpack(">f", data)[0]
    if type_id == TypeId.DOUBLE:
        return struct.unpack(">d", data)[0]
    if type_id == TypeId.DECIMAL or (precision <= 6 and type_id in (TypeId.TIMESTAMP, TypeId.TIMESTAMP_LTZ)):
        return struct.unpack(">q", data)[0]
    if type_id in (TypeId.TIMESTAMP, TypeId.TIMESTAMP_LTZ):
        millis, nanos = struct.unpack(">qi", data)
        return millis * 1_000_000 + nanos
    return data.decode()


def to_scalar(raw: Any, type_: pa.DataType) -> pa.Scalar:
    """The Arrow scalar of a raw value; null for NaN, which says nothing about the other values."""
    if raw is None or raw != raw:
        return pa.scalar(None, type_)
    if pa.types.is_decimal(type_):
        data = int(raw).to_bytes(16, "little", signed=True)
        return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(data)])[0]
    return pa.scalar(raw, type_)


def to_python(scalar: pa.Scalar) -> Any:
    """A Python value; what Python cannot hold (nanoseconds without pandas, the year -5000) stays an Arrow scalar."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return scalar


def describe(
    type_id: int, precision: int, type_: pa.DataType, null_count: int, low: bytes | None, high: bytes | None
) -> ColumnStatistics:
    """One record, for people."""
    values = [
        to_python(to_scalar(None if raw is None else raw_value(type_id, precision, raw), type_)) for raw in (low, high)
    ]
    return ColumnStatistics(null_count, *values) if None not in values else ColumnStatistics(null_count)


def pack_record(type_id: int, column: int, null_count: int, low: bytes | None, high: bytes | None) -> bytes:
    """One record of the index; `column` is a sorted index, bounds are absent if every value is null."""
    head = pack_varint(column) + pack_varint(null_count)
    if low is None or high is None:
        return head
    if type_id == TypeId.STRING:
        return head + pack_varint(len(low)) + low + pack_varint(len(high)) + high
    return head + low + high
