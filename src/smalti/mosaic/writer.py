"""Writing stored columns: gather row groups, encode and compress buckets, then schema block, index and footer."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from smalti import threads
from smalti._core.encode import EncodedBucket, choose_paged
from smalti._core.input import Feeds, InputBatch
from smalti._core.names import pack_schema_block
from smalti._core.physical import PhysicalColumns
from smalti._core.schema import SchemaBlock
from smalti.errors import SchemaError
from smalti.format.bucket import pack_directory, pack_slots
from smalti.format.companion import ENVELOPE_SIZE, Description, pack_companion, pack_description
from smalti.format.compression import deflate
from smalti.format.footer import Footer
from smalti.format.index import MONOLITHIC, PAGED, BucketEntry, pack_row_group
from smalti.format.schema import pack_schema_section, with_num_buckets
from smalti.format.slot_sizes import MAX_NUMBERS, pack_slot_sizes
from smalti.format.statistics import StatisticsRecord
from smalti.io.sinks import Sink
from smalti.io.sources import REMOTE_TAIL
from smalti.mosaic.layout_choice import (
    SPLITS,
    LayoutChoice,
    Sample,
    choose_layout,
    dictionary_limits,
    plan_regions,
)
from smalti.mosaic.open_row_group import OpenRowGroup, Slice
from smalti.options import LAYOUTS, WriterOptions
from smalti.spec import (
    DEFAULT_NUM_BUCKETS,
    DEFAULT_PAGE_SIZE_THRESHOLD,
    FOOTER_SIZE,
    MAX_BLOCK_SIZE,
    MAX_PAGED_CHILDREN,
    MAX_ROWS,
    MAX_UINT32,
    Compression,
)
from smalti.tasks import Task

#: Bounds of a column that take more bytes together are left out unless they are asked for.
MAX_AUTO_BOUNDS = 128


class BucketPart(NamedTuple):
    """Bytes of a bucket, all or some of them, and how it is stored; parts of one bucket follow each other.

    The first blob of a paged bucket is its directory.
    """

    bucket: int
    mode: str
    uncompressed_size: int
    blobs: list[Any]


class StoredWriter:
    """Writes batches of stored columns to a sink, which it commits or aborts at the end.

    A column's *index* is that in the schema and the batches, its *position* that among the sorted names.

    Parameters
    ----------
    sink : Sink
    schema : pyarrow.Schema
        The stored columns.
    descriptors : list of bytes
        Their packed types.
    options : WriterOptions
    statistics : list of int
        Indices of the columns that get statistics.
    vectors : set of int
        Indices of columns that hold vectors, which are often noise and need not be compressed.
    """

    def __init__(
        self,
        sink: Sink,
        schema: pa.Schema,
        descriptors: list[bytes],
        options: WriterOptions,
        statistics: list[int],
        vectors: Set[int],
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._options = options
        #: Whether bounds that take many bytes are left out.
        self.limits_bounds = options.stats_columns == "auto"
        self._vectors = vectors
        self._threads = options.threads or threads.cpu_count()
        names = [name.encode() for name in schema.names]
        #: Indices of the columns by position.
        self.indices = sorted(range(len(names)), key=names.__getitem__)
        positions = [0] * len(names)
        for position, index in enumerate(self.indices):
            positions[index] = position
        num_buckets = max(1, min(options.num_buckets or DEFAULT_NUM_BUCKETS, len(names)))
        by_position = [names[i] for i in self.indices], [descriptors[i] for i in self.indices]
        self._packed_block = pack_schema_block(*by_position, positions, num_buckets)
        self.block = SchemaBlock(self._packed_block)
        self._all_physical = self.block.physical_range(0, len(names))
        self._with_statistics = [positions[index] for index in statistics]
        self._open = OpenRowGroup(self._all_physical, self.indices, options)
        self._raw_bytes = 0
        self._index: list[bytes] = []
        self._index_bytes = 0
        #: The sizes of the slots of every bucket, see `smalti.format.slot_sizes`; None if they are too many.
        self._slot_sizes: list[list[int]] | None = []
        self._num_slots = 0
        self._schema_section: Task[bytes] | None = None
        #: Whether the footer was written, so that nothing can be written any more.
        self.is_ended = False
        self.num_rows = 0
        #: Bytes that were written.
        self.num_bytes = 0
        #: Rows of the largest row group, or elements of an array or map column in it.
        self.most_rows = 0
        #: Statistics of each row group, with the stored field that each is about.
        self.records: list[list[tuple[StatisticsRecord, pa.Field]]] = []
        #: None until the first row group is there to choose by.
        self.layout: LayoutChoice | None = None
        fixed = self._fixed_layout()
        if fixed is not None:
            self._lay_out(fixed)

    @property
    def num_row_groups(self) -> int:
        return len(self._index)

    @property
    def open_bytes(self) -> int:
        """Bytes of the rows that wait for their row group to be full."""
        return self._open.num_bytes

    # --- the layout -----------------------------------------------------------------------------------------------

    def _fixed_layout(self) -> LayoutChoice | None:
        """The layout if there is nothing to choose: it was asked for, or every bucket has one column anyway."""
        num_buckets, threshold = self.block.num_buckets, self._options.page_size_threshold
        if self._options.is_layout_given:
            return LayoutChoice(
                num_buckets, DEFAULT_PAGE_SIZE_THRESHOLD if threshold is None else threshold, "asked for"
            )
        if len(self.indices) <= num_buckets:
            return LayoutChoice(num_buckets, MAX_UINT32, "every column has a bucket of its own")
        return None

    def _lay_out(self, layout: LayoutChoice) -> None:
        """Follow a choice: assign columns and statistics to buckets."""
        num_columns, before = len(self.indices), self.block.num_buckets
        if layout.num_buckets != before:
            self._packed_block = with_num_buckets(self._packed_block, num_columns, before, layout.num_buckets)
            self.block.assign_buckets(layout.num_buckets)
        self.layout = layout
        block, options = self._packed_block, self._options
        # Compressed beside the first buckets, since it is not needed before the end of the file. The function does not
        # hold the writer, so that an abandoned writer is collected, with its temporary file, when its last user is.
        self._schema_section = threads.start(
            lambda: pack_schema_section(len(block), _deflate(block, options)), self._threads_for(len(block))
        )
        buckets = range(layout.num_buckets if num_columns else 0)
        self.bucket_physical = [self.block.physical_columns(bucket) for bucket in buckets]
        self._bucket_statistics: dict[int, list[int]] = {}
        for position in self._with_statistics:
            bucket = self.block.bucket_of(position)
            wanted = self._bucket_statistics.setdefault(bucket, [])
            wanted.append(position - self.bucket_physical[bucket].first_column)

    def _no_rows(self) -> LayoutChoice:
        return LayoutChoice(self.block.num_buckets, DEFAULT_PAGE_SIZE_THRESHOLD, "there are no rows")

    def weigh(self, batches: Iterable[InputBatch]) -> dict[str, LayoutChoice]:
        """The layout that each aim would choose, by the rows of the first row group. Writes nothing."""
        for batch in batches:
            if batch.num_rows:
                self._open.take(batch, 0)
            if self._open.is_full:
                break
        if self.layout is not None or not self._open.num_rows:
            return dict.fromkeys(LAYOUTS, self.layout or self._no_rows())
        samples = self._samples(self._open.slices, self._open.num_bytes)
        return {aim: choose_layout(aim, len(self.indices), samples) for aim in LAYOUTS}

    def _samples(self, slices: list[Slice], raw_bytes: int) -> list[Sample]:
        """A few buckets of the first row group, compressed in several ways; see `choose_layout`."""
        num_buckets = self.block.num_buckets
        # There are fewer bytes once they are encoded, so these are never too many samples.
        regions = plan_regions(num_buckets, raw_bytes // num_buckets)
        return list(threads.ordered_map(partial(self._sample, slices), regions, min(self._threads, len(regions))))

    def _sample(self, slices: list[Slice], region: range) -> Sample:
        """The columns of neighbouring buckets, compressed as pages and as several numbers of blocks."""
        first, end = self.block.bucket_columns(region[0])[0], self.block.bucket_columns(region[-1])[1]
        whole = self._encode(slices, self.block.physical_range(first, end), [])
        blocks = {}
        for count in (1, len(region), SPLITS * len(region)):
            num_buckets = min(len(self.indices), self.block.num_buckets * count // len(region))
            if num_buckets in blocks:
                continue
            cuts = sorted({first + i * (end - first) // count for i in range(count + 1)})
            parts = [whole]
            if count > 1:
                parts = [
                    self._encode(slices, self.block.physical_range(start, stop), []) for start, stop in pairwise(cuts)
                ]
            blocks[num_buckets] = sum(len(_deflate(part.monolithic(), self._options)) for part in parts)
        pages, (page_bytes, num_pages) = whole.pages(), whole.counted()
        paged_bytes = None
        if self._options.codec is Compression.ZSTD:
            slots = pack_slots(pages, self._options.compression_level, self._options.checksum)
            paged_bytes = sum(map(len, slots)) + 4 * len(slots)
        raw_bytes = sum(len(page) for page in pages if page is not None)
        return Sample(end - first, raw_bytes, num_pages, page_bytes, blocks, paged_bytes)

    # --- row groups -----------------------------------------------------------------------------------------------

    def add(self, batch: InputBatch) -> None:
        """Check the values of a batch, then hand its rows to row groups, and write each that is full."""
        if batch.num_rows == 0:
            return
        feeds = Feeds(self._all_physical, self.indices, [(batch, 0, batch.num_rows)])
        problem = feeds.check()
        if problem is not None:
            node, reason, found = problem
            raise SchemaError(reason, column=self._all_physical.paths(self.block.names())[node][1], found=found)
        start = 0
        while start < batch.num_rows:
            start += self._open.take(batch, start, feeds)
            if start < batch.num_rows or self._open.is_full:
                self.flush()

    def own(self, copy: bool) -> None:
        """Take over the rows that stay in memory because their row group is not full; `copy` if they are borrowed."""
        self._open.own(copy)

    def flush(self) -> None:
        """Encode and write the open row group."""
        slices, num_rows = self._open.slices, self._open.num_rows
        if not num_rows:
            return
        self._raw_bytes += self._open.num_bytes
        self._open.clear()
        if self.layout is None:
            samples = self._samples(slices, self._raw_bytes)
            self._lay_out(choose_layout(self._options.layout, len(self.indices), samples))
        records: list[StatisticsRecord] = []
        self.put_row_group(num_rows, self._encode_buckets(slices, num_rows, records), records)

    def _encode_buckets(
        self, slices: list[Slice], num_rows: int, records: list[StatisticsRecord]
    ) -> Iterator[BucketPart]:
        """The buckets of a row group; their statistics are added to `records`."""
        buckets = range(len(self.bucket_physical))
        encode = partial(self._encode_bucket, slices)
        num_threads = self._threads_for(num_rows * len(self.indices) * 8) if len(buckets) > 1 else 1
        results = threads.ordered_map(encode, buckets, num_threads)
        for physical, (part, encoded) in zip(self.bucket_physical, results, strict=True):
            self.most_rows = max(self.most_rows, num_rows, *encoded.child_rows)
            records += self._records_of(encoded, range(physical.first_column, len(self.indices)))
            yield part

    def _threads_for(self, num_bytes: int) -> int:
        """The threads that work on so many bytes, about: handing over little work takes longer than doing it."""
        return self._threads if num_bytes >= threads.MIN_SHARED else 1

    def _records_of(self, encoded: EncodedBucket, positions: Sequence[int]) -> list[StatisticsRecord]:
        """The statistics of encoded columns, which have these positions; without long bounds that nobody asked for."""
        records = [StatisticsRecord(positions[at], nulls, low, high) for at, nulls, low, high in encoded.statistics]
        if self.limits_bounds:
            records = [record for record in records if record.bound_bytes <= MAX_AUTO_BOUNDS]
        return records

    def put_row_group(self, num_rows: int, parts: Iterable[BucketPart], records: list[StatisticsRecord]) -> None:
        """Write a row group: the parts of all buckets, in order. `records` may be filled while the parts are made."""
        entries: list[BucketEntry] = []
        for part in parts:
            if part.bucket == len(entries):
                entries.append(BucketEntry(part.mode, self.num_bytes, 0, part.uncompressed_size))
                slots = self.bucket_physical[part.bucket].num_physical if part.mode == PAGED else 0
                head = memoryview(part.blobs[0])
                self._count_slots(list(struct.unpack_from(f"<{slots}I", head, len(head) - 4 * slots)) if slots else [])
            self._put(*part.blobs)
            entries[-1] = entries[-1]._replace(size=self.num_bytes - entries[-1].offset)
        records = sorted(records, key=lambda record: record.column)
        fields = [self._schema.field(self.indices[record.column]) for record in records]
        packed = [record.pack(field.type) for record, field in zip(records, fields, strict=True)]
        self.num_rows += num_rows
        self._index.append(pack_row_group(num_rows, entries, packed))
        self._index_bytes += len(self._index[-1])
        self.records.append(list(zip(records, fields, strict=True)))

    def _encode_bucket(self, slices: list[Slice], bucket: int) -> tuple[BucketPart, EncodedBucket]:
        """The bytes of a bucket, and its encoded columns."""
        encoded = self._encode(slices, self.bucket_physical[bucket], self._bucket_statistics.get(bucket, []))
        return self.pack_bucket(bucket, encoded), encoded

    def encode_some(
        self, slices: list[Slice], columns: Mapping[int, int]
    ) -> tuple[PhysicalColumns, EncodedBucket, list[StatisticsRecord]]:
        """Encode some columns of a bucket, if the caller has the others; also return their statistics.

        `columns` has the index in the batches for each position, in ascending order.
        """
        positions = list(columns)
        physical, wanted = self.block.physical_at(positions), set(self._with_statistics)
        statistics = [at for at, position in enumerate(positions) if position in wanted]
        encoded = self._encode_feeds(physical, list(columns.values()), slices, statistics)
        return physical, encoded, self._records_of(encoded, positions)

    def pack_bucket(self, bucket: int, encoded: EncodedBucket) -> BucketPart:
        """Compress the encoded columns of a bucket, paged or not by the layout of the file."""
        assert self.layout is not None
        if (
            self._options.codec is Compression.ZSTD
            and choose_paged(*encoded.counted(), self.layout.page_size_threshold)
            and len(encoded.child_rows) <= MAX_PAGED_CHILDREN
        ):
            slots = self.pack_pages(bucket, encoded.pages())
            head = pack_directory(encoded.child_rows, list(map(len, slots)))
            return BucketPart(bucket, PAGED, 0, [head, *slots])
        return self.pack_block(bucket, encoded.monolithic())

    def pack_pages(self, bucket: int, pages: list[bytes | None]) -> list[bytes]:
        """Compress pages to slots."""
        self._check_size(max((len(page) for page in pages if page is not None), default=0))
        options = self._options
        return pack_slots(pages, options.compression_level, options.checksum, self._may_store(bucket))

    def pack_block(self, bucket: int, block: memoryview) -> BucketPart:
        """Compress the block of a monolithic bucket."""
        self._check_size(len(block) if self._options.codec is Compression.ZSTD else 0)
        return BucketPart(bucket, MONOLITHIC, len(block), [_deflate(block, self._options, self._may_store(bucket))])

    def _may_store(self, bucket: int) -> bool:
        """Whether a bucket has vectors, which need not be compressed."""
        return not self._vectors.isdisjoint(self._columns_of(self.bucket_physical[bucket]))

    @staticmethod
    def _check_size(num_bytes: int) -> None:
        """Refuse blocks above our reader's limit. Only a row group of one row can exceed it."""
        if num_bytes > MAX_BLOCK_SIZE:
            raise SchemaError("a row is too large for a bucket", found=num_bytes, expected=f"{MAX_BLOCK_SIZE} bytes")

    def _columns_of(self, physical: PhysicalColumns) -> list[int]:
        """Indices of the columns of a bucket."""
        return self.indices[physical.first_column : physical.first_column + physical.num_columns]

    def _encode(self, slices: list[Slice], physical: PhysicalColumns, statistics: list[int]) -> EncodedBucket:
        return self._encode_feeds(physical, self._columns_of(physical), slices, statistics)

    def _encode_feeds(
        self, physical: PhysicalColumns, indices: list[int], slices: list[Slice], statistics: list[int]
    ) -> EncodedBucket:
        """Encode columns. Refuse element counts above our reader's limit, which only a row group of one row exceeds."""
        limits = dictionary_limits(self._options, sum(rows for _, _, rows in slices))
        encoded = EncodedBucket(Feeds(physical, indices, slices), *limits, statistics)
        most = max(encoded.child_rows, default=0)
        if most > MAX_ROWS:
            raise SchemaError("a row has too many elements", found=most, expected=f"at most {MAX_ROWS}")
        return encoded

    def _count_slots(self, sizes: list[int]) -> None:
        """Keep the sizes of the slots of one more bucket, unless there are too many already."""
        self._num_slots += 1 + len(sizes)
        if self._slot_sizes is None or self._num_slots > MAX_NUMBERS:
            self._slot_sizes = None
        else:
            self._slot_sizes.append(sizes)

    def _pack_slot_sizes(self, others: int) -> bytes:
        """The frame with the sizes of slots, if it comes with the first read of a file on a store, like `others` do.

        That read has all of a small file anyway.
        """
        if self.num_bytes + others <= REMOTE_TAIL or not self._slot_sizes or not self._options.has_companion:
            return b""
        frame = pack_slot_sizes(self._slot_sizes)
        return frame if others + len(frame) <= REMOTE_TAIL else b""

    def _put(self, *blobs: bytes) -> None:
        for blob in blobs:
            self._sink.write(blob)
            self.num_bytes += len(blob)

    # --- the end --------------------------------------------------------------------------------------------------

    def companion_bytes(self, description: Description | None) -> int:
        """Size of a companion in bytes, found by packing its payload."""
        return self._companion_size(self._pack_payload(description))

    def estimate(self, companion_bytes: int) -> int:
        """About how many bytes the file would have if it ended here and open rows compressed like the others."""
        ratio = 1.0
        if self._options.codec is Compression.ZSTD and self._raw_bytes:
            ratio = self.num_bytes / self._raw_bytes
        index = self._index_bytes + (8 + 18 * self.block.num_buckets if self._open.num_rows else 0)
        schema = self._packed_block if self._schema_section is None else self._schema_section.result()
        return self.num_bytes + int(self._open.num_bytes * ratio) + len(schema) + companion_bytes + index + FOOTER_SIZE

    def finish(self, description: Description | None) -> None:
        """Write schema block, companion, index and footer after the last row group, and commit the sink.

        Call `flush` first. `description` is the payload of the companion; None if the stored schema equals the given
        one, metadata included. If committing fails, `finish` may be called again where `may_retry` is true.
        """
        if not self.is_ended:
            if self.layout is None:
                self._lay_out(self._no_rows())
            assert self._schema_section is not None
            section, payload = self._schema_section.result(), self._pack_payload(description)
            rest = len(section) + self._companion_size(payload)
            slot_sizes = self._pack_slot_sizes(rest + self._index_bytes + FOOTER_SIZE)
            index_offset = self.num_bytes + rest + len(slot_sizes)
            codec = self._options.codec
            footer = Footer(index_offset, self.num_bytes, self.block.num_buckets, len(self._index), codec)
            end = b"".join(self._index) + footer.pack()
            self._put(section, slot_sizes, pack_companion(payload, end) if self._options.has_companion else b"", end)
            self.is_ended = True
        self._sink.commit()

    @property
    def may_retry(self) -> bool:
        """Whether the file is complete, and committing it may be tried again."""
        return self.is_ended and self._sink.may_retry

    def abort(self) -> None:
        """Drop the rows that were not written yet, and abort the sink."""
        self._open.clear()
        self._sink.abort()

    def _pack_payload(self, description: Description | None) -> bytes:
        return pack_description(description) if description is not None and self._options.has_companion else b""

    def _companion_size(self, payload: bytes) -> int:
        return ENVELOPE_SIZE + len(payload) if self._options.has_companion else 0


def _deflate(block: Any, options: WriterOptions, may_store: bool = False) -> Any:
    if options.codec is Compression.NONE:
        return block
    return deflate(block, options.compression_level, options.checksum, may_store)
