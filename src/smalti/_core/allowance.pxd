from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define SMALTI_SPEND(at, n) __atomic_sub_fetch((at), (n), __ATOMIC_RELAXED)
    #define SMALTI_GIVE(at, n) __atomic_add_fetch((at), (n), __ATOMIC_RELAXED)
    """
    int64_t SMALTI_SPEND(int64_t* at, int64_t n) nogil
    int64_t SMALTI_GIVE(int64_t* at, int64_t n) nogil

# Bytes that may still be allocated, for several threads at once.
cdef struct Purse:
    int64_t left
    int64_t limit

cdef class Allowance:
    cdef Purse purse

cdef int over_limit(int64_t asked, int64_t held, int64_t limit) except -1 with gil


cdef inline int spend(Purse* purse, int64_t nbytes) except -1 nogil:
    """Count bytes that are about to be allocated, or refuse them; without a purse everything is allowed."""
    if purse != NULL and SMALTI_SPEND(&purse.left, nbytes) < 0:
        return over_limit(nbytes, purse.limit - SMALTI_GIVE(&purse.left, nbytes), purse.limit)
    return 0


cdef inline void give_back(Purse* purse, int64_t nbytes) noexcept nogil:
    if purse != NULL:
        SMALTI_GIVE(&purse.left, nbytes)
