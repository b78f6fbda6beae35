"""A decoder of raw LZ4 blocks that proves their size.

pyarrow's codec compresses (its bytes equal Kudu's), but when it decompresses, it does not say how many bytes came out:
a block that is too short leaves the rest of the buffer undefined. This decoder refuses such a block.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from smalti._core.fault cimport NONE, corrupt

cdef enum:
    MAX_RATIO = 255  # one byte of a match length stands for 255 bytes at most


cdef inline int64_t _more(
    const uint8_t* src, int64_t size, int64_t* at, int64_t base, const char* reason
) except -1 nogil:
    """The rest of a length that does not fit its four bits of the token: bytes to be added up, the last below 255."""
    cdef int64_t length = 0
    cdef uint8_t byte = 255
    while byte == 255:
        if at[0] >= size:
            return corrupt(reason, base + at[0], NONE, NONE)
        byte = src[at[0]]
        at[0] += 1
        length += byte
    return length


cdef int lz4_block(const uint8_t* src, int64_t size, uint8_t* dst, int64_t room, int64_t base) except -1 nogil:
    cdef int64_t at = 0, to = 0, length, offset, done, step
    cdef uint8_t token
    while True:
        if at >= size:
            return corrupt(b"LZ4 block is cut off (bytes decoded, bytes expected)", base + at, to, room)
        token = src[at]
        at += 1
        length = token >> 4
        if length == 15:
            length += _more(src, size, &at, base, b"LZ4 literal length is cut off")
        if length > size - at:
            return corrupt(b"LZ4 literals are cut off (bytes left, bytes needed)", base + at, size - at, length)
        if length > room - to:
            return corrupt(b"LZ4 block is longer than said (bytes expected)", base + at, NONE, room)
        memcpy(dst + to, src + at, length)
        at += length
        to += length
        if at == size:  # only the last sequence has no match
            if to != room or (room == 0 and token != 0):  # an empty block is a single zero, as in the LZ4 library
                return corrupt(b"LZ4 block has another size than said", base + at, to, room)
            return 0
        if size - at < 2:
            return corrupt(b"LZ4 match offset is cut off", base + at, NONE, NONE)
        offset = src[at] | (<int64_t>src[at + 1] << 8)
        at += 2
        if offset == 0 or offset > to:
            return corrupt(b"LZ4 match reaches before the block (offset, bytes decoded)", base + at, offset, to)
        length = (token & 15) + 4
        if length == 19:
            length += _more(src, size, &at, base, b"LZ4 match length is cut off")
        if length > room - to:
            return corrupt(b"LZ4 block is longer than said (bytes expected)", base + at, NONE, room)
        if offset == 1:
            memset(dst + to, dst[to - 1], length)
        else:
            # The bytes copied so far repeat with the same period, so each step may copy all of them.
            done = 0
            while done < length:
                step = min(offset + done, length - done)
                memcpy(dst + to + done, dst + to - offset, step)
                done += step
        to += length


def decompress(const uint8_t[::1] data, int64_t size):
    """Decode a raw LZ4 block of exactly `size` bytes."""
    cdef int64_t n = data.shape[0]
    if size > n * MAX_RATIO:
        corrupt(b"LZ4 block cannot grow to the size said (bytes at most)", 0, size, n * MAX_RATIO)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* src = &data[0] if n else NULL
    with nogil:
        lz4_block(src, n, out, size, 0)
    return result
