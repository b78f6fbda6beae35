"""Finding the columns in a bucket: monolithic buckets (section 7) and the pages of paged ones (section 8).

Sizes and counts are read and checked, values are not. The results are views: pointers and sizes that fit the bytes,
ready to be decoded or described.
"""

from libc.stdint cimport int64_t, uint8_t

from smalti._core.bits cimport bitmap_size, count_bits, index_width
from smalti._core.cursor cimport Cursor, cursor_over, need, read_u8, read_uv32, skip
from smalti._core.fault cimport NONE, corrupt
from smalti._core.physical cimport (
    ALL_NULL, CONST, DICT, K_DECV, K_VAR, MAX_ROWS, MAX_UNBACKED_ROWS, PLAIN, TypeNode, file_width,
)

# Pointers to the pieces of one encoded physical column; every size has been checked against the bytes.
cdef struct View:
    const TypeNode* node
    int encoding
    bint has_nulls
    int64_t rows
    int64_t non_null
    int64_t entries             # of the dictionary
    const uint8_t* value        # CONST: the serialised value; DICT: the serialised entries
    int64_t value_size
    const uint8_t* nulls        # bitmap, when has_nulls
    const uint8_t* data         # PLAIN values or DICT indices
    int64_t data_size
    int64_t string_bytes        # PLAIN of variable width: bytes of all values without their prefixes


cdef inline int64_t walk_values(Cursor* c, const TypeNode* node, int64_t n) except -1 nogil:
    """Step over n serialised values; returns the bytes of those of variable width, without their prefixes."""
    cdef int64_t i, size, total = 0, pos
    cdef int width = file_width(node.kind)
    cdef const uint8_t* data = c.data
    if width:
        if n > (c.end - c.pos) // width:
            return corrupt(b"values do not fit (bytes left, bytes needed)", c.pos, c.end - c.pos, n * width)
        c.pos += n * width
        return 0
    if n > c.end - c.pos:       # each takes a byte at least
        return corrupt(b"values do not fit (bytes left, values)", c.pos, c.end - c.pos, n)
    if node.kind == K_DECV:
        pos = c.pos
        for i in range(n):
            size = data[pos] if pos < c.end else 0
            pos += 1 + size
            if size > 16 or pos > c.end:
                c.pos = pos - 1 - size      # say where the first one is that does not fit
                size = read_uv32(c)
                if size > 16:
                    return corrupt(b"DECIMAL of more than 16 bytes", c.pos, size, 16)
                skip(c, size)
            total += size
        c.pos = pos
        return total
    pos = c.pos
    for i in range(n):
        if pos < c.end and data[pos] < 0x80:    # the usual case by far: a prefix of one byte
            size = data[pos]
            pos += 1 + size
        else:
            c.pos = pos
            size = read_uv32(c)
            pos = c.pos + size
        if pos > c.end:
            return corrupt(b"value reaches past the end (bytes left, size of the value)", pos - size,
                           c.end - (pos - size), size)
        total += size
    c.pos = pos
    return total


cdef inline int _check_rows(View* view, int64_t offset) except -1 nogil:
    """Limit the rows of a column, more so if its encoding takes no bytes per row (section 16)."""
    cdef bint backed = view.has_nulls or view.encoding == PLAIN or (view.encoding == DICT and view.entries > 1)
    if not backed and view.rows > MAX_UNBACKED_ROWS:
        return corrupt(b"too many rows in a column that stores nothing per row", offset, view.rows, MAX_UNBACKED_ROWS)
    if view.rows > MAX_ROWS:
        return corrupt(b"too many rows in one row group", offset, view.rows, MAX_ROWS)
    return 0


cdef inline int _take_meta(Cursor* c, View* view) except -1 nogil:
    """Find the CONST value or the DICT entries."""
    cdef int64_t at
    if view.encoding == DICT:
        view.entries = read_uv32(c)
    if view.encoding == CONST or view.encoding == DICT:
        at = c.pos
        view.value = c.data + at
        view.string_bytes = walk_values(c, view.node, view.entries if view.encoding == DICT else 1)
        view.value_size = c.pos - at
    return 0


cdef inline int _take_nulls(Cursor* c, View* view) except -1 nogil:
    cdef int64_t size
    view.non_null = 0 if view.encoding == ALL_NULL else view.rows
    if view.has_nulls:
        size = bitmap_size(view.rows)
        need(c, size)
        view.nulls = c.data + c.pos
        c.pos += size
        view.non_null -= count_bits(view.nulls, 0, view.rows)
    return _check_rows(view, c.pos)


cdef inline int _take_data(Cursor* c, View* view) except -1 nogil:
    cdef int64_t at = c.pos
    cdef int width
    view.data = c.data + at
    if view.encoding == PLAIN:
        view.string_bytes = walk_values(c, view.node, view.non_null)
    elif view.encoding == DICT:
        if view.entries == 0 and view.non_null:
            return corrupt(b"dictionary without entries for rows that need one", at, view.non_null, 0)
        width = index_width(view.entries)
        skip(c, (view.non_null * width + 7) >> 3)
    view.data_size = c.pos - at
    return 0


cdef inline void _init(View* view, const TypeNode* node, int64_t rows, int encoding, bint has_nulls) noexcept nogil:
    """Set the fields of a zeroed view that do not come from the bytes."""
    view.node = node
    view.rows = rows
    view.encoding = encoding
    view.has_nulls = has_nulls and encoding != ALL_NULL


cdef inline int view_all_null(const TypeNode* node, int64_t rows, View* view) except -1 nogil:
    _init(view, node, rows, ALL_NULL, False)
    return _check_rows(view, NONE)


cdef inline int view_page(
    const uint8_t* page, int64_t size, const TypeNode* node, int64_t rows, View* view
) except -1 nogil:
    """View a decompressed page of a paged bucket."""
    cdef Cursor c = cursor_over(page, size)
    cdef int64_t encoding = read_u8(&c)
    cdef int64_t flags = read_u8(&c)
    if encoding > ALL_NULL:
        return corrupt(b"unknown encoding of a page", 0, encoding, ALL_NULL)
    if flags > 1:
        return corrupt(b"unknown flags of a page", 1, flags, 1)
    _init(view, node, rows, <int>encoding, flags & 1)
    _take_meta(&c, view)
    _take_nulls(&c, view)
    _take_data(&c, view)
    if c.pos != c.end:
        return corrupt(b"bytes after the data of a page", c.pos, c.end - c.pos, 0)
    return 0


cdef inline int view_first(
    const uint8_t* data, int64_t size, const TypeNode* node, int64_t rows, int64_t first, View* view
) except -1 nogil:
    """View the `first` of `rows` rows of a monolithic bucket of one column, of which `data` is a beginning."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t encoding = read_u8(&c) & 3
    cdef int64_t flags = read_u8(&c)
    _init(view, node, rows, <int>encoding, flags & 1)
    _take_meta(&c, view)
    _take_nulls(&c, view)
    view.rows = first
    view.non_null = 0 if encoding == ALL_NULL else first
    if view.has_nulls:
        view.non_null -= count_bits(view.nulls, 0, first)
    return _take_data(&c, view)


cdef inline int view_monolithic(
    const uint8_t* data, int64_t size, const TypeNode* nodes, int64_t n_columns, int64_t n_nodes, int64_t rows,
    View* views, int64_t* column
) except -1 nogil:
    """View all physical columns of a decompressed monolithic bucket; `column` becomes that of an error."""
    cdef Cursor c = cursor_over(data, size)
    cdef int64_t i, count, flags_at, nulls_at
    cdef int encoding
    column[0] = -1
    for i in range(n_columns):
        views[i].rows = rows
    if n_nodes > n_columns:
        count = read_uv32(&c)
        if count != n_columns:
            return corrupt(b"bucket header counts other columns than the schema", c.pos, count, n_columns)
        count = read_uv32(&c)
        if count != n_nodes - n_columns:
            return corrupt(b"bucket header counts other children than the schema", c.pos, count, n_nodes - n_columns)
        for i in range(n_columns, n_nodes):
            views[i].rows = read_uv32(&c)
    flags_at = c.pos
    skip(&c, (2 * n_nodes + 7) >> 3)
    nulls_at = c.pos
    skip(&c, (n_nodes + 7) >> 3)
    for i in range(n_nodes):
        _init(&views[i], &nodes[i], views[i].rows, data[flags_at + (i >> 2)] >> (2 * (i & 3)) & 3,
              data[nulls_at + (i >> 3)] >> (i & 7) & 1)
    # Each section holds its pieces of all columns, in order.
    for encoding in range(CONST, DICT + 1):     # all constants, then all dictionaries
        for i in range(n_nodes):
            column[0] = i
            if views[i].encoding == encoding:
                _take_meta(&c, &views[i])
    for i in range(n_nodes):
        column[0] = i
        _take_nulls(&c, &views[i])
    for i in range(n_nodes):
        column[0] = i
        _take_data(&c, &views[i])
    column[0] = -1
    if c.pos != c.end:
        return corrupt(b"bytes after the last column of a bucket", c.pos, c.end - c.pos, 0)
    return 0
