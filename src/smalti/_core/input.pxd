from libc.stdint cimport int64_t

from smalti._core.arrow_c cimport ArrowArray
from smalti._core.feed cimport Feed
from smalti._core.physical cimport PhysicalColumns

cdef class InputBatch:
    cdef ArrowArray array
    cdef readonly object batch
    cdef readonly int64_t num_rows

# The feeds of columns, over slices of batches.
cdef class Feeds:
    cdef PhysicalColumns nodes
    cdef list _batches
    cdef Feed* feeds

cdef int64_t plain_size(Feed* feed) noexcept nogil
