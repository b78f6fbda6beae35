"""Arrow arrays of unknown origin, checked before a byte of their values is read.

The feeds and Arrow's own functions rely on these checks: lengths fit each other, offsets never decrease and end inside
the elements, views and dictionary indices refer to existing bytes and entries, and the validity bitmap has as many
nulls as the array declares. Arrow itself has compared the first and last offsets with the sizes of the buffers, which
the C interface does not tell (see `smalti.file.inspection`). Only the rows of the batch are checked, not all rows of
the arrays that it is a slice of. This is why Arrow's full validation is not used: it checks all elements of a list
again for each slice.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport atoll
from libc.string cimport memcpy

from smalti._core.arrow_c cimport ArrowArray, ArrowSchema
from smalti._core.bits cimport count_bits, get_bit, integer
from smalti._core.input cimport InputBatch

ctypedef fused offset_t:
    int32_t
    int64_t

cdef enum:
    MAX_DEPTH = 64          # deeper than any type that is stored: a schema may come from anywhere
    INLINE_SIZE = 12        # largest string that a view holds itself

cdef enum Verdict:
    SOUND
    MISALIGNED              # the array may be read once it is copied to aligned buffers
    IMPOSSIBLE              # a length or offset that no array can have: Arrow must not look at it either
    MISCOUNTED              # the number of nulls is not that of the validity bitmap
    UNSOUND

#: More rows than any array has: not even their bits could be in memory.
cdef int64_t MAX_ROWS = <int64_t>1 << 47


cdef class Extents:
    """Checks the arrays of batches of one schema.

    Parameters
    ----------
    schema : pyarrow.Schema

    Attributes
    ----------
    schema : pyarrow.Schema
    """

    cdef ArrowSchema c_schema
    cdef readonly object schema

    def __cinit__(self, schema not None):
        schema._export_to_c(<uintptr_t>&self.c_schema)
        self.schema = schema

    def __dealloc__(self):
        if self.c_schema.release != NULL:
            self.c_schema.release(&self.c_schema)

    def problem(self, InputBatch batch not None):
        """Return None if the batch, which is of this schema, may be read, else (column, verdict) of its first problem.

        The verdict is "misaligned" (a copy of the batch may be read), "impossible" (not even Arrow may look at the
        array), "miscounted" (nulls) or "unsound".
        """
        cdef int64_t i
        cdef Verdict verdict = SOUND
        if batch.array.n_children != self.c_schema.n_children:
            raise ValueError(f"{batch.array.n_children} columns, {self.c_schema.n_children} in the schema")
        with nogil:
            for i in range(batch.array.n_children):
                verdict = _check(batch.array.children[i], self.c_schema.children[i], batch.array.offset,
                                 batch.num_rows, 0)
                if verdict:
                    break
        return (i, ("misaligned", "impossible", "miscounted", "unsound")[<int>verdict - 1]) if verdict else None


def is_flat(InputBatch batch not None):
    """Whether all columns have values of fixed width and no nulls, so that Arrow's check of buffer sizes is enough.

    Most wide tables have such columns, and exporting the schema of 10,000 columns would cost more than all checks.
    """
    cdef int64_t i
    cdef const ArrowArray* array
    for i in range(batch.array.n_children):
        array = batch.array.children[i]
        if array.n_buffers > 2 or array.n_children or array.dictionary != NULL or array.null_count > 0:
            return False
        if not 0 <= array.offset <= MAX_ROWS or array.length < 0:
            return False
    return True


cdef Verdict _check(
    const ArrowArray* array, const ArrowSchema* field, int64_t first, int64_t rows, int depth
) noexcept nogil:
    """Check rows `first` to `first + rows` of an array, and the children and dictionary entries they refer to."""
    cdef char kind = field.format[0]
    cdef char second = field.format[1] if kind else 0
    cdef int64_t i, at, buffers = 2, children = 0
    cdef Verdict verdict
    if array == NULL or depth > MAX_DEPTH:
        return UNSOUND
    if array.length < 0 or array.offset < 0 or first < 0 or array.offset > MAX_ROWS or array.length > MAX_ROWS:
        return IMPOSSIBLE
    if rows > array.length - first:
        return UNSOUND
    if kind == c"n":
        return SOUND
    if kind == c"+":
        buffers = 1 if second == c"s" or second == c"w" else 3 if second == c"v" else 2
        children = field.n_children
        if second not in (c"l", c"L", c"v", c"w", c"s", c"m") or (second != c"s" and children != 1):
            return SOUND    # a type that is not stored, and is refused for that
    elif kind in (c"u", c"z", c"U", c"Z", c"v"):
        buffers = 3
    if array.n_buffers < buffers or array.n_children != children:
        return UNSOUND
    if field.dictionary != NULL and array.dictionary != NULL:
        verdict = _check(array.dictionary, field.dictionary, 0, array.dictionary.length, depth + 1)
        if verdict:
            return verdict
    if rows == 0:       # The buffers of an empty array may be missing.
        return SOUND
    if not _is_validity_sound(array, first, rows):
        return MISCOUNTED
    at = array.offset + first
    if kind == c"+" and second == c"s":
        for i in range(children):
            verdict = _check(array.children[i], field.children[i], at, rows, depth + 1)
            if verdict:
                return verdict
        return SOUND
    if kind == c"+" and second == c"w":
        i = atoll(field.format + 3)     # length of each list
        if i < 0 or (i and at + rows > INT64_MAX // i):
            return UNSOUND
        return _check(array.children[0], field.children[0], at * i, rows * i, depth + 1)
    if kind == c"w" and atoll(field.format + 2) == 0:
        return SOUND
    if array.buffers[1] == NULL:
        return UNSOUND
    if field.dictionary != NULL:
        return _check_indices(array, field, at, rows)
    if kind == c"v":
        return _check_views(array, at, rows)
    if kind == c"+" and second == c"v":
        if field.format[2] == c"L":
            return _check_list_views[int64_t](array, field, at, rows, depth)
        return _check_list_views[int32_t](array, field, at, rows, depth)
    if kind == c"U" or kind == c"Z" or (kind == c"+" and second == c"L"):
        return _check_offsets[int64_t](array, field, at, rows, depth)
    if kind == c"u" or kind == c"z" or kind == c"+":
        return _check_offsets[int32_t](array, field, at, rows, depth)
    return SOUND


cdef bint _is_validity_sound(const ArrowArray* array, int64_t first, int64_t rows) noexcept nogil:
    """Compare the number of nulls with the validity bitmap, if these rows are all that the number counts."""
    cdef const uint8_t* valid = <const uint8_t*>array.buffers[0]
    if array.null_count < -1 or array.null_count > array.length:
        return False
    if first != 0 or rows != array.length or array.null_count < 0:
        return True
    return array.null_count == (rows - count_bits(valid, array.offset, rows) if valid != NULL else 0)


cdef inline bint _is_null(const ArrowArray* array, int64_t at) noexcept nogil:
    return array.null_count != 0 and array.buffers[0] != NULL and not get_bit(<const uint8_t*>array.buffers[0], at)


cdef inline bint _decreases(const offset_t* offsets, int64_t rows) noexcept nogil:
    """Whether an offset is negative or smaller than the one before it.

    The loop has no exit and no branch, so that the compiler can compare several offsets at a time.
    """
    cdef uint32_t narrow
    cdef uint64_t wide
    cdef int64_t i
    if offset_t is int32_t:
        narrow = <uint32_t>offsets[0]
        for i in range(rows):
            narrow |= <uint32_t>offsets[i + 1] | (<uint32_t>offsets[i + 1] - <uint32_t>offsets[i])
        return narrow >> 31
    else:
        wide = <uint64_t>offsets[0]
        for i in range(rows):
            wide |= <uint64_t>offsets[i + 1] | (<uint64_t>offsets[i + 1] - <uint64_t>offsets[i])
        return wide >> 63


cdef Verdict _check_offsets(
    const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows, int depth, offset_t* _ = NULL
) noexcept nogil:
    """Check the offsets of strings, lists or maps, and the elements; `at` is the index of the first row's offset."""
    cdef const offset_t* offsets = <const offset_t*>array.buffers[1] + at
    if <uintptr_t>offsets & (sizeof(offset_t) - 1):
        return MISALIGNED
    if _decreases(offsets, rows):
        return UNSOUND
    if field.n_children == 0:
        return UNSOUND if array.buffers[2] == NULL and offsets[rows] != offsets[0] else SOUND
    if field.format[1] == c"m" and not _are_entries_sound(array.children[0], field, offsets[0], offsets[rows]):
        return UNSOUND
    return _check(array.children[0], field.children[0], offsets[0], offsets[rows] - offsets[0], depth + 1)


cdef bint _are_entries_sound(
    const ArrowArray* entries, const ArrowSchema* field, int64_t first, int64_t end
) noexcept nogil:
    """Whether the entries of a map are pairs, and none of them is null."""
    if entries == NULL or field.children[0].n_children != 2 or entries.n_buffers < 1:
        return False
    if end == first or entries.null_count == 0 or entries.buffers[0] == NULL or end > entries.length:
        return True
    return count_bits(<const uint8_t*>entries.buffers[0], entries.offset + first, end - first) == end - first


cdef Verdict _check_list_views(
    const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows, int depth, offset_t* _ = NULL
) noexcept nogil:
    """Check lists that have an offset and a size each: every list must lie inside the elements, also under a null."""
    cdef const offset_t* offsets = <const offset_t*>array.buffers[1] + at
    cdef const offset_t* sizes = <const offset_t*>array.buffers[2] + at
    cdef const ArrowArray* elements = array.children[0]
    cdef int64_t row, low = INT64_MAX, high = 0
    if array.buffers[2] == NULL or elements == NULL:
        return UNSOUND
    if (<uintptr_t>offsets | <uintptr_t>sizes) & (sizeof(offset_t) - 1):
        return MISALIGNED
    for row in range(rows):
        if offsets[row] < 0 or sizes[row] < 0 or sizes[row] > elements.length - offsets[row]:
            return UNSOUND
        if sizes[row]:
            low = min(low, <int64_t>offsets[row])
            high = max(high, <int64_t>offsets[row] + sizes[row])
    return _check(elements, field.children[0], low, high - low, depth + 1) if high else SOUND


cdef Verdict _check_views(const ArrowArray* array, int64_t at, int64_t rows) noexcept nogil:
    """Check strings as views: a long one has a buffer's number and an offset. The last buffer has the sizes."""
    cdef const uint8_t* views = <const uint8_t*>array.buffers[1]
    cdef const uint8_t* sizes = <const uint8_t*>array.buffers[array.n_buffers - 1]
    cdef int64_t row, size
    cdef int32_t view[4]
    for row in range(at, at + rows):
        memcpy(view, views + 16 * row, 16)
        if 0 <= view[0] <= INLINE_SIZE or _is_null(array, row):
            continue
        if view[0] < 0 or view[2] < 0 or view[2] >= array.n_buffers - 3 or sizes == NULL:
            return UNSOUND
        memcpy(&size, sizes + 8 * <int64_t>view[2], 8)
        if view[3] < 0 or <int64_t>view[3] + view[0] > size or array.buffers[2 + view[2]] == NULL:
            return UNSOUND
    return SOUND


cdef Verdict _check_each_index(
    const ArrowArray* array, int64_t at, int64_t rows, const integer* indices
) noexcept nogil:
    """Check indices of one width; signed ones are read as unsigned, so that a negative index is too large as well."""
    cdef integer top = 0
    cdef int64_t row
    if <uintptr_t>indices & (sizeof(integer) - 1):
        return MISALIGNED
    for row in range(at, at + rows):
        top = indices[row] if indices[row] > top else top
    if top < <uint64_t>array.dictionary.length:
        return SOUND
    for row in range(at, at + rows):
        if indices[row] >= <uint64_t>array.dictionary.length and not _is_null(array, row):
            return UNSOUND
    return SOUND


cdef Verdict _check_indices(const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows) noexcept nogil:
    cdef char width = field.format[0] | 32      # c s i l, or C S I L of unsigned ones
    if array.dictionary == NULL:
        return UNSOUND
    if width == c"c":
        return _check_each_index(array, at, rows, <const uint8_t*>array.buffers[1])
    if width == c"s":
        return _check_each_index(array, at, rows, <const uint16_t*>array.buffers[1])
    if width == c"i":
        return _check_each_index(array, at, rows, <const uint32_t*>array.buffers[1])
    return _check_each_index(array, at, rows, <const uint64_t*>array.buffers[1]) if width == c"l" else UNSOUND
