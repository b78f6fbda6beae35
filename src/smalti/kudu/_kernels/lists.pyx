"""Between Arrow's lists and Kudu's cells: lengths, offsets, and elements spread out over their nulls.

Owns the two invariants that tie a block's parts together: a null cell has length 0, and the lengths add up to the
flattened count (note, section 4). Refuses lengths that do not fit the 16 bits Kudu gives them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memset

from smalti.errors import CorruptFileError, SchemaError

cdef enum:
    MAX_LENGTH = 65535  # note, section 8


cdef int _bad_array(const char* reason, int64_t index, int64_t found, int64_t expected) except -1 with gil:
    raise CorruptFileError(f"array {index} {reason.decode()}", found=found, expected=expected)


cdef int64_t _narrow32(const int32_t* lengths, int64_t n, uint16_t* out) noexcept nogil:
    """Copy, and return the index of the first length that does not fit, or -1."""
    cdef int64_t i
    cdef bint bad = False
    for i in range(n):
        out[i] = <uint16_t>lengths[i]
        bad |= lengths[i] < 0 or lengths[i] > MAX_LENGTH
    if bad:
        for i in range(n):
            if lengths[i] < 0 or lengths[i] > MAX_LENGTH:
                return i
    return -1


def narrow_lengths(const uint8_t[::1] lengths):
    """int32 lengths as uint16; an array of more than 65,535 elements is refused, as Kudu would lose it."""
    cdef int64_t n = lengths.shape[0] // 4, bad
    cdef bytes result = PyBytes_FromStringAndSize(NULL, n * 2)
    if n == 0:
        return result
    cdef uint16_t* out = <uint16_t*>PyBytes_AS_STRING(result)
    cdef const int32_t* src = <const int32_t*>&lengths[0]
    with nogil:
        bad = _narrow32(src, n, out)
    if bad >= 0:
        raise SchemaError(f"array {bad} has too many elements for Kudu", found=src[bad], expected=f"{MAX_LENGTH} at most")
    return result


def pack_bits(const uint8_t[::1] bitmap, int64_t start, int64_t count):
    """`count` bits of a bitmap from bit `start`, moved to the front; unused bits of the last byte are 0."""
    cdef int64_t size = (count + 7) // 8, i, at, last
    cdef int shift = start & 7
    if start < 0 or count < 0 or start + count > bitmap.shape[0] * 8:
        raise ValueError(f"bitmap of {bitmap.shape[0]} bytes has no {start + count} bits")
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    if count == 0:
        return result
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* src = &bitmap[0]
    with nogil:
        at = start >> 3
        last = (start + count - 1) >> 3
        for i in range(size):
            out[i] = <uint8_t>(src[at + i] >> shift)
            if shift and at + i < last:
                out[i] |= <uint8_t>(src[at + i + 1] << (8 - shift))
        if count & 7:
            out[size - 1] &= <uint8_t>((1 << (count & 7)) - 1)
    return result


def advance(
    const uint8_t[::1] lengths, const uint8_t[::1] non_null, int64_t start, int64_t nth, int64_t max_cells,
    int64_t max_elements,
):
    """Whole cells from the front until one holds the non-null element `nth`, or a maximum would be passed.

    `lengths` are uint16; `non_null` the elements' bitmap from bit `start`, or `None`; `nth` -1 for no such element.
    Returns the numbers of cells, of elements and of non-null elements taken; at least one cell.
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
                    values += bits[k >> 3] >> (k & 7) & 1
            elements += src[i]
            if nth >= 0 and values > nth:
                i += 1
                break
        else:
            i = n
    return i, elements, values


def offsets_of(const uint8_t[::1] lengths, const uint8_t[::1] non_null, int64_t total):
    """int32 offsets of uint16 lengths, checked: a null cell is empty, and all lengths add up to `total`."""
    cdef int64_t n = lengths.shape[0] // 2, i, at = 0
    cdef bytes result = PyBytes_FromStringAndSize(NULL, (n + 1) * 4)
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(result)
    cdef const uint16_t* src = <const uint16_t*>&lengths[0] if n else NULL
    cdef const uint8_t* bits = &non_null[0] if n and non_null is not None else NULL
    if bits != NULL and non_null.shape[0] * 8 < n:
        raise ValueError(f"bitmap of {non_null.shape[0]} bytes has no {n} bits")
    with nogil:
        out[0] = 0
        for i in range(n):
            if bits != NULL and src[i] and not bits[i >> 3] >> (i & 7) & 1:
                _bad_array(b"has elements though it is null", i, src[i], 0)
            at += src[i]
            if at > total:
                _bad_array(b"reaches past the flattened count", i, at, total)
            out[i + 1] = <int32_t>at
    if at != total:
        raise CorruptFileError("array lengths do not add up to the flattened count", found=at, expected=total)
    return result


cdef int64_t _spread(const uint8_t* src, int64_t have, int width, const uint8_t* bits, int64_t n, uint8_t* out) noexcept nogil:
    """Copy the next value to every set bit, zero elsewhere; return the values used (never more than `have`)."""
    cdef int64_t i = 0, k = 0
    while i < n:
        if i & 7 == 0 and n - i >= 8 and bits[i >> 3] == 0xFF and have - k >= 8:
            memcpy(out + i * width, src + k * width, 8 * width)
            i += 8
            k += 8
            continue
        if bits[i >> 3] >> (i & 7) & 1 and k < have:
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
    return k


def spread(const uint8_t[::1] values, int width, const uint8_t[::1] non_null, int64_t count):
    """Dense values of `width` bytes laid out over `count` slots, zeros under the nulls."""
    cdef int64_t have = values.shape[0] // width
    if non_null.shape[0] * 8 < count:
        raise ValueError(f"bitmap of {non_null.shape[0]} bytes has no {count} bits")
    cdef bytes result = PyBytes_FromStringAndSize(NULL, count * width)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    cdef const uint8_t* src = &values[0] if have else NULL
    if count:
        with nogil:
            _spread(src, have, width, &non_null[0], count, out)
    return result


def spread_bits(const uint8_t[::1] values, const uint8_t[::1] non_null, int64_t count):
    """Dense bits laid out over `count` slots, zero under the nulls."""
    cdef int64_t i, k = 0, have = values.shape[0] * 8
    if non_null.shape[0] * 8 < count:
        raise ValueError(f"bitmap of {non_null.shape[0]} bytes has no {count} bits")
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
    if have < 0 or non_null.shape[0] * 8 < count:
        raise ValueError("no offsets, or fewer bits than slots")
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
