"""Unsigned LEB128 for Python: 32 bits for the counts and sizes of blocks, 64 bits for file offsets and protobuf.

Reading goes through the bounded cursor, which refuses numbers that do not fit, are cut off or take more bytes than
they need.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from smalti._core.cursor cimport Cursor, cursor_over, read_uv32, read_uv64


def encode(uint64_t value):
    """The shortest LEB128 of an unsigned number of up to 64 bits."""
    cdef uint8_t out[10]
    cdef int n = 0
    while value >= 0x80:
        out[n] = <uint8_t>(value | 0x80)
        value >>= 7
        n += 1
    out[n] = <uint8_t>value
    return PyBytes_FromStringAndSize(<char*>out, n + 1)


def decode32(const uint8_t[::1] data, int64_t offset=0):
    """Read a number below 2**32 at `offset`; return it and the offset after it."""
    cdef Cursor c = _at(data, offset)
    cdef int64_t value = read_uv32(&c)
    return value, c.pos


def decode64(const uint8_t[::1] data, int64_t offset=0):
    """Read a number below 2**64 at `offset`; return it and the offset after it."""
    cdef Cursor c = _at(data, offset)
    cdef uint64_t value = 0
    read_uv64(&c, &value)
    return value, c.pos


cdef Cursor _at(const uint8_t[::1] data, int64_t offset) except *:
    cdef int64_t size = data.shape[0]
    if offset < 0 or offset > size:
        raise IndexError(f"offset {offset} is outside the {size} bytes given")
    cdef Cursor c = cursor_over(&data[0] if size else NULL, size)
    c.pos = offset
    return c
