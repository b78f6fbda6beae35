"""The one way kernels move over untrusted bytes: every step is checked against the end before it is taken."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from smalti._core.fault cimport NONE, corrupt


cdef struct Cursor:
    const uint8_t* data
    int64_t pos
    int64_t end


cdef inline Cursor cursor_over(const uint8_t* data, int64_t size) noexcept nogil:
    cdef Cursor c
    c.data = data
    c.pos = 0
    c.end = size
    return c


cdef inline int need(Cursor* c, int64_t nbytes) except -1 nogil:
    """Raise unless `nbytes` more bytes are left. `nbytes` must not be negative."""
    if nbytes > c.end - c.pos:
        return corrupt(b"data ends early (bytes left, bytes needed)", c.pos, c.end - c.pos, nbytes)
    return 0


cdef inline int skip(Cursor* c, int64_t nbytes) except -1 nogil:
    need(c, nbytes)
    c.pos += nbytes
    return 0


cdef inline int64_t read_u8(Cursor* c) except -1 nogil:
    need(c, 1)
    c.pos += 1
    return c.data[c.pos - 1]


cdef inline int read_leb128(Cursor* c, int max_size, uint64_t* out) noexcept nogil:
    """Read a LEB128 number; returns its size, 0 if it is cut off, -1 if it is longer than `max_size` bytes."""
    cdef uint64_t value = 0
    cdef int size = 0
    cdef uint8_t byte = 0x80
    while byte >= 0x80:
        if size == max_size:
            return -1
        if c.pos >= c.end:
            return 0
        byte = c.data[c.pos]
        c.pos += 1
        value |= (<uint64_t>(byte & 0x7F)) << (7 * size)
        size += 1
    out[0] = value
    return size


cdef inline int64_t read_uv32(Cursor* c) except -1 nogil:
    """Read unsigned LEB128 of at most 32 bits in as few bytes as possible (section 16: longer forms are refused)."""
    cdef int64_t start = c.pos
    cdef uint64_t value = 0
    cdef int size = read_leb128(c, 5, &value)
    if size == 0:
        return corrupt(b"varint is cut off", start, NONE, NONE)
    if size < 0:
        return corrupt(b"varint is longer than 5 bytes", start, NONE, NONE)
    if value > <uint64_t>0xFFFFFFFF:
        return corrupt(b"varint does not fit 32 bits", start, <int64_t>value, <int64_t>0xFFFFFFFF)
    if size > 1 and c.data[c.pos - 1] == 0:
        return corrupt(b"varint is written in more bytes than it needs", start, <int64_t>value, NONE)
    return <int64_t>value


cdef inline int read_uv64(Cursor* c, uint64_t* out) except -1 nogil:
    """Read unsigned LEB128 of at most 64 bits, in as few bytes as possible."""
    cdef int64_t start = c.pos
    cdef int size = read_leb128(c, 10, out)
    if size == 0:
        return corrupt(b"varint is cut off", start, NONE, NONE)
    if size < 0 or (size == 10 and c.data[c.pos - 1] > 1):
        return corrupt(b"varint does not fit 64 bits", start, NONE, NONE)
    if size > 1 and c.data[c.pos - 1] == 0:
        return corrupt(b"varint is written in more bytes than it needs", start, NONE, NONE)
    return 0


cdef inline int read_zz64(Cursor* c, int64_t* out) except -1 nogil:
    """Read a signed 64-bit integer, zigzag in LEB128."""
    cdef uint64_t value = 0
    read_uv64(c, &value)
    out[0] = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
    return 0


cdef inline uint64_t load_be(const uint8_t* at, int width) noexcept nogil:
    """Load a big-endian number of 1 to 8 bytes; the caller has checked that they exist."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value = (value << 8) | at[i]
    return value


cdef inline uint32_t load_uv32(const uint8_t** at) noexcept nogil:
    """Load a varint that has been checked before, and move `at` behind it."""
    cdef const uint8_t* byte = at[0]
    cdef uint32_t value = byte[0]
    cdef int shift = 7
    if value >= 0x80:
        value &= 0x7F
        byte += 1
        while byte[0] >= 0x80:
            value |= (<uint32_t>(byte[0] & 0x7F)) << shift
            shift += 7
            byte += 1
        value |= (<uint32_t>byte[0]) << shift
    at[0] = byte + 1
    return value


cdef inline int uv32_size(uint32_t value) noexcept nogil:
    if value < 0x80:
        return 1
    if value < 0x4000:
        return 2
    if value < 0x200000:
        return 3
    return 4 if value < 0x10000000 else 5


cdef inline uint8_t* put_uv32(uint8_t* at, uint32_t value) noexcept nogil:
    """Write a varint into memory that the caller has reserved, and return the address after it."""
    while value >= 0x80:
        at[0] = <uint8_t>(value | 0x80)
        value >>= 7
        at += 1
    at[0] = <uint8_t>value
    return at + 1
