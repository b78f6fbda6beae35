"""Encoded columns of buckets put together anew: as pages, or as one block, without decoding a value."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from smalti._core.batch cimport BucketViews
from smalti._core.bits cimport bitmap_size
from smalti._core.cursor cimport put_uv32, uv32_size
from smalti._core.fault cimport grow
from smalti._core.physical cimport ALL_NULL, CONST, DICT
from smalti._core.view cimport View


cdef View* _viewed(BucketViews views, int64_t node) except NULL:
    """The view of a physical column, which must be there."""
    if not 0 <= node < views.nodes.num_physical:
        raise IndexError(f"physical column {node} of {views.nodes.num_physical}")
    if views.views[node].node == NULL:
        raise KeyError(f"no page for physical column {node}")
    return &views.views[node]


cdef int64_t _meta_size(const View* view) noexcept nogil:
    """Bytes of the CONST value, or of the DICT entries with their number."""
    return view.value_size + (uv32_size(<uint32_t>view.entries) if view.encoding == DICT else 0)


cdef int64_t _nulls_size(const View* view) noexcept nogil:
    return bitmap_size(view.rows) if view.has_nulls else 0


cdef uint8_t* _put(uint8_t* out, const uint8_t* data, int64_t size) noexcept nogil:
    if size:
        memcpy(out, data, size)
    return out + size


cdef uint8_t* _put_meta(uint8_t* out, const View* view) noexcept nogil:
    if view.encoding == DICT:
        out = put_uv32(out, <uint32_t>view.entries)
    return _put(out, view.value, view.value_size)


def cut_pages(BucketViews views not None, int64_t first, int64_t count):
    """The pages (section 8) of consecutive physical columns, None for a column that is ALL_NULL."""
    cdef list pages = []
    cdef View* view
    cdef uint8_t* out
    cdef int64_t node
    for node in range(first, first + count):
        view = _viewed(views, node)
        if view.encoding == ALL_NULL:
            pages.append(None)
            continue
        page = PyBytes_FromStringAndSize(NULL, 2 + _meta_size(view) + _nulls_size(view) + view.data_size)
        out = <uint8_t*>PyBytes_AS_STRING(page)
        out[0] = <uint8_t>view.encoding
        out[1] = <uint8_t>view.has_nulls
        out = _put_meta(out + 2, view)
        out = _put(out, view.nulls, _nulls_size(view))
        _put(out, view.data, view.data_size)
        pages.append(page)
    return pages


def row_counts(BucketViews views not None, int64_t first, int64_t count):
    """The rows of consecutive physical columns: those of the row group, or the elements of an array or map."""
    return [_viewed(views, node).rows for node in range(first, first + count)]


def join_block(list runs not None, int64_t num_columns):
    """A monolithic bucket (section 7) of physical columns, given as runs: (views, first, number) in their order.

    The first `num_columns` of them are columns, and the others are below arrays and maps.
    """
    cdef int64_t i, n = 0, node, count, size = 0
    cdef int encoding
    cdef const View** views = NULL
    cdef uint8_t* out
    cdef uint8_t* flags
    cdef bytearray block
    cdef uint8_t* start
    cdef BucketViews bucket
    for _, _, count in runs:
        n += count
    if n < num_columns:
        raise ValueError(f"{n} physical columns for {num_columns} columns")
    try:
        views = <const View**>grow(NULL, (n + 1) * sizeof(View*))
        i = 0
        for bucket, node, count in runs:
            for node in range(node, node + count):
                views[i] = _viewed(bucket, node)
                size += _meta_size(views[i]) + _nulls_size(views[i]) + views[i].data_size
                i += 1
        size += (2 * n + 7) // 8 + (n + 7) // 8 + (10 + 5 * (n - num_columns) if n > num_columns else 0)
        block = bytearray(size)
        start = out = <uint8_t*><char*>block
        if n > num_columns:
            out = put_uv32(out, <uint32_t>num_columns)
            out = put_uv32(out, <uint32_t>(n - num_columns))
            for i in range(num_columns, n):
                out = put_uv32(out, <uint32_t>views[i].rows)
        with nogil:
            flags = out
            out += (2 * n + 7) >> 3
            for i in range(n):
                flags[i >> 2] |= <uint8_t>(views[i].encoding << (2 * (i & 3)))
                out[i >> 3] |= <uint8_t>(views[i].has_nulls << (i & 7))
            out += (n + 7) >> 3
            for encoding in range(CONST, DICT + 1):     # all constants, then all dictionaries
                for i in range(n):
                    if views[i].encoding == encoding:
                        out = _put_meta(out, views[i])
            for i in range(n):
                out = _put(out, views[i].nulls, _nulls_size(views[i]))
            for i in range(n):
                out = _put(out, views[i].data, views[i].data_size)
        return memoryview(block)[:out - start]
    finally:
        free(views)
