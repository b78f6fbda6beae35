"""Bitmaps, bit-packed indices, byte order and comparison of bytes: loops that decoding and encoding share."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    typedef unsigned __int128 smalti_u128;
    typedef __int128 smalti_i128;
    """
    ctypedef long long i128 "smalti_i128"
    ctypedef unsigned long long u128 "smalti_u128"
    uint16_t __builtin_bswap16(uint16_t) nogil
    uint32_t __builtin_bswap32(uint32_t) nogil
    uint64_t __builtin_bswap64(uint64_t) nogil
    int __builtin_popcountll(uint64_t) nogil
    int __builtin_ctzll(uint64_t) nogil

# 16 bytes that are only moved.
cdef struct Pair:
    uint64_t low
    uint64_t high

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Pair


ctypedef fused integer:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef inline bint bytes_less(const uint8_t* a, int64_t na, const uint8_t* b, int64_t nb) noexcept nogil:
    """Whether the bytes `a` sort strictly before the bytes `b`."""
    cdef int order = memcmp(a, b, na if na < nb else nb)
    return order < 0 or (order == 0 and na < nb)


cdef inline int64_t bitmap_size(int64_t rows) noexcept nogil:
    return (rows + 7) >> 3


cdef inline bint get_bit(const uint8_t* bits, int64_t i) noexcept nogil:
    return bits[i >> 3] >> (i & 7) & 1


cdef inline int64_t count_bits(const uint8_t* bits, int64_t offset, int64_t n) noexcept nogil:
    """Count the set bits among n bits from bit `offset` on."""
    cdef int64_t count = 0
    cdef uint64_t w
    while n > 0 and offset & 7:
        count += get_bit(bits, offset)
        offset += 1
        n -= 1
    bits += offset >> 3
    while n >= 64:
        memcpy(&w, bits, 8)
        count += __builtin_popcountll(w)
        bits += 8
        n -= 64
    while n >= 8:
        count += __builtin_popcountll(bits[0])
        bits += 1
        n -= 8
    if n > 0:
        count += __builtin_popcountll(bits[0] & ((1 << n) - 1))
    return count


cdef inline uint64_t load_bits(const uint8_t* bits, int64_t offset, int64_t n) noexcept nogil:
    """Load n bits (1 to 64) from bit `offset` on, reading only the bytes that hold them."""
    cdef uint64_t low = 0, high
    cdef int shift = offset & 7
    cdef int64_t nbytes = (shift + n + 7) >> 3
    bits += offset >> 3
    memcpy(&low, bits, 8 if nbytes > 8 else nbytes)
    low >>= shift
    if nbytes > 8:
        high = bits[8]
        low |= high << (64 - shift)
    return low if n == 64 else low & (((<uint64_t>1) << n) - 1)


cdef inline void copy_inverted(uint8_t* out, const uint8_t* bits, int64_t rows) noexcept nogil:
    """Copy null bits as validity bits, with the padding cleared."""
    cdef int64_t row = 0, n
    cdef uint64_t w
    while row < rows:
        n = rows - row if rows - row < 64 else 64
        w = ~load_bits(bits, row, n)
        if n < 64:
            w &= ((<uint64_t>1) << n) - 1
        memcpy(out + (row >> 3), &w, bitmap_size(n))
        row += 64


cdef inline void expand_nulls(word* values, int64_t rows, int64_t non_null, const uint8_t* nulls) noexcept nogil:
    """Spread values[0:non_null] over the rows whose null bit is clear, from the back, in place; nulls become 0.

    `nulls` has exactly rows - non_null bits set among its first `rows` (counted by the caller).
    """
    cdef int64_t row = rows, base, n
    cdef uint64_t w
    while row > 0:
        base = (row - 1) & ~<int64_t>63
        n = row - base
        w = load_bits(nulls, base, n)
        if non_null == row:
            return      # no nulls before: everything is in place
        while row > base:
            row -= 1
            if w >> (row - base) & 1:
                memset(&values[row], 0, sizeof(word))
            else:
                non_null -= 1
                values[row] = values[non_null]


cdef inline int index_width(int64_t entries) noexcept nogil:
    """Section 5: bits of one index into a dictionary."""
    cdef int width = 0
    cdef int64_t top = entries - 1
    while top > 0:
        width += 1
        top >>= 1
    return width


cdef inline uint32_t unpack_indices(
    uint32_t* out, const uint8_t* data, int64_t size, int64_t n, int width
) noexcept nogil:
    """Unpack n little-endian indices of `width` bits (0 to 32) and return the largest.

    The caller has checked that size == ceil(n * width / 8).
    """
    cdef int64_t i = 0, at, safe
    cdef uint64_t w, mask = ((<uint64_t>1) << width) - 1
    cdef uint32_t top = 0
    if width == 0:
        memset(out, 0, n * 4)
        return 0
    if width == 8:
        for i in range(n):
            out[i] = data[i]
            top = data[i] if data[i] > top else top
        return top
    safe = ((size - 8) * 8 // width) if size >= 8 else 0     # indices whose 8-byte load stays inside the data
    if safe > n:
        safe = n
    while i < safe:
        memcpy(&w, data + (i * width >> 3), 8)
        out[i] = <uint32_t>(w >> (i * width & 7) & mask)
        top = out[i] if out[i] > top else top
        i += 1
    while i < n:
        at = i * width
        w = 0
        memcpy(&w, data + (at >> 3), 8 if size - (at >> 3) > 8 else size - (at >> 3))
        out[i] = <uint32_t>(w >> (at & 7) & mask)
        top = out[i] if out[i] > top else top
        i += 1
    return top


cdef inline void pack_indices(uint8_t* out, const uint32_t* indices, int64_t n, int width) noexcept nogil:
    """Pack n indices of `width` bits (0 to 32), zero padded; out has ceil(n * width / 8) bytes."""
    cdef int64_t i
    cdef uint64_t w = 0
    cdef int held = 0
    for i in range(n):
        w |= (<uint64_t>indices[i]) << held
        held += width
        while held >= 8:
            out[0] = <uint8_t>w
            out += 1
            w >>= 8
            held -= 8
    if held > 0:
        out[0] = <uint8_t>w
