from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from smalti._core.cursor cimport Cursor
from smalti._core.physical cimport PhysicalColumns, MAX_BPE_RULES

cdef class SchemaBlock:
    cdef object _bytes
    cdef const uint8_t* data
    cdef int64_t size
    cdef readonly int64_t num_columns
    cdef readonly int64_t num_buckets
    cdef readonly int name_encoding
    cdef readonly int num_rules
    cdef int64_t columns_at           # offset of the first column
    cdef uint8_t rules[MAX_BPE_RULES][2]
    cdef uint8_t* expansions          # of all rules, back to back
    cdef int32_t expansion_at[MAX_BPE_RULES + 1]
    cdef uint32_t* descriptor_at      # per column, sorted order
    cdef uint8_t* type_ids            # per column, sorted order
    cdef uint32_t* order              # position of written column i

    cdef int _parse_rules(self, Cursor* c) except -1
    cdef int _parse_columns(self, Cursor* c, uint8_t* name, int32_t* expanded) except -1 nogil
    cdef int _parse_order(self, Cursor* c, uint8_t* seen) except -1 nogil
    cdef int _refuse_token(self, uint8_t token) except -1 nogil
    cdef bint _ascends(self, const uint8_t* a, int64_t na, const uint8_t* b, int64_t nb) noexcept nogil
    cdef int64_t _next_name(self, Cursor* c, int64_t column, uint8_t* name) except -1
    cdef _find_encoded(self, dict wanted, list found)
    cdef bytes _encode(self, bytes name)
    cdef PhysicalColumns _nodes(self, columns)
