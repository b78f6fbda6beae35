"""Record batches to be written: exported from Arrow once, checked, measured."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from smalti._core.arrow_c cimport ArrowArray, release_array
from smalti._core.bits cimport bitmap_size, get_bit, u128
from smalti._core.cursor cimport uv32_size
from smalti._core.decimals cimport decimal_size
from smalti._core.fault cimport zeroed
from smalti._core.feed cimport Chunk, Feed, add_chunk, feed_children
from smalti._core.physical cimport PhysicalColumns, K_DECV, K_VAR, TypeNode, T_DECIMAL, T_TIME, file_width, is_string
from smalti._core.utf8 cimport ascii_prefix, valid_utf8
from smalti._core.values cimport MILLISECONDS_OF_DAY, decimal_limit, fits_limit


cdef class InputBatch:
    """A batch held through Arrow's C interface: no Python object per column from here on.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Of exactly the types the schema block names, columns in the writer's order.
    """

    def __cinit__(self, batch not None):
        batch._export_to_c(<uintptr_t>&self.array)
        self.batch = batch
        self.num_rows = batch.num_rows

    def __dealloc__(self):
        release_array(&self.array)

    def has_dictionaries(self):
        """Whether arrays of the batch have indices of dictionaries."""
        return _has_dictionaries(&self.array)


cdef bint _has_dictionaries(const ArrowArray* array) noexcept nogil:
    cdef int64_t i
    if array.dictionary != NULL:
        return True
    for i in range(array.n_children):
        if _has_dictionaries(array.children[i]):
            return True
    return False


cdef class Feeds:
    """Columns of a row group, ready to be encoded.

    Parameters
    ----------
    physical : PhysicalColumns
        The columns.
    indices : list of int
        The index of each column in the batches.
    slices : list of (InputBatch, int, int)
        Batch, first row, number of rows.
    """

    def __cinit__(self, PhysicalColumns physical not None, list indices not None, list slices not None):
        cdef int64_t i, start, rows, index
        cdef InputBatch batch
        self.nodes = physical
        self._batches = [piece[0] for piece in slices]
        self.feeds = <Feed*>zeroed((physical.num_physical + 1) * sizeof(Feed))
        if len(indices) != physical.num_columns:
            raise ValueError(f"{len(indices)} indices for {physical.num_columns} columns")
        for i in range(physical.num_physical):
            self.feeds[i].node = &physical.nodes[i]
        for batch, start, rows in slices:
            if not 0 <= start <= start + rows <= batch.num_rows:
                raise IndexError(f"rows {start} to {start + rows} of {batch.num_rows}")
            for i in range(physical.num_columns):
                index = indices[i]
                if not 0 <= index < batch.array.n_children:
                    raise IndexError(f"column {index} of {batch.array.n_children}")
                add_chunk(&self.feeds[i], batch.array.children[index],
                          batch.array.children[index].offset + batch.array.offset + start, rows)
        for i in range(physical.num_columns):
            feed_children(self.feeds, physical.nodes, i)

    def __dealloc__(self):
        cdef int64_t i
        if self.feeds != NULL:
            for i in range(self.nodes.num_physical):
                free(self.feeds[i].chunks)
            free(self.feeds)

    def check(self):
        """Find values that the format or the schema cannot hold: (physical column, reason, found), or None."""
        cdef int64_t i
        cdef Feed* feed
        for i in range(self.nodes.num_physical):
            feed = &self.feeds[i]
            if feed.nulls and not feed.node.nullable:
                return i, "nulls in a column that is NOT NULL", feed.nulls
            if feed.rows > INT32_MAX:
                return i, "more elements than one row group can hold", feed.rows
            if feed.num_indexed and not _check_indices(feed):
                return i, "an index of a dictionary leads to none of its values", None
            if is_string(feed.node) and not _check_strings(feed):
                return i, "string is not UTF-8", None
            if feed.node.type_id == T_DECIMAL and not _check_numbers(feed):
                return i, f"decimal has more than {feed.node.precision} digits", None
            if feed.node.type_id == T_TIME and not _check_numbers(feed):
                return i, "time is outside a day", None
        return None

    def measure(self):
        """Bytes of these rows in a row group: values as PLAIN, and a null bitmap per column."""
        cdef int64_t i, size, total = 0
        cdef Feed* feed
        with nogil:
            for i in range(self.nodes.num_physical):
                feed = &self.feeds[i]
                size = plain_size(feed) + bitmap_size(feed.rows)
                if i >= self.nodes.num_columns and size < 2 * feed.rows:
                    size = 2 * feed.rows    # keeps the elements of a row group below the limit of readers
                total += size
        return total


cdef int64_t plain_size(Feed* feed) noexcept nogil:
    """Serialised bytes of all non-null values."""
    cdef int64_t c, row, i, size, total = 0
    cdef int width = file_width(feed.node.kind)
    cdef Chunk* chunk
    cdef const ArrowArray* array
    cdef const int32_t* offsets
    cdef const int32_t* indices
    if width:
        return (feed.rows - feed.nulls) * width
    for c in range(feed.n_chunks):
        chunk = &feed.chunks[c]
        array = chunk.array if chunk.values == NULL else chunk.values
        indices = NULL if chunk.values == NULL else <const int32_t*>chunk.array.buffers[1]
        offsets = <const int32_t*>array.buffers[1]
        if feed.node.kind == K_VAR and chunk.valid == NULL and indices == NULL:
            total += offsets[chunk.start + chunk.rows] - offsets[chunk.start] + chunk.rows
            for row in range(chunk.start, chunk.start + chunk.rows):
                size = offsets[row + 1] - offsets[row]
                total += (size >= 0x80) + (size >= 0x4000) + (size >= 0x200000) + (size >= 0x10000000)
            continue
        for row in range(chunk.start, chunk.start + chunk.rows):
            if chunk.valid == NULL or get_bit(chunk.valid, row):
                i = row if indices == NULL else array.offset + indices[row]
                if feed.node.kind == K_DECV:
                    total += 1 + decimal_size(<const uint8_t*>array.buffers[1] + 16 * i)
                else:
                    size = offsets[i + 1] - offsets[i]
                    total += size + uv32_size(<uint32_t>size)
    return total


cdef Chunk _checked_part(const Chunk* chunk) noexcept nogil:
    """The values of a chunk that are checked: all of a dictionary, or those of its rows."""
    if chunk.values == NULL:
        return chunk[0]
    return Chunk(chunk.values, NULL, NULL, chunk.values.offset, chunk.values.length)


cdef bint _check_indices(Feed* feed) noexcept nogil:
    """Whether all indices lead to values of their dictionaries."""
    cdef int64_t c, row
    cdef Chunk* chunk
    cdef const int32_t* indices
    for c in range(feed.n_chunks):
        chunk = &feed.chunks[c]
        if chunk.values == NULL:
            continue
        indices = <const int32_t*>chunk.array.buffers[1]
        for row in range(chunk.start, chunk.start + chunk.rows):
            if not 0 <= indices[row] < chunk.values.length and (chunk.valid == NULL or get_bit(chunk.valid, row)):
                return False
    return True


cdef bint _check_strings(Feed* feed) noexcept nogil:
    """Whether all strings are UTF-8; checked one by one, unless all of their bytes are ASCII."""
    cdef int64_t c, row
    cdef Chunk chunk
    cdef const int32_t* offsets
    cdef const uint8_t* text
    for c in range(feed.n_chunks):
        chunk = _checked_part(&feed.chunks[c])
        offsets = <const int32_t*>chunk.array.buffers[1] + chunk.start
        text = <const uint8_t*>chunk.array.buffers[2]
        if ascii_prefix(text + offsets[0], offsets[chunk.rows] - offsets[0]) == offsets[chunk.rows] - offsets[0]:
            continue
        for row in range(chunk.rows):
            if chunk.valid == NULL or get_bit(chunk.valid, chunk.start + row):
                if not valid_utf8(text + offsets[row], offsets[row + 1] - offsets[row]):
                    return False
    return True


cdef bint _check_numbers(Feed* feed) noexcept nogil:
    """Whether all decimals are within their precision, or all times within a day."""
    cdef int64_t c, row
    cdef Chunk chunk
    cdef const uint8_t* values
    cdef uint32_t time
    cdef u128 limit = decimal_limit(feed.node.precision)
    cdef bint fits
    for c in range(feed.n_chunks):
        chunk = _checked_part(&feed.chunks[c])
        values = <const uint8_t*>chunk.array.buffers[1]
        for row in range(chunk.start, chunk.start + chunk.rows):
            if feed.node.type_id == T_TIME:
                memcpy(&time, values + 4 * row, 4)      # buffers of other producers may be misaligned
                fits = time < MILLISECONDS_OF_DAY       # a negative one is large
            else:
                fits = fits_limit(values + 16 * row, limit)
            if not fits and (chunk.valid == NULL or get_bit(chunk.valid, row)):
                return False
    return True
