"""Packing a schema block (section 2): BPE training, front coding, and the choice between the two.

Training merges the most frequent pair of tokens up to 128 times. Counts are kept up to date at the places a merge
touches instead of being taken again, so a merge costs one pass over the names and nothing more.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from smalti._core.cursor cimport put_uv32, uv32_size

cdef enum:
    MAX_RULES = 128


cdef struct Names:
    int64_t n
    uint8_t* tokens
    int64_t* start      # n + 1: where each name's room begins
    int64_t* size       # of each name now; merging makes names shorter within their room


cdef int64_t _front_coded_size(const Names* names) noexcept nogil:
    """F of section 2.3: shared size, suffix size and suffix of every name."""
    cdef int64_t i, shared, total = 0
    for i in range(names.n):
        shared = _shared(names, i)
        total += uv32_size(<uint32_t>shared) + uv32_size(<uint32_t>(names.size[i] - shared)) + names.size[i] - shared
    return total


cdef inline int64_t _shared(const Names* names, int64_t i) noexcept nogil:
    cdef const uint8_t* a
    cdef const uint8_t* b
    cdef int64_t n, k = 0
    if i == 0:
        return 0
    a = names.tokens + names.start[i - 1]
    b = names.tokens + names.start[i]
    n = names.size[i - 1] if names.size[i - 1] < names.size[i] else names.size[i]
    while k < n and a[k] == b[k]:
        k += 1
    return k


cdef inline void _count(uint32_t* counts, int64_t* rows, uint8_t left, uint8_t right, int by) noexcept nogil:
    counts[(left << 8) | right] += by
    rows[left] += by


cdef int _train(Names* names, uint8_t* rules) noexcept nogil:
    """Merge in place; returns the number of rules, two bytes each in `rules`."""
    cdef uint32_t* counts = <uint32_t*>calloc(65536, sizeof(uint32_t))
    cdef int64_t rows[256]      # pairs by their left token, to pass over tokens that start none
    cdef int64_t i, k
    cdef int left, right, rule, n_rules = 0
    cdef uint32_t best, at
    if counts == NULL:
        return -1
    for i in range(256):
        rows[i] = 0
    for i in range(names.n):
        for k in range(names.start[i], names.start[i] + names.size[i] - 1):
            _count(counts, rows, names.tokens[k], names.tokens[k + 1], 1)
    for rule in range(MAX_RULES):
        best = at = 0
        for left in range(0x80 + rule):
            if rows[left] == 0:
                continue
            for right in range(0x80 + rule):
                if counts[(left << 8) | right] >= best:     # ties go to the larger pair
                    best = counts[(left << 8) | right]
                    at = (left << 8) | right
        if best < 2:
            break
        rules[2 * rule] = at >> 8
        rules[2 * rule + 1] = at & 0xFF
        n_rules += 1
        for i in range(names.n):
            names.size[i] = _merge(
                names.tokens + names.start[i], names.size[i], at >> 8, at & 0xFF, 0x80 + rule, counts, rows
            )
    free(counts)
    return n_rules


cdef int64_t _merge(
    uint8_t* t, int64_t n, uint8_t left, uint8_t right, uint8_t token, uint32_t* counts, int64_t* rows
) noexcept nogil:
    """Replace the pair greedily from the left; returns the new size."""
    cdef int64_t i = 0, out
    # Up to the first occurrence nothing moves.
    while i + 1 < n and not (t[i] == left and t[i + 1] == right):
        i += 1
    if i + 1 >= n:
        return n
    out = i
    cdef bint merged = False        # whether the token before, in the old text, was part of a merge
    while i < n:
        if i + 1 < n and t[i] == left and t[i + 1] == right:
            # Old pairs that vanish: the one before (unless the previous merge took it), this one, the one after.
            if out > 0 and not merged:
                _count(counts, rows, t[out - 1], left, -1)
            _count(counts, rows, left, right, -1)
            if i + 2 < n:
                _count(counts, rows, right, t[i + 2], -1)
            if out > 0:
                _count(counts, rows, t[out - 1], token, 1)
            t[out] = token
            i += 2
            merged = True
        else:
            if merged:
                _count(counts, rows, token, t[i], 1)
            t[out] = t[i]
            i += 1
            merged = False
        out += 1
    return out


cdef int _load(Names* names, list texts) except -1:
    cdef int64_t i, total = 0
    names.n = len(texts)
    for text in texts:
        total += PyBytes_GET_SIZE(text)
    names.tokens = <uint8_t*>malloc(total + 1)
    names.start = <int64_t*>malloc((names.n + 1) * sizeof(int64_t))
    names.size = <int64_t*>malloc((names.n + 1) * sizeof(int64_t))
    if names.tokens == NULL or names.start == NULL or names.size == NULL:
        raise MemoryError()
    total = 0
    for i in range(names.n):
        text = texts[i]
        names.start[i] = total
        names.size[i] = PyBytes_GET_SIZE(text)
        memcpy(names.tokens + total, PyBytes_AS_STRING(text), names.size[i])
        total += names.size[i]
    return 0


cdef void _free(Names* names) noexcept:
    free(names.tokens)
    free(names.start)
    free(names.size)


def pack_schema_block(list names not None, list descriptors not None, list order not None, int64_t num_buckets):
    """The uncompressed schema block.

    Parameters
    ----------
    names : list of bytes
        UTF-8, ascending, without repeats.
    descriptors : list of bytes
        The packed type of each.
    order : list of int
        For each column as the user ordered them, its place in `names`.
    num_buckets : int
    """
    cdef Names raw, merged
    cdef uint8_t rules[2 * MAX_RULES]
    cdef int n_rules = 0
    cdef bint ascii_only = all([name.isascii() for name in names])
    cdef Names* chosen
    cdef int64_t plain
    cdef bytearray out = bytearray()
    raw.tokens = merged.tokens = NULL
    raw.start = raw.size = merged.start = merged.size = NULL
    try:
        _load(&raw, names)
        chosen = &raw
        if ascii_only:
            _load(&merged, names)
            with nogil:
                n_rules = _train(&merged, rules)
                plain = _front_coded_size(&raw)
                # The 1 stands for the rule count, even where that takes two bytes.
                if n_rules > 0 and 1 + 2 * n_rules + _front_coded_size(&merged) < plain:
                    chosen = &merged
            if n_rules < 0:
                raise MemoryError()
        _put(out, len(names))
        _put(out, num_buckets)
        out.append(chosen == &merged)
        if chosen == &merged:
            _put(out, n_rules)
            out += rules[:2 * n_rules]
        _put_columns(out, chosen, descriptors)
    finally:
        _free(&raw)
        _free(&merged)
    _put_order(out, order)
    return bytes(out)


cdef _put(bytearray out, int64_t value):
    cdef uint8_t buffer[8]
    cdef uint8_t* end = put_uv32(buffer, <uint32_t>value)
    out += buffer[:end - buffer]


cdef _put_columns(bytearray out, const Names* names, list descriptors):
    cdef int64_t i, shared
    cdef const uint8_t* text
    for i in range(names.n):
        shared = _shared(names, i)
        _put(out, shared)
        _put(out, names.size[i] - shared)
        text = names.tokens + names.start[i]
        out += text[shared:names.size[i]]
        out += <bytes>descriptors[i]


cdef _put_order(bytearray out, list order):
    """Zigzag deltas (section 2.2)."""
    cdef int64_t previous = 0, place, delta
    for place in order:
        delta = place - previous
        _put(out, (delta << 1) ^ (delta >> 63))
        previous = place
