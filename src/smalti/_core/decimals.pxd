"""Decimals of more than 18 digits (section 4): the shortest big-endian two's complement, one byte at least."""

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from smalti._core.bits cimport i128


cdef inline int decimal_size(const uint8_t* decimal) noexcept nogil:
    """Bytes of a serialised 16-byte Arrow decimal, without its prefix."""
    cdef i128 value
    cdef int size = 1
    memcpy(&value, decimal, 16)
    if value < 0:
        value = ~value
    value >>= 7     # the first byte keeps one bit for the sign
    while value:
        size += 1
        value >>= 8
    return size


cdef inline int put_decimal(uint8_t* out, const uint8_t* decimal) noexcept nogil:
    """Write prefix and value; returns the number of bytes written."""
    cdef int size = decimal_size(decimal)
    cdef int i
    out[0] = <uint8_t>size
    for i in range(size):
        out[1 + i] = decimal[size - 1 - i]
    return 1 + size
