"""The read path of a bucket: find its columns in the bytes (`view`), then describe them, or decode them into a batch
(`select`, `decode`)."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memset

from smalti._core.allowance cimport Allowance, Purse
from smalti._core.arrow_c cimport ArrowArray, release_array
from smalti._core.bits cimport bitmap_size
from smalti._core.cursor cimport uv32_size
from smalti._core.decode cimport Scratch, decode_column, free_scratch
from smalti._core.dictionary cimport Dictionary, DictionaryValues
from smalti._core.fault cimport grow, zeroed
from smalti._core.physical cimport DICT, PhysicalColumns, TypeNode
from smalti._core.select cimport Blocks, free_blocks, select_range, select_rows
from smalti._core.view cimport View, view_all_null, view_first, view_monolithic, view_page

from smalti.errors import MosaicError


cdef void _release_batch(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        release_array(array.children[i])
        free(array.children[i])
    free(array.children)
    free(array.buffers)
    array.release = NULL


cdef class BucketViews:
    """Where the pieces of each physical column of a bucket are; made by `view_block` and `view_pages`."""

    def __dealloc__(self):
        free(self.views)

    def describe(self):
        """For each physical column (encoding, has nulls, dictionary entries, values, bytes of its pieces)."""
        cdef View* view
        cdef int64_t i, size
        cdef list described = []
        for i in range(self.nodes.num_physical):
            view = &self.views[i]
            size = view.value_size + view.data_size
            if view.encoding == DICT:
                size += uv32_size(<uint32_t>view.entries)
            if view.has_nulls:
                size += bitmap_size(view.rows)
            described.append((view.encoding, bool(view.has_nulls), view.entries, view.rows, size))
        return described


cdef BucketViews _new_views(PhysicalColumns nodes, data):
    cdef BucketViews out = BucketViews.__new__(BucketViews)
    out.nodes = nodes
    out._data = data
    out.views = <View*>zeroed((nodes.num_physical + 1) * sizeof(View))
    return out


def view_block(PhysicalColumns nodes not None, const uint8_t[::1] data not None, int64_t num_rows):
    """The columns of a monolithic bucket of `num_rows` rows, of which `data` is the uncompressed block."""
    cdef BucketViews out = _new_views(nodes, data)
    cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
    cdef int64_t size = data.shape[0], at = -1
    try:
        with nogil:
            view_monolithic(start, size, nodes.nodes, nodes.num_columns, nodes.num_physical, num_rows, out.views, &at)
    except MosaicError as error:
        raise _blame(error, at)
    return out


def view_beginning(PhysicalColumns nodes not None, const uint8_t[::1] data not None, int64_t num_rows, int64_t first):
    """The `first` of `num_rows` rows of a monolithic bucket of one column, of which `data` is a beginning.

    Raise CorruptFileError if `data` does not have all of these rows.
    """
    cdef BucketViews out = _new_views(nodes, data)
    if nodes.num_physical != 1 or not 0 <= first <= num_rows:
        raise ValueError(f"{first} of {num_rows} rows of {nodes.num_physical} columns")
    with nogil:
        view_first(&data[0] if data.shape[0] else NULL, data.shape[0], nodes.nodes, num_rows, first, out.views)
    return out


def view_pages(PhysicalColumns nodes not None, dict pages not None, list num_rows not None):
    """Columns of a paged bucket.

    `pages` maps physical columns to their uncompressed pages, or to None for ALL_NULL. It must have the columns that
    are decoded later and all below them, and to be described, all. `num_rows` has the rows of every physical column.
    """
    cdef BucketViews out = _new_views(nodes, pages)
    cdef const uint8_t[::1] page
    cdef int64_t i = -1
    try:
        for key, stored in pages.items():
            i = key
            if not 0 <= i < nodes.num_physical:
                raise IndexError(f"physical column {i} of {nodes.num_physical}")
            if stored is None:
                view_all_null(&nodes.nodes[i], num_rows[i], &out.views[i])
            else:
                page = stored
                view_page(&page[0] if page.shape[0] else NULL, page.shape[0], &nodes.nodes[i], num_rows[i],
                          &out.views[i])
    except MosaicError as error:
        raise _blame(error, i)
    return out


cdef class Batch:
    """An Arrow batch of one row group in the making; each column is decoded once, by any thread.

    Parameters
    ----------
    num_columns, num_rows : int
    allowance : Allowance, optional
        Counts the bytes of the arrays, and those that decoding takes besides.
    """

    cdef ArrowArray array
    cdef Allowance _allowance
    cdef Purse* purse
    cdef readonly int64_t num_columns
    cdef readonly int64_t num_rows

    def __cinit__(self, int64_t num_columns, int64_t num_rows, Allowance allowance=None):
        cdef int64_t i
        self._allowance = allowance
        self.purse = &allowance.purse if allowance is not None else NULL
        self.num_columns = num_columns
        self.num_rows = num_rows
        self.array.length = num_rows
        self.array.n_buffers = 1
        self.array.release = _release_batch
        self.array.buffers = <const void**>zeroed(sizeof(void*))
        self.array.children = <ArrowArray**>zeroed((num_columns + 1) * sizeof(ArrowArray*))
        for i in range(num_columns):
            self.array.children[i] = <ArrowArray*>zeroed(sizeof(ArrowArray))
            self.array.n_children += 1

    def __dealloc__(self):
        release_array(&self.array)

    def address(self):
        """The address of the ArrowArray, for one import, which takes its contents over."""
        return <uintptr_t>&self.array

    def decode(
        self,
        BucketViews bucket not None,
        list columns not None,
        list targets not None,
        const uint64_t[::1] rows=None,
        int64_t first=-1,
        list dictionaries=None,
    ):
        """Decode columns, given as indices into the bucket, into the columns of the batch with the indices `targets`.

        `rows` selects rows of the bucket, in ascending order; `first` selects as many rows as the batch has from that
        row on; otherwise all rows are decoded. `dictionaries` has pairs of a physical column and the DictionaryValues
        of which it is decoded as indices.
        """
        cdef int64_t i, n = len(columns), at = -1, selected = 0
        cdef int64_t* wanted = NULL
        cdef int64_t* into = NULL
        cdef const uint64_t* selection = NULL
        cdef View* views = bucket.views
        cdef Blocks blocks
        cdef Scratch s
        cdef const Dictionary** among = NULL
        memset(&s, 0, sizeof(Scratch))
        memset(&blocks, 0, sizeof(Blocks))
        s.purse = blocks.purse = self.purse
        try:
            if dictionaries:
                among = <const Dictionary**>zeroed(bucket.nodes.num_physical * sizeof(Dictionary*))
                for node, values in dictionaries:
                    i = node
                    if not 0 <= i < bucket.nodes.num_physical or bucket.nodes.nodes[i].n_children:
                        raise IndexError(f"no values in physical column {i} of {bucket.nodes.num_physical}")
                    among[i] = &(<DictionaryValues?>values).dictionary
            wanted = _numbers(columns, bucket.nodes.num_columns)
            into = _numbers(targets, self.num_columns)
            for i in range(n):
                _check_viewed(bucket.views, bucket.nodes.nodes, wanted[i])
            if rows is not None:
                selected = rows.shape[0]
                selection = &rows[0] if selected else NULL
                if selected != self.num_rows:
                    raise ValueError(f"{selected} rows for a batch of {self.num_rows}")
                _check_ascending(selection, selected, bucket.views, wanted, n)
            elif first >= 0:
                for i in range(n):
                    if self.num_rows > bucket.views[wanted[i]].rows - first:
                        raise IndexError(f"rows {first} to {first + self.num_rows} of {bucket.views[wanted[i]].rows}")
            if rows is not None or first >= 0:
                views = <View*>zeroed((bucket.nodes.num_physical + 1) * sizeof(View))
            with nogil:
                for i in range(n):
                    at = wanted[i]
                    if selected == 0 and first >= 0:
                        select_range(bucket.views, at, first, self.num_rows, views, &s, &blocks)
                    elif views != bucket.views:
                        select_rows(bucket.views, at, selection, selected, views, &s, &blocks)
                    decode_column(views, at, self.array.children[into[i]], &s, among)
                    free_blocks(&blocks)        # the array has copies
        except MosaicError as error:
            raise _blame(error, at)
        finally:
            free_scratch(&s)
            free_blocks(&blocks)
            if views != bucket.views:
                free(views)
            free(wanted)
            free(into)
            free(among)


cdef int _check_ascending(
    const uint64_t* rows, int64_t n, const View* views, const int64_t* columns, int64_t n_columns
) except -1:
    """Refuse rows that are out of order, or that a column does not have."""
    cdef int64_t i
    for i in range(1, n):
        if rows[i] <= rows[i - 1]:
            raise ValueError("rows are not in ascending order")
    for i in range(n_columns if n else 0):
        if rows[n - 1] >= <uint64_t>views[columns[i]].rows:
            raise IndexError(f"row {rows[n - 1]} of {views[columns[i]].rows}")
    return 0


cdef int _check_viewed(View* views, const TypeNode* nodes, int64_t at) except -1:
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
    cdef int64_t* out = <int64_t*>grow(NULL, (n + 1) * sizeof(int64_t))
    for i in range(n):
        out[i] = values[i]
        if not 0 <= out[i] < limit:
            free(out)
            raise IndexError(f"column {values[i]} of {limit}")
    return out
