"""Kudu's RLE of integers of 8, 16, 32 or 64 bits: element numbers and RLE values.

Owns the choice of runs, which is Kudu's own so that the bytes are the same, and the reading of any valid sequence of
runs. Refuses empty runs, runs past the bytes given, and numbers of values other than the one asked for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.bits cimport integer
from smalti._core.cursor cimport Cursor, cursor_over, need
from smalti._core.fault cimport corrupt
from smalti.kudu._kernels.runs cimport (
    GROUP, MAX_REPEATS, RunWriter, end_literal, group_size, literal_bytes, literal_room, put_repeat, read_header,
    repeat_size,
)


cdef inline bint _same_group(const integer* v) noexcept nogil:
    """Whether the next eight values are equal. Kudu makes a repeated run only of values that fill such a group."""
    cdef bint equal = True
    cdef int k
    for k in range(1, GROUP):
        equal &= v[k] == v[0]
    return equal


cdef inline int64_t _same_until(const integer* v, int64_t i, int64_t n) noexcept nogil:
    """The end of the repeated run that begins with the group at `i`."""
    cdef int64_t end = i + GROUP
    while end < n and v[end] == v[i]:
        end += 1
    return end


cdef uint8_t* _put_ints(const integer* v, int64_t n, uint8_t* out) noexcept nogil:
    cdef RunWriter w = RunWriter(out, NULL, 0)
    cdef int64_t i = 0, k, end
    cdef bint equal
    while n - i >= GROUP:
        if _same_group(v + i):
            end = _same_until(v, i, n)
            end_literal(&w)
            w.out = put_repeat(w.out, end - i, &v[i], sizeof(integer))
            i = end
        else:
            memcpy(literal_room(&w, GROUP * sizeof(integer)), &v[i], GROUP * sizeof(integer))
            i += GROUP
    if i < n:
        equal = w.header == NULL
        for k in range(i + 1, n):
            equal &= v[k] == v[i]
        if equal:
            w.out = put_repeat(w.out, n - i, &v[i], sizeof(integer))
        else:
            memcpy(literal_room(&w, (n - i) * sizeof(integer)), &v[i], (n - i) * sizeof(integer))
    end_literal(&w)
    return w.out


cdef int64_t _ints_full_at(const integer* v, int64_t n, int64_t used, int64_t limit) noexcept nogil:
    """Index of the value whose adding takes the bytes written past `limit`, or -1. An open run is not written yet."""
    cdef int64_t i = 0, end, groups = 0
    while n - i >= GROUP:
        end = i + GROUP
        if _same_group(v + i):
            end = _same_until(v, i, n)
            if end == n:
                return -1
            used += repeat_size(end - i, sizeof(integer))
            groups = 0
            if used > limit:
                return end
        else:
            used += group_size(groups, GROUP * sizeof(integer))
            groups += 1
            if used > limit:
                return end - 1
        i = end
    return -1


cdef int _check_ints(const uint8_t* data, int64_t size, int width, int64_t count, bint padded) except -1 nogil:
    """Check that the runs hold `count` values and end with the data.

    `padded` lets the last literal group hold up to seven values more than asked for.
    """
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t total = 0, header, nbytes, over = 0
    while c.pos < c.end:
        if total >= count:
            return corrupt(b"RLE runs go on after the last value (bytes left)", c.pos, c.end - c.pos, 0)
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, GROUP * width, width)
            total += nbytes // width
            over = GROUP - 1 if padded else 0
        else:
            nbytes = width
            need(&c, width)
            total += header >> 1
            over = 0
        c.pos += nbytes
        if total > count + over:
            break
    if total < count or total > count + over:
        return corrupt(b"RLE runs hold another number of values than counted", c.pos, total, count)
    return 0


cdef int _get_ints(const uint8_t* data, int64_t size, integer* out, int64_t count) except -1 nogil:
    """Write the values of runs that `_check_ints` has passed."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t at = 0, header, n, nbytes, i
    cdef integer value
    while at < count:
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, GROUP * sizeof(integer), sizeof(integer))
            n = min(nbytes // <int64_t>sizeof(integer), count - at)
            memcpy(out + at, data + c.pos, n * sizeof(integer))
            c.pos += nbytes
        else:
            n = header >> 1
            memcpy(&value, data + c.pos, sizeof(integer))
            c.pos += sizeof(integer)
            for i in range(n):
                out[at + i] = value
        at += n
    return 0


def encode(const uint8_t[::1] values, int width):
    """Encode little-endian integers of `width` bytes (1, 2, 4 or 8) in Kudu's runs."""
    values = _aligned(values, width)
    cdef int64_t n = _count(values.shape[0], width)
    cdef const uint8_t* v = &values[0] if n else NULL
    cdef bytes result = PyBytes_FromStringAndSize(NULL, n * width + n + 16)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef uint8_t* end
    with nogil:
        if width == 1:
            end = _put_ints[uint8_t](v, n, out)
        elif width == 2:
            end = _put_ints[uint16_t](<const uint16_t*>v, n, out)
        elif width == 4:
            end = _put_ints[uint32_t](<const uint32_t*>v, n, out)
        else:
            end = _put_ints[uint64_t](<const uint64_t*>v, n, out)
    return result[:end - out]


def decode(const uint8_t[::1] data, int width, int64_t count, bint padded=False):
    """Decode exactly `count` integers of `width` bytes; the runs are checked before anything is allocated."""
    _count(width, width)
    cdef int64_t size = data.shape[0]
    cdef const uint8_t* d = &data[0] if size else NULL
    with nogil:
        _check_ints(d, size, width, count, padded)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, count * width)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    with nogil:
        if width == 1:
            _get_ints[uint8_t](d, size, out, count)
        elif width == 2:
            _get_ints[uint16_t](d, size, <uint16_t*>out, count)
        elif width == 4:
            _get_ints[uint32_t](d, size, <uint32_t*>out, count)
        else:
            _get_ints[uint64_t](d, size, <uint64_t*>out, count)
    return result


def full_at(const uint8_t[::1] values, int width, int64_t used, int64_t limit):
    """Index of the first value that takes an encoder holding `used` bytes past `limit`, or -1."""
    values = _aligned(values, width)
    cdef int64_t n = _count(values.shape[0], width)
    cdef const uint8_t* v = &values[0] if n else NULL
    if width == 1:
        return _ints_full_at[uint8_t](v, n, used, limit)
    if width == 2:
        return _ints_full_at[uint16_t](<const uint16_t*>v, n, used, limit)
    if width == 4:
        return _ints_full_at[uint32_t](<const uint32_t*>v, n, used, limit)
    return _ints_full_at[uint64_t](<const uint64_t*>v, n, used, limit)


cdef const uint8_t[::1] _aligned(const uint8_t[::1] values, int width):
    """A copy of a buffer that starts between words, because the loops read whole words."""
    if width > 0 and values.shape[0] and <size_t>&values[0] % <size_t>width:
        return bytes(values)
    return values


cdef int64_t _count(int64_t size, int width) except -1:
    """The number of values, after a check of the width."""
    if width not in (1, 2, 4, 8):
        raise ValueError(f"integers are 1, 2, 4 or 8 bytes wide, not {width}")
    if size % width:
        raise ValueError(f"{size} bytes are no whole number of {width}-byte values")
    if size // width >= MAX_REPEATS:
        raise OverflowError(f"{size // width} values do not fit one RLE run header")
    return size // width
