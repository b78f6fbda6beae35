"""Decoding views of encoded columns into Arrow arrays.

Every column is decoded densely (non-null values only, as stored) and then spread over its rows. Arrays have buffers of
their own, which are not changed once they are handed out.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from smalti._core.allowance cimport give_back, spend
from smalti._core.arrow_c cimport ArrowArray, drop_zeros, new_array, new_child, new_zeros, share_zeros
from smalti._core.bits cimport (
    Pair, bitmap_size, copy_inverted, expand_nulls, index_width, integer, unpack_indices, word,
)
from smalti._core.cursor cimport load_uv32
from smalti._core.dictionary cimport (
    Dictionary, RUN, Run, SEED, after_values, find, is_number, load_fixed, load_texts,
)
from smalti._core.fault cimport NONE, corrupt, grow, unsupported, zeroed
from smalti._core.feed cimport Dense
from smalti._core.physical cimport (
    ALL_NULL, CONST, DICT, K_BOOL, K_LEN, K_VAR, PLAIN, T_MAP, TypeNode, arrow_width, is_float, is_string,
)
from smalti._core.tracker cimport Tracker, missing_bytes, reserve_entries, track, tracker_free, tracker_start
from smalti._core.utf8 cimport valid_strings, valid_utf8
from smalti._core.values cimport load_values
from smalti._core.view cimport View

cdef enum:
    MAX_INT32 = 2147483647
    SLACK = 16      # short copies may write this far past their end

cdef void free_scratch(Scratch* s) noexcept nogil:
    free(s.indices)
    free(s.entries)
    free(s.bytes)
    free(s.run)
    tracker_free(&s.tracker)
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


cdef int _all_null(View* view, ArrowArray* out, int n_buffers, int width, Scratch* s) except -1 nogil:
    """Make an array of nulls. Its validity, offsets and values are zeros that all columns of a bucket share."""
    cdef int64_t size = (view.rows + 1) * width
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
    """Decode booleans, a byte each in the scratch, then pack eight of them into each byte of the buffer."""
    cdef int64_t i, k, packed = bitmap_size(view.rows)
    cdef uint8_t* bits = _begin(view, out, 2, packed + 8, s)
    cdef uint8_t* values
    out.buffers[1] = bits
    _reserve(&s.bytes, &s.bytes_size, 8 * packed + 8, s)
    values = s.bytes
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
    return _check_strings(view, out)


cdef int _check_strings(View* view, const ArrowArray* out) except -1 nogil:
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


# --- indices of dictionaries --------------------------------------------------------------------------------------

cdef int _not_a_value() except -1 nogil:
    return corrupt(b"a value is missing from the dictionary in the companion", NONE, NONE, NONE)


cdef int _check_entry(View* view, const Dense* entries, int64_t i) except -1 nogil:
    """Check an entry that is not a value of the dictionary, and so that no row may have, like any other."""
    if is_string(view.node) and not valid_utf8(entries.texts[i], entries.sizes[i]):
        return corrupt(b"dictionary entry is not UTF-8", NONE, i, NONE)
    return 0


cdef int _start_run(Scratch* s) except -1 nogil:
    if s.run == NULL:
        spend(s.purse, sizeof(Run))
        s.spent += sizeof(Run)
        s.run = <Run*>grow(NULL, sizeof(Run))
    return _reserve(&s.entries, &s.entries_size, RUN * 16 + 16, s)


cdef int64_t _load_run(View* view, const uint8_t** at, int64_t left, Scratch* s, Dense* out) except -1 nogil:
    """Load the next serialised values, at most RUN; returns how many."""
    cdef int64_t n = left if left < RUN else RUN
    out.keys, out.texts, out.sizes = &s.run.keys[0], &s.run.texts[0], &s.run.sizes[0]
    if view.node.kind == K_VAR:
        load_texts(at, n, out)
    else:
        load_values(view.node, at[0], n, s.entries)
        at[0] = after_values(view.node, at[0], n)
        load_fixed(s.entries, n, arrow_width(view.node.kind), is_float(view.node), out)
    return n


cdef int _look_up(View* view, const Tracker* values, Scratch* s, integer* out) except -1 nogil:
    """The indices of the values of a PLAIN column, or of the value of a CONST column."""
    cdef const uint8_t* at = view.data if view.encoding == PLAIN else view.value
    cdef int64_t i = 0, k, n, count = view.non_null if view.encoding == PLAIN else 1
    cdef Dense run
    while i < count:
        n = _load_run(view, &at, count - i, s, &run)
        find(values, &run, n, not is_number(view.node), &s.run.found[0])
        for k in range(n):
            if s.run.found[k] == 0:
                return _not_a_value()
            out[i + k] = <integer>(s.run.found[k] - 1)
        i += n
    return 0


cdef int _map_entries(View* view, const Tracker* values, Scratch* s) except -1 nogil:
    """For each entry of a DICT column the number of the value that it is, from 1 on, in the scratch; 0 for none."""
    cdef const uint8_t* at = view.value
    cdef int64_t i = 0, k, n
    cdef Dense run
    _reserve(<uint8_t**>&s.indices, &s.indices_size, view.entries * 4 + 4, s)
    while i < view.entries:
        n = _load_run(view, &at, view.entries - i, s, &run)
        find(values, &run, n, not is_number(view.node), s.indices + i)
        for k in range(n):
            if s.indices[i + k] == 0:
                _check_entry(view, &run, k)
        i += n
    return 0


cdef int _unpack_mapped(View* view, const uint32_t* numbers, Scratch* s, integer* out) except -1 nogil:
    """Unpack the indices of a DICT column; with `numbers`, those of the values that its entries are."""
    cdef int bits = index_width(view.entries)
    cdef int64_t i = 0, k, n, offset
    cdef uint32_t top, number
    cdef uint32_t* run = &s.run.found[0]
    while i < view.non_null:
        n = view.non_null - i if view.non_null - i < RUN else RUN
        offset = i * bits >> 3      # RUN is a multiple of 8
        top = unpack_indices(run, view.data + offset, view.data_size - offset, n, bits)
        if top >= view.entries:
            return corrupt(b"dictionary index out of range", NONE, top, view.entries - 1)
        if numbers == NULL:
            for k in range(n):
                out[i + k] = <integer>run[k]
        else:
            top = 1
            for k in range(n):
                number = numbers[run[k]]
                top = 0 if number == 0 else top
                out[i + k] = <integer>(number - 1)
            if top == 0:
                return _not_a_value()
        i += n
    return 0


cdef int _collect(View* view, const Dictionary* d, Scratch* s, integer* out) except -1 nogil:
    """Enter the strings of a PLAIN column into the tracker, in order of appearance; `out` becomes their indices."""
    cdef Tracker* t = &s.tracker
    cdef const uint8_t* at = view.data
    cdef int64_t i = 0, k, n, size = 0
    cdef Dense run
    t.seed = SEED
    if t.slots == NULL:
        size = 1024 * sizeof(uint32_t) + 2 * RUN * sizeof(uint32_t)     # of slots and of indices
    tracker_start(t, d.most + 1, INT64_MAX, 0, INT64_MAX)
    while i < view.non_null:
        n = _load_run(view, &at, view.non_null - i, s, &run)
        size += missing_bytes(t, n)
        spend(s.purse, size)
        s.spent += size
        size = 0
        reserve_entries(t, n)
        t.n_indices = 0
        track(t, &run, n, K_VAR)
        if not t.alive:
            return corrupt(b"more values than the index type of a dictionary can count", NONE, t.entries, d.most)
        for k in range(n):
            out[i + k] = <integer>t.indices[k]
        i += n
    return 0


cdef int _collected(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    """The strings in the tracker as an array."""
    cdef const Tracker* t = &s.tracker
    cdef View values = view[0]
    cdef int32_t* offsets
    cdef uint8_t* to
    cdef int64_t i, total = 0
    for i in range(t.entries):
        total += t.values.sizes[i]
    values.rows = values.non_null = t.entries
    values.has_nulls = False
    offsets = _begin_strings(&values, out, total, s)
    to = <uint8_t*>out.buffers[2]
    for i in range(t.entries):
        offsets[i + 1] = <int32_t>t.values.sizes[i]
        memcpy(to, t.values.texts[i], t.values.sizes[i])
        to += t.values.sizes[i]
    _sum_offsets(&values, offsets)
    return _check_strings(&values, out)


cdef int _own_dictionary(View* view, ArrowArray* out, Scratch* s) except -1 nogil:
    """The entries of a DICT column of strings, the value of a CONST, or none, as an array."""
    cdef View values = view[0]
    values.has_nulls = False
    values.encoding = PLAIN
    values.rows = values.non_null = view.entries if view.encoding == DICT else view.encoding == CONST
    values.data = view.value
    values.data_size = view.value_size
    return _decode_strings(&values, out, s)


cdef int _fill_indices(View* view, const Dictionary* d, ArrowArray* out, Scratch* s, integer* to) except -1 nogil:
    cdef int64_t i
    _start_run(s)
    if d.values == NULL:
        out.dictionary = <ArrowArray*>zeroed(sizeof(ArrowArray))
        if view.encoding == PLAIN:
            _collect(view, d, s, to)
            _collected(view, out.dictionary, s)
        else:
            _own_dictionary(view, out.dictionary, s)
            if view.entries - 1 > d.most:
                return corrupt(b"more values than the index type of a dictionary can count", NONE, view.entries, d.most)
            if view.encoding == DICT:
                _unpack_mapped(view, NULL, s, to)
            else:
                memset(to, 0, view.non_null * sizeof(integer))
    elif view.encoding == DICT:
        _map_entries(view, d.values, s)
        _unpack_mapped(view, s.indices, s, to)
    elif view.non_null:
        _look_up(view, d.values, s, to)
        if view.encoding == CONST:
            for i in range(1, view.non_null):
                to[i] = to[0]
    if view.has_nulls:
        expand_nulls(to, view.rows, view.non_null, view.nulls)
    return 0


cdef int _decode_indices(View* view, const Dictionary* d, ArrowArray* out, Scratch* s) except -1 nogil:
    """Decode a column without children as indices of a dictionary."""
    cdef uint8_t* values
    if view.encoding == ALL_NULL:
        _all_null(view, out, 2, d.width, s)
        if d.values == NULL:
            out.dictionary = <ArrowArray*>zeroed(sizeof(ArrowArray))
            _own_dictionary(view, out.dictionary, s)
        return 0
    values = _begin(view, out, 2, (view.rows + 1) * d.width, s)
    out.buffers[1] = values
    if d.width == 1:
        return _fill_indices(view, d, out, s, values)
    if d.width == 2:
        return _fill_indices(view, d, out, s, <uint16_t*>values)
    if d.width == 4:
        return _fill_indices(view, d, out, s, <uint32_t*>values)
    return _fill_indices(view, d, out, s, <uint64_t*>values)


# --- columns ------------------------------------------------------------------------------------------------------

cdef int decode_column(
    View* views, int64_t at, ArrowArray* out, Scratch* s, const Dictionary** dictionaries
) except -1 nogil:
    """Decode a physical column and its children. After an error the caller releases `out`, which may be incomplete.

    Columns for which `dictionaries` has one, by their numbers, become indices; it may be NULL.
    """
    cdef View* view = &views[at]
    cdef const TypeNode* node = view.node
    cdef ArrowArray* parent = out
    cdef int64_t elements = 0
    cdef int i
    if view.non_null < view.rows and not node.nullable:
        return corrupt(b"nulls in a column that is NOT NULL", NONE, view.rows - view.non_null, 0)
    if dictionaries != NULL and dictionaries[at] != NULL:
        _decode_indices(view, dictionaries[at], out, s)
    elif view.encoding == ALL_NULL:
        _all_null(view, out, 3 if node.kind == K_VAR else 2, arrow_width(node.kind), s)
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
        decode_column(views, node.child[i], new_child(parent, i), s, dictionaries)
    return 0
