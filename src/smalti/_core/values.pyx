"""Serialised values (section 4) to Arrow's, and dense values of Arrow's to serialised ones."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.bits cimport __builtin_bswap16, __builtin_bswap32, __builtin_bswap64, i128, u128
from smalti._core.cursor cimport load_be, put_uv32
from smalti._core.decimals cimport put_decimal
from smalti._core.fault cimport NONE, corrupt
from smalti._core.physical cimport K_BOOL, K_DEC8, K_DECV, K_LEN, K_TS9, K_VAR, K_W1, K_W2, K_W4, K_W8, TypeNode, T_TIME


cdef int _load_decimals(const TypeNode* node, const uint8_t* at, int64_t n, uint8_t* out) except -1 nogil:
    cdef const uint8_t* start = at
    cdef int64_t i
    cdef uint64_t high, low
    cdef int k, size, shift
    cdef i128 value
    cdef u128 limit = decimal_limit(node.precision)
    for i in range(n):
        if node.kind == K_DEC8:
            value = <int64_t>load_be(at, 8)
            at += 8
        else:
            size = at[0]
            at += 1 + size
            if size and at - start >= 16:       # the 16 bytes that end with the value, then without those before it
                memcpy(&high, at - 16, 8)
                memcpy(&low, at - 8, 8)
                shift = 128 - 8 * size
                value = <i128>(((<u128>__builtin_bswap64(high) << 64) | __builtin_bswap64(low)) << shift) >> shift
            else:
                value = -1 if size and at[-size] >= 0x80 else 0
                for k in range(size):
                    value = <i128>((<u128>value << 8) | at[k - size])
        memcpy(out + 16 * i, &value, 16)
        if not fits_limit(out + 16 * i, limit):
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


cdef int _check_times(const uint32_t* times, int64_t n) except -1 nogil:
    """Refuse times outside a day, which Arrow cannot hold; a negative time is a large unsigned number."""
    cdef int64_t i
    for i in range(n):
        if times[i] >= MILLISECONDS_OF_DAY:
            return corrupt(b"TIME outside a day (milliseconds)", NONE, <int32_t>times[i], MILLISECONDS_OF_DAY - 1)
    return 0


cdef int load_values(const TypeNode* node, const uint8_t* source, int64_t n, uint8_t* out) except -1 nogil:
    """Decode n values of a fixed Arrow width into `out`. The caller has checked that they exist."""
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
        if node.type_id == T_TIME:
            return _check_times(<const uint32_t*>out, n)
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


def swapped(const uint8_t[::1] data not None, int words):
    """Values of `words` times 8 bytes, each with its bytes in the other order."""
    cdef int64_t i, n = data.shape[0] // (8 * words)
    cdef int k
    cdef uint64_t word
    cdef const uint8_t* source = &data[0] if n else NULL
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n * 8 * words)
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(out)
    with nogil:
        for i in range(n):
            for k in range(words):
                memcpy(&word, source + 8 * (words - 1 - k), 8)
                word = __builtin_bswap64(word)
                memcpy(to + 8 * k, &word, 8)
            source += 8 * words
            to += 8 * words
    return out


# --- serialising --------------------------------------------------------------------------------------------------

cdef inline uint8_t* _put_string(uint8_t* out, const uint8_t* text, uint32_t size) noexcept nogil:
    """Serialise a string; short ones by overlapping words, without a call and without reading past either end."""
    out = put_uv32(out, size)
    if size > 16:
        memcpy(out, text, size)
    elif size >= 8:
        memcpy(out, text, 8)
        memcpy(out + size - 8, text + size - 8, 8)
    elif size >= 4:
        memcpy(out, text, 4)
        memcpy(out + size - 4, text + size - 4, 4)
    elif size:
        out[0] = text[0]
        out[size >> 1] = text[size >> 1]
        out[size - 1] = text[size - 1]
    return out + size


cdef uint8_t* put_values(int kind, const Dense* values, int64_t n, uint8_t* out) noexcept nogil:
    """Serialise n values (section 4) and return the address after the last."""
    cdef const uint64_t* keys = values.keys     # locals, because bytes that are written could be those of `values`
    cdef const uint8_t** texts = values.texts
    cdef const uint32_t* sizes = values.sizes
    cdef int64_t i, millis, nanos
    cdef uint16_t w2
    cdef uint32_t w4
    cdef uint64_t w8
    if kind == K_VAR:
        for i in range(n):
            out = _put_string(out, texts[i], sizes[i])
        return out
    if kind == K_DECV:
        for i in range(n):
            out += put_decimal(out, texts[i])
        return out
    if kind == K_BOOL or kind == K_W1:
        for i in range(n):
            out[i] = <uint8_t>keys[i]
        return out + n
    if kind == K_W2:
        for i in range(n):
            w2 = __builtin_bswap16(<uint16_t>keys[i])
            memcpy(out + 2 * i, &w2, 2)
        return out + 2 * n
    if kind == K_W4 or kind == K_LEN:
        for i in range(n):
            w4 = __builtin_bswap32(<uint32_t>keys[i])
            memcpy(out + 4 * i, &w4, 4)
        return out + 4 * n
    if kind == K_TS9:
        for i in range(n):
            millis = <int64_t>keys[i] // 1000000
            nanos = <int64_t>keys[i] - millis * 1000000
            if nanos < 0:
                millis -= 1
                nanos += 1000000
            w8 = __builtin_bswap64(<uint64_t>millis)
            w4 = __builtin_bswap32(<uint32_t>nanos)
            memcpy(out, &w8, 8)
            memcpy(out + 8, &w4, 4)
            out += 12
        return out
    for i in range(n):
        w8 = __builtin_bswap64(keys[i])
        memcpy(out + 8 * i, &w8, 8)
    return out + 8 * n
