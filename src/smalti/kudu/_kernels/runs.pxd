"""What the runs of bitmaps and of integers share: headers, limits and the cut of the last literal run."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, put_uv32
from smalti._core.fault cimport NONE, corrupt

cdef enum:
    GROUP = 8
    MAX_GROUPS = 63        # of one literal run: its header stays one byte
    MAX_REPEATS = 1 << 30  # a run's header is an int32 (note, section 2)


cdef inline uint8_t* put_repeat(uint8_t* out, int64_t count, const void* value, int width) noexcept nogil:
    out = put_uv32(out, <uint32_t>(count << 1))
    memcpy(out, value, width)  # little endian, as every machine we build for
    return out + width


cdef inline int repeat_size(int64_t count) noexcept nogil:
    cdef uint8_t scratch[5]
    return <int>(put_uv32(scratch, <uint32_t>(count << 1)) - scratch)


cdef inline int64_t read_header(Cursor* c) except -1 nogil:
    """A run's header: at most five bytes, below 2**31. Kudu reads it whether or not it is the shortest form."""
    cdef int64_t start = c.pos
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if c.pos >= c.end:
            return corrupt(b"header of an RLE run is cut off", start, NONE, NONE)
        if shift > 28:
            return corrupt(b"header of an RLE run is longer than 5 bytes", start, NONE, NONE)
        byte = c.data[c.pos]
        c.pos += 1
        value |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            break
        shift += 7
    if value > 0x7FFFFFFF:
        return corrupt(b"header of an RLE run does not fit 31 bits", start, <int64_t>value, 0x7FFFFFFF)
    if value < 2:
        return corrupt(b"RLE run of no values", start, NONE, NONE)
    return <int64_t>value


cdef inline int64_t literal_bytes(Cursor* c, int64_t header, int group, int width) except -1 nogil:
    """Bytes of a literal run: all its groups, or what is left when it is the last (it is not filled up).

    A group takes `group` bytes; the run is cut only between pieces of `width` bytes.
    """
    cdef int64_t nbytes = (header >> 1) * group
    if nbytes > c.end - c.pos:
        nbytes = c.end - c.pos
    if nbytes == 0:
        return corrupt(b"RLE literal run without its values", c.pos, 0, width)
    if nbytes % width:
        return corrupt(b"RLE literal run ends inside a value (bytes left over)", c.pos, nbytes % width, 0)
    return nbytes
