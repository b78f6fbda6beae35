"""The row group index (section 10), walked once, checked in full, kept as flat arrays of entries."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort

from smalti._core.allowance cimport Allowance
from smalti._core.bits cimport bytes_less
from smalti._core.cursor cimport Cursor, cursor_over, load_be, need, read_uv32
from smalti._core.fault cimport NONE, corrupt, grow
from smalti._core.physical cimport K_VAR, TypeNode, file_width, has_statistics, is_string, read_head
from smalti._core.schema cimport SchemaBlock
from smalti._core.utf8 cimport valid_utf8
from smalti._core.values cimport key_less, load_values

cdef enum:
    MIN_GROUP_SIZE = 3      # rows, number of entries, number of statistics
    MIN_ENTRY_SIZE = 11     # bucket, u64 offset, two sizes
    MIN_RECORD_SIZE = 2     # column, number of nulls
    MARKED = 16             # records for each mark, which is on the first

cdef struct Entry:
    int64_t offset
    uint32_t bucket
    uint32_t size
    uint32_t bulk_size

cdef struct Group:
    int64_t rows
    int64_t first_entry
    int64_t first_mark
    uint32_t n_entries
    uint32_t n_statistics
    bint is_sorted          # whether each record is of a later column than the one before

# Statistics of one column; the bounds are NULL where every value is null.
cdef struct Record:
    int64_t column
    int64_t null_count
    const uint8_t* low
    int64_t low_size
    const uint8_t* high
    int64_t high_size


cdef int _by_bucket(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const Entry*>a).bucket, y = (<const Entry*>b).bucket
    return (x > y) - (x < y)


cdef int _by_offset(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const Entry*>a).offset, y = (<const Entry*>b).offset
    return (x > y) - (x < y)


cdef class RowGroupIndex:
    """A validated index.

    Parameters
    ----------
    data : bytes
        The index section.
    schema : SchemaBlock
    num_row_groups : int
        From the footer.
    data_end : int
        The offset of the schema block, at which bucket data must end.
    compressed : bool
        Whether the file is zstd; without compression a bucket's two sizes agree and nothing is paged.
    allowance : Allowance, optional
        Counts the entries, which take several times the bytes of the section.
    """

    cdef object _bytes
    cdef SchemaBlock _schema
    cdef const uint8_t* data
    cdef int64_t size
    cdef Group* groups
    cdef Entry* entries
    cdef int64_t* marks     # where records of statistics begin
    cdef readonly int64_t num_row_groups
    cdef readonly int64_t num_rows

    def __cinit__(
        self, bytes data not None, SchemaBlock schema not None, int64_t num_row_groups, int64_t data_end,
        bint compressed, Allowance allowance=None
    ):
        cdef Cursor c
        cdef int64_t total = 0, groups_size, entries_size, most_marks, marks_size
        self._bytes = data
        self._schema = schema
        self.data = data
        self.size = len(data)
        self.num_row_groups = num_row_groups
        if num_row_groups > self.size // MIN_GROUP_SIZE:
            corrupt(b"more row groups than the index has room for", NONE, num_row_groups, self.size // MIN_GROUP_SIZE)
        groups_size = (num_row_groups + 1) * <int64_t>sizeof(Group)
        entries_size = (self.size // MIN_ENTRY_SIZE + 1) * <int64_t>sizeof(Entry)
        # A group with records has a mark for every sixteenth, and one more for the others.
        most_marks = min(num_row_groups, (self.size - num_row_groups * MIN_GROUP_SIZE) // MIN_RECORD_SIZE)
        marks_size = (self.size // (MIN_RECORD_SIZE * MARKED) + most_marks + 1) * <int64_t>sizeof(int64_t)
        if allowance is not None:
            allowance.take(groups_size + entries_size + marks_size)
        self.groups = <Group*>grow(NULL, groups_size)
        self.entries = <Entry*>grow(NULL, entries_size)
        self.marks = <int64_t*>grow(NULL, marks_size)
        c = cursor_over(self.data, self.size)
        with nogil:
            total = self._parse(&c, data_end, compressed)
            self._check_overlap(total)

    def __dealloc__(self):
        free(self.groups)
        free(self.entries)
        free(self.marks)

    cdef int64_t _parse(self, Cursor* c, int64_t data_end, bint compressed) except -1 nogil:
        cdef int64_t g, total = 0, n_marks = 0
        cdef Group* group
        for g in range(self.num_row_groups):
            group = &self.groups[g]
            group.rows = read_uv32(c)
            self.num_rows += group.rows
            group.first_entry = total
            group.n_entries = <uint32_t>read_uv32(c)
            if group.n_entries > self._schema.num_buckets:
                return corrupt(b"more buckets in a row group than in the file", c.pos, group.n_entries,
                               self._schema.num_buckets)
            self._parse_entries(c, group, data_end, compressed)
            total += group.n_entries
            group.n_statistics = <uint32_t>read_uv32(c)
            group.first_mark = n_marks
            n_marks += self._mark_statistics(c, group)
        if c.pos != c.end:
            return corrupt(b"bytes after the last row group of the index", c.pos, c.end - c.pos, 0)
        return total

    cdef int _parse_entries(self, Cursor* c, Group* group, int64_t data_end, bint compressed) except -1 nogil:
        cdef int64_t i, at, bucket
        cdef uint64_t offset
        cdef Entry* entry
        cdef bint ascending = True
        need(c, <int64_t>group.n_entries * MIN_ENTRY_SIZE)
        for i in range(group.n_entries):
            at = c.pos
            entry = &self.entries[group.first_entry + i]
            bucket = read_uv32(c)
            if bucket >= self._schema.num_buckets:
                return corrupt(b"bucket id out of range", at, bucket, self._schema.num_buckets - 1)
            entry.bucket = <uint32_t>bucket
            if i and bucket <= self.entries[group.first_entry + i - 1].bucket:
                ascending = False
            need(c, 8)
            offset = load_be(c.data + c.pos, 8)
            c.pos += 8
            entry.size = <uint32_t>read_uv32(c)
            entry.bulk_size = <uint32_t>read_uv32(c)
            if offset > <uint64_t>data_end or entry.size > data_end - <int64_t>offset:
                return corrupt(b"bucket reaches past the schema block (offset, end of bucket data)", at,
                               <int64_t>(offset & <uint64_t>0x7FFFFFFFFFFFFFFF), data_end)
            entry.offset = <int64_t>offset
            if entry.size == 0 and entry.bulk_size:
                return corrupt(b"empty bucket with an uncompressed size", at, entry.bulk_size, 0)
            if not compressed and entry.size and entry.bulk_size == 0:
                return corrupt(b"paged bucket in an uncompressed file", at, NONE, NONE)
            if not compressed and entry.size != entry.bulk_size:
                return corrupt(b"sizes of an uncompressed bucket differ", at, entry.bulk_size, entry.size)
        if not ascending:
            qsort(&self.entries[group.first_entry], group.n_entries, sizeof(Entry), _by_bucket)
            for i in range(1, group.n_entries):
                entry = &self.entries[group.first_entry + i]
                if entry.bucket == self.entries[group.first_entry + i - 1].bucket:
                    return corrupt(b"bucket listed twice in a row group", c.pos, entry.bucket, NONE)
        return 0

    cdef int _check_overlap(self, int64_t total) except -1 nogil:
        """Refuse buckets that share bytes. Writers store buckets in order; only other files need the sort."""
        cdef int64_t i, end = 0, n = 0
        cdef Entry* sorted_entries
        for i in range(total):
            if self.entries[i].size == 0:
                continue
            if self.entries[i].offset < end:
                break
            end = self.entries[i].offset + self.entries[i].size
        else:
            return 0
        sorted_entries = <Entry*>grow(NULL, total * sizeof(Entry))
        for i in range(total):
            if self.entries[i].size:
                sorted_entries[n] = self.entries[i]
                n += 1
        qsort(sorted_entries, n, sizeof(Entry), _by_offset)
        end = 0
        for i in range(n):
            if sorted_entries[i].offset < end:
                total = sorted_entries[i].offset
                free(sorted_entries)
                return corrupt(b"buckets overlap (start of one, end of the one before)", NONE, total, end)
            end = sorted_entries[i].offset + sorted_entries[i].size
        free(sorted_entries)
        return 0

    # --- statistics (section 11) --------------------------------------------------------------------------------

    cdef int64_t _read_value(self, Cursor* c, TypeNode* node, const uint8_t** value, uint64_t* key) except -1 nogil:
        """Step over one value, without its length prefix; returns its size. A number is decoded into `key`."""
        cdef uint64_t decoded[2]
        cdef int64_t size = file_width(node.kind)
        if node.kind == K_VAR:
            size = read_uv32(c)
        need(c, size)
        value[0] = c.data + c.pos
        if is_string(node) and not valid_utf8(value[0], size):
            return corrupt(b"statistics of a text column are not UTF-8", c.pos, NONE, NONE)
        if node.kind != K_VAR:
            decoded[0] = 0
            load_values(node, value[0], 1, <uint8_t*>decoded)   # refuses values that no column could hold
            key[0] = decoded[0]
        c.pos += size
        return size

    cdef int _read_record(self, Cursor* c, Group* group, Record* record) except -1 nogil:
        cdef int64_t at = c.pos
        cdef uint64_t low = 0, high = 0
        cdef Cursor d = cursor_over(self._schema.data, self._schema.size)
        cdef TypeNode node
        record.column = read_uv32(c)
        if record.column >= self._schema.num_columns:
            return corrupt(b"statistics on a column that does not exist", at, record.column,
                           self._schema.num_columns - 1)
        record.null_count = read_uv32(c)
        if record.null_count > group.rows:
            return corrupt(b"statistics count more nulls than rows", at, record.null_count, group.rows)
        d.pos = self._schema.descriptor_at[record.column]
        read_head(&d, &node)
        if not has_statistics(&node):
            return corrupt(b"statistics on a column that has no order (type id)", NONE, node.type_id, NONE)
        record.low = record.high = NULL
        if record.null_count < group.rows:
            record.low_size = self._read_value(c, &node, &record.low, &low)
            record.high_size = self._read_value(c, &node, &record.high, &high)
            if (
                bytes_less(record.high, record.high_size, record.low, record.low_size) if node.kind == K_VAR
                else key_less(&node, high, low)
            ):
                return corrupt(b"statistics whose minimum is above their maximum (column)", at, record.column, NONE)
        return 0

    cdef int64_t _mark_statistics(self, Cursor* c, Group* group) except -1 nogil:
        """Check the records, and mark some of them; returns the number of marks."""
        cdef int64_t i, last = -1
        cdef Record record
        if group.n_statistics > (c.end - c.pos) // MIN_RECORD_SIZE:
            return corrupt(b"more statistics than the index has room for", c.pos, group.n_statistics,
                           (c.end - c.pos) // MIN_RECORD_SIZE)
        group.is_sorted = True
        for i in range(group.n_statistics):
            if i % MARKED == 0:
                self.marks[group.first_mark + i // MARKED] = c.pos
            self._read_record(c, group, &record)
            if record.column <= last:
                group.is_sorted = False
            last = record.column
        return (<int64_t>group.n_statistics + MARKED - 1) // MARKED

    # --- queries --------------------------------------------------------------------------------------------------

    cdef Group* _group(self, int64_t group) except NULL:
        if not 0 <= group < self.num_row_groups:
            raise IndexError(f"row group {group} of {self.num_row_groups}")
        return &self.groups[group]

    def rows(self, int64_t group):
        """Rows of a row group."""
        return self._group(group).rows

    def num_statistics(self, int64_t group):
        """How many statistics records a row group has."""
        return self._group(group).n_statistics

    def bucket(self, int64_t group, int64_t bucket):
        """(offset, size, uncompressed size) as the file has them; zeros where nothing is stored for the bucket."""
        cdef Group* g = self._group(group)
        cdef Entry* first = &self.entries[g.first_entry]
        cdef int64_t low = 0, high = g.n_entries, middle
        if g.n_entries == self._schema.num_buckets:
            low = bucket
        else:
            while low < high:
                middle = (low + high) // 2
                if first[middle].bucket < bucket:
                    low = middle + 1
                else:
                    high = middle
        if low >= g.n_entries or first[low].bucket != bucket or first[low].size == 0:
            return 0, 0, 0
        return first[low].offset, first[low].size, first[low].bulk_size

    def statistics(self, int64_t group, wanted=None):
        """[(position, null count, min, max)] of all columns, or of the positions `wanted`.

        The values are as stored, without length prefix, or None if every value is null.
        """
        cdef Group* g = self._group(group)
        cdef list records = []
        if wanted is None or not g.is_sorted or len(wanted) * MARKED > g.n_statistics:
            self._add_records(g, 0, g.n_statistics, wanted, records)
        else:
            for column in sorted(wanted):
                self._add_records(g, self._first_record(g, column), MARKED, (column,), records)
        return records

    cdef int64_t _first_record(self, Group* group, int64_t column) except -1:
        """The last record with a mark that is not of a later column."""
        cdef Cursor c = cursor_over(self.data, self.size)
        cdef int64_t low = 0, high = (<int64_t>group.n_statistics + MARKED - 1) // MARKED, middle
        while high - low > 1:
            middle = (low + high) // 2
            c.pos = self.marks[group.first_mark + middle]
            if read_uv32(&c) <= column:
                low = middle
            else:
                high = middle
        return low * MARKED

    cdef int _add_records(self, Group* group, int64_t first, int64_t count, wanted, list records) except -1:
        """Add the requested records of a marked run."""
        cdef Cursor c = cursor_over(self.data, self.size)
        cdef int64_t i
        cdef Record record
        for i in range(min(count, group.n_statistics - first)):
            if i == 0:
                c.pos = self.marks[group.first_mark + first // MARKED]
            self._read_record(&c, group, &record)
            if wanted is None or record.column in wanted:
                records.append((record.column, record.null_count, _bytes(record.low, record.low_size),
                                _bytes(record.high, record.high_size)))
        return 0


cdef bytes _bytes(const uint8_t* data, int64_t size):
    return None if data == NULL else PyBytes_FromStringAndSize(<const char*>data, size)
