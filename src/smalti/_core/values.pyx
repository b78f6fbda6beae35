"""Serialised values (section 4) to Arrow's memory, one run at a time."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.bits cimport __builtin_bswap16, __builtin_bswap32, __builtin_bswap64, i128, u128
from smalti._core.cursor cimport load_be
from smalti._core.fault cimport NONE, corrupt
from smalti._core.nodes cimport K_BOOL, K_DEC8, K_LEN, K_TS9, K_W1, K_W2, K_W4, K_W8, Node


cdef bint fits_precision(const uint8_t* decimal, int precision) noexcept nogil:
    """Whether a 16-byte Arrow decimal has at most `precision` digits."""
    cdef i128 value
    cdef u128 magnitude, bound = 1
    cdef int i
    memcpy(&value, decimal, 16)
    magnitude = <u128>value if value >= 0 else -<u128>value
    for i in range(precision):
        bound *= 10
    return magnitude < bound


cdef int _load_decimals(const Node* node, const uint8_t* at, int64_t n, uint8_t* out) except -1 nogil:
    cdef int64_t i
    cdef int k, size
    cdef i128 value
    for i in range(n):
        if node.kind == K_DEC8:
            value = <int64_t>load_be(at, 8)
            at += 8
        else:
            size = at[0]
            at += 1
            value = -1 if size and at[0] >= 0x80 else 0
            for k in range(size):
                value = <i128>((<u128>value << 8) | at[k])
            at += size
        memcpy(out + 16 * i, &value, 16)
        if not fits_precision(out + 16 * i, node.precision):
            return corrupt(b"DECIMAL has more digits than its precision (value, precision)", NONE,
                           <int64_t>value, node.precision)
    return 0


cdef int _load_nanoseconds(const uint8_t* at, int64_t n, int64_t* out) except -1 nogil:
    cdef int64_t i
    cdef int32_t nanos
    cdef i128 total
    for i in range(n):
        nanos = <int32_t>load_be(at + 8, 4)
        if nanos < 0 or nanos > 999999:
            return corrupt(b"nanoseconds of a TIMESTAMP out of range (0 to 999999)", NONE, nanos, 999999)
        total = <i128><int64_t>load_be(at, 8) * 1000000 + nanos
        if <i128><int64_t>total != total:
            return corrupt(b"TIMESTAMP does not fit 64 bits of nanoseconds (milliseconds)", NONE,
                           <int64_t>load_be(at, 8), NONE)
        out[i] = <int64_t>total
        at += 12
    return 0


cdef int load_values(const Node* node, const uint8_t* source, int64_t n, uint8_t* out) except -1 nogil:
    """Decode n values of a fixed Arrow width into `out`. A walk has checked that they are there."""
    cdef int64_t i
    cdef uint16_t w2
    cdef uint32_t w4
    cdef uint64_t w8
    cdef uint8_t high = 0
    if node.kind == K_W1:
        memcpy(out, source, n)
    elif node.kind == K_BOOL:
        for i in range(n):
            out[i] = source[i]
            high |= source[i]
        if high > 1:
            return corrupt(b"BOOLEAN is neither 0 nor 1", NONE, high, 1)
    elif node.kind == K_W2:
        for i in range(n):
            memcpy(&w2, source + 2 * i, 2)
            w2 = __builtin_bswap16(w2)
            memcpy(out + 2 * i, &w2, 2)
    elif node.kind == K_W4 or node.kind == K_LEN:
        for i in range(n):
            memcpy(&w4, source + 4 * i, 4)
            w4 = __builtin_bswap32(w4)
            memcpy(out + 4 * i, &w4, 4)
    elif node.kind == K_W8:
        for i in range(n):
            memcpy(&w8, source + 8 * i, 8)
            w8 = __builtin_bswap64(w8)
            memcpy(out + 8 * i, &w8, 8)
    elif node.kind == K_TS9:
        return _load_nanoseconds(source, n, <int64_t*>out)
    else:
        return _load_decimals(node, source, n, out)
    return 0
