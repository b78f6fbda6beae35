"""Reading a file: open the tail, find the columns, read their row groups to Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti.errors import MosaicError, SchemaError
from smalti.file.columns import Columns, SharedSchemas
from smalti.file.layout import FileLayout, build_layout
from smalti.file.scan import Projection, Scanner, ScanPlan, plan_scan
from smalti.file.tail import read_tail
from smalti.format.statistics import ColumnStatistics
from smalti.io import CachedEnd, Source, open_source
from smalti.io.places import AnyFileSystem
from smalti.report.notebook import html_summary

if TYPE_CHECKING:
    from smalti.predicate.python import AnyFilter

#: Columns shown in a notebook.
NOTEBOOK_COLUMNS = 20


class MosaicFile:
    """An open Mosaic file. Made by `smalti.open`; reading is safe from several threads.

    Opening reads the end of the file once (or twice, when the schema is large) and checks schema and index in full;
    nothing is built for a column until it is asked for.
    """

    def __init__(self, source: Source, schemas: SharedSchemas | None = None) -> None:
        self._source: Source = source
        try:
            self._tail, end = read_tail(source) if schemas is None else read_tail(source, schemas.parse)
        except MosaicError as error:
            source.close()
            raise error.locate(path=source.name) from None
        except BaseException:
            source.close()
            raise
        if source.is_remote:
            self._source = CachedEnd(source, end)
        self._scanner = Scanner(self._source, self._tail)
        self._columns = Columns(self._tail.schema) if schemas is None else schemas.columns(self._tail.schema)

    # --- what is in it --------------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        return self._tail.index.num_rows

    @property
    def num_columns(self) -> int:
        return self._tail.schema.num_columns

    @property
    def num_row_groups(self) -> int:
        return self._tail.index.num_row_groups

    @property
    def num_buckets(self) -> int:
        return self._tail.schema.num_buckets

    @property
    def column_names(self) -> list[str]:
        """Names in the order the columns were written."""
        return list(self._columns.names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in the order the columns were written; built when first asked for."""
        return self._columns.schema

    def find_columns(self, names: Sequence[str]) -> list[int | None]:
        """The place of each column among the sorted names, None for a column that the file does not have."""
        return [at if at >= 0 else None for at in self._columns.find(names)]

    def schema_of(self, columns: Sequence[str]) -> pa.Schema:
        """The Arrow schema of some columns, without building that of all."""
        return self._project(columns).schema

    def row_group(self, index: int) -> RowGroup:
        """One row group; negative numbers count from the end."""
        if not -self.num_row_groups <= index < self.num_row_groups:
            raise IndexError(f"row group {index} of {self.num_row_groups}")
        return RowGroup(self, index % self.num_row_groups)

    def matching_row_groups(self, filters: AnyFilter) -> list[int]:
        """The row groups that may have matching rows, by their statistics; for engines that filter rows themselves."""
        return [read.row_group for read in self._plan([], filters, None).groups]

    def bucket_of(self, column: str) -> int:
        """The bucket a column is stored in, the same in every row group."""
        return self._tail.schema.bucket_of(self._find([column])[0])

    def layout(self, buckets: Collection[int] | None = None) -> FileLayout:
        """How the file is laid out: row groups, buckets, and how each column is encoded.

        Parameters
        ----------
        buckets : collection of int, optional
            Buckets to read; by default all. The others are described as far as the index tells, without columns, and
            with an empty collection nothing is read at all.
        """
        try:
            return build_layout(self._scanner, buckets)
        except MosaicError as error:
            raise error.locate(path=self._source.name) from None

    # --- reading --------------------------------------------------------------------------------------------------

    def read(
        self, columns: Sequence[str] | None = None, filters: AnyFilter = None, row_groups: Sequence[int] | None = None
    ) -> pa.Table:
        """Read to a table.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read, in this order; by default all, in the order they were written. An empty list gives a
            table with rows and no columns.
        filters : pyarrow.compute.Expression or list of tuples, optional
            Rows to keep. Statistics skip row groups; the rows that remain are filtered exactly.
        row_groups : sequence of int, optional
            Row groups to read, in this order.
        """
        plan = self._plan(columns, filters, row_groups)
        return pa.Table.from_batches(list(self._scanner.batches(plan)), schema=plan.output.schema)

    def iter_batches(
        self,
        batch_size: int | None = None,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch, holding one row group of the wanted columns at a time.

        `batch_size` cuts row groups into batches of at most so many rows. Batches stay valid for as long as they are
        kept, whatever is read after them.
        """
        if batch_size is not None and batch_size < 1:
            raise MosaicError("batch_size must be positive", found=batch_size)
        for batch in self._scanner.batches(self._plan(columns, filters, row_groups)):
            step = batch_size or batch.num_rows or 1
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows there are, or would remain; reads only the columns of `filters`, if any."""
        if filters is None:
            return self.num_rows
        return sum(batch.num_rows for batch in self._scanner.batches(self._plan([], filters, None)))

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> MosaicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<smalti.MosaicFile {self._source.name or ''}: {self.num_rows:,} rows, {self.num_columns:,} columns, "
            f"{self.num_row_groups:,} row groups, {self.num_buckets:,} buckets>"
        )

    def _repr_html_(self) -> str:
        """A small table for notebooks: counts, and the first columns with their types; reads nothing."""
        names = self.column_names[:NOTEBOOK_COLUMNS]
        facts = [
            ("file", self._source.name or "in memory"),
            ("rows", f"{self.num_rows:,} in {self.num_row_groups:,} row groups"),
            ("columns", f"{self.num_columns:,} in {self.num_buckets:,} buckets"),
            ("size", f"{self._source.size:,} bytes"),
        ]
        rows = [[field.name, str(field.type), "" if field.nullable else "not null"] for field in self.schema_of(names)]
        header = ["column", "type", ""]
        return html_summary("Mosaic file", facts, header, rows, hidden=self.num_columns - len(rows))

    # --- how ------------------------------------------------------------------------------------------------------

    def _find(self, names: Sequence[str]) -> list[int]:
        """Sorted indices of columns, which must all be there."""
        positions = self._columns.find(names)
        if -1 in positions:
            raise SchemaError("no such column", path=self._source.name, found=names[positions.index(-1)])
        return positions

    def _project(self, columns: Sequence[str] | None) -> Projection:
        """The columns of a read, each once, in the order they are asked for."""
        if columns is None:
            return self._columns.every
        names = self._columns.select(columns)
        self._find(names)
        return self._columns.project(names)

    def _plan(self, columns: Sequence[str] | None, filters: AnyFilter, row_groups: Sequence[int] | None) -> ScanPlan:
        every = range(self.num_row_groups)
        groups = every if row_groups is None else [self.row_group(index).index for index in row_groups]
        output = self._project(columns)
        if filters is None:
            return plan_scan(output, groups)
        from smalti.file.filtering import FilterPlan  # see there why not at the top

        filter_ = FilterPlan(filters, self._tail, self._find)
        return plan_scan(output, groups, filter_, self._project(filter_.columns))


class RowGroup:
    """One row group of an open file."""

    def __init__(self, file: MosaicFile, index: int) -> None:
        self._file = file
        self.index = index

    @property
    def num_rows(self) -> int:
        return self._file._tail.index.rows(self.index)

    @property
    def num_bytes(self) -> int:
        """Bytes of all buckets of the row group in the file."""
        return self._file._tail.stored_bytes(self.index, self._file._tail.buckets)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        """Statistics by column name, for the columns that have them."""
        tail = self._file._tail
        records = tail.statistics(self.index)
        by_position = tail.schema.names() if records else []
        names = [by_position[record.column] for record in records]
        types = tail.arrow_schema([record.column for record in records], names).types
        return {name: record.describe(type_) for name, record, type_ in zip(names, records, types, strict=True)}

    def stored_bytes(self, columns: Sequence[str]) -> int:
        """Bytes of the buckets that hold some columns: what reading them takes, or less where buckets are paged."""
        buckets = {self._file._tail.schema.bucket_of(position) for position in self._file._find(columns)}
        return self._file._tail.stored_bytes(self.index, buckets)

    def read(self, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """As `MosaicFile.read`, for this row group."""
        return self._file.read(columns, filters, [self.index])

    def __repr__(self) -> str:
        return f"<smalti.RowGroup {self.index}: {self.num_rows:,} rows>"


def open_file(source: Any, *, filesystem: AnyFileSystem = None) -> MosaicFile:
    """Open a Mosaic file for reading.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like or seekable binary file object
        A local path, a URI such as ``s3://bucket/key``, the bytes of a file, or an open file.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        Where to look a path up.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), "two.mosaic")
    >>> with smalti.open("two.mosaic") as f:
    ...     f.num_rows, f.column_names, f.read(columns=["b"]).to_pydict()
    (2, ['a', 'b'], {'b': ['x', None]})
    """
    return MosaicFile(open_source(source, filesystem))


def read_table(
    source: Any, columns: Sequence[str] | None = None, filters: AnyFilter = None, *, filesystem: AnyFileSystem = None
) -> pa.Table:
    """Read a Mosaic file to a table: `open` and `MosaicFile.read` in one.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "b": ["x", "y", "z"]}), "three.mosaic", stats_columns=["id"])
    >>> smalti.read_table("three.mosaic", columns=["b"], filters=[("id", ">", 1)]).to_pydict()
    {'b': ['y', 'z']}
    """
    with open_file(source, filesystem=filesystem) as file:
        return file.read(columns, filters)
