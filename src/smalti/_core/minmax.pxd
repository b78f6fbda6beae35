"""Minimum and maximum of a column while it is encoded (section 11).

NaN is passed over, so it never becomes a bound unless there is nothing else. Ties keep the first value, which matters
for -0.0 and 0.0.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from smalti._core.bits cimport bytes_less
from smalti._core.feed cimport Dense
from smalti._core.physical cimport K_VAR, TypeNode
from smalti._core.values cimport key_is_nan, key_less, put_values

# Minimum and maximum so far, zeroed at the start; strings point into Arrow's memory.
cdef struct MinMax:
    bint wanted
    bint known              # a value has been seen
    bint number             # one that is not NaN
    uint64_t low
    uint64_t high
    const uint8_t* low_text
    const uint8_t* high_text
    uint32_t low_size
    uint32_t high_size


cdef inline void minmax_add(MinMax* m, const TypeNode* node, const Dense* values, int64_t n) noexcept nogil:
    """Take n values into account, n > 0."""
    cdef int64_t i = 0
    cdef TypeNode own = node[0]     # a copy, of which the compiler knows that it does not change in the loop
    if node.kind == K_VAR:
        if not m.known:
            m.known = True
            m.low_text = m.high_text = values.texts[0]
            m.low_size = m.high_size = values.sizes[0]
        for i in range(n):
            if bytes_less(values.texts[i], values.sizes[i], m.low_text, m.low_size):
                m.low_text = values.texts[i]
                m.low_size = values.sizes[i]
            elif bytes_less(m.high_text, m.high_size, values.texts[i], values.sizes[i]):
                m.high_text = values.texts[i]
                m.high_size = values.sizes[i]
        return
    while i < n and not m.number:       # only NaN so far, or nothing
        m.number = not key_is_nan(node, values.keys[i])
        if m.number or not m.known:
            m.low = m.high = values.keys[i]
        m.known = True
        i += 1
    for i in range(i, n):
        if key_less(&own, values.keys[i], m.low):
            m.low = values.keys[i]
        elif key_less(&own, m.high, values.keys[i]):
            m.high = values.keys[i]


cdef inline bytes _serialize(const TypeNode* node, uint64_t key, const uint8_t* text, uint32_t size):
    """Return a bound as it is stored, without the prefix that strings have among values."""
    cdef uint8_t buffer[16]
    cdef Dense value = Dense(&key, NULL, NULL)
    if node.kind == K_VAR:
        return PyBytes_FromStringAndSize(<const char*>text, size)
    return buffer[:put_values(node.kind, &value, 1, buffer) - buffer]


cdef inline tuple minmax_put(MinMax* m, const TypeNode* node):
    """Return both bounds as they are stored, or (None, None) if every value is null."""
    if not m.known:
        return None, None
    return _serialize(node, m.low, m.low_text, m.low_size), _serialize(node, m.high, m.high_text, m.high_size)
