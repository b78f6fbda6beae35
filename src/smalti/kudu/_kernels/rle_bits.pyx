"""Kudu's RLE of bitmaps, one bit a value: nulls of arrays and elements, and bool values (note, section 2).

Owns the choice of runs, which is Kudu's own, over bitmaps as Arrow has them: lowest bit first, from any bit on.
Refuses empty runs, repeated values that are no bit, and runs that end before the bits asked for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from smalti._core.cursor cimport Cursor, cursor_over, need
from smalti._core.fault cimport NONE, corrupt, no_memory
from smalti.kudu._kernels.runs cimport (
    GROUP,
    MAX_GROUPS,
    MAX_REPEATS,
    literal_bytes,
    put_repeat,
    read_header,
    repeat_size,
)

cdef extern from *:
    int popcount64 "__builtin_popcountll"(unsigned long long) noexcept nogil


cdef inline uint8_t _bits8(const uint8_t* b, int64_t at, int64_t last) noexcept nogil:
    """Eight bits from bit `at`; `last` is the index of the last byte that may be touched."""
    cdef int64_t i = at >> 3
    cdef int shift = at & 7
    cdef uint32_t value = b[i] >> shift
    if shift and i < last:
        value |= <uint32_t>b[i + 1] << (8 - shift)
    return <uint8_t>value


cdef int64_t _same_until(const uint8_t* b, int64_t start, int64_t at, int64_t n, uint8_t byte) noexcept nogil:
    """First bit index from `at` on whose bit is not that of `byte` (0x00 or 0xFF); bits are counted from `start`."""
    cdef int64_t last = (start + n - 1) >> 3
    cdef uint64_t words = <uint64_t>0 - 1 if byte else 0
    cdef uint64_t x
    while n - at >= 64 and (start + at) & 7 == 0:
        memcpy(&x, b + ((start + at) >> 3), 8)
        if x != words:
            break
        at += 64
    while n - at >= 8 and _bits8(b, start + at, last) == byte:
        at += 8
    while at < n and (b[(start + at) >> 3] >> ((start + at) & 7) & 1) == (byte & 1):
        at += 1
    return at


cdef uint8_t* _put_bits(const uint8_t* b, int64_t start, int64_t n, uint8_t* out) noexcept nogil:
    cdef int64_t i = 0, j, rest, last = (start + n - 1) >> 3
    cdef uint8_t byte, mask, one
    cdef uint8_t* head = NULL
    cdef int groups = 0
    while n - i >= GROUP:
        byte = _bits8(b, start + i, last)
        if byte == 0 or byte == 0xFF:
            if head != NULL:
                head[0] = <uint8_t>(groups << 1 | 1)
                head = NULL
            j = _same_until(b, start, i + GROUP, n, byte)
            one = byte & 1
            out = put_repeat(out, j - i, &one, 1)
            i = j
            continue
        if head == NULL:
            head = out
            out += 1
            groups = 0
        out[0] = byte
        out += 1
        groups += 1
        i += GROUP
        if groups == MAX_GROUPS:
            head[0] = <uint8_t>(groups << 1 | 1)
            head = NULL
    rest = n - i
    if rest:
        mask = <uint8_t>((1 << rest) - 1)
        byte = _bits8(b, start + i, last) & mask
        if head == NULL and (byte == 0 or byte == mask):
            one = byte & 1
            return put_repeat(out, rest, &one, 1)
        if head == NULL:
            head = out
            out += 1
            groups = 0
        out[0] = byte
        out += 1
        groups += 1
    if head != NULL:
        head[0] = <uint8_t>(groups << 1 | 1)
    return out


cdef int64_t _bits_full_at(const uint8_t* b, int64_t start, int64_t n, int64_t used, int64_t limit) noexcept nogil:
    cdef int64_t i = 0, last = (start + n - 1) >> 3, j
    cdef uint8_t byte
    cdef int groups = MAX_GROUPS
    while n - i >= GROUP:
        byte = _bits8(b, start + i, last)
        if byte == 0 or byte == 0xFF:
            groups = MAX_GROUPS
            j = _same_until(b, start, i + GROUP, n, byte)
            if j == n:
                return -1
            used += repeat_size(j - i) + 1
            if used > limit:
                return j
            i = j
            continue
        if groups == MAX_GROUPS:
            used += 1
            groups = 0
        used += 1
        groups += 1
        i += GROUP
        if used > limit:
            return i - 1
    return -1


cdef int _check_bits(const uint8_t* data, int64_t size, int64_t count, bint whole) except -1 nogil:
    """Walk the runs: they reach `count` bits. With `whole`, nothing may follow the run that does."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t total = 0, header, nbytes, over = 0
    while total < count:
        if c.pos >= c.end:
            return corrupt(b"bitmap ends early (bits found, bits counted)", c.pos, total, count)
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, 1, 1)
            c.pos += nbytes
            total += nbytes * 8
            over = 7
        else:
            need(&c, 1)
            if c.data[c.pos] > 1:
                return corrupt(b"RLE run of a bitmap repeats what is no bit", c.pos, c.data[c.pos], NONE)
            c.pos += 1
            total += header >> 1
            over = 0
    if whole and (c.pos < c.end or total > count + over):
        return corrupt(b"RLE runs go on after the last bit (bits found, bits counted)", c.pos, total, count)
    return 0


cdef void _set_bits(uint8_t* out, int64_t at, int64_t n) noexcept nogil:
    cdef int64_t end = at + n
    while at < end and at & 7:
        out[at >> 3] |= <uint8_t>(1 << (at & 7))
        at += 1
    if end - at >= 8:
        memset(out + (at >> 3), 0xFF, (end - at) >> 3)
        at += (end - at) & ~<int64_t>7
    while at < end:
        out[at >> 3] |= <uint8_t>(1 << (at & 7))
        at += 1


cdef int64_t _get_bits(const uint8_t* data, int64_t size, uint8_t* out, int64_t count) except -1 nogil:
    """Fill the zeroed bitmap `out` and return how many bits are set."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t at = 0, header, n, nbytes, k, room = (count + 7) >> 3
    cdef int shift
    cdef uint64_t x
    while at < count:
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, 1, 1)
            n = min(nbytes, (count - at + 7) >> 3)
            shift = at & 7
            k = at >> 3
            if shift == 0:
                memcpy(out + k, data + c.pos, n)
                k = n
            else:
                for k in range(n):
                    out[(at >> 3) + k] |= <uint8_t>(data[c.pos + k] << shift)
                    if (at >> 3) + k + 1 < room:
                        out[(at >> 3) + k + 1] |= <uint8_t>(data[c.pos + k] >> (8 - shift))
            c.pos += nbytes
            at += n * 8
        else:
            n = min(header >> 1, count - at)
            if data[c.pos]:
                _set_bits(out, at, n)
            c.pos += 1
            at += n
    if count & 7:
        out[room - 1] &= <uint8_t>((1 << (count & 7)) - 1)
    n = 0
    k = 0
    while room - k >= 8:
        memcpy(&x, out + k, 8)
        n += popcount64(x)
        k += 8
    while k < room:
        n += popcount64(out[k])
        k += 1
    return n


def encode(const uint8_t[::1] bitmap, int64_t start, int64_t count):
    """Encode `count` bits of an LSB-first bitmap from bit `start`; `None` for a bitmap of ones."""
    cdef int64_t room = count // 4 + 16
    cdef uint8_t one = 1
    cdef uint8_t* end
    if start < 0 or count < 0 or count >= MAX_REPEATS:
        raise OverflowError(f"{count} bits from bit {start} do not fit a bitmap")
    if bitmap is not None and start + count > bitmap.shape[0] * 8:
        raise ValueError(f"bitmap of {bitmap.shape[0]} bytes has no {start + count} bits")
    if count == 0:
        return b""
    cdef uint8_t* out = <uint8_t*>malloc(room)
    if out == NULL:
        no_memory(room)
    try:
        if bitmap is None:
            end = put_repeat(out, count, &one, 1)
        else:
            with nogil:
                end = _put_bits(&bitmap[0], start, count, out)
        return PyBytes_FromStringAndSize(<char*>out, end - out)
    finally:
        free(out)


def decode(const uint8_t[::1] data, int64_t count, bint whole=False):
    """Decode `count` bits into an LSB-first bitmap; return it and the number of ones.

    What follows the last bit is ignored, as Kudu does in bitmaps; with `whole` it is refused.
    """
    cdef int64_t size = data.shape[0], ones
    cdef const uint8_t* d = &data[0] if size else NULL
    with nogil:
        _check_bits(d, size, count, whole)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    with nogil:
        memset(out, 0, (count + 7) // 8)
        ones = _get_bits(d, size, out, count)
    return result, ones


def full_at(const uint8_t[::1] bitmap, int64_t start, int64_t count, int64_t used, int64_t limit):
    """Index of the first bit that takes an encoder holding `used` bytes past `limit`, or -1."""
    if count and start + count > bitmap.shape[0] * 8:
        raise ValueError(f"bitmap of {bitmap.shape[0]} bytes has no {start + count} bits")
    return _bits_full_at(&bitmap[0], start, count, used, limit) if count else -1
