from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from smalti._core.nodes cimport Node

cdef enum:
    MILLISECONDS_OF_DAY = 86400000

cdef int load_values(const Node* node, const uint8_t* source, int64_t n, uint8_t* out) except -1 nogil
cdef bint fits_precision(const uint8_t* decimal, int precision) noexcept nogil

# Serialise keys (numbers widened to 64 bits) or pieces of Arrow's memory; return the place after the last.
cdef uint8_t* put_keys(int kind, const uint64_t* keys, int64_t n, uint8_t* out) noexcept nogil
cdef uint8_t* put_texts(int kind, const uint8_t** texts, const uint32_t* sizes, int64_t n, uint8_t* out) noexcept nogil
