"""What the runs of bitmaps and of integers share: reading and writing one run (Kudu's util/rle-encoding.h).

A repeated run is the header `count << 1` and the value. A literal run is the header `groups << 1 | 1` and groups of
eight values each. Unlike in Parquet, the last group of a stream is not filled up to eight values.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, need, put_uv32, uv32_size
from smalti._core.fault cimport NONE, corrupt

cdef enum:
    GROUP = 8
    MAX_GROUPS = 63        # of one literal run: its header stays one byte
    MAX_REPEATS = 1 << 30  # the header is an int32


cdef struct RunWriter:
    uint8_t* out     # where the next byte goes
    uint8_t* header  # of the literal run that is open, or NULL
    int groups       # in that run


cdef inline void put_repeat(RunWriter* w, int64_t count, const void* value, int width) noexcept nogil:
    w.header = NULL
    w.out = put_uv32(w.out, <uint32_t>(count << 1))
    memcpy(w.out, value, width)  # little endian, as every machine we build for
    w.out += width


cdef inline void put_literal(RunWriter* w, const void* group, int64_t nbytes) noexcept nogil:
    """Add a group of values to the open literal run, or begin one."""
    if w.header == NULL:
        w.header = w.out
        w.out += 1
        w.groups = 0
    memcpy(w.out, group, nbytes)
    w.out += nbytes
    w.groups += 1
    w.header[0] = <uint8_t>(w.groups << 1 | 1)
    if w.groups == MAX_GROUPS:
        w.header = NULL


cdef struct RunCounter:
    int64_t used  # bytes of the runs that are written
    int groups    # in the literal run that is open; MAX_GROUPS if none is


cdef inline int64_t count_repeat(RunCounter* counter, int64_t count, int width) noexcept nogil:
    """Count a repeated run as `put_repeat` writes it, and return the bytes used so far."""
    counter.groups = MAX_GROUPS
    counter.used += uv32_size(<uint32_t>(count << 1)) + width
    return counter.used


cdef inline int64_t count_literal(RunCounter* counter, int64_t nbytes) noexcept nogil:
    """Count a group as `put_literal` writes it, and return the bytes used so far."""
    if counter.groups == MAX_GROUPS:
        counter.used += 1
        counter.groups = 0
    counter.groups += 1
    counter.used += nbytes
    return counter.used


cdef struct Run:
    const uint8_t* values
    int64_t nbytes   # at `values`: one value, or all those of a literal run
    int64_t repeats  # 0 for a literal run


cdef inline int read_run(Cursor* c, int group, int width, Run* run) except -1 nogil:
    """Read a run and move behind it. A group takes `group` bytes; a literal run ends between pieces of `width` bytes.

    The last literal run may claim more values than there are bytes for, since its last group is not filled up.
    """
    cdef int64_t header = _read_header(c)
    cdef int64_t nbytes = (header >> 1) * group
    if not header & 1:
        need(c, width)
        run.repeats = header >> 1
        run.nbytes = width
    else:
        if nbytes > c.end - c.pos:
            nbytes = c.end - c.pos
        if nbytes == 0:
            return corrupt(b"RLE literal run without its values", c.pos, 0, width)
        if nbytes % width:
            return corrupt(b"RLE literal run ends inside a value (bytes left over)", c.pos, nbytes % width, 0)
        run.repeats = 0
        run.nbytes = nbytes
    run.values = c.data + c.pos
    c.pos += run.nbytes
    return 0


cdef inline int64_t _read_header(Cursor* c) except -1 nogil:
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


cdef inline int need_bits(const uint8_t[::1] bitmap, int64_t start, int64_t count) except -1:
    """Refuse a bitmap that has no `count` bits from bit `start`: a mistake of the caller, not of a file."""
    if start < 0 or count < 0 or start + count > bitmap.shape[0] * 8:
        raise ValueError(f"bitmap of {bitmap.shape[0]} bytes has no {count} bits from bit {start}")
    return 0
