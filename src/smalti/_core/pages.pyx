"""The directory of a paged bucket (section 8), its slots, and the zstd frames in them."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.cursor cimport Cursor, cursor_over, read_uv32
from smalti._core.fault cimport NONE, corrupt
from smalti._core.physical cimport MAX_BLOCK_SIZE, MAX_ZSTD_RATIO

from smalti.errors import MosaicError

cdef enum:
    RLE_BLOCK = 1
    RESERVED_BLOCK = 3

cdef uint64_t FRAME_MAGIC = 0xFD2FB528, SKIPPABLE_MAGIC = 0x184D2A50, NO_CONTENT = ~<uint64_t>0


cdef uint64_t _load_le(const uint8_t* at, int width) noexcept nogil:
    cdef uint64_t value = 0
    memcpy(&value, at, width)
    return value


def find_slots(const uint8_t[::1] data not None, int64_t at, int64_t num_slots, int64_t bucket_size, list wanted not None):
    """(offset in the bucket, size) of the `wanted` slots of a bucket; the sizes of all are at offset `at` of `data`.

    Directory and slots must fill the bucket exactly.
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


cdef int64_t _skip_frame(const uint8_t* data, int64_t size, uint64_t* content) noexcept nogil:
    """The size of the zstd frame, or skippable frame, that `data` begins with; -1 if it is cut off or no frame.

    Only the sizes are followed, from block to block; the decoder checks everything else. `content` becomes the size
    that the frame declares for its content, or NO_CONTENT.
    """
    cdef int64_t pos = 5
    cdef int descriptor, field
    cdef uint64_t block
    content[0] = NO_CONTENT
    if size >= 8 and _load_le(data, 4) & <uint64_t>0xFFFFFFF0 == SKIPPABLE_MAGIC:
        pos = 8 + <int64_t>_load_le(data + 4, 4)
        return pos if pos <= size else -1
    if size < 9 or _load_le(data, 4) != FRAME_MAGIC:
        return -1
    descriptor = data[4]
    field = descriptor >> 6
    field = 1 << field if field else descriptor >> 5 & 1    # bytes of the content size
    if not descriptor >> 5 & 1:
        pos += 1                                            # the window
    pos += (1 << (descriptor & 3)) >> 1                     # the dictionary: 0, 1, 2 or 4 bytes
    if pos + field > size:
        return -1
    if field:
        content[0] = _load_le(data + pos, field) + (256 if field == 2 else 0)
    pos += field
    while pos + 3 <= size:
        block = _load_le(data + pos, 3)
        if block >> 1 & 3 == RESERVED_BLOCK:
            return -1
        pos += 3 + (1 if block >> 1 & 3 == RLE_BLOCK else <int64_t>(block >> 3))
        if block & 1:
            pos += 4 if descriptor >> 2 & 1 else 0
            return pos if pos <= size else -1
    return -1


def count_frames(const uint8_t[::1] data not None):
    """(number of zstd frames that the bytes consist of, declared content size of the last).

    The number is 0 if the bytes are cut off or hold anything else, and the content size None if it is not declared.
    """
    cdef int64_t pos = 0, size, count = 0
    cdef uint64_t content = NO_CONTENT
    while pos < data.shape[0]:
        size = _skip_frame(&data[pos], data.shape[0] - pos, &content)
        if size < 0:
            return 0, None
        pos += size
        count += 1
    return count, None if content == NO_CONTENT else content


cdef bint _is_plain(const uint8_t* slot, int64_t size) noexcept nogil:
    """Whether a slot holds exactly one frame that declares the size of its page, which a page can have."""
    cdef uint64_t content, told = 0
    cdef int64_t pos = 0
    while pos < size and pos < 5:
        told |= <uint64_t>(slot[pos] & 0x7F) << (7 * pos)
        pos += 1
        if slot[pos - 1] < 0x80:
            return (
                0 < told <= MAX_BLOCK_SIZE and told <= <uint64_t>((size - pos) * MAX_ZSTD_RATIO)
                and (pos == 1 or slot[pos - 1] != 0)    # a size in more bytes than it needs is refused by `read_uv32`
                and _skip_frame(slot + pos, size - pos, &content) == size - pos and content == told
            )
    return False


def odd_slots(const uint8_t[::1] data not None, const uint8_t[::1] sizes not None):
    """The numbers of slots that lie one after the other in `data`, and are neither empty nor plain.

    `sizes` are 32-bit numbers as in a directory, and must fill `data`. A plain slot holds one zstd frame that declares
    the size of its page, and only decompressing it can tell more. An odd slot may be damaged, or of another writer.
    """
    cdef int64_t i, at = 0, size, n = sizes.shape[0] // 4
    cdef list odd = []
    for i in range(n):
        size = <int64_t>_load_le(&sizes[0] + 4 * i, 4)
        if size > data.shape[0] - at:
            raise IndexError(f"slot {i} ends at {at + size} of {data.shape[0]}")
        if size and not _is_plain(&data[at], size):
            odd.append(i)
        at += size
    if at != data.shape[0]:
        raise IndexError(f"slots end at {at} of {data.shape[0]}")
    return odd


def open_slots(list slots not None):
    """(zstd frames in slots, sizes of their pages as native 64-bit numbers, their sum), None in place of the sum if a
    slot does not hold exactly one frame that declares the size of its page, or declares a size that no page can have.

    Then the pages must not be decompressed in one call: zstandard's call for many frames (0.25) writes outside its
    memory where a frame has no content. An error about a slot names its index in the list as the column.
    """
    cdef Py_ssize_t i, n = len(slots)
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, 8 * n)
    cdef uint64_t* sizes = <uint64_t*>PyBytes_AS_STRING(packed)
    cdef Py_buffer view
    cdef Cursor c
    cdef int64_t size, total = 0
    cdef uint64_t content
    cdef bint plain = True
    cdef list frames = []
    for i in range(n):
        PyObject_GetBuffer(slots[i], &view, PyBUF_SIMPLE)
        try:
            c = cursor_over(<const uint8_t*>view.buf, view.len)
            size = read_uv32(&c)
            plain = plain and (
                0 < size <= MAX_BLOCK_SIZE and size <= (view.len - c.pos) * MAX_ZSTD_RATIO
                and _skip_frame(c.data + c.pos, view.len - c.pos, &content) == view.len - c.pos
                and content == <uint64_t>size
            )
        except MosaicError as error:
            raise error.locate(column=i)
        finally:
            PyBuffer_Release(&view)
        sizes[i] = <uint64_t>size
        total += size
        frames.append(slots[i][c.pos:])
    return frames, packed, total if plain else None
