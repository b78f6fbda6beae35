"""Writing a file: check batches, gather row groups, encode and compress buckets, then schema block, index, footer."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa

from smalti import threads
from smalti._core.encode import EncodedBucket, choose_paged
from smalti._core.input import Feeds, InputBatch
from smalti._core.names import pack_schema_block
from smalti._core.nodes import BucketNodes
from smalti._core.schema import SchemaBlock
from smalti.errors import MosaicError, SchemaError
from smalti.file.intake import Intake, arrow_batches, arrow_reader
from smalti.format.bucket import pack_directory
from smalti.format.compression import deflate
from smalti.format.footer import Footer
from smalti.format.statistics import ColumnStatistics, describe, pack_record
from smalti.format.varint import pack_varint
from smalti.io import open_sink
from smalti.options import WriterOptions
from smalti.spec import (
    DEFAULT_NUM_BUCKETS,
    FOOTER_SIZE,
    MAX_PAGED_CHILDREN,
    MAX_ROW_GROUP_SIZE,
    MAX_UINT32,
    MAX_UNBACKED_ROWS,
    Compression,
)
from smalti.types import has_statistics

#: Sorted index, null count, minimum, maximum.
_Record = tuple[int, int, bytes | None, bytes | None]


@dataclass(frozen=True)
class _Slice:
    """Rows of a batch that wait for their row group."""

    batch: InputBatch
    start: int
    rows: int
    owned: bool = False

    def copy(self, schema: pa.Schema) -> _Slice:
        """The same rows in memory of our own."""
        data = self.batch.batch.slice(self.start, self.rows).serialize()
        return _Slice(InputBatch(pa.ipc.read_record_batch(data, schema)), 0, self.rows, owned=True)


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
        filesystem: Any = None,
        **option_values: Any,
    ) -> None:
        self._closed = True  # until there is something to close
        self.options = WriterOptions.of(options, option_values)
        self._intake = Intake(schema)
        self.schema = self._intake.schema
        self._threads = self.options.threads or threads.cpu_count()
        self._plan_columns()
        self._pending: list[_Slice] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._raw_bytes = 0
        self._stored_bytes = 0
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
        # Not needed before the end: compressed while buckets are.
        self._schema_payload = threads.start(lambda: self._deflate(block), self._threads)
        self._schema_size = len(block)
        self._positions = by_name
        self._all_nodes = self._block.nodes(0, len(names))
        self._buckets = range(num_buckets if names else 0)
        self._bucket_nodes: list[BucketNodes] = [self._block.bucket_nodes(bucket) for bucket in self._buckets]
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

    def write(self, data: Any) -> None:
        """Write a RecordBatch, a Table, or anything with an Arrow stream or array.

        Columns are matched by name. All of a batch is checked before any of it is taken; an error leaves no file.
        """
        self._usable()
        try:
            # What Arrow lends us may be the caller's to change; what a stream hands over is ours.
            borrowed = isinstance(data, (pa.RecordBatch, pa.Table))
            for batch in arrow_batches(data):
                self._add(self._intake.conform(batch))
            if borrowed:
                self._own_pending()
        except BaseException as error:
            self._fail(error)
            raise

    def _write_last(self, data: Any) -> None:
        """`write` for the last data before `close`: nothing is kept that the caller could still change."""
        try:
            for batch in arrow_batches(data):
                self._add(self._intake.conform(batch))
        except BaseException as error:
            self._fail(error)
            raise

    def _add(self, batch: pa.RecordBatch) -> None:
        """Check a batch, then hand its rows to row groups, flushing those that are full."""
        if batch.num_rows == 0:
            return
        taken = InputBatch(batch)
        self._check_values(taken)
        start = 0
        while start < taken.num_rows:
            rows, size = self._fit(taken, start)
            if rows:
                self._pending.append(_Slice(taken, start, rows))
                self._pending_rows += rows
                self._pending_bytes += size
                start += rows
            if start < taken.num_rows or self._is_full():
                self._flush()

    def _check_values(self, batch: InputBatch) -> None:
        problem = Feeds(self._all_nodes, self._positions, [(batch, 0, batch.num_rows)]).check()
        if problem is not None:
            node, reason, found = problem
            path = self._all_nodes.paths(self._block.names())[node][1]
            raise SchemaError(reason, column=path, found=found)

    def _measure(self, batch: InputBatch, start: int, rows: int) -> int:
        return Feeds(self._all_nodes, self._positions, [(batch, start, rows)]).measure()

    def _limits(self) -> tuple[int, int]:
        return (
            min(self.options.row_group_max_bytes, MAX_ROW_GROUP_SIZE),
            min(self.options.row_group_max_rows or MAX_UNBACKED_ROWS, MAX_UNBACKED_ROWS),
        )

    def _is_full(self) -> bool:
        max_bytes, max_rows = self._limits()
        return self._pending_bytes >= max_bytes or self._pending_rows >= max_rows

    def _fit(self, batch: InputBatch, start: int) -> tuple[int, int]:
        """How many rows from `start` on fit the open row group, and their size; one at least if it is empty."""
        max_bytes, max_rows = self._limits()
        rows = min(batch.num_rows - start, max_rows - self._pending_rows)
        room = max_bytes - self._pending_bytes
        while True:
            size = self._measure(batch, start, rows)
            if size <= room:
                return rows, size
            if rows == 1:
                return (0, 0) if self._pending_rows else (1, size)
            # Rows are alike more often than not: aim a little below what their average suggests.
            rows = max(1, min(rows - 1, rows * room * 31 // (size * 32)))

    def _own_pending(self) -> None:
        """Copy what is kept beyond this call, so that the caller may reuse the buffers."""
        self._pending = [piece if piece.owned else piece.copy(self.schema) for piece in self._pending]

    # --- writing row groups ---------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Encode and write the open row group."""
        if not self._pending_rows:
            return
        slices = [(piece.batch, piece.start, piece.rows) for piece in self._pending]
        rows = self._pending_rows
        self._pending, self._pending_rows = [], 0
        self._raw_bytes += self._pending_bytes
        self._pending_bytes = 0
        entries: list[bytes] = []
        records: list[_Record] = []

        def encode(bucket: int) -> tuple[list[Any], int, EncodedBucket]:
            return self._encode_bucket(bucket, slices)

        results = threads.ordered_map(encode, self._buckets, self._threads if len(self._buckets) > 1 else 1)
        for bucket, (blobs, bulk_size, encoded) in enumerate(results):
            size = sum(len(blob) for blob in blobs)
            if size > MAX_UINT32 or bulk_size > MAX_UINT32:
                raise MosaicError("bucket is too large for the format", bucket=bucket, found=size, expected=MAX_UINT32)
            entries.append(
                pack_varint(bucket) + self._offset.to_bytes(8, "big") + pack_varint(size) + pack_varint(bulk_size)
            )
            for blob in blobs:
                self._sink.write(blob)
            self._offset += size
            self._stored_bytes += size
            first = self._block.bucket_columns(bucket)[0]
            records += [(first + at, nulls, low, high) for at, nulls, low, high in encoded.statistics]
        self._rows += rows
        self._index.append(
            b"".join([pack_varint(rows), pack_varint(len(entries)), *entries, *self._pack_statistics(records)])
        )
        self._statistics.append(self._describe_statistics(records))

    def _encode_bucket(
        self, bucket: int, slices: list[tuple[InputBatch, int, int]]
    ) -> tuple[list[Any], int, EncodedBucket]:
        """The bytes of a bucket, its bulk size (0 when paged), and what it was made from."""
        nodes = self._bucket_nodes[bucket]
        first, stop = self._block.bucket_columns(bucket)
        feeds = Feeds(nodes, self._positions[first:stop], slices)
        options = self.options
        encoded = EncodedBucket(feeds, options.dict_max_entries, options.dict_max_bytes, self._wanted.get(bucket, []))
        if (
            options.codec is Compression.ZSTD
            and choose_paged(*encoded.counted(), options.page_size_threshold)
            and len(encoded.child_rows) <= MAX_PAGED_CHILDREN
        ):
            slots = [self._slot(encoded.page(node)) for node in range(encoded.num_nodes)]
            return [pack_directory(encoded.child_rows, [len(slot) for slot in slots]), *slots], 0, encoded
        block = encoded.monolithic()
        return [self._deflate(block)], len(block), encoded

    def _slot(self, page: bytes | None) -> bytes:
        return b"" if page is None else pack_varint(len(page)) + self._deflate(page)

    def _schema_section(self) -> bytes:
        payload: bytes = self._schema_payload.result()
        return self._schema_size.to_bytes(4, "big") + payload

    def _deflate(self, block: Any) -> Any:
        if self.options.codec is Compression.NONE:
            return block
        return deflate(block, self.options.compression_level, self.options.checksum)

    def _pack_statistics(self, records: list[_Record]) -> list[bytes]:
        packed = [pack_record(self._block.descriptor(record[0])[0], *record) for record in records]
        return [pack_varint(len(records)), *packed]

    def _describe_statistics(self, records: list[_Record]) -> dict[str, ColumnStatistics]:
        out = {}
        for place, null_count, low, high in records:
            field = self.schema.field(self._positions[place])
            type_id, _, precision, _ = self._block.descriptor(place)
            out[field.name] = describe(type_id, precision, field.type, null_count, low, high)
        return out

    # --- finishing ------------------------------------------------------------------------------------------------

    @property
    def estimated_size(self) -> int:
        """Bytes the file would have if it were closed now; open rows are judged by how well others compressed."""
        if self.summary is not None:
            return self.summary.num_bytes
        ratio = 1.0
        if self.options.codec is Compression.ZSTD and self._raw_bytes:
            ratio = self._stored_bytes / self._raw_bytes
        index = sum(len(entry) for entry in self._index)
        if self._pending_rows:
            index += 8 + 18 * len(self._buckets)
        return self._offset + int(self._pending_bytes * ratio) + len(self._schema_section()) + index + FOOTER_SIZE

    def close(self) -> None:
        """Write what is open and the end of the file, and make it appear. Closing twice is harmless."""
        if self._closed:
            if self._failure is not None:
                self._usable()
            return
        try:
            self._flush()
            schema_offset = self._offset
            schema_section = self._schema_section()
            index_offset = schema_offset + len(schema_section)
            footer = Footer(
                index_offset, schema_offset, self._block.num_buckets, len(self._index), self.options.codec
            ).pack()
            for blob in (schema_section, *self._index, footer):
                self._sink.write(blob)
                self._offset += len(blob)
            self._sink.commit()
        except BaseException as error:
            self._fail(error)
            raise
        self._closed = True
        self.summary = WriteSummary(self._rows, len(self._index), self._offset, tuple(self._statistics))

    def abort(self) -> None:
        """Give up: nothing appears, nothing that was there is touched."""
        if not self._closed:
            self._closed = True
            self._pending = []
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
    data: Any, where: Any, options: WriterOptions | None = None, *, filesystem: Any = None, **option_values: Any
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
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        data = arrow_reader(data)
    with MosaicWriter(where, data.schema, options, filesystem=filesystem, **option_values) as writer:
        writer._write_last(data)
    assert writer.summary is not None
    return writer.summary
