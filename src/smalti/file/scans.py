"""A scan says which columns and rows of a file or table are read, and reads them when it is asked to."""

from __future__ import annotations

import json
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti._compat.arrow import columnless_batch, concat_batches, size_of
from smalti._core.allowance import Allowance
from smalti.errors import MosaicError, ReplacedError, SchemaError
from smalti.extras import optional_module
from smalti.logical.adapt import adapt_batch, chosen_fields
from smalti.logical.intake import arrow_batches
from smalti.logical.patterns import check_columns, is_pattern, match_names, repeat_names
from smalti.memory import allocation_errors
from smalti.mosaic.rows import RowIndex, Taken

if TYPE_CHECKING:
    from smalti.file.streams import Scannable
    from smalti.predicate.python import AnyFilter
    from smalti.progress import Listener


def cut_batches(batches: Iterator[pa.RecordBatch], batch_size: int | None) -> Iterator[pa.RecordBatch]:
    """Cut batches to at most `batch_size` rows. A batch is released before the next one is read."""
    for batch in batches:
        step = batch_size or batch.num_rows or 1
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
        del batch


def first_rows(
    batches: Iterator[pa.RecordBatch], limit: int | None, held: Allowance | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of the first `limit` rows, or of all. No more is read. With `held`, the caller keeps them."""
    left = limit
    for batch in batches if left is None or left > 0 else ():
        if held is not None:
            held.take(batch.get_total_buffer_size())
        yield batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return
        del batch


def last_rows(batches: Iterable[pa.RecordBatch], limit: int, held: Allowance) -> list[pa.RecordBatch]:
    """Batches of the last `limit` rows, at least one; they count in `held`.

    Others are released as soon as they are not among the last.
    """
    found: deque[pa.RecordBatch] = deque()
    count = 0
    for batch in batches:
        held.take(batch.get_total_buffer_size())
        found.append(batch)
        count += batch.num_rows
        while count - found[0].num_rows >= limit:
            count -= found[0].num_rows
            held.give(found.popleft().get_total_buffer_size())
        del batch
    if count > limit:
        found[0] = found[0].slice(count - limit)
    return list(found)


def join_batches(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    if parts[0].num_columns:
        return concat_batches(parts)
    return columnless_batch(sum(part.num_rows for part in parts), parts[0].schema)


def exact_batches(
    batches: Iterator[Any],
    batch_size: int,
    held: Allowance,
    join: Callable[[list[Any]], Any] = join_batches,
    size: Callable[[Any], int] = pa.RecordBatch.get_total_buffer_size,
) -> Iterator[Any]:
    """Cut and join batches to exactly `batch_size` rows; the last one has the remaining rows.

    Batches that are kept until there are enough rows count in `held`, and so does the copy that joins them. Other
    containers of rows, such as those of a loader, are cut in the same way, by their own `join` and `size`.
    """
    parts: list[Any] = []
    missing, kept = batch_size, held.part()
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            parts.append(batch.slice(start, missing))
            start, missing = start + parts[-1].num_rows, missing - parts[-1].num_rows
            if missing:  # A slice keeps the memory of the whole batch.
                kept.take(size(batch))
                continue
            if len(parts) > 1:
                kept.take(size(batch) + sum(map(size, parts)))
            joined = join(parts)
            parts, missing, kept = [], batch_size, held.part()
            yield joined
            del joined
        del batch
    if parts:
        kept.take(sum(map(size, parts)) if len(parts) > 1 else 0)
        yield join(parts)


def keep_batches(batches: Iterable[pa.RecordBatch], kept: Allowance) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and count each in `kept`, because the caller holds all of them."""
    for batch in batches:
        kept.take(size_of(batch))
        yield batch


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
    rows: range | slice | Taken | None = None
    #: The name of the column of row numbers, which comes first; by default there is none.
    row_index: str | None = None
    #: Whether batches, other than the last, have exactly `batch_size` rows.
    exact: bool = False
    #: Whether the rows of a table are counted in each of its files.
    is_per_file: bool = False

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise MosaicError("batch_size must be positive", found=self.batch_size)
        if self.exact and self.batch_size is None:
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

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from smalti.report.notebook import view_scan

        return view_scan(self)

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
        """The scan with each column once; and, if some are repeated, the indices of the columns in its batches.

        A repeated column is repeated in the result, as in pyarrow; patterns and struct fields are not.
        """
        names = tuple(dict.fromkeys(self.columns or ()))
        if self.columns is None or len(names) == len(self.columns):
            return self, None
        once = replace(self, columns=names)
        found = once.schema.names
        first = 0 if self.row_index is None else 1
        indices = {name: index for index, name in enumerate(found[first:], first)}

        def matching(name: str) -> list[str]:
            if name not in indices and is_pattern(name):
                return list(replace(once, columns=(name,)).schema.names[first:])
            while name and name not in indices:  # the path of a field
                name = name.rpartition(".")[0]
            return [name] if name in indices else []

        return once, [*range(first), *(indices[name] for name in repeat_names(self.columns, matching))]

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
            names = self.schema.names
            known = set(names)
            if not known.issuperset(asked):  # patterns, or names that are missing
                asked = tuple(repeat_names(asked, lambda name: [name] if name in known else match_names(names, [name])))
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
        """The first rows, or the first that match. What comes after them is not read.

        A negative number leaves as many rows out at the end, as in pandas and Polars.
        """
        return self._narrowed(columns, filters)._ends(num_rows, from_end=False)

    def _ends(self, num_rows: Any, *, from_end: bool) -> pa.Table:
        """The first or last rows; a negative number counts the rows at the other end, which are left out."""
        try:
            count = operator.index(num_rows)
        except TypeError:
            raise MosaicError("the number of rows is not a whole number", found=num_rows) from None
        once, indices = self._once()
        if count < 0:
            count = max(0, once.count_rows() + count)
        is_plain = once.cast_to is None and once.row_groups is None and once.rows is None and once.row_index is None
        with allocation_errors():
            found = once.origin._ends(once, count, from_end=from_end) if is_plain else once._first_rows(count)
        return found if indices is None else found.select(indices)

    def _first_rows(self, num_rows: int) -> pa.Table:
        held = self.origin._stream_allowance()
        scan = replace(self, batch_size=max(1, num_rows), exact=False)
        return pa.Table.from_batches(first_rows(scan._batches(held), num_rows, held), scan.schema)

    def to_batches(
        self, columns: Sequence[str] | None = None, filters: AnyFilter = None, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The batches, in order, read ahead within the memory limit.

        `columns` chooses among those of the scan, `filters` among its rows.
        """
        if columns is not None or filters is not None or batch_size is not None:
            return self._narrowed(columns, filters, batch_size).to_batches()
        return _allocated(self._batches(self.origin._stream_allowance()))

    def _batches(self, held: Allowance) -> Iterator[pa.RecordBatch]:
        """The batches, which are decoded within `held`; it also counts what the caller keeps of them."""
        once, indices = self._once()
        if indices is not None:
            return (batch.select(indices) for batch in once._batches(held))
        if self.exact and self.batch_size is not None:
            return exact_batches(replace(self, exact=False)._batches(held), self.batch_size, held)
        if self.cast_to is not None:
            return self._cast_batches(held)
        return cut_batches(self.origin._scan_batches(self, held), self.batch_size)

    def _cast_batches(self, held: Allowance) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for batch in self._cast_from(schema)._batches(held):
            account = held.part()
            account.take(batch.get_total_buffer_size())
            batch = adapt_batch(batch, schema, account)
            del account
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
        with allocation_errors():
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


def _allocated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with allocation_errors():
        yield from batches


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
