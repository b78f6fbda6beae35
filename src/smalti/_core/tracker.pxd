from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

# The distinct values of one column, in order of appearance, and each value's index; memory is kept for the next column.
cdef struct Tracker:
    int64_t max_entries
    int64_t max_bytes           # of entries as serialised; INT64_MAX where there is no budget
    int64_t n_values            # non-null values of the column
    int64_t plain_bytes         # what they take as PLAIN: the size to beat
    int64_t entries
    int64_t entry_bytes
    int64_t n_indices
    bint alive                  # a dictionary may still win
    uint32_t* slots             # hash table: entry + 1, 0 where free
    int64_t n_slots
    uint64_t* hashes            # per entry
    uint64_t* keys              # per entry, numbers
    const uint8_t** texts       # per entry, texts
    uint32_t* sizes
    int64_t entries_capacity
    uint32_t* indices
    int64_t indices_capacity

cdef int tracker_start(
    Tracker* t, int64_t max_entries, int64_t max_bytes, int64_t n_values, int64_t plain_bytes
) except -1 nogil
cdef int track_keys(Tracker* t, const uint64_t* keys, int64_t n, int width) except -1 nogil
cdef int track_texts(Tracker* t, const uint8_t** texts, const uint32_t* sizes, int64_t n, bint decimals) except -1 nogil
cdef int track_repeats(Tracker* t, int64_t n) except -1 nogil
cdef void tracker_free(Tracker* t) noexcept nogil
