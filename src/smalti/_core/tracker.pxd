"""Dictionary tracking (section 5): the distinct values of a column, given up as soon as DICT can no longer win.

One tracker per thread serves column after column, so its memory does not grow with the width of a table. Readers use
the same table for the values of dictionaries (`dictionary`).
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

cdef extern from *:
    """
    #include <string.h>
    #define SMALTI_PREFETCH(at) __builtin_prefetch(at)
    static inline uint64_t smalti_fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    /* Up to 8 bytes as a number; texts of one size have different ones. */
    static inline uint64_t smalti_load_end(const uint8_t* text, uint32_t size) {
        uint32_t first, last;
        if (size < 4) return size ? text[0] | (uint32_t)text[size / 2] << 8 | (uint32_t)text[size - 1] << 16 : 0;
        memcpy(&first, text, 4);
        memcpy(&last, text + size - 4, 4);
        return first | (uint64_t)last << 32;
    }
    """
    void SMALTI_PREFETCH(const void* at) nogil
    uint64_t smalti_fold(uint64_t a, uint64_t b) nogil
    uint64_t smalti_load_end(const uint8_t* text, uint32_t size) nogil

cdef enum:
    STEP = 32       # values that are hashed, and their slots fetched, before the first of them is looked up

# The distinct values of one column, in order of appearance, and each value's index; memory is kept for the next column.
cdef struct Tracker:
    uint64_t seed               # of the hashes: secret, so that nobody can make values that collide
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


cdef inline int64_t free_slot(const Tracker* t, uint64_t hash) noexcept nogil:
    cdef int64_t slot = hash & (t.n_slots - 1)
    while t.slots[slot]:
        slot = (slot + 1) & (t.n_slots - 1)
    return slot


cdef inline int64_t missing_bytes(const Tracker* t, int64_t n) noexcept nogil:
    """Bytes that `reserve_entries` would allocate, at most: those of entries, and of the hash table."""
    cdef int64_t wanted = t.entries + n, size = 0
    if wanted > t.entries_capacity:
        size += (2 * wanted + 512 - t.entries_capacity) * (8 + 8 + sizeof(void*) + 4)
    if 2 * wanted > t.n_slots:
        size += (4 * wanted - t.n_slots) * sizeof(uint32_t)
    return size


cdef inline int grow_entries(Tracker* t, int64_t capacity) except -1 nogil:
    t.hashes = <uint64_t*>grow(t.hashes, capacity * sizeof(uint64_t))
    t.values.keys = <uint64_t*>grow(t.values.keys, capacity * sizeof(uint64_t))
    t.values.texts = <const uint8_t**>grow(t.values.texts, capacity * sizeof(uint8_t*))
    t.values.sizes = <uint32_t*>grow(t.values.sizes, capacity * sizeof(uint32_t))
    t.entries_capacity = capacity
    return 0


cdef inline int reserve_entries(Tracker* t, int64_t n) except -1 nogil:
    """Allocate memory for n more entries, and keep the hash table at most half full."""
    cdef int64_t i, wanted = t.entries + n
    if wanted > t.entries_capacity:
        grow_entries(t, 2 * wanted + 512)
    if 2 * wanted > t.n_slots:
        while 2 * wanted > t.n_slots:
            t.n_slots *= 2
        t.slots = <uint32_t*>grow(t.slots, t.n_slots * sizeof(uint32_t))
        memset(t.slots, 0, t.n_slots * sizeof(uint32_t))
        for i in range(t.entries):
            t.slots[free_slot(t, t.hashes[i])] = <uint32_t>(i + 1)
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
    t.entry_bytes = entry_bytes
    append_entry(t, hash, values, i, strings)
    t.slots[free_slot(t, hash)] = <uint32_t>entries
    return <uint32_t>entries


cdef inline void append_entry(Tracker* t, uint64_t hash, const Dense* values, int64_t i, bint strings) noexcept nogil:
    """Add value `i` behind the entries, for which memory is reserved; a search does not find it yet."""
    if strings:
        t.values.texts[t.entries] = values.texts[i]
        t.values.sizes[t.entries] = values.sizes[i]
    else:
        t.values.keys[t.entries] = values.keys[i]
    t.hashes[t.entries] = hash
    t.entries += 1


cdef inline int reserve_indices(Tracker* t, int64_t n) except -1 nogil:
    if t.n_indices + n > t.indices_capacity:
        t.indices_capacity = 2 * (t.n_indices + n)
        t.indices = <uint32_t*>grow(t.indices, t.indices_capacity * sizeof(uint32_t))
    return 0


cdef inline int track_repeats(Tracker* t, int64_t n) except -1 nogil:
    """Count the only entry so far n times more."""
    reserve_indices(t, n)
    memset(t.indices + t.n_indices, 0, n * sizeof(uint32_t))
    t.n_indices += n
    return 0


cdef inline uint64_t hash_value(const Tracker* t, const Dense* values, int64_t i, bint strings) noexcept nogil:
    cdef uint64_t h = t.seed, w
    cdef const uint8_t* text
    cdef uint32_t size
    if not strings:
        return smalti_fold(h ^ values.keys[i], <uint64_t>0x9E3779B97F4A7C15)
    text = values.texts[i]
    size = values.sizes[i]
    h ^= size
    while size > 8:
        memcpy(&w, text, 8)
        h = smalti_fold(h ^ w, <uint64_t>0x9E3779B97F4A7C15)
        text += 8
        size -= 8
    return smalti_fold(h ^ smalti_load_end(text, size), <uint64_t>0xBF58476D1CE4E5B9)


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


cdef inline uint32_t find_entry(
    const Tracker* t, uint64_t hash, const Dense* values, int64_t i, bint strings
) noexcept nogil:
    """The number of the entry that has value `i`, from 1 on; 0 if none has it."""
    cdef int64_t slot = hash & (t.n_slots - 1)
    cdef uint32_t entry = t.slots[slot]
    while entry and not _is_entry(t, entry - 1, hash, values, i, strings):
        slot = (slot + 1) & (t.n_slots - 1)
        entry = t.slots[slot]
    return entry


cdef inline void hash_values(
    const Tracker* t, const Dense* values, int64_t i, int64_t n, bint strings, uint64_t* hashes
) noexcept nogil:
    """Hash n values from `i` on, at most STEP, and begin to load their slots."""
    cdef int64_t k
    for k in range(n):
        hashes[k] = hash_value(t, values, i + k, strings)
        SMALTI_PREFETCH(&t.slots[hashes[k] & (t.n_slots - 1)])


cdef inline int _track(Tracker* t, const Dense* values, int64_t n, int kind, bint strings) except -1 nogil:
    """As `track`; called with a constant `strings`, so that the compiler makes two loops."""
    cdef int64_t i = 0, k, count, step = STEP, cost = file_width(kind)
    cdef uint64_t hashes[STEP]
    cdef uint32_t entry
    reserve_indices(t, n)
    while i < n:
        count = n - i if n - i < step else step
        reserve_entries(t, count)
        hash_values(t, values, i, count, strings, hashes)
        for k in range(count):
            entry = find_entry(t, hashes[k], values, i + k, strings)
            if entry == 0:
                if kind == K_VAR:
                    cost = uv32_size(values.sizes[i + k]) + <int64_t>values.sizes[i + k]
                elif kind == K_DECV:
                    cost = 1 + decimal_size(values.texts[i + k])
                entry = _add_entry(t, hashes[k], cost, values, i + k, strings)
                if entry == 0:
                    return 0
            t.indices[t.n_indices] = entry - 1
            t.n_indices += 1
        i += count
    return 0


cdef inline int track(Tracker* t, const Dense* values, int64_t n, int kind) except -1 nogil:
    """Enter n values; `t.alive` turns False when a dictionary of them can no longer win."""
    if kind == K_VAR or kind == K_DECV:
        return _track(t, values, n, kind, True)
    return _track(t, values, n, kind, False)
