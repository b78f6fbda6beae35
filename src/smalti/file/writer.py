"""Writing a file: check batches, gather row groups, encode and compress buckets, then schema block, index, footer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti import threads
from smalti._core.encode import EncodedBucket, choose_paged
from smalti._core.input import Feeds, InputBatch
from smalti._core.names import pack_schema_block
from smalti._core.physical import PhysicalColumns
from smalti._core.schema import SchemaBlock
from smalti.errors import MosaicError, SchemaError, no_column
from smalti.file.casting import check_schema
from smalti.file.columns import restore_bound
from smalti.file.inspection import Inspector
from smalti.file.intake import Intake, arrow_batches, arrow_reader
from smalti.file.layout_choice import SPLITS, LayoutChoice, Sample, choose_layout, plan_regions
from smalti.file.open_row_group import OpenRowGroup, Slice
from smalti.format.bucket import pack_directory, pack_slots
from smalti.format.companion import ENVELOPE_SIZE, pack_companion, pack_description
from smalti.format.compression import deflate
from smalti.format.footer import Footer
from smalti.format.index import MONOLITHIC, PAGED, BucketEntry, pack_row_group
from smalti.format.schema import pack_schema_section, with_num_buckets
from smalti.format.statistics import ColumnStatistics, StatisticsRecord
from smalti.io import open_sink
from smalti.io.places import AnyFileSystem
from smalti.options import LAYOUTS, WriterOptions, WriterOptionValues
from smalti.report.notebook import html_summary
from smalti.report.units import show_bytes, show_count
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

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing since Python 3.11

#: Tables of more columns have no statistics unless they are asked for.
MAX_AUTO_STATISTICS = 100
#: Bytes of both bounds of a column; longer ones are left out unless they are asked for.
MAX_AUTO_BOUNDS = 128


@dataclass(frozen=True)
class WriteSummary:
    """What a finished writer has written; `layout` says which layout it chose and why."""

    num_rows: int
    num_row_groups: int
    num_bytes: int
    layout: LayoutChoice
    #: The columns that were stored as another type, or as several columns, and what as.
    stored_as: dict[str, tuple[pa.Field, ...]]
    _records: tuple[list[tuple[StatisticsRecord, pa.Field, pa.DataType | None]], ...] = field(repr=False)

    def _repr_html_(self) -> str:
        """For notebooks: how much was written, and in which layout."""
        facts = [
            ("rows", f"{self.num_rows:,} in {show_count(self.num_row_groups, 'row group')}"),
            ("size", show_bytes(self.num_bytes)),
            ("layout", self.layout.reason),
            ("with statistics", show_count(len(self.statistics[0]) if self.statistics else 0, "column")),
        ]
        rows = [
            [name, ", ".join(f"{part.name}: {part.type}" for part in parts)] for name, parts in self.stored_as.items()
        ]
        shown = rows[:20]
        return html_summary("Written Mosaic file", facts, ["column", "stored as"], shown, hidden=len(rows) - len(shown))

    @cached_property
    def statistics(self) -> tuple[dict[str, ColumnStatistics], ...]:
        """The statistics of each row group, by column."""
        return tuple(
            {field.name: record.describe(field.type, restore_bound(type_)) for record, field, type_ in group}
            for group in self._records
        )

    @property
    def raw_statistics(self) -> tuple[dict[str, ColumnStatistics], ...]:
        """The same with `min` and `max` as bytes; see `RowGroup.raw_statistics`."""
        return tuple(
            {field.name: ColumnStatistics(record.null_count, record.low, record.high) for record, field, _ in group}
            for group in self._records
        )


class MosaicWriter:
    """Writes one Mosaic file, batch by batch.

    Several threads may share a writer: one call runs at a time, so the rows of a call stay together, in the order of
    the calls. A writer belongs to the process that made it: it cannot be pickled, and a forked child cannot use it.

    Parameters
    ----------
    where : str, os.PathLike or binary file object
        A local path or URI. The file appears there, complete, when the writer is closed; if something fails, it does
        not appear.
    schema : pyarrow.Schema
        The schema of the batches that will be written. Columns keep this order.
    options : WriterOptions, optional
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    **option_values
        Options by name, instead of `options`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    >>> with smalti.MosaicWriter("people.mosaic", schema, stats_columns=["id"]) as writer:
    ...     writer.write(pa.record_batch({"id": [1, 2], "name": ["Ada", None]}, schema))
    >>> writer.summary.num_rows
    2
    """

    def __init__(
        self,
        where: Any,
        schema: pa.Schema,
        options: WriterOptions | None = None,
        *,
        filesystem: AnyFileSystem = None,
        **option_values: Unpack[WriterOptionValues],
    ) -> None:
        self._closed = True  # until there is something to close
        self._lock = threads.OwnLock("a MosaicWriter")
        self.options = WriterOptions.of(options, option_values)
        self._intake = Intake(check_schema(schema), self._has_companion)
        self._inspector = Inspector()
        #: As it was given.
        self.schema = schema
        self._stored = self._intake.schema
        self._threads = self.options.threads or threads.cpu_count()
        self._plan_columns()
        self._open = OpenRowGroup(self._all_nodes, self._positions, self.options)
        self._raw_bytes = 0
        self._offset = 0
        self._index: list[bytes] = []
        self._rows = 0
        #: Rows of the largest row group, or elements of an array or map column in it.
        self._most_rows = 0
        self._records: list[list[tuple[StatisticsRecord, pa.Field, pa.DataType | None]]] = []
        self._failure: BaseException | None = None
        self._ended = False
        self.summary: WriteSummary | None = None
        self._sink = open_sink(where, filesystem)
        self._closed = False

    def _plan_columns(self) -> None:
        """Everything that follows from the schema alone: the order of columns, statistics, a first schema block."""
        names = [name.encode() for name in self._stored.names]
        by_name = sorted(range(len(names)), key=names.__getitem__)
        places = [0] * len(names)
        for place, column in enumerate(by_name):
            places[column] = place
        descriptors = self._intake.descriptors
        num_buckets = max(1, min(self.options.num_buckets or DEFAULT_NUM_BUCKETS, len(names)))
        self._packed_block = pack_schema_block(
            [names[i] for i in by_name], [descriptors[i] for i in by_name], places, num_buckets
        )
        self._block = SchemaBlock(self._packed_block)
        self._positions = by_name
        self._all_nodes = self._block.physical_range(0, len(names))
        self._statistics_places = self._plan_statistics(places)
        #: How the columns are laid out; None until the first row group is there to choose by.
        self._layout: LayoutChoice | None = None
        self._schema_section: Future[bytes] | None = None
        fixed = self._fixed_layout()
        if fixed is not None:
            self._lay_out(fixed)

    @property
    def _is_layout_given(self) -> bool:
        return self.options.num_buckets is not None or self.options.page_size_threshold is not None

    def _fixed_layout(self) -> LayoutChoice | None:
        """The layout if there is nothing to choose: it was asked for, or every bucket has one column anyway."""
        options, num_buckets = self.options, self._block.num_buckets
        if self._is_layout_given:
            threshold = options.page_size_threshold
            default = DEFAULT_PAGE_SIZE_THRESHOLD
            return LayoutChoice(num_buckets, default if threshold is None else threshold, "asked for")
        if len(self._positions) <= num_buckets:
            return LayoutChoice(num_buckets, MAX_UINT32, "every column has a bucket of its own")
        return None

    def _lay_out(self, layout: LayoutChoice) -> None:
        """Follow a choice: assign columns and statistics to buckets."""
        num_columns, before = len(self._positions), self._block.num_buckets
        if layout.num_buckets != before:
            self._packed_block = with_num_buckets(self._packed_block, num_columns, before, layout.num_buckets)
            self._block.assign_buckets(layout.num_buckets)
        self._layout = layout
        block, options = self._packed_block, self.options
        # Compressed beside the first buckets, since it is not needed before the end of the file. The function does not
        # hold the writer, so that an abandoned writer is gone, with its temporary file, when its last user is.
        self._schema_section = threads.start(
            lambda: pack_schema_section(len(block), _deflate(block, options)), self._threads
        )
        buckets = range(layout.num_buckets if num_columns else 0)
        self._bucket_columns = [self._block.physical_columns(bucket) for bucket in buckets]
        self._wanted: dict[int, list[int]] = {}
        for place in self._statistics_places:
            bucket = self._block.bucket_of(place)
            self._wanted.setdefault(bucket, []).append(place - self._bucket_columns[bucket].first_column)

    def _plan_statistics(self, places: list[int]) -> list[int]:
        """The columns with statistics, by their places among the sorted names."""
        wanted_by = self.options.stats_columns
        if wanted_by == "auto" and (len(places) > MAX_AUTO_STATISTICS or self._is_layout_given):
            return []
        ordered = self._intake.has_order
        if isinstance(wanted_by, str):
            return [place for column, place in enumerate(places) if ordered(column)]
        wanted = []
        for name in wanted_by:
            column = self._stored.get_field_index(name)
            if column < 0 and self.schema.get_field_index(name) < 0:
                raise no_column(name, self.schema.names, "to keep statistics of")
            if column < 0 or not ordered(column):
                type_ = self.schema.field(name).type if name in self.schema.names else self._stored.field(name).type
                raise SchemaError(
                    "columns of this type have no order to keep statistics of", column=name, found=str(type_)
                )
            wanted.append(places[column])
        return wanted

    # --- taking data in -------------------------------------------------------------------------------------------

    def write(self, data: Any, *, copy: bool | None = None) -> None:
        """Write a RecordBatch, a Table, or anything with an Arrow stream or array.

        Columns are matched by name. All of a batch is checked before any of it is written. After an error the writer
        cannot be used again, and no file appears.

        Parameters
        ----------
        data : pyarrow.Table, RecordBatch, RecordBatchReader, or object with an Arrow stream or array
        copy : bool, optional
            Whether to copy the rows that stay in memory after this call because their row group is not full. False
            saves the copy; the caller must then not change the buffers of `data`. By default, Tables and RecordBatches
            are copied, and batches of a stream are not, because nobody else holds them.
        """
        with self._lock:
            self._usable()
            if copy is None:
                copy = isinstance(data, (pa.RecordBatch, pa.Table))
            try:
                for batch in arrow_batches(data):
                    for taken in self._take_in(batch):
                        self._add(taken)
                self._open.keep(copy)
            except BaseException as error:
                self._fail(error)
                raise

    def _take_in(self, batch: pa.RecordBatch) -> Iterator[InputBatch]:
        """A batch as it will be stored, in one piece or more, after the proof that its arrays may be read."""
        sound = self._inspector.inspect(batch)
        for conformed in self._intake.conform(sound.batch):
            yield sound if conformed is sound.batch else InputBatch(conformed)

    def _add(self, taken: InputBatch) -> None:
        """Check the values of a batch, then hand its rows to row groups, writing those that are full."""
        if taken.num_rows == 0:
            return
        self._check_values(taken)
        start = 0
        while start < taken.num_rows:
            start += self._open.take(taken, start)
            if start < taken.num_rows or self._open.is_full:
                self._flush()

    def _check_values(self, batch: InputBatch) -> None:
        problem = Feeds(self._all_nodes, self._positions, [(batch, 0, batch.num_rows)]).check()
        if problem is not None:
            node, reason, found = problem
            path = self._all_nodes.paths(self._block.names())[node][1]
            raise SchemaError(reason, column=path, found=found)

    # --- writing row groups ---------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Encode and write the open row group."""
        slices, num_rows = self._open.slices, self._open.num_rows
        if not num_rows:
            return
        self._raw_bytes += self._open.num_bytes
        self._open.clear()
        layout = self._layout
        if layout is None:
            samples = self._samples(slices, self._raw_bytes)
            layout = choose_layout(self.options.layout, len(self._positions), samples)
            self._lay_out(layout)
        entries: list[BucketEntry] = []
        records: list[StatisticsRecord] = []
        encode = partial(self._encode_bucket, slices, layout.page_size_threshold)
        buckets = range(len(self._bucket_columns))
        results = threads.ordered_map(encode, buckets, self._threads if len(buckets) > 1 else 1)
        for nodes, (mode, blobs, uncompressed_size, encoded) in zip(self._bucket_columns, results, strict=True):
            entries.append(BucketEntry(mode, self._offset, sum(map(len, blobs)), uncompressed_size))
            self._put(*blobs)
            self._most_rows = max(self._most_rows, num_rows, *encoded.child_rows)
            first = nodes.first_column
            records += [StatisticsRecord(first + at, nulls, low, high) for at, nulls, low, high in encoded.statistics]
        if self.options.stats_columns == "auto":
            records = [record for record in records if record.bound_bytes <= MAX_AUTO_BOUNDS]
        fields = [self._stored.field(self._positions[record.column]) for record in records]
        packed = [record.pack(field.type) for record, field in zip(records, fields, strict=True)]
        self._rows += num_rows
        self._index.append(pack_row_group(num_rows, entries, packed))
        types = [self._intake.leaf_type(field.name) for field in fields]
        self._records.append(list(zip(records, fields, types, strict=True)))

    def _encode_bucket(
        self, slices: list[Slice], threshold: int, bucket: int
    ) -> tuple[str, list[bytes], int, EncodedBucket]:
        """The mode of a bucket, its bytes, the size of its block (0 when paged), and what it was made from."""
        nodes, options = self._bucket_columns[bucket], self.options
        encoded = self._encode(slices, nodes, self._wanted.get(bucket, []))
        may_store = self._may_store(nodes)
        if (
            options.codec is Compression.ZSTD
            and choose_paged(*encoded.counted(), threshold)
            and len(encoded.child_rows) <= MAX_PAGED_CHILDREN
        ):
            pages = encoded.pages()
            self._check_readable(max((len(page) for page in pages if page is not None), default=0), encoded)
            slots = pack_slots(pages, options.compression_level, options.checksum, may_store)
            return PAGED, [pack_directory(encoded.child_rows, list(map(len, slots))), *slots], 0, encoded
        block = encoded.monolithic()
        self._check_readable(len(block) if options.codec is Compression.ZSTD else 0, encoded)
        return MONOLITHIC, [_deflate(block, options, may_store)], len(block), encoded

    @staticmethod
    def _check_readable(num_bytes: int, encoded: EncodedBucket) -> None:
        """Refuse what our reader would refuse. Only a row group of a single row, which cannot be cut, is so large."""
        if num_bytes > MAX_BLOCK_SIZE:
            raise SchemaError("a row is too large for a bucket", found=num_bytes, expected=f"{MAX_BLOCK_SIZE} bytes")
        if max(encoded.child_rows, default=0) > MAX_ROWS:
            expected = f"at most {MAX_ROWS}"
            raise SchemaError("a row has too many elements", found=max(encoded.child_rows), expected=expected)

    def _may_store(self, nodes: PhysicalColumns) -> bool:
        """Whether a bucket need not be compressed: it has vectors, which are often noise that is read as a whole."""
        if self.options.layout == "small" or not self._has_companion:
            return False
        return not self._intake.vectors.isdisjoint(self._columns_of(nodes))

    def _columns_of(self, nodes: PhysicalColumns) -> list[int]:
        """The stored columns of a bucket, by their places in the schema."""
        return self._positions[nodes.first_column : nodes.first_column + nodes.num_columns]

    def _encode(self, slices: list[Slice], nodes: PhysicalColumns, statistics: list[int]) -> EncodedBucket:
        feeds = Feeds(nodes, self._columns_of(nodes), slices)
        return EncodedBucket(feeds, self.options.dict_max_entries, self.options.dict_max_bytes, statistics)

    def _samples(self, slices: list[Slice], raw_bytes: int) -> list[Sample]:
        """A few buckets of the first row group, compressed in several ways; see `choose_layout`."""
        num_buckets = self._block.num_buckets
        # There are fewer bytes once they are encoded, so these are never too many samples.
        regions = plan_regions(num_buckets, raw_bytes // num_buckets)
        return list(threads.ordered_map(partial(self._sample, slices), regions, min(self._threads, len(regions))))

    def _sample(self, slices: list[Slice], region: range) -> Sample:
        """The columns of neighbouring buckets, compressed as pages and as several numbers of blocks."""
        first, end = self._block.bucket_columns(region[0])[0], self._block.bucket_columns(region[-1])[1]
        whole = self._encode(slices, self._block.physical_range(first, end), [])
        blocks = {}
        for count in (1, len(region), SPLITS * len(region)):
            num_buckets = min(len(self._positions), self._block.num_buckets * count // len(region))
            if num_buckets in blocks:
                continue
            cuts = sorted({first + i * (end - first) // count for i in range(count + 1)})
            parts = [whole]
            if count > 1:
                parts = [
                    self._encode(slices, self._block.physical_range(start, stop), []) for start, stop in pairwise(cuts)
                ]
            blocks[num_buckets] = sum(len(_deflate(part.monolithic(), self.options)) for part in parts)
        pages, (page_bytes, num_pages) = whole.pages(), whole.counted()
        paged_bytes = None
        if self.options.codec is Compression.ZSTD:
            slots = pack_slots(pages, self.options.compression_level, self.options.checksum)
            paged_bytes = sum(map(len, slots)) + 4 * len(slots)
        raw_bytes = sum(len(page) for page in pages if page is not None)
        return Sample(end - first, raw_bytes, num_pages, page_bytes, blocks, paged_bytes)

    def _put(self, *blobs: bytes) -> None:
        for blob in blobs:
            self._sink.write(blob)
            self._offset += len(blob)

    # --- finishing ------------------------------------------------------------------------------------------------

    @property
    def estimated_size(self) -> int:
        """About how many bytes the file would have if it were closed now, if open rows compress like the others."""
        with self._lock:
            return self._estimate()

    def _estimate(self) -> int:
        if self.summary is not None:
            return self.summary.num_bytes
        ratio = 1.0
        if self.options.codec is Compression.ZSTD and self._raw_bytes:
            ratio = self._offset / self._raw_bytes
        index = sum(len(entry) for entry in self._index)
        if self._open.num_rows:
            index += 8 + 18 * self._block.num_buckets
        schema = self._packed_block if self._schema_section is None else self._schema_section.result()
        end = len(schema) + index + FOOTER_SIZE
        if self._has_companion:
            end += ENVELOPE_SIZE + len(self._pack_description())
        return self._offset + int(self._open.num_bytes * ratio) + end

    def close(self) -> None:
        """Write the rows that are left and the end of the file, and make the file appear. Closing twice is harmless.

        If sending the file to a store fails, the file that was there before stays. Call `close` again to send the new
        one once more, or `abort` to give it up.
        """
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._closed:
            if self._failure is not None:
                self._usable()
            return
        try:
            if not self._ended:
                self._write_end()
            self._sink.commit()
        except BaseException as error:
            if not (self._ended and self._sink.may_retry):
                self._fail(error)
            raise
        assert self._layout is not None
        self._closed = True
        stored_as = self._intake.stored_as()
        self.summary = WriteSummary(
            self._rows, len(self._index), self._offset, self._layout, stored_as, tuple(self._records)
        )

    def _write_end(self) -> None:
        """Write what is open, then schema block, index and footer; nothing can be written after them."""
        self._flush()
        if self._layout is None:
            self._lay_out(LayoutChoice(self._block.num_buckets, DEFAULT_PAGE_SIZE_THRESHOLD, "there are no rows"))
        assert self._schema_section is not None
        schema_offset, schema_section = self._offset, self._schema_section.result()
        index_offset = schema_offset + len(schema_section)
        description = b""
        if self._has_companion:
            description = self._pack_description()
            index_offset += ENVELOPE_SIZE + len(description)
        footer = Footer(index_offset, schema_offset, self._block.num_buckets, len(self._index), self.options.codec)
        end = b"".join(self._index) + footer.pack()
        companion = pack_companion(description, end) if self._has_companion else b""
        self._put(schema_section, companion, end)
        self._ended = True

    @property
    def _has_companion(self) -> bool:
        """Decoders pass over it only between zstd frames, so an uncompressed file has none."""
        return self.options.companion and self.options.codec is Compression.ZSTD

    def _pack_description(self) -> bytes:
        """What the companion says of columns; nothing if the stored ones tell everything."""
        description = self._intake.describe(self._most_rows)
        return b"" if description is None else pack_description(description)

    def abort(self) -> None:
        """Give up: no file appears, and a file that was there before stays as it is.

        In a forked child this does nothing: the file is the parent's.
        """
        if self._closed or not self._lock.is_ours:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._open.clear()
                self._sink.abort()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.abort()

    def _usable(self) -> None:
        if self._failure is not None:
            raise MosaicError("writer failed earlier and wrote nothing", found=str(self._failure))
        if self._closed or self._ended:
            raise MosaicError("writer is closed")

    def __enter__(self) -> MosaicWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a MosaicWriter cannot be pickled: let each process write a file of its own")

    def __del__(self) -> None:
        if not self._closed:
            self.abort()


def _deflate(block: Any, options: WriterOptions, may_store: bool = False) -> Any:
    if options.codec is Compression.NONE:
        return block
    return deflate(block, options.compression_level, options.checksum, may_store)


def write_table(
    data: Any,
    where: Any,
    options: WriterOptions | None = None,
    *,
    filesystem: AnyFileSystem = None,
    **option_values: Unpack[WriterOptionValues],
) -> WriteSummary:
    """Write a table, or anything with an Arrow stream (pandas, Polars, DuckDB), to a Mosaic file.

    Parameters
    ----------
    data : pyarrow.Table, RecordBatch, RecordBatchReader, or object with ``__arrow_c_stream__``
    where : str, os.PathLike or binary file object
    options : WriterOptions, optional
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    **option_values
        Options by name, instead of `options`; see `WriterOptions`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> smalti.write_table(pa.table({"a": [1, 2, 3]}), "a.mosaic", num_buckets=1).num_rows
    3
    """
    data = arrow_reader(data)
    with MosaicWriter(where, data.schema, options, filesystem=filesystem, **option_values) as writer:
        writer.write(data, copy=False)
    assert writer.summary is not None
    return writer.summary


def weigh_layouts(data: Any, options: WriterOptions | None = None) -> dict[str, LayoutChoice]:
    """What each `layout` would choose for a table, and by which estimates; nothing is written.

    As many rows are looked at as would be the first row group. With options that leave nothing to choose, all say so.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> table = pa.table({f"c{i:03d}": [(i * j) % 97 for j in range(2000)] for i in range(300)})
    >>> {aim: choice.num_buckets for aim, choice in weigh_layouts(table).items()}
    {'balanced': 25, 'small': 25, 'fast': 25}
    """
    data = arrow_reader(data)
    writer = MosaicWriter(io.BytesIO(), data.schema, options)
    try:
        for batch in arrow_batches(data):
            for taken in writer._take_in(batch) if batch.num_rows and not writer._open.is_full else ():
                writer._open.take(taken, 0)
        fixed = writer._layout
        if fixed is not None or not writer._open.num_rows:
            none = LayoutChoice(writer._block.num_buckets, DEFAULT_PAGE_SIZE_THRESHOLD, "there are no rows")
            return dict.fromkeys(LAYOUTS, fixed or none)
        samples = writer._samples(writer._open.slices, writer._open.num_bytes)
        return {aim: choose_layout(aim, len(writer._positions), samples) for aim in LAYOUTS}
    finally:
        writer.abort()
