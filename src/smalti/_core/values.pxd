from libc.stdint cimport int64_t, uint8_t

from smalti._core.nodes cimport Node

cdef int load_values(const Node* node, const uint8_t* source, int64_t n, uint8_t* out) except -1 nogil
cdef bint fits_precision(const uint8_t* decimal, int precision) noexcept nogil
