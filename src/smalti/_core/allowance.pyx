"""How many bytes a read may hold: counted before they are allocated, so that no file can ask for more than is allowed."""

from libc.stdint cimport INT64_MAX, int64_t

from smalti.errors import MemoryLimitError


cdef class Allowance:
    """Bytes that one read, or one batch of it, may hold at a time. Safe to use from several threads.

    Parameters
    ----------
    limit : int
        Bytes; more than 2**63 - 1 count as that.
    held : int
        Bytes that are held already.

    Examples
    --------
    >>> allowance = Allowance(100)
    >>> allowance.take(60)
    >>> allowance.left
    40
    """

    def __cinit__(self, limit, int64_t held=0):
        self.purse.limit = min(limit, INT64_MAX)
        self.purse.left = self.purse.limit - held

    @property
    def left(self):
        """Bytes that may still be taken."""
        return self.purse.left

    @property
    def held(self):
        """Bytes that were taken and not given back."""
        return self.purse.limit - self.purse.left

    def take(self, int64_t nbytes):
        """Count bytes that are about to be allocated; raises `MemoryLimitError` if they are too many."""
        spend(&self.purse, nbytes)

    def give(self, int64_t nbytes):
        """Count bytes that were freed."""
        give_back(&self.purse, nbytes)


cdef int over_limit(int64_t asked, int64_t held, int64_t limit) except -1 with gil:
    raise MemoryLimitError.of(asked, held, limit)
