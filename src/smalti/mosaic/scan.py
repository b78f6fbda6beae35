"""Reading stored columns of row groups: planned once for a whole read, then carried out one row group after the other.

A plan is a frozen value, made without touching the file. The `Scanner` does the IO and uses the threads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from smalti import threads
from smalti._compat.arrow import columnless_batch, size_of
from smalti._core.allowance import Allowance
from smalti._core.batch import Batch
from smalti.errors import MemoryLimitError, MosaicError
from smalti.format.index import MONOLITHIC
from smalti.io import Source
from smalti.io.ranges import SPARE
from smalti.memory import rows_per_slice
from smalti.mosaic.bucket import NONE_FETCHED, BucketReader, Wanted
from smalti.mosaic.bucket_cache import PAGE_RATIO, Bucket, BucketCache
from smalti.mosaic.columns import Projection
from smalti.mosaic.rows import RowIndex, Rows, row_numbers, rows_within
from smalti.mosaic.tail import Tail
from smalti.readahead import Unit
from smalti.sizes import BATCH_BYTES

if TYPE_CHECKING:
    from smalti.mosaic.filtering import FilterPlan

#: If fewer than 1/_FEW_ROWS of the rows match, decode only the matching rows; otherwise decode all, then take those.
_FEW_ROWS = 4
#: Limit of one slice, with the memory to decode it; a larger slice is retried with fewer rows. A row group above it by
#: estimate is fetched ahead of its turn, but not decoded.
MAX_SLICE_BYTES = 256 << 20
#: A row group decoded ahead of its turn may take twice its estimate plus this many bytes.
SLACK = 16 << 20
#: Bytes that row groups fetch together from a store: enough that their round trip takes less time than they do.
ROUND_BYTES = 8 << 20
#: Bytes of the widest value of fixed width in Arrow's memory.
MAX_WIDTH = 16

#: No buckets of any row group.
NO_GROUPS: Mapping[int, Mapping[int, Bucket]] = MappingProxyType({})
#: Makes the batch that is delivered from a batch of stored columns. It is called with the batch and a function that
#: must be told the number of bytes before they are allocated, and which raises if they are too many.
Assemble: TypeAlias = Callable[[pa.RecordBatch, Callable[[int], None]], pa.RecordBatch]

# --- planning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupRead:
    """One row group of a scan, and whether its rows have to be filtered.

    `deleted` has the numbers of rows that are left out, in ascending order, counted from the start of the row group;
    so has `rows`, which is None if all rows are wanted. `start` is the number of the first row, for a row index.
    """

    row_group: int
    is_filtered: bool = False
    deleted: Sequence[int] = ()
    rows: Rows | None = None
    start: int = 0


@dataclass(frozen=True)
class ScanPlan:
    """One read of a file: the stored columns of the result, and the row groups in the order they are read.

    Of row groups whose rows have to be filtered, the columns of the filter are read first, and those of the result only
    where a row matches.
    """

    output: Projection
    groups: tuple[GroupRead, ...]
    filter: FilterPlan | None = None
    assemble: Assemble | None = None
    #: The column of row numbers that batches begin with, if one was asked for.
    row_index: RowIndex | None = None

    @cached_property
    def whole_buckets(self) -> frozenset[int]:
        """The buckets of the filter of which the filter and the result together want all columns."""
        wanted = {read.bucket: set(read.columns) for read in self.output.buckets}
        return frozenset(
            read.bucket
            for read in (self.filter.projection.buckets if self.filter else ())
            if len(wanted.get(read.bucket, set()).union(read.columns)) == read.physical.num_columns
        )

    def projections(self, read: GroupRead) -> list[Projection]:
        """The columns that are read of a row group, in this order."""
        return [self.filter.projection, self.output] if self.filter and read.is_filtered else [self.output]


def plan_scan(
    output: Projection,
    row_groups: Iterable[int],
    filter_: FilterPlan | None = None,
    assemble: Assemble | None = None,
) -> ScanPlan:
    """Decide which row groups are read: with a filter, those that may have a matching row.

    Where statistics say that all rows match, the columns of the result are read as without a filter.
    """
    reads = (
        GroupRead(group, filter_ is not None and not filter_.takes_all(group))
        for group in row_groups
        if filter_ is None or not filter_.rules_out(group)
    )
    return ScanPlan(output, tuple(reads), filter_, assemble)


class Estimate(NamedTuple):
    """About how many bytes reading columns of a row group takes, as far as the index tells.

    Strings and list elements are counted at their stored size; DICT and CONST columns decode to more.
    """

    fetched: int
    inflated: int
    decoded: int


def estimate_bytes(tail: Tail, columns: Projection, group: int) -> Estimate:
    fetched = inflated = share_inflated = 0
    for read in columns.buckets:
        entry, num_columns = tail.entry(group, read.bucket), read.physical.num_columns
        if entry.mode == MONOLITHIC:
            fetched += entry.size
            inflated += entry.uncompressed_size
            share_inflated += entry.uncompressed_size * len(read.columns) // num_columns
        else:
            share = entry.size * len(read.columns) // num_columns
            fetched += share
            inflated += share * PAGE_RATIO
            share_inflated += share * PAGE_RATIO
    return Estimate(fetched, inflated, max(share_inflated, tail.index.rows(group) * columns.row_width))


def plan_rounds(sizes: Sequence[tuple[int, int]], most: int) -> list[range]:
    """Cut row groups into runs whose requests are planned and made together.

    `sizes` are the bytes that each row group fetches, and all that it holds. A run ends when it fetches enough to be
    worth a round trip, `ROUND_BYTES`, or would hold more than `most`.

    Examples
    --------
    >>> plan_rounds([(20_000, 90_000)] * 5, most=300_000)
    [range(0, 3), range(3, 5)]
    """
    runs, start, fetched, held = [], 0, 0, 0
    for i, (fetch, hold) in enumerate(sizes):
        if i > start and (fetched >= ROUND_BYTES or held + hold > most):
            runs.append(range(start, i))
            start, fetched, held = i, 0, 0
        fetched, held = fetched + fetch, held + hold
    if sizes:
        runs.append(range(start, len(sizes)))
    return runs


# --- carrying it out ----------------------------------------------------------------------------------------------


class Decoded(list[pa.RecordBatch]):
    """Batches of a row group, with the allowance in which they count for as long as this list exists."""

    def __init__(self, batches: Iterable[pa.RecordBatch], account: Allowance) -> None:
        super().__init__(batches)
        self.account = account


class Scanner:
    """Carries out scans of one file."""

    def __init__(self, source: Source, tail: Tail, memory_limit: int, cache: BucketCache | None = None) -> None:
        self.tail = tail
        self.memory_limit = memory_limit
        self._spare = min(SPARE, source.size, memory_limit // 16) if source.is_remote else 0
        self.buckets = BucketReader(source, tail, cache, self._spare)

    def batches(
        self,
        plan: ScanPlan,
        *,
        kept: Allowance | None = None,
        held: Allowance | None = None,
        batch_size: int | None = None,
        fetched: Mapping[int, Mapping[int, Bucket]] = NO_GROUPS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan, in order.

        With `kept`, the caller holds all batches: each row group is one batch, counted in `kept`. Without it, the
        caller holds one batch at a time: a row group that decodes to more than `BATCH_BYTES` by estimate is decoded in
        slices while its inflated buckets stay in memory, and a slice that exceeds the limit is retried with a quarter
        of its rows. A caller that holds some more batches counts them in `held`, as decoding does.
        `fetched` has buckets that were read already, by row group and number.
        """
        whole = kept
        if whole is None:
            whole = Allowance(self.memory_limit) if held is None else held.part(self.memory_limit)
        for read in plan.groups:
            step = None if kept is not None else self._rows_at_once(plan, read, batch_size)
            buckets = fetched.get(read.row_group, NONE_FETCHED)
            yield from _GroupScan(self, plan, read, whole, buckets, is_kept=kept is not None).batches(step)

    def rounds(self, plan: ScanPlan, ahead: Allowance | None) -> list[tuple[ScanPlan, int]]:
        """Cut a plan into those that are read as a unit, each with an estimate of the bytes that it holds.

        From a store, several row groups are a unit if none of them is filtered: then all of them are fetched at once.
        Without `ahead`, nothing is fetched before its turn, and nothing has to be estimated.
        """
        if ahead is None or not plan.groups:
            return [(replace(plan, groups=(read,)), 0) for read in plan.groups] if len(plan.groups) > 1 else [(plan, 0)]
        sizes = []
        for read in plan.groups:
            parts = [estimate_bytes(self.tail, part, read.row_group) for part in plan.projections(read)]
            sizes.append((sum(part.fetched for part in parts), sum(map(sum, parts))))
        runs = [range(i, i + 1) for i in range(len(sizes))]
        if self.buckets.source.is_remote and not any(read.is_filtered for read in plan.groups):
            runs = plan_rounds(sizes, min(MAX_SLICE_BYTES, ahead.left // 8))
        return [
            (
                replace(plan, groups=plan.groups[run.start : run.stop]),
                self._spare + sum(held for _, held in sizes[run.start : run.stop]),
            )
            for run in runs
        ]

    def units(
        self,
        plan: ScanPlan,
        kept: Allowance | None = None,
        batch_size: int | None = None,
        ahead: Allowance | None = None,
        held: Allowance | None = None,
    ) -> Iterator[Unit[Iterable[pa.RecordBatch]]]:
        """A plan as units of reading ahead, see `rounds`; the result of each are its batches.

        With `kept`, the batches stay in memory and are counted there. Otherwise a unit decodes its row groups when it
        runs, and counts them in `ahead`. A unit whose estimate exceeds `MAX_SLICE_BYTES`, or that exceeds twice its
        estimate plus `SLACK`, is only fetched, and decoded when the caller iterates; this counts in `held`, see
        `batches`. Without `ahead`, nothing is fetched before its turn.
        """
        if kept is not None:
            self.check_fits(plan, kept)
        for one, size in self.rounds(plan, ahead):
            if kept is not None:
                yield Unit(partial(self._read_kept, one, kept), size)
            elif ahead is not None:
                yield Unit(partial(self._read_ahead, one, size, batch_size, ahead, held), size)
            else:
                yield Unit(partial(self.batches, one, batch_size=batch_size, held=held))

    def _fetch(self, plan: ScanPlan) -> dict[int, Mapping[int, Bucket]]:
        """The buckets that all row groups of a plan need first, by row group and number, read together."""
        wanted = [
            Wanted(
                read.row_group,
                plan.projections(read)[0].buckets,
                whole=plan.whole_buckets if read.is_filtered else frozenset(),
            )
            for read in plan.groups
        ]
        groups = zip(plan.groups, self.buckets.fetch_groups(wanted), strict=True)
        return {read.row_group: {bucket.number: bucket for bucket in buckets} for read, buckets in groups}

    def _read_kept(self, plan: ScanPlan, kept: Allowance) -> Iterable[pa.RecordBatch]:
        fetched = self._fetch(plan) if len(plan.groups) > 1 else NO_GROUPS
        return Decoded(self.batches(plan, kept=kept, fetched=fetched), kept)

    def _read_ahead(
        self, plan: ScanPlan, size: int, batch_size: int | None, ahead: Allowance, held: Allowance | None
    ) -> Iterable[pa.RecordBatch]:
        """The batches of row groups: decoded now if they take no more than was estimated, else when asked for."""
        fetched = self._fetch(plan)
        if size <= MAX_SLICE_BYTES:
            account = ahead.part(min(self.memory_limit, 2 * size + SLACK))
            with suppress(MemoryLimitError):
                return Decoded(self.batches(plan, kept=account, fetched=fetched), account)
        return self.batches(plan, batch_size=batch_size, held=held, fetched=fetched)

    def check_fits(self, plan: ScanPlan, kept: Allowance) -> None:
        """Refuse a read whose fixed-width values alone exceed `kept`, before anything is decoded."""
        whole = [read for read in plan.groups if not read.is_filtered and not read.deleted]
        rows = sum(self.tail.index.rows(read.row_group) if read.rows is None else len(read.rows) for read in whole)
        if rows * MAX_WIDTH * len(plan.output.schema) <= kept.left:
            return  # The exact width would be computed from every column.
        try:
            kept.part().take(rows * plan.output.least_bits // 8)
        except MemoryLimitError as error:
            raise error.locate(path=self.buckets.source.name, section="index") from None

    def _rows_at_once(self, plan: ScanPlan, read: GroupRead, batch_size: int | None) -> int:
        """The number of rows of a row group to decode at a time."""
        num_rows, target = self.tail.index.rows(read.row_group), min(BATCH_BYTES, self.memory_limit // 4)
        columns = [part for part in plan.projections(read) if part.buckets]
        if num_rows * MAX_WIDTH * sum(len(part.schema) for part in columns) <= target:
            return num_rows  # Few rows, as in most wide tables: not worth an estimate.
        size = sum(estimate_bytes(self.tail, part, read.row_group).decoded for part in columns)
        return rows_per_slice(num_rows, size, target, batch_size)

    def decode(
        self,
        group: int,
        columns: Projection,
        buckets: Sequence[Bucket],
        allowance: Allowance,
        *,
        rows: pa.UInt64Array | range | None = None,
        keep: Allowance | None = None,
    ) -> pa.RecordBatch:
        """Columns of a row group from the buckets that were fetched for them: all rows or some, in ascending order.

        With `keep`, the buckets stay inflated for later slices, and their bytes are counted in `keep`; without it, each
        bucket is released once decoded. Bytes are counted before they are allocated.
        """
        num_rows = self.tail.index.rows(group) if rows is None else len(rows)
        selected, first = None, -1
        if isinstance(rows, range):
            first = rows.start
        elif rows is not None:
            selected = memoryview(rows.buffers()[1]).cast("Q")[rows.offset : rows.offset + len(rows)]  # type: ignore[arg-type]
        opened = allowance if keep is None else keep
        # The last row that is wanted, if buckets are not needed any more and most rows come after it.
        last = rows.stop if isinstance(rows, range) and keep is None else None
        if last is not None and last * _FEW_ROWS > self.tail.index.rows(group):
            last = None
        batch = Batch(len(columns.schema), num_rows, allowance)
        weights = [bucket.uninflated_bytes for bucket in buckets]
        num_threads = threads.cpu_count() if sum(weights) >= threads.MIN_SHARED else 1
        runs = threads.share_out(weights, num_threads)
        dictionaries = [[(node, found.lookup(allowance)) for node, found in pairs] for pairs in columns.dictionaries]
        cache = self.buckets.cache
        if cache is not None and not cache.takes(sum(weights)):
            cache = None

        def decode_run(run: range) -> None:
            inflated = self.buckets.inflate_pages(buckets[run.start : run.stop], opened)
            for i in run:
                bucket, read = buckets[i], columns.buckets[i]
                try:
                    views, size = self.buckets.views(bucket, opened, last)
                    batch.decode(
                        views, read.columns, read.outputs, selected, first, dictionaries[i] if dictionaries else None
                    )
                except MosaicError as error:
                    raise self.buckets.locate(error, bucket) from None
                if cache is not None and bucket.uninflated_bytes == 0 and weights[i] > 0:
                    cache.put(bucket)
                if keep is None:
                    bucket.release()
                    allowance.give(size)
            if keep is None:  # Pages of a run share memory, which is free when the last of them is released.
                allowance.give(inflated)

        if len(runs) == 1:
            decode_run(runs[0])
        else:
            for _ in threads.ordered_map(decode_run, runs, min(num_threads, len(runs))):
                pass
        return pa.RecordBatch._import_from_c(batch.address(), columns.schema)


class _GroupScan:
    """One row group of a scan: its buckets as far as they were fetched, and the memory that they take.

    It is *sliced* if its buckets stay inflated while rows are decoded from them; otherwise all rows are decoded at
    once, and each bucket is released as soon as it is decoded.
    """

    def __init__(
        self,
        scanner: Scanner,
        plan: ScanPlan,
        read: GroupRead,
        whole: Allowance,
        fetched: Mapping[int, Bucket],
        *,
        is_kept: bool,
    ) -> None:
        self._scanner = scanner
        self._plan = plan
        self._filter = plan.filter if read.is_filtered else None
        self._group, self._deleted, self._start = read.row_group, read.deleted, read.start
        #: Counts everything, and keeps counting batches if the caller keeps all of them.
        self._whole, self._is_kept = whole, is_kept
        self._buckets = dict(fetched)
        self._inflated = whole.part()
        #: `id()` of each projection whose buckets are inflated already, for slices.
        self._opened: set[int] = set()
        self._num_rows = scanner.tail.index.rows(read.row_group)
        #: The numbers of the wanted rows; None if all rows of `_span` are wanted.
        self._wanted = None if read.rows is None or isinstance(read.rows, range) else read.rows
        self._span = read.rows if isinstance(read.rows, range) else range(self._num_rows)
        self._is_sliced = False
        #: Whether a read that took too much memory may succeed with slices, or with smaller ones.
        self._can_retry = not is_kept

    def batches(self, step: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows, `step` rows at a time, or fewer where these take too much memory; None for all."""
        step, start = self._num_rows if step is None else step, self._span.start
        while start < self._span.stop:
            span = range(start, min(start + step, self._span.stop))
            try:
                batch = self._read_span(span)
            except MemoryLimitError:  # A failed allocation is not tried again: it would use up the memory that is left.
                if not self._can_retry or (self._is_sliced and len(span) == 1):
                    raise
                self._is_sliced = True
                step = max(1, len(span) // 4)
            else:
                start = span.stop
                if batch is not None:
                    yield batch
                del batch

    def _read_span(self, span: range) -> pa.RecordBatch | None:
        """Read the rows of `span` that are wanted; None if there are none, and then the result was not fetched."""
        self._is_sliced = self._is_sliced or len(span) < len(self._span)
        if self._is_sliced:
            return self._read(span, None)
        account = self._whole if self._is_kept else self._whole.part(MAX_SLICE_BYTES)
        self._inflated = account.part()
        try:
            return self._read(span, account)
        finally:
            self._buckets.clear()
            self._inflated = self._whole.part()

    def _read(self, span: range, account: Allowance | None) -> pa.RecordBatch | None:
        plan, rows = self._plan, None
        if self._filter is not None:
            compared = None if account is None else account.part()
            batch = self._decode(self._filter.projection, span, None, compared, self._inflated)[0]
            rows = self._filter.matching_rows(batch, self._start + span.start, len(span))
            del batch, compared
        if self._deleted:
            rows = _undeleted(span, rows, self._deleted)
        if self._wanted is not None:
            rows = _common(rows, rows_within(self._wanted, span))
        num_rows = len(span) if rows is None else len(rows)
        if num_rows == 0:
            return None
        rows = None if num_rows == len(span) else rows
        if plan.output.buckets:
            keep = self._inflated if account is None else None
            batch, account = self._decode(plan.output, span, rows, account, keep)
        else:
            self._scanner.buckets.fetch(self._group, ())  # refuses a closed file
            batch, account = columnless_batch(num_rows), account or self._inflated.part()
        try:
            batch = batch if plan.assemble is None else plan.assemble(batch, account.take)
            return self._numbered(batch, span, rows, account)
        except MosaicError as error:
            raise error.locate(path=self._scanner.buckets.source.name, row_group=self._group) from None

    def _numbered(
        self, batch: pa.RecordBatch, span: range, rows: pa.UInt64Array | None, account: Allowance
    ) -> pa.RecordBatch:
        """The batch with the numbers of its rows, if these were asked for."""
        index = self._plan.row_index
        if index is None:
            return batch
        account.take(8 * batch.num_rows)
        numbers = row_numbers(self._start + span.start, len(span), rows)
        return pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=index.add_to(batch.schema))

    def _decode(
        self,
        columns: Projection,
        span: range,
        rows: pa.UInt64Array | None,
        account: Allowance | None,
        keep: Allowance | None,
    ) -> tuple[pa.RecordBatch, Allowance]:
        """Decode `columns` for the rows of `span`, or only for `rows`, which are indices into it.

        Return the batch and the allowance that counts it. If `account` is None, `span` is a slice: all buckets are
        inflated first; then a slice of one row may take all memory that is left, a longer one `MAX_SLICE_BYTES`.
        """
        whole = self._plan.whole_buckets if columns is not self._plan.output else frozenset[int]()
        buckets = self._scanner.buckets.fetch(self._group, columns.buckets, self._buckets, whole)
        self._buckets.update((bucket.number, bucket) for bucket in buckets)
        decode = partial(self._scanner.decode, self._group, columns, buckets)
        wanted: pa.UInt64Array | range | None = None if len(span) == self._num_rows else span
        if account is None:
            if id(columns) not in self._opened:
                try:
                    decode(self._inflated, rows=range(0), keep=self._inflated)
                except MemoryLimitError:
                    self._can_retry = False
                    raise
                self._opened.add(id(columns))
            account = self._whole.part() if len(span) == 1 else self._whole.part(MAX_SLICE_BYTES)
        if rows is None:
            return decode(account, rows=wanted, keep=keep), account
        if len(rows) * _FEW_ROWS < len(span):
            return decode(account, rows=_add(rows, span.start), keep=keep), account
        decoded = account.part()
        batch = decode(decoded, rows=wanted, keep=keep).take(rows)
        account.take(size_of(batch))
        return batch, account


def _add(rows: pa.UInt64Array, start: int) -> pa.UInt64Array:
    if start == 0:
        return rows
    import pyarrow.compute as pc  # The filter has loaded it already.

    return pc.add(rows, pa.scalar(start, pa.uint64()))


def _common(rows: pa.UInt64Array | None, others: pa.UInt64Array) -> pa.UInt64Array:
    """The rows that are in both; None stands for all."""
    if rows is None:
        return others
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows, value_set=others))


def _undeleted(span: range, rows: pa.UInt64Array | None, deleted: Sequence[int]) -> pa.UInt64Array:
    """The indices into `span`, all or only `rows`, of those rows that are not deleted."""
    import pyarrow.compute as pc  # Slow to import, and most reads do without it.

    left = bytearray(b"\x01") * len(span)
    for row in deleted[bisect_left(deleted, span.start) : bisect_left(deleted, span.stop)]:
        left[row - span.start] = 0
    is_left = pa.Array.from_buffers(pa.uint8(), len(span), [None, pa.py_buffer(left)])
    if rows is None:
        return pc.indices_nonzero(is_left)
    return rows.filter(pc.equal(is_left.take(rows), pa.scalar(1, pa.uint8())))
