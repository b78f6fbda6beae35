"""The batch in which the columns of a row group gather on their way to Arrow, and the same walk for `layout`."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from smalti._core.arrow_c cimport ArrowArray, release_array
from smalti._core.bits cimport bitmap_size
from smalti._core.cursor cimport uv32_size
from smalti._core.decode cimport Scratch, decode_column, free_scratch
from smalti._core.nodes cimport DICT, BucketNodes, Node
from smalti._core.view cimport View, view_all_null, view_monolithic, view_page

from smalti.errors import MosaicError


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
        self, View* views, int64_t n, int64_t* columns, int64_t* places, int64_t* column
    ) except -1 nogil:
        cdef Scratch s
        cdef int64_t i
        memset(&s, 0, sizeof(Scratch))
        try:
            for i in range(n):
                column[0] = columns[i]
                decode_column(views, columns[i], self.array.children[places[i]], &s)
        finally:
            free_scratch(&s)
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
                self._decode_columns(views, n, wanted, into, &at)
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
                self._decode_columns(views, n, wanted, into, &at)
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
        size += uv32_size(<uint32_t>view.entries)
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
