"""Arrow's C data interface: allocating and releasing its structures, and making schemas from type descriptors.

One allocation holds an array's bookkeeping and all its buffers, so that a 10,000-column batch costs 10,000
allocations, not 40,000. `live_arrays` proves that nothing leaks.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free
from libc.string cimport memcpy, memset, strlen

from smalti._core.fault cimport grow, zeroed
from smalti._core.physical cimport PhysicalColumns, MICROSECONDS, MILLISECONDS, TypeNode, T_DECIMAL, T_MAP

cdef extern from *:
    """
    static int64_t smalti_live_arrays = 0;
    #define SMALTI_ADD(at, n) __atomic_add_fetch((at), (n), __ATOMIC_ACQ_REL)
    #define SMALTI_LOAD(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)

    /* Large blocks that were released, kept for the next arrays of about their size: up to eight, 64 MiB together.
       The system's allocator unmaps such blocks, and mapping their pages again costs more than filling them.
       A kept block begins with its size. With AddressSanitizer none is kept, so that it notices uses after release. */
    #include <stdlib.h>
    #define SMALTI_SLOTS 8
    static void* smalti_kept[SMALTI_SLOTS];
    static int64_t smalti_kept_bytes = 0;

    static int smalti_keep(void* block, int64_t size) {
    #if !defined(__SANITIZE_ADDRESS__)
        if (SMALTI_ADD(&smalti_kept_bytes, size) <= (64 << 20)) {
            *(int64_t*)block = size;
            for (int i = 0; i < SMALTI_SLOTS; i++) {
                void* none = NULL;
                if (__atomic_compare_exchange_n(
                        &smalti_kept[i], &none, block, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return 1;
            }
        }
        SMALTI_ADD(&smalti_kept_bytes, -size);
    #endif
        return 0;
    }

    static void* smalti_take(int64_t size) {
        for (int i = 0; i < SMALTI_SLOTS; i++) {
            void* block = __atomic_exchange_n(&smalti_kept[i], NULL, __ATOMIC_ACQ_REL);
            if (block == NULL) continue;
            int64_t has = *(int64_t*)block;
            SMALTI_ADD(&smalti_kept_bytes, -has);
            if (has >= size && has / 2 <= size) return block;
            if (!smalti_keep(block, has)) free(block);
        }
        return NULL;
    }
    """
    int64_t smalti_live_arrays
    int64_t SMALTI_ADD(int64_t* at, int64_t n) nogil
    int64_t SMALTI_LOAD(int64_t* at) nogil
    bint smalti_keep(void* block, int64_t size) nogil
    void* smalti_take(int64_t size) nogil

cdef enum:
    LARGE = 1 << 20     # bytes of the smallest block that is kept


def live_arrays():
    """How many arrays handed to Arrow have not been released yet."""
    return SMALTI_LOAD(&smalti_live_arrays)


# --- arrays -------------------------------------------------------------------------------------------------------

cdef void _release_array(ArrowArray* array) noexcept nogil:
    cdef Block* block = <Block*>array.private_data
    cdef int64_t i
    for i in range(array.n_children):
        if block.children[i] != NULL:
            release_array(block.children[i])
            free(block.children[i])
    if array.dictionary != NULL:
        release_array(array.dictionary)
        free(array.dictionary)
    if block.zeros != NULL:
        drop_zeros(block.zeros)
    if block.size < LARGE or not smalti_keep(block, block.size):
        free(block)
    array.release = NULL
    SMALTI_ADD(&smalti_live_arrays, -1)


cdef void release_array(ArrowArray* array) noexcept nogil:
    if array.release != NULL:
        array.release(array)


cdef uint8_t* new_array(ArrowArray* out, int64_t payload) except NULL nogil:
    """Make `out` an array that owns `payload` bytes, and return their address (64-byte aligned, not cleared)."""
    cdef int64_t head = (sizeof(Block) + 63) // 64 * 64
    cdef int64_t size = head + 64 + payload
    cdef uint8_t* at = NULL
    cdef Block* block = <Block*>smalti_take(size) if size >= LARGE else NULL
    if block == NULL:
        block = <Block*>grow(NULL, size)
    else:
        size = (<int64_t*>block)[0]
    memset(block, 0, sizeof(Block))
    block.size = size
    memset(out, 0, sizeof(ArrowArray))
    out.buffers = block.buffers
    out.children = block.children
    out.private_data = block
    out.release = _release_array
    SMALTI_ADD(&smalti_live_arrays, 1)
    at = <uint8_t*>block + head
    return at + (-<int64_t>at & 63)


cdef ArrowArray* new_child(ArrowArray* parent, int index) except NULL nogil:
    """Add an empty child, which `parent` releases; its n_children must already count it."""
    parent.children[index] = <ArrowArray*>zeroed(sizeof(ArrowArray))
    return parent.children[index]


cdef Zeros* new_zeros(int64_t size) except NULL nogil:
    cdef Zeros* zeros = <Zeros*>zeroed(size + 128)
    zeros.data = <uint8_t*>zeros + 64       # behind the head, aligned
    zeros.size = size
    zeros.references = 1
    return zeros


cdef void share_zeros(ArrowArray* out, Zeros* zeros) noexcept nogil:
    SMALTI_ADD(&zeros.references, 1)
    (<Block*>out.private_data).zeros = zeros


cdef void drop_zeros(Zeros* zeros) noexcept nogil:
    if SMALTI_ADD(&zeros.references, -1) == 0:
        free(zeros)


# --- schemas ------------------------------------------------------------------------------------------------------

cdef void _release_schema(ArrowSchema* schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i] != NULL:
            if schema.children[i].release != NULL:
                schema.children[i].release(schema.children[i])
            free(schema.children[i])
    free(schema.children)
    free(schema.private_data)
    schema.release = NULL


cdef void _free_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, b"arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef int _init_schema(
    ArrowSchema* out, const char* format, const uint8_t* name, int64_t name_size, bint nullable, int64_t n_children
) except -1:
    """Fill `out` with empty children; one allocation, at private_data, has its format and name."""
    cdef int64_t i, format_size = strlen(format) + 1
    cdef char* strings = <char*>grow(NULL, format_size + name_size + 1)
    memset(out, 0, sizeof(ArrowSchema))
    memcpy(strings, format, format_size)
    if name_size:
        memcpy(strings + format_size, name, name_size)
    strings[format_size + name_size] = 0
    out.format = strings
    out.name = strings + format_size
    out.flags = ARROW_FLAG_NULLABLE if nullable else 0
    out.private_data = strings
    out.release = _release_schema
    if n_children:
        out.children = <ArrowSchema**>zeroed(n_children * sizeof(ArrowSchema*))
        out.n_children = n_children
        for i in range(n_children):
            out.children[i] = <ArrowSchema*>zeroed(sizeof(ArrowSchema))
    return 0


cdef char _time_unit(int precision) noexcept:
    return b"m" if precision <= MILLISECONDS else b"u" if precision <= MICROSECONDS else b"n"


#: Arrow's format strings by type id; NULL for types with parameters.
cdef const char* FORMATS[T_MAP + 1]
FORMATS[:] = [
    b"b", b"c", b"s", b"i", b"l", b"f", b"g", b"tdD", b"u", b"u", b"u", b"z", b"z", b"z", NULL, b"ttm", NULL, NULL,
    b"+l", b"+m",
]


cdef int _fill_schema(
    ArrowSchema* out, const TypeNode* nodes, int32_t at, const uint8_t* name, int64_t name_size
) except -1:
    cdef const TypeNode* node = &nodes[at]
    cdef const TypeNode* child
    cdef ArrowSchema* parent = out
    cdef char buffer[32]
    cdef const char* format = FORMATS[node.type_id]
    cdef bytes zone
    cdef int i
    if node.type_id == T_DECIMAL:
        snprintf(buffer, 32, b"d:%d,%d", <int>node.precision, <int>node.scale)
        format = buffer
    elif format == NULL:
        zone = b"ts" + bytes([_time_unit(node.precision)]) + b":" + (node.text[:node.text_size] if node.text else b"")
        format = zone
    _init_schema(out, format, name, name_size, node.nullable, 1 if node.n_children else 0)
    if node.type_id == T_MAP:
        parent = out.children[0]
        _init_schema(parent, b"+s", node.text, node.text_size, False, 2)
    for i in range(node.n_children):
        child = &nodes[node.child[i]]
        _fill_schema(parent.children[i], nodes, node.child[i], child.name, child.name_size)
    return 0


cdef object schema_capsule(PhysicalColumns nodes, list names):
    """Make a struct schema whose fields are the logical columns of `nodes`, under `names` (UTF-8 bytes)."""
    cdef int32_t i
    cdef ArrowSchema* schema = <ArrowSchema*>zeroed(sizeof(ArrowSchema))
    cdef bytes name
    capsule = PyCapsule_New(schema, b"arrow_schema", _free_schema_capsule)
    _init_schema(schema, b"+s", NULL, 0, False, nodes.num_columns)
    for i, name in enumerate(names):
        _fill_schema(schema.children[i], nodes.nodes, i, name, len(name))
    return capsule


def schema_metadata(capsule):
    """List the key-value metadata of an `arrow_schema` capsule in order, with repeated keys.

    Arrow serialises compute expressions as such pairs; pyarrow's own accessor drops the repeated ones.
    """
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, b"arrow_schema")
    cdef const char* at = schema.metadata
    cdef int32_t n, size, i
    cdef list pairs = [], parts
    if at == NULL:
        return pairs
    memcpy(&n, at, 4)
    at += 4
    for i in range(n):
        parts = []
        for _ in range(2):
            memcpy(&size, at, 4)
            parts.append(at[4:4 + size])
            at += 4 + size
        pairs.append((parts[0], parts[1]))
    return pairs


def field_kinds(capsule):
    """List, for the fields of an `arrow_schema` capsule, keys that are equal if type and nullability are equal.

    The key is None if a format string does not describe the type: nested, dictionary and extension types.
    """
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, b"arrow_schema")
    cdef ArrowSchema* field
    cdef int64_t i
    cdef list kinds = []
    for i in range(schema.n_children):
        field = schema.children[i]
        if field.n_children or field.dictionary != NULL or field.metadata != NULL:
            kinds.append(None)
        else:
            kinds.append((field.format, field.flags & ARROW_FLAG_NULLABLE))
    return kinds
