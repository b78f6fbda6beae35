"""Values put at given places of an array, which is how a loader mixes the rows of several row groups."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


def scatter(const uint8_t[::1] values not None, int width, const int32_t[::1] places not None, uint8_t[::1] out not None):
    """Copy value `i`, of `width` bytes, to the index `places[i]` of `out`. Threads may write to other places meanwhile."""
    cdef int64_t i, n = places.shape[0], room
    cdef int32_t low = 0, high = -1
    cdef const int32_t* at
    cdef const uint8_t* source
    cdef uint8_t* target
    if width < 1 or values.shape[0] != n * width:
        raise ValueError(f"{values.shape[0]} bytes are not {n} values of {width} bytes")
    if n == 0:
        return
    room = out.shape[0] // width
    at, source, target = &places[0], &values[0], &out[0] if out.shape[0] else NULL
    with nogil:
        for i in range(n):
            low = at[i] if at[i] < low else low
            high = at[i] if at[i] > high else high
    if low < 0 or high >= room:
        raise IndexError(f"place {low if low < 0 else high} of {room}")
    # The bounds of all places are proven above.
    with nogil:
        if width == 8:
            for i in range(n):
                (<uint64_t*>target)[at[i]] = (<const uint64_t*>source)[i]
        elif width == 4:
            for i in range(n):
                (<uint32_t*>target)[at[i]] = (<const uint32_t*>source)[i]
        elif width == 2:
            for i in range(n):
                (<uint16_t*>target)[at[i]] = (<const uint16_t*>source)[i]
        elif width == 1:
            for i in range(n):
                target[at[i]] = source[i]
        else:
            for i in range(n):
                memcpy(target + width * <int64_t>at[i], source + width * i, width)
