from smalti._core.physical cimport PhysicalColumns
from smalti._core.view cimport View

cdef class BucketViews:
    cdef PhysicalColumns nodes
    cdef View* views
    cdef object _data       # keeps the bytes alive that the views point into
