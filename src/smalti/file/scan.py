"""Reading columns of row groups: planned once for a whole read, then carried out for one row group after the other.

A plan is a frozen value, made without touching the file. The `Scanner` does the IO and uses the threads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from smalti import threads
from smalti._core.allowance import Allowance
from smalti._core.batch import Batch, BucketViews, view_block, view_pages
from smalti._core.physical import PhysicalColumns
from smalti._core.schema import SchemaBlock
from smalti.errors import MemoryLimitError, MosaicError
from smalti.file.cache import BucketCache, FetchedBucket
from smalti.file.columnless import columnless_batch
from smalti.file.tail import Tail
from smalti.format.bucket import directory_size, inflate_slots, parse_directory
from smalti.format.compression import inflate_bucket
from smalti.format.index import EMPTY, MONOLITHIC, PAGED
from smalti.io import Range, Source, fetch
from smalti.memory import size_of, slice_rows
from smalti.spec import Compression

if TYPE_CHECKING:
    from smalti.file.filtering import FilterPlan
    from smalti.file.logical import Assembly


#: One of so many rows, or fewer, are decoded by themselves; more are decoded with all others and then taken.
_FEW_ROWS = 4
#: A row group of more bytes is decoded in slices of about so many where only a batch of it is wanted at a time.
#: If it turns out to be larger than the second number, with what it takes to decode it, it is cut again.
SLICE_BYTES, MAX_SLICE_BYTES = 64 << 20, 256 << 20
#: Bytes that a compressed byte of a page stands for, about: a paged bucket does not say how large it is uncompressed.
#: Slots rarely shrink to less than a quarter. Work is shared out and memory is budgeted by this.
PAGE_RATIO = 4
#: Bytes of the widest value of fixed width in Arrow's memory.
MAX_WIDTH = 16

# --- planning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BucketRead:
    """Columns wanted from one bucket: `columns` are positions in the bucket, `places` positions in the result."""

    bucket: int
    nodes: PhysicalColumns
    columns: list[int]
    places: list[int]

    @property
    def whole(self) -> bool:
        """Whether all columns of the bucket are wanted."""
        return len(self.columns) == self.nodes.num_columns

    @cached_property
    def physical(self) -> list[int]:
        """The wanted columns, and all columns below those that are arrays or maps."""
        if self.nodes.num_physical == self.nodes.num_columns:
            return self.columns
        return [node for column in self.columns for node in self.nodes.subtree(column)]


@dataclass(frozen=True)
class Projection:
    """Some columns of a file as one Arrow schema, and the buckets that hold them.

    With an `assembly`, the columns are made of stored ones, which `stored_schema` has.
    """

    schema: pa.Schema
    buckets: list[BucketRead]
    assembly: Assembly | None = None
    stored_schema: pa.Schema | None = None

    @property
    def stored(self) -> pa.Schema:
        """The columns as they are stored."""
        return self.schema if self.stored_schema is None else self.stored_schema

    @cached_property
    def bucket_ids(self) -> frozenset[int]:
        return frozenset(read.bucket for read in self.buckets)

    @cached_property
    def _bits(self) -> Counter[int]:
        """How many columns have so many bits in each row: of other values than those of fixed size, the offsets."""
        bits: dict[pa.DataType, int] = {}
        for type_ in set(self.stored.types):
            try:
                bits[type_] = type_.bit_width
            except ValueError:
                bits[type_] = 32
        return Counter(bits[type_] for type_ in self.stored.types)

    @property
    def least_bits(self) -> int:
        """Bits of a row in Arrow's memory, without texts and elements."""
        return sum(bits * count for bits, count in self._bits.items())

    @cached_property
    def row_width(self) -> int:
        """Bytes of a row in Arrow's memory, without texts and elements, while it is decoded."""
        return (self.least_bits + 8 * self._bits[1] + 7) // 8  # Each boolean takes a byte more.


@dataclass(frozen=True)
class GroupRead:
    """One row group of a scan, and whether its rows have to be filtered."""

    row_group: int
    is_filtered: bool = False


@dataclass(frozen=True)
class ScanPlan:
    """One read of a file: the columns of the result, and the row groups in the order they are read.

    Of row groups whose rows have to be filtered, the columns of the filter are read first, and those of the result only
    where a row matches.
    """

    output: Projection
    groups: tuple[GroupRead, ...]
    filter: FilterPlan | None = None
    filter_columns: Projection | None = None

    @cached_property
    def whole_buckets(self) -> frozenset[int]:
        """The buckets of the filter of which the filter and the result together want all columns."""
        wanted = {read.bucket: set(read.columns) for read in self.output.buckets}
        return frozenset(
            read.bucket
            for read in (self.filter_columns.buckets if self.filter_columns else ())
            if len(wanted.get(read.bucket, set()).union(read.columns)) == read.nodes.num_columns
        )


def plan_buckets(schema: SchemaBlock, columns: Sequence[int]) -> list[BucketRead]:
    """Group sorted indices by bucket, ascending; the order of `columns` is the order of the result."""
    wanted = defaultdict(list)
    num_buckets, num_columns = schema.num_buckets, schema.num_columns
    for place, column in enumerate(columns):
        wanted[column * num_buckets // num_columns].append(place)  # as `schema.bucket_of`, without a call per column
    reads = []
    for bucket, places in sorted(wanted.items()):
        nodes = schema.physical_columns(bucket)
        reads.append(BucketRead(bucket, nodes, [columns[place] - nodes.first_column for place in places], places))
    return reads


def plan_scan(
    output: Projection,
    row_groups: Iterable[int],
    filter_: FilterPlan | None = None,
    filter_columns: Projection | None = None,
) -> ScanPlan:
    """Decide which row groups are read: with a filter, those that may have a matching row.

    Where statistics say that all rows match, the columns of the result are read as without a filter.
    """
    if filter_ is None:
        return ScanPlan(output, tuple(map(GroupRead, row_groups)))
    kept = [group for group in row_groups if not filter_.rules_out(group)]
    reads = tuple(GroupRead(group, not filter_.takes_all(group)) for group in kept)
    return ScanPlan(output, reads, filter_, filter_columns)


# --- carrying it out ----------------------------------------------------------------------------------------------


def _weight(bucket: FetchedBucket) -> int:
    """About how many bytes are still to be decompressed."""
    if bucket.entry.mode == MONOLITHIC:
        return 0 if bucket.block is not None else bucket.entry.uncompressed_size
    return PAGE_RATIO * sum(len(slot) for _, slot in bucket.closed_slots())


def estimate_decoded(tail: Tail, columns: Projection, group: int) -> int:
    """About how many bytes columns of a row group are once they are decoded, of what is known without reading them.

    Values of fixed width and offsets are counted, and bytes of texts and elements as far as they are stored: of columns
    with few different values, such as constants, they may be many more.
    """
    stored = 0
    for read in columns.buckets:
        entry = tail.entry(group, read.bucket)
        size = entry.uncompressed_size if entry.mode == MONOLITHIC else entry.size * PAGE_RATIO
        stored += size * len(read.columns) // read.nodes.num_columns
    return max(stored, tail.index.rows(group) * columns.row_width)


class Scanner:
    """Carries out scans of one file."""

    def __init__(self, source: Source, tail: Tail, memory_limit: int, cache: BucketCache | None = None) -> None:
        self.source = source
        self.tail = tail
        self.memory_limit = memory_limit
        self._cache = cache
        self._is_closed = False

    def close(self) -> None:
        """Close the file and let the cache go, so that no read works by chance of what is in it."""
        self._is_closed = True
        self.source.close()
        if self._cache is not None:
            self._cache.close()

    @property
    def _is_compressed(self) -> bool:
        """Whether blocks are decompressed, and count; else they are the bytes of the file."""
        return self.tail.footer.compression is Compression.ZSTD

    def batches(self, plan: ScanPlan, allowance: Allowance) -> Iterator[pa.RecordBatch]:
        """The result of a scan, one batch for each row group that has rows. All of them count, because all are kept."""
        for read in plan.groups:
            batch = self._whole(plan, read, allowance)
            if batch is not None:
                yield batch

    def slices(
        self,
        plan: ScanPlan,
        batch_size: int | None = None,
        fetched: Mapping[int, FetchedBucket] = MappingProxyType({}),
    ) -> Iterator[pa.RecordBatch]:
        """The result of a scan, of which only one batch is held at a time, with what it takes to make it.

        A row group that is large once it is decoded comes in several batches, so that memory is needed for a batch and
        what is stored of the row group. How large it will be can only be estimated: if it takes more than the memory
        limit, slices become smaller. Of a plan with a single row group, some buckets may be `fetched` already.
        """
        for read in plan.groups:
            num_rows = self.tail.index.rows(read.row_group)
            step = self._slice_rows(plan, read, batch_size)
            if step >= num_rows:
                try:
                    batch = self._whole(plan, read, Allowance(min(self.memory_limit, MAX_SLICE_BYTES)), fetched)
                except MemoryLimitError:
                    step = num_rows // 4
                else:
                    if batch is not None:
                        yield batch
                    del batch
                    continue
            yield from self._sliced(plan, read, max(1, step), fetched)

    def fetch_first(self, plan: ScanPlan) -> dict[int, FetchedBucket]:
        """Fetch what `slices` reads first of a plan with a single row group."""
        (read,) = plan.groups
        columns = plan.filter_columns if read.is_filtered and plan.filter_columns is not None else plan.output
        whole = plan.whole_buckets if read.is_filtered else frozenset[int]()
        buckets = self.fetch_buckets(read.row_group, columns.buckets, whole=whole)
        return {part.bucket: bucket for part, bucket in zip(columns.buckets, buckets, strict=True)}

    def _slice_rows(self, plan: ScanPlan, read: GroupRead, batch_size: int | None) -> int:
        """How many rows of a row group to decode at a time."""
        num_rows, target = self.tail.index.rows(read.row_group), min(SLICE_BYTES, self.memory_limit // 4)
        if not plan.output.buckets and not read.is_filtered:
            return num_rows
        columns = [plan.output] + [plan.filter_columns] * (read.is_filtered and plan.filter_columns is not None)
        if sum(num_rows * MAX_WIDTH * len(part.stored) for part in columns if part) <= target:
            return num_rows  # Few rows, as in most wide tables: not worth an estimate.
        size = sum(estimate_decoded(self.tail, part, read.row_group) for part in columns if part)
        return slice_rows(num_rows, size, target, batch_size)

    def _whole(
        self,
        plan: ScanPlan,
        read: GroupRead,
        allowance: Allowance,
        fetched: Mapping[int, FetchedBucket] = MappingProxyType({}),
    ) -> pa.RecordBatch | None:
        """The matching rows of a row group; None if there are none, and then no column of the result was read."""
        group, num_rows = read.row_group, self.tail.index.rows(read.row_group)
        if num_rows == 0:
            return None
        if plan.filter is None or plan.filter_columns is None or not read.is_filtered:
            return self.decode(group, plan.output, self.fetch_buckets(group, plan.output.buckets, fetched), allowance)
        columns = plan.filter_columns
        buckets = self.fetch_buckets(group, columns.buckets, fetched, whole=plan.whole_buckets)
        inflated, compared = allowance.part(), allowance.part()
        rows = plan.filter.matching_rows(self.decode(group, columns, buckets, compared, keep=inflated))
        del compared
        if not len(rows):
            return None
        if not plan.output.buckets:
            return columnless_batch(len(rows))
        known = {read.bucket: bucket for read, bucket in zip(columns.buckets, buckets, strict=True)}
        buckets = self.fetch_buckets(group, plan.output.buckets, known)
        if len(rows) * _FEW_ROWS < num_rows or len(rows) == num_rows:
            selected = None if len(rows) == num_rows else rows
            return self.decode(group, plan.output, buckets, allowance, rows=selected)
        decoded = allowance.part()
        batch = self.decode(group, plan.output, buckets, decoded, then_take=rows)
        allowance.take(size_of(batch))
        return batch

    def _sliced(
        self, plan: ScanPlan, read: GroupRead, step: int, fetched: Mapping[int, FetchedBucket]
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows of a row group, `step` rows at a time, or fewer where these turn out to be too large."""
        group, num_rows = read.row_group, self.tail.index.rows(read.row_group)
        filter_, first = (plan.filter, plan.filter_columns) if read.is_filtered else (None, None)
        inflated = Allowance(self.memory_limit)
        opened = dict(fetched)
        if first is not None:
            self._open_buckets(group, first, opened, plan.whole_buckets, inflated)
        is_output_open, start = False, 0
        while start < num_rows:
            span = range(start, min(start + step, num_rows))
            rows: pa.UInt64Array | range = span
            try:
                if filter_ is not None and first is not None:
                    rows = filter_.matching_rows(self._decode_slice(group, first, opened, span, inflated), start)
                if len(rows) and plan.output.buckets:
                    if not is_output_open:
                        is_output_open = True
                        self._open_buckets(group, plan.output, opened, frozenset(), inflated)
                    yield self._decode_slice(group, plan.output, opened, rows, inflated)
                elif len(rows):
                    yield columnless_batch(len(rows))
            except MemoryLimitError:
                if len(span) == 1 or inflated.left == 0:
                    raise
                step = max(1, len(span) // 4)
            else:
                start = span.stop

    def _decode_slice(
        self,
        group: int,
        columns: Projection,
        opened: Mapping[int, FetchedBucket],
        rows: pa.UInt64Array | range,
        inflated: Allowance,
    ) -> pa.RecordBatch:
        """Some rows from buckets that are decompressed; a single row may take all memory that is left."""
        limit = self.memory_limit if len(rows) == 1 else min(self.memory_limit, inflated.held + MAX_SLICE_BYTES)
        buckets = [opened[read.bucket] for read in columns.buckets]
        return self.decode(group, columns, buckets, Allowance(limit, inflated.held), rows=rows, keep=inflated)

    def _open_buckets(
        self, group: int, columns: Projection, opened: dict[int, FetchedBucket], whole: Set[int], allowance: Allowance
    ) -> None:
        """Fetch and decompress the buckets of some columns, for slices to be decoded from them.

        If they are too large, so that no slice of them can be decoded either, nothing is left of the allowance.
        """
        buckets = self.fetch_buckets(group, columns.buckets, opened, whole)
        try:
            self.decode(group, columns, buckets, allowance, rows=range(0), keep=allowance)
        except MemoryLimitError:
            allowance.take(allowance.left)
            raise
        opened.update((read.bucket, bucket) for read, bucket in zip(columns.buckets, buckets, strict=True))

    def fetch_buckets(
        self,
        group: int,
        reads: Sequence[BucketRead],
        fetched: Mapping[int, FetchedBucket] = MappingProxyType({}),
        whole: Set[int] = frozenset(),
    ) -> list[FetchedBucket]:
        """Read buckets of a row group, in two rounds at most.

        The first round reads whole buckets and the directories of paged ones, the second the slots of those. Of buckets
        among `fetched`, or in the cache, only slots that are missing are read. Buckets among `whole` are read in one
        piece, paged or not, because all of their columns will be wanted.
        """
        if self._is_closed:  # Not every source has something to close.
            raise ValueError(f"read of a closed file: {self.source.name or 'in memory'}")
        buckets, ranges = [], []
        for read in reads:
            known = fetched.get(read.bucket)
            if known is None and self._cache is not None:
                known = self._cache.get(group, read.bucket)
            bucket = known or FetchedBucket(self.tail.entry(group, read.bucket))
            size = 0 if known is not None else bucket.entry.size
            if bucket.entry.mode == PAGED and not read.whole and read.bucket not in whole:
                size = min(size, directory_size(read.nodes))
            buckets.append(bucket)
            ranges.append(Range(bucket.entry.offset, size))
        for bucket, data in zip(buckets, fetch(self.source, ranges), strict=True):
            bucket.data = bucket.data or data
        missing: list[tuple[FetchedBucket, int, Range]] = []
        for read, bucket in zip(reads, buckets, strict=True):
            if bucket.entry.mode == PAGED:
                try:
                    missing += _find_slots(read, bucket)
                except MosaicError as error:
                    raise self.locate(error, group, read) from None
        slots = fetch(self.source, [where for _, _, where in missing])
        for (bucket, node, _), data in zip(missing, slots, strict=True):
            bucket.slots[node] = data
        return buckets

    def decode(
        self,
        group: int,
        columns: Projection,
        buckets: Sequence[FetchedBucket],
        allowance: Allowance,
        *,
        rows: pa.UInt64Array | range | None = None,
        then_take: pa.UInt64Array | None = None,
        keep: Allowance | None = None,
    ) -> pa.RecordBatch:
        """Columns of a row group from the buckets that were fetched for them, all rows or some, in ascending order.

        `rows` are selected before they are decoded, `then_take` afterwards, which is faster if they are many.

        With `keep`, buckets stay decompressed, so that more of their columns can be decoded later, and what they take
        counts there. What is decompressed and decoded counts before memory is allocated for it.
        """
        num_rows, selected, first = self.tail.index.rows(group), None, -1
        if isinstance(rows, range):
            first = rows.start
        elif rows is not None:
            selected = memoryview(rows.buffers()[1]).cast("Q")[rows.offset : rows.offset + len(rows)]  # type: ignore[arg-type]
        opened = allowance if keep is None else keep
        batch = Batch(len(columns.stored), num_rows if rows is None else len(rows), allowance)
        weights = [_weight(bucket) for bucket in buckets]
        runs = threads.share_out(weights, threads.cpu_count())
        cache = self._cache if self._cache is not None and self._cache.takes(sum(weights)) else None

        def decode_run(run: range) -> None:
            reads, fetched = columns.buckets[run.start : run.stop], buckets[run.start : run.stop]
            inflated = self.inflate_pages(group, reads, fetched, opened)
            for at, read, bucket in zip(run, reads, fetched, strict=True):
                try:
                    if bucket.entry.mode == MONOLITHIC and bucket.block is None and self._is_compressed:
                        inflated += bucket.entry.uncompressed_size
                    views = self.views(read.nodes, bucket, num_rows, opened)
                    batch.decode(views, read.columns, read.places, selected, first)
                except MosaicError as error:
                    raise self.locate(error, group, read) from None
                if cache is not None and _weight(bucket) == 0 and weights[at] > 0:
                    cache.put(group, read.bucket, bucket, read.nodes)
                if keep is None:
                    bucket.pages, bucket.block = {}, None
                    if bucket.entry.mode == MONOLITHIC:
                        allowance.give(inflated)
                        inflated = 0
            if keep is None:
                allowance.give(inflated)

        for _ in threads.ordered_map(decode_run, runs, min(threads.cpu_count(), len(runs))):
            pass
        result = pa.RecordBatch._import_from_c(batch.address(), columns.stored)
        if then_take is not None:
            result = result.take(then_take)
        if columns.assembly is None:
            return result
        try:
            return columns.assembly.assemble(result, allowance.take)
        except MosaicError as error:
            raise error.locate(path=self.source.name, row_group=group) from None

    def inflate_pages(
        self, group: int, reads: Sequence[BucketRead], buckets: Sequence[FetchedBucket], allowance: Allowance
    ) -> int:
        """Decompress the slots of paged buckets, all in one call; return how many bytes they had taken."""
        closed: list[tuple[BucketRead, FetchedBucket, int, memoryview]] = []
        for read, bucket in zip(reads, buckets, strict=True):
            for node, slot in bucket.closed_slots():
                if len(slot):
                    closed.append((read, bucket, node, slot))
                else:
                    bucket.pages[node] = None
        try:
            pages = inflate_slots([slot for _, _, _, slot in closed], allowance.take)
        except MemoryLimitError as error:
            raise error.locate(path=self.source.name, row_group=group) from None
        except MosaicError as error:
            read, _, error.place["column"], _ = closed[error.place["column"]]
            raise self.locate(error, group, read) from None
        taken = 0
        for (_, bucket, node, _), page in zip(closed, pages, strict=True):
            bucket.pages[node] = page
            taken += len(page)
        return taken

    def views(self, nodes: PhysicalColumns, bucket: FetchedBucket, num_rows: int, allowance: Allowance) -> BucketViews:
        """Find the columns of the bucket of a row group of `num_rows` rows. Pages are decompressed already."""
        if bucket.entry.mode == MONOLITHIC:
            if bucket.block is None:
                block: bytes | memoryview = bucket.data
                if self._is_compressed:
                    allowance.take(bucket.entry.uncompressed_size)
                    block = inflate_bucket(bucket.data, bucket.entry.uncompressed_size)
                bucket.block = view_block(nodes, block, num_rows)
            return bucket.block
        if bucket.entry.mode == EMPTY:
            bucket.pages = dict.fromkeys(range(nodes.num_physical))
            bucket.child_rows = [0] * (nodes.num_physical - nodes.num_columns)
        return view_pages(nodes, bucket.pages, [num_rows] * nodes.num_columns + bucket.child_rows)

    def locate(self, error: MosaicError, group: int, read: BucketRead) -> MosaicError:
        """Add the place to an error about a bucket, and the name of a physical column that kernels know by number."""
        node = error.place.get("column")
        if isinstance(node, int):
            names = self.tail.schema.names()[read.nodes.first_column :]
            error.place["column"] = read.nodes.paths(names)[node][1]
        return error.locate(path=self.source.name, row_group=group, bucket=read.bucket)


def _find_slots(read: BucketRead, bucket: FetchedBucket) -> Iterator[tuple[FetchedBucket, int, Range]]:
    """Take the wanted slots from the bytes of a paged bucket; yield those that are still to be read."""
    entry, data = bucket.entry, bucket.data
    directory = parse_directory(data, read.nodes, entry.size, read.physical)
    bucket.child_rows = directory.child_rows
    for node, (offset, size) in zip(read.physical, directory.slots, strict=True):
        if node in bucket.slots:
            continue
        if len(data) == entry.size:
            bucket.slots[node] = data[offset : offset + size]
        else:
            yield bucket, node, Range(entry.offset + offset, size)


def check_fits(scanner: Scanner, plan: ScanPlan, kept: Allowance) -> None:
    """Refuse a read whose values of fixed width alone take more than is left, before memory is filled with others."""
    rows = sum(scanner.tail.index.rows(read.row_group) for read in plan.groups if not read.is_filtered)
    if rows * MAX_WIDTH * len(plan.output.stored) <= kept.left:
        return  # not worth a look at every column
    try:
        kept.part().take(rows * plan.output.least_bits // 8)
    except MemoryLimitError as error:
        raise error.locate(path=scanner.source.name, section="index") from None
