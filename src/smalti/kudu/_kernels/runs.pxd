"""What the runs of bitmaps and of integers share: reading and writing one run (Kudu's util/rle-encoding.h).

A repeated run is the header `count << 1` and the value. A literal run is the header `groups << 1 | 1` and groups of
eight values each. Unlike in Parquet, the last group of a stream is not filled up to eight values.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, put_uv32, uv32_size
from smalti._core.fault cimport NONE, corrupt

cdef enum:
    GROUP = 8
    MAX_GROUPS = 63        # of one literal run: its header stays one byte
    MAX_REPEATS = 1 << 30  # the header is an int32


cdef struct RunWriter:
    uint8_t* out     # where the next byte goes
    uint8_t* header  # of the literal run that is open, or NULL
    int groups       # in that run


cdef inline void end_literal(RunWriter* w) noexcept nogil:
    """Write the header of the literal run that is open, if one is."""
    if w.header != NULL:
        w.header[0] = <uint8_t>(w.groups << 1 | 1)
        w.header = NULL


cdef inline uint8_t* literal_room(RunWriter* w, int64_t nbytes) noexcept nogil:
    """Where the caller must put the `nbytes` of a group that goes on the open literal run, or begins one."""
    cdef uint8_t* room
    if w.header == NULL:
        w.header = w.out
        w.out += 1
        w.groups = 0
    room = w.out
    w.out = room + nbytes
    w.groups += 1
    if w.groups == MAX_GROUPS:
        end_literal(w)
    return room


cdef inline uint8_t* put_repeat(uint8_t* out, int64_t count, const void* value, int width) noexcept nogil:
    """Write a repeated run, after `end_literal`, and return the place behind it."""
    out = put_uv32(out, <uint32_t>(count << 1))
    memcpy(out, value, width)  # little endian, as every machine we build for
    return out + width


cdef inline int64_t repeat_size(int64_t count, int width) noexcept nogil:
    """Bytes that `put_repeat` takes."""
    return uv32_size(<uint32_t>(count << 1)) + width


cdef inline int64_t group_size(int64_t groups, int64_t nbytes) noexcept nogil:
    """Bytes that one more group takes in literal runs that have `groups` already; each run has a header."""
    return nbytes + (groups % MAX_GROUPS == 0)


cdef inline int64_t read_header(Cursor* c) except -1 nogil:
    """A run's header: at most five bytes, below 2**31. Like Kudu, this accepts forms longer than they need be."""
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
    """Bytes of a literal run: all its groups, or what is left if it is the last run, which is not filled up.

    A group takes `group` bytes; a run may end only between pieces of `width` bytes.
    """
    cdef int64_t nbytes = (header >> 1) * group
    if nbytes > c.end - c.pos:
        nbytes = c.end - c.pos
    if nbytes == 0:
        return corrupt(b"RLE literal run without its values", c.pos, 0, width)
    if nbytes % width:
        return corrupt(b"RLE literal run ends inside a value (bytes left over)", c.pos, nbytes % width, 0)
    return nbytes


cdef inline int need_bits(const uint8_t[::1] bitmap, int64_t start, int64_t count) except -1:
    """Refuse a bitmap that has no `count` bits from bit `start`: a mistake of the caller, not of a file."""
    if start < 0 or count < 0 or start + count > bitmap.shape[0] * 8:
        raise ValueError(f"bitmap of {bitmap.shape[0]} bytes has no {count} bits from bit {start}")
    return 0
