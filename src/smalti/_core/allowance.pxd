from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define SMALTI_SPEND(at, n) __atomic_sub_fetch((at), (n), __ATOMIC_RELAXED)
    #define SMALTI_GIVE(at, n) __atomic_add_fetch((at), (n), __ATOMIC_RELAXED)
    """
    int64_t SMALTI_SPEND(int64_t* at, int64_t n) nogil
    int64_t SMALTI_GIVE(int64_t* at, int64_t n) nogil

# Bytes that may still be allocated, for several threads at once.
# Bytes that are taken from the purse of a part of a read are taken from the purse of the whole read too.
cdef struct Purse:
    int64_t left
    int64_t limit
    Purse* whole

cdef class Allowance:
    cdef Purse purse
    cdef Allowance _whole

cdef int over_limit(int64_t asked, int64_t held, int64_t limit) except -1 with gil


cdef inline void give_back(Purse* purse, int64_t nbytes, Purse* end=NULL) noexcept nogil:
    """Count bytes that were freed, in all purses below `end`."""
    while purse != end:
        SMALTI_GIVE(&purse.left, nbytes)
        purse = purse.whole


cdef inline int spend(Purse* purse, int64_t nbytes) except -1 nogil:
    """Count bytes that are about to be allocated, or raise; without a purse everything is allowed."""
    cdef Purse* at = purse
    while at != NULL:
        if SMALTI_SPEND(&at.left, nbytes) < 0:
            give_back(purse, nbytes, at)
            return over_limit(nbytes, at.limit - SMALTI_GIVE(&at.left, nbytes), at.limit)
        at = at.whole
    return 0
