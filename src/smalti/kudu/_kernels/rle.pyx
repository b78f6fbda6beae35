"""Kudu's RLE and bit-packed hybrid: bitmaps at one bit, integers at 8, 16, 32 or 64 bits (note, section 2).

Owns the choice of runs, which is Kudu's own so that our bytes equal its bytes, and the reading of any valid run
sequence. It is not Parquet's: the last group of a literal run is not filled up to eight values.
Refuses empty runs, runs past the bytes given, and numbers of values other than the one asked for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from smalti._core.cursor cimport Cursor, cursor_over, need, put_uv32
from smalti._core.fault cimport NONE, corrupt, no_memory

cdef extern from *:
    int popcount64 "__builtin_popcountll"(unsigned long long) noexcept nogil

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef enum:
    GROUP = 8
    MAX_GROUPS = 63       # of one literal run: its header stays one byte
    MAX_REPEATS = 1 << 30  # a run's header is an int32 (note, section 2)


# ---------------------------------------------------------------- integers


cdef uint8_t* _put_repeat(uint8_t* out, int64_t count, const void* value, int width) noexcept nogil:
    out = put_uv32(out, <uint32_t>(count << 1))
    memcpy(out, value, width)  # little endian, as every machine we build for
    return out + width


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
            out = _put_repeat(out, j - i, &v[i], sizeof(word))
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
            return _put_repeat(out, rest, &v[i], sizeof(word))
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
            used += _repeat_size(j - i) + <int64_t>sizeof(word)
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


cdef inline int _repeat_size(int64_t count) noexcept nogil:
    cdef uint8_t scratch[5]
    return <int>(put_uv32(scratch, <uint32_t>(count << 1)) - scratch)


cdef int64_t _read_header(Cursor* c) except -1 nogil:
    """A run's header: at most five bytes, below 2**31. Kudu reads it whether or not it is the shortest form."""
    cdef int64_t start = c.pos
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if c.pos >= c.end:
            return corrupt(b"header of an RLE run is cut off", start, NONE, NONE)
        if shift > 28:
            return corrupt(b"header of an RLE run is longer than 5 bytes", start, NONE, NONE)
        byte = c.data[c.pos]
        c.pos += 1
        value |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            break
        shift += 7
    if value > 0x7FFFFFFF:
        return corrupt(b"header of an RLE run does not fit 31 bits", start, <int64_t>value, 0x7FFFFFFF)
    if value < 2:
        return corrupt(b"RLE run of no values", start, NONE, NONE)
    return <int64_t>value


cdef int64_t _literal_bytes(Cursor* c, int64_t header, int group, int width) except -1 nogil:
    """Bytes of a literal run: all its groups, or what is left when it is the last (it is not filled up).

    A group takes `group` bytes; the run is cut only between pieces of `width` bytes.
    """
    cdef int64_t nbytes = (header >> 1) * group
    if nbytes > c.end - c.pos:
        nbytes = c.end - c.pos
    if nbytes == 0:
        return corrupt(b"RLE literal run without its values", c.pos, 0, width)
    if nbytes % width:
        return corrupt(b"RLE literal run ends inside a value (bytes left over)", c.pos, nbytes % width, 0)
    return nbytes


cdef int _check_ints(const uint8_t* data, int64_t size, int width, int64_t count, bint padded) except -1 nogil:
    """Walk the runs without writing: they give `count` values and end with the data.

    `padded` lets the last literal group hold up to seven values more than asked for.
    """
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t total = 0, header, nbytes, over = 0
    while c.pos < c.end:
        if total >= count:
            return corrupt(b"RLE runs go on after the last value (bytes left)", c.pos, c.end - c.pos, 0)
        header = _read_header(&c)
        if header & 1:
            nbytes = _literal_bytes(&c, header, GROUP * width, width)
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
        header = _read_header(&c)
        if header & 1:
            nbytes = _literal_bytes(&c, header, GROUP * sizeof(word), sizeof(word))
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


def encode_ints(const uint8_t[::1] values, int width):
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


def decode_ints(const uint8_t[::1] data, int width, int64_t count, bint padded=False):
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


def ints_full_at(const uint8_t[::1] values, int width, int64_t used, int64_t limit):
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


# ---------------------------------------------------------------- bitmaps


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
            out = _put_repeat(out, j - i, &one, 1)
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
            return _put_repeat(out, rest, &one, 1)
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
            used += _repeat_size(j - i) + 1
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
        header = _read_header(&c)
        if header & 1:
            nbytes = _literal_bytes(&c, header, 1, 1)
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
        header = _read_header(&c)
        if header & 1:
            nbytes = _literal_bytes(&c, header, 1, 1)
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


def encode_bits(const uint8_t[::1] bitmap, int64_t start, int64_t count):
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
            end = _put_repeat(out, count, &one, 1)
        else:
            with nogil:
                end = _put_bits(&bitmap[0], start, count, out)
        return PyBytes_FromStringAndSize(<char*>out, end - out)
    finally:
        free(out)


def decode_bits(const uint8_t[::1] data, int64_t count, bint whole=False):
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


def bits_full_at(const uint8_t[::1] bitmap, int64_t start, int64_t count, int64_t used, int64_t limit):
    """Index of the first bit that takes an encoder holding `used` bytes past `limit`, or -1."""
    if count and start + count > bitmap.shape[0] * 8:
        raise ValueError(f"bitmap of {bitmap.shape[0]} bytes has no {start + count} bits")
    return _bits_full_at(&bitmap[0], start, count, used, limit) if count else -1
