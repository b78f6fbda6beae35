"""Unsigned LEB128 packed by Python; kernels have their own, in `_core/cursor.pxd`."""

from __future__ import annotations


def pack_varint(value: int) -> bytes:
    """Pack a number as unsigned LEB128.

    Examples
    --------
    >>> pack_varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_sized(data: bytes) -> bytes:
    """Bytes behind their size as a varint."""
    return pack_varint(len(data)) + data
