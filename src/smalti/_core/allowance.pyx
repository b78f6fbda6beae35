"""The memory limit of a read: bytes are counted before they are allocated, so that no file can exceed the limit."""

cimport cython
from libc.stdint cimport INT64_MAX, int64_t

from smalti.errors import MemoryLimitError


@cython.no_gc_clear  # A part gives its bytes back to the allowance of the whole read when it is deleted.
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

    def __dealloc__(self):
        if self.purse.whole != NULL:
            give_back(self.purse.whole, self.purse.limit - self.purse.left)

    def part(self, limit=INT64_MAX):
        """Make an allowance whose bytes count here too, and are given back when it is deleted.

        Examples
        --------
        >>> whole = Allowance(100)
        >>> part = whole.part()
        >>> part.take(60)
        >>> whole.left
        40
        >>> del part
        >>> whole.left
        100
        """
        cdef Allowance part = Allowance(limit)
        part._whole = self
        part.purse.whole = &self.purse
        return part

    @property
    def left(self):
        """Bytes that may still be taken."""
        return self.purse.left if self._whole is None else min(self.purse.left, self._whole.left)

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
