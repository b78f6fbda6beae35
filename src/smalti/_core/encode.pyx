"""Encoding feeds of values as columns (section 5) and buckets (sections 7 and 8), ready for compression."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from smalti._core.bits cimport bitmap_size, get_bit, index_width, pack_indices
from smalti._core.cursor cimport put_uv32, uv32_size
from smalti._core.dictionary cimport SEED
from smalti._core.fault cimport grow, zeroed
from smalti._core.feed cimport Chunk, Dense, Feed, SEGMENT, load_value, next_dense, put_null_bits, rewind
from smalti._core.input cimport Feeds, plain_size
from smalti._core.minmax cimport MinMax, minmax_add, minmax_put
from smalti._core.physical cimport (
    ALL_NULL, PhysicalColumns, CONST, DICT, K_DECV, K_TS9, K_VAR, MAX_UNBACKED_ROWS, PLAIN, is_float,
)
from smalti._core.tracker cimport Tracker, reserve_indices, track, track_repeats, tracker_free, tracker_start
from smalti._core.values cimport put_values


cpdef int choose_encoding(
    int64_t non_null, bint constant, bint tracked, int64_t entries, int64_t entry_bytes, int64_t plain_bytes
) noexcept nogil:
    """Section 5: ALL_NULL, else CONST, else DICT where that is strictly smaller, else PLAIN.

    `non_null` is the number of values that are not null, `constant` whether they are all the same, and `plain_bytes`
    their serialised size. If the distinct values stayed within the limits of a dictionary (`tracked`), `entries` is
    their number and `entry_bytes` their serialised size.
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


# --- memory for encoded columns -----------------------------------------------------------------------------------

cdef struct Arena:
    uint8_t* data
    int64_t size
    int64_t capacity

cdef struct Piece:
    int encoding
    bint has_nulls
    int64_t at              # offset in the arena of the three parts, which follow each other
    int64_t meta_size       # CONST value, or DICT count and entries
    int64_t nulls_size
    int64_t data_size


cdef uint8_t* _reserve(Arena* arena, int64_t size) except NULL nogil:
    """Return memory for `size` more bytes; the caller keeps what it writes there by adding to arena.size."""
    cdef int64_t needed = arena.size + size + 16
    if needed > arena.capacity:
        arena.capacity = max(needed, arena.capacity + arena.capacity // 2)
        arena.data = <uint8_t*>grow(arena.data, arena.capacity)
    return arena.data + arena.size


# --- one column ---------------------------------------------------------------------------------------------------

cdef struct Worker:
    Dense dense
    Tracker tracker
    Arena arena
    int64_t max_entries
    int64_t max_bytes
    int64_t given_entries   # limits of columns that are given as dictionaries
    int64_t given_bytes
    uint32_t* known         # for each value of a dictionary its entry + 1, 0 where it has none yet
    int64_t known_size


cdef bint _all_equal(const Dense* values, const Dense* first, bint strings, int64_t n) noexcept nogil:
    """Whether n values all equal the first value of `first`."""
    cdef int64_t i
    if strings:
        for i in range(n):
            if values.sizes[i] != first.sizes[0] or memcmp(values.texts[i], first.texts[0], first.sizes[0]) != 0:
                return False
    else:
        for i in range(n):
            if values.keys[i] != first.keys[0]:
                return False
    return True


cdef int _enter_value(Worker* w, Feed* feed, const Chunk* chunk, int64_t i) except -1 nogil:
    """Enter value `i` of the dictionary of a chunk."""
    cdef Tracker* t = &w.tracker
    load_value(feed.node.kind, chunk.values, chunk.values.offset + i, &w.dense, 0)
    track(t, &w.dense, 1, feed.node.kind)
    if t.alive:
        t.n_indices -= 1        # not that of a row
        w.known[i] = t.indices[t.n_indices] + 1
    return 0


cdef int _track_indices(Worker* w, Feed* feed) except -1 nogil:
    """Enter the values of a column of which all chunks have indices: each used value of a dictionary is hashed once.

    Entries are in the order of the dictionaries, which often are sorted, and then compress better. Those of
    floating-point numbers are in the order of the rows: of 0.0 and -0.0 the first one becomes a bound.
    """
    cdef Tracker* t = &w.tracker
    cdef int64_t c, row, i, size
    cdef const Chunk* chunk
    cdef const int32_t* indices
    for c in range(feed.n_chunks):
        chunk = &feed.chunks[c]
        if chunk.values == NULL or chunk.values.length == 0:    # all null
            continue
        indices = <const int32_t*>chunk.array.buffers[1]
        size = chunk.values.length * sizeof(uint32_t)
        if size > w.known_size:
            w.known = <uint32_t*>grow(w.known, size)
            w.known_size = size
        memset(w.known, 0, size)
        if not is_float(feed.node):
            for row in range(chunk.start, chunk.start + chunk.rows):
                if chunk.valid == NULL or get_bit(chunk.valid, row):
                    w.known[indices[row]] = 1
            for i in range(chunk.values.length):
                if w.known[i] and t.alive:
                    _enter_value(w, feed, chunk, i)
        reserve_indices(t, chunk.rows)
        for row in range(chunk.start, chunk.start + chunk.rows):
            if not t.alive:
                return 0
            if chunk.valid == NULL or get_bit(chunk.valid, row):
                if w.known[indices[row]] == 0:
                    _enter_value(w, feed, chunk, indices[row])
                t.indices[t.n_indices] = w.known[indices[row]] - 1
                t.n_indices += 1
    return 0


cdef int _encode_column(Worker* w, Feed* feed, Piece* piece, MinMax* bounds, bint is_child) except -1 nogil:
    cdef bint strings = feed.node.kind == K_VAR or feed.node.kind == K_DECV
    cdef int64_t non_null = feed.rows - feed.nulls
    cdef int64_t plain = plain_size(feed)
    cdef int64_t n, seen = 0, loaded = -1
    cdef uint64_t key = 0
    cdef const uint8_t* text = NULL
    cdef uint32_t size = 0
    cdef Dense first = Dense(&key, &text, &size)
    cdef bint constant = True, tracked = False
    cdef bint indexed = non_null > 0 and feed.num_indexed == feed.n_chunks
    cdef uint8_t* out
    # A byte budget applies to values of variable size, and to 12-byte timestamps (section 5).
    tracker_start(&w.tracker, w.given_entries if indexed else w.max_entries,
                  (w.given_bytes if indexed else w.max_bytes) if strings or feed.node.kind == K_TS9 else INT64_MAX,
                  non_null, plain)
    rewind(feed)
    if indexed and w.tracker.alive:
        _track_indices(w, feed)
        tracked = w.tracker.alive
        constant = w.tracker.entries == 1 or not tracked      # a constant may be larger than a dictionary may be
        if tracked and bounds != NULL:
            minmax_add(bounds, feed.node, &w.tracker.values, w.tracker.entries)
        if tracked and constant and strings:
            text = w.tracker.values.texts[0]
            size = w.tracker.values.sizes[0]
        elif tracked and constant:
            key = w.tracker.values.keys[0]
    while non_null and not tracked and (constant or w.tracker.alive or bounds != NULL):
        n = next_dense(feed, &w.dense)
        if n < 0:
            break
        loaded = n
        if n == 0:
            continue
        if bounds != NULL:
            minmax_add(bounds, feed.node, &w.dense, n)
        if seen == 0:
            if strings:
                text = w.dense.texts[0]
                size = w.dense.sizes[0]
            else:
                key = w.dense.keys[0]
        if constant:
            constant = _all_equal(&w.dense, &first, strings, n)
            if not constant and seen:
                # All segments before this one hold the first value: enter it without reading them again.
                track(&w.tracker, &first, 1, feed.node.kind)
                if w.tracker.alive:
                    track_repeats(&w.tracker, seen - 1)
        seen += n
        if w.tracker.alive and not constant:
            track(&w.tracker, &w.dense, n, feed.node.kind)
    piece.encoding = choose_encoding(non_null, constant, w.tracker.alive, w.tracker.entries, w.tracker.entry_bytes, plain)
    if is_child and feed.rows > MAX_UNBACKED_ROWS and (piece.encoding == CONST or piece.encoding == ALL_NULL):
        piece.encoding = PLAIN      # our reader limits rows that take no bytes
    piece.has_nulls = feed.nulls > 0 and piece.encoding != ALL_NULL
    piece.at = w.arena.size
    if piece.encoding == CONST:
        out = put_values(feed.node.kind, &first, 1, _reserve(&w.arena, size + 32))
        w.arena.size = out - w.arena.data
    elif piece.encoding == DICT:
        out = put_uv32(_reserve(&w.arena, w.tracker.entry_bytes + 8), <uint32_t>w.tracker.entries)
        out = put_values(feed.node.kind, &w.tracker.values, w.tracker.entries, out)
        w.arena.size = out - w.arena.data
    piece.meta_size = w.arena.size - piece.at
    if piece.has_nulls:
        piece.nulls_size = bitmap_size(feed.rows)
        out = _reserve(&w.arena, piece.nulls_size)
        memset(out, 0, piece.nulls_size)
        put_null_bits(feed, out)
        w.arena.size += piece.nulls_size
    if piece.encoding == DICT:
        piece.data_size = (non_null * index_width(w.tracker.entries) + 7) >> 3
        pack_indices(_reserve(&w.arena, piece.data_size), w.tracker.indices, non_null, index_width(w.tracker.entries))
        w.arena.size += piece.data_size
    elif piece.encoding == PLAIN:
        piece.data_size = _put_plain(w, feed, plain, loaded if feed.rows <= SEGMENT else -1)
    return 0


cdef int64_t _put_plain(Worker* w, Feed* feed, int64_t plain, int64_t loaded) except -1 nogil:
    """Add all values to the arena and return their bytes.

    If the column fits one segment, its `loaded` values are in the scratch already; else `loaded` is -1.
    """
    cdef uint8_t* out = _reserve(&w.arena, plain)
    cdef int64_t n = loaded, before = w.arena.size
    if loaded < 0:
        rewind(feed)
        n = next_dense(feed, &w.dense)
    while n >= 0:
        out = put_values(feed.node.kind, &w.dense, n, out)
        n = next_dense(feed, &w.dense) if loaded < 0 else -1
    w.arena.size = out - w.arena.data
    return w.arena.size - before


# --- one bucket ---------------------------------------------------------------------------------------------------

cdef class EncodedBucket:
    """A bucket of one row group, encoded, not yet compressed.

    Parameters
    ----------
    feeds : Feeds
        Its columns.
    max_entries, max_bytes : int
        Limits of a dictionary.
    given_entries, given_bytes : int
        The same for columns that are given as dictionaries.
    statistics : list of int
        Positions in the bucket whose minimum and maximum are wanted.

    Attributes
    ----------
    child_rows : list of int
        Elements below each container, for the bucket's header.
    num_physical : int
        How many physical columns it has.
    statistics : list of (int, int, bytes or None, bytes or None)
        Position, null count, minimum, maximum as they go into the index.
    """

    cdef Feeds _feeds
    cdef Arena arena
    cdef Piece* pieces
    cdef int64_t n_columns
    cdef readonly int64_t num_physical
    cdef readonly list child_rows
    cdef readonly list statistics

    def __cinit__(
        self,
        Feeds feeds not None,
        int64_t max_entries,
        int64_t max_bytes,
        int64_t given_entries,
        int64_t given_bytes,
        list statistics not None,
    ):
        cdef PhysicalColumns nodes = feeds.nodes
        cdef int64_t i
        cdef Worker w
        cdef MinMax* bounds = NULL
        self._feeds = feeds
        self.n_columns = nodes.num_columns
        self.num_physical = nodes.num_physical
        self.child_rows = [feeds.feeds[i].rows for i in range(self.n_columns, self.num_physical)]
        memset(&w, 0, sizeof(Worker))
        w.max_entries = max_entries
        w.max_bytes = max_bytes
        w.given_entries = given_entries
        w.given_bytes = given_bytes
        w.tracker.seed = SEED
        try:
            self.pieces = <Piece*>zeroed((self.num_physical + 1) * sizeof(Piece))
            bounds = <MinMax*>zeroed((self.n_columns + 1) * sizeof(MinMax))
            w.dense.keys = <uint64_t*>grow(NULL, SEGMENT * sizeof(uint64_t))
            w.dense.texts = <const uint8_t**>grow(NULL, SEGMENT * sizeof(uint8_t*))
            w.dense.sizes = <uint32_t*>grow(NULL, SEGMENT * sizeof(uint32_t))
            for i in statistics:
                if not 0 <= i < self.n_columns:
                    raise IndexError(f"column {i} of {self.n_columns}")
                bounds[i].wanted = True
            with nogil:
                for i in range(self.num_physical):
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
            free(w.known)
            tracker_free(&w.tracker)

    def __dealloc__(self):
        free(self.pieces)
        free(self.arena.data)

    def counted(self):
        """(bytes, pages) that decide between monolithic and paged (section 8)."""
        cdef int64_t i, pages = 0, size = 0
        cdef Piece* piece
        for i in range(self.num_physical):
            piece = &self.pieces[i]
            if piece.encoding == ALL_NULL or (piece.encoding == CONST and not piece.has_nulls):
                continue
            pages += 1
            size += piece.nulls_size + piece.data_size + (piece.meta_size if piece.encoding == DICT else 0)
        return size, pages

    def monolithic(self):
        """The bucket as one block (section 7)."""
        cdef int64_t i, size = 0, head = 0
        cdef int encoding
        cdef Piece* piece
        cdef uint8_t* out
        cdef uint8_t* flags
        if self.num_physical > self.n_columns:
            head = 10 + 5 * (self.num_physical - self.n_columns)
        size = head + (2 * self.num_physical + 7) // 8 + (self.num_physical + 7) // 8
        for i in range(self.num_physical):
            size += self.pieces[i].meta_size + self.pieces[i].nulls_size + self.pieces[i].data_size
        cdef bytearray block = bytearray(size)
        cdef uint8_t* start = <uint8_t*><char*>block
        out = start
        if head:
            out = put_uv32(out, <uint32_t>self.n_columns)
            out = put_uv32(out, <uint32_t>(self.num_physical - self.n_columns))
            for i in range(self.n_columns, self.num_physical):
                out = put_uv32(out, <uint32_t>self._feeds.feeds[i].rows)
        with nogil:
            flags = out
            out += (2 * self.num_physical + 7) >> 3
            for i in range(self.num_physical):
                flags[i >> 2] |= <uint8_t>(self.pieces[i].encoding << (2 * (i & 3)))
                out[i >> 3] |= <uint8_t>(self.pieces[i].has_nulls << (i & 7))
            out += (self.num_physical + 7) >> 3
            for encoding in range(CONST, DICT + 1):     # all constants, then all dictionaries
                for i in range(self.num_physical):
                    piece = &self.pieces[i]
                    if piece.encoding == encoding:
                        out = self._copy(out, piece.at, piece.meta_size)
            for i in range(self.num_physical):
                piece = &self.pieces[i]
                out = self._copy(out, piece.at + piece.meta_size, piece.nulls_size)
            for i in range(self.num_physical):
                piece = &self.pieces[i]
                out = self._copy(out, piece.at + piece.meta_size + piece.nulls_size, piece.data_size)
        return memoryview(block)[:out - start]

    def pages(self):
        """The page of every physical column (section 8), None for ALL_NULL."""
        cdef Piece* piece
        cdef uint8_t* out
        cdef int64_t node, size
        cdef list made = []
        for node in range(self.num_physical):
            piece = &self.pieces[node]
            if piece.encoding == ALL_NULL:
                made.append(None)
                continue
            size = piece.meta_size + piece.nulls_size + piece.data_size
            page = PyBytes_FromStringAndSize(NULL, 2 + size)
            out = <uint8_t*>PyBytes_AS_STRING(page)
            out[0] = <uint8_t>piece.encoding
            out[1] = <uint8_t>piece.has_nulls
            self._copy(out + 2, piece.at, size)
            made.append(page)
        return made

    cdef uint8_t* _copy(self, uint8_t* out, int64_t at, int64_t size) noexcept nogil:
        if size:
            memcpy(out, self.arena.data + at, size)
        return out + size
