"""Writing a file: check batches, gather row groups, encode and compress buckets, then schema block, index, footer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import pyarrow as pa

from smalti import threads
from smalti._core.encode import EncodedBucket, choose_paged
from smalti._core.input import Feeds, InputBatch
from smalti._core.names import pack_schema_block
from smalti._core.schema import SchemaBlock
from smalti.errors import MosaicError, SchemaError
from smalti.file.intake import Intake, arrow_batches, arrow_reader
from smalti.file.open_row_group import OpenRowGroup, Slice
from smalti.format.bucket import pack_directory, pack_slots
from smalti.format.compression import deflate
from smalti.format.footer import Footer
from smalti.format.index import MONOLITHIC, PAGED, BucketEntry, pack_row_group
from smalti.format.schema import pack_schema_section
from smalti.format.statistics import ColumnStatistics, StatisticsRecord
from smalti.io import open_sink
from smalti.io.places import AnyFileSystem
from smalti.options import WriterOptions
from smalti.spec import DEFAULT_NUM_BUCKETS, FOOTER_SIZE, MAX_PAGED_CHILDREN, Compression
from smalti.types import has_statistics


@dataclass(frozen=True)
class WriteSummary:
    """What a finished writer wrote."""

    num_rows: int
    num_row_groups: int
    num_bytes: int
    statistics: tuple[dict[str, ColumnStatistics], ...]


class MosaicWriter:
    """Writes one Mosaic file, batch by batch.

    Parameters
    ----------
    where : str, os.PathLike or binary file object
        A local path or URI; the file appears there when the writer is closed, complete, or not at all.
    schema : pyarrow.Schema
        Of the batches to come. Columns keep this order.
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
        **option_values: Any,
    ) -> None:
        self._closed = True  # until there is something to close
        self.options = WriterOptions.of(options, option_values)
        self._intake = Intake(schema)
        self.schema = self._intake.schema
        self._threads = self.options.threads or threads.cpu_count()
        self._plan_columns()
        self._open = OpenRowGroup(self._all_nodes, self._positions, self.options)
        self._raw_bytes = 0
        self._offset = 0
        self._index: list[bytes] = []
        self._rows = 0
        self._statistics: list[dict[str, ColumnStatistics]] = []
        self._failure: BaseException | None = None
        self.summary: WriteSummary | None = None
        self._sink = open_sink(where, filesystem)
        self._closed = False

    def _plan_columns(self) -> None:
        """Everything that follows from the schema alone: order, buckets, schema block, statistics."""
        names = [name.encode() for name in self.schema.names]
        by_name = sorted(range(len(names)), key=names.__getitem__)
        places = [0] * len(names)
        for place, column in enumerate(by_name):
            places[column] = place
        num_buckets = max(1, min(self.options.num_buckets or DEFAULT_NUM_BUCKETS, len(names)))
        descriptors = self._intake.descriptors
        block = pack_schema_block([names[i] for i in by_name], [descriptors[i] for i in by_name], places, num_buckets)
        self._block = SchemaBlock(block)
        # Compressed beside the first buckets, since it is not needed before the end of the file.
        self._schema_section = threads.start(
            lambda: pack_schema_section(len(block), self._deflate(block)), self._threads
        )
        self._positions = by_name
        self._all_nodes = self._block.nodes(0, len(names))
        self._bucket_nodes = [self._block.bucket_nodes(bucket) for bucket in range(num_buckets if names else 0)]
        self._wanted = self._plan_statistics(places)

    def _plan_statistics(self, places: list[int]) -> dict[int, list[int]]:
        """Positions with statistics, by bucket."""
        wanted: dict[int, list[int]] = {}
        if self.options.stats_columns == "all":
            names = [field.name for field in self.schema if has_statistics(field.type)]
        else:
            names = list(self.options.stats_columns)
        for name in names:
            column = self.schema.get_field_index(name)
            if column < 0:
                raise SchemaError("no such column to keep statistics of", found=name)
            if not has_statistics(self.schema.field(column).type):
                raise SchemaError(
                    "columns of this type have no order to keep statistics of",
                    column=name,
                    found=str(self.schema.field(column).type),
                )
            bucket = self._block.bucket_of(places[column])
            wanted.setdefault(bucket, []).append(places[column] - self._block.bucket_columns(bucket)[0])
        return wanted

    # --- taking data in -------------------------------------------------------------------------------------------

    def write(self, data: Any, *, copy: bool | None = None) -> None:
        """Write a RecordBatch, a Table, or anything with an Arrow stream or array.

        Columns are matched by name. All of a batch is checked before any of it is taken; an error leaves no file.

        Parameters
        ----------
        data : pyarrow.Table, RecordBatch, RecordBatchReader, or object with an Arrow stream or array
        copy : bool, optional
            Whether to copy the rows that stay in memory after this call, because their row group is not full. False
            saves the copy for a caller who promises to leave the buffers of `data` as they are. By default, Tables
            and RecordBatches are copied, and what a stream hands over is not: no one else has it.
        """
        self._usable()
        if copy is None:
            copy = isinstance(data, (pa.RecordBatch, pa.Table))
        try:
            for batch in arrow_batches(data):
                self._add(self._intake.conform(batch))
            self._open.keep(copy)
        except BaseException as error:
            self._fail(error)
            raise

    def _add(self, batch: pa.RecordBatch) -> None:
        """Check a batch, then hand its rows to row groups, writing those that are full."""
        if batch.num_rows == 0:
            return
        taken = InputBatch(batch)
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
        entries: list[BucketEntry] = []
        records: list[StatisticsRecord] = []
        encode = partial(self._encode_bucket, slices)
        buckets = range(len(self._bucket_nodes))
        results = threads.ordered_map(encode, buckets, self._threads if len(buckets) > 1 else 1)
        for nodes, (mode, blobs, uncompressed_size, encoded) in zip(self._bucket_nodes, results, strict=True):
            entries.append(BucketEntry(mode, self._offset, sum(map(len, blobs)), uncompressed_size))
            self._put(*blobs)
            first = nodes.first_column
            records += [StatisticsRecord(first + at, nulls, low, high) for at, nulls, low, high in encoded.statistics]
        fields = [self.schema.field(self._positions[record.column]) for record in records]
        pairs = list(zip(records, fields, strict=True))
        self._rows += num_rows
        self._index.append(pack_row_group(num_rows, entries, [record.pack(field.type) for record, field in pairs]))
        self._statistics.append({field.name: record.describe(field.type) for record, field in pairs})

    def _encode_bucket(self, slices: list[Slice], bucket: int) -> tuple[str, list[bytes], int, EncodedBucket]:
        """The mode of a bucket, its bytes, the size of its block (0 when paged), and what it was made from."""
        nodes, options = self._bucket_nodes[bucket], self.options
        feeds = Feeds(nodes, self._positions[nodes.first_column : nodes.first_column + nodes.num_columns], slices)
        encoded = EncodedBucket(feeds, options.dict_max_entries, options.dict_max_bytes, self._wanted.get(bucket, []))
        if (
            options.codec is Compression.ZSTD
            and choose_paged(*encoded.counted(), options.page_size_threshold)
            and len(encoded.child_rows) <= MAX_PAGED_CHILDREN
        ):
            pages = list(map(encoded.page, range(encoded.num_nodes)))
            slots = pack_slots(pages, options.compression_level, options.checksum)
            return PAGED, [pack_directory(encoded.child_rows, list(map(len, slots))), *slots], 0, encoded
        block = encoded.monolithic()
        return MONOLITHIC, [self._deflate(block)], len(block), encoded

    def _deflate(self, block: Any) -> Any:
        if self.options.codec is Compression.NONE:
            return block
        return deflate(block, self.options.compression_level, self.options.checksum)

    def _put(self, *blobs: bytes) -> None:
        for blob in blobs:
            self._sink.write(blob)
            self._offset += len(blob)

    # --- finishing ------------------------------------------------------------------------------------------------

    @property
    def estimated_size(self) -> int:
        """Bytes the file would have if it were closed now; open rows are judged by how well others compressed."""
        if self.summary is not None:
            return self.summary.num_bytes
        ratio = 1.0
        if self.options.codec is Compression.ZSTD and self._raw_bytes:
            ratio = self._offset / self._raw_bytes
        index = sum(len(entry) for entry in self._index)
        if self._open.num_rows:
            index += 8 + 18 * len(self._bucket_nodes)
        end = len(self._schema_section.result()) + index + FOOTER_SIZE
        return self._offset + int(self._open.num_bytes * ratio) + end

    def close(self) -> None:
        """Write what is open and the end of the file, and make it appear. Closing twice is harmless."""
        if self._closed:
            if self._failure is not None:
                self._usable()
            return
        try:
            self._flush()
            schema_offset, schema_section = self._offset, self._schema_section.result()
            index_offset = schema_offset + len(schema_section)
            num_groups = len(self._index)
            footer = Footer(index_offset, schema_offset, self._block.num_buckets, num_groups, self.options.codec)
            self._put(schema_section, *self._index, footer.pack())
            self._sink.commit()
        except BaseException as error:
            self._fail(error)
            raise
        self._closed = True
        self.summary = WriteSummary(self._rows, num_groups, self._offset, tuple(self._statistics))

    def abort(self) -> None:
        """Give up: no file appears, and a file that was there before stays as it is."""
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
        if self._closed:
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

    def __del__(self) -> None:
        if not self._closed:
            self.abort()


def write_table(
    data: Any,
    where: Any,
    options: WriterOptions | None = None,
    *,
    filesystem: AnyFileSystem = None,
    **option_values: Any,
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
