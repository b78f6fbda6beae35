"""Arrow streams of a file or a table: a `Scan` says which columns and rows, and reads them when it is asked to.

Engines are only handed Arrow here. What goes further, such as a lazy frame that pushes filters down, has a module of
its own (`smalti.polars`, `smalti.duckdb`).
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from smalti._compat.arrow import columnless_batch, concat_batches, size_of
from smalti._core.allowance import Allowance
from smalti.errors import MosaicError, ReplacedError, SchemaError
from smalti.extras import optional_module
from smalti.logical.adapt import adapt_batch, chosen_fields
from smalti.logical.intake import arrow_batches
from smalti.logical.patterns import check_columns, match_names
from smalti.logical.tree import field_paths
from smalti.memory import asked_limit, most_memory
from smalti.mosaic.rows import RowIndex, TakePlan

if TYPE_CHECKING:
    from smalti.file.blocks import RowBlocks
    from smalti.predicate.python import AnyFilter
    from smalti.progress import Listener


def cut_batches(batches: Iterator[pa.RecordBatch], batch_size: int | None) -> Iterator[pa.RecordBatch]:
    """Cut batches to at most `batch_size` rows. A batch is released before the next one is read."""
    if batch_size is not None and batch_size < 1:
        raise MosaicError("batch_size must be positive", found=batch_size)
    return _cut_batches(batches, batch_size)


def _cut_batches(batches: Iterator[pa.RecordBatch], batch_size: int | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        step = batch_size or batch.num_rows or 1
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
        del batch


def exact_batches(batches: Iterator[pa.RecordBatch], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Cut and join batches to exactly `batch_size` rows; the last one has the rows that are left."""
    parts: list[pa.RecordBatch] = []
    missing = batch_size
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, missing)
            parts.append(part)
            batch, missing = batch.slice(part.num_rows), missing - part.num_rows
            if not missing:
                yield _joined(parts)
                parts, missing = [], batch_size
        del batch
    if parts:
        yield _joined(parts)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return concat_batches(parts) if parts[0].num_columns else columnless_batch(sum(part.num_rows for part in parts))


def keep_batches(batches: Iterable[pa.RecordBatch], kept: Allowance) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and count each in `kept`, because the caller holds all of them."""
    for batch in batches:
        kept.take(size_of(batch))
        yield batch


def refuse_fields(fields: Collection[str]) -> None:
    """Refuse to read fields of structs as columns of a schema: they would come as the nulls of a missing column."""
    if fields:
        expected = "the struct, with the fields that are wanted"
        raise SchemaError(
            "`schema` names a field of a struct instead of a column", found=min(fields), expected=expected
        )


def in_order_of(plan: TakePlan, table: pa.Table, kept: Allowance) -> pa.Table:
    """The rows of a take in the order that was asked for, given those that were read for it."""
    if plan.order is None:
        return table
    from smalti.logical.arrays import take_table  # see there why not at the top

    kept.part().take(kept.held * len(plan.order) // max(1, table.num_rows))
    return take_table(table, plan.order)


class Scannable(ABC):
    """A file or a table, which can be read as an Arrow stream."""

    #: Bytes that a read may take, if its opener has given a limit.
    _memory_limit: int | None = None

    def _allowance(self) -> Allowance:
        """The memory for a read whose rows are all kept: by default the memory that the machine has at this moment."""
        limit = asked_limit() if self._memory_limit is None else self._memory_limit
        return Allowance(most_memory() if limit is None else limit)

    def close(self) -> None:
        """Close what was opened; a table opens its files while it is read and has nothing to close."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _scan_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """The schema of a read."""

    def _schema_of(self, scan: Scan) -> pa.Schema:
        """The schema of what a scan reads."""
        return scan.with_index(self._scan_schema(scan.columns))

    def row_blocks(self, columns: Sequence[str] | None = None) -> RowBlocks:  # noqa: ARG002 (of those that can)
        """Columns in blocks of rows that can be read in any order, for `smalti.loader`."""
        raise MosaicError("only Mosaic files and tables are read in any order", found=type(self).__name__)

    def _parse_text(self, text: str, row_index: str | None = None) -> Any:
        """The tree of a filter that is text; types are looked up for the columns that it names."""
        from smalti.predicate.text import parse_text  # slow to import, see smalti.mosaic.filtering

        def schema_of(name: str) -> pa.Schema:
            return RowIndex(name).add_to(pa.schema([])) if name == row_index else self._scan_schema([name])

        return parse_text(text, schema_of)

    @abstractmethod
    def _take(self, indices: Any, columns: Sequence[str] | None, kept: Allowance) -> pa.Table:
        """Rows by number, see `take`; `columns` has each name once."""

    def _present(self, names: Sequence[str]) -> list[str]:
        """The names that are top-level columns. Refuse paths of struct fields."""
        schema = self._scan_schema(None)
        known = set(schema.names)
        missing = {name for name in names if name not in known and "." in name}
        if missing:
            refuse_fields(missing.intersection(field_paths(schema)))
        return [name for name in names if name in known]

    @abstractmethod
    def _scan_batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """The batches of a read, all of one schema."""

    def _scan_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        """All batches of a read, as a table; they count in `kept`."""
        return pa.Table.from_batches(keep_batches(self._scan_batches(scan), kept), self._schema_of(scan))

    def _from_end(self, scan: Scan) -> Iterator[list[pa.RecordBatch]]:
        """The batches of a read in parts, the last part first; within a part they are in order."""
        yield list(self._scan_batches(scan))

    # --- what files and tables have in common -----------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        return self._scan_schema(None)

    @property
    def column_names(self) -> list[str]:
        """The names of all columns, in the order of `schema`."""
        return list(self.schema.names)

    @property
    def num_rows(self) -> int:
        """The number of rows, as `count_rows` finds it."""
        return self.count_rows()

    @abstractmethod
    def count_rows(self, filters: AnyFilter = None) -> int:
        """The number of rows, or of those that match."""

    def to_table(
        self,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        *,
        rows: range | slice | None = None,
        with_row_index: str | None = None,
    ) -> pa.Table:
        """Read to a table; the parameters are those of `MosaicFile.read`, partition columns included."""
        return self.scan(columns, filters, rows=rows, with_row_index=with_row_index).to_table()

    def take(self, indices: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their numbers, in the order in which they are asked for.

        Rows are numbered from 0 in the order in which all rows are read. Only the row groups, and of these the buckets
        or slots, that hold a wanted row are read, each once.

        Parameters
        ----------
        indices : sequence of int, range, or array of NumPy or Arrow
            Duplicates are allowed. Negative numbers count from the end, as in Python.
        columns : sequence of str, optional
            As in `MosaicFile.read`.

        Raises
        ------
        NoSuchRowError
            If there is no such row. It is an IndexError, too.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> _ = smalti.write_table(pa.table({"a": list("abcdef"), "b": range(6)}), "six.mosaic", row_group_max_rows=2)
        >>> with smalti.open("six.mosaic") as f:
        ...     f.take([4, 0, -1, 4], ["a"]).to_pydict()
        {'a': ['e', 'a', 'f', 'e']}
        """
        once, again = Scan(self, check_columns(columns))._once()
        table = self._take(indices, once.columns, self._allowance())
        return table if again is None else table.select(again)

    def sample(
        self,
        n: int,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        *,
        seed: int | None = None,
    ) -> pa.Table:
        """Rows chosen at random, each with the same chance and none twice, in the order of the table.

        Row groups that have none of them are not read. With `filters`, their columns are read first.

        Parameters
        ----------
        n : int
            How many rows; all of them if there are fewer.
        columns, filters
            As in `MosaicFile.read`.
        seed : int, optional
            The same rows are chosen in every call with this number; by default other rows in each call.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> _ = smalti.write_table(pa.table({"a": range(1000)}), "thousand.mosaic", row_group_max_rows=100)
        >>> with smalti.open("thousand.mosaic") as f:
        ...     f.sample(3, seed=1).to_pydict()
        {'a': [137, 582, 867]}
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise MosaicError("a sample has a whole number of rows", found=n, expected="0 or more")
        if filters is None:
            total, found = self.num_rows, None
        else:
            name = "row"
            while name in self.column_names:
                name += "_"
            found = self.to_table([], filters, with_row_index=name).column(0)
            total = len(found)
        chosen = pa.array(sorted(random.Random(seed).sample(range(total), min(n, total))), pa.int64())
        return self.take(chosen if found is None else found.take(chosen), columns)

    def __getitem__(self, rows: slice) -> pa.Table:
        """The rows of a slice, all columns: ``file[1000:2000]``."""
        if not isinstance(rows, slice):
            raise TypeError(f"rows are read by slices, such as [1000:2000], or by take, not by {rows!r}")
        if rows.step is None or (isinstance(rows.step, int) and rows.step > 0):
            return self.to_table(rows=rows)
        return self.take(range(*rows.indices(self.num_rows)))

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        batch_size: int | None = None,
        *,
        exact: bool = False,
        rows: range | slice | None = None,
        with_row_index: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch: row groups in order, some of them read ahead within the memory limit.

        The parameters are those of `MosaicFile.iter_batches`.

        If files of a table are replaced after the first batch was read, an error is raised, because rows would be
        missing or come twice. If they are replaced before that, and in `to_table`, the table is listed again.
        """
        options: dict[str, Any] = {"exact": exact, "rows": rows, "with_row_index": with_row_index}
        return self.scan(columns, filters, batch_size=batch_size, **options).to_batches()

    def head(self, num_rows: int = 5, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """The first rows, or the first that match. What comes after them is not read."""
        return self.scan(columns, filters)._first_rows(num_rows)

    def tail(self, num_rows: int = 5, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """The last rows, or the last that match, in their order. Files are read from their last row group backwards."""
        scan, found, left = self.scan(columns, filters), list[pa.Table](), num_rows
        for batches in self._from_end(scan) if left > 0 else ():
            part = pa.Table.from_batches(batches, scan.schema)
            found.insert(0, part.slice(max(0, part.num_rows - left)))
            left -= part.num_rows
            if left <= 0:
                break
        return pa.concat_tables(found) if found else scan.schema.empty_table()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        *,
        batch_size: int | None = None,
        progress: Listener | None = None,
        schema: pa.Schema | None = None,
        exact: bool = False,
        rows: range | slice | None = None,
        with_row_index: str | None = None,
    ) -> Scan:
        """Columns and rows to read later, by this process, another one, or an engine that takes Arrow streams.

        Parameters
        ----------
        columns, filters, batch_size, exact
            As in `MosaicFile.read` and `MosaicFile.iter_batches`.
        progress : callable, optional
            Called with a `smalti.jobs.Progress` after each row group.
        schema : pyarrow.Schema, optional
            Read as these columns and types: columns that are missing are nulls, and values are cast, or refused if the
            type cannot hold them. Filters are about the columns as they would be read without it.
        rows, with_row_index
            As in `MosaicFile.read`. In a table, rows are counted over all its files, in the order in which they are
            read, so that the number of rows of every file has to be known.
        """
        options: dict[str, Any] = {"exact": exact, "rows": rows, "row_index": with_row_index}
        return Scan(self, check_columns(columns), filters, batch_size, progress, schema, **options)

    def to_pandas(self, columns: Sequence[str] | None = None, filters: AnyFilter = None, **options: Any) -> Any:
        """Read to a pandas.DataFrame; `options` are those of `pyarrow.Table.to_pandas`."""
        return self.scan(columns, filters).to_pandas(**options)

    def to_polars(self, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> Any:
        """Read to a polars.DataFrame; `smalti.polars.scan_mosaic` is the lazy way."""
        return self.scan(columns, filters).to_polars()

    def to_duckdb(
        self, columns: Sequence[str] | None = None, filters: AnyFilter = None, *, connection: Any = None
    ) -> Any:
        """Read to a relation of DuckDB; `smalti.duckdb` queries files without reading all columns."""
        return self.scan(columns, filters).to_duckdb(connection)

    def __arrow_c_schema__(self) -> object:
        return self._scan_schema(None).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class Scan:
    """Columns and rows of a file or table that are read when asked for, as often as asked for.

    Made by `smalti.scan`, `MosaicFile.scan` and `MosaicDataset.scan`. Whatever takes an Arrow stream takes a scan:
    ``polars.DataFrame(scan)``, ``pyarrow.table(scan)``. It can be pickled if what it reads can be opened again.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"id": [1, 2, 3], "click.a": [7, 8, 9]}), "clicks.mosaic")
    >>> scan = smalti.scan("clicks.mosaic", ["click.*"], filters=[("id", ">", 1)])
    >>> pa.table(scan).to_pydict()
    {'click.a': [8, 9]}
    """

    origin: Scannable
    columns: tuple[str, ...] | None = None
    filters: AnyFilter = None
    batch_size: int | None = None
    progress: Listener | None = None
    cast_to: pa.Schema | None = None
    #: Row groups of a single file, in this order; by default all.
    row_groups: tuple[int, ...] | None = None
    #: Rows by number; by default all.
    rows: range | slice | None = None
    #: The name of the column of row numbers, which comes first; by default there is none.
    row_index: str | None = None
    #: Whether batches, other than the last, have exactly `batch_size` rows.
    exact: bool = False
    #: Whether the rows of a table are counted in each of its files.
    is_per_file: bool = False

    def __post_init__(self) -> None:
        if self.exact and (self.batch_size is None or self.batch_size < 1):
            raise MosaicError("exact batches need their size", found=self.batch_size, expected="batch_size=1000")
        if isinstance(self.filters, str):
            object.__setattr__(self, "filters", self.origin._parse_text(self.filters, self.row_index))
        if self.row_index is None:
            return
        if not isinstance(self.row_index, str):
            raise SchemaError("the row index is the name of a column", found=self.row_index)
        if self.row_index in (self.columns or ()):
            object.__setattr__(self, "columns", tuple(n for n in self.columns or () if n != self.row_index))
        if self.cast_to is not None and self.row_index in self.cast_to.names:
            raise RowIndex(self.row_index).taken_name()

    @property
    def schema(self) -> pa.Schema:
        once, indices = self._once()
        if indices is not None:
            schema = once.schema
            return pa.schema([schema.field(index) for index in indices]).with_metadata(schema.metadata or {})
        if self.cast_to is None:
            return self.origin._schema_of(self)
        return self.with_index(chosen_fields(self.cast_to, self.columns))

    def with_index(self, schema: pa.Schema) -> pa.Schema:
        """The schema of columns, with that of the row numbers, if these were asked for."""
        return schema if self.row_index is None else RowIndex(self.row_index).add_to(schema)

    def _once(self) -> tuple[Scan, list[int] | None]:
        """The scan with each column once; and, if some are asked for again, the indices of the columns in it.

        As in pyarrow.parquet and pyarrow.dataset, such a column comes again. Columns that patterns and fields of
        structs ask for come once.
        """
        names = list(dict.fromkeys(self.columns or ()))
        if self.columns is None or len(names) == len(self.columns):
            return self, None
        once = replace(self, columns=tuple(names))
        first = 0 if self.row_index is None else 1
        is_plain = once.schema.names[first:] == names
        again = [*range(first), *(names.index(name) + first for name in self.columns)]
        return once, again if is_plain else list(range(len(once.schema)))

    def _cast_from(self, schema: pa.Schema) -> Scan:
        """The scan that reads the existing columns of `schema` without casting them."""
        return replace(self, columns=tuple(self.origin._present(schema.names)), cast_to=None)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in the order of `schema`."""
        return list(self.schema.names)

    @property
    def num_rows(self) -> int:
        """The number of rows, as `count_rows` finds it."""
        return self.count_rows()

    def _narrowed(
        self, columns: Sequence[str] | None, filters: AnyFilter = None, batch_size: int | None = None
    ) -> Scan:
        """The scan with some of its columns, and of its rows those that match another filter, too."""
        scan = self if batch_size is None else replace(self, batch_size=batch_size)
        asked = check_columns(columns)
        if asked is not None:
            names = set(self.schema.names)
            if not names.issuperset(asked):  # patterns, or names that are missing
                asked = tuple(match_names(self.schema.names, asked))
            scan = replace(scan, columns=tuple(name for name in asked if name != self.row_index))
        if filters is None:
            return scan
        from smalti.predicate import Filter, normalize_filters
        from smalti.predicate.tree import And, join

        if isinstance(filters, str):
            filters = self.origin._parse_text(filters, self.row_index)
        both = [normalize_filters(each) for each in (self.filters, filters) if each is not None]
        nested = frozenset[str]().union(*(each.nested for each in both))
        return replace(scan, filters=Filter(join(And, [each.tree for each in both]), nested))

    def head(self, num_rows: int = 5, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """The first rows, or the first that match. What comes after them is not read."""
        scan = self._narrowed(columns, filters)
        is_plain = scan.cast_to is None and scan.row_groups is None and scan.rows is None and scan.row_index is None
        if is_plain:
            return self.origin.head(num_rows, scan.columns, scan.filters)
        return scan._first_rows(num_rows)

    def _first_rows(self, num_rows: int) -> pa.Table:
        scan, found, left = replace(self, batch_size=max(1, num_rows), exact=False), [], num_rows
        for batch in scan.to_batches() if left > 0 else ():
            found.append(batch.slice(0, left))
            left -= batch.num_rows
            if left <= 0:
                break
        return pa.Table.from_batches(found, scan.schema)

    def to_batches(
        self, columns: Sequence[str] | None = None, filters: AnyFilter = None, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The batches, in order, read ahead within the memory limit.

        `columns` chooses among those of the scan, `filters` among its rows.
        """
        if columns is not None or filters is not None or batch_size is not None:
            return self._narrowed(columns, filters, batch_size).to_batches()
        if self.exact and self.batch_size is not None:
            return exact_batches(replace(self, exact=False).to_batches(), self.batch_size)
        once, indices = self._once()
        if indices is not None:
            return (batch.select(indices) for batch in once.to_batches())
        return self.origin._scan_batches(self) if self.cast_to is None else self._cast_batches()

    def _cast_batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for batch in self._cast_from(schema).to_batches():
            batch = adapt_batch(batch, schema, self.origin._allowance())
            yield batch
            del batch

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as a reader, which also says their schema."""
        return read_as(self, self.schema)

    def to_table(self, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """Read to a table. `columns` chooses among those of the scan, `filters` among its rows."""
        if columns is not None or filters is not None:
            return self._narrowed(columns, filters).to_table()
        once, indices = self._once()
        if indices is not None:
            return once.to_table().select(indices)
        kept = self.origin._allowance()
        if self.cast_to is None:
            return self.origin._scan_table(self, kept)
        schema = self.schema
        table = self.origin._scan_table(self._cast_from(schema), kept)
        cast = [adapt_batch(batch, schema, kept) for batch in arrow_batches(table)]
        return pa.Table.from_batches(cast, schema=schema)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows the scan has, or how many of them match; reads only the columns of filters, if any."""
        if filters is not None:
            return self._narrowed(None, filters).count_rows()
        if self.row_groups is None and self.rows is None and self.row_index is None:
            return self.origin.count_rows(self.filters)
        return sum(batch.num_rows for batch in replace(self, columns=(), cast_to=None).to_batches())

    def to_pandas(self, **options: Any) -> Any:
        """A pandas.DataFrame; `options` are those of `pyarrow.Table.to_pandas`.

        The index that a frame was written with comes back, whichever columns are asked for.
        """
        optional_module("pandas")
        scan = self if options.get("ignore_metadata") else self._with_index()
        return scan.to_table().to_pandas(**options)

    def _with_index(self) -> Scan:
        """The same scan with the columns of the index, as pandas.read_parquet reads them."""
        described = None if self.columns is None else (self.schema.metadata or {}).get(b"pandas")
        if self.columns is None or described is None:
            return self
        try:
            index = [name for name in json.loads(described)["index_columns"] if isinstance(name, str)]
        except (ValueError, LookupError, TypeError):  # metadata that pandas has not written
            return self
        stored = self.origin._present(index) if self.cast_to is None else self.cast_to.names
        missing = [name for name in index if name in stored and name not in self.schema.names]
        return replace(self, columns=(*self.columns, *missing))

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        return optional_module("polars").DataFrame(self.to_table())

    def to_duckdb(self, connection: Any = None) -> Any:
        """A relation of DuckDB, on a connection or on DuckDB's default one."""
        return (connection or optional_module("duckdb")).from_arrow(self.to_table())

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the listener, which belongs to this process."""
        return partial(Scan, **{**vars(self), "progress": None}), ()


def read_as(scan: Scan, schema: pa.Schema) -> pa.RecordBatchReader:
    """A reader of a scan whose consumer was told this schema.

    A table that is replaced before its first batch is listed again, and may have other types then. A consumer of the
    Arrow stream trusts the schema, and would take the memory of one type for that of another.
    """
    return pa.RecordBatchReader.from_batches(schema, _checked_batches(scan.to_batches(), schema))


def _checked_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.schema.equals(schema):
            raise ReplacedError(
                "the table was replaced by one with other columns or types after its schema was read; scan it again"
            )
        yield batch
        del batch
