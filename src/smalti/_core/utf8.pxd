"""UTF-8 checks, quick on ASCII."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr


cdef inline int64_t ascii_prefix(const uint8_t* s, int64_t n) noexcept nogil:
    """Number of leading bytes that are known to be ASCII; n if all of them are."""
    cdef int64_t i = 0, k
    cdef uint8_t high
    # No exit inside 128 bytes, so that the compiler makes a few wide instructions of the loop.
    while i + 128 <= n:
        high = 0
        for k in range(128):
            high |= s[i + k]
        if high >= 0x80:
            return i
        i += 128
    while i < n and s[i] < 0x80:
        i += 1
    return i


cdef inline bint valid_utf8(const uint8_t* s, int64_t n) noexcept nogil:
    """Whether the bytes are well-formed UTF-8: no over-long forms, no surrogates, nothing above U+10FFFF."""
    cdef int64_t i = ascii_prefix(s, n)
    cdef uint32_t start     # the bits of the first two bytes of a character
    while i < n:
        if s[i] < 0x80:
            i += 1
            continue
        if s[i] < 0xC2 or s[i] > 0xF4 or i + 1 >= n or s[i + 1] & 0xC0 != 0x80:
            return False
        start = (<uint32_t>s[i] << 6) | (s[i + 1] & 0x3F)
        if s[i] < 0xE0:
            i += 2
        elif s[i] < 0xF0:
            if start < 0x3820 or 0x3B60 <= start < 0x3B80 or i + 2 >= n or s[i + 2] & 0xC0 != 0x80:
                return False
            i += 3
        else:
            if start < 0x3C10 or start >= 0x3D10 or i + 3 >= n or s[i + 2] & 0xC0 != 0x80 or s[i + 3] & 0xC0 != 0x80:
                return False
            i += 4
    return True


cdef inline bint valid_name(const uint8_t* s, int64_t n) noexcept nogil:
    """Whether a name is UTF-8 without NUL, which would end it early in Arrow's C interface."""
    return n == 0 or (memchr(s, 0, n) == NULL and valid_utf8(s, n))


cdef inline bint valid_strings(const uint8_t* data, const int32_t* offsets, int64_t n) noexcept nogil:
    """Whether each of n strings is valid: the whole is, and no string starts inside a character."""
    cdef int64_t total = offsets[n]
    cdef int64_t i
    if ascii_prefix(data, total) == total:
        return True
    if not valid_utf8(data, total):
        return False
    for i in range(n):
        if offsets[i] < total and data[offsets[i]] & 0xC0 == 0x80:
            return False
    return True
