"""What surrounds the pages of a paged bucket (section 8): the directory of slots, and the zstd frame in each slot."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, cursor_over, read_uv32
from smalti._core.fault cimport NONE, corrupt
from smalti._core.nodes cimport MAX_BLOCK_SIZE, MAX_ZSTD_RATIO

from smalti.errors import MosaicError

cdef enum:
    FRAME_MAGIC = 0xFD2FB528
    RLE_BLOCK = 1
    RESERVED_BLOCK = 3


cdef uint64_t _load_le(const uint8_t* at, int width) noexcept nogil:
    cdef uint64_t value = 0
    memcpy(&value, at, width)
    return value


def find_slots(const uint8_t[::1] data not None, int64_t at, int64_t num_slots, int64_t bucket_size, list wanted not None):
    """(offset in the bucket, size) of the `wanted` of the slots of a bucket, whose sizes stand at `at` in `data`.

    All sizes are added up: with the directory, they must fill the bucket exactly.
    """
    cdef int64_t i, k, end = at + 4 * num_slots
    cdef list found = []
    cdef const uint8_t* sizes
    if at < 0 or num_slots < 0 or end > data.shape[0]:
        raise IndexError(f"a directory of {end} bytes in {data.shape[0]}")
    sizes = &data[0] + at if num_slots else NULL
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, 8 * (num_slots + 1))
    cdef int64_t* starts = <int64_t*>PyBytes_AS_STRING(packed)
    for i in range(num_slots):
        starts[i] = end
        end += <int64_t>_load_le(sizes + 4 * i, 4)
    starts[num_slots] = end
    if end != bucket_size:
        corrupt(b"directory and slots do not fill the bucket", NONE, end, bucket_size)
    for k in wanted:
        if not 0 <= k < num_slots:
            raise IndexError(f"slot {k} of {num_slots}")
        found.append((starts[k], starts[k + 1] - starts[k]))
    return found


cdef bint _is_plain_frame(const uint8_t* data, int64_t size, uint64_t content) noexcept nogil:
    """Whether the bytes are one zstd frame, nothing more, that declares `content` bytes of content.

    Only the sizes are followed, from block to block; the decoder checks everything else.
    """
    cdef int64_t pos = 5
    cdef int descriptor, field
    cdef uint64_t block
    cdef uint64_t declared
    if size < 9 or _load_le(data, 4) != FRAME_MAGIC:
        return False
    descriptor = data[4]
    field = descriptor >> 6
    if field:
        field = 1 << field
    elif descriptor >> 5 & 1:
        field = 1
    else:
        return False
    if not descriptor >> 5 & 1:
        pos += 1                                    # the window
    pos += (1 << (descriptor & 3)) >> 1             # the dictionary: 0, 1, 2 or 4 bytes
    if pos + field > size:
        return False
    declared = _load_le(data + pos, field) + (256 if field == 2 else 0)
    pos += field
    if declared != content:
        return False
    while pos + 3 <= size:
        block = _load_le(data + pos, 3)
        if block >> 1 & 3 == RESERVED_BLOCK:
            return False
        pos += 3 + (1 if block >> 1 & 3 == RLE_BLOCK else <int64_t>(block >> 3))
        if block & 1:
            return pos + (4 if descriptor >> 2 & 1 else 0) == size
    return False


def open_slots(list slots not None):
    """The zstd frames in slots, the sizes of their pages as native 64-bit numbers, and their sum.

    None if one needs a closer look.

    None is returned where a slot holds anything else than one frame that declares the size of its page, or a size that
    no frame of these bytes can have, or that no page has: zstandard's call for many frames writes outside its memory
    where a frame has no content. An error about a slot names its place in the list as the column.
    """
    cdef Py_ssize_t i, n = len(slots)
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, 8 * n)
    cdef uint64_t* sizes = <uint64_t*>PyBytes_AS_STRING(packed)
    cdef Py_buffer view
    cdef Cursor c
    cdef int64_t size, total = 0
    cdef bint plain
    cdef list frames = []
    for i in range(n):
        PyObject_GetBuffer(slots[i], &view, PyBUF_SIMPLE)
        try:
            c = cursor_over(<const uint8_t*>view.buf, view.len)
            size = read_uv32(&c)
            plain = (
                0 < size <= MAX_BLOCK_SIZE and size <= (view.len - c.pos) * MAX_ZSTD_RATIO
                and _is_plain_frame(c.data + c.pos, view.len - c.pos, <uint64_t>size)
            )
        except MosaicError as error:
            raise error.locate(column=i)
        finally:
            PyBuffer_Release(&view)
        if not plain:
            return None
        sizes[i] = <uint64_t>size
        total += size
        frames.append(slots[i][c.pos:])
    return frames, packed, total
