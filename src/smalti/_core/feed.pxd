from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from smalti._core.arrow_c cimport ArrowArray
from smalti._core.physical cimport TypeNode

cdef enum:
    SEGMENT = 16384     # rows that are read together: their dense values stay in the CPU's cache

# A run of rows of one Arrow array; `start` is the index of the first in the buffers, the array's offset included. Values
# of a dictionary are in `values`, without nulls, and the array has their indices, as int32.
cdef struct Chunk:
    const ArrowArray* array
    const ArrowArray* values    # NULL if the array has the values itself
    const uint8_t* valid    # the array's validity bitmap, NULL if nothing is null
    int64_t start
    int64_t rows

# One physical column of a row group: its runs, and a position in them.
cdef struct Feed:
    const TypeNode* node
    Chunk* chunks
    int64_t n_chunks
    int64_t capacity
    int64_t rows
    int64_t nulls
    int64_t num_indexed     # chunks that have indices, or only nulls
    int64_t at_chunk
    int64_t at_row

# Non-null values of up to SEGMENT rows: numbers as keys (their bits, widened to 64), strings and wide decimals as
# addresses (`texts`) and sizes in Arrow's memory.
cdef struct Dense:
    uint64_t* keys
    const uint8_t** texts
    uint32_t* sizes

cdef int add_chunk(Feed* feed, const ArrowArray* array, int64_t start, int64_t rows) except -1 nogil
cdef int feed_children(Feed* feeds, const TypeNode* nodes, int64_t at) except -1 nogil
cdef int64_t next_dense(Feed* feed, Dense* out) noexcept nogil
cdef void load_value(int kind, const ArrowArray* array, int64_t i, Dense* out, int64_t to) noexcept nogil
cdef void rewind(Feed* feed) noexcept nogil
cdef void put_null_bits(Feed* feed, uint8_t* out) noexcept nogil
