from libc.stdint cimport int64_t, uint8_t

from smalti._core.physical cimport PhysicalColumns

cdef enum:
    ARROW_FLAG_NULLABLE = 2

# The layout of these two is the C data interface; Arrow gets their addresses.
cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

# Zeros that the all-null columns of a batch share, with a reference count: a consumer may keep one column of many.
cdef struct Zeros:
    int64_t references
    int64_t size
    uint8_t* data

# The memory of one ArrowArray of ours; its buffers follow this head in the same allocation.
cdef struct Block:
    const void* buffers[3]
    ArrowArray* children[2]
    Zeros* zeros
    int64_t size

cdef uint8_t* new_array(ArrowArray* out, int64_t payload) except NULL nogil
cdef ArrowArray* new_child(ArrowArray* parent, int index) except NULL nogil
cdef Zeros* new_zeros(int64_t size) except NULL nogil
cdef void share_zeros(ArrowArray* out, Zeros* zeros) noexcept nogil
cdef void drop_zeros(Zeros* zeros) noexcept nogil
cdef void release_array(ArrowArray* array) noexcept nogil

cdef object schema_capsule(PhysicalColumns nodes, list names)
