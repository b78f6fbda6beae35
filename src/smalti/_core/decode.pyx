"""Decoding views of encoded columns into Arrow arrays.

Every column is decoded densely (non-null values only, as stored) and then spread over its rows. Arrays have buffers of
their own, which are not changed once they are handed out.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from smalti._core.allowance cimport give_back, spend
from smalti._core.arrow_c cimport ArrowArray, drop_zeros, new_array, new_child, new_zeros, share_zeros
from smalti._core.bits cimport Pair, bitmap_size, copy_inverted, expand_nulls, index_width, unpack_indices, word
from smalti._core.cursor cimport load_uv32
from smalti._core.fault cimport NONE, corrupt, grow, unsupported
from smalti._core.physical cimport (
    ALL_NULL, CONST, DICT, K_BOOL, K_LEN, K_VAR, PLAIN, T_MAP, TypeNode, arrow_width, is_string,
)
from smalti._core.utf8 cimport valid_strings, valid_utf8
from smalti._core.values cimport load_values
from smalti._core.view cimport View

cdef enum:
    MAX_INT32 = 2147483647
    SLACK = 16      # short copies may write this far past their end

cdef void free_scratch(Scratch* s) noexcept nogil:
    free(s.indices)
    free(s.entries)
    if s.zeros != NULL:
        drop_zeros(s.zeros)
    give_back(s.purse, s.spent)


cdef int _reserve(uint8_t** block, int64_t* have, int64_t size, Scratch* s) except -1 nogil:
    if size > have[0]:
        spend(s.purse, size - have[0])
        s.spent += size - have[0]
        block[0] = <uint8_t*>grow(block[0], size)
        have[0] = size
    return 0


cdef int64_t _round64(int64_t n) noexcept nogil:
    return (n + 63) & ~<int64_t>63


# --- dense values -------------------------------------------------------------------------------------------------

cdef int _unpack(View* view, Scratch* s) except -1 nogil:
    """Unpack the indices of a DICT column into scratch, and check that all of them are inside the dictionary."""
    cdef uint32_t top
    _reserve(<uint8_t**>&s.indices, &s.indices_size, view.non_null * 4 + 4, s)
    top = unpack_indices(s.indices, view.data, view.data_size, view.non_null, index_width(view.entries))
    if view.non_null and top >= view.entries:
        return corrupt(b"dictionary index out of range", NONE, top, view.entries - 1)
    return 0


cdef int _dense(View* view, Scratch* s, word* out) except -1 nogil:
    """Decode the non-null values of a column of fixed width."""
    cdef int64_t i, n = view.non_null
    cdef const uint32_t* indices
    cdef const word* entries
    cdef word value
    if view.encoding == PLAIN:
        return load_values(view.node, view.data, n, <uint8_t*>out)
    if view.encoding == CONST:
        if n:
            load_values(view.node, view.value, 1, <uint8_t*>out)
            value = out[0]
            for i in range(1, n):
                out[i] = value
        return 0
    _reserve(&s.entries, &s.entries_size, view.entries * sizeof(word) + 16, s)
    load_values(view.node, view.value, view.entries, s.entries)
    _unpack(view, s)
    entries = <const word*>s.entries
    indices = s.indices
    for i in range(n):
        out[i] = entries[indices[i]]
    return 0


cdef int _spread(View* view, Scratch* s, word* out) except -1 nogil:
    """Decode the values of all rows of a column of fixed width, with zeros under the nulls."""
    _dense(view, s, out)
    if view.has_nulls:
        expand_nulls(out, view.rows, view.non_null, view.nulls)
    return 0


# --- arrays -------------------------------------------------------------------------------------------------------

cdef uint8_t* _begin(View* view, ArrowArray* out, int n_buffers, int64_t payload, Scratch* s) except NULL nogil:
    """Allocate an array that is not ALL_NULL and fill its validity bitmap; returns the memory of its other buffers."""
    cdef int64_t validity = _round64(bitmap_size(view.rows)) if view.has_nulls else 0
    cdef uint8_t* at
    spend(s.purse, validity + payload)
    at = new_array(out, validity + payload)
    out.length = view.rows
    out.n_buffers = n_buffers
    if view.has_nulls:
        copy_inverted(at, view.nulls, view.rows)
        out.buffers[0] = at
        out.null_count = view.rows - view.non_null
    return at + validity


cdef int _all_null(View* view, ArrowArray* out, int n_buffers, Scratch* s) except -1 nogil:
    """Make an array of nulls. Its validity, offsets and values are zeros that all columns of a bucket share."""
    cdef int64_t size = (view.rows + 1) * arrow_width(view.node.kind)
    cdef int i
    new_array(out, 0)
    out.length = out.null_count = view.rows
    out.n_buffers = n_buffers
    if s.zeros != NULL and s.zeros.size < size:
        drop_zeros(s.zeros)
        s.zeros = NULL
    if s.zeros == NULL:
        spend(s.purse, size)
        s.zeros = new_zeros(size)
    share_zeros(out, s.zeros)
    for i in range(n_buffers):
        out.buffers[i] = s.zeros.data
    return 0


cdef int _decode_bits(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    """Decode booleans, a byte each behind the buffer, then pack eight of them into each byte of the buffer."""
    cdef int64_t i, k, packed = bitmap_size(view.rows)
    cdef uint8_t* bits = _begin(view, out, 2, packed + 8 + 8 * packed, s)
    cdef uint8_t* values = bits + packed + 8
    out.buffers[1] = bits
    _spread(view, s, values)
    memset(values + view.rows, 0, 8 * packed - view.rows)
    for i in range(packed):
        bits[i] = 0
        for k in range(8):
            bits[i] |= values[8 * i + k] << k
    return 0


cdef int _decode_fixed(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    cdef int width = arrow_width(view.node.kind)
    cdef uint8_t* values = _begin(view, out, 2, (view.rows + 1) * width, s)
    out.buffers[1] = values
    if width == 1:
        return _spread(view, s, values)
    if width == 2:
        return _spread(view, s, <uint16_t*>values)
    if width == 4:
        return _spread(view, s, <uint32_t*>values)
    if width == 8:
        return _spread(view, s, <uint64_t*>values)
    return _spread(view, s, <Pair*>values)


cdef inline void _copy_string(uint8_t* out, const uint8_t* string, uint32_t size, const uint8_t* end) noexcept nogil:
    """Copy a string; a short one in one step of fixed size if its source has as many bytes (`out` has SLACK)."""
    if size <= 16 and end - string >= 16:
        memcpy(out, string, 16)
    else:
        memcpy(out, string, size)


cdef int32_t* _begin_strings(View* view, ArrowArray* out, int64_t total, Scratch* s) except NULL nogil:
    """Allocate an array of strings of `total` bytes; returns the memory of their offsets."""
    cdef int64_t head = _round64((view.rows + 1) * 4)
    cdef uint8_t* at
    if total > MAX_INT32:
        unsupported(b"column of a row group holds more bytes than one Arrow array can", total, MAX_INT32)
    at = _begin(view, out, 3, head + total + SLACK, s)
    out.buffers[1] = at
    out.buffers[2] = at + head
    return <int32_t*>at


cdef int _sum_offsets(View* view, int32_t* offsets) noexcept nogil:
    """Turn the dense sizes in offsets[1:] into offsets of all rows."""
    cdef int64_t row
    offsets[0] = 0
    if view.has_nulls:
        expand_nulls(<uint32_t*>(offsets + 1), view.rows, view.non_null, view.nulls)
    for row in range(view.rows):
        offsets[row + 1] += offsets[row]
    return 0


cdef int _decode_plain_strings(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    cdef int64_t i
    cdef int32_t* offsets = _begin_strings(view, out, view.string_bytes, s)
    cdef uint8_t* to = <uint8_t*>out.buffers[2]
    cdef uint32_t size
    cdef const uint8_t* at = view.data
    cdef const uint8_t* end = at + view.data_size
    for i in range(view.non_null):
        size = load_uv32(&at)
        offsets[i + 1] = <int32_t>size
        _copy_string(to, at, size, end)
        to += size
        at += size
    return _sum_offsets(view, offsets)


cdef int _decode_const_strings(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    cdef int64_t i
    cdef const uint8_t* string = view.value
    cdef uint32_t size = load_uv32(&string)
    cdef int32_t* offsets = _begin_strings(view, out, <int64_t>size * view.non_null, s)
    cdef uint8_t* to = <uint8_t*>out.buffers[2]
    for i in range(view.non_null):
        offsets[i + 1] = <int32_t>size
        memcpy(to, string, size)
        to += size
    return _sum_offsets(view, offsets)


cdef int _decode_dict_strings(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    cdef int64_t i, total = 0
    cdef int32_t* offsets
    cdef uint8_t* to
    cdef const uint8_t* at = view.value
    cdef const uint8_t* end = at + view.value_size
    cdef const uint8_t** strings
    cdef uint32_t* sizes
    cdef uint32_t index
    _reserve(&s.entries, &s.entries_size, view.entries * 12 + 16, s)
    strings = <const uint8_t**>s.entries
    sizes = <uint32_t*>(s.entries + view.entries * 8)
    for i in range(view.entries):
        sizes[i] = load_uv32(&at)
        strings[i] = at
        if is_string(view.node) and not valid_utf8(at, sizes[i]):
            return corrupt(b"dictionary entry is not UTF-8", NONE, i, NONE)
        at += sizes[i]
    _unpack(view, s)
    for i in range(view.non_null):
        total += sizes[s.indices[i]]
    offsets = _begin_strings(view, out, total, s)
    to = <uint8_t*>out.buffers[2]
    for i in range(view.non_null):
        index = s.indices[i]
        offsets[i + 1] = <int32_t>sizes[index]
        _copy_string(to, strings[index], sizes[index], end)
        to += sizes[index]
    return _sum_offsets(view, offsets)


cdef int _decode_strings(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    if view.encoding == DICT:
        return _decode_dict_strings(view, out, s)
    if view.encoding == CONST:
        _decode_const_strings(view, out, s)
    else:
        _decode_plain_strings(view, out, s)
    if is_string(view.node) and not valid_strings(
        <const uint8_t*>out.buffers[2], <const int32_t*>out.buffers[1], view.rows
    ):
        return corrupt(b"string is not UTF-8", NONE, NONE, NONE)
    return 0


cdef int load_lengths(View* view, Scratch* s, uint32_t* out) except -1 nogil:
    """Decode the lengths of all lists or maps that are not null."""
    return _dense(view, s, out)


cdef int _decode_lengths(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    """Decode the offsets of a list or map; offsets[rows] is the number of elements."""
    cdef int64_t i, total = 0
    cdef int32_t* offsets = <int32_t*>_begin(view, out, 2, (view.rows + 1) * 4, s)
    out.buffers[1] = offsets
    _dense(view, s, <uint32_t*>(offsets + 1))
    for i in range(view.non_null):
        if offsets[i + 1] < 0:
            return corrupt(b"length of an array or map is negative", NONE, offsets[i + 1], 0)
        total += offsets[i + 1]
    if total > MAX_INT32:
        return corrupt(b"arrays hold more elements than one Arrow array can", NONE, total, MAX_INT32)
    return _sum_offsets(view, offsets)


cdef int decode_column(View* views, int64_t at, ArrowArray* out, Scratch* s) except -1 nogil:
    """Decode a physical column and its children. After an error the caller releases `out`, which may be incomplete."""
    cdef View* view = &views[at]
    cdef const TypeNode* node = view.node
    cdef ArrowArray* parent = out
    cdef int64_t elements = 0
    cdef int i
    if view.non_null < view.rows and not node.nullable:
        return corrupt(b"nulls in a column that is NOT NULL", NONE, view.rows - view.non_null, 0)
    if view.encoding == ALL_NULL:
        _all_null(view, out, 3 if node.kind == K_VAR else 2, s)
    elif node.kind == K_VAR:
        _decode_strings(view, out, s)
    elif node.kind == K_LEN:
        _decode_lengths(view, out, s)
        elements = (<const int32_t*>out.buffers[1])[view.rows]
    elif node.kind == K_BOOL:
        _decode_bits(view, out, s)
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
        decode_column(views, node.child[i], new_child(parent, i), s)
    return 0
