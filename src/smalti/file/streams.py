"""Files and tables as Arrow streams: what both can do, most of it by a `Scan`.

Engines are only handed Arrow here. What goes further, such as a lazy frame that pushes filters down, has a module of
its own (`smalti.polars`, `smalti.duckdb`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import MosaicError, SchemaError
from smalti.file.scans import Scan, keep_batches, last_rows
from smalti.file.taking import chosen_rows, in_order_of
from smalti.logical.patterns import check_columns
from smalti.logical.tree import field_paths
from smalti.memory import allocation_errors, chosen_limit
from smalti.mosaic.rows import RowIndex, Taken
from smalti.readahead import Budget

if TYPE_CHECKING:
    from smalti.file.blocks import RowBlocks
    from smalti.predicate.python import AnyFilter
    from smalti.progress import Listener


def refuse_fields(fields: Collection[str]) -> None:
    """Refuse to read fields of structs as columns of a schema: they would come as the nulls of a missing column."""
    if fields:
        expected = "the struct, with the fields that are wanted"
        raise SchemaError(
            "`schema` names a field of a struct instead of a column", found=min(fields), expected=expected
        )


class Scannable(ABC):
    """A file or a table, which can be read as an Arrow stream."""

    #: Bytes that a read may take, if its opener has given a limit.
    _memory_limit: int | None = None
    #: Whether the number of rows is known without reading them.
    _knows_rows = False

    def _allowance(self) -> Allowance:
        """The memory for a read whose rows are all kept: by default the memory that the machine has at this moment."""
        return Allowance(chosen_limit(self._memory_limit))

    def _stream_allowance(self) -> Allowance:
        """The memory for a read that decodes batch by batch, and for the batches that its caller keeps meanwhile."""
        limit, ahead = chosen_limit(self._memory_limit), self._ahead()
        return Allowance(max(1, limit - ahead.memory_limit) if ahead.readahead else limit)

    def _ahead(self) -> Budget:
        """How far is read ahead."""
        return Budget(0)

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

    def _present(self, names: Sequence[str]) -> list[str]:
        """The names that are top-level columns. Refuse paths of struct fields."""
        schema = self._scan_schema(None)
        known = set(schema.names)
        missing = {name for name in names if name not in known and "." in name}
        if missing:
            refuse_fields(missing.intersection(field_paths(schema)))
        return [name for name in names if name in known]

    @abstractmethod
    def _scan_batches(self, scan: Scan, held: Allowance) -> Iterator[pa.RecordBatch]:
        """The batches of a read, all of one schema, in sizes as they come; they are decoded within `held`."""

    def _scan_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        """All batches of a read, as a table; they count in `kept`."""
        return pa.Table.from_batches(keep_batches(self._scan_batches(scan, kept), kept), self._schema_of(scan))

    def _from_end(self, scan: Scan, held: Allowance) -> Iterator[Iterator[pa.RecordBatch]]:
        """The batches of a read in parts, the last part first; within a part they are in order."""
        yield self._scan_batches(scan, held)

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
        kept, taken = self._allowance(), Taken(indices)
        once, again = Scan(self, check_columns(columns), rows=taken)._once()
        with allocation_errors():
            table = in_order_of(taken, self._scan_table(once, kept), kept)
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
        if filters is None:
            return self.take(chosen_rows(n, self.num_rows, seed), columns)
        name = "row"
        while name in self.column_names:
            name += "_"
        found = self.to_table([], filters, with_row_index=name).column(0)
        return self.take(found.take(chosen_rows(n, len(found), seed)), columns)

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
        """The first rows, or the first that match. What comes after them is not read, nor inflated where it is long.

        Of a table, files after those that have them are not opened. A negative number leaves as many rows out at the
        end, as in pandas and Polars: then all rows are counted first.
        """
        return self.scan(columns, filters)._ends(num_rows, from_end=False)

    def tail(self, num_rows: int = 5, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """The last rows, or the last that match, in their order.

        Files are read from their last row group backwards, and tables from their last file backwards. A negative number
        leaves as many rows out at the beginning, as in pandas and Polars.
        """
        return self.scan(columns, filters)._ends(num_rows, from_end=True)

    def _ends(self, scan: Scan, num_rows: int, *, from_end: bool) -> pa.Table:
        """The first or last rows of a scan that has each column once, and no other choice than columns and filters."""
        if not from_end:
            is_range = self._knows_rows and scan.filters is None
            rows = range(min(num_rows, self.num_rows)) if is_range else None
            return replace(scan, rows=rows)._first_rows(num_rows)
        parts, left, held = list[list[pa.RecordBatch]](), num_rows, self._stream_allowance()
        for batches in self._from_end(scan, held) if left else ():
            parts.append(last_rows(batches, left, held))
            left -= sum(batch.num_rows for batch in parts[-1])
            if not left:
                break
        return pa.Table.from_batches(chain.from_iterable(reversed(parts)), scan.schema)

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
        columns, filters, schema, batch_size, exact
            As in `MosaicFile.read` and `MosaicFile.iter_batches`.
        progress : callable or bool, optional
            Called with a `smalti.jobs.Progress` after each row group. True draws a bar on stderr.
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
