"""Dictionary tracking (section 5): which distinct values a column has, given up as soon as DICT is out of the question.

One tracker per thread serves column after column, so its memory does not grow with the width of a table.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from smalti._core.bits cimport index_width
from smalti._core.cursor cimport uv32_size
from smalti._core.decimals cimport decimal_size
from smalti._core.fault cimport grow


cdef void tracker_free(Tracker* t) noexcept nogil:
    free(t.slots)
    free(t.hashes)
    free(t.keys)
    free(t.texts)
    free(t.sizes)
    free(t.indices)


cdef int tracker_start(
    Tracker* t, int64_t max_entries, int64_t max_bytes, int64_t n_values, int64_t plain_bytes
) except -1 nogil:
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


cdef int _grow(Tracker* t) except -1 nogil:
    """Room for one more entry, and a table at most half full."""
    cdef int64_t i, slot, capacity
    if t.entries == t.entries_capacity:
        capacity = 2 * t.entries_capacity + 512
        t.hashes = <uint64_t*>grow(t.hashes, capacity * sizeof(uint64_t))
        t.keys = <uint64_t*>grow(t.keys, capacity * sizeof(uint64_t))
        t.texts = <const uint8_t**>grow(t.texts, capacity * sizeof(uint8_t*))
        t.sizes = <uint32_t*>grow(t.sizes, capacity * sizeof(uint32_t))
        t.entries_capacity = capacity
    if 2 * (t.entries + 1) > t.n_slots:
        t.slots = <uint32_t*>grow(t.slots, 2 * t.n_slots * sizeof(uint32_t))
        t.n_slots *= 2
        memset(t.slots, 0, t.n_slots * sizeof(uint32_t))
        for i in range(t.entries):
            slot = t.hashes[i] & (t.n_slots - 1)
            while t.slots[slot]:
                slot = (slot + 1) & (t.n_slots - 1)
            t.slots[slot] = <uint32_t>(i + 1)
    return 0


cdef bint _admit(Tracker* t, int64_t cost) except -1 nogil:
    """Whether one more entry of `cost` bytes leaves a dictionary that can win; makes room for it if so.

    More entries never make a dictionary smaller, so the first "no" is final.
    """
    cdef int64_t entries = t.entries + 1, entry_bytes = t.entry_bytes + cost
    cdef int64_t size = uv32_size(<uint32_t>entries) + entry_bytes + ((t.n_values * index_width(entries) + 7) >> 3)
    if entries > t.max_entries or entry_bytes > t.max_bytes or (entries > 1 and size >= t.plain_bytes):
        t.alive = False
        return False
    _grow(t)
    return True


cdef inline uint32_t _enter(Tracker* t, uint64_t h, int64_t cost) noexcept nogil:
    """Put the entry that was admitted, and whose value is stored already, into the table; returns its number + 1."""
    cdef int64_t slot = h & (t.n_slots - 1)
    while t.slots[slot]:
        slot = (slot + 1) & (t.n_slots - 1)
    t.hashes[t.entries] = h
    t.entries += 1
    t.entry_bytes += cost
    t.slots[slot] = <uint32_t>t.entries
    return <uint32_t>t.entries


cdef int _reserve_indices(Tracker* t, int64_t n) except -1 nogil:
    if t.n_indices + n > t.indices_capacity:
        t.indices_capacity = 2 * (t.n_indices + n)
        t.indices = <uint32_t*>grow(t.indices, t.indices_capacity * sizeof(uint32_t))
    return 0


cdef int track_repeats(Tracker* t, int64_t n) except -1 nogil:
    """The only entry so far, n times more."""
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


cdef int track_keys(Tracker* t, const uint64_t* keys, int64_t n, int width) except -1 nogil:
    """Numbers of `width` serialised bytes."""
    cdef int64_t i, slot, mask
    cdef uint64_t h
    cdef uint32_t entry
    _reserve_indices(t, n)
    mask = t.n_slots - 1
    for i in range(n):
        h = _mix(keys[i])
        slot = h & mask
        while True:
            entry = t.slots[slot]
            if entry == 0:
                if not _admit(t, width):
                    return 0
                t.keys[t.entries] = keys[i]
                entry = _enter(t, h, width)
                mask = t.n_slots - 1
                break
            if t.keys[entry - 1] == keys[i]:
                break
            slot = (slot + 1) & mask
        t.indices[t.n_indices] = entry - 1
        t.n_indices += 1
    return 0


cdef int track_texts(Tracker* t, const uint8_t** texts, const uint32_t* sizes, int64_t n, bint decimals) except -1 nogil:
    """Texts, or wide decimals (16 bytes each, serialised shorter)."""
    cdef int64_t i, slot, mask, cost
    cdef uint64_t h
    cdef uint32_t entry
    _reserve_indices(t, n)
    mask = t.n_slots - 1
    for i in range(n):
        h = _hash(texts[i], sizes[i])
        slot = h & mask
        while True:
            entry = t.slots[slot]
            if entry == 0:
                cost = 1 + decimal_size(texts[i]) if decimals else uv32_size(sizes[i]) + <int64_t>sizes[i]
                if not _admit(t, cost):
                    return 0
                t.texts[t.entries] = texts[i]
                t.sizes[t.entries] = sizes[i]
                entry = _enter(t, h, cost)
                mask = t.n_slots - 1
                break
            if (
                t.hashes[entry - 1] == h and t.sizes[entry - 1] == sizes[i]
                and memcmp(t.texts[entry - 1], texts[i], sizes[i]) == 0
            ):
                break
            slot = (slot + 1) & mask
        t.indices[t.n_indices] = entry - 1
        t.n_indices += 1
    return 0
