from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, realloc

# Raising from code that runs without the GIL: these take it only on the way out.
# NONE stands for a number that is not known or does not matter.
cdef enum:
    NONE = -9223372036854775807

cdef int corrupt(const char* reason, int64_t offset, int64_t found, int64_t expected) except -1 with gil
cdef int corrupt_column(
    const char* reason, int64_t column, int64_t offset, int64_t found, int64_t expected
) except -1 with gil
cdef int unsupported(const char* reason, int64_t found, int64_t expected) except -1 with gil
cdef int no_memory(int64_t nbytes) except -1 with gil


cdef inline void* grow(void* block, int64_t nbytes) except NULL nogil:
    """Memory of `nbytes` (at least 1) with the contents of `block`, which may be NULL; raises where there is none."""
    cdef void* grown = realloc(block, nbytes)
    if grown == NULL:
        no_memory(nbytes)
    return grown


cdef inline void* zeroed(int64_t nbytes) except NULL nogil:
    """Memory of `nbytes` zeros; raises where there is none."""
    cdef void* made = calloc(1, nbytes)
    if made == NULL:
        no_memory(nbytes)
    return made
