"""Descriptors of stored types (section 2.5), as Arrow types name them, and which of them have statistics.

`_core.physical` parses descriptors. Arrow types that the format lacks are brought to stored ones by `smalti.logical`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.format.varint import pack_sized, pack_varint
from smalti.spec import MAX_COMPACT_PRECISION, TypeId

#: The stored types without parameters, and TIME, whose precision is always 3.
TYPE_IDS: dict[pa.DataType, TypeId] = {
    pa.bool_(): TypeId.BOOLEAN,
    pa.int8(): TypeId.TINYINT,
    pa.int16(): TypeId.SMALLINT,
    pa.int32(): TypeId.INTEGER,
    pa.int64(): TypeId.BIGINT,
    pa.float32(): TypeId.FLOAT,
    pa.float64(): TypeId.DOUBLE,
    pa.date32(): TypeId.DATE,
    pa.string(): TypeId.STRING,
    pa.binary(): TypeId.BYTES,
    pa.time32("ms"): TypeId.TIME,
}
_PRECISION = {"ms": 3, "us": 6, "ns": 9}


def has_statistics(type_: pa.DataType) -> bool:
    """Whether columns of a stored type can have minimum and maximum (section 11)."""
    if pt.is_decimal(type_):
        return bool(type_.precision <= MAX_COMPACT_PRECISION)
    return not (pt.is_binary(type_) or pt.is_list(type_) or pt.is_map(type_))


def _pack_string(value: str) -> bytes:
    if "\0" in value:
        raise SchemaError("NUL in the name of a nested field or in a time zone", found=value)
    return pack_sized(value.encode())


def pack_descriptor(type_: pa.DataType, nullable: bool) -> bytes:
    """The descriptor of a stored type.

    Examples
    --------
    >>> pack_descriptor(pa.timestamp("us", "UTC"), True).hex(" ")
    '11 01 06 03 55 54 43'
    """
    if type_ in TYPE_IDS:
        parameters = b"\x03" if TYPE_IDS[type_] is TypeId.TIME else b""
        return bytes([TYPE_IDS[type_], nullable]) + parameters
    if pt.is_timestamp(type_):
        precision = pack_varint(_PRECISION[type_.unit])
        if type_.tz is None:
            return bytes([TypeId.TIMESTAMP, nullable]) + precision
        return bytes([TypeId.TIMESTAMP_LTZ, nullable]) + precision + _pack_string(type_.tz)
    if pt.is_decimal(type_):
        # The scale is a signed byte, sign-extended to 32 bits.
        return bytes([TypeId.DECIMAL, nullable]) + pack_varint(type_.precision) + pack_varint(type_.scale & 0xFFFFFFFF)
    if pt.is_list(type_):
        return bytes([TypeId.ARRAY, nullable]) + _pack_child(type_.value_field)
    assert pt.is_map(type_), type_
    entries = _pack_string("entries")
    return bytes([TypeId.MAP, nullable]) + entries + _pack_child(type_.key_field) + _pack_child(type_.item_field)


def _pack_child(field: pa.Field) -> bytes:
    return _pack_string(field.name) + pack_descriptor(field.type, field.nullable)
