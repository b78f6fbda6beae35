from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from smalti._core.cursor cimport Cursor

# A test compares these constants with those of smalti.spec.

# Section 2.5.
cdef enum TypeId:
    T_BOOLEAN = 0
    T_TINYINT = 1
    T_SMALLINT = 2
    T_INTEGER = 3
    T_BIGINT = 4
    T_FLOAT = 5
    T_DOUBLE = 6
    T_DATE = 7
    T_CHAR = 8
    T_VARCHAR = 9
    T_STRING = 10
    T_BINARY = 11
    T_VARBINARY = 12
    T_BYTES = 13
    T_DECIMAL = 14
    T_TIME = 15
    T_TIMESTAMP = 16
    T_TIMESTAMP_LTZ = 17
    T_ARRAY = 18
    T_MAP = 19

# Section 2.3.
cdef enum NameEncoding:
    FRONT = 0
    BPE = 1

# Section 5.
cdef enum Encoding:
    PLAIN = 0
    CONST = 1
    DICT = 2
    ALL_NULL = 3

# The representation of the values of a physical column (section 4): in the file, and in Arrow's memory.
cdef enum Kind:
    K_BOOL      # 1 byte                        | 1 bit
    K_W1        # 1 byte                        | the same
    K_W2        # 2 bytes big-endian            | 2 bytes
    K_W4        # 4 bytes big-endian            | 4 bytes
    K_W8        # 8 bytes big-endian            | 8 bytes
    K_TS9       # 8 bytes millis + 4 bytes nanos| 8 bytes of nanoseconds
    K_DEC8      # 8 bytes big-endian            | 16 bytes
    K_DECV      # varint + two's complement     | 16 bytes
    K_VAR       # varint + bytes                | offsets and bytes
    K_LEN       # 4 bytes big-endian            | offsets of a list or map

# The precision of times that are counted in these units.
cdef enum:
    MILLISECONDS = 3
    MICROSECONDS = 6
    NANOSECONDS = 9

cdef enum:
    MAX_BPE_RULES = 128
    MAX_COMPACT_PRECISION = 18
    MAX_DECIMAL_PRECISION = 38
    MAX_NAME_SIZE = 65535
    MAX_NAMES_SIZE = 268435456
    MAX_NESTING = 30
    MAX_UNBACKED_ROWS = 134217728
    MAX_ROWS = 268435456
    MAX_BLOCK_SIZE = 2147483647
    MAX_ZSTD_RATIO = 32768

# One type descriptor; in a bucket, one physical column (section 6). Strings point into the schema block.
cdef struct TypeNode:
    uint8_t type_id
    uint8_t nullable
    uint8_t kind
    uint8_t n_children      # 0, ARRAY 1, MAP 2
    uint8_t precision
    int8_t scale
    int32_t child[2]        # indices of nodes, -1 where there is none
    const uint8_t* name     # field name; NULL for a top-level column, whose name the caller knows
    int32_t name_size
    const uint8_t* text     # zone of TIMESTAMP_LTZ, entries-field name of MAP
    int32_t text_size

cdef extern from *:
    """
    /*                                         BOOL W1 W2 W4 W8 TS9 DEC8 DECV VAR LEN */
    static const int smalti_file_widths[] =   {1,   1, 2, 4, 8, 12, 8,   0,   0,  4};
    static const int smalti_arrow_widths[] =  {1,   1, 2, 4, 8, 8,  16,  16,  4,  4};
    """
    const int smalti_file_widths[10]
    const int smalti_arrow_widths[10]


cdef inline int file_width(int kind) noexcept nogil:
    """Bytes of one value in the file, 0 if they vary."""
    return smalti_file_widths[kind]


cdef inline int arrow_width(int kind) noexcept nogil:
    """Bytes of one value in Arrow's memory; of booleans, before they are packed; of variable ones, their offset."""
    return smalti_arrow_widths[kind]


cdef inline bint has_statistics(const TypeNode* node) noexcept nogil:
    """Section 11: the orderable types."""
    return node.type_id <= T_STRING or (node.kind != K_DECV and T_DECIMAL <= node.type_id <= T_TIMESTAMP_LTZ)


cdef inline bint is_string(const TypeNode* node) noexcept nogil:
    return T_CHAR <= node.type_id <= T_STRING


cdef inline bint is_float(const TypeNode* node) noexcept nogil:
    return node.type_id == T_FLOAT or node.type_id == T_DOUBLE


cdef int read_head(Cursor* c, TypeNode* node) except -1 nogil
cdef int skip_descriptor(Cursor* c, int depth, int32_t* n_nodes) except -1 nogil
cdef int parse_descriptor(Cursor* c, TypeNode* nodes, int32_t at, int32_t* next_free) except -1 nogil

# The physical columns of one bucket: top-level columns first, then their children depth first.
cdef class PhysicalColumns:
    cdef object _block          # keeps the strings alive
    cdef TypeNode* nodes
    cdef readonly int32_t num_columns
    cdef readonly int32_t num_physical
    cdef readonly int32_t first_column
