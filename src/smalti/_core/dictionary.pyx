"""The values of a dictionary, found by value: made once, then read by all threads."""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from smalti._core.fault cimport grow
from smalti._core.feed cimport Dense
from smalti._core.tracker cimport (
    free_slot, append_entry, find_entry, grow_entries, hash_value, tracker_free, tracker_start,
)

SEED = int.from_bytes(os.urandom(8), "little")


def hash_of(const uint8_t[::1] text not None):
    """The hash of a string in this process. Others have another seed, so that no file can be made of values that
    collide."""
    cdef Tracker t
    cdef const uint8_t* at = &text[0] if text.shape[0] else NULL
    cdef uint32_t size = <uint32_t>text.shape[0]
    cdef Dense one = Dense(NULL, &at, &size)
    t.seed = SEED
    return hash_value(&t, &one, 0, True)


cdef class DictionaryValues:
    """The values of a dictionary. Of equal ones the first counts.

    Parameters
    ----------
    index_width, max_index : int
        Bytes of an index in Arrow's memory, and the largest that its type can hold.
    num_values : int
        Their number; -1 if they are not known, and what each column has becomes its own dictionary.
    width : int
        Bytes of a value of fixed width.
    data, offsets : buffers
        Of Arrow; `offsets` only of strings.
    is_float : bool
        Whether values are floating-point numbers, of which all NaN are equal.

    Attributes
    ----------
    nbytes : int
        Memory that finding values takes.
    """

    def __cinit__(
        self,
        int index_width,
        int64_t max_index,
        int64_t num_values=-1,
        int width=0,
        const uint8_t[::1] data=None,
        const int32_t[::1] offsets=None,
        bint is_float=False,
    ):
        cdef Tracker* t = &self.tracker
        cdef uint64_t key = 0, hash
        cdef const uint8_t* text = NULL
        cdef const uint8_t* values = &data[0] if data is not None and data.shape[0] else <const uint8_t*>&key
        cdef uint32_t size = 0
        cdef Dense one = Dense(&key, &text, &size)
        cdef int64_t i
        cdef bint strings = offsets is not None or width == 16, is_new
        self._owner = data, offsets
        self.dictionary.width = index_width
        self.dictionary.most = max_index
        if num_values < 0:
            return
        if num_values > max_index + 1:
            raise ValueError(f"{num_values} values for indices up to {max_index}")
        if offsets is not None and (offsets.shape[0] <= num_values or data is None):
            raise ValueError(f"{num_values} strings in {offsets.shape[0]} offsets")
        if offsets is None and (data is None or data.shape[0] // width < num_values):
            raise ValueError(f"{num_values} values of {width} bytes in too few bytes")
        self.dictionary.values = t
        t.seed = SEED
        # No larger than needed: a file of 10,000 columns has as many of these tables.
        t.n_slots = 8
        while t.n_slots < 2 * num_values:
            t.n_slots *= 2
        t.slots = <uint32_t*>grow(NULL, t.n_slots * sizeof(uint32_t))
        tracker_start(t, 0, 0, 0, 0)
        grow_entries(t, num_values + 1)
        self.nbytes = t.entries_capacity * (8 + 8 + sizeof(void*) + 4) + t.n_slots * sizeof(uint32_t)
        for i in range(num_values):
            if offsets is not None:
                size = <uint32_t>(offsets[i + 1] - offsets[i])
                text = values + offsets[i]
            else:
                load_fixed(values + i * width, 1, width, is_float, &one)
            hash = hash_value(t, &one, 0, strings)
            is_new = find_entry(t, hash, &one, 0, strings) == 0
            append_entry(t, hash, &one, 0, strings)
            if is_new:
                t.slots[free_slot(t, hash)] = <uint32_t>t.entries

    def __dealloc__(self):
        tracker_free(&self.tracker)
