"""Writing a file: batches are inspected, mapped to stored columns, and handed to `mosaic.writer`."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import PurePath
from types import TracebackType
from typing import Any, Unpack

import pyarrow as pa

from smalti import threads
from smalti._core.input import InputBatch
from smalti.errors import LostTypesWarning, MosaicError, SchemaError, no_column, without_secrets
from smalti.file.inspection import Inspector
from smalti.format.foreign import SUFFIXES
from smalti.format.statistics import ColumnStatistics, StatisticsRecord
from smalti.io import open_sink
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.logical.adapt import check_schema
from smalti.logical.intake import Intake, arrow_batches, arrow_reader, batch_reader
from smalti.logical.mapping import restore_bound
from smalti.mosaic.layout_choice import LayoutChoice
from smalti.mosaic.writer import StoredWriter
from smalti.options import WriterOptions, WriterOptionValues
from smalti.units import show_bytes, show_count

#: Tables of more columns have no statistics unless they are asked for.
MAX_AUTO_STATISTICS = 100
#: Whether this process has warned of what files lose that are not compressed.
_has_warned = False


@dataclass(frozen=True, repr=False)
class WriteSummary:
    """What a finished writer has written; `layout` says which layout it chose and why."""

    num_rows: int
    num_row_groups: int
    num_bytes: int
    layout: LayoutChoice
    #: Columns stored as another type or as several columns, with their stored fields.
    stored_as: dict[str, tuple[pa.Field, ...]]
    _records: tuple[list[tuple[StatisticsRecord, pa.Field, pa.DataType | None]], ...]
    num_columns: int = 0

    def __repr__(self) -> str:
        return (
            f"WriteSummary: {show_count(self.num_rows, 'row')} x {show_count(self.num_columns, 'column')}, "
            f"{show_bytes(self.num_bytes)}, {show_count(self.layout.num_buckets, 'bucket')}"
        )

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from smalti.report.notebook import view_summary

        return view_summary(self)

    @cached_property
    def statistics(self) -> tuple[dict[str, ColumnStatistics], ...]:
        """The statistics of each row group, by column."""
        return tuple(
            {field.name: record.describe(field.type, partial(restore_bound, type_)) for record, field, type_ in group}
            for group in self._records
        )

    @property
    def raw_statistics(self) -> tuple[dict[str, ColumnStatistics], ...]:
        """The same with `min` and `max` as bytes; see `RowGroup.raw_statistics`."""
        return tuple(
            {field.name: ColumnStatistics(record.null_count, record.low, record.high) for record, field, _ in group}
            for group in self._records
        )


def _warn_about_suffix(where: object) -> None:
    """Warn if a path has the suffix of another format: what is written is Mosaic, whatever its name says."""
    known = SUFFIXES.get(PurePath(where).suffix.lower()) if isinstance(where, (str, os.PathLike)) else None
    if known is not None:
        text = f"{without_secrets(str(where))} will be a Mosaic file, though its name says {known}"
        warnings.warn(text, UserWarning, stacklevel=4)


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
    filesystem : pyarrow.fs.FileSystem, fsspec file system or obstore store, optional
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
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
        storage_options: AnyStorageOptions = None,
        **option_values: Unpack[WriterOptionValues],
    ) -> None:
        self._closed = True  # until there is something to close
        self._lock = threads.OwnLock("a MosaicWriter")
        self.options = WriterOptions.of(options, option_values)
        #: The schema that the caller passed.
        self.schema = check_schema(schema)
        self._intake = Intake(schema, self.options.has_companion)
        self._warn_of_loss()
        self._inspector = Inspector()
        self._failure: BaseException | None = None
        self.summary: WriteSummary | None = None
        #: When the companion was last packed: bytes of the dictionary values, and of the companion.
        self._packed: tuple[int, int] | None = None
        statistics = self._columns_with_statistics()
        may_store = self.options.layout != "small" and self.options.has_companion
        vectors = self._intake.vectors if may_store else frozenset[int]()
        _warn_about_suffix(where)
        sink = open_sink(where, chosen(filesystem, storage_options))
        try:
            self._stored_writer = StoredWriter(
                sink, self._intake.schema, self._intake.descriptors, self.options, statistics, vectors
            )
        except BaseException:
            sink.abort()
            raise
        self._closed = False

    def _warn_of_loss(self) -> None:
        """Say once what files lose that are not compressed, unless they were asked for without a companion."""
        global _has_warned
        if _has_warned or self.options.has_companion or not self.options.companion:
            return
        if lost := self._intake.without_companion():
            _has_warned = True
            text = f'without compression a file does not keep {", ".join(lost)}; compression="zstd" does'
            warnings.warn(text, LostTypesWarning, stacklevel=3)

    def _columns_with_statistics(self) -> list[int]:
        """Indices of the stored columns that get statistics."""
        wanted_by, stored = self.options.stats_columns, self._intake.schema
        if wanted_by == "auto" and len(stored) > MAX_AUTO_STATISTICS:
            return []
        has_order = self._intake.has_order
        if isinstance(wanted_by, str):
            return list(filter(has_order, range(len(stored))))
        wanted = []
        for name in wanted_by:
            index = stored.get_field_index(name)
            if index < 0 and self.schema.get_field_index(name) < 0:
                raise no_column(name, self.schema.names, "to keep statistics of")
            if index < 0 or not has_order(index):
                type_ = self.schema.field(name).type if name in self.schema.names else stored.field(name).type
                raise SchemaError(
                    "columns of this type have no order to keep statistics of", column=name, found=str(type_)
                )
            wanted.append(index)
        return wanted

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
        if copy is None:
            copy = isinstance(data, (pa.RecordBatch, pa.Table))
        with self._writing():
            for batch in arrow_batches(data):
                for stored in self._to_stored(batch):
                    self._stored_writer.add(stored)
            self._stored_writer.own(copy)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A call that writes: one at a time, and none after one that has failed."""
        with self._lock:
            self._usable()
            try:
                yield
            except BaseException as error:
                self._fail(error)
                raise

    def _to_stored(self, batch: pa.RecordBatch) -> Iterator[InputBatch]:
        """A batch as it is stored, in one piece or more, after the proof that its arrays may be read."""
        sound = self._inspector.inspect(batch)
        for conformed in self._intake.conform(sound.batch):
            yield sound if conformed is sound.batch else InputBatch(conformed)

    @property
    def estimated_size(self) -> int:
        """About how many bytes the file would have if it were closed now, if open rows compress like the others."""
        with self._lock:
            if self.summary is not None:
                return self.summary.num_bytes
            return self._stored_writer.estimate(self._companion_bytes())

    def _companion_bytes(self) -> int:
        """Estimated size of the companion. It is packed again when its dictionaries have grown by a quarter."""
        entries, written = self._intake.entry_bytes, self._stored_writer
        if self._packed is None or 4 * entries > 5 * self._packed[0]:
            self._packed = entries, written.companion_bytes(self._intake.describe(written.most_rows))
        return self._packed[1]

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the rows that are in memory because their row group is not full."""
        return 0 if self._closed else self._stored_writer.open_bytes

    @property
    def written_bytes(self) -> int:
        """Bytes of the row groups that are written."""
        return self._stored_writer.num_bytes

    def flush(self) -> None:
        """End the row group: rows that are written after this call begin another one.

        Rows that belong together can thus be skipped and read together. A row group costs some bytes for each bucket
        and its columns compress by themselves, so it should not be small. Without rows since the last one, nothing
        happens.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> with smalti.MosaicWriter("days.mosaic", pa.schema([("day", pa.int64())])) as writer:
        ...     for day in (1, 2):
        ...         writer.write(pa.table({"day": [day] * 3}))
        ...         writer.flush()
        >>> writer.summary.num_row_groups
        2
        """
        with self._writing():
            self._stored_writer.flush()

    def add_key_value_metadata(self, key_value_metadata: Mapping[Any, str | bytes]) -> None:
        """Add metadata of the schema, until the writer is closed; the last value of a key counts.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> with smalti.MosaicWriter("noted.mosaic", pa.schema([("a", pa.int64())])) as writer:
        ...     writer.write(pa.table({"a": [1, 2, 3]}))
        ...     writer.add_key_value_metadata({"sum": "6"})
        >>> smalti.read_table("noted.mosaic").schema.metadata
        {b'sum': b'6'}
        """
        with self._lock:
            self._usable()
            if not self.options.has_companion:
                raise MosaicError(
                    "metadata needs a file with compression and companion", found=self.options.compression
                )
            # Arrow takes text and bytes, and refuses anything else.
            self._intake.add_metadata(pa.schema([], metadata=dict(key_value_metadata)).metadata or {})
            self.schema = self.schema.with_metadata(self._intake.given.metadata or {})
            self._packed = None

    def close(self) -> None:
        """Write the rows that are left and the end of the file, and make the file appear. Closing twice is harmless.

        If sending the file to a store fails, the file that was there before stays. Call `close` again to send the new
        one once more, or `abort` to give it up.
        """
        with self._lock:
            if self._failure is not None:
                self._usable()
            if self._closed:
                return
            try:
                self._stored_writer.flush()
                self._stored_writer.finish(self._intake.describe(self._stored_writer.most_rows))
            except BaseException as error:
                if not self._stored_writer.may_retry:
                    self._fail(error)
                raise
            self._closed = True
            self.summary = self._summarize()

    def _summarize(self) -> WriteSummary:
        written = self._stored_writer
        assert written.layout is not None
        records = tuple(
            [(record, field, self._intake.given_type(field.name)) for record, field in group]
            for group in written.records
        )
        return WriteSummary(
            written.num_rows,
            written.num_row_groups,
            written.num_bytes,
            written.layout,
            self._intake.stored_as(),
            records,
            len(self.schema),
        )

    def abort(self) -> None:
        """Give up: no file appears, and a file that was there before stays as it is.

        In a forked child this does nothing: the file is the parent's.
        """
        if self._closed or not self._lock.is_ours:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._stored_writer.abort()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.abort()

    def _usable(self) -> None:
        if self._failure is not None:
            raise MosaicError("writer failed earlier and wrote nothing", found=str(self._failure))
        if self._closed or self._stored_writer.is_ended:
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


def write_table(
    data: Any,
    where: Any,
    options: WriterOptions | None = None,
    *,
    schema: pa.Schema | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    **option_values: Unpack[WriterOptionValues],
) -> WriteSummary:
    """Write a table, or anything with an Arrow stream (pandas, Polars, DuckDB), to a Mosaic file.

    Parameters
    ----------
    data : pyarrow.Table, RecordBatch, RecordBatchReader, or object with ``__arrow_c_stream__``
        Or an iterable of such objects with one schema, for example a generator of batches.
    schema : pyarrow.Schema, optional
        The schema of an iterable, by default that of its first batch.
    where, options, filesystem, storage_options, **option_values
        As in `MosaicWriter`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> smalti.write_table(pa.table({"a": [1, 2, 3]}), "a.mosaic", num_buckets=1).num_rows
    3
    """
    filesystem = chosen(filesystem, storage_options)
    data = batch_reader(data, schema)
    with MosaicWriter(where, data.schema, options, filesystem=filesystem, **option_values) as writer:
        writer.write(data, copy=False)
    assert writer.summary is not None
    return writer.summary


def weigh_layouts(data: Any, options: WriterOptions | None = None) -> dict[str, LayoutChoice]:
    """What each `layout` would choose for a table, and by which estimates; nothing is written.

    Looks at the rows of the first row group. If the options fix the layout, every entry has it and says so in `reason`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> table = pa.table({f"c{i:03d}": [(i * j) % 97 for j in range(2000)] for i in range(300)})
    >>> {aim: choice.num_buckets for aim, choice in weigh_layouts(table).items()}
    {'balanced': 25, 'small': 25, 'fast': 100}
    """
    data = arrow_reader(data)
    writer = MosaicWriter(io.BytesIO(), data.schema, options)
    try:
        return writer._stored_writer.weigh(
            stored for batch in arrow_batches(data) for stored in writer._to_stored(batch)
        )
    finally:
        writer.abort()
