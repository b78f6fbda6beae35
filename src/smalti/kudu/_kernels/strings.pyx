"""Strings and bytes in blocks: group-varint offsets of PLAIN blocks, and words looked up by code.

A group varint is a selector byte, with two bits for the size of each of four numbers, and the numbers in 1 to 4 bytes.
Owns the offsets, their order and their ends. Refuses offsets that go back or past the bytes, codes without a word, and
a block that would grow past a gigabyte.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, cursor_over, need
from smalti._core.fault cimport corrupt
from smalti.errors import UnsupportedFeatureError

cdef enum:
    HEADER = 12            # bytes before the first value of a PLAIN block
    MAX_BYTES = 1 << 30    # of one block's values once decoded: int32 offsets must hold them


cdef inline int _byte_width(uint32_t value) noexcept nogil:
    if value < 0x100:
        return 1
    if value < 0x10000:
        return 2
    return 3 if value < 0x1000000 else 4


def pack_offsets(const uint8_t[::1] offsets):
    """Group varints of the places where values start, from n + 1 int32 Arrow offsets; the last group has zeros."""
    cdef int64_t n = offsets.shape[0] // 4 - 1, i, k
    if n <= 0:
        return b""
    cdef const int32_t* src = <const int32_t*>&offsets[0]
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (n + 3) // 4 * 17)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef uint8_t* at = out
    cdef uint8_t* selector
    cdef uint32_t value
    cdef int width
    with nogil:
        for i in range(0, n, 4):
            selector = at
            selector[0] = 0
            at += 1
            for k in range(4):
                value = <uint32_t>(src[i + k] - src[0] + HEADER) if i + k < n else 0
                width = _byte_width(value)
                selector[0] |= <uint8_t>((width - 1) << (6 - 2 * k))
                memcpy(at, &value, width)
                at += width
    return result[:at - out]


cdef int _unpack(Cursor* c, int64_t n, int64_t end, int32_t* out) except -1 nogil:
    cdef int64_t i, k, last = HEADER
    cdef uint8_t selector
    cdef uint32_t value
    cdef int width
    for i in range(0, n, 4):
        need(c, 1)
        selector = c.data[c.pos]
        c.pos += 1
        for k in range(4):
            width = (selector >> (6 - 2 * k) & 3) + 1
            need(c, width)
            value = 0
            memcpy(&value, c.data + c.pos, width)
            if i + k < n:
                if i + k == 0 and value != HEADER:
                    return corrupt(b"first value does not start behind the header", c.pos, value, HEADER)
                if value < last:
                    return corrupt(b"value starts before the one ahead of it", c.pos, value, last)
                if value > end:
                    return corrupt(b"value starts behind the values", c.pos, value, end)
                last = value
                out[i + k] = <int32_t>(value - HEADER)
            c.pos += width
    if c.pos != c.end:
        return corrupt(b"bytes after the last offset", c.pos, c.end - c.pos, 0)
    out[n] = <int32_t>(end - HEADER)
    return 0


def unpack_offsets(const uint8_t[::1] data, int64_t start, int64_t count):
    """int32 Arrow offsets of the `count` values of a PLAIN block whose group varints begin at `start`."""
    cdef int64_t size = data.shape[0]
    if start < HEADER or start > size:
        corrupt(b"offsets begin outside the block", 8, start, size)
    if start - HEADER > MAX_BYTES:
        raise UnsupportedFeatureError("block of strings is too large", found=start - HEADER, expected=f"{MAX_BYTES} at most")
    cdef Cursor c = cursor_over(&data[0] if size else NULL, size)
    c.pos = start
    need(&c, (count + 3) // 4 * 5)  # the shortest group has 5 bytes; nothing is allocated before this check
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (count + 1) * 4)
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(result)
    with nogil:
        _unpack(&c, count, start, out)
    return result


def plain_full_at(const uint8_t[::1] offsets, int64_t limit):
    """Index of the first value that takes a new PLAIN block past `limit` bytes, or -1.

    `offsets` are int32 Arrow offsets. Kudu counts the header and, for each value, its bytes and those of its offset,
    with a selector byte for every four.
    """
    cdef int64_t n = offsets.shape[0] // 4 - 1, i, size = HEADER
    if n <= 0:
        return -1
    cdef const int32_t* src = <const int32_t*>&offsets[0]
    with nogil:
        for i in range(n):
            size += (i % 4 == 0) + _byte_width(<uint32_t>(src[i] - src[0] + HEADER)) + src[i + 1] - src[i]
            if size > limit:
                break
        else:
            i = -1
    return i


def look_up(const uint8_t[::1] offsets, const uint8_t[::1] words, const uint8_t[::1] codes, int width):
    """The values of codes of `width` bytes (1, 2 or 4): their int32 offsets, and the bytes of the words back to back."""
    cdef int64_t n = codes.shape[0] // width, known = offsets.shape[0] // 4 - 1, i, total = 0
    cdef const int32_t* at = <const int32_t*>&offsets[0]
    cdef const uint8_t* code = &codes[0] if n else NULL
    cdef uint32_t k = 0
    with nogil:
        for i in range(n):
            memcpy(&k, code + i * width, width)
            if k >= known:
                corrupt(b"code has no word in the dictionary (code, words)", i, k, known)
            total += at[k + 1] - at[k]
    if total > MAX_BYTES:
        raise UnsupportedFeatureError("block of strings is too large", found=total, expected=f"{MAX_BYTES} at most")
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (n + 1) * 4)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, total)
    cdef int32_t* end = <int32_t*>PyBytes_AS_STRING(ends)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* text = &words[0] if words.shape[0] else NULL
    total = 0
    with nogil:
        end[0] = 0
        for i in range(n):
            memcpy(&k, code + i * width, width)
            if at[k + 1] > at[k]:  # Words may all be empty, and have no address then.
                memcpy(out + total, text + at[k], at[k + 1] - at[k])
            total += at[k + 1] - at[k]
            end[i + 1] = <int32_t>total
    return ends, result
