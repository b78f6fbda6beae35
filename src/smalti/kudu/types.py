"""One table: Arrow element type, Kudu data type, the physical form Kudu stores, the encodings that form has.

Owns the two conversions between an Arrow array and its physical form. Refuses types Kudu cannot hold in an array:
nested ones, unsigned integers, decimals of more than 18 digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.kudu.spec import DataType, Encoding

_INTEGER = (Encoding.BIT_SHUFFLE, Encoding.PLAIN, Encoding.RLE)


@dataclass(frozen=True)
class Physical:
    """How values of a type lie in a block. The first encoding is the one Kudu takes by itself (section 5)."""

    arrow: pa.DataType
    width: int  # bytes; 0 for bits and for strings
    encodings: tuple[Encoding, ...]


_BITS = Physical(pa.bool_(), 0, (Encoding.RLE, Encoding.PLAIN))
_BYTES = Physical(pa.binary(), 0, (Encoding.DICT, Encoding.PLAIN))
_INT32 = Physical(pa.int32(), 4, _INTEGER)
_INT64 = Physical(pa.int64(), 8, _INTEGER)

_PHYSICAL = {
    DataType.INT8: Physical(pa.int8(), 1, _INTEGER),
    DataType.INT16: Physical(pa.int16(), 2, _INTEGER),
    DataType.INT32: _INT32,
    DataType.INT64: _INT64,
    DataType.FLOAT: Physical(pa.float32(), 4, (Encoding.BIT_SHUFFLE, Encoding.PLAIN)),
    DataType.DOUBLE: Physical(pa.float64(), 8, (Encoding.BIT_SHUFFLE, Encoding.PLAIN)),
    DataType.BOOL: _BITS,
    DataType.STRING: _BYTES,
    DataType.VARCHAR: _BYTES,
    DataType.BINARY: _BYTES,
    DataType.DATE: _INT32,
    DataType.UNIXTIME_MICROS: _INT64,
    DataType.DECIMAL32: _INT32,
    DataType.DECIMAL64: _INT64,
}

# What a reader gives when the file does not say more: a CFile knows no precision, scale or time zone.
_DEFAULT_ARROW = {
    DataType.INT8: pa.int8(),
    DataType.INT16: pa.int16(),
    DataType.INT32: pa.int32(),
    DataType.INT64: pa.int64(),
    DataType.FLOAT: pa.float32(),
    DataType.DOUBLE: pa.float64(),
    DataType.BOOL: pa.bool_(),
    DataType.STRING: pa.string(),
    DataType.VARCHAR: pa.string(),
    DataType.BINARY: pa.binary(),
    DataType.DATE: pa.date32(),
    DataType.UNIXTIME_MICROS: pa.timestamp("us"),
    DataType.DECIMAL32: pa.decimal128(9, 0),
    DataType.DECIMAL64: pa.decimal128(18, 0),
}


def data_type_of(element_type: pa.DataType) -> DataType:
    """The Kudu type an Arrow element type is stored as."""
    for data_type, arrow in _DEFAULT_ARROW.items():
        if element_type == arrow and data_type is not DataType.VARCHAR:
            return data_type
    if pa.types.is_large_string(element_type):
        return DataType.STRING
    if pa.types.is_large_binary(element_type):
        return DataType.BINARY
    if pa.types.is_timestamp(element_type):
        return DataType.UNIXTIME_MICROS
    if pa.types.is_decimal128(element_type) and element_type.precision <= 18:
        return DataType.DECIMAL32 if element_type.precision <= 9 else DataType.DECIMAL64
    raise SchemaError(
        "Kudu arrays cannot hold this element type",
        found=str(element_type),
        expected="int8 to int64, float, double, bool, string, binary, date32, timestamp, decimal of up to 18 digits",
    )


def physical_of(data_type: DataType) -> Physical:
    """How the values of a Kudu type lie in a block."""
    try:
        return _PHYSICAL[data_type]
    except KeyError:
        raise UnsupportedFeatureError("element type is not read", found=data_type.name, section="footer") from None


def default_arrow(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Kudu type about which nothing else is known."""
    physical_of(data_type)
    return _DEFAULT_ARROW[data_type]


def normal_type(element_type: pa.DataType) -> pa.DataType:
    """The Arrow type that comes back: 32-bit offsets, microseconds."""
    data_type = data_type_of(element_type)
    if data_type is DataType.UNIXTIME_MICROS:
        return pa.timestamp("us", element_type.tz)
    return element_type if data_type in (DataType.DECIMAL32, DataType.DECIMAL64) else _DEFAULT_ARROW[data_type]


def type_note(element_type: pa.DataType) -> bytes | None:
    """What a file must remember of a type beyond Kudu's code: precision, scale and time zone; `None` if nothing."""
    normal = normal_type(element_type)
    return None if normal == _DEFAULT_ARROW[data_type_of(normal)] else str(normal).encode()


def noted_type(note: bytes, data_type: DataType) -> pa.DataType:
    """The type of a `type_note`, which must be one stored as `data_type`."""
    text = note.decode(errors="replace")
    decimal = re.fullmatch(r"decimal128\((\d{1,2}), (-?\d{1,2})\)", text)
    zone = re.fullmatch(r"timestamp\[us, tz=([^\]]{1,64})\]", text)
    if decimal and 1 <= int(decimal[1]) <= 18:
        found = pa.decimal128(int(decimal[1]), int(decimal[2]))
    elif zone:
        found = pa.timestamp("us", zone[1])
    else:
        found = None
    if found is None or data_type_of(found) is not data_type:
        raise CorruptFileError("note of the element type", found=text[:80], expected=data_type.name)
    return found


def to_physical(values: pa.Array) -> pa.Array:
    """Values as the numbers, bits or bytes Kudu stores; a value that would change is refused."""
    data_type = data_type_of(values.type)
    arrow = _PHYSICAL[data_type].arrow
    try:
        if data_type is DataType.UNIXTIME_MICROS:
            return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        if data_type in (DataType.DECIMAL32, DataType.DECIMAL64):
            # The same number without its point: Kudu stores the unscaled value.
            unscaled = pa.Array.from_buffers(
                pa.decimal128(values.type.precision, 0), len(values), values.buffers(), offset=values.offset
            )
            return unscaled.cast(arrow)
        return values if values.type == arrow else values.cast(arrow)
    except pa.ArrowInvalid as error:
        raise SchemaError("value does not fit Kudu's type", found=str(error), expected=data_type.name) from None


def from_physical(values: pa.Array, element_type: pa.DataType) -> pa.Array:
    """The Arrow array of stored numbers, bits or bytes, without a copy where Arrow allows it."""
    data_type = data_type_of(element_type)
    if values.type == element_type:
        return values
    if data_type in (DataType.DECIMAL32, DataType.DECIMAL64):
        return _decimals(values, element_type)
    if data_type is DataType.UNIXTIME_MICROS:
        return values.view(pa.timestamp("us", element_type.tz))
    if data_type is DataType.DATE:
        return values.view(pa.date32())
    try:
        return values.cast(element_type)
    except pa.ArrowInvalid as error:
        raise CorruptFileError("string is not UTF-8", found=str(error)) from None


def _decimals(values: pa.Array, element_type: pa.DataType) -> pa.Array:
    try:
        # Room for any 64-bit number first, so that only the column's own precision can refuse it.
        wide = values.cast(pa.decimal128(19, 0)).cast(pa.decimal128(element_type.precision, 0))
    except pa.ArrowInvalid as error:
        raise CorruptFileError(
            "decimal has more digits than its type", found=str(error), expected=str(element_type)
        ) from None
    return pa.Array.from_buffers(element_type, len(wide), wide.buffers(), offset=wide.offset)
