"""UTF-8 checks, quick on ASCII."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr


cdef inline int64_t ascii_prefix(const uint8_t* s, int64_t n) noexcept nogil:
    """How many leading bytes are surely ASCII; all n of them if all are."""
    cdef int64_t i = 0, k
    cdef uint8_t high
    # No exit inside a stretch, so that the compiler makes it a few wide instructions.
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
    cdef int64_t width
    cdef uint32_t point
    cdef int64_t k
    while i < n:
        if s[i] < 0x80:
            i += 1
            continue
        width = 2 if s[i] < 0xE0 else 3 if s[i] < 0xF0 else 4
        if s[i] < 0xC2 or s[i] > 0xF4 or i + width > n:
            return False
        point = s[i] & (0x7F >> width)
        for k in range(1, width):
            if s[i + k] & 0xC0 != 0x80:
                return False
            point = (point << 6) | (s[i + k] & 0x3F)
        if width == 3 and (point < 0x800 or 0xD800 <= point <= 0xDFFF):
            return False
        if width == 4 and (point < 0x10000 or point > 0x10FFFF):
            return False
        i += width
    return True


cdef inline bint valid_name(const uint8_t* s, int64_t n) noexcept nogil:
    """Names cross Arrow's C interface, where a NUL would end them early."""
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
