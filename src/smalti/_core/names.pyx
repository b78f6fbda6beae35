"""Packing a schema block (section 2): BPE training, front coding, and the choice between the two.

Training merges the most frequent pair of tokens up to 128 times. A merge updates the counts of the pairs around it
instead of counting again, and occurrences are searched many bytes at a time, so that a rare pair costs little.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove

from smalti._core.cursor cimport put_uv32, uv32_size
from smalti._core.fault cimport grow, zeroed
from smalti._core.physical cimport BPE, FRONT, MAX_BPE_RULES

cdef enum:
    STRIDE = 32         # tokens compared together when searching for a pair
    END = 0             # after every name; no name holds NUL, so no merge crosses it

# All names in one buffer, each followed by END.
cdef struct Names:
    int64_t n
    uint8_t* tokens
    int64_t size


cdef inline int64_t _end_of(const Names* names, int64_t at) noexcept nogil:
    while names.tokens[at] != END:
        at += 1
    return at


cdef inline int64_t _common(const uint8_t* a, int64_t na, const uint8_t* b, int64_t nb) noexcept nogil:
    cdef int64_t k = 0, n = na if na < nb else nb
    while k < n and a[k] == b[k]:
        k += 1
    return k


cdef int64_t _front_coded_size(const Names* names) noexcept nogil:
    """F of section 2.3: shared size, suffix size and suffix of every name."""
    cdef int64_t i, end, shared, before = 0, before_size = 0, at = 0, total = 0
    for i in range(names.n):
        end = _end_of(names, at)
        shared = _common(names.tokens + before, before_size, names.tokens + at, end - at)
        total += uv32_size(<uint32_t>shared) + uv32_size(<uint32_t>(end - at - shared)) + end - at - shared
        before = at
        before_size = end - at
        at = end + 1
    return total


# --- training -----------------------------------------------------------------------------------------------------

# How often each pair of tokens occurs; rows[left] is the sum over its pairs, to skip tokens that start none.
cdef struct Counts:
    uint32_t pairs[65536]
    int64_t rows[256]


cdef inline void _count(Counts* counts, uint8_t left, uint8_t right, int by) noexcept nogil:
    counts.pairs[(left << 8) | right] += by
    counts.rows[left] += by


cdef inline int64_t _find_pair(const uint8_t* t, int64_t at, int64_t n, uint8_t left, uint8_t right) noexcept nogil:
    """Index of the first pair (left, right) at or after `at`, n if there is none."""
    cdef int64_t k
    cdef uint8_t found
    while at + STRIDE + 1 <= n:
        found = 0
        for k in range(STRIDE):     # no exit inside, so that the compiler makes it a few wide instructions
            found |= (t[at + k] == left) & (t[at + k + 1] == right)
        if found:
            break
        at += STRIDE
    while at + 1 < n and not (t[at] == left and t[at + 1] == right):
        at += 1
    return at if at + 1 < n else n


cdef void _merge(Names* names, Counts* counts, uint8_t left, uint8_t right, uint8_t token) noexcept nogil:
    """Replace the pair everywhere, greedily from the left, and update the counts. Pairs with END are not counted."""
    cdef uint8_t* t = names.tokens
    cdef int64_t n = names.size
    cdef int64_t at = _find_pair(t, 0, n, left, right), out = at, following
    cdef bint merged = False        # whether the token before was part of a merge
    while at < n:
        # Pairs that vanish: the pair before (unless the merge before removed it), this pair, the pair after.
        if out > 0 and t[out - 1] != END and not merged:
            _count(counts, t[out - 1], left, -1)
        _count(counts, left, right, -1)
        if t[at + 2] != END:        # the last token is END: there is one more
            _count(counts, right, t[at + 2], -1)
        if out > 0 and t[out - 1] != END:
            _count(counts, t[out - 1], token, 1)
        t[out] = token
        out += 1
        at += 2
        if at + 1 < n and t[at] == left and t[at + 1] == right:
            merged = True
            continue
        merged = False
        if t[at] != END:
            _count(counts, token, t[at], 1)
        following = _find_pair(t, at, n, left, right)
        memmove(t + out, t + at, following - at)
        out += following - at
        at = following
    names.size = out


cdef int _train(Names* names, uint8_t* rules) except -1 nogil:
    """Merge in place; returns the number of rules, two bytes each in `rules`."""
    cdef Counts* counts = <Counts*>zeroed(sizeof(Counts))
    cdef int64_t k
    cdef int left, right, rule, n_rules = 0
    cdef uint32_t best, at
    for k in range(names.size - 1):
        if names.tokens[k] != END and names.tokens[k + 1] != END:
            _count(counts, names.tokens[k], names.tokens[k + 1], 1)
    for rule in range(MAX_BPE_RULES):
        best = at = 0
        for left in range(1, 0x80 + rule):
            if counts.rows[left] == 0:
                continue
            for right in range(1, 0x80 + rule):
                if counts.pairs[(left << 8) | right] >= best:     # ties go to the larger pair
                    best = counts.pairs[(left << 8) | right]
                    at = (left << 8) | right
        if best < 2:
            break
        rules[2 * rule] = at >> 8
        rules[2 * rule + 1] = at & 0xFF
        n_rules += 1
        _merge(names, counts, at >> 8, at & 0xFF, 0x80 + rule)
    free(counts)
    return n_rules


# --- packing ------------------------------------------------------------------------------------------------------

cdef int _load(Names* names, list given) except -1:
    cdef int64_t total = 0, size
    names.n = len(given)
    for name in given:
        total += PyBytes_GET_SIZE(name) + 1
    names.tokens = <uint8_t*>grow(NULL, total + 1)
    names.size = total
    total = 0
    for name in given:
        size = PyBytes_GET_SIZE(name)
        memcpy(names.tokens + total, PyBytes_AS_STRING(name), size)
        names.tokens[total + size] = END
        total += size + 1
    return 0


def pack_schema_block(list names not None, list descriptors not None, list order not None, int64_t num_buckets):
    """The uncompressed schema block.

    Parameters
    ----------
    names : list of bytes
        UTF-8, ascending, without repeats, without NUL.
    descriptors : list of bytes
        The packed type of each.
    order : list of int
        For each column as the user ordered them, its index in `names`.
    num_buckets : int
    """
    cdef Names raw, merged
    cdef uint8_t rules[2 * MAX_BPE_RULES]
    cdef int n_rules = 0
    cdef bint ascii_only = all([name.isascii() for name in names])
    cdef Names* chosen
    cdef int64_t plain
    cdef bytearray out = bytearray()
    raw.tokens = merged.tokens = NULL
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
        _put(out, len(names))
        _put(out, num_buckets)
        # One byte. Not by `append`: with shared utility code, Cython 3.3 leaves out a macro that its `append` needs.
        _put(out, BPE if chosen == &merged else FRONT)
        if chosen == &merged:
            _put(out, n_rules)
            out += rules[:2 * n_rules]
        _put_columns(out, chosen, descriptors)
    finally:
        free(raw.tokens)
        free(merged.tokens)
    _put_order(out, order)
    return bytes(out)


cdef _put(bytearray out, int64_t value):
    cdef uint8_t buffer[8]
    cdef uint8_t* end = put_uv32(buffer, <uint32_t>value)
    out += buffer[:end - buffer]


cdef _put_columns(bytearray out, const Names* names, list descriptors):
    cdef int64_t i, end, shared, before = 0, before_size = 0, at = 0
    for i in range(names.n):
        end = _end_of(names, at)
        shared = _common(names.tokens + before, before_size, names.tokens + at, end - at)
        _put(out, shared)
        _put(out, end - at - shared)
        out += names.tokens[at + shared:end]
        out += <bytes>descriptors[i]
        before = at
        before_size = end - at
        at = end + 1


cdef _put_order(bytearray out, list order):
    """Zigzag deltas (section 2.2)."""
    cdef int64_t previous = 0, index, delta
    for index in order:
        delta = index - previous
        _put(out, <int64_t>((<uint64_t>delta << 1) ^ <uint64_t>(delta >> 63)))
        previous = index
