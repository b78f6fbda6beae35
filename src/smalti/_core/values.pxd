from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.bits cimport i128, u128
from smalti._core.feed cimport Dense
from smalti._core.physical cimport K_W1, K_W2, K_W4, TypeNode, T_DOUBLE, T_FLOAT

cdef enum:
    MILLISECONDS_OF_DAY = 86400000

cdef int load_values(const TypeNode* node, const uint8_t* source, int64_t n, uint8_t* out) except -1 nogil
cdef uint8_t* put_values(int kind, const Dense* values, int64_t n, uint8_t* out) noexcept nogil


cdef inline u128 decimal_limit(int precision) noexcept nogil:
    """The smallest number of more than `precision` digits."""
    cdef u128 limit = 1
    cdef int i
    for i in range(precision):
        limit *= 10
    return limit


cdef inline bint fits_limit(const uint8_t* decimal, u128 limit) noexcept nogil:
    """Whether the magnitude of a 16-byte Arrow decimal is below `limit`."""
    cdef i128 value
    memcpy(&value, decimal, 16)
    return (<u128>value if value >= 0 else -<u128>value) < limit


cdef inline double _as_double(const TypeNode* node, uint64_t key) noexcept nogil:
    cdef uint32_t w4 = <uint32_t>key
    cdef float f
    cdef double d
    if node.type_id == T_FLOAT:
        memcpy(&f, &w4, 4)
        return f
    memcpy(&d, &key, 8)
    return d


cdef inline bint key_is_nan(const TypeNode* node, uint64_t key) noexcept nogil:
    if node.type_id != T_FLOAT and node.type_id != T_DOUBLE:
        return False
    return _as_double(node, key) != _as_double(node, key)


cdef inline bint key_less(const TypeNode* node, uint64_t a, uint64_t b) noexcept nogil:
    """Whether key `a` sorts before key `b`; NaN sorts neither before nor after anything."""
    if node.type_id == T_FLOAT or node.type_id == T_DOUBLE:
        return _as_double(node, a) < _as_double(node, b)
    if node.kind == K_W1:
        return <int8_t>a < <int8_t>b
    if node.kind == K_W2:
        return <int16_t>a < <int16_t>b
    if node.kind == K_W4:
        return <int32_t>a < <int32_t>b
    return <int64_t>a < <int64_t>b
