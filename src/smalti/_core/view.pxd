from libc.stdint cimport int64_t, uint8_t

from smalti._core.nodes cimport Node

# Where the pieces of one encoded physical column lie; every size in it has been checked against the bytes.
cdef struct View:
    const Node* node
    int encoding
    bint has_nulls
    int64_t rows
    int64_t non_null
    int64_t entries             # of the dictionary
    const uint8_t* value        # CONST: the serialised value; DICT: the serialised entries
    int64_t value_size
    const uint8_t* nulls        # bitmap, when has_nulls
    const uint8_t* data         # PLAIN values or DICT indices
    int64_t data_size
    int64_t text_size           # PLAIN of variable width: bytes of all values without their prefixes

cdef int view_monolithic(
    const uint8_t* data, int64_t size, const Node* nodes, int64_t n_columns, int64_t n_nodes, int64_t rows, View* views,
    int64_t* column
) except -1 nogil

cdef int view_page(const uint8_t* page, int64_t size, const Node* node, int64_t rows, View* view) except -1 nogil
cdef int view_all_null(const Node* node, int64_t rows, View* view) except -1 nogil
