"""Reading a file: open the tail, find the columns, read their row groups to Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti.errors import MosaicError, SchemaError
from smalti.file.columnless import columnless_batch
from smalti.file.layout import FileLayout, build_layout
from smalti.file.row_groups import RowGroupReader
from smalti.file.tail import read_tail
from smalti.format.statistics import ColumnStatistics, describe
from smalti.io import CachedEnd, Source, open_source
from smalti.report.notebook import html_summary

if TYPE_CHECKING:
    from smalti.file.filtering import FilterPlan

#: Columns shown in a notebook.
NOTEBOOK_COLUMNS = 20


class MosaicFile:
    """An open Mosaic file. Made by `smalti.open`; reading is safe from several threads.

    Opening reads the end of the file once (or twice, when the schema is large) and checks schema and index in full;
    nothing is built for a column until it is asked for.
    """

    def __init__(self, source: Source) -> None:
        self._source: Source = source
        try:
            self._tail, end = read_tail(source)
        except MosaicError as error:
            source.close()
            raise error.locate(path=source.name) from None
        except BaseException:
            source.close()
            raise
        if source.is_remote:
            self._source = CachedEnd(source, end)
        self._groups = RowGroupReader(self._source, self._tail)
        self._schema: pa.Schema | None = None
        self._names: list[str] | None = None
        self._positions: dict[str, int] = {}

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
        if self._names is None:
            by_name = self._tail.schema.names()
            self._names = [by_name[i] for i in self._tail.schema.column_order()]
        return list(self._names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in the order the columns were written; built when first asked for."""
        if self._schema is None:
            self._schema = self._arrow_schema(self._tail.schema.column_order(), self.column_names)
        return self._schema

    def find_columns(self, names: Sequence[str]) -> list[int | None]:
        """Where columns are in name order, None for those the file does not have; builds nothing for the others."""
        return [at if at >= 0 else None for at in self._tail.schema.find(list(names))]

    def schema_of(self, columns: Sequence[str]) -> pa.Schema:
        """The Arrow schema of some columns, without building that of all."""
        return self._arrow_schema(self._find(columns), list(columns))

    def row_group(self, index: int) -> RowGroup:
        """One row group; negative numbers count from the end."""
        if not -self.num_row_groups <= index < self.num_row_groups:
            raise IndexError(f"row group {index} of {self.num_row_groups}")
        return RowGroup(self, index % self.num_row_groups)

    def matching_row_groups(self, filters: Any) -> list[int]:
        """Row groups whose statistics leave a chance that rows match; for engines that filter rows themselves."""
        return self._select([], filters, None).groups

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
            return build_layout(self._source, self._tail, buckets)
        except MosaicError as error:
            raise error.locate(path=self._source.name) from None

    # --- reading --------------------------------------------------------------------------------------------------

    def read(
        self, columns: Sequence[str] | None = None, filters: Any = None, row_groups: Sequence[int] | None = None
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
        selection = self._select(columns, filters, row_groups)
        batches = [batch for group in selection.groups if (batch := selection.read(group)) is not None]
        return pa.Table.from_batches(batches, schema=selection.output_schema)

    def iter_batches(
        self,
        batch_size: int | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch, holding one row group of the wanted columns at a time.

        `batch_size` cuts row groups into batches of at most so many rows. Batches stay valid for as long as they are
        kept, whatever is read after them.
        """
        if batch_size is not None and batch_size < 1:
            raise MosaicError("batch_size must be positive", found=batch_size)
        selection = self._select(columns, filters, row_groups)
        for group in selection.groups:
            batch = selection.read(group)
            if batch is None or batch.num_rows == 0:
                continue
            step = batch_size or batch.num_rows
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)

    def count_rows(self, filters: Any = None) -> int:
        """How many rows there are, or would remain; reads only the columns of `filters`, if any."""
        if filters is None:
            return self.num_rows
        selection = self._select([], filters, None)
        return sum(batch.num_rows for group in selection.groups if (batch := selection.read(group)) is not None)

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
        schema = self._arrow_schema(self._find(names), names)
        rows = [[field.name, str(field.type), "" if field.nullable else "not null"] for field in schema]
        header = ["column", "type", ""]
        return html_summary("Mosaic file", facts, header, rows, hidden=self.num_columns - len(rows))

    # --- how ------------------------------------------------------------------------------------------------------

    def _find(self, names: Sequence[str]) -> list[int]:
        """Sorted indices of columns; one walk over the schema block for all that are new."""
        new = [name for name in dict.fromkeys(names) if name not in self._positions]
        if new:
            for name in new:
                if not isinstance(name, str):
                    raise TypeError(f"column names are strings, got {name!r}")
            for name, position in zip(new, self._tail.schema.find(new), strict=True):
                if position < 0:
                    raise SchemaError("no such column", path=self._source.name, found=name)
                self._positions[name] = position
        return [self._positions[name] for name in names]

    def _arrow_schema(self, positions: list[int], names: list[str]) -> pa.Schema:
        return pa.Schema._import_from_c_capsule(self._tail.schema.arrow_schema(positions, names))

    def _select(self, columns: Sequence[str] | None, filters: Any, row_groups: Sequence[int] | None) -> _Selection:
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the string {columns!r}")
        groups = list(range(self.num_row_groups)) if row_groups is None else self._check_groups(row_groups)
        if filters is None:
            return _Selection(self, columns, None, groups)
        from smalti.file.filtering import FilterPlan  # see there why not at the top

        plan = FilterPlan(filters, self._tail, self._find)
        return _Selection(self, columns, plan, [group for group in groups if not plan.rules_out(group)])

    def _check_groups(self, row_groups: Sequence[int]) -> list[int]:
        return [self.row_group(index).index for index in row_groups]


class RowGroup:
    """One row group of an open file."""

    def __init__(self, file: MosaicFile, index: int) -> None:
        self._file = file
        self.index = index

    @property
    def num_rows(self) -> int:
        return self._file._tail.index.rows(self.index)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        """Statistics by column name, for the columns that have them."""
        file = self._file
        records = file._tail.index.statistics(self.index)
        names = file._tail.schema.names() if records else []
        out = {}
        for position, null_count, low, high in records:
            type_ = file._arrow_schema([position], [names[position]]).field(0).type
            type_id, _, precision, _ = file._tail.schema.descriptor(position)
            out[names[position]] = describe(type_id, precision, type_, null_count, low, high)
        return out

    def stored_bytes(self, columns: Sequence[str]) -> int:
        """Bytes of the buckets that hold some columns: what reading them takes, or less where buckets are paged."""
        tail = self._file._tail
        buckets = {tail.schema.bucket_of(position) for position in self._file._find(columns)}
        return sum(entry[1] for bucket in buckets if (entry := tail.index.bucket(self.index, bucket)) is not None)

    def read(self, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
        """As `MosaicFile.read`, for this row group."""
        return self._file.read(columns, filters, [self.index])

    def __repr__(self) -> str:
        return f"<smalti.RowGroup {self.index}: {self.num_rows:,} rows>"


class _Selection:
    """The columns of one read, resolved: what goes out, and what is read besides for the filter."""

    def __init__(
        self, file: MosaicFile, columns: Sequence[str] | None, plan: FilterPlan | None, groups: list[int]
    ) -> None:
        self.groups = groups
        self._file = file
        self._plan = plan
        if columns is None:
            names = file.column_names
            self._positions = file._tail.schema.column_order()
            self.output_schema = file.schema
        else:
            names = list(dict.fromkeys(columns))
            self._positions = file._find(names)
            self.output_schema = file._arrow_schema(self._positions, names)
        known = set(names)
        self._extra = [name for name in plan.columns if name not in known] if plan else []
        self._read_positions = self._positions + file._find(self._extra)
        self._read_schema = self.output_schema
        if self._extra:
            self._read_schema = file._arrow_schema(self._read_positions, names + self._extra)

    def read(self, group: int) -> pa.RecordBatch | None:
        """One row group, filtered; None if it has no rows."""
        file = self._file
        if file._tail.index.rows(group) == 0:
            return None
        if self._plan is None or self._plan.takes_all(group):
            return file._groups.read(group, self._positions, self.output_schema)
        batch = self._plan.apply(file._groups.read(group, self._read_positions, self._read_schema))
        if not self._extra:
            return batch
        if not len(self.output_schema):
            return columnless_batch(batch.num_rows)
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.output_schema)], schema=self.output_schema)


def open_file(source: Any, *, filesystem: Any = None) -> MosaicFile:
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
    source: Any, columns: Sequence[str] | None = None, filters: Any = None, *, filesystem: Any = None
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
