"""Reading a file: open the tail, find the columns, read their row groups to Arrow."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti import threads
from smalti._core.allowance import Allowance
from smalti.errors import MosaicError, no_column
from smalti.file.row_group import RowGroup
from smalti.file.scans import Scan
from smalti.file.streams import Scannable, refuse_fields
from smalti.io import Source, lasting_path, open_source
from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.logical.mapping import PROCESS_SCHEMAS, LogicalProjection, SharedSchemas
from smalti.logical.patterns import check_columns
from smalti.memory import allocation_errors
from smalti.mosaic.bucket import BucketReader
from smalti.mosaic.bucket_cache import BucketCache
from smalti.mosaic.rows import RowIndex, Rows, Taken, parse_rows, split_rows
from smalti.mosaic.scan import GroupRead, Scanner, ScanPlan, plan_scan
from smalti.mosaic.tail import read_tail
from smalti.progress import Listener, Meter
from smalti.readahead import Budget, Unit, in_order
from smalti.sizes import CACHE_BYTES
from smalti.units import show_count

if TYPE_CHECKING:
    from smalti.file.blocks import RowBlocks
    from smalti.mosaic.filtering import FilterPlan
    from smalti.mosaic.layout import FileLayout
    from smalti.predicate.python import AnyFilter


class MosaicFile(Scannable):
    """An open Mosaic file. Made by `smalti.open`; reading is safe from several threads.

    Opening reads the end of the file once (or twice, if the schema is large) and checks schema and index completely.
    Nothing is built for a column until it is asked for.
    """

    _knows_rows = True

    def __init__(
        self,
        source: Source,
        schemas: SharedSchemas | None = None,
        *,
        readahead: int | None = None,
        memory_limit: int | None = None,
        cache_bytes: int = 0,
        logical: bool = True,
    ) -> None:
        self._budget = Budget.choose(
            readahead, memory_limit, is_remote=source.is_remote, unit_bytes=source.size, is_file=True
        )
        limit, schemas = self._budget.read_limit, schemas or SharedSchemas()
        self._memory_limit = memory_limit
        self._source: Source = source
        try:
            self._tail, end = read_tail(source, schemas.parse, limit)
        except BaseException as error:
            source.close()
            if isinstance(error, MosaicError):
                raise error.locate(path=source.name) from None
            raise
        #: Bytes that were fetched when the file was opened, and are kept for reading.
        self.held_bytes = len(end) if source.is_remote else 0
        if source.is_remote:
            self._source = source.with_end(end)
        cache = BucketCache(min(cache_bytes, limit)) if cache_bytes > 0 else None
        self._scanner = Scanner(self._source, self._tail, limit, cache)
        self._reopen: Callable[[], MosaicFile] | None = None
        block, companion = self._tail.schema, self._tail.companion if logical else None
        #: Names and types of the columns; files that share `schemas` and have equal ones have the same object.
        self.columns = schemas.columns(block, companion)

    # --- what is in it --------------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        return self._tail.index.num_rows

    @property
    def num_columns(self) -> int:
        """How many columns the schema has. A struct counts as one, however many columns it is stored as."""
        return len(self.columns)

    @property
    def num_row_groups(self) -> int:
        return self._tail.index.num_row_groups

    @property
    def num_buckets(self) -> int:
        return self._tail.schema.num_buckets

    @property
    def column_names(self) -> list[str]:
        """Names in the order the columns were written."""
        return list(self.columns.names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in the order the columns were written; built when first asked for."""
        return self.columns.schema

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns as they are stored, which is how a reader sees them that does not know the companion."""
        return self.columns.stored.every.schema

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """The Arrow schema of some columns; fields of other columns are not built."""
        return self._project(columns).schema

    _scan_schema = schema_of

    def row_group(self, index: int) -> RowGroup:
        """One row group; negative numbers count from the end."""
        if not -self.num_row_groups <= index < self.num_row_groups:
            raise IndexError(f"row group {index} of {self.num_row_groups}")
        return RowGroup(self, index % self.num_row_groups)

    def matching_row_groups(self, filters: AnyFilter) -> list[int]:
        """The row groups that may have matching rows, by their statistics. For engines that filter rows themselves."""
        return [read.row_group for read in self._plan(self._project([]), filters).groups]

    def bucket_of(self, column: str) -> int:
        """The bucket that holds a column, or the first column of a struct. It is the same in every row group."""
        return next(read.bucket for read in self._project([column]).stored.buckets if 0 in read.outputs)

    def layout(self, buckets: Collection[int] | None = None) -> FileLayout:
        """How the file is laid out: row groups, buckets, and how each column is encoded.

        Parameters
        ----------
        buckets : collection of int, optional
            Buckets to read; by default all. Other buckets are described without their columns, as far as the index
            tells. With an empty collection nothing is read.
        """
        from smalti.mosaic.layout import build_layout  # Its many classes take long to make, and reads need none.

        try:
            # A reader without the cache, whose buckets lack their compressed bytes.
            with allocation_errors():
                return build_layout(BucketReader(self._source, self._tail), self._budget.read_limit, buckets)
        except MosaicError as error:
            raise error.locate(path=self._source.name) from None

    # --- reading --------------------------------------------------------------------------------------------------

    def read(
        self,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        row_groups: Sequence[int] | None = None,
        *,
        schema: pa.Schema | None = None,
        rows: range | slice | None = None,
        with_row_index: str | None = None,
    ) -> pa.Table:
        """Read to a table.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read, in this order; by default all, in the order they were written. A repeated column is
            repeated in the result, as in pyarrow. An empty list gives a table with rows and no columns. A pattern such
            as ``click.*`` stands for all columns that match it and are not there yet, in the order they were written;
            ``*``, ``?`` and ``[...]`` are as in file names, and a name that exists is never taken for a pattern.
        filters : str, pyarrow.compute.Expression, list of tuples, or list of lists of tuples, optional
            Rows to keep. Text is like SQL's WHERE: ``"id > 5 and name like 'a%'"``. Tuples are
            ``(column, operator, value)``, as in `pyarrow.parquet`, with the operators ``=``, ``==``, ``!=``, ``<``,
            ``<=``, ``>``, ``>=``, ``in`` and ``not in``. The tuples of a list are joined by AND, the lists of an outer
            list by OR. Statistics skip row groups; the remaining rows are filtered exactly.
        row_groups : sequence of int, optional
            Row groups to read, in this order.
        schema : pyarrow.Schema, optional
            Read as these columns and types: columns that are missing are nulls, and values are cast, or refused if the
            type cannot hold them. `columns` may choose among them. Filters compare columns in the types of the file.
        rows : range or slice, optional
            Rows to read, by their numbers; with `filters`, those of them that match. A slice is cut to the rows that
            there are, as Python cuts it; a range has to lie within them. `take` reads rows in any order.
        with_row_index : str, optional
            The name of a column that comes first and has the number of each row, counted from the beginning of the
            file, whatever is left out. `filters` may ask for it, and then only row groups that have such rows are read.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> _ = smalti.write_table(pa.table({"a": list("abcdef")}), "six.mosaic", row_group_max_rows=2)
        >>> with smalti.open("six.mosaic") as f:
        ...     f.read(rows=range(3, 5), with_row_index="row").to_pydict()
        {'row': [3, 4], 'a': ['d', 'e']}
        """
        return self._scan_of(
            columns, filters, row_groups, cast_to=schema, rows=rows, row_index=with_row_index
        ).to_table()

    def _scan_of(
        self,
        columns: Sequence[str] | None,
        filters: AnyFilter,
        row_groups: Sequence[int] | None,
        **options: Any,
    ) -> Scan:
        groups = None if row_groups is None else tuple(row_groups)
        return Scan(self, check_columns(columns), filters, row_groups=groups, **options)

    def iter_batches(
        self,
        batch_size: int | None = None,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        row_groups: Sequence[int] | None = None,
        *,
        exact: bool = False,
        rows: range | slice | None = None,
        with_row_index: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch, row group by row group; `readahead` says how many row groups are read ahead.

        A row group that would take more than 64 MiB comes in several batches, so that only its stored bytes and one
        batch are in memory. Batches stay valid for as long as they are kept, whatever is read after them.

        Parameters
        ----------
        batch_size : int, optional
            The most rows that a batch has. Where a row group ends, a batch ends too and has fewer.
        columns, filters, row_groups, rows, with_row_index
            As in `read`.
        exact : bool
            Whether every batch but the last has exactly `batch_size` rows, as in pyarrow; rows are copied where a batch
            goes on in the next row group. A batch that one array of a column cannot hold, such as 2 GiB of strings, is
            refused.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> _ = smalti.write_table(pa.table({"a": range(100)}), "hundred.mosaic", row_group_max_rows=30)
        >>> with smalti.open("hundred.mosaic") as f:
        ...     [batch.num_rows for batch in f.iter_batches(40)], [b.num_rows for b in f.iter_batches(40, exact=True)]
        ([30, 30, 30, 10], [40, 40, 20])
        """
        options: dict[str, Any] = {"rows": rows, "row_index": with_row_index, "exact": exact}
        return self._scan_of(columns, filters, row_groups, batch_size=batch_size, **options).to_batches()

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows there are, or how many match `filters`; reads only the columns of `filters`, if any."""
        if filters is None:
            return self.num_rows
        return sum(batch.num_rows for batch in self._batches(self._plan(self._project([]), filters)))

    def units(
        self,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        kept: Allowance | None = None,
        batch_size: int | None = None,
        ahead: Allowance | None = None,
        deleted: Sequence[int] | None = None,
        row_groups: Sequence[int] | None = None,
        rows: Rows | None = None,
        row_index: RowIndex | None = None,
        held: Allowance | None = None,
    ) -> Iterator[Unit[Iterable[pa.RecordBatch]]]:
        """A read as units, one for each row group, for readers of several files; see `Scanner.units`.

        `deleted` has the numbers of rows that are left out, in ascending order, counted from the beginning of the file;
        so has `rows`, which are the rows that are read. With `row_index`, batches begin with this column.
        """
        plan = self._plan(self._project(columns), filters, row_groups, rows, row_index, deleted or ())
        return self._scanner.units(plan, kept, batch_size, ahead, held)

    @cached_property
    def _row_starts(self) -> list[int]:
        """The number of the first row of each row group, then of all rows."""
        return [0, *accumulate(map(self._tail.index.rows, range(self.num_row_groups)))]

    def row_blocks(self, columns: Sequence[str] | None = None) -> RowBlocks:
        """The row groups, which are read in any order, for `smalti.loader`."""
        from smalti.file.blocks import FileBlocks  # most reads do without

        return FileBlocks(self, check_columns(columns), self._take_budget)

    @property
    def _take_budget(self) -> Budget:
        """How far to read ahead where few rows or columns of a row group keep one core busy at most."""
        return self._budget if self._budget.readahead else replace(self._budget, readahead=threads.cpu_count())

    def close(self) -> None:
        self._scanner.buckets.close()

    def __repr__(self) -> str:
        return (
            f"<smalti.MosaicFile {self._source.name or ''}: {show_count(self.num_rows, 'row')}, "
            f"{show_count(self.num_columns, 'column')}, {show_count(self.num_row_groups, 'row group')}, "
            f"{show_count(self.num_buckets, 'bucket')}>"
        )

    def _repr_html_(self) -> str:
        """What notebooks show. Reads nothing."""
        from smalti.report.notebook import view_file

        return view_file(self, self._source.name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path or the bytes; unpickling opens the file again."""
        if self._reopen is None:
            raise TypeError("only files that smalti.open has opened by path, or from bytes, can be pickled")
        return self._reopen, ()

    # --- how ------------------------------------------------------------------------------------------------------

    def _present(self, names: Sequence[str]) -> list[str]:
        whole = self.columns.whole(names)
        refuse_fields(set(self.columns.present(names)).difference(whole))
        return whole

    def _ahead(self) -> Budget:
        return self._budget

    def _from_end(self, scan: Scan, held: Allowance) -> Iterator[Iterator[pa.RecordBatch]]:
        for read in reversed(self._plan(self._project([]), scan.filters).groups):
            yield self._scan_batches(replace(scan, row_groups=(read.row_group,)), held)

    def _scan_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        output = self._project(scan.columns)
        plan = self._plan_of(scan, output)
        schema = output.schema if plan.row_index is None else plan.row_index.add_to(output.schema)
        # Decoding a row group keeps all cores busy if it has a bucket for each.
        is_narrow = isinstance(scan.rows, Taken) and len(output.stored.buckets) < threads.cpu_count()
        budget = self._take_budget if is_narrow else None
        batches = self._batches(plan, kept=kept, progress=scan.progress, budget=budget)
        return pa.Table.from_batches(batches, schema=schema)

    def _plan_of(self, scan: Scan, output: LogicalProjection) -> ScanPlan:
        rows = None if scan.rows is None else parse_rows(scan.rows, self.num_rows)
        index = None if scan.row_index is None else RowIndex(scan.row_index)
        return self._plan(output, scan.filters, scan.row_groups, rows, index)

    def _scan_batches(self, scan: Scan, held: Allowance) -> Iterator[pa.RecordBatch]:
        plan = self._plan_of(scan, self._project(scan.columns))
        return self._batches(plan, held=held, batch_size=scan.batch_size, progress=scan.progress)

    def _batches(
        self,
        plan: ScanPlan,
        *,
        kept: Allowance | None = None,
        held: Allowance | None = None,
        batch_size: int | None = None,
        progress: Listener | None = None,
        budget: Budget | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a read, read ahead where that helps; for `kept` and `held` see `Scanner.batches`."""
        if len(plan.groups) == 1 and progress is None:  # nothing to read ahead, nothing to report
            if kept is not None:
                self._scanner.check_fits(plan, kept)
            yield from self._scanner.batches(plan, kept=kept, held=held, batch_size=batch_size)
            return
        budget = budget or self._budget
        budget = budget if len(plan.groups) > 1 else Budget(0)
        ahead = Allowance(budget.memory_limit) if budget.readahead else None
        units = self._scanner.units(plan, kept, batch_size, ahead, held)
        meter: Meter | None = None
        done: Iterator[tuple[int, int]] = iter(())
        if progress is not None:
            parts = [[read.row_group for read in part.groups] for part, _ in self._scanner.rounds(plan, ahead)]
            stored = self._tail.stored_bytes
            sizes = [sum(stored(group, plan.output.bucket_ids) for group in groups) for groups in parts]
            meter = Meter("read", len(plan.groups), sum(sizes), progress)
            done = zip(sizes, map(len, parts), strict=True)
        for batches in in_order(units, budget):
            num_rows = 0
            for batch in batches:
                num_rows += batch.num_rows
                yield batch
                del batch
            if meter is not None:
                meter.add(num_rows, *next(done))
            del batches

    def _check_present(self, names: Sequence[str]) -> None:
        present = set(self.columns.present(names))
        missing = next((name for name in names if name not in present), None)
        if missing is not None:
            raise no_column(missing, self.column_names, path=self._source.name)

    def _project(self, columns: Sequence[str] | None) -> LogicalProjection:
        """The columns of a read, each once, in the order they are asked for."""
        asked = check_columns(columns)
        if asked is None:
            return self.columns.every
        names = self.columns.select(asked)
        self._check_present(names)
        return self.columns.project(names)

    def _plan(
        self,
        output: LogicalProjection,
        filters: AnyFilter,
        row_groups: Sequence[int] | None = None,
        rows: Rows | None = None,
        row_index: RowIndex | None = None,
        deleted: Sequence[int] = (),
    ) -> ScanPlan:
        if row_index is not None and self.columns.present([row_index.name]):
            raise row_index.taken_name(path=self._source.name)
        wanted = None if rows is None else dict(split_rows(rows, self._row_starts))
        groups: Iterable[int] = range(self.num_row_groups) if wanted is None else wanted
        if row_groups is not None:
            named = [self.row_group(index).index for index in row_groups]
            groups = named if wanted is None else [group for group in named if group in wanted]
        filter_ = None if filters is None else self.filter_plan(filters, row_index)
        plan = plan_scan(output.stored, groups, filter_, output.assemble)
        if wanted is None and row_index is None and not deleted:
            return plan
        first = 0 if row_index is None else row_index.start

        def by_number(read: GroupRead) -> GroupRead:
            start, end = self._row_starts[read.row_group : read.row_group + 2]
            inside = deleted[bisect_left(deleted, start) : bisect_left(deleted, end)]
            rows = None if wanted is None else wanted[read.row_group]
            return replace(read, rows=rows, start=first + start, deleted=[row - start for row in inside])

        return replace(plan, groups=tuple(map(by_number, plan.groups)), row_index=row_index)

    def filter_plan(self, filters: AnyFilter, row_index: RowIndex | None = None) -> FilterPlan:
        """What statistics tell about a filter for each row group."""
        from smalti.mosaic.filtering import FilterPlan  # see there why not at the top
        from smalti.predicate import normalize_filters

        if isinstance(filters, str):
            filters = self._parse_text(filters, None if row_index is None else row_index.name)
        filter_ = normalize_filters(filters)
        self.columns.refuse_ambiguous(filter_.nested)
        names = [name for name in filter_.columns if row_index is None or name != row_index.name]
        self._check_present(names)
        compared = self.columns.filter_columns(names, filter_.computed)
        numbered = None if row_index is None else (row_index, self._row_starts)
        return FilterPlan(filter_, compared, self._tail, self.columns.stored, numbered)


def open_file(
    source: Any,
    *,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    readahead: int | None = None,
    memory_limit: int | None = None,
    cache_bytes: int = CACHE_BYTES,
    logical: bool = True,
) -> MosaicFile:
    """Open a Mosaic file for reading.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, seekable binary file object or ReadAt
        A local path, a URI such as ``s3://bucket/key``, the bytes of a file, an open file, or a function that returns
        ranges of bytes, as `smalti.ReadAt(read_at, size)`.
    filesystem : pyarrow.fs.FileSystem, fsspec file system or obstore store, optional
        Where to look a path up.
    storage_options : mapping, optional
        Credentials and endpoint for the service that a URI names, by the names of obstore (``access_key_id``,
        ``endpoint``), of the environment (``AWS_ACCESS_KEY_ID``), of pyarrow (``access_key``) or of fsspec (``key``).
        What is not given is looked for in the environment, in profiles and on the machine. Values are shown nowhere.
    readahead : int, optional
        How many row groups are read before they are needed. By default 32 on remote storage, and none on this machine.
    memory_limit : int, optional
        Bytes that a read may hold at a time: everything that it decompresses and decodes, including what is read ahead.
        More is refused with `MemoryLimitError` before it is allocated. By default a table may take three quarters of
        the memory that is free when the read begins; batches may take 1,152 MiB plus 256 times the size of the file,
        and at most that. Half of a limit, by default 512 MiB, are for reading ahead.
    cache_bytes : int
        How many decompressed bytes of buckets are kept while the file is open, so that the next read of the same
        columns, or of others in the same bucket, need not read and decompress them again. 0 keeps none. They do not
        count in `memory_limit`, but are no more than it.
    logical : bool
        Whether columns come as they were given: structs, types that are stored as another type, metadata. False gives
        the stored columns, as a reader sees them that does not know the companion.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), "two.mosaic")
    >>> with smalti.open("two.mosaic") as f:
    ...     f.num_rows, f.column_names, f.read(columns=["b"]).to_pydict()
    (2, ['a', 'b'], {'b': ['x', None]})
    """
    filesystem = chosen(filesystem, storage_options)
    options: dict[str, Any] = {"readahead": readahead, "memory_limit": memory_limit, "cache_bytes": cache_bytes}
    options["logical"] = logical
    opened = open_source(source, filesystem)
    file = MosaicFile(opened, PROCESS_SCHEMAS, **options)
    if isinstance(source, (str, os.PathLike, bytes)):
        file._reopen = partial(open_file, lasting_path(source, opened), filesystem=filesystem, **options)
    return file
