"""Type descriptors (section 2.5) as flat arrays of nodes, which decoding and encoding follow."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

from smalti._core.cursor cimport Cursor, need, read_u8, read_uv32
from smalti._core.fault cimport NONE, corrupt
from smalti._core.utf8 cimport valid_name


#: The kind of every type id; of DECIMAL and TIMESTAMP that of small precisions.
cdef uint8_t KINDS[T_MAP + 1]
KINDS[:] = [
    K_BOOL, K_W1, K_W2, K_W4, K_W8, K_W4, K_W8, K_W4, K_VAR, K_VAR, K_VAR, K_VAR, K_VAR, K_VAR, K_DEC8, K_W4, K_W8,
    K_W8, K_LEN, K_LEN,
]


cdef uint8_t _kind_of(int type_id, int64_t precision) noexcept nogil:
    if type_id == T_DECIMAL and precision > MAX_COMPACT_PRECISION:
        return K_DECV
    if T_TIMESTAMP <= type_id <= T_TIMESTAMP_LTZ and precision > MICROSECONDS:
        return K_TS9
    return KINDS[type_id]


cdef int _read_string(Cursor* c, const uint8_t** string, int32_t* size) except -1 nogil:
    cdef int64_t n = read_uv32(c)
    need(c, n)
    if not valid_name(c.data + c.pos, n):
        return corrupt(b"string in a type descriptor is not UTF-8, or holds NUL (size)", c.pos, n, NONE)
    string[0] = c.data + c.pos
    size[0] = <int32_t>n
    c.pos += n
    return 0


cdef int read_head(Cursor* c, TypeNode* node) except -1 nogil:
    """Read a descriptor without its children."""
    cdef int64_t start = c.pos
    cdef int64_t value, scale
    memset(node, 0, sizeof(TypeNode))
    node.child[0] = node.child[1] = -1
    value = read_u8(c)
    if value > T_MAP:
        return corrupt(b"unknown type id", start, value, T_MAP)
    node.type_id = <uint8_t>value
    value = read_u8(c)
    if value > 1:
        return corrupt(b"nullable flag is neither 0 nor 1", c.pos - 1, value, 1)
    node.nullable = <uint8_t>value
    value = 0
    if node.type_id in (T_CHAR, T_VARCHAR, T_BINARY, T_VARBINARY):
        read_uv32(c)    # a length that Arrow has no field for
    elif node.type_id == T_DECIMAL:
        value = read_uv32(c)
        if value < 1 or value > MAX_DECIMAL_PRECISION:
            return corrupt(b"DECIMAL precision out of range (1 to 38)", start, value, MAX_DECIMAL_PRECISION)
        scale = <int32_t><uint32_t>read_uv32(c)    # a signed byte, sign-extended to 32 bits
        if scale < -128 or scale > value:
            return corrupt(b"DECIMAL scale out of range (-128 to the precision)", start, scale, value)
        node.scale = <int8_t>scale
    elif T_TIME <= node.type_id <= T_TIMESTAMP_LTZ:
        value = read_uv32(c)
        if value > NANOSECONDS:
            return corrupt(b"precision of a time out of range (0 to 9)", start, value, NANOSECONDS)
        if node.type_id == T_TIMESTAMP_LTZ:
            _read_string(c, &node.text, &node.text_size)
    elif node.type_id == T_ARRAY:
        node.n_children = 1
    elif node.type_id == T_MAP:
        node.n_children = 2
        _read_string(c, &node.text, &node.text_size)
    node.precision = <uint8_t>value
    node.kind = _kind_of(node.type_id, value)
    return 0


cdef int skip_descriptor(Cursor* c, int depth, int32_t* n_nodes) except -1 nogil:
    """Validate one descriptor and step over it; adds its nodes to `n_nodes` and returns its type id."""
    cdef TypeNode node
    cdef const uint8_t* text
    cdef int32_t size
    cdef int i
    if depth > MAX_NESTING:
        return corrupt(b"types are nested too deep", c.pos, depth, MAX_NESTING)
    read_head(c, &node)
    n_nodes[0] += 1
    for i in range(node.n_children):
        _read_string(c, &text, &size)
        skip_descriptor(c, depth + 1, n_nodes)
    return node.type_id


cdef int parse_descriptor(Cursor* c, TypeNode* nodes, int32_t at, int32_t* next_free) except -1 nogil:
    """Parse a descriptor that `skip_descriptor` has validated; children go depth first from `next_free` (section 6)."""
    cdef TypeNode* node = &nodes[at]
    cdef const uint8_t* name
    cdef int32_t child, size
    cdef int i
    read_head(c, node)
    for i in range(node.n_children):
        child = next_free[0]
        next_free[0] += 1
        node.child[i] = child
        _read_string(c, &name, &size)
        parse_descriptor(c, nodes, child, next_free)
        nodes[child].name = name
        nodes[child].name_size = size
    return 0


cdef class PhysicalColumns:
    """The physical columns of one bucket; made by `SchemaBlock.physical_columns`."""

    def __dealloc__(self):
        free(self.nodes)

    def paths(self, list names):
        """(top-level column, path) of every physical column, for the layout: `a`, then `a.element`, `m.key`, `m.value` ..."""
        cdef int32_t at
        cdef int i
        cdef list paths = [(at, names[at]) for at in range(self.num_columns)]
        paths += [None] * (self.num_physical - self.num_columns)
        for at in range(self.num_physical):        # parents come before their children
            column, path = paths[at]
            for i in range(self.nodes[at].n_children):
                role = "element" if self.nodes[at].type_id == T_ARRAY else ("key", "value")[i]
                paths[self.nodes[at].child[i]] = column, f"{path}.{role}"
        return paths

    def type_ids(self):
        """Type id of every physical column."""
        return [self.nodes[i].type_id for i in range(self.num_physical)]

    def subtree(self, int32_t node):
        """A physical column and everything below it, in order."""
        cdef list out = [node]
        cdef int i
        if not 0 <= node < self.num_physical:
            raise IndexError(f"physical column {node} of {self.num_physical}")
        for i in range(self.nodes[node].n_children):
            out += self.subtree(self.nodes[node].child[i])
        return out
