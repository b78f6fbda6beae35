"""Arrow arrays as feeds of dense, non-null values: the input side of encoding.

A feed concatenates the batches of a row group, and the runs of elements of an array column (elements of null arrays,
which Arrow's buffers may hold, are skipped: section 6).
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.arrow_c cimport ArrowArray
from smalti._core.bits cimport __builtin_ctzll, count_bits, get_bit, load_bits
from smalti._core.fault cimport grow
from smalti._core.physical cimport K_BOOL, K_DEC8, K_DECV, K_LEN, K_VAR, K_W1, K_W2, K_W4, TypeNode, T_MAP


cdef int add_chunk(Feed* feed, const ArrowArray* array, int64_t start, int64_t rows) except -1 nogil:
    cdef const uint8_t* valid = NULL if array.null_count == 0 else <const uint8_t*>array.buffers[0]
    cdef int64_t nulls
    if rows == 0:
        return 0
    if feed.n_chunks == feed.capacity:
        feed.capacity = 2 * feed.capacity + 4
        feed.chunks = <Chunk*>grow(feed.chunks, feed.capacity * sizeof(Chunk))
    feed.chunks[feed.n_chunks] = Chunk(array, array.dictionary, valid, start, rows)
    feed.n_chunks += 1
    nulls = 0 if valid == NULL else rows - count_bits(valid, start, rows)
    feed.num_indexed += array.dictionary != NULL or nulls == rows
    feed.rows += rows
    feed.nulls += nulls
    return 0


cdef int _add_elements(Feed* feeds, const TypeNode* parent, const ArrowArray* array, int64_t first, int64_t n) except -1 nogil:
    """Add elements first to first + n of a list or map array to the feeds of its children."""
    cdef const ArrowArray* child = array.children[0]
    cdef int i
    if parent.type_id != T_MAP:
        return add_chunk(&feeds[parent.child[0]], child, child.offset + first, n)
    for i in range(2):
        add_chunk(&feeds[parent.child[i]], child.children[i], child.offset + child.children[i].offset + first, n)
    return 0


cdef int feed_children(Feed* feeds, const TypeNode* nodes, int64_t at) except -1 nogil:
    """Fill the feeds of all columns below a list or map from its own feed."""
    cdef Feed* feed = &feeds[at]
    cdef const TypeNode* node = &nodes[at]
    cdef const int32_t* offsets
    cdef Chunk* chunk
    cdef int64_t c, row, first, stop
    cdef int i
    if node.n_children == 0:
        return 0
    for c in range(feed.n_chunks):
        chunk = &feed.chunks[c]
        offsets = <const int32_t*>chunk.array.buffers[1] + chunk.start
        first = stop = offsets[0]
        for row in range(chunk.rows):
            if chunk.valid == NULL or get_bit(chunk.valid, chunk.start + row):
                if offsets[row] != stop:
                    _add_elements(feeds, node, chunk.array, first, stop - first)
                    first = offsets[row]
                stop = offsets[row + 1]
        _add_elements(feeds, node, chunk.array, first, stop - first)
    for i in range(node.n_children):
        feed_children(feeds, nodes, node.child[i])
    return 0


cdef void rewind(Feed* feed) noexcept nogil:
    feed.at_chunk = feed.at_row = 0


cdef void put_null_bits(Feed* feed, uint8_t* out) noexcept nogil:
    """Set the bit of every null row; `out` is cleared."""
    cdef int64_t c, row, n, at = 0
    cdef uint64_t bits
    cdef Chunk* chunk
    for c in range(feed.n_chunks):
        chunk = &feed.chunks[c]
        row = 0
        while chunk.valid != NULL and row < chunk.rows:
            n = chunk.rows - row if chunk.rows - row < 56 else 56     # with up to 7 bits before, one word
            bits = ~load_bits(chunk.valid, chunk.start + row, n) & (((<uint64_t>1) << n) - 1)
            bits <<= (at + row) & 7
            _or_word(out + ((at + row) >> 3), bits)
            row += n
        at += chunk.rows


cdef inline void _or_word(uint8_t* out, uint64_t bits) noexcept nogil:
    """Set bits; only bytes with bits to set are written, because the last word may reach past the bitmap."""
    while bits:
        out[0] |= <uint8_t>bits
        bits >>= 8
        out += 1


# --- dense values -------------------------------------------------------------------------------------------------

cdef inline uint64_t _load_key(int kind, const ArrowArray* array, int64_t i) noexcept nogil:
    cdef const uint8_t* values = <const uint8_t*>array.buffers[1]
    cdef uint16_t w2
    cdef uint32_t w4
    cdef uint64_t w8
    if kind == K_W4:
        memcpy(&w4, values + 4 * i, 4)
        return w4
    if kind == K_W1:
        return values[i]
    if kind == K_BOOL:
        return get_bit(values, i)
    if kind == K_W2:
        memcpy(&w2, values + 2 * i, 2)
        return w2
    if kind == K_LEN:
        return <uint32_t>((<const int32_t*>values)[i + 1] - (<const int32_t*>values)[i])
    if kind == K_DEC8:
        memcpy(&w8, values + 16 * i, 8)     # the value fits 64 bits: the batch was checked
        return w8
    memcpy(&w8, values + 8 * i, 8)
    return w8


cdef inline void _take(int kind, const ArrowArray* array, int64_t i, Dense* out, int64_t to) noexcept nogil:
    cdef const int32_t* offsets
    if kind == K_VAR:
        offsets = <const int32_t*>array.buffers[1]
        out.texts[to] = <const uint8_t*>array.buffers[2] + offsets[i]
        out.sizes[to] = <uint32_t>(offsets[i + 1] - offsets[i])
    elif kind == K_DECV:
        out.texts[to] = <const uint8_t*>array.buffers[1] + 16 * i
        out.sizes[to] = 16
    else:
        out.keys[to] = _load_key(kind, array, i)


cdef void load_value(int kind, const ArrowArray* array, int64_t i, Dense* out, int64_t to) noexcept nogil:
    """Load the value at index `i` of the buffers of an array."""
    _take(kind, array, i, out, to)


cdef int64_t _take_indexed(int kind, const Chunk* chunk, int64_t at, int64_t rows, Dense* out, int64_t to) noexcept nogil:
    """Load the non-null values among `rows` rows that have indices."""
    cdef const ArrowArray* values = chunk.values
    cdef const int32_t* indices = <const int32_t*>chunk.array.buffers[1]
    cdef int64_t row
    for row in range(chunk.start + at, chunk.start + at + rows):
        if chunk.valid == NULL or get_bit(chunk.valid, row):
            _take(kind, values, values.offset + indices[row], out, to)
            to += 1
    return to


cdef inline int64_t _take_run(
    int kind, const Chunk* chunk, int64_t at, int64_t rows, Dense* out, int64_t to
) noexcept nogil:
    """Load the non-null values among `rows` rows; `kind` is a constant, so that the compiler makes a loop for each."""
    cdef const ArrowArray* array = chunk.array
    cdef int64_t row = 0, n, start = chunk.start + at
    cdef uint64_t bits
    if chunk.valid == NULL:
        for row in range(rows):
            _take(kind, array, start + row, out, to + row)
        return to + rows
    while row < rows:
        n = rows - row if rows - row < 64 else 64
        bits = load_bits(chunk.valid, start + row, n)
        while bits:
            _take(kind, array, start + row + __builtin_ctzll(bits), out, to)
            to += 1
            bits &= bits - 1
        row += n
    return to


cdef int64_t next_dense(Feed* feed, Dense* out) noexcept nogil:
    """Load the values of the next rows, SEGMENT at most, and return their number; -1 when there are no more rows."""
    cdef int64_t rows, left = SEGMENT, to = 0
    cdef Chunk* chunk
    cdef int kind = feed.node.kind
    if feed.at_chunk == feed.n_chunks:
        return -1
    while left and feed.at_chunk < feed.n_chunks:
        chunk = &feed.chunks[feed.at_chunk]
        rows = chunk.rows - feed.at_row if chunk.rows - feed.at_row < left else left
        if chunk.values != NULL:
            to = _take_indexed(kind, chunk, feed.at_row, rows, out, to)
        elif kind == K_VAR:
            to = _take_run(K_VAR, chunk, feed.at_row, rows, out, to)
        elif kind == K_W4:
            to = _take_run(K_W4, chunk, feed.at_row, rows, out, to)
        elif kind == K_W1:
            to = _take_run(K_W1, chunk, feed.at_row, rows, out, to)
        elif kind == K_W2:
            to = _take_run(K_W2, chunk, feed.at_row, rows, out, to)
        elif kind == K_BOOL:
            to = _take_run(K_BOOL, chunk, feed.at_row, rows, out, to)
        elif kind == K_LEN:
            to = _take_run(K_LEN, chunk, feed.at_row, rows, out, to)
        elif kind == K_DEC8:
            to = _take_run(K_DEC8, chunk, feed.at_row, rows, out, to)
        elif kind == K_DECV:
            to = _take_run(K_DECV, chunk, feed.at_row, rows, out, to)
        else:
            to = _take_run(kind, chunk, feed.at_row, rows, out, to)
        left -= rows
        feed.at_row += rows
        if feed.at_row == chunk.rows:
            feed.at_row = 0
            feed.at_chunk += 1
    return to
