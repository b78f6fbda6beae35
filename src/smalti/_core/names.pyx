"""Packing a schema block (section 2): BPE training, front coding, and the choice between the two.

Training merges the most frequent pair of tokens up to 128 times. A merge updates the counts of the pairs around it
instead of counting again, and occurrences are searched many bytes at a time, so that a rare pair costs little.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove

from smalti._core.bits cimport __builtin_ctzll
from smalti._core.cursor cimport put_uv32, uv32_size
from smalti._core.fault cimport grow, zeroed
from smalti._core.physical cimport BPE, FRONT, MAX_BPE_RULES

cdef enum:
    STRIDE = 128        # tokens compared together when searching for a pair
    END = 0             # after every name; no name holds NUL, so no merge crosses it

cdef uint64_t ONES = 0x0101010101010101

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
    cdef uint64_t lefts = left * ONES, rights = right * ONES, a, b, differs, same
    cdef int64_t k
    cdef uint8_t found
    while at + STRIDE + 1 <= n:
        for k in range(STRIDE // 8):        # pairs are often close: eight at a time find the place
            memcpy(&a, t + at, 8)
            memcpy(&b, t + at + 1, 8)
            differs = (a ^ lefts) | (b ^ rights)
            same = (differs - ONES) & ~differs & (ONES << 7)    # the lowest bit is that of the first byte that is 0
            if same:
                return at + (__builtin_ctzll(same) >> 3)
            at += 8
        found = 0
        while not found and at + STRIDE + 1 <= n:
            for k in range(STRIDE):     # no exit inside, so that the compiler makes it a few wide instructions
                found |= (t[at + k] == left) & (t[at + k + 1] == right)
            if not found:
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
    cdef uint32_t best, at, top
    cdef const uint32_t* row
    for k in range(names.size - 1):
        if names.tokens[k] != END and names.tokens[k + 1] != END:
            _count(counts, names.tokens[k], names.tokens[k + 1], 1)
    for rule in range(MAX_BPE_RULES):
        best = at = 0
        for left in range(1, 0x80 + rule):
            if counts.rows[left] == 0:
                continue
            row = &counts.pairs[left << 8]
            top = 0
            for right in range(1, 0x80 + rule):     # no exit inside, as above
                top = row[right] if row[right] > top else top
            if top >= best:         # ties go to the larger pair
                right = 0x80 + rule - 1
                while row[right] != top:
                    right -= 1
                best = top
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
        return _packed(chosen, rules, n_rules if chosen == &merged else -1, descriptors, order, num_buckets)
    finally:
        free(raw.tokens)
        free(merged.tokens)


cdef bytes _packed(
    const Names* names, const uint8_t* rules, int n_rules, list descriptors, list order, int64_t num_buckets
):
    """The block of names that are front coded; `n_rules` is -1 without BPE."""
    cdef int64_t i, end, shared, before = 0, before_size = 0, at = 0, previous = 0, index, delta
    # Numbers take up to 5 bytes: two for each name, one for each column of the order.
    cdef int64_t most = 32 + 2 * MAX_BPE_RULES + names.size + 10 * names.n + 5 * len(order)
    cdef bytes descriptor, block
    cdef uint8_t* start
    cdef uint8_t* out
    for descriptor in descriptors:
        most += PyBytes_GET_SIZE(descriptor)
    block = PyBytes_FromStringAndSize(NULL, most)
    start = out = <uint8_t*>PyBytes_AS_STRING(block)
    out = put_uv32(out, <uint32_t>names.n)
    out = put_uv32(out, <uint32_t>num_buckets)
    out = put_uv32(out, FRONT if n_rules < 0 else BPE)
    if n_rules >= 0:
        out = put_uv32(out, <uint32_t>n_rules)
        memcpy(out, rules, 2 * n_rules)
        out += 2 * n_rules
    for i in range(names.n):
        end = _end_of(names, at)
        shared = _common(names.tokens + before, before_size, names.tokens + at, end - at)
        out = put_uv32(out, <uint32_t>shared)
        out = put_uv32(out, <uint32_t>(end - at - shared))
        memcpy(out, names.tokens + at + shared, end - at - shared)
        out += end - at - shared
        descriptor = descriptors[i]
        memcpy(out, PyBytes_AS_STRING(descriptor), PyBytes_GET_SIZE(descriptor))
        out += PyBytes_GET_SIZE(descriptor)
        before = at
        before_size = end - at
        at = end + 1
    for index in order:         # zigzag deltas (section 2.2)
        delta = index - previous
        out = put_uv32(out, <uint32_t>((<uint64_t>delta << 1) ^ <uint64_t>(delta >> 63)))
        previous = index
    return block[:out - start]
