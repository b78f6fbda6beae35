"""Kudu's RLE of bitmaps, one bit a value: nulls of arrays and of elements, and bool values.

Owns the choice of runs, which is Kudu's own so that the bytes are the same, over bitmaps as Arrow has them: lowest bit
first, starting at any bit. Refuses empty runs, repeated values other than 0 and 1, and runs that end before the bits
asked for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from smalti._core.bits cimport __builtin_ctzll, count_bits, load_bits
from smalti._core.cursor cimport Cursor, cursor_over, need
from smalti._core.fault cimport NONE, corrupt
from smalti.kudu._kernels.runs cimport (
    GROUP, MAX_REPEATS, RunWriter, end_literal, group_size, literal_bytes, literal_room, need_bits, put_repeat,
    read_header, repeat_size,
)


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
    cdef int64_t width
    cdef uint64_t other, ones = <uint64_t>0 - 1
    while at < n:
        width = min(64, n - at)
        other = load_bits(b, start + at, width) ^ (ones >> (64 - width) if byte else 0)
        if other:
            return at + __builtin_ctzll(other)
        at += width
    return n


cdef uint8_t* _put_bits(const uint8_t* b, int64_t start, int64_t n, uint8_t* out) noexcept nogil:
    cdef RunWriter w = RunWriter(out, NULL, 0)
    cdef int64_t i = 0, end, last = (start + n - 1) >> 3
    cdef uint8_t byte, mask, bit
    while n - i >= GROUP:
        byte = _bits8(b, start + i, last)
        end = i + GROUP
        if byte == 0 or byte == 0xFF:
            end = _same_until(b, start, end, n, byte)
            bit = byte & 1
            end_literal(&w)
            w.out = put_repeat(w.out, end - i, &bit, 1)
        else:
            literal_room(&w, 1)[0] = byte
        i = end
    if i < n:
        mask = <uint8_t>((1 << (n - i)) - 1)
        byte = _bits8(b, start + i, last) & mask
        if w.header == NULL and (byte == 0 or byte == mask):
            bit = byte & 1
            w.out = put_repeat(w.out, n - i, &bit, 1)
        else:
            literal_room(&w, 1)[0] = byte
    end_literal(&w)
    return w.out


cdef int64_t _bits_full_at(const uint8_t* b, int64_t start, int64_t n, int64_t used, int64_t limit) noexcept nogil:
    """Index of the bit whose adding takes the bytes written past `limit`, or -1. An open run is not written yet."""
    cdef int64_t i = 0, end, groups = 0, last = (start + n - 1) >> 3
    cdef uint8_t byte
    while n - i >= GROUP:
        byte = _bits8(b, start + i, last)
        end = i + GROUP
        if byte == 0 or byte == 0xFF:
            end = _same_until(b, start, end, n, byte)
            if end == n:
                return -1
            used += repeat_size(end - i, 1)
            groups = 0
            if used > limit:
                return end
        else:
            used += group_size(groups, 1)
            groups += 1
            if used > limit:
                return end - 1
        i = end
    return -1


cdef int _check_bits(const uint8_t* data, int64_t size, int64_t count, bint whole) except -1 nogil:
    """Check that the runs reach `count` bits and, with `whole`, that nothing follows the run that does."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t total = 0, header = 0, nbytes
    while total < count:
        if c.pos >= c.end:
            return corrupt(b"bitmap ends early (bits found, bits counted)", c.pos, total, count)
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, 1, 1)
            total += nbytes * 8
        else:
            nbytes = 1
            need(&c, 1)
            if c.data[c.pos] > 1:
                return corrupt(b"RLE run of a bitmap repeats what is no bit", c.pos, c.data[c.pos], NONE)
            total += header >> 1
        c.pos += nbytes
    if whole and (c.pos < c.end or total > count + (7 if header & 1 else 0)):
        return corrupt(b"RLE runs go on after the last bit (bits found, bits counted)", c.pos, total, count)
    return 0


cdef void _set_bits(uint8_t* out, int64_t at, int64_t n) noexcept nogil:
    cdef int64_t end = at + n
    while at < end:
        if at & 7 == 0 and end - at >= 8:
            memset(out + (at >> 3), 0xFF, (end - at) >> 3)
            at = end & ~<int64_t>7
        else:
            out[at >> 3] |= <uint8_t>(1 << (at & 7))
            at += 1


cdef int64_t _get_bits(const uint8_t* data, int64_t size, uint8_t* out, int64_t count) except -1 nogil:
    """Fill the zeroed bitmap `out` from runs that `_check_bits` has passed, and return how many bits are set."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t at = 0, header, n, nbytes, k, room = (count + 7) >> 3
    cdef int shift
    while at < count:
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, 1, 1)
            n = min(nbytes, (count - at + 7) >> 3)
            shift = at & 7
            if shift == 0:
                memcpy(out + (at >> 3), data + c.pos, n)
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
    return count_bits(out, 0, count)


def encode(const uint8_t[::1] bitmap, int64_t start, int64_t count):
    """Encode `count` bits of a bitmap from bit `start`; `None` stands for a bitmap of ones."""
    cdef uint8_t one = 1
    cdef uint8_t run[6]
    if start < 0 or count < 0 or count >= MAX_REPEATS:
        raise OverflowError(f"{count} bits from bit {start} do not fit a bitmap")
    if count == 0:
        return b""
    if bitmap is None:
        return PyBytes_FromStringAndSize(<char*>run, put_repeat(run, count, &one, 1) - run)
    need_bits(bitmap, start, count)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, count // 4 + 16)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef uint8_t* end
    with nogil:
        end = _put_bits(&bitmap[0], start, count, out)
    return result[:end - out]


def decode(const uint8_t[::1] data, int64_t count, bint whole=False):
    """Decode `count` bits into a bitmap, lowest bit first, and return it with the number of ones.

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
    if count == 0:
        return -1
    need_bits(bitmap, start, count)
    return _bits_full_at(&bitmap[0], start, count, used, limit)
