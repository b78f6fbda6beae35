"""Encoded values as indices among the values of a dictionary: one lookup for each value of a row group's dictionary."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from smalti._core.cursor cimport load_uv32
from smalti._core.feed cimport Dense
from smalti._core.physical cimport K_DEC8, K_DECV, K_VAR, TypeNode, file_width
from smalti._core.tracker cimport STEP, Tracker, find_entry, hash_values

cdef enum:
    RUN = 1024              # values that are looked up together; a multiple of 8, so that packed indices begin a byte

cdef uint64_t SEED          # of hashes in this process

cdef struct Dictionary:
    Tracker* values         # NULL: what a column has becomes its own dictionary
    int width               # bytes of an index in Arrow's memory
    int64_t most            # the largest index that its type can hold

# Memory for a run of values.
cdef struct Run:
    uint64_t keys[RUN]
    const uint8_t* texts[RUN]
    uint32_t sizes[RUN]
    uint32_t found[RUN]     # the number of each entry, from 1 on; 0: none

cdef class DictionaryValues:
    cdef Dictionary dictionary
    cdef Tracker tracker
    cdef object _owner      # keeps the bytes of texts alive
    cdef readonly int64_t nbytes


cdef inline uint64_t _one_nan(uint64_t key, int width) noexcept nogil:
    """The bits of a floating-point number; all NaN have the same, because a dictionary of Arrow has one for all."""
    cdef uint64_t bits = key
    cdef float narrow
    cdef double wide
    if width == 4:
        memcpy(&narrow, &bits, 4)
        return key if narrow == narrow else <uint64_t>0x7FC00000
    memcpy(&wide, &bits, 8)
    return key if wide == wide else <uint64_t>0x7FF8000000000000


cdef inline void load_fixed(const uint8_t* values, int64_t n, int width, bint is_float, Dense* out) noexcept nogil:
    """Values of fixed width, as in Arrow's memory: those of 16 bytes by their addresses."""
    cdef int64_t i
    cdef uint64_t key
    for i in range(n):
        if width == 16:
            out.texts[i] = values + 16 * i
            out.sizes[i] = 16
        else:
            key = 0
            memcpy(&key, values + width * i, width)
            out.keys[i] = _one_nan(key, width) if is_float else key


cdef inline void load_texts(const uint8_t** at, int64_t n, Dense* out) noexcept nogil:
    """Serialised strings, which have been checked; moves `at` behind them."""
    cdef int64_t i
    for i in range(n):
        out.sizes[i] = load_uv32(at)
        out.texts[i] = at[0]
        at[0] += out.sizes[i]


cdef inline const uint8_t* after_values(const TypeNode* node, const uint8_t* at, int64_t n) noexcept nogil:
    """The address behind n serialised values of a fixed width in Arrow's memory, which have been checked."""
    cdef int64_t i
    if node.kind != K_DECV:
        return at + n * file_width(node.kind)
    for i in range(n):
        at += 1 + at[0]
    return at


cdef inline bint is_number(const TypeNode* node) noexcept nogil:
    """Whether values are compared as numbers of up to 64 bits, and not as texts."""
    return node.kind != K_VAR and node.kind != K_DEC8 and node.kind != K_DECV


cdef inline void _find(const Tracker* t, const Dense* values, int64_t n, bint strings, uint32_t* found) noexcept nogil:
    cdef uint64_t hashes[STEP]
    cdef int64_t i = 0, k, count, step = STEP
    while i < n:
        count = n - i if n - i < step else step
        hash_values(t, values, i, count, strings, hashes)
        for k in range(count):
            found[i + k] = find_entry(t, hashes[k], values, i + k, strings)
        i += count


cdef inline void find(const Tracker* t, const Dense* values, int64_t n, bint strings, uint32_t* found) noexcept nogil:
    """Look n values up; called with either constant, so that the compiler makes two loops."""
    if strings:
        _find(t, values, n, True, found)
    else:
        _find(t, values, n, False, found)
