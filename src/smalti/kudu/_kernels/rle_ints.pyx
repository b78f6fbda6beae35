"""Kudu's RLE of integers of 8, 16, 32 or 64 bits: element numbers and RLE values (note, section 2).

Owns the choice of runs, which is Kudu's own so that our bytes equal its bytes, and the reading of any valid run
sequence. It is not Parquet's: the last group of a literal run is not filled up to eight values.
Refuses empty runs, runs past the bytes given, and numbers of values other than the one asked for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, cursor_over, need
from smalti._core.fault cimport corrupt, no_memory
from smalti.kudu._kernels.runs cimport (
    GROUP,
    MAX_GROUPS,
    MAX_REPEATS,
    literal_bytes,
    put_repeat,
    read_header,
    repeat_size,
)

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef uint8_t* _put_ints(const word* v, int64_t n, uint8_t* out) noexcept nogil:
    """Kudu's choice: a run is one only if it fills a whole group of eight, counted from the end of the last run."""
    cdef int64_t i = 0, j, rest
    cdef int k, groups = 0
    cdef uint8_t* head = NULL  # of the literal run that is open
    cdef bint equal
    while n - i >= GROUP:
        equal = True
        for k in range(1, GROUP):
            equal &= v[i + k] == v[i]
        if equal:
            if head != NULL:
                head[0] = <uint8_t>(groups << 1 | 1)
                head = NULL
            j = i + GROUP
            while j < n and v[j] == v[i]:
                j += 1
            out = put_repeat(out, j - i, &v[i], sizeof(word))
            i = j
            continue
        if head == NULL:
            head = out
            out += 1
            groups = 0
        memcpy(out, &v[i], GROUP * sizeof(word))
        out += GROUP * sizeof(word)
        groups += 1
        i += GROUP
        if groups == MAX_GROUPS:
            head[0] = <uint8_t>(groups << 1 | 1)
            head = NULL
    rest = n - i
    if rest:
        equal = head == NULL
        for k in range(1, <int>rest):
            equal &= v[i + k] == v[i]
        if equal:
            return put_repeat(out, rest, &v[i], sizeof(word))
        if head == NULL:
            head = out
            out += 1
            groups = 0
        memcpy(out, &v[i], rest * sizeof(word))
        out += rest * sizeof(word)
        groups += 1
    if head != NULL:
        head[0] = <uint8_t>(groups << 1 | 1)
    return out


cdef int64_t _ints_full_at(const word* v, int64_t n, int64_t used, int64_t limit) noexcept nogil:
    """Index of the value whose adding takes the bytes written past `limit`, or -1. An open run is not written yet."""
    cdef int64_t i = 0, j
    cdef int k, groups = MAX_GROUPS
    cdef bint equal
    while n - i >= GROUP:
        equal = True
        for k in range(1, GROUP):
            equal &= v[i + k] == v[i]
        if equal:
            groups = MAX_GROUPS
            j = i + GROUP
            while j < n and v[j] == v[i]:
                j += 1
            if j == n:
                return -1
            used += repeat_size(j - i) + <int64_t>sizeof(word)
            if used > limit:
                return j
            i = j
            continue
        if groups == MAX_GROUPS:
            used += 1
            groups = 0
        used += GROUP * sizeof(word)
        groups += 1
        i += GROUP
        if used > limit:
            return i - 1
    return -1


cdef int _check_ints(const uint8_t* data, int64_t size, int width, int64_t count, bint padded) except -1 nogil:
    """Walk the runs without writing: they give `count` values and end with the data.

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
            c.pos += nbytes
            total += nbytes // width
            over = GROUP - 1 if padded else 0
        else:
            need(&c, width)
            c.pos += width
            total += header >> 1
            over = 0
        if total > count + over:
            return corrupt(b"RLE runs hold another number of values than counted", c.pos, total, count)
    if total < count:
        return corrupt(b"RLE runs hold another number of values than counted", c.pos, total, count)
    return 0


cdef int _get_ints(const uint8_t* data, int64_t size, word* out, int64_t count) except -1 nogil:
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t at = 0, header, n, nbytes, i
    cdef word value
    while at < count:
        header = read_header(&c)
        if header & 1:
            nbytes = literal_bytes(&c, header, GROUP * sizeof(word), sizeof(word))
            n = min(nbytes // <int64_t>sizeof(word), count - at)
            memcpy(out + at, data + c.pos, n * sizeof(word))
            c.pos += nbytes
        else:
            n = header >> 1  # _check_ints has proven that it fits `count`
            memcpy(&value, data + c.pos, sizeof(word))
            c.pos += sizeof(word)
            for i in range(n):
                out[at + i] = value
        at += n
    return 0


def encode(const uint8_t[::1] values, int width):
    """Encode little-endian integers of `width` bytes (1, 2, 4 or 8) in Kudu's runs."""
    values = _aligned(values, width)
    cdef int64_t n = _count(values.shape[0], width)
    cdef int64_t room = n * width + n + 16
    cdef const uint8_t* v = &values[0] if n else NULL
    cdef uint8_t* out = <uint8_t*>malloc(room)
    cdef uint8_t* end
    if out == NULL:
        no_memory(room)
    try:
        with nogil:
            if width == 1:
                end = _put_ints[uint8_t](v, n, out)
            elif width == 2:
                end = _put_ints[uint16_t](<const uint16_t*>v, n, out)
            elif width == 4:
                end = _put_ints[uint32_t](<const uint32_t*>v, n, out)
            else:
                end = _put_ints[uint64_t](<const uint64_t*>v, n, out)
        return PyBytes_FromStringAndSize(<char*>out, end - out)
    finally:
        free(out)


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
    """The loops read whole words: a buffer that starts between words is copied first."""
    if width > 0 and values.shape[0] and <size_t>&values[0] % <size_t>width:
        return bytes(values)
    return values


cdef int64_t _count(int64_t size, int width) except -1:
    if width not in (1, 2, 4, 8):
        raise ValueError(f"integers are 1, 2, 4 or 8 bytes wide, not {width}")
    if size % width:
        raise ValueError(f"{size} bytes are no whole number of {width}-byte values")
    if size // width >= MAX_REPEATS:
        raise OverflowError(f"{size // width} values do not fit one RLE run header")
    return size // width
