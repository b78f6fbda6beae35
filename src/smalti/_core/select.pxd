"""Selecting rows of an encoded column: the result is an encoded column, so that other rows are never decoded.

The encoding stays the same. Values of fixed width, indices and null bits are picked by their index; strings have to be
stepped over. Lists and maps are selected with their elements.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from smalti._core.allowance cimport Purse, give_back, spend
from smalti._core.bits cimport bitmap_size, count_bits, get_bit, index_width, load_bits, pack_indices
from smalti._core.cursor cimport load_uv32
from smalti._core.decode cimport Scratch, load_lengths
from smalti._core.fault cimport NONE, corrupt, grow, zeroed
from smalti._core.physical cimport ALL_NULL, CONST, DICT, K_LEN, PLAIN, TypeNode, file_width
from smalti._core.view cimport View

# Memory of the views that were made; they point into it.
cdef struct Blocks:
    void** items
    int64_t size
    int64_t capacity
    Purse* purse            # what they may take; NULL: anything
    int64_t spent


cdef inline void free_blocks(Blocks* blocks) noexcept nogil:
    """Free all blocks; `blocks` can be used again afterwards."""
    cdef int64_t i
    cdef Purse* purse = blocks.purse
    for i in range(blocks.size):
        free(blocks.items[i])
    free(blocks.items)
    give_back(purse, blocks.spent)
    memset(blocks, 0, sizeof(Blocks))
    blocks.purse = purse


cdef inline void* _block(Blocks* blocks, int64_t size) except NULL nogil:
    """Allocate zeroed memory that lives until `free_blocks`."""
    if blocks.size == blocks.capacity:
        blocks.capacity = 2 * blocks.capacity + 8
        blocks.items = <void**>grow(blocks.items, blocks.capacity * sizeof(void*))
    spend(blocks.purse, size)
    blocks.spent += size
    blocks.items[blocks.size] = zeroed(size + 16)
    blocks.size += 1
    return blocks.items[blocks.size - 1]


cdef inline const uint64_t* _pick_nulls(
    View* view, const uint64_t* rows, int64_t n, View* made, Blocks* blocks
) except NULL nogil:
    """Pick the null bits of the selected rows; returns the ranks, among the stored values, of those not null."""
    cdef uint8_t* nulls = <uint8_t*>_block(blocks, bitmap_size(n))
    cdef uint64_t* ranks = <uint64_t*>_block(blocks, n * 8)
    cdef int64_t i, row, before = 0, seen = 0, kept = 0
    for i in range(n):
        row = <int64_t>rows[i]
        seen += count_bits(view.nulls, before, row - before)
        before = row
        if get_bit(view.nulls, row):
            nulls[i >> 3] |= <uint8_t>(1 << (i & 7))
        else:
            ranks[kept] = <uint64_t>(row - seen)
            kept += 1
    made.nulls = nulls
    made.non_null = kept
    made.has_nulls = kept < n
    return ranks


cdef inline int _pick_fixed(View* view, const uint64_t* ranks, View* made, Blocks* blocks) except -1 nogil:
    cdef int width = file_width(view.node.kind)
    cdef int64_t i
    cdef uint8_t* out = <uint8_t*>_block(blocks, made.non_null * width)
    made.data = out
    made.data_size = made.non_null * width
    if width == 8:
        for i in range(made.non_null):
            memcpy(out + 8 * i, view.data + 8 * ranks[i], 8)
    elif width == 4:
        for i in range(made.non_null):
            memcpy(out + 4 * i, view.data + 4 * ranks[i], 4)
    else:
        for i in range(made.non_null):
            memcpy(out + width * i, view.data + width * <int64_t>ranks[i], width)
    return 0


cdef inline const uint8_t* _skip_strings(const uint8_t* at, int64_t n, int64_t* total) noexcept nogil:
    """Step over `n` checked values with a varint before each; adds their bytes without the varints to `total`."""
    cdef int64_t i
    cdef uint32_t size
    for i in range(n):
        size = load_uv32(&at)
        at += size
        total[0] += size
    return at


cdef inline int _pick_strings(View* view, const uint64_t* ranks, View* made, Blocks* blocks) except -1 nogil:
    """Copy values with a varint before each; the first pass finds them and adds up their sizes, the second copies."""
    cdef int64_t i, ignored = 0
    cdef uint64_t rank = 0
    cdef const uint8_t* at = view.data
    cdef const uint8_t** ends = <const uint8_t**>_block(blocks, 2 * (made.non_null + 1) * sizeof(void*))
    cdef uint8_t* out
    made.string_bytes = made.data_size = 0
    for i in range(made.non_null):
        at = _skip_strings(at, ranks[i] - rank, &ignored)
        rank = ranks[i] + 1
        ends[2 * i] = at
        at = _skip_strings(at, 1, &made.string_bytes)
        ends[2 * i + 1] = at
        made.data_size += at - ends[2 * i]
    out = <uint8_t*>_block(blocks, made.data_size)
    made.data = out
    for i in range(made.non_null):
        memcpy(out, ends[2 * i], ends[2 * i + 1] - ends[2 * i])
        out += ends[2 * i + 1] - ends[2 * i]
    return 0


cdef inline int _pick_indices(View* view, const uint64_t* ranks, View* made, Blocks* blocks) except -1 nogil:
    cdef int width = index_width(view.entries)
    cdef int64_t i, at, left
    cdef uint64_t word, mask = ((<uint64_t>1) << width) - 1
    cdef uint32_t* indices = <uint32_t*>_block(blocks, made.non_null * 4)
    for i in range(made.non_null if width else 0):
        at = <int64_t>ranks[i] * width
        left = view.data_size - (at >> 3)
        word = 0
        memcpy(&word, view.data + (at >> 3), 8 if left > 8 else left)
        indices[i] = <uint32_t>(word >> (at & 7) & mask)
    made.data_size = (made.non_null * width + 7) >> 3
    made.data = <const uint8_t*>_block(blocks, made.data_size)
    pack_indices(<uint8_t*>made.data, indices, made.non_null, width)
    return 0


cdef inline int64_t _load_elements(
    View* views, View* view, Scratch* s, Blocks* blocks, uint32_t** lengths
) except -1 nogil:
    """Load the lengths of all lists or maps, whose sum must be the number of stored elements; returns their number.

    If all lists have one length, it is loaded once: a small file may have any number of such lists.
    """
    cdef const TypeNode* node = view.node
    cdef View loaded = view[0]
    cdef int64_t i, total = 0, elements = views[node.child[0]].rows
    cdef bint same = view.encoding == CONST or (view.encoding == DICT and view.entries == 1)
    if same and view.non_null:
        loaded.non_null = 1
    lengths[0] = <uint32_t*>_block(blocks, loaded.non_null * 4)
    load_lengths(&loaded, s, lengths[0])
    for i in range(loaded.non_null):
        if lengths[0][i] > elements - total:
            return corrupt(b"elements stored for an array or map differ from its lengths' sum", NONE, elements, NONE)
        total += lengths[0][i]
    if same and view.non_null:
        total *= view.non_null
    for i in range(node.n_children):
        if views[node.child[i]].rows != total:
            return corrupt(b"elements stored for an array or map differ from its lengths' sum", NONE,
                           views[node.child[i]].rows, total)
    return loaded.non_null


cdef inline int _select_elements(
    View* views, View* view, const uint64_t* ranks, View* made, View* out, Scratch* s, Blocks* blocks
) except -1 nogil:
    """Select the elements of the selected lists or maps, in all columns below them."""
    cdef uint32_t* lengths = NULL
    cdef int64_t i, k, rank = 0, start = 0, total = 0
    cdef bint same = _load_elements(views, view, s, blocks, &lengths) < view.non_null
    cdef uint64_t* rows
    for i in range(made.non_null):
        total += lengths[0 if same else ranks[i]]
    rows = <uint64_t*>_block(blocks, total * 8)
    total = 0
    for i in range(made.non_null):
        if same:
            start = <int64_t>ranks[i] * lengths[0]
        while not same and rank < <int64_t>ranks[i]:
            start += lengths[rank]
            rank += 1
        for k in range(lengths[0 if same else rank]):
            rows[total] = <uint64_t>(start + k)
            total += 1
    for i in range(view.node.n_children):
        select_rows(views, view.node.child[i], rows, total, out, s, blocks)
    return 0


cdef inline int select_rows(
    View* views, int64_t at, const uint64_t* rows, int64_t n, View* out, Scratch* s, Blocks* blocks
) except -1 nogil:
    """Select `n` rows, given in ascending order and checked, of a column and of those below it.

    The new views are written to the same indices of `out`. They point into `blocks` and into the old columns.
    """
    cdef View* view = &views[at]
    cdef View* made = &out[at]
    cdef const uint64_t* ranks = rows
    made[0] = view[0]
    made.rows = n
    made.non_null = 0 if view.encoding == ALL_NULL else n
    if view.has_nulls:
        ranks = _pick_nulls(view, rows, n, made, blocks)
    if view.encoding == PLAIN:
        if file_width(view.node.kind):
            _pick_fixed(view, ranks, made, blocks)
        else:
            _pick_strings(view, ranks, made, blocks)
    elif view.encoding == DICT:
        _pick_indices(view, ranks, made, blocks)
    if view.node.kind == K_LEN:
        _select_elements(views, view, ranks, made, out, s, blocks)
    return 0


# --- a range of rows ----------------------------------------------------------------------------------------------

cdef inline const uint8_t* _bits_from(const uint8_t* bits, int64_t first, int64_t n, Blocks* blocks) except NULL nogil:
    """Return `n` bits from bit `first` on: in place if they begin with a byte, else as a copy."""
    cdef uint8_t* out
    cdef int64_t i, count
    cdef uint64_t word
    if first & 7 == 0:
        return bits + (first >> 3)
    out = <uint8_t*>_block(blocks, bitmap_size(n))
    for i in range(0, n, 64):
        count = n - i if n - i < 64 else 64
        word = load_bits(bits, first + i, count)
        memcpy(out + (i >> 3), &word, bitmap_size(count))
    return out


cdef inline int select_range(
    View* views, int64_t at, int64_t first, int64_t n, View* out, Scratch* s, Blocks* blocks
) except -1 nogil:
    """As `select_rows`, for `n` rows from `first` on. Only bits that do not begin with a byte are copied."""
    cdef View* view = &views[at]
    cdef View* made = &out[at]
    cdef int64_t rank = first, nulls, i, start = 0, total = 0
    cdef int width
    cdef uint32_t* lengths = NULL
    made[0] = view[0]
    made.rows = n
    made.non_null = n
    if view.encoding == ALL_NULL:
        rank = made.non_null = 0
    if view.has_nulls:
        rank = first - count_bits(view.nulls, 0, first)
        nulls = count_bits(view.nulls, first, n)
        made.non_null = n - nulls
        made.has_nulls = nulls > 0
        made.nulls = _bits_from(view.nulls, first, n, blocks)
    if view.encoding == PLAIN:
        width = file_width(view.node.kind)
        if width:
            made.data = view.data + rank * width
            made.data_size = made.non_null * width
        else:
            made.data = _skip_strings(view.data, rank, &made.string_bytes)
            made.string_bytes = 0
            made.data_size = _skip_strings(made.data, made.non_null, &made.string_bytes) - made.data
    elif view.encoding == DICT:
        width = index_width(view.entries)
        made.data_size = (made.non_null * width + 7) >> 3
        made.data = _bits_from(view.data, rank * width, made.non_null * width, blocks)
    if view.node.kind == K_LEN:
        if _load_elements(views, view, s, blocks, &lengths) < view.non_null:
            start = rank * lengths[0]
            total = made.non_null * lengths[0]
        else:
            for i in range(rank):
                start += lengths[i]
            for i in range(rank, rank + made.non_null):
                total += lengths[i]
        for i in range(view.node.n_children):
            select_range(views, view.node.child[i], start, total, out, s, blocks)
    return 0
