"""Views of encoded columns to Arrow arrays, and the batch they are gathered in.

Every column is decoded densely (non-null values only, as stored) and then spread over its rows. Buffers are fresh:
nothing that leaves here is touched again.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from smalti._core.arrow_c cimport (
    ArrowArray, Zeros, drop_zeros, new_array, new_child, new_zeros, release_array, share_zeros,
)
from smalti._core.bits cimport Pair, bitmap_size, copy_inverted, expand_nulls, index_width, unpack_indices, word
from smalti._core.cursor cimport Cursor, cursor_over, read_uv32
from smalti._core.fault cimport NONE, corrupt, no_memory
from smalti._core.nodes cimport (
    ALL_NULL, BucketNodes, CONST, DICT, K_BOOL, K_LEN, K_VAR, Node, PLAIN, T_MAP, arrow_width, is_text,
)
from smalti._core.utf8 cimport valid_strings, valid_utf8
from smalti._core.values cimport load_values
from smalti._core.view cimport View, view_all_null, view_monolithic, view_page

from smalti.errors import MosaicError

cdef enum:
    MAX_INT32 = 2147483647
    SLACK = 16      # short copies may write this far past their end

# Memory reused from column to column while one bucket is decoded; nothing handed out points into it.
cdef struct Scratch:
    uint32_t* indices
    int64_t indices_size
    uint8_t* entries
    int64_t entries_size
    Zeros* zeros


cdef void _free_scratch(Scratch* s) noexcept nogil:
    free(s.indices)
    free(s.entries)
    if s.zeros != NULL:
        drop_zeros(s.zeros)


cdef int _reserve(uint8_t** block, int64_t* have, int64_t size) except -1 nogil:
    cdef void* grown
    if size > have[0]:
        grown = realloc(block[0], size)
        if grown == NULL:
            return no_memory(size)
        block[0] = <uint8_t*>grown
        have[0] = size
    return 0


cdef int64_t _round64(int64_t n) noexcept nogil:
    return (n + 63) & ~<int64_t>63


# --- dense values -------------------------------------------------------------------------------------------------

cdef inline void _fill(word* out, int64_t n) noexcept nogil:
    """Repeat out[0]."""
    cdef int64_t i
    for i in range(1, n):
        out[i] = out[0]


cdef inline void _gather(word* out, const word* entries, const uint32_t* indices, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = entries[indices[i]]


cdef int _unpack(View* view, Scratch* s) except -1 nogil:
    """Indices of a DICT column into scratch; all of them are inside the dictionary."""
    cdef uint32_t top
    _reserve(<uint8_t**>&s.indices, &s.indices_size, view.non_null * 4 + 4)
    top = unpack_indices(s.indices, view.data, view.data_size, view.non_null, index_width(view.entries))
    if view.non_null and top >= view.entries:
        return corrupt(b"dictionary index out of range", NONE, top, view.entries - 1)
    return 0


cdef int _dense_fixed(View* view, Scratch* s, uint8_t* out) except -1 nogil:
    cdef int width = arrow_width(view.node.kind)
    cdef int64_t n = view.non_null
    if view.encoding == PLAIN:
        return load_values(view.node, view.data, n, out)
    if view.encoding == CONST:
        if n == 0:
            return 0
        load_values(view.node, view.value, 1, out)
        if width == 1:
            memset(out, out[0], n)
        elif width == 2:
            _fill(<uint16_t*>out, n)
        elif width == 4:
            _fill(<uint32_t*>out, n)
        elif width == 8:
            _fill(<uint64_t*>out, n)
        else:
            _fill(<Pair*>out, n)
        return 0
    _reserve(&s.entries, &s.entries_size, view.entries * width + 16)
    load_values(view.node, view.value, view.entries, s.entries)
    _unpack(view, s)
    if width == 1:
        _gather(out, s.entries, s.indices, n)
    elif width == 2:
        _gather(<uint16_t*>out, <uint16_t*>s.entries, s.indices, n)
    elif width == 4:
        _gather(<uint32_t*>out, <uint32_t*>s.entries, s.indices, n)
    elif width == 8:
        _gather(<uint64_t*>out, <uint64_t*>s.entries, s.indices, n)
    else:
        _gather(<Pair*>out, <Pair*>s.entries, s.indices, n)
    return 0


cdef void _spread(View* view, int width, uint8_t* values) noexcept nogil:
    if not view.has_nulls:
        return
    if width == 1:
        expand_nulls(values, view.rows, view.non_null, view.nulls)
    elif width == 2:
        expand_nulls(<uint16_t*>values, view.rows, view.non_null, view.nulls)
    elif width == 4:
        expand_nulls(<uint32_t*>values, view.rows, view.non_null, view.nulls)
    elif width == 8:
        expand_nulls(<uint64_t*>values, view.rows, view.non_null, view.nulls)
    else:
        expand_nulls(<Pair*>values, view.rows, view.non_null, view.nulls)


# --- arrays -------------------------------------------------------------------------------------------------------

cdef uint8_t* _begin(View* view, ArrowArray* out, int n_buffers, int64_t payload) except NULL nogil:
    """Head and validity of an array that is not ALL_NULL; returns where its other buffers go."""
    cdef int64_t validity = _round64(bitmap_size(view.rows)) if view.has_nulls else 0
    cdef uint8_t* at = new_array(out, validity + payload)
    out.length = view.rows
    out.n_buffers = n_buffers
    if view.has_nulls:
        copy_inverted(at, view.nulls, 0, view.rows)
        out.buffers[0] = at
        out.null_count = view.rows - view.non_null
    return at + validity


cdef int _all_null(View* view, ArrowArray* out, int n_buffers, Scratch* s) except -1 nogil:
    """Validity, offsets and values of an all-null column are all zeros: the columns of a bucket share them."""
    cdef int64_t size = (view.rows + 1) * arrow_width(view.node.kind)
    cdef int i
    new_array(out, 0)
    out.length = out.null_count = view.rows
    out.n_buffers = n_buffers
    if s.zeros != NULL and s.zeros.size < size:
        drop_zeros(s.zeros)
        s.zeros = NULL
    if s.zeros == NULL:
        s.zeros = new_zeros(size)
    share_zeros(out, s.zeros)
    for i in range(n_buffers):
        out.buffers[i] = s.zeros.data
    return 0


cdef int _decode_fixed(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    cdef int width = arrow_width(view.node.kind)
    cdef int64_t row, packed = bitmap_size(view.rows)
    cdef uint8_t* values
    cdef uint8_t* bits
    if view.node.kind != K_BOOL:
        values = _begin(view, out, 2, (view.rows + 1) * width)
        out.buffers[1] = values
        _dense_fixed(view, s, values)
        _spread(view, width, values)
        return 0
    bits = _begin(view, out, 2, packed + 8 + view.rows)
    values = bits + packed + 8
    out.buffers[1] = bits
    _dense_fixed(view, s, values)
    _spread(view, 1, values)
    memset(bits, 0, packed)
    for row in range(view.rows):
        bits[row >> 3] |= values[row] << (row & 7)
    return 0


cdef inline const uint8_t* _next_text(const uint8_t* at, uint32_t* size) noexcept nogil:
    """Read a prefix the walk has checked; returns the text."""
    cdef int shift = 7
    size[0] = at[0]
    at += 1
    if size[0] >= 0x80:
        size[0] &= 0x7F
        while at[0] >= 0x80:
            size[0] |= (<uint32_t>(at[0] & 0x7F)) << shift
            shift += 7
            at += 1
        size[0] |= (<uint32_t>at[0]) << shift
        at += 1
    return at


cdef inline void _copy_text(uint8_t* out, const uint8_t* text, uint32_t size, const uint8_t* end) noexcept nogil:
    """Short texts are copied in one fixed step where both sides have room for it (out always has SLACK)."""
    if size <= 16 and end - text >= 16:
        memcpy(out, text, 16)
    else:
        memcpy(out, text, size)


cdef int _too_long(int64_t total) except -1 nogil:
    return corrupt(b"column holds more bytes than one Arrow array can", NONE, total, MAX_INT32)


cdef int _sum_offsets(View* view, int32_t* offsets) noexcept nogil:
    """offsets[1:] holds dense sizes; spread them and add them up."""
    cdef int64_t row
    offsets[0] = 0
    _spread(view, 4, <uint8_t*>(offsets + 1))
    for row in range(view.rows):
        offsets[row + 1] += offsets[row]
    return 0


cdef int _decode_plain_text(View* view, ArrowArray* out) except -1 nogil:
    cdef int64_t i, head = _round64((view.rows + 1) * 4)
    cdef int32_t* offsets
    cdef uint8_t* to
    cdef uint32_t size
    cdef const uint8_t* at = view.data
    cdef const uint8_t* end = at + view.data_size
    if view.text_size > MAX_INT32:
        return _too_long(view.text_size)
    offsets = <int32_t*>_begin(view, out, 3, head + view.text_size + SLACK)
    to = <uint8_t*>offsets + head
    out.buffers[1] = offsets
    out.buffers[2] = to
    for i in range(view.non_null):
        at = _next_text(at, &size)
        offsets[i + 1] = <int32_t>size
        _copy_text(to, at, size, end)
        to += size
        at += size
    return _sum_offsets(view, offsets)


cdef int _decode_const_text(View* view, ArrowArray* out) except -1 nogil:
    cdef int64_t i, head = _round64((view.rows + 1) * 4)
    cdef int32_t* offsets
    cdef uint8_t* to
    cdef uint32_t size
    cdef const uint8_t* text = _next_text(view.value, &size)
    if <int64_t>size * view.non_null > MAX_INT32:
        return _too_long(<int64_t>size * view.non_null)
    offsets = <int32_t*>_begin(view, out, 3, head + <int64_t>size * view.non_null + SLACK)
    to = <uint8_t*>offsets + head
    out.buffers[1] = offsets
    out.buffers[2] = to
    for i in range(view.non_null):
        offsets[i + 1] = <int32_t>size
        memcpy(to, text, size)
        to += size
    return _sum_offsets(view, offsets)


cdef int _decode_dict_text(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    cdef int64_t i, total = 0, head = _round64((view.rows + 1) * 4)
    cdef int32_t* offsets
    cdef uint8_t* to
    cdef const uint8_t* at = view.value
    cdef const uint8_t* end = at + view.value_size
    cdef const uint8_t** texts
    cdef uint32_t* sizes
    cdef uint32_t index
    _reserve(&s.entries, &s.entries_size, view.entries * 12 + 16)
    texts = <const uint8_t**>s.entries
    sizes = <uint32_t*>(s.entries + view.entries * 8)
    for i in range(view.entries):
        at = _next_text(at, &sizes[i])
        texts[i] = at
        if is_text(view.node) and not valid_utf8(at, sizes[i]):
            return corrupt(b"dictionary entry is not UTF-8", NONE, i, NONE)
        at += sizes[i]
    _unpack(view, s)
    for i in range(view.non_null):
        total += sizes[s.indices[i]]
    if total > MAX_INT32:
        return _too_long(total)
    offsets = <int32_t*>_begin(view, out, 3, head + total + SLACK)
    to = <uint8_t*>offsets + head
    out.buffers[1] = offsets
    out.buffers[2] = to
    for i in range(view.non_null):
        index = s.indices[i]
        offsets[i + 1] = <int32_t>sizes[index]
        _copy_text(to, texts[index], sizes[index], end)
        to += sizes[index]
    return _sum_offsets(view, offsets)


cdef int _decode_text(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    if view.encoding == DICT:
        return _decode_dict_text(view, out, s)
    if view.encoding == CONST:
        _decode_const_text(view, out)
    else:
        _decode_plain_text(view, out)
    if is_text(view.node) and not valid_strings(
        <const uint8_t*>out.buffers[2], <const int32_t*>out.buffers[1], view.rows
    ):
        return corrupt(b"text is not UTF-8", NONE, NONE, NONE)
    return 0


cdef int _decode_lengths(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    """Offsets of a list or map; returns nothing, offsets[rows] is the number of elements."""
    cdef int64_t i, total = 0
    cdef int32_t* offsets = <int32_t*>_begin(view, out, 2, (view.rows + 1) * 4)
    out.buffers[1] = offsets
    _dense_fixed(view, s, <uint8_t*>(offsets + 1))
    for i in range(view.non_null):
        if offsets[i + 1] < 0:
            return corrupt(b"length of an array or map is negative", NONE, offsets[i + 1], 0)
        total += offsets[i + 1]
    if total > MAX_INT32:
        return corrupt(b"arrays hold more elements than one Arrow array can", NONE, total, MAX_INT32)
    return _sum_offsets(view, offsets)


cdef int _decode(View* views, const Node* nodes, int64_t at, ArrowArray* out, Scratch* s) except -1 nogil:
    """One physical column and its children. On error what was built so far hangs off `out`, for the caller to release."""
    cdef View* view = &views[at]
    cdef const Node* node = view.node
    cdef ArrowArray* parent = out
    cdef int64_t elements = 0
    cdef int i
    if view.non_null < view.rows and not node.nullable:
        return corrupt(b"nulls in a column that is NOT NULL", NONE, view.rows - view.non_null, 0)
    if view.encoding == ALL_NULL:
        _all_null(view, out, 3 if node.kind == K_VAR else 2, s)
    elif node.kind == K_VAR:
        _decode_text(view, out, s)
    elif node.kind == K_LEN:
        _decode_lengths(view, out, s)
        elements = (<const int32_t*>out.buffers[1])[view.rows]
    else:
        _decode_fixed(view, out, s)
    for i in range(node.n_children):
        if views[node.child[i]].rows != elements:
            return corrupt(b"elements stored for an array or map differ from its lengths' sum", NONE,
                           views[node.child[i]].rows, elements)
    if node.n_children == 0:
        return 0
    out.n_children = 1
    if node.type_id == T_MAP:
        parent = new_child(out, 0)
        new_array(parent, 0)
        parent.length = elements
        parent.n_buffers = 1
        parent.n_children = 2
    for i in range(node.n_children):
        _decode(views, nodes, node.child[i], new_child(parent, i), s)
    return 0


# --- batches ------------------------------------------------------------------------------------------------------

cdef void _release_batch(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        release_array(array.children[i])
        free(array.children[i])
    free(array.children)
    free(array.buffers)
    array.release = NULL


cdef class Batch:
    """Columns of one row group on their way to Arrow; each place is filled once, by any thread.

    Parameters
    ----------
    num_columns, num_rows : int
    """

    cdef ArrowArray array
    cdef readonly int64_t num_columns
    cdef readonly int64_t num_rows

    def __cinit__(self, int64_t num_columns, int64_t num_rows):
        cdef int64_t i
        self.num_columns = num_columns
        self.num_rows = num_rows
        self.array.length = num_rows
        self.array.n_buffers = 1
        self.array.buffers = <const void**>calloc(1, sizeof(void*))
        self.array.children = <ArrowArray**>calloc(num_columns + 1, sizeof(ArrowArray*))
        if self.array.buffers == NULL or self.array.children == NULL:
            free(self.array.buffers)
            free(self.array.children)
            raise MemoryError()
        self.array.release = _release_batch
        for i in range(num_columns):
            self.array.children[i] = <ArrowArray*>calloc(1, sizeof(ArrowArray))
            if self.array.children[i] == NULL:
                raise MemoryError()
            self.array.n_children += 1

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)

    def address(self):
        """Where the ArrowArray is, for the one import that takes its contents over."""
        return <uintptr_t>&self.array

    cdef int _decode_columns(
        self, View* views, BucketNodes nodes, int64_t n, int64_t* columns, int64_t* places, int64_t* column
    ) except -1 nogil:
        cdef Scratch s
        cdef int64_t i
        memset(&s, 0, sizeof(Scratch))
        try:
            for i in range(n):
                column[0] = columns[i]
                _decode(views, nodes.nodes, columns[i], self.array.children[places[i]], &s)
        finally:
            _free_scratch(&s)
        return 0

    def decode_monolithic(self, BucketNodes nodes not None, const uint8_t[::1] data not None, list columns not None,
                          list places not None):
        """Decode columns (positions in the bucket) of a decompressed monolithic bucket into their places."""
        cdef int64_t n = len(columns), at = -1
        cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
        cdef int64_t size = data.shape[0]
        cdef View* views = <View*>malloc((nodes.num_nodes + 1) * sizeof(View))
        cdef int64_t* wanted = _numbers(columns, nodes.num_columns)
        cdef int64_t* into = _numbers(places, self.num_columns)
        try:
            if views == NULL:
                raise MemoryError()
            with nogil:
                view_monolithic(start, size, nodes.nodes, nodes.num_columns, nodes.num_nodes, self.num_rows, views, &at)
                self._decode_columns(views, nodes, n, wanted, into, &at)
        except MosaicError as error:
            raise _blame(error, at)
        finally:
            free(views)
            free(wanted)
            free(into)

    def decode_pages(self, BucketNodes nodes not None, dict pages not None, list child_rows not None,
                     list columns not None, list places not None):
        """The same for a paged bucket: `pages` maps physical columns to bytes, or to None for ALL_NULL.

        It must hold the wanted columns and all below them.
        """
        cdef int64_t i, n = len(columns), at = -1, rows
        cdef const uint8_t[::1] page
        cdef View* views = <View*>calloc(nodes.num_nodes + 1, sizeof(View))
        cdef int64_t* wanted = _numbers(columns, nodes.num_columns)
        cdef int64_t* into = _numbers(places, self.num_columns)
        try:
            if views == NULL:
                raise MemoryError()
            for key, stored in pages.items():
                i = key
                if not 0 <= i < nodes.num_nodes:
                    raise IndexError(f"physical column {i} of {nodes.num_nodes}")
                at = i
                rows = self.num_rows if i < nodes.num_columns else child_rows[i - nodes.num_columns]
                if stored is None:
                    view_all_null(&nodes.nodes[i], rows, &views[i])
                else:
                    page = stored
                    view_page(&page[0] if page.shape[0] else NULL, page.shape[0], &nodes.nodes[i], rows, &views[i])
            for i in range(n):
                _check_viewed(views, nodes.nodes, wanted[i])
            with nogil:
                self._decode_columns(views, nodes, n, wanted, into, &at)
        except MosaicError as error:
            raise _blame(error, at)
        finally:
            free(views)
            free(wanted)
            free(into)

    def decode_missing(self, BucketNodes nodes not None, list columns not None, list places not None):
        """Columns of a bucket that the row group does not have: nulls where they are allowed (section 16)."""
        self.decode_pages(nodes, dict.fromkeys(range(nodes.num_nodes)), [0] * (nodes.num_nodes - nodes.num_columns), columns, places)


cdef int _check_viewed(View* views, const Node* nodes, int64_t at) except -1:
    cdef int i
    if views[at].node == NULL:
        raise KeyError(f"no page for physical column {at}")
    for i in range(nodes[at].n_children):
        _check_viewed(views, nodes, nodes[at].child[i])
    return 0


cdef object _blame(error, int64_t column):
    return error.locate(column=column) if column >= 0 else error


cdef int64_t* _numbers(list values, int64_t limit) except NULL:
    cdef Py_ssize_t i, n = len(values)
    cdef int64_t* out = <int64_t*>malloc((n + 1) * sizeof(int64_t))
    if out == NULL:
        raise MemoryError()
    for i in range(n):
        out[i] = values[i]
        if not 0 <= out[i] < limit:
            free(out)
            raise IndexError(f"column {values[i]} of {limit}")
    return out


# --- describing ---------------------------------------------------------------------------------------------------

cdef tuple _describe(View* view):
    """(encoding, has nulls, dictionary entries, values, bytes of its pieces)."""
    cdef int64_t size = view.value_size + view.data_size
    if view.encoding == DICT:
        size += 1 + (view.entries >= 0x80) + (view.entries >= 0x4000) + (view.entries >= 0x200000)
    if view.has_nulls:
        size += bitmap_size(view.rows)
    return view.encoding, bool(view.has_nulls), view.entries, view.rows, size


def describe_monolithic(BucketNodes nodes not None, const uint8_t[::1] data not None, int64_t num_rows):
    """What each physical column of a decompressed bucket is stored as; nothing is decoded."""
    cdef int64_t i, at = -1
    cdef View* views = <View*>malloc((nodes.num_nodes + 1) * sizeof(View))
    if views == NULL:
        raise MemoryError()
    try:
        view_monolithic(&data[0] if data.shape[0] else NULL, data.shape[0], nodes.nodes, nodes.num_columns,
                        nodes.num_nodes, num_rows, views, &at)
        return [_describe(&views[i]) for i in range(nodes.num_nodes)]
    except MosaicError as error:
        raise _blame(error, at)
    finally:
        free(views)


def describe_page(BucketNodes nodes not None, int64_t node, page, int64_t num_rows):
    """The same for one page; None stands for a column without a slot."""
    cdef View view
    cdef const uint8_t[::1] data
    if not 0 <= node < nodes.num_nodes:
        raise IndexError(f"physical column {node} of {nodes.num_nodes}")
    if page is None:
        view_all_null(&nodes.nodes[node], num_rows, &view)
    else:
        data = page
        view_page(&data[0] if data.shape[0] else NULL, data.shape[0], &nodes.nodes[node], num_rows, &view)
    return _describe(&view)
