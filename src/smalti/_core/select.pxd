from libc.stdint cimport int64_t, uint64_t

from smalti._core.allowance cimport Purse
from smalti._core.decode cimport Scratch
from smalti._core.view cimport View

# Memory of the views that were made; they point into it.
cdef struct Blocks:
    void** items
    int64_t size
    int64_t capacity
    Purse* purse            # what they may take; NULL: anything
    int64_t spent

cdef void free_blocks(Blocks* blocks) noexcept nogil
cdef int slice_rows(
    View* views, int64_t at, int64_t first, int64_t n, View* out, Scratch* s, Blocks* blocks
) except -1 nogil
cdef int select_rows(
    View* views, int64_t at, const uint64_t* rows, int64_t n, View* out, Scratch* s, Blocks* blocks
) except -1 nogil
