"""Dictionary tracking (section 5): the distinct values of a column, given up as soon as DICT can no longer win.

One tracker per thread serves column after column, so its memory does not grow with the width of a table.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from smalti._core.bits cimport index_width
from smalti._core.cursor cimport uv32_size
from smalti._core.decimals cimport decimal_size
from smalti._core.fault cimport grow
from smalti._core.feed cimport Dense
from smalti._core.physical cimport K_DECV, K_VAR, file_width

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
    Dense values                # per entry
    int64_t entries_capacity
    uint32_t* indices
    int64_t indices_capacity


cdef inline void tracker_free(Tracker* t) noexcept nogil:
    free(t.slots)
    free(t.hashes)
    free(t.values.keys)
    free(t.values.texts)
    free(t.values.sizes)
    free(t.indices)


cdef inline int tracker_start(
    Tracker* t, int64_t max_entries, int64_t max_bytes, int64_t n_values, int64_t plain_bytes
) except -1 nogil:
    """Forget the column before, and keep its memory."""
    t.max_entries = max_entries
    t.max_bytes = max_bytes
    t.n_values = n_values
    t.plain_bytes = plain_bytes
    t.entries = t.entry_bytes = t.n_indices = 0
    t.alive = max_entries >= 2
    if t.slots == NULL:
        t.slots = <uint32_t*>grow(NULL, 1024 * sizeof(uint32_t))
        t.n_slots = 1024
    memset(t.slots, 0, t.n_slots * sizeof(uint32_t))
    return 0


cdef inline int64_t _free_slot(const Tracker* t, uint64_t hash) noexcept nogil:
    cdef int64_t slot = hash & (t.n_slots - 1)
    while t.slots[slot]:
        slot = (slot + 1) & (t.n_slots - 1)
    return slot


cdef inline int _reserve_entry(Tracker* t) except -1 nogil:
    """Allocate memory for one more entry, and keep the hash table at most half full."""
    cdef int64_t i, capacity
    if t.entries == t.entries_capacity:
        capacity = 2 * t.entries_capacity + 512
        t.hashes = <uint64_t*>grow(t.hashes, capacity * sizeof(uint64_t))
        t.values.keys = <uint64_t*>grow(t.values.keys, capacity * sizeof(uint64_t))
        t.values.texts = <const uint8_t**>grow(t.values.texts, capacity * sizeof(uint8_t*))
        t.values.sizes = <uint32_t*>grow(t.values.sizes, capacity * sizeof(uint32_t))
        t.entries_capacity = capacity
    if 2 * (t.entries + 1) > t.n_slots:
        t.slots = <uint32_t*>grow(t.slots, 2 * t.n_slots * sizeof(uint32_t))
        t.n_slots *= 2
        memset(t.slots, 0, t.n_slots * sizeof(uint32_t))
        for i in range(t.entries):
            t.slots[_free_slot(t, t.hashes[i])] = <uint32_t>(i + 1)
    return 0


cdef inline uint32_t _add_entry(
    Tracker* t, uint64_t hash, int64_t cost, const Dense* values, int64_t i, bint strings
) except? 0 nogil:
    """Add value `i`, which takes `cost` bytes, and return the number of entries; 0 if a dictionary can no longer win.

    More entries never make a dictionary smaller, so the first 0 is final.
    """
    cdef int64_t entries = t.entries + 1, entry_bytes = t.entry_bytes + cost
    cdef int64_t size = uv32_size(<uint32_t>entries) + entry_bytes + ((t.n_values * index_width(entries) + 7) >> 3)
    if entries > t.max_entries or entry_bytes > t.max_bytes or (entries > 1 and size >= t.plain_bytes):
        t.alive = False
        return 0
    _reserve_entry(t)
    if strings:
        t.values.texts[t.entries] = values.texts[i]
        t.values.sizes[t.entries] = values.sizes[i]
    else:
        t.values.keys[t.entries] = values.keys[i]
    t.hashes[t.entries] = hash
    t.slots[_free_slot(t, hash)] = <uint32_t>entries
    t.entries = entries
    t.entry_bytes = entry_bytes
    return <uint32_t>entries


cdef inline int _reserve_indices(Tracker* t, int64_t n) except -1 nogil:
    if t.n_indices + n > t.indices_capacity:
        t.indices_capacity = 2 * (t.n_indices + n)
        t.indices = <uint32_t*>grow(t.indices, t.indices_capacity * sizeof(uint32_t))
    return 0


cdef inline int track_repeats(Tracker* t, int64_t n) except -1 nogil:
    """Count the only entry so far n times more."""
    _reserve_indices(t, n)
    memset(t.indices + t.n_indices, 0, n * sizeof(uint32_t))
    t.n_indices += n
    return 0


cdef inline uint64_t _mix(uint64_t x) noexcept nogil:
    x ^= x >> 32
    x *= <uint64_t>0x9E3779B97F4A7C15
    x ^= x >> 29
    x *= <uint64_t>0xBF58476D1CE4E5B9
    return x ^ (x >> 32)


cdef inline uint64_t _hash(const uint8_t* text, uint32_t size) noexcept nogil:
    cdef uint64_t h = size, w
    while size >= 8:
        memcpy(&w, text, 8)
        h = _mix(h ^ w)
        text += 8
        size -= 8
    if size:
        w = 0
        memcpy(&w, text, size)
        h = _mix(h ^ w)
    return h


cdef inline bint _is_entry(
    const Tracker* t, int64_t entry, uint64_t hash, const Dense* values, int64_t i, bint strings
) noexcept nogil:
    """Whether value `i` is the value of an entry."""
    if not strings:
        return t.values.keys[entry] == values.keys[i]
    return (
        t.hashes[entry] == hash and t.values.sizes[entry] == values.sizes[i]
        and memcmp(t.values.texts[entry], values.texts[i], values.sizes[i]) == 0
    )


cdef inline int _track(Tracker* t, const Dense* values, int64_t n, int kind, bint strings) except -1 nogil:
    """As `track`; called with a constant `strings`, so that the compiler makes two loops."""
    cdef int64_t i, slot, mask = t.n_slots - 1, cost = file_width(kind)
    cdef uint64_t hash
    cdef uint32_t entry
    _reserve_indices(t, n)
    for i in range(n):
        hash = _hash(values.texts[i], values.sizes[i]) if strings else _mix(values.keys[i])
        slot = hash & mask
        entry = t.slots[slot]
        while entry and not _is_entry(t, entry - 1, hash, values, i, strings):
            slot = (slot + 1) & mask
            entry = t.slots[slot]
        if entry == 0:
            if kind == K_VAR:
                cost = uv32_size(values.sizes[i]) + <int64_t>values.sizes[i]
            elif kind == K_DECV:
                cost = 1 + decimal_size(values.texts[i])
            entry = _add_entry(t, hash, cost, values, i, strings)
            if entry == 0:
                return 0
            mask = t.n_slots - 1
        t.indices[t.n_indices] = entry - 1
        t.n_indices += 1
    return 0


cdef inline int track(Tracker* t, const Dense* values, int64_t n, int kind) except -1 nogil:
    """Enter n values; `t.alive` turns False when a dictionary of them can no longer win."""
    if kind == K_VAR or kind == K_DECV:
        return _track(t, values, n, kind, True)
    return _track(t, values, n, kind, False)
