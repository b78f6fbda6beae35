from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from smalti._core.feed cimport Dense
from smalti._core.nodes cimport Node

# Minimum and maximum so far, zeroed at the start; texts point into Arrow's memory.
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

cdef void minmax_add(MinMax* m, const Node* node, const Dense* dense, int64_t n) noexcept nogil
cdef tuple minmax_put(MinMax* m, const Node* node)
