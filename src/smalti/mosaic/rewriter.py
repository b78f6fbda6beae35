"""Carries out the plan of a rewrite: copies slots and blocks of old files as bytes, and encodes the new columns.

A row group is made part by part, in threads: while one part is written, the next ones are read. What is copied is
checked as far as a reader checks it before it decompresses anything: directories, sizes and the headers of zstd frames.
A frame that is unusual is decompressed, which tells whether it is damaged.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from smalti import threads
from smalti._core.allowance import Allowance
from smalti._core.batch import Batch, BucketViews, view_block, view_pages
from smalti._core.encode import EncodedBucket
from smalti._core.pages import count_frames, odd_slots
from smalti._core.physical import PhysicalColumns
from smalti._core.splice import cut_pages, join_block, row_counts
from smalti.errors import CorruptFileError, MosaicError
from smalti.format.bucket import directory_size, inflate_slots, pack_directory, parse_directory
from smalti.format.index import EMPTY, MONOLITHIC, PAGED
from smalti.format.statistics import StatisticsRecord
from smalti.io import Range, fetch
from smalti.mosaic.bucket import BucketReader
from smalti.mosaic.bucket_cache import Bucket
from smalti.mosaic.columns import BucketRead
from smalti.mosaic.open_row_group import Slice
from smalti.mosaic.rewrite_plan import FRESH, BucketPlan, ColumnPlan, Form, Run, choose_form
from smalti.mosaic.writer import BucketPart, StoredWriter

#: Bytes of slots that are read at once; a part holds at least one slot, whatever its size.
PART_BYTES = 8 << 20
#: Parts that are read at the same time from a remote store.
REMOTE_PARTS = 8
#: The largest block that is put together: newer readers of the reference refuse blocks above 512 MiB.
MAX_JOINED_BLOCK = 511 << 20


@dataclass(frozen=True)
class Fresh:
    """The new columns of a row group: batches of stored columns, and the index in them of each position."""

    slices: list[Slice]
    columns: Mapping[int, int]


class _Directory(NamedTuple):
    """The directory of an old paged bucket: rows of its children, sizes of its slots as stored, where each begins."""

    child_rows: list[int]
    sizes: memoryview
    starts: list[int]


class _Slots(NamedTuple):
    """Consecutive slots of a new bucket: a run of the old file at `offset`, or new ones, which are `made`."""

    run: Run
    sizes: bytes | memoryview
    offset: int
    size: int
    made: list[bytes] | None = None


class Rewriter:
    """Adds row groups to a writer, with columns that are copied from row groups of other files.

    Parameters
    ----------
    writer : StoredWriter
        Its layout is fixed already.
    is_compressed : bool
        Whether the new file is.
    num_threads : int
    verify : bool
        Whether everything that is copied is also decompressed and decoded.

    Attributes
    ----------
    bytes_copied, bytes_encoded : int
        Bytes of buckets. Those of columns that were only compressed again count as copied.
    """

    def __init__(self, writer: StoredWriter, *, is_compressed: bool, num_threads: int, verify: bool = False) -> None:
        self.writer = writer
        self.is_compressed = is_compressed
        self.num_threads = num_threads
        self.verify = verify
        self.bytes_copied = self.bytes_encoded = 0
        self._lock = threading.Lock()

    def add(self, old: BucketReader, memory_limit: int, group: int, plan: ColumnPlan, fresh: Fresh | None) -> None:
        """Add a row group that has as many rows as row group `group` of the `old` file."""
        _GroupRewrite(self, old, memory_limit, group, plan, fresh).run()

    def count(self, copied: int, encoded: int, most_rows: int = 0) -> None:
        """Count bytes that were made; called by several threads."""
        with self._lock:
            self.bytes_copied += copied
            self.bytes_encoded += encoded
            self.writer.most_rows = max(self.writer.most_rows, most_rows)


class _GroupRewrite:
    """One row group in the making."""

    def __init__(
        self,
        rewriter: Rewriter,
        old: BucketReader,
        memory_limit: int,
        group: int,
        plan: ColumnPlan,
        fresh: Fresh | None,
    ) -> None:
        self._rewriter, self._writer = rewriter, rewriter.writer
        self._old, self._group, self._plan, self._fresh = old, group, plan, fresh
        self._memory_limit = memory_limit
        self._num_rows = old.tail.index.rows(group)
        self._records: list[StatisticsRecord] = []
        self._entries = {number: old.tail.entry(group, number) for number in plan.old_physical}
        modes = {number: entry.mode for number, entry in self._entries.items()}
        same, compressed = old.is_compressed == rewriter.is_compressed, rewriter.is_compressed
        forms = [choose_form(each, modes, same_compression=same, is_compressed=compressed) for each in plan.buckets]
        self._work = list(zip(plan.buckets, forms, strict=True))
        self._directories: dict[int, _Directory] = {}
        cut = (each.sources for each, form in self._work if form in (Form.SLOTS, Form.BLOCK))
        #: The inflated blocks of old buckets, of which several new buckets may have columns.
        self._blocks = _Shared(
            self._inflate, (number for sources in cut for number in sources if modes[number] == MONOLITHIC)
        )

    def run(self) -> None:
        self._refuse_missing()
        if self._rewriter.verify:
            self._verify()
        self._read_directories()
        if self._old.tail.index.num_statistics(self._group):
            targets = self._plan.targets
            for record in self._old.tail.statistics(self._group, targets.keys()):
                self._records += [record._replace(column=position) for position in targets[record.column]]
        workers = self._rewriter.num_threads
        if self._old.source.is_remote:
            workers = max(workers, REMOTE_PARTS)
        parts = threads.ordered_map(lambda make: make(), self._parts(), workers)
        self._writer.put_row_group(self._num_rows, parts, self._records)

    # --- what is read before anything is written ------------------------------------------------------------------

    def _bucket(self, number: int) -> Bucket:
        """An old bucket of which nothing is fetched."""
        return Bucket(self._group, number, self._plan.old_physical[number], self._entries[number])

    def _copied(self, number: int) -> list[int]:
        """The columns of an old bucket that are copied, by their indices in the bucket."""
        physical = self._plan.old_physical[number]
        return [at for at in range(physical.num_columns) if physical.first_column + at in self._plan.targets]

    def _refuse_missing(self) -> None:
        """Refuse a bucket that is not stored, and so reads as nulls, where a copied column cannot be null."""
        for number, entry in self._entries.items():
            if entry.mode != EMPTY:
                continue
            first, columns = self._plan.old_physical[number].first_column, self._copied(number)
            capsule = self._old.tail.schema.arrow_schema([first + at for at in columns], [""] * len(columns))
            for at, field in zip(columns, pa.Schema._import_from_c_capsule(capsule), strict=True):
                if not field.nullable:
                    error = CorruptFileError("no bucket for a column that is NOT NULL", column=at)
                    raise self._old.locate(error, self._bucket(number))

    def _verify(self) -> None:
        """Decompress and decode the columns that are copied, bucket by bucket, as a read of them would."""

        def check(number: int) -> None:
            columns = self._copied(number)
            targets = list(range(len(columns)))
            allowance = Allowance(self._memory_limit)
            bucket = self._fetch(number, columns)
            try:
                views = self._old.views(bucket, allowance)[0]
                Batch(len(columns), self._num_rows, allowance).decode(views, columns, targets)
            except MosaicError as error:
                raise self._old.locate(error, bucket) from None

        for _ in threads.ordered_map(check, self._entries, self._rewriter.num_threads):
            pass

    def _fetch(self, number: int, columns: list[int]) -> Bucket:
        """An old bucket, or columns of a paged one, whose pages are inflated."""
        read = BucketRead(number, self._plan.old_physical[number], columns, columns)
        (bucket,) = self._old.fetch(self._group, [read])
        self._old.inflate_pages([bucket], Allowance(self._memory_limit))
        return bucket

    def _inflate(self, number: int, columns: list[int] | None = None) -> BucketViews:
        """The columns of an old bucket, all or some, as they are encoded."""
        every = list(range(self._plan.old_physical[number].num_columns))
        bucket = self._fetch(number, every if columns is None else columns)
        try:
            return self._old.views(bucket, Allowance(self._memory_limit))[0]
        except MosaicError as error:
            raise self._old.locate(error, bucket) from None

    def _read_directories(self) -> None:
        """Read and check the directories of paged buckets that slots are copied from."""
        plans = [plan for plan, form in self._work if form is Form.SLOTS]
        wanted = {number for plan in plans for number in plan.sources if self._entries[number].mode == PAGED}
        numbers = sorted(wanted)
        places = [(self._entries[number], self._plan.old_physical[number]) for number in numbers]
        ranges = [Range(entry.offset, min(entry.size, directory_size(physical))) for entry, physical in places]
        heads = fetch(self._old.source, ranges)
        for number, (entry, physical), head in zip(numbers, places, heads, strict=True):
            try:
                child_rows = parse_directory(head, physical, entry.size, []).child_rows
            except MosaicError as error:
                raise self._old.locate(error, self._bucket(number)) from None
            sizes = head[len(head) - 4 * physical.num_physical :]
            starts = accumulate(struct.unpack(f"<{physical.num_physical}I", sizes), initial=entry.offset + len(head))
            self._directories[number] = _Directory(child_rows, sizes, list(starts))

    # --- parts ----------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[Callable[[], BucketPart]]:
        """The functions that make the parts of the row group, in order."""
        for plan, form in self._work:
            if form is Form.SLOTS:
                yield from self._slot_parts(plan)
            else:
                make = {Form.COPIED_BLOCK: self._copy_block, Form.BLOCK: self._join, Form.ENCODED: self._encode_all}
                yield partial(make[form], plan)

    def _copy_block(self, plan: BucketPlan) -> BucketPart:
        """Copy the block of an old bucket. A block that is not a single frame is inflated and compressed again."""
        (number,) = plan.sources
        entry = self._entries[number]
        (data,) = fetch(self._old.source, [Range(entry.offset, entry.size)])
        if not self._old.is_compressed:
            try:
                view_block(self._plan.old_physical[number], data, self._num_rows)
            except MosaicError as error:
                raise self._old.locate(error, self._bucket(number)) from None
        elif count_frames(data) != (1, entry.uncompressed_size):
            return self._join(plan, {number: self._inflate(number)})
        self._rewriter.count(entry.size, 0)
        return BucketPart(plan.number, MONOLITHIC, entry.uncompressed_size, [data])

    def _encode_all(self, plan: BucketPlan) -> BucketPart:
        """A bucket of new columns only."""
        part = self._writer.pack_bucket(plan.number, self._encode(plan)[1])
        self._rewriter.count(0, sum(map(len, part.blobs)))
        return part

    def _encode(self, plan: BucketPlan) -> tuple[PhysicalColumns, EncodedBucket]:
        assert self._fresh is not None
        columns = {position: self._fresh.columns[position] for position in plan.fresh}
        physical, encoded, records = self._writer.encode_some(self._fresh.slices, columns)
        self._records += records
        self._rewriter.count(0, 0, max([self._num_rows, *encoded.child_rows]))
        return physical, encoded

    def _open(self, plan: BucketPlan, modes: Collection[str]) -> dict[int, BucketViews]:
        """The old buckets of some modes that a new bucket has columns of, inflated, and its new columns (FRESH)."""
        opened: dict[int, BucketViews] = {}
        for number in plan.sources:
            mode = self._entries[number].mode
            if mode not in modes:
                continue
            if mode == MONOLITHIC:
                opened[number] = self._blocks.take(number)
            elif mode == PAGED:
                num_columns = self._plan.old_physical[number].num_columns
                nodes = [node for run in plan.sources[number] for node in range(run.first, run.first + run.length)]
                opened[number] = self._inflate(number, [node for node in nodes if node < num_columns])
            else:
                opened[number] = self._old.views(self._bucket(number), Allowance(self._memory_limit))[0]
        if plan.fresh:
            physical, encoded = self._encode(plan)
            rows = [self._num_rows] * physical.num_columns + encoded.child_rows
            opened[FRESH] = view_pages(physical, dict(enumerate(encoded.pages())), rows)
        return opened

    def _join(self, plan: BucketPlan, opened: dict[int, BucketViews] | None = None) -> BucketPart:
        """A monolithic bucket, put together from columns as they are encoded. A block that is too large is paged."""
        opened = opened or self._open(plan, (MONOLITHIC, PAGED, EMPTY))
        block = join_block(
            [(opened[run.bucket], run.first, run.length) for run in plan.runs], plan.physical.num_columns
        )
        if self._rewriter.is_compressed and len(block) > MAX_JOINED_BLOCK:
            slots = [self._make(plan, run, opened) for run in plan.runs]
            rows = [rows for run in plan.runs for rows in row_counts(opened[run.bucket], run.first, run.length)]
            return self._copy_slots(plan, self._head(plan, rows, slots), slots)
        part = self._writer.pack_block(plan.number, block)
        size = len(part.blobs[0])
        made = [cut_pages(opened[FRESH], run.first, run.length) for run in plan.runs if run.bucket == FRESH]
        encoded = size * sum(len(page or b"") for pages in made for page in pages) // len(block)
        self._rewriter.count(size - encoded, encoded)
        return part

    # --- slots ----------------------------------------------------------------------------------------------------

    def _slot_parts(self, plan: BucketPlan) -> Iterator[Callable[[], BucketPart]]:
        """A paged bucket: one part if it is small, otherwise its slots are shared out to several."""
        copied = (self._copied_slots(run) for run in plan.runs if run.bucket in self._directories)
        if sum(slots.size for slots in copied) <= PART_BYTES:
            yield lambda: self._copy_slots(plan, *self._slots(plan))
            return
        head, slots = self._slots(plan)
        held, num_bytes = list[_Slots](), 0
        for piece in (piece for each in slots for piece in self._cut(each)):
            if held and num_bytes + piece.size > PART_BYTES:
                yield partial(self._copy_slots, plan, head, held)
                head, held, num_bytes = b"", [], 0
            held.append(piece)
            num_bytes += piece.size
        yield partial(self._copy_slots, plan, head, held)

    def _slots(self, plan: BucketPlan) -> tuple[bytes, list[_Slots]]:
        """The directory of a new paged bucket, and its slots."""
        opened = self._open(plan, (MONOLITHIC, EMPTY))
        slots, rows = [], []
        has_children = plan.physical.num_physical > plan.physical.num_columns
        for run in plan.runs:
            is_made = run.bucket in opened
            slots.append(self._make(plan, run, opened) if is_made else self._copied_slots(run))
            if has_children and is_made:
                rows += row_counts(opened[run.bucket], run.first, run.length)
            elif has_children:
                num_columns = self._plan.old_physical[run.bucket].num_columns
                counts = [self._num_rows] * num_columns + self._directories[run.bucket].child_rows
                rows += counts[run.first : run.first + run.length]
        return self._head(plan, rows, slots), slots

    def _head(self, plan: BucketPlan, rows: list[int], slots: list[_Slots]) -> bytes:
        """The directory of slots; `rows` are those of all physical columns if some of them are children."""
        return pack_directory(rows[plan.physical.num_columns :], []) + b"".join(each.sizes for each in slots)

    def _copied_slots(self, run: Run) -> _Slots:
        directory, end = self._directories[run.bucket], run.first + run.length
        start = directory.starts[run.first]
        return _Slots(run, directory.sizes[4 * run.first : 4 * end], start, directory.starts[end] - start)

    def _make(self, plan: BucketPlan, run: Run, opened: Mapping[int, BucketViews]) -> _Slots:
        """Compress columns to slots."""
        made = self._writer.pack_pages(plan.number, cut_pages(opened[run.bucket], run.first, run.length))
        return _Slots(run, struct.pack(f"<{len(made)}I", *map(len, made)), 0, sum(map(len, made)), made)

    def _cut(self, slots: _Slots) -> Iterator[_Slots]:
        """Slots that are too many for one part, cut between slots."""
        run, first = slots.run, 0
        if slots.made is not None or slots.size <= PART_BYTES:
            yield slots
            return
        starts, end = self._directories[run.bucket].starts, run.first + run.length
        while first < run.length:
            at = run.first + first
            count = max(1, bisect_right(starts, starts[at] + PART_BYTES, at + 1, end + 1) - 1 - at)
            yield self._copied_slots(Run(run.bucket, at, count))
            first += count

    def _copy_slots(self, plan: BucketPlan, head: bytes, slots: list[_Slots]) -> BucketPart:
        """Read slots, and check their frames."""
        copied = [each for each in slots if each.made is None]
        data = iter(fetch(self._old.source, [Range(each.offset, each.size) for each in copied]))
        blobs: list[bytes | memoryview] = [head]
        encoded = 0
        for each in slots:
            if each.made is not None:
                blobs += each.made
                encoded += each.size if each.run.bucket == FRESH else 0
                continue
            blobs.append(stored := next(data))
            for at in odd_slots(stored, each.sizes):
                self._check_slot(each, at, stored)
        self._rewriter.count(sum(map(len, blobs)) - encoded, encoded)
        return BucketPart(plan.number, PAGED, 0, blobs)

    def _check_slot(self, slots: _Slots, at: int, data: memoryview) -> None:
        """Inflate a slot that is not a single frame of the declared size. It is copied if that succeeds."""
        starts, node = self._directories[slots.run.bucket].starts, slots.run.first + at
        allowance = Allowance(self._memory_limit)
        try:
            inflate_slots([data[starts[node] - slots.offset : starts[node + 1] - slots.offset]], allowance.take)
        except MosaicError as error:
            error.place["column"] = node
            raise self._old.locate(error, self._bucket(slots.run.bucket)) from None


class _Shared:
    """Inflated blocks that several threads take, each as often as is expected, and which are then released."""

    def __init__(self, inflate: Callable[[int], BucketViews], expected: Iterable[int]) -> None:
        self._inflate = inflate
        self._left = Counter(expected)
        self._locks = {number: threading.Lock() for number in self._left}
        self._opened: dict[int, BucketViews] = {}

    def take(self, number: int) -> BucketViews:
        with self._locks[number]:
            views = self._opened.pop(number, None) or self._inflate(number)
            self._left[number] -= 1
            if self._left[number]:
                self._opened[number] = views
            return views
