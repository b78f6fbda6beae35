"""Arrow arrays of unknown origin, checked before a byte of their values is taken.

Owns the proof that the feeds and Arrow's own functions rely on: lengths fit each other, offsets never decrease and end
inside the elements, views and dictionary indices point at something, and the bitmap has as many nulls as the array says.
Arrow itself compares the ends with the sizes of the buffers, which the C interface does not tell (`smalti.logical.intake`
asks it to); everything between the ends is checked here. Only the rows that are asked for are looked at, so that slices
of one large array together cost no more than the array.
"""

from libc.stdint cimport (
    INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t,
)
from libc.stdlib cimport atoll
from libc.string cimport memcpy, memset

from smalti._core.arrow_c cimport ArrowArray, ArrowSchema
from smalti._core.bits cimport count_bits, get_bit
from smalti._core.fault cimport NONE
from smalti._core.input cimport InputBatch

ctypedef fused offset_t:
    int32_t
    int64_t

ctypedef fused index_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef enum:
    MAX_DEPTH = 64          # deeper than any type that is stored: a schema may come from anywhere
    INLINE_TEXT = 12        # bytes of a text that a view holds itself


# More rows than any array has: not even their bits could be in memory.
cdef int64_t MAX_ROWS = <int64_t>1 << 47


# What is wrong; `reason` is NULL while nothing is.
cdef struct Problem:
    const char* reason
    const ArrowSchema* field
    int64_t row             # of the column; of nested arrays the row that holds the element
    int64_t found
    int64_t expected
    bint misaligned         # the only problem is where a buffer lies in memory: a copy would do


cdef class Extents:
    """The arrays that batches of one schema must consist of.

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
        """None if the batch, which is of this schema, may be read; else what is wrong with it.

        Returns (column, name of a nested field or None, reason, row, found, expected). Numbers that are not known are
        None. The reason is None if the only problem is an address that is not aligned, which a copy mends.
        """
        cdef Problem problem
        cdef int64_t i
        cdef bint good = True
        memset(&problem, 0, sizeof(Problem))
        problem.row = NONE
        if batch.array.n_children != self.c_schema.n_children:
            raise ValueError(f"{batch.array.n_children} columns, {self.c_schema.n_children} in the schema")
        with nogil:
            for i in range(batch.array.n_children):
                good = _check(batch.array.children[i], self.c_schema.children[i], batch.array.offset, batch.num_rows,
                              0, &problem)
                if not good:
                    break
        if good:
            return None
        nested = None if problem.field == self.c_schema.children[i] else problem.field.name.decode(errors="replace")
        numbers = [None if n == NONE else n for n in (problem.row, problem.found, problem.expected)]
        return i, nested, None if problem.misaligned else problem.reason.decode(), *numbers


def is_flat(InputBatch batch not None):
    """Whether all columns have values of fixed width, of which Arrow's own check of the buffers' sizes tells all.

    Most wide tables do, and exporting the schema of 10,000 columns would cost more than all checks.
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


cdef bint _wrong(
    Problem* problem, const ArrowSchema* field, const char* reason, int64_t row, int64_t found, int64_t expected
) noexcept nogil:
    problem.reason = reason
    problem.field = field
    problem.row = row
    problem.found = found
    problem.expected = expected
    return False


cdef bint _check(
    const ArrowArray* array, const ArrowSchema* field, int64_t first, int64_t rows, int depth, Problem* problem
) noexcept nogil:
    """Whether rows `first` to `first + rows` of an array may be read, with everything below them."""
    cdef char kind = field.format[0]
    cdef char second = field.format[1] if kind else 0
    cdef int64_t at, buffers = 2, children = 0
    if array == NULL or depth > MAX_DEPTH:
        return _wrong(problem, field, b"array is missing or nested too deep", NONE, depth, MAX_DEPTH)
    if array.length < 0 or array.offset < 0 or first < 0 or array.offset > MAX_ROWS or array.length > MAX_ROWS:
        return _wrong(problem, field, b"length or offset of an array is impossible", NONE, array.length, array.offset)
    if rows > array.length - first:
        return _wrong(problem, field, b"array is shorter than what refers to it", NONE, array.length, first + rows)
    if kind == c"n":
        return True
    if kind == c"+":
        buffers = 1 if second == c"s" or second == c"w" else 3 if second == c"v" else 2
        children = field.n_children
        if second not in (c"l", c"L", c"v", c"w", c"s", c"m") or (second != c"s" and children != 1):
            return True     # of a type that is not stored, and refused for that
    elif kind in (c"u", c"z", c"U", c"Z", c"v"):
        buffers = 3
    if array.n_buffers < buffers or array.n_children != children:
        return _wrong(problem, field, b"array lacks buffers or children of its type", NONE, array.n_buffers, buffers)
    if rows == 0:       # The buffers of an empty array may be missing; its dictionary is kept all the same.
        if field.dictionary == NULL or array.dictionary == NULL:
            return True
        if _check(array.dictionary, field.dictionary, 0, array.dictionary.length, depth + 1, problem):
            return True
        problem.row = NONE
        return False
    if not _check_validity(array, field, first, rows, problem):
        return False
    at = array.offset + first
    if field.dictionary != NULL:
        return _check_indices(array, field, at, rows, depth, problem)
    if kind == c"+" and second == c"s":
        for buffers in range(children):
            if not _check(array.children[buffers], field.children[buffers], at, rows, depth + 1, problem):
                return False
        return True
    if kind == c"+" and second == c"w":
        return _check_fixed_lists(array, field, at, rows, depth, problem)
    if kind == c"w" and atoll(field.format + 2) == 0:
        return True
    if array.buffers[1] == NULL:
        return _wrong(problem, field, b"array has rows but no values", NONE, NONE, NONE)
    if kind == c"v":
        return _check_views(array, field, at, rows, problem)
    if kind == c"u" or kind == c"z":
        return _check_offsets[int32_t](array, NULL, field, at, rows, depth, problem)
    if kind == c"U" or kind == c"Z":
        return _check_offsets[int64_t](array, NULL, field, at, rows, depth, problem)
    if kind == c"+":
        if second == c"v" and field.format[2] == c"L":
            return _check_list_views[int64_t](array, array.children[0], field, at, rows, depth, problem)
        if second == c"v":
            return _check_list_views[int32_t](array, array.children[0], field, at, rows, depth, problem)
        if second == c"L":
            return _check_offsets[int64_t](array, array.children[0], field, at, rows, depth, problem)
        return _check_offsets[int32_t](array, array.children[0], field, at, rows, depth, problem)
    return True


cdef bint _check_aligned(const void* address, int size, const ArrowSchema* field, Problem* problem) noexcept nogil:
    if <uintptr_t>address & (size - 1):
        problem.misaligned = True
        return _wrong(problem, field, b"buffer is not aligned", NONE, NONE, NONE)
    return True


cdef bint _check_validity(
    const ArrowArray* array, const ArrowSchema* field, int64_t first, int64_t rows, Problem* problem
) noexcept nogil:
    """The number of nulls is compared where it speaks of exactly these rows."""
    cdef const uint8_t* valid = <const uint8_t*>array.buffers[0]
    cdef int64_t nulls
    if array.null_count < -1 or array.null_count > array.length:
        return _wrong(problem, field, b"number of nulls is impossible", NONE, array.null_count, array.length)
    if first != 0 or rows != array.length or array.null_count < 0:
        return True
    nulls = rows - count_bits(valid, array.offset, rows) if valid != NULL else 0
    if nulls != array.null_count:
        return _wrong(problem, field, b"number of nulls differs from the validity bitmap", NONE, array.null_count, nulls)
    return True


cdef inline bint _is_null(const ArrowArray* array, int64_t at) noexcept nogil:
    return array.null_count != 0 and array.buffers[0] != NULL and not get_bit(<const uint8_t*>array.buffers[0], at)


# --- offsets ------------------------------------------------------------------------------------------------------

cdef inline bint _any_decrease(const offset_t* offsets, int64_t rows) noexcept nogil:
    """Whether an offset is negative or smaller than the one before it.

    There is no exit inside the loop and no branch, so that the compiler looks at several offsets at a time.
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


cdef bint _check_offsets(
    const ArrowArray* array, const ArrowArray* elements, const ArrowSchema* field, int64_t at, int64_t rows, int depth,
    Problem* problem, offset_t* _ = NULL,
) noexcept nogil:
    """Offsets of texts, or of lists and maps with their elements; the slot of the first row is `at`."""
    cdef const offset_t* offsets = <const offset_t*>array.buffers[1] + at
    cdef int64_t row
    if not _check_aligned(offsets, sizeof(offset_t), field, problem):
        return False
    if _any_decrease(offsets, rows):
        for row in range(rows):
            if offsets[row] < 0:
                return _wrong(problem, field, b"offset is negative", row, offsets[row], 0)
            if offsets[row + 1] < offsets[row]:
                return _wrong(problem, field, b"offset is smaller than the one before it", row, offsets[row + 1],
                              offsets[row])
    if field.n_children == 0:
        if array.buffers[2] == NULL and offsets[rows] != offsets[0]:
            return _wrong(problem, field, b"array has texts but no bytes", NONE, NONE, NONE)
        return True
    if field.format[1] == c"m" and not _check_entries(elements, field, offsets[0], offsets[rows], problem):
        return False
    if _check(elements, field.children[0], offsets[0], offsets[rows] - offsets[0], depth + 1, problem):
        return True
    if problem.row >= 0:
        problem.row += offsets[0]
        for row in range(rows):
            if problem.row < offsets[row + 1]:
                problem.row = row
                break
    return False


cdef bint _check_entries(
    const ArrowArray* entries, const ArrowSchema* field, int64_t first, int64_t end, Problem* problem
) noexcept nogil:
    """A map's entries are pairs, and none of them is null."""
    if entries == NULL or field.children[0].n_children != 2 or entries.n_buffers < 1:
        return _wrong(problem, field, b"array lacks buffers or children of its type", NONE, NONE, NONE)
    if end > first and entries.null_count != 0 and entries.buffers[0] != NULL and end <= entries.length:
        if count_bits(<const uint8_t*>entries.buffers[0], entries.offset + first, end - first) != end - first:
            return _wrong(problem, field, b"an entry of a map is null", NONE, NONE, NONE)
    return True


cdef bint _check_list_views(
    const ArrowArray* array, const ArrowArray* elements, const ArrowSchema* field, int64_t at, int64_t rows, int depth,
    Problem* problem, offset_t* _ = NULL,
) noexcept nogil:
    """Lists whose offsets and sizes are told apart: each must lie inside the elements, also under a null."""
    cdef const offset_t* offsets = <const offset_t*>array.buffers[1] + at
    cdef const offset_t* sizes = <const offset_t*>array.buffers[2] + at
    cdef int64_t row, low = INT64_MAX, high = 0
    if array.buffers[2] == NULL or elements == NULL:
        return _wrong(problem, field, b"array has rows but no values", NONE, NONE, NONE)
    if not _check_aligned(offsets, sizeof(offset_t), field, problem):
        return False
    if not _check_aligned(sizes, sizeof(offset_t), field, problem):
        return False
    for row in range(rows):
        if offsets[row] < 0 or sizes[row] < 0 or sizes[row] > elements.length - offsets[row]:
            return _wrong(problem, field, b"list lies outside the elements (offset, number of elements)", row,
                          offsets[row], elements.length)
        if sizes[row]:
            low = min(low, <int64_t>offsets[row])
            high = max(high, <int64_t>offsets[row] + sizes[row])
    if high == 0 or _check(elements, field.children[0], low, high - low, depth + 1, problem):
        return True
    problem.row = NONE      # lists may overlap, so that the element belongs to no row in particular
    return False


cdef bint _check_fixed_lists(
    const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows, int depth, Problem* problem
) noexcept nogil:
    cdef int64_t size = atoll(field.format + 3)
    if size < 0 or (size and at + rows > INT64_MAX // size):
        return _wrong(problem, field, b"lists are too long", NONE, size, NONE)
    if _check(array.children[0], field.children[0], at * size, rows * size, depth + 1, problem):
        return True
    if problem.row >= 0:
        problem.row //= size
    return False


# --- views and dictionaries ---------------------------------------------------------------------------------------

cdef bint _check_views(
    const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows, Problem* problem
) noexcept nogil:
    """Texts as views: of longer ones, a buffer's number and a place in it. The last buffer holds their sizes."""
    cdef const uint8_t* views = <const uint8_t*>array.buffers[1]
    cdef const uint8_t* sizes = <const uint8_t*>array.buffers[array.n_buffers - 1]
    cdef int64_t row, size, buffers = array.n_buffers - 3
    cdef int32_t view[4]
    for row in range(rows):
        memcpy(view, views + 16 * (at + row), 16)
        if 0 <= view[0] <= INLINE_TEXT:
            continue
        if _is_null(array, at + row):
            continue
        if view[0] < 0:
            return _wrong(problem, field, b"size of a text is negative", row, view[0], 0)
        if view[2] < 0 or view[2] >= buffers or sizes == NULL:
            return _wrong(problem, field, b"text lies in a buffer that is not there", row, view[2], buffers)
        memcpy(&size, sizes + 8 * <int64_t>view[2], 8)
        if view[3] < 0 or <int64_t>view[3] + view[0] > size or array.buffers[2 + view[2]] == NULL:
            return _wrong(problem, field, b"text ends behind its buffer (end, size)", row,
                          <int64_t>view[3] + view[0], size)
    return True


cdef inline index_t _largest(const index_t* indices, int64_t rows) noexcept nogil:
    cdef index_t top = 0
    cdef int64_t i
    for i in range(rows):
        top = indices[i] if indices[i] > top else top
    return top


cdef bint _check_each_index(
    const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows, Problem* problem, const index_t* indices
) noexcept nogil:
    """Signed indices are read as unsigned, so that a negative one is too large as well."""
    cdef int64_t row
    cdef uint64_t entries = array.dictionary.length
    if not _check_aligned(indices, sizeof(index_t), field, problem):
        return False
    if _largest(indices + at, rows) < entries:
        return True
    for row in range(rows):
        if indices[at + row] >= entries and not _is_null(array, at + row):
            return _wrong(problem, field, b"index has no entry in the dictionary (index, entries)", row,
                          <int64_t>indices[at + row], entries)
    return True


cdef bint _check_indices(
    const ArrowArray* array, const ArrowSchema* field, int64_t at, int64_t rows, int depth, Problem* problem
) noexcept nogil:
    cdef char width = field.format[0] | 32      # c s i l, or C S I L of unsigned ones
    if array.dictionary == NULL or array.buffers[1] == NULL:
        return _wrong(problem, field, b"array has rows but no dictionary or no indices", NONE, NONE, NONE)
    if not _check(array.dictionary, field.dictionary, 0, array.dictionary.length, depth + 1, problem):
        problem.row = NONE
        return False
    if width == c"c":
        return _check_each_index(array, field, at, rows, problem, <const uint8_t*>array.buffers[1])
    if width == c"s":
        return _check_each_index(array, field, at, rows, problem, <const uint16_t*>array.buffers[1])
    if width == c"i":
        return _check_each_index(array, field, at, rows, problem, <const uint32_t*>array.buffers[1])
    if width == c"l":
        return _check_each_index(array, field, at, rows, problem, <const uint64_t*>array.buffers[1])
    return _wrong(problem, field, b"indices are not integers", NONE, NONE, NONE)
