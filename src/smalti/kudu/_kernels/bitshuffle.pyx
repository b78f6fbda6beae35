"""The bit transposition of BIT_SHUFFLE blocks, chunk by chunk.

A chunk of n elements becomes 8 * width planes of n / 8 bytes; plane b holds bit b of every element. Chunks hold
max(128, 8192 / width) elements, the last one what is left. Owns the transposition and the walk over the compressed
chunks. `smalti.kudu.encodings.bitshuffle` reads the 20-byte header and compresses what `shuffle` returns.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from smalti._core.bits cimport integer
from smalti._core.cursor cimport Cursor, cursor_over, load_be, need
from smalti._core.fault cimport corrupt
from smalti.kudu._kernels.lz4 cimport lz4_block

cdef enum:
    CHUNK_BYTES = 8192   # elements of up to 64 bytes make chunks of this size
    CHUNK_WORDS = 1024   # of 64 bits


cdef inline uint64_t _transpose8(uint64_t x) noexcept nogil:
    """Transpose the 8x8 bit matrix whose rows are the bytes of `x`."""
    cdef uint64_t t
    t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAULL
    x = x ^ t ^ (t << 7)
    t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCULL
    x = x ^ t ^ (t << 14)
    t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ULL
    return x ^ t ^ (t << 28)


cdef bint _all_zero(const uint8_t* at, int64_t n) noexcept nogil:
    """Whether n bytes are zero, n a multiple of 8."""
    cdef uint64_t seen = 0, x
    cdef int64_t i
    for i in range(0, n, 8):
        memcpy(&x, at + i, 8)
        seen |= x
    return seen == 0


cdef void _shuffle_chunk(const integer* src, int64_t n, uint8_t* dst, uint8_t* row, uint64_t* bits) noexcept nogil:
    """One chunk of n elements, n a multiple of 8; `row` has room for n bytes and `bits` for n / 8 words."""
    cdef int64_t i, g, groups = n >> 3
    cdef int byte, k
    cdef uint64_t x
    for byte in range(<int>sizeof(integer)):
        for i in range(n):
            row[i] = <uint8_t>(src[i] >> (8 * byte))
        if _all_zero(row, n):  # high bytes of small numbers
            memset(dst, 0, n)
            dst += n
            continue
        for g in range(groups):
            memcpy(&x, row + 8 * g, 8)
            bits[g] = _transpose8(x)
        for k in range(8):
            for g in range(groups):
                dst[g] = <uint8_t>(bits[g] >> (8 * k))
            dst += groups


cdef void _unshuffle_chunk(const uint8_t* src, int64_t n, integer* dst, uint8_t* row) noexcept nogil:
    cdef int64_t i, g, groups = n >> 3
    cdef int byte, k
    cdef uint64_t x
    memset(dst, 0, n * sizeof(integer))
    for byte in range(<int>sizeof(integer)):
        if not _all_zero(src, n):
            for g in range(groups):
                x = 0
                for k in range(8):
                    x |= <uint64_t>src[k * groups + g] << (8 * k)
                x = _transpose8(x)
                memcpy(row + 8 * g, &x, 8)
            for i in range(n):
                dst[i] |= <integer>(<integer>row[i] << (8 * byte))
        src += n


def shuffle(const uint8_t[::1] values, int width):
    """Shuffle elements whose number is a multiple of 8; the chunks of the result lie back to back."""
    cdef int64_t size = values.shape[0]
    if width not in (1, 2, 4, 8) or size % (8 * width):
        raise ValueError(f"{size} bytes are no multiple of 8 elements of {width} bytes")
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    if size == 0:
        return result
    if <size_t>&values[0] % <size_t>width:
        values = bytes(values)  # the loops read whole words
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* src = &values[0]
    cdef int64_t at = 0, nbytes
    cdef uint8_t row[CHUNK_BYTES]
    cdef uint64_t bits[CHUNK_WORDS]
    with nogil:
        while at < size:
            nbytes = min(CHUNK_BYTES, size - at)
            if width == 1:
                _shuffle_chunk[uint8_t](src + at, nbytes, out + at, row, bits)
            elif width == 2:
                _shuffle_chunk[uint16_t](<const uint16_t*>(src + at), nbytes >> 1, out + at, row, bits)
            elif width == 4:
                _shuffle_chunk[uint32_t](<const uint32_t*>(src + at), nbytes >> 2, out + at, row, bits)
            else:
                _shuffle_chunk[uint64_t](<const uint64_t*>(src + at), nbytes >> 3, out + at, row, bits)
            at += nbytes
    return result


cdef int _unshuffle_all(Cursor* c, int width, int64_t size, uint8_t* out) except -1 nogil:
    cdef int64_t at = 0, nbytes, packed
    cdef uint8_t planes[CHUNK_BYTES]
    cdef uint8_t row[CHUNK_BYTES]
    while at < size:
        nbytes = min(CHUNK_BYTES, size - at)
        need(c, 4)
        packed = <int64_t>load_be(c.data + c.pos, 4)
        c.pos += 4
        need(c, packed)
        lz4_block(c.data + c.pos, packed, planes, nbytes, c.pos)
        c.pos += packed
        if width == 1:
            _unshuffle_chunk[uint8_t](planes, nbytes, out + at, row)
        elif width == 2:
            _unshuffle_chunk[uint16_t](planes, nbytes >> 1, <uint16_t*>(out + at), row)
        elif width == 4:
            _unshuffle_chunk[uint32_t](planes, nbytes >> 2, <uint32_t*>(out + at), row)
        else:
            _unshuffle_chunk[uint64_t](planes, nbytes >> 3, <uint64_t*>(out + at), row)
        at += nbytes
    if c.pos != c.end:
        return corrupt(b"bytes after the last bitshuffle chunk", c.pos, c.end - c.pos, 0)
    return 0


def unshuffle(const uint8_t[::1] data, int width, int64_t count):
    """Decode chunks of `u32 big-endian size, LZ4 block` into `count` elements, count a multiple of 8."""
    cdef int64_t n = data.shape[0], size = count * width
    if width not in (1, 2, 4, 8) or count < 0 or count % 8:
        raise ValueError(f"{count} elements of {width} bytes are no bitshuffle block")
    if size // 255 > n:  # LZ4 expands no further, so refuse before allocating
        corrupt(b"bitshuffle block cannot hold its elements (bytes there, bytes needed)", 0, n, size // 255)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef Cursor c = cursor_over(&data[0] if n else NULL, n)
    with nogil:
        _unshuffle_all(&c, width, size, out)
    return result
