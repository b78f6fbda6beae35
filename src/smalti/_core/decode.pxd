from libc.stdint cimport int64_t, uint8_t, uint32_t

from smalti._core.allowance cimport Purse
from smalti._core.arrow_c cimport ArrowArray, Zeros
from smalti._core.dictionary cimport Dictionary, Run
from smalti._core.tracker cimport Tracker
from smalti._core.view cimport View

# Memory reused from column to column while one bucket is decoded; nothing handed out points into it.
cdef struct Scratch:
    uint32_t* indices
    int64_t indices_size
    uint8_t* entries
    int64_t entries_size
    uint8_t* bytes          # of booleans, before they are packed
    int64_t bytes_size
    Zeros* zeros
    Run* run
    Tracker tracker         # the distinct values of a column that becomes its own dictionary
    Purse* purse            # what arrays and scratch may take together; NULL: anything
    int64_t spent           # of it for scratch, given back with it

cdef void free_scratch(Scratch* s) noexcept nogil
cdef int decode_column(
    View* views, int64_t at, ArrowArray* out, Scratch* s, const Dictionary** dictionaries
) except -1 nogil
cdef int load_lengths(View* view, Scratch* s, uint32_t* out) except -1 nogil
