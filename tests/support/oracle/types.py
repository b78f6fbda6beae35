"""Type descriptors and values: Arrow on one side, the bytes of one value (a "cell") on the other (notes, 2.5, 3, 4)."""

from __future__ import annotations

import decimal

import pyarrow as pa

from tests.support.oracle.wire import Cursor, uv

TIMESTAMP_PRECISION = {"ms": 3, "us": 6, "ns": 9}
FIXED = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32()]
WIDTHS = [1, 1, 2, 4, 8, 4, 8, 4]
INTEGER = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
UNSIGNED = {4: pa.uint32(), 8: pa.uint64()}
EXACT = decimal.Context(prec=60)


def pack_field(field: pa.Field) -> bytes:
    """Type id, nullable byte and parameters of one field, nested fields included."""
    kind, nullable = field.type, bytes([field.nullable])
    if kind in FIXED:
        return bytes([FIXED.index(kind)]) + nullable
    if pa.types.is_string(kind):
        return b"\x0a" + nullable
    if pa.types.is_binary(kind):
        return b"\x0d" + nullable
    if pa.types.is_decimal128(kind):
        return b"\x0e" + nullable + uv(kind.precision) + uv(kind.scale & 0xFFFFFFFF)
    if kind == pa.time32("ms"):
        return b"\x0f" + nullable + uv(3)
    if pa.types.is_timestamp(kind):
        precision = uv(TIMESTAMP_PRECISION[kind.unit])
        if kind.tz is None:
            return b"\x10" + nullable + precision
        return b"\x11" + nullable + precision + _text(kind.tz)
    if pa.types.is_list(kind):
        return b"\x12" + nullable + _text(kind.value_field.name) + pack_field(kind.value_field)
    assert pa.types.is_map(kind), kind
    children = [(child.name, pack_field(child)) for child in (kind.key_field, kind.item_field)]
    return b"\x13" + nullable + _text("entries") + b"".join(_text(name) + packed for name, packed in children)


def read_field(cursor: Cursor, name: str) -> pa.Field:
    type_id, nullable = cursor.u8(), bool(cursor.u8())
    return pa.field(name, _read_type(cursor, type_id), nullable=nullable)


def _read_type(cursor: Cursor, type_id: int) -> pa.DataType:
    if type_id < len(FIXED):
        return FIXED[type_id]
    if type_id in (8, 9, 11, 12):
        cursor.uv()  # a declared length, which Arrow has no place for
    if type_id in (8, 9, 10):
        return pa.string()
    if type_id in (11, 12, 13):
        return pa.binary()
    if type_id == 14:
        precision, scale = cursor.uv(), cursor.uv()
        return pa.decimal128(precision, scale - (1 << 32) if scale >= 1 << 31 else scale)
    if type_id == 15:
        cursor.uv()
        return pa.time32("ms")
    if type_id in (16, 17):
        precision = cursor.uv()
        zone = cursor.text() if type_id == 17 else None
        return pa.timestamp("ms" if precision <= 3 else "us" if precision <= 6 else "ns", zone or None)
    if type_id == 18:
        return pa.list_(read_field(cursor, cursor.text()))
    assert type_id == 19, type_id
    cursor.text()
    key = read_field(cursor, cursor.text())
    return pa.map_(key, read_field(cursor, cursor.text()))


def _text(value: str) -> bytes:
    data = value.encode()
    return uv(len(data)) + data


def is_container(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_map(kind)


def width(kind: pa.DataType) -> int | None:
    """Bytes of one value; None where each value says its own length."""
    if kind in FIXED:
        return WIDTHS[FIXED.index(kind)]
    if pa.types.is_decimal(kind):
        return 8 if kind.precision <= 18 else None
    if pa.types.is_time32(kind):
        return 4
    if pa.types.is_timestamp(kind):
        return 12 if kind.unit == "ns" else 8
    return None


def read_cell(cursor: Cursor, kind: pa.DataType) -> bytes:
    fixed = width(kind)
    if fixed is not None:
        return cursor.take(fixed)
    length = cursor.uv()
    return uv(length) + cursor.take(length)


def payload(cell: bytes, kind: pa.DataType) -> bytes:
    """A cell without its length prefix."""
    if width(kind) is not None:
        return cell
    cursor = Cursor(cell)
    return cursor.take(cursor.uv())


def to_cells(array: pa.Array) -> list[bytes | None]:
    """One cell per row of a scalar array, None for a null."""
    kind = array.type
    fixed = width(kind)
    if pa.types.is_boolean(kind):
        return [None if value is None else bytes([value]) for value in array.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return [None if value is None else uv(len(value)) + value for value in array.cast(pa.binary()).to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if value is None else _decimal_cell(value, fixed) for value in _unscaled(array)]
    if fixed == 12:
        return [None if value is None else _nanos_cell(value) for value in array.view(pa.int64()).to_pylist()]
    unsigned = pa.types.is_floating(kind)
    numbers = array.view((UNSIGNED if unsigned else INTEGER)[fixed]).to_pylist()
    return [None if value is None else value.to_bytes(fixed, "big", signed=not unsigned) for value in numbers]


def from_cells(cells: list[bytes | None], kind: pa.DataType) -> pa.Array:
    values = [None if cell is None else payload(cell, kind) for cell in cells]
    fixed = width(kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array(values, pa.binary()).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if value is None else value != b"\0" for value in values], kind)
    if pa.types.is_decimal(kind):
        scaled = [None if v is None else EXACT.scaleb(_signed(v), -kind.scale) for v in values]
        return pa.array(scaled, kind)
    if fixed == 12:
        nanos = [None if v is None else _signed(v[:8]) * 1_000_000 + _signed(v[8:]) for v in values]
        return pa.array(nanos, pa.int64()).view(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else int.from_bytes(v, "big") for v in values], UNSIGNED[fixed]).view(kind)
    return pa.array([None if v is None else _signed(v) for v in values], INTEGER[fixed]).view(kind)


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _unscaled(array: pa.Array) -> list[int | None]:
    raw = array.buffers()[1].to_pybytes() if len(array) else b""
    valid = array.is_valid().to_pylist()
    starts = range(array.offset * 16, (array.offset + len(array)) * 16, 16)
    return [
        int.from_bytes(raw[start : start + 16], "little", signed=True) if ok else None
        for start, ok in zip(starts, valid, strict=True)
    ]


def _decimal_cell(value: int, fixed: int | None) -> bytes:
    if fixed is not None:
        return value.to_bytes(fixed, "big", signed=True)
    length = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return uv(length) + value.to_bytes(length, "big", signed=True)


def _nanos_cell(value: int) -> bytes:
    millis, nanos = divmod(value, 1_000_000)
    return millis.to_bytes(8, "big", signed=True) + nanos.to_bytes(4, "big")
