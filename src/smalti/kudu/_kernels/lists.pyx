"""From Arrow's lists to Kudu's cells and back: lengths, offsets, and elements spread out over their nulls.

Owns the two invariants that tie a block's parts together: a null cell has length 0, and the lengths add up to the
flattened count, which is the number of elements of all arrays. Refuses lengths that do not fit the 16 bits Kudu gives
them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset

from smalti._core.bits cimport bitmap_size, get_bit, load_bits
from smalti.errors import CorruptFileError, SchemaError
from smalti.kudu._kernels.runs cimport need_bits

cdef enum:
    MAX_LENGTH = 65535  # element numbers have 16 bits; Kudu's writer does not check, and its reader loses the array


cdef int _bad_array(const char* reason, int64_t index, int64_t found, int64_t expected) except -1 with gil:
    raise CorruptFileError(f"array {index} {reason.decode()}", found=found, expected=expected)


def narrow_lengths(const uint8_t[::1] lengths):
    """int32 lengths as uint16; an array of more than 65,535 elements is refused."""
    cdef int64_t n = lengths.shape[0] // 4, i
    cdef bytes result = PyBytes_FromStringAndSize(NULL, n * 2)
    cdef uint16_t* out = <uint16_t*>PyBytes_AS_STRING(result)
    cdef const int32_t* src = <const int32_t*>&lengths[0] if n else NULL
    cdef bint bad = False
    with nogil:
        for i in range(n):
            out[i] = <uint16_t>src[i]
            bad |= src[i] < 0 or src[i] > MAX_LENGTH
    for i in range(n if bad else 0):
        if src[i] < 0 or src[i] > MAX_LENGTH:
            raise SchemaError(f"array {i} has too many elements for Kudu", found=src[i], expected=f"{MAX_LENGTH} at most")
    return result


def pack_bits(const uint8_t[::1] bitmap, int64_t start, int64_t count):
    """`count` bits of a bitmap from bit `start`, moved to the front; unused bits of the last byte are 0."""
    need_bits(bitmap, start, count)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, bitmap_size(count))
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* src = &bitmap[0] if count else NULL
    cdef int64_t i, n
    cdef uint64_t bits
    with nogil:
        for i in range(0, count, 64):
            n = min(64, count - i)
            bits = load_bits(src, start + i, n)
            memcpy(out + (i >> 3), &bits, bitmap_size(n))
    return result


def advance(
    const uint8_t[::1] lengths, const uint8_t[::1] non_null, int64_t start, int64_t nth, int64_t max_cells,
    int64_t max_elements,
):
    """Take whole cells from the front until one holds the non-null element `nth`, or a maximum would be passed.

    `lengths` are uint16. `non_null` is the bitmap of the elements from bit `start`, or `None` if none is null. `nth`
    is -1 if there is no such element. Returns the numbers of cells, elements and non-null elements taken; at least one
    cell is taken if there is one.
    """
    cdef int64_t n = min(lengths.shape[0] // 2, max_cells), i, k, elements = 0, values = 0
    cdef const uint16_t* src = <const uint16_t*>&lengths[0] if n else NULL
    cdef const uint8_t* bits = &non_null[0] if non_null is not None and non_null.shape[0] else NULL
    cdef int64_t room = non_null.shape[0] * 8 - start if non_null is not None else 0
    with nogil:
        for i in range(n):
            if i and elements + src[i] > max_elements:
                break
            if bits == NULL:
                values += src[i]
            else:
                for k in range(start + elements, start + min(elements + src[i], room)):
                    values += get_bit(bits, k)
            elements += src[i]
            if nth >= 0 and values > nth:
                i += 1
                break
        else:
            i = n
    return i, elements, values


def offsets_of(const uint8_t[::1] lengths, const uint8_t[::1] non_null, int64_t total):
    """int32 offsets of uint16 lengths. A null cell must be empty, and all lengths must add up to `total`."""
    cdef int64_t n = lengths.shape[0] // 2, i, at = 0
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (n + 1) * 4)
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(result)
    cdef const uint16_t* src = <const uint16_t*>&lengths[0] if n else NULL
    cdef const uint8_t* bits = &non_null[0] if n and non_null is not None else NULL
    if bits != NULL:
        need_bits(non_null, 0, n)
    with nogil:
        out[0] = 0
        for i in range(n):
            if bits != NULL and src[i] and not get_bit(bits, i):
                _bad_array(b"has elements though it is null", i, src[i], 0)
            at += src[i]
            if at > total:
                _bad_array(b"reaches past the flattened count", i, at, total)
            out[i + 1] = <int32_t>at
    if at != total:
        raise CorruptFileError("array lengths do not add up to the flattened count", found=at, expected=total)
    return result


cdef void _spread(const uint8_t* src, int64_t have, int width, const uint8_t* bits, int64_t n, uint8_t* out) noexcept nogil:
    """Copy the next value to the slot of every set bit (as long as there are values), and zeros to the other slots."""
    cdef int64_t i = 0, k = 0
    while i < n:
        if i & 7 == 0 and n - i >= 8 and bits[i >> 3] == 0xFF and have - k >= 8:
            memcpy(out + i * width, src + k * width, 8 * width)
            i += 8
            k += 8
            continue
        if get_bit(bits, i) and k < have:
            if width == 4:
                memcpy(out + i * 4, src + k * 4, 4)
            elif width == 8:
                memcpy(out + i * 8, src + k * 8, 8)
            else:
                memcpy(out + i * width, src + k * width, width)
            k += 1
        else:
            memset(out + i * width, 0, width)
        i += 1


def spread(const uint8_t[::1] values, int width, const uint8_t[::1] non_null, int64_t count):
    """Dense values of `width` bytes laid out over `count` slots, with zeros under the nulls."""
    cdef int64_t have = values.shape[0] // width
    need_bits(non_null, 0, count)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, count * width)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* src = &values[0] if have else NULL
    if count:
        with nogil:
            _spread(src, have, width, &non_null[0], count, out)
    return result


def spread_bits(const uint8_t[::1] values, const uint8_t[::1] non_null, int64_t count):
    """Dense bits laid out over `count` slots, with zeros under the nulls."""
    cdef int64_t i, k = 0, have = values.shape[0] * 8
    need_bits(non_null, 0, count)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    with nogil:
        memset(out, 0, (count + 7) // 8)
        for i in range(count):
            if non_null[i >> 3] >> (i & 7) & 1 and k < have:
                out[i >> 3] |= <uint8_t>((values[k >> 3] >> (k & 7) & 1) << (i & 7))
                k += 1
    return result


def spread_offsets(const uint8_t[::1] offsets, const uint8_t[::1] non_null, int64_t count):
    """int32 offsets of dense values laid out over `count` slots; a null is an empty value."""
    cdef int64_t i, k = 0, have = offsets.shape[0] // 4 - 1
    need_bits(non_null, 0, count)
    if have < 0:
        raise ValueError("no offsets")
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (count + 1) * 4)
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(result)
    cdef const int32_t* src = <const int32_t*>&offsets[0]
    with nogil:
        out[0] = src[0]
        for i in range(count):
            if non_null[i >> 3] >> (i & 7) & 1 and k < have:
                k += 1
            out[i + 1] = src[k]
    return result
