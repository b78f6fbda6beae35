from libc.stdint cimport int64_t, uint8_t

# Decode one raw LZ4 block that must fill `dst` exactly; `base` is where `src` starts, for the offsets of errors.
cdef int lz4_block(const uint8_t* src, int64_t size, uint8_t* dst, int64_t room, int64_t base) except -1 nogil
