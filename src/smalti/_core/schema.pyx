"""The schema block (section 2), kept in its encoded form: checked in one pass, searched without decoding.

Opening a file costs one walk over the block and three small arrays. Names, column order and Arrow fields are decoded on
demand.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from smalti._core.arrow_c cimport schema_capsule
from smalti._core.bits cimport bytes_less
from smalti._core.cursor cimport Cursor, cursor_over, need, read_u8, read_uv32, read_zz64
from smalti._core.fault cimport NONE, corrupt, corrupt_column, grow, zeroed
from smalti._core.physical cimport (
    BPE, MAX_BPE_RULES, MAX_NAME_SIZE, MAX_NAMES_SIZE, PhysicalColumns, T_BYTES, T_DATE, T_STRING, TypeNode,
    parse_descriptor, skip_descriptor,
)
from smalti._core.utf8 cimport valid_utf8

cdef enum:
    MIN_COLUMN_SIZE = 5     # shared, suffix size, one byte of suffix, type id, nullable
    MAX_ENCODED = 16        # names that are encoded in order to be found


cdef class SchemaBlock:
    """A validated schema block.

    Parameters
    ----------
    data : bytes
        The uncompressed block, without its length prefix.
    """

    def __cinit__(self, bytes data not None):
        cdef Cursor c
        cdef uint8_t* scratch
        cdef int32_t* expanded
        self._bytes = data
        self.data = data
        self.size = len(data)
        c = cursor_over(self.data, self.size)
        self.num_columns = read_uv32(&c)
        self.num_buckets = read_uv32(&c)
        if self.num_buckets < 1 or self.num_buckets > max(self.num_columns, 1):
            corrupt(b"bucket count out of range (1 to the number of columns)", c.pos, self.num_buckets,
                    max(self.num_columns, 1))
        self.name_encoding = <int>read_u8(&c)
        if self.name_encoding > BPE:
            corrupt(b"unknown name encoding", c.pos - 1, self.name_encoding, BPE)
        if self.name_encoding == BPE:
            self._parse_rules(&c)
        self.columns_at = c.pos
        if self.num_columns > (c.end - c.pos) // MIN_COLUMN_SIZE:
            corrupt(b"more columns than the block has room for", c.pos, self.num_columns,
                    (c.end - c.pos) // MIN_COLUMN_SIZE)
        self.descriptor_at = <uint32_t*>grow(NULL, self.num_columns * 4 + 4)
        self.type_ids = <uint8_t*>grow(NULL, self.num_columns + 1)
        self.order = <uint32_t*>grow(NULL, self.num_columns * 4 + 4)
        expanded = <int32_t*>grow(NULL, (MAX_NAME_SIZE + 1) * 4)
        scratch = NULL
        try:
            scratch = <uint8_t*>zeroed(max(2 * MAX_NAME_SIZE, self.num_columns) + 8)
            with nogil:
                self._parse_columns(&c, scratch, expanded)
                self._parse_order(&c, scratch)
        finally:
            free(scratch)
            free(expanded)

    def __dealloc__(self):
        free(self.descriptor_at)
        free(self.type_ids)
        free(self.order)
        free(self.expansions)

    # --- parsing ------------------------------------------------------------------------------------------------

    cdef int _parse_rules(self, Cursor* c) except -1:
        """Section 2.3: a rule may only use tokens before its own, which also keeps expansion from looping."""
        cdef int64_t n = read_uv32(c)
        cdef int64_t i, side, total = 0
        cdef int64_t sizes[MAX_BPE_RULES]
        cdef uint8_t token
        cdef uint8_t* at
        if n > MAX_BPE_RULES:
            return corrupt(b"too many BPE rules", c.pos, n, MAX_BPE_RULES)
        need(c, 2 * n)
        for i in range(n):
            sizes[i] = 0
            for side in range(2):
                token = c.data[c.pos + side]
                if token >= 0x80 + i:
                    return corrupt(b"BPE rule uses a token that is not defined before it", c.pos + side, token, 0x7F + i)
                if token == 0:
                    return corrupt(b"BPE rule holds NUL", c.pos + side, token, NONE)
                self.rules[i][side] = token
                sizes[i] += 1 if token < 0x80 else sizes[token - 0x80]
            if sizes[i] > MAX_NAME_SIZE:
                return corrupt(b"BPE rule expands to more bytes than a name may have", c.pos, sizes[i], MAX_NAME_SIZE)
            total += sizes[i]
            c.pos += 2
        self.num_rules = <int>n
        self.expansions = <uint8_t*>grow(NULL, total + 1)
        at = self.expansions
        for i in range(n):
            self.expansion_at[i] = <int32_t>(at - self.expansions)
            for side in range(2):
                token = self.rules[i][side]
                if token < 0x80:
                    at[0] = token
                    at += 1
                else:
                    memcpy(at, self.expansions + self.expansion_at[token - 0x80], sizes[token - 0x80])
                    at += sizes[token - 0x80]
        self.expansion_at[n] = <int32_t>(at - self.expansions)
        return 0

    cdef int _refuse_token(self, uint8_t token) except -1 nogil:
        if token == 0:
            return corrupt(b"name holds NUL", NONE, NONE, NONE)
        return corrupt(b"name uses a BPE token without a rule", NONE, token, 0x7F + self.num_rules)

    cdef bint _ascends(self, const uint8_t* a, int64_t na, const uint8_t* b, int64_t nb) noexcept nogil:
        """Whether the name of tokens `a` sorts strictly before the name of tokens `b`."""
        cdef const uint8_t* text_a = NULL
        cdef const uint8_t* text_b = NULL
        cdef int64_t left_a = 0, left_b = 0, common
        cdef int order
        while True:
            if left_a == 0 and left_b == 0:     # equal tokens expand to equal bytes
                while na and nb and a[0] == b[0]:
                    a += 1
                    b += 1
                    na -= 1
                    nb -= 1
            if left_a == 0:
                if na == 0:
                    return left_b > 0 or nb > 0
                left_a = _expand(self.expansions, self.expansion_at, a, &text_a)
                a += 1
                na -= 1
            if left_b == 0:
                if nb == 0:
                    return False
                left_b = _expand(self.expansions, self.expansion_at, b, &text_b)
                b += 1
                nb -= 1
            common = left_a if left_a < left_b else left_b
            order = memcmp(text_a, text_b, common)
            if order:
                return order < 0
            text_a += common
            text_b += common
            left_a -= common
            left_b -= common

    cdef int _parse_columns(self, Cursor* c, uint8_t* name, int32_t* expanded) except -1 nogil:
        """One pass over names and descriptors; `name` is scratch for the current encoded name.

        `expanded` is scratch for the number of bytes that the first tokens of the name stand for.
        """
        cdef int64_t i, k, shared, suffix, size = 0, total = 0, expanded_size = 0
        cdef int32_t n_nodes = 0
        cdef const uint8_t* at
        cdef bint ascends, bpe = self.name_encoding == BPE
        cdef int32_t sizes[256]     # bytes that each token stands for, 0 if it has no meaning
        cdef uint8_t first[256]     # the first of these bytes, which mostly decides the order of two names
        expanded[0] = 0
        for k in range(256):
            sizes[k] = 1 if 0 < k < 0x80 else 0
            first[k] = <uint8_t>k
        for k in range(self.num_rules):
            sizes[0x80 + k] = self.expansion_at[k + 1] - self.expansion_at[k]
            first[0x80 + k] = self.expansions[self.expansion_at[k]]
        for i in range(self.num_columns):
            shared = read_uv32(c)
            if shared > size:
                return corrupt_column(b"shared prefix is longer than the previous name", i, c.pos, shared, size)
            suffix = read_uv32(c)
            need(c, suffix)
            at = c.data + c.pos
            if suffix == 0:
                return corrupt_column(b"name is empty, or a prefix of the one before it", i, c.pos, 0, 1)
            if shared + suffix > MAX_NAME_SIZE:
                return corrupt_column(b"name is too long", i, c.pos, shared + suffix, MAX_NAME_SIZE)
            if bpe:
                # The shared tokens were measured with the previous name.
                expanded_size = expanded[shared]
                for k in range(suffix):
                    if sizes[at[k]] == 0:
                        return self._refuse_token(at[k])
                    expanded_size += sizes[at[k]]
                    expanded[shared + k + 1] = <int32_t>expanded_size
                if expanded_size > MAX_NAME_SIZE:
                    return corrupt_column(b"name is too long when expanded", i, c.pos, expanded_size, MAX_NAME_SIZE)
                if shared < size and first[name[shared]] != first[at[0]]:
                    ascends = first[name[shared]] < first[at[0]]
                else:
                    ascends = self._ascends(name + shared, size - shared, at, suffix)
            else:
                expanded_size = shared + suffix
                ascends = bytes_less(name + shared, size - shared, at, suffix)
            if not ascends:
                return corrupt_column(b"names are not in ascending order, or repeat", i, c.pos, NONE, NONE)
            memcpy(name + shared, at, suffix)
            size = shared + suffix
            if not bpe:
                _check_name(name, shared, size, i, c.pos)
            total += expanded_size
            if total > MAX_NAMES_SIZE:
                return corrupt_column(b"names expand to too many bytes", i, c.pos, total, MAX_NAMES_SIZE)
            c.pos += suffix
            self.descriptor_at[i] = <uint32_t>c.pos
            self.type_ids[i] = <uint8_t>skip_descriptor(c, 0, &n_nodes)
        return 0

    cdef int _parse_order(self, Cursor* c, uint8_t* seen) except -1 nogil:
        """Section 2.2: a permutation as deltas; without it, columns are in sorted order."""
        cdef int64_t i, delta = 0, index = 0
        if c.pos == c.end:
            for i in range(self.num_columns):
                self.order[i] = <uint32_t>i
            return 0
        memset(seen, 0, self.num_columns)
        for i in range(self.num_columns):
            read_zz64(c, &delta)
            # One comparison rejects both ends, and a delta that would overflow the sum.
            if delta > self.num_columns or delta < -self.num_columns:
                return corrupt_column(b"column order points outside the columns", i, c.pos, delta, self.num_columns)
            index += delta
            if index < 0 or index >= self.num_columns or seen[index]:
                return corrupt_column(b"column order is not a permutation", i, c.pos, index, NONE)
            seen[index] = 1
            self.order[i] = <uint32_t>index
        if c.pos != c.end:
            return corrupt(b"bytes after the column order", c.pos, c.end - c.pos, 0)
        return 0

    # --- queries --------------------------------------------------------------------------------------------------

    def find(self, list names not None):
        """Sorted indices of the named columns, -1 where there is none; one walk over the encoded names.

        A writer applies its BPE rules in order, so the encoded form of a name is known. Other writers may split names
        differently: names that are not found by their encoded form are searched among the decoded names. So are more
        than MAX_ENCODED names, because encoding a name takes longer than decoding one.
        """
        cdef dict wanted = {}
        cdef list found = [-1] * len(names)
        cdef Py_ssize_t i
        cdef list missing
        cdef bint bpe = self.name_encoding == BPE
        if not bpe or len(names) <= MAX_ENCODED:
            for i, name in enumerate(names):
                try:
                    text = name.encode()
                except UnicodeEncodeError:
                    continue
                if not bpe or text.isascii():       # above ASCII, bytes of a BPE name are tokens
                    wanted.setdefault(self._encode(text), []).append(i)
            self._find_encoded(wanted, found)
        missing = [i for i in range(len(names)) if found[i] < 0]
        if missing and bpe:
            position = {name: i for i, name in enumerate(self.names())}
            for i in missing:
                found[i] = position.get(names[i], -1)
        return found

    cdef _find_encoded(self, dict wanted, list found):
        """Find encoded names: candidates by size and last bytes, then compared in full. Fills in `found`."""
        cdef int64_t i, size, left = len(wanted)
        cdef uint64_t bits[1024]
        cdef uint64_t key
        cdef Cursor c = cursor_over(self.data, self.size)
        cdef uint8_t* buffer = <uint8_t*>zeroed(MAX_NAME_SIZE + 9)
        cdef uint8_t* name = buffer + 8     # 8 bytes before a short name can be loaded
        cdef bytes target
        memset(bits, 0, sizeof(bits))
        for target in wanted:
            if len(target) <= MAX_NAME_SIZE:
                memcpy(name, <const uint8_t*>target, len(target))
                key = _fingerprint(name, len(target))
                bits[key >> 6] |= (<uint64_t>1) << (key & 63)
        try:
            for i in range(self.num_columns):
                if left == 0:
                    break
                size = self._next_name(&c, i, name)
                key = _fingerprint(name, size)
                if bits[key >> 6] >> (key & 63) & 1:
                    indices = wanted.get(name[:size])
                    if indices is not None:
                        left -= 1
                        for at in indices:
                            found[at] = i
        finally:
            free(buffer)

    cdef bytes _encode(self, bytes name):
        """Apply the BPE rules in order, greedily from the left (section 2.3)."""
        cdef int rule
        cdef int64_t at, n = len(name)
        cdef bytes tokens
        cdef uint8_t* t
        cdef const void* found
        if self.name_encoding != BPE or n < 2:
            return name
        tokens = PyBytes_FromStringAndSize(PyBytes_AS_STRING(name), n)
        t = <uint8_t*>PyBytes_AS_STRING(tokens)
        for rule in range(self.num_rules):
            at = 0
            while at + 1 < n:
                found = memchr(t + at, self.rules[rule][0], n - 1 - at)
                if found == NULL:
                    break
                at = <const uint8_t*>found - t
                if t[at + 1] == self.rules[rule][1]:
                    t[at] = <uint8_t>(0x80 + rule)
                    memmove(t + at + 1, t + at + 2, n - at - 2)
                    n -= 1
                at += 1
        return tokens[:n]

    cdef int64_t _next_name(self, Cursor* c, int64_t column, uint8_t* name) except -1:
        """Turn the encoded name of the column before into that of `column`, and return its size."""
        cdef int64_t shared, suffix
        c.pos = self.columns_at
        if column:
            c.pos = self.descriptor_at[column - 1]
            _skip_known_descriptor(c, self.type_ids[column - 1])
        shared = read_uv32(c)
        suffix = read_uv32(c)
        memcpy(name + shared, c.data + c.pos, suffix)
        return shared + suffix

    def names(self):
        """All names, sorted."""
        cdef int64_t i, k, size, part, n
        cdef Cursor c = cursor_over(self.data, self.size)
        cdef uint8_t* tokens = <uint8_t*>grow(NULL, 2 * MAX_NAME_SIZE)
        cdef uint8_t* text = tokens + MAX_NAME_SIZE
        cdef const uint8_t* expanded
        cdef list names = []
        try:
            for i in range(self.num_columns):
                size = self._next_name(&c, i, tokens)
                if self.name_encoding != BPE:
                    names.append(tokens[:size].decode())
                    continue
                n = 0
                for k in range(size):
                    part = _expand(self.expansions, self.expansion_at, &tokens[k], &expanded)
                    if part == 1:
                        text[n] = expanded[0]
                    else:
                        memcpy(text + n, expanded, part)
                    n += part
                names.append(text[:n].decode())
        finally:
            free(tokens)
        return names

    def assign_buckets(self, int64_t num_buckets):
        """Change the number of buckets, for a writer that chooses it by its first data."""
        if not 1 <= num_buckets <= max(self.num_columns, 1):
            raise ValueError(f"{num_buckets} buckets for {self.num_columns} columns")
        self.num_buckets = num_buckets

    def column_order(self):
        """Sorted index of each column in the order it was written (section 2.2)."""
        return [self.order[i] for i in range(self.num_columns)]

    def bucket_of(self, int64_t column):
        """Bucket of a position (section 2.4)."""
        return column * self.num_buckets // self.num_columns

    def bucket_columns(self, int64_t bucket):
        """First position of a bucket, and of the next one."""
        return (
            (bucket * self.num_columns + self.num_buckets - 1) // self.num_buckets,
            ((bucket + 1) * self.num_columns + self.num_buckets - 1) // self.num_buckets,
        )

    def physical_columns(self, int64_t bucket):
        """The physical columns of a bucket."""
        return self._nodes(range(*self.bucket_columns(bucket)))

    def physical_range(self, int64_t first, int64_t stop):
        """The physical columns of a range of positions."""
        return self._nodes(range(first, stop))

    def physical_at(self, list positions not None):
        """The physical columns of some positions, as if these were a bucket."""
        return self._nodes(positions)

    cdef PhysicalColumns _nodes(self, columns):
        """The physical columns of a sequence of positions."""
        cdef PhysicalColumns out = PhysicalColumns.__new__(PhysicalColumns)
        cdef Cursor c = cursor_over(self.data, self.size)
        cdef int32_t at = 0, next_free
        cdef int64_t i
        out._block = self._bytes
        out.num_columns = next_free = <int32_t>len(columns)
        for i in columns:
            if not 0 <= i < self.num_columns:
                raise IndexError(f"column {i} of {self.num_columns}")
            c.pos = self.descriptor_at[i]
            skip_descriptor(&c, 0, &out.num_physical)
        out.nodes = <TypeNode*>grow(NULL, (out.num_physical + 1) * sizeof(TypeNode))
        for i in columns:
            c.pos = self.descriptor_at[i]
            parse_descriptor(&c, out.nodes, at, &next_free)
            at += 1
        out.first_column = columns[0] if columns else 0
        return out

    def arrow_schema(self, list columns not None, list names not None):
        """An `arrow_schema` capsule of the columns with these positions; the caller knows their names."""
        if len(names) != len(columns):
            raise ValueError(f"{len(columns)} columns but {len(names)} names")
        return schema_capsule(self._nodes(columns), [name.encode() for name in names])


cdef inline int64_t _expand(
    const uint8_t* expansions, const int32_t* expansion_at, const uint8_t* token, const uint8_t** text
) noexcept nogil:
    """Find the bytes that a token stands for; returns their number."""
    if token[0] < 0x80:
        text[0] = token
        return 1
    text[0] = expansions + expansion_at[token[0] - 0x80]
    return expansion_at[token[0] - 0x7F] - expansion_at[token[0] - 0x80]


cdef int _check_name(const uint8_t* name, int64_t shared, int64_t size, int64_t column, int64_t offset) except -1 nogil:
    """Check a front-coded name; a suffix of plain ASCII after an ASCII byte cannot make a valid name invalid."""
    cdef int64_t i
    cdef uint8_t high = name[shared - 1] if shared else 0
    for i in range(shared, size):
        high |= name[i]
    if high >= 0x80 and not valid_utf8(name, size):
        return corrupt_column(b"name is not UTF-8", column, offset, NONE, NONE)
    if memchr(name + shared, 0, size - shared) != NULL:
        return corrupt_column(b"name holds NUL", column, offset, NONE, NONE)
    return 0


cdef inline uint64_t _fingerprint(const uint8_t* name, int64_t size) noexcept nogil:
    """16 bits of the size and the last 8 bytes; `name` has 8 readable bytes before it."""
    cdef uint64_t tail
    if size == 0:
        return 0
    memcpy(&tail, name + size - 8, 8)
    if size < 8:
        tail &= ~<uint64_t>0 << (64 - 8 * size)
    return ((tail ^ <uint64_t>size) * <uint64_t>0x9E3779B97F4A7C15) >> 48


cdef inline int _skip_known_descriptor(Cursor* c, uint8_t type_id) except -1:
    """Step over a descriptor that was validated when the block was parsed."""
    cdef int32_t n_nodes = 0
    if type_id <= T_DATE or type_id == T_STRING or type_id == T_BYTES:
        c.pos += 2      # type id and nullable, no parameters
        return 0
    return skip_descriptor(c, 0, &n_nodes)
