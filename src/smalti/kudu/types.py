"""One table of the element types: Kudu's type, its Arrow type, the physical form in a block and that form's encodings.

Owns the two conversions between an Arrow array and its physical form. Refuses types that Kudu cannot hold in an array:
nested ones, unsigned integers, decimals of more than 18 digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.kudu.spec import DataType, Encoding


@dataclass(frozen=True)
class Physical:
    """How the values of a type lie in a block, and the encodings that Kudu has for them, its default first."""

    arrow: pa.DataType
    width: int  # bytes of a value; 0 for bits and for texts
    encodings: tuple[Encoding, ...]

    @property
    def is_text(self) -> bool:
        """Whether values differ in length."""
        return bool(self.arrow == pa.binary())


_INTEGER = (Encoding.BIT_SHUFFLE, Encoding.PLAIN, Encoding.RLE)
_FLOAT = (Encoding.BIT_SHUFFLE, Encoding.PLAIN)
_BITS = Physical(pa.bool_(), 0, (Encoding.RLE, Encoding.PLAIN))
_INT32 = Physical(pa.int32(), 4, _INTEGER)
_INT64 = Physical(pa.int64(), 8, _INTEGER)
#: Strings and bytes.
TEXT = Physical(pa.binary(), 0, (Encoding.DICT, Encoding.PLAIN))

# For each Kudu type the Arrow type that a reader gives when the file says no more (a CFile knows no precision, scale
# or time zone), and the physical form. A string is written as the first type that has it, STRING.
_TYPES: dict[DataType, tuple[pa.DataType, Physical]] = {
    DataType.INT8: (pa.int8(), Physical(pa.int8(), 1, _INTEGER)),
    DataType.INT16: (pa.int16(), Physical(pa.int16(), 2, _INTEGER)),
    DataType.INT32: (pa.int32(), _INT32),
    DataType.INT64: (pa.int64(), _INT64),
    DataType.FLOAT: (pa.float32(), Physical(pa.float32(), 4, _FLOAT)),
    DataType.DOUBLE: (pa.float64(), Physical(pa.float64(), 8, _FLOAT)),
    DataType.BOOL: (pa.bool_(), _BITS),
    DataType.STRING: (pa.string(), TEXT),
    DataType.VARCHAR: (pa.string(), TEXT),
    DataType.BINARY: (pa.binary(), TEXT),
    DataType.DATE: (pa.date32(), _INT32),
    DataType.UNIXTIME_MICROS: (pa.timestamp("us"), _INT64),
    DataType.DECIMAL32: (pa.decimal128(9, 0), _INT32),
    DataType.DECIMAL64: (pa.decimal128(18, 0), _INT64),
}
_DECIMALS = (DataType.DECIMAL32, DataType.DECIMAL64)


def data_type_of(element_type: pa.DataType) -> DataType:
    """The Kudu type that an Arrow element type is stored as."""
    for data_type, (arrow, _) in _TYPES.items():
        if element_type == arrow:
            return data_type
    if pa.types.is_large_string(element_type):
        return DataType.STRING
    if pa.types.is_large_binary(element_type):
        return DataType.BINARY
    if pa.types.is_timestamp(element_type):
        return DataType.UNIXTIME_MICROS
    if isinstance(element_type, pa.Decimal128Type) and element_type.precision <= 18:
        return DataType.DECIMAL32 if element_type.precision <= 9 else DataType.DECIMAL64
    raise SchemaError(
        "Kudu arrays cannot hold this element type",
        found=str(element_type),
        expected="int8 to int64, float, double, bool, string, binary, date32, timestamp, decimal of up to 18 digits",
    )


def physical_of(element_type: pa.DataType) -> Physical:
    """How the values of an Arrow element type lie in a block."""
    return _TYPES[data_type_of(element_type)][1]


def default_arrow(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Kudu type about which nothing else is known."""
    if data_type not in _TYPES:
        raise UnsupportedFeatureError("element type is not read", found=data_type.name, section="footer")
    return _TYPES[data_type][0]


def normal_type(element_type: pa.DataType) -> pa.DataType:
    """The Arrow type that reading gives for an element type: 32-bit offsets, microseconds."""
    data_type = data_type_of(element_type)
    if isinstance(element_type, pa.TimestampType):
        return pa.timestamp("us", element_type.tz)
    return element_type if data_type in _DECIMALS else default_arrow(data_type)


def type_note(element_type: pa.DataType) -> bytes | None:
    """What a file must remember of a type beyond Kudu's code: precision, scale and time zone; `None` if nothing."""
    normal = normal_type(element_type)
    return None if normal == default_arrow(data_type_of(normal)) else str(normal).encode()


def noted_type(note: bytes, data_type: DataType) -> pa.DataType:
    """The type that a `type_note` describes, which must be one that is stored as `data_type`."""
    text = note.decode(errors="replace")
    decimal = re.fullmatch(r"decimal128\((\d{1,2}), (-?\d{1,2})\)", text)
    zone = re.fullmatch(r"timestamp\[us, tz=([^\]]{1,64})\]", text)
    found: pa.DataType | None = None
    if decimal and 1 <= int(decimal[1]) <= 18:
        found = pa.decimal128(int(decimal[1]), int(decimal[2]))
    elif zone:
        found = pa.timestamp("us", zone[1])
    if found is None or data_type_of(found) is not data_type:
        raise CorruptFileError("note of the element type", found=text[:80], expected=data_type.name)
    return found


def to_physical(values: pa.Array) -> pa.Array:
    """Values as the numbers, bits or bytes that Kudu stores. A value that would change is refused."""
    data_type = data_type_of(values.type)
    arrow = physical_of(values.type).arrow
    try:
        if data_type is DataType.UNIXTIME_MICROS:
            return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        if data_type in _DECIMALS:  # Kudu stores the unscaled value: the same number without its point
            return _with_type(values, pa.decimal128(values.type.precision, 0)).cast(arrow)
        return values if values.type == arrow else values.cast(arrow)
    except pa.ArrowInvalid as error:
        raise SchemaError("value does not fit Kudu's type", found=str(error), expected=data_type.name) from None


def from_physical(values: pa.Array, element_type: pa.DataType) -> pa.Array:
    """The Arrow array of stored numbers, bits or bytes, without a copy where Arrow allows it."""
    data_type = data_type_of(element_type)
    if values.type == element_type:
        return values
    if data_type in (DataType.UNIXTIME_MICROS, DataType.DATE):
        return values.view(element_type)
    try:
        if not isinstance(element_type, pa.Decimal128Type):
            return values.cast(element_type)
        # Room for any 64-bit number first, so that only the column's own precision can refuse it.
        unscaled = values.cast(pa.decimal128(19, 0)).cast(pa.decimal128(element_type.precision, 0))
        return _with_type(unscaled, element_type)
    except pa.ArrowInvalid as error:
        if data_type not in _DECIMALS:
            raise CorruptFileError("string is not UTF-8", found=str(error)) from None
        reason = "decimal has more digits than its type"
        raise CorruptFileError(reason, found=str(error), expected=str(element_type)) from None


def _with_type(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The same buffers read as another type of the same layout."""
    return pa.Array.from_buffers(arrow, len(values), values.buffers(), offset=values.offset)
