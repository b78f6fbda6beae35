"""How kernels that run without the GIL raise the errors of `smalti.errors`."""

from libc.stdint cimport int64_t

from smalti.errors import CorruptFileError, UnsupportedFeatureError


cdef object _number(int64_t value):
    return None if value == NONE else value


cdef int corrupt(const char* reason, int64_t offset, int64_t found, int64_t expected) except -1 with gil:
    return corrupt_column(reason, NONE, offset, found, expected)


cdef int corrupt_column(
    const char* reason, int64_t column, int64_t offset, int64_t found, int64_t expected
) except -1 with gil:
    raise CorruptFileError(
        reason.decode(), column=_number(column), offset=_number(offset), found=_number(found), expected=_number(expected)
    )


cdef int unsupported(const char* reason, int64_t found, int64_t expected) except -1 with gil:
    raise UnsupportedFeatureError(reason.decode(), found=_number(found), expected=_number(expected))


cdef int no_memory(int64_t nbytes) except -1 with gil:
    raise MemoryError(f"cannot allocate {nbytes} bytes")
