"""Minimum and maximum of a column while it is encoded (section 11). NaN is passed over, so it never becomes a bound
unless there is nothing else; ties keep the first value, which matters for -0.0 and 0.0."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.bits cimport bytes_less
from smalti._core.feed cimport Dense
from smalti._core.nodes cimport K_VAR, K_W1, K_W2, K_W4, Node, T_DOUBLE, T_FLOAT
from smalti._core.values cimport put_keys


cdef inline double _as_double(const Node* node, uint64_t key) noexcept nogil:
    cdef uint32_t w4 = <uint32_t>key
    cdef float f
    cdef double d
    if node.type_id == T_FLOAT:
        memcpy(&f, &w4, 4)
        return f
    memcpy(&d, &key, 8)
    return d


cdef inline int64_t _as_integer(const Node* node, uint64_t key) noexcept nogil:
    if node.kind == K_W1:
        return <int8_t>key
    if node.kind == K_W2:
        return <int16_t>key
    return <int32_t>key if node.kind == K_W4 else <int64_t>key


cdef void minmax_add(MinMax* m, const Node* node, const Dense* dense, int64_t n) noexcept nogil:
    """n values, n > 0."""
    cdef int64_t i = 0
    cdef bint floating = node.type_id == T_FLOAT or node.type_id == T_DOUBLE
    cdef double d
    if node.kind == K_VAR:
        if not m.known:
            m.known = m.number = True
            m.low_text = m.high_text = dense.texts[0]
            m.low_size = m.high_size = dense.sizes[0]
        for i in range(n):
            if bytes_less(dense.texts[i], dense.sizes[i], m.low_text, m.low_size):
                m.low_text = dense.texts[i]
                m.low_size = dense.sizes[i]
            elif bytes_less(m.high_text, m.high_size, dense.texts[i], dense.sizes[i]):
                m.high_text = dense.texts[i]
                m.high_size = dense.sizes[i]
        return
    if not m.known:
        m.known = True
        m.low = m.high = dense.keys[0]
        m.number = not floating or _as_double(node, m.low) == _as_double(node, m.low)
    if not floating:
        for i in range(n):
            if _as_integer(node, dense.keys[i]) < _as_integer(node, m.low):
                m.low = dense.keys[i]
            elif _as_integer(node, dense.keys[i]) > _as_integer(node, m.high):
                m.high = dense.keys[i]
        return
    for i in range(n):
        d = _as_double(node, dense.keys[i])
        if d != d:
            continue
        if not m.number:
            m.number = True
            m.low = m.high = dense.keys[i]
        elif d < _as_double(node, m.low):
            m.low = dense.keys[i]
        elif d > _as_double(node, m.high):
            m.high = dense.keys[i]


cdef bytes _serialize(const Node* node, uint64_t key, const uint8_t* text, uint32_t size):
    """A bound as stored, without the prefix that text has."""
    cdef uint8_t buffer[16]
    if node.kind == K_VAR:
        return PyBytes_FromStringAndSize(<const char*>text, size)
    return buffer[:put_keys(node.kind, &key, 1, buffer) - buffer]


cdef tuple minmax_put(MinMax* m, const Node* node):
    """Both bounds as they are stored, or (None, None) if every value is null."""
    if not m.known:
        return None, None
    return _serialize(node, m.low, m.low_text, m.low_size), _serialize(node, m.high, m.high_text, m.high_size)
