"""Feeds of values to encoded columns (section 5), and those to buckets (sections 7 and 8) ready for compression."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from smalti._core.bits cimport bitmap_size, index_width, pack_indices
from smalti._core.cursor cimport put_uv32, uv32_size
from smalti._core.fault cimport no_memory
from smalti._core.feed cimport Dense, Feed, SEGMENT, next_dense, put_null_bits, rewind
from smalti._core.input cimport Feeds, plain_size
from smalti._core.minmax cimport MinMax, minmax_add, minmax_put, minmax_start
from smalti._core.nodes cimport (
    ALL_NULL, BucketNodes, CONST, DICT, K_DECV, K_TS9, K_VAR, MAX_UNBACKED_ROWS, PLAIN, file_width,
)
from smalti._core.tracker cimport Tracker, track_keys, track_texts, tracker_free, tracker_start
from smalti._core.values cimport put_keys, put_texts


cpdef int choose_encoding(
    int64_t non_null, bint constant, bint tracked, int64_t entries, int64_t entry_bytes, int64_t plain_bytes
) noexcept nogil:
    """Section 5: ALL_NULL, else CONST, else DICT where that is strictly smaller, else PLAIN.

    Parameters
    ----------
    non_null : int
        Values that are not null.
    constant : bool
        Whether they are all the same.
    tracked : bool
        Whether the distinct values stayed within the limits of a dictionary.
    entries, entry_bytes : int
        How many those are, and their serialised size.
    plain_bytes : int
        Serialised size of all values.
    """
    if non_null == 0:
        return ALL_NULL
    if constant:
        return CONST
    if tracked and entries >= 2:
        if uv32_size(<uint32_t>entries) + entry_bytes + (non_null * index_width(entries) + 7) // 8 < plain_bytes:
            return DICT
    return PLAIN


cpdef bint choose_paged(int64_t counted_bytes, int64_t counted_pages, int64_t threshold) noexcept nogil:
    """Section 8: paged when the pages that count are `threshold` bytes or more on average."""
    return counted_pages > 0 and counted_bytes // counted_pages >= threshold


# --- where encoded columns gather ---------------------------------------------------------------------------------

cdef struct Arena:
    uint8_t* data
    int64_t size
    int64_t capacity

cdef struct Piece:
    int encoding
    bint has_nulls
    int64_t meta_at         # CONST value, or DICT count and entries
    int64_t meta_size
    int64_t nulls_at
    int64_t nulls_size
    int64_t data_at
    int64_t data_size


cdef uint8_t* _room(Arena* arena, int64_t size) except NULL nogil:
    """Room for `size` more bytes; what is written there is kept by adding to arena.size."""
    cdef void* grown
    cdef int64_t capacity
    if arena.size + size + 16 > arena.capacity:
        capacity = arena.capacity + arena.capacity // 2
        if capacity < arena.size + size + 16:
            capacity = arena.size + size + 16
        grown = realloc(arena.data, capacity)
        if grown == NULL:
            no_memory(capacity)
            return NULL
        arena.data = <uint8_t*>grown
        arena.capacity = capacity
    return arena.data + arena.size


# --- one column ---------------------------------------------------------------------------------------------------

cdef struct Worker:
    Dense dense
    Tracker tracker
    Arena arena
    int64_t max_entries
    int64_t max_bytes


cdef bint _all_equal(const Worker* w, bint texts, int64_t n, uint64_t key, const uint8_t* text, uint32_t size) noexcept nogil:
    cdef int64_t i
    if texts:
        for i in range(n):
            if w.dense.sizes[i] != size or memcmp(w.dense.texts[i], text, size) != 0:
                return False
    else:
        for i in range(n):
            if w.dense.keys[i] != key:
                return False
    return True


cdef int _track(Worker* w, Feed* feed, bint texts, int64_t n) except -1 nogil:
    if texts:
        return track_texts(&w.tracker, w.dense.texts, w.dense.sizes, n, feed.node.kind == K_DECV)
    return track_keys(&w.tracker, w.dense.keys, n, file_width(feed.node.kind))


cdef int _track_repeats(Worker* w, Feed* feed, bint texts, int64_t n, uint64_t key, const uint8_t* text, uint32_t size) except -1 nogil:
    """The segments before the first difference held one value, n times: enter it without looking again."""
    cdef int64_t i, step
    while n > 0:
        step = n if n < SEGMENT else SEGMENT
        if texts:
            for i in range(step):
                w.dense.texts[i] = text
                w.dense.sizes[i] = size
        else:
            for i in range(step):
                w.dense.keys[i] = key
        _track(w, feed, texts, step)
        n -= step
    return 0


cdef int _encode_column(Worker* w, Feed* feed, Piece* piece, MinMax* bounds, bint is_child) except -1 nogil:
    cdef bint texts = feed.node.kind == K_VAR or feed.node.kind == K_DECV
    cdef int64_t non_null = feed.rows - feed.nulls
    cdef int64_t plain = plain_size(feed)
    cdef int64_t n, same = 0, seen = 0, loaded = -1
    cdef uint64_t key = 0
    cdef const uint8_t* text = NULL
    cdef uint32_t size = 0
    cdef bint constant = True
    cdef uint8_t* out
    # A byte budget holds for what varies in size, and for 12-byte timestamps (section 5).
    tracker_start(&w.tracker, w.max_entries, w.max_bytes if texts or feed.node.kind == K_TS9 else INT64_MAX,
                  non_null, plain)
    rewind(feed)
    while non_null and (constant or w.tracker.alive or bounds != NULL):
        n = next_dense(feed, &w.dense)
        if n < 0:
            break
        loaded = n
        if n == 0:
            continue
        if bounds != NULL:
            minmax_add(bounds, feed.node, &w.dense, n)
        if seen == 0:
            if texts:
                text = w.dense.texts[0]
                size = w.dense.sizes[0]
            else:
                key = w.dense.keys[0]
        seen += n
        if constant:
            constant = _all_equal(w, texts, n, key, text, size)
            if constant:
                same = seen
                continue
            if same:
                _track_repeats(w, feed, texts, same, key, text, size)
                # That overwrote the scratch, so load this segment again.
                rewind(feed)
                _skip_to(feed, w, seen)
        if w.tracker.alive:
            _track(w, feed, texts, n)
    piece.encoding = choose_encoding(non_null, constant, w.tracker.alive, w.tracker.entries, w.tracker.entry_bytes, plain)
    if is_child and feed.rows > MAX_UNBACKED_ROWS and (piece.encoding == CONST or piece.encoding == ALL_NULL):
        piece.encoding = PLAIN      # our reader limits rows that take no bytes
    piece.has_nulls = feed.nulls > 0 and piece.encoding != ALL_NULL
    piece.meta_at = piece.nulls_at = piece.data_at = w.arena.size
    piece.meta_size = piece.nulls_size = piece.data_size = 0
    if piece.encoding == CONST:
        out = _room(&w.arena, size + 32)
        if texts:
            out = put_texts(feed.node.kind, &text, &size, 1, out)
        else:
            out = put_keys(feed.node.kind, &key, 1, out)
        piece.meta_size = out - w.arena.data - w.arena.size
        w.arena.size += piece.meta_size
    elif piece.encoding == DICT:
        out = put_uv32(_room(&w.arena, w.tracker.entry_bytes + 8), <uint32_t>w.tracker.entries)
        if texts:
            out = put_texts(feed.node.kind, w.tracker.texts, w.tracker.sizes, w.tracker.entries, out)
        else:
            out = put_keys(feed.node.kind, w.tracker.keys, w.tracker.entries, out)
        piece.meta_size = out - w.arena.data - w.arena.size
        w.arena.size += piece.meta_size
    if piece.has_nulls:
        piece.nulls_at = w.arena.size
        piece.nulls_size = bitmap_size(feed.rows)
        out = _room(&w.arena, piece.nulls_size)
        memset(out, 0, piece.nulls_size)
        put_null_bits(feed, out)
        w.arena.size += piece.nulls_size
    piece.data_at = w.arena.size
    if piece.encoding == DICT:
        piece.data_size = (non_null * index_width(w.tracker.entries) + 7) >> 3
        pack_indices(_room(&w.arena, piece.data_size), w.tracker.indices, non_null, index_width(w.tracker.entries))
        w.arena.size += piece.data_size
    elif piece.encoding == PLAIN:
        _put_plain(w, feed, texts, plain, loaded if feed.rows <= SEGMENT else -1)
        piece.data_size = w.arena.size - piece.data_at
    return 0


cdef int _skip_to(Feed* feed, Worker* w, int64_t seen) noexcept nogil:
    """Load segments until `seen` values have passed; the last stays in the scratch."""
    cdef int64_t n
    while seen > 0:
        n = next_dense(feed, &w.dense)
        seen -= n
    return 0


cdef int _put_plain(Worker* w, Feed* feed, bint texts, int64_t plain, int64_t loaded) except -1 nogil:
    """All values; `loaded` of them are in the scratch already when the column fits one segment, else -1."""
    cdef uint8_t* out = _room(&w.arena, plain)
    cdef int64_t n = loaded
    if loaded < 0:
        rewind(feed)
        n = next_dense(feed, &w.dense)
    while n >= 0:
        if texts:
            out = put_texts(feed.node.kind, w.dense.texts, w.dense.sizes, n, out)
        else:
            out = put_keys(feed.node.kind, w.dense.keys, n, out)
        n = next_dense(feed, &w.dense) if loaded < 0 else -1
    w.arena.size = out - w.arena.data
    return 0


# --- one bucket ---------------------------------------------------------------------------------------------------

cdef class EncodedBucket:
    """A bucket of one row group, encoded, not yet compressed.

    Parameters
    ----------
    feeds : Feeds
        Its columns.
    max_entries, max_bytes : int
        Limits of a dictionary.
    statistics : list of int
        Positions in the bucket whose minimum and maximum are wanted.

    Attributes
    ----------
    child_rows : list of int
        Elements below each container, for the bucket's header.
    statistics : list of (int, int, bytes or None, bytes or None)
        Position, null count, minimum, maximum as they go into the index.
    """

    cdef Feeds _feeds
    cdef Arena arena
    cdef Piece* pieces
    cdef int64_t n_columns
    cdef int64_t n_nodes
    cdef readonly list child_rows
    cdef readonly list statistics

    def __cinit__(self, Feeds feeds not None, int64_t max_entries, int64_t max_bytes, list statistics not None):
        cdef BucketNodes nodes = feeds.nodes
        cdef int64_t i
        cdef Worker w
        cdef MinMax* bounds
        self._feeds = feeds
        self.n_columns = nodes.num_columns
        self.n_nodes = nodes.num_nodes
        self.child_rows = [feeds.feeds[i].rows for i in range(self.n_columns, self.n_nodes)]
        self.pieces = <Piece*>calloc(self.n_nodes + 1, sizeof(Piece))
        bounds = <MinMax*>calloc(self.n_columns + 1, sizeof(MinMax))
        memset(&w, 0, sizeof(Worker))
        w.max_entries = max_entries
        w.max_bytes = max_bytes
        w.dense.keys = <uint64_t*>malloc(SEGMENT * sizeof(uint64_t))
        w.dense.texts = <const uint8_t**>malloc(SEGMENT * sizeof(uint8_t*))
        w.dense.sizes = <uint32_t*>malloc(SEGMENT * sizeof(uint32_t))
        try:
            if (
                self.pieces == NULL or bounds == NULL or w.dense.keys == NULL or w.dense.texts == NULL
                or w.dense.sizes == NULL
            ):
                raise MemoryError()
            for i in statistics:
                if not 0 <= i < self.n_columns:
                    raise IndexError(f"column {i} of {self.n_columns}")
                minmax_start(&bounds[i])
            with nogil:
                for i in range(self.n_nodes):
                    _encode_column(&w, &feeds.feeds[i], &self.pieces[i],
                                   &bounds[i] if i < self.n_columns and bounds[i].wanted else NULL,
                                   i >= self.n_columns)
            self.statistics = [
                (i, feeds.feeds[i].nulls, *minmax_put(&bounds[i], &nodes.nodes[i])) for i in sorted(statistics)
            ]
        finally:
            self.arena = w.arena
            free(bounds)
            free(w.dense.keys)
            free(w.dense.texts)
            free(w.dense.sizes)
            tracker_free(&w.tracker)

    def __dealloc__(self):
        free(self.pieces)
        free(self.arena.data)

    def counted(self):
        """(bytes, pages) that decide between monolithic and paged (section 8)."""
        cdef int64_t i, pages = 0, size = 0
        cdef Piece* piece
        for i in range(self.n_nodes):
            piece = &self.pieces[i]
            if piece.encoding == ALL_NULL or (piece.encoding == CONST and not piece.has_nulls):
                continue
            pages += 1
            size += piece.nulls_size + piece.data_size + (piece.meta_size if piece.encoding == DICT else 0)
        return size, pages

    def monolithic(self):
        """The bucket as one block (section 7)."""
        cdef int64_t i, size = 0, head = 0
        cdef Piece* piece
        cdef uint8_t* out
        cdef uint8_t* flags
        if self.n_nodes > self.n_columns:
            head = 10 + 5 * (self.n_nodes - self.n_columns)
        size = head + (2 * self.n_nodes + 7) // 8 + (self.n_nodes + 7) // 8
        for i in range(self.n_nodes):
            size += self.pieces[i].meta_size + self.pieces[i].nulls_size + self.pieces[i].data_size
        cdef bytearray block = bytearray(size)
        cdef uint8_t* start = <uint8_t*><char*>block
        out = start
        if head:
            out = put_uv32(out, <uint32_t>self.n_columns)
            out = put_uv32(out, <uint32_t>(self.n_nodes - self.n_columns))
            for i in range(self.n_columns, self.n_nodes):
                out = put_uv32(out, <uint32_t>self._feeds.feeds[i].rows)
        with nogil:
            flags = out
            out += (2 * self.n_nodes + 7) >> 3
            for i in range(self.n_nodes):
                flags[i >> 2] |= <uint8_t>(self.pieces[i].encoding << (2 * (i & 3)))
                out[i >> 3] |= <uint8_t>(self.pieces[i].has_nulls << (i & 7))
            out += (self.n_nodes + 7) >> 3
            for i in range(self.n_nodes):
                if self.pieces[i].encoding == CONST:
                    out = self._copy(out, self.pieces[i].meta_at, self.pieces[i].meta_size)
            for i in range(self.n_nodes):
                if self.pieces[i].encoding == DICT:
                    out = self._copy(out, self.pieces[i].meta_at, self.pieces[i].meta_size)
            for i in range(self.n_nodes):
                out = self._copy(out, self.pieces[i].nulls_at, self.pieces[i].nulls_size)
            for i in range(self.n_nodes):
                out = self._copy(out, self.pieces[i].data_at, self.pieces[i].data_size)
        return memoryview(block)[:out - start]

    def page(self, int64_t node):
        """One physical column as a page (section 8), None for ALL_NULL."""
        cdef Piece* piece
        cdef uint8_t* out
        if not 0 <= node < self.n_nodes:
            raise IndexError(f"physical column {node} of {self.n_nodes}")
        piece = &self.pieces[node]
        if piece.encoding == ALL_NULL:
            return None
        page = PyBytes_FromStringAndSize(NULL, 2 + piece.meta_size + piece.nulls_size + piece.data_size)
        out = <uint8_t*>PyBytes_AS_STRING(page)
        out[0] = <uint8_t>piece.encoding
        out[1] = <uint8_t>piece.has_nulls
        out = self._copy(out + 2, piece.meta_at, piece.meta_size)
        out = self._copy(out, piece.nulls_at, piece.nulls_size)
        self._copy(out, piece.data_at, piece.data_size)
        return page

    cdef uint8_t* _copy(self, uint8_t* out, int64_t at, int64_t size) noexcept nogil:
        if size:
            memcpy(out, self.arena.data + at, size)
        return out + size

    @property
    def num_nodes(self):
        """Physical columns."""
        return self.n_nodes
