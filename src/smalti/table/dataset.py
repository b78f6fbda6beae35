"""Many files as one table: a directory, partitions in its paths, the union of the files' schemas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import MosaicError, SchemaError
from smalti.file.blocks import RowBlocks
from smalti.file.scans import Scan, first_rows, last_rows
from smalti.file.streams import Scannable
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, Location, chosen, locate
from smalti.logical.adapt import adapt_batch, check_schema
from smalti.logical.widen import unify_schemas
from smalti.mosaic.rows import parse_rows
from smalti.readahead import Budget
from smalti.table.blocks import TableBlocks
from smalti.table.columns import TableColumns
from smalti.table.listing import FoundFile, Listing, list_files, no_files_error, read_again
from smalti.table.names import JOBS, is_glob, parse_partition, tables_above
from smalti.table.planning import ReadPlan, matching_files, numbered_pieces, parse_filter, partition_pruner, plan_read
from smalti.table.reading import read_plan
from smalti.table.snapshot import IncompleteError, OpenFiles, ReadSettings, Snapshot
from smalti.units import show_bytes, show_count

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter

Result = TypeVar("Result")


#: The most files that are opened to show how many rows and columns a table has.
MAX_OPENED_TO_SHOW = 64


class MosaicDataset(Scannable):
    """Mosaic files that are read as one table. Made by `smalti.dataset`. Several threads may share it.

    Files are opened when they are needed, several at a time. A read opens the files that the names of directories do
    not rule out, and has the columns of these files, each in a type that holds the values of all of them. `schema` has
    the columns of all files, and opens all of them.
    """

    def __init__(
        self,
        find: Callable[[Filter | None], Listing],
        schema: pa.Schema | None,
        settings: ReadSettings,
        filter_: Filter | None = None,
    ) -> None:
        self._find = find
        #: The columns of the schema that the user has given; by default those of the files that are read.
        self._given: TableColumns | None = None if schema is None else TableColumns({}, check_schema(schema))
        self._settings = settings
        self._memory_limit = settings.memory_limit
        #: Directories that this filter rules out are not listed.
        self._filter = filter_
        self._table = self._list(filter_)

    def _list(self, filter_: Filter | None = None) -> Snapshot:
        """List the files that directories do not rule out; if none is left, all files, which tell the columns."""
        found = Snapshot.of(self._find(filter_), self._settings)
        return found if found.files or found.is_whole else self._list()

    def _read(self, read: Callable[[Snapshot, OpenFiles], Result]) -> Result:
        """Read, and if files were replaced since they were listed, list the table again and start over.

        A read that needs the directories which were not listed starts over with all of them. Files that were opened to
        know their columns stay open until they are read, or until `read` is done.
        """
        table = self._table

        def attempt() -> Result:
            nonlocal table
            with suppress(IncompleteError), closing(OpenFiles(table.budget)) as open_files:
                return read(table, open_files)
            table = self._list()
            return attempt()

        def list_again() -> None:
            nonlocal table
            table = self._list(self._filter)

        result = read_again(attempt, list_again)
        self._table = table
        return result

    @property
    def files(self) -> list[str]:
        """The paths of the files, in the order in which they are read: sorted by name, or as in the list given."""
        return [file.path for file in self._table.files]

    @property
    def locations(self) -> list[Location]:
        """The same files, on their file system."""
        return [Location(self._table.filesystem, path) for path in self.files]

    @property
    def partition_schema(self) -> pa.Schema:
        """The columns that the names of directories spell."""
        return self._table.partitions

    @property
    def schema(self) -> pa.Schema:
        """Columns of all files, then the partition columns."""
        return self.typed_columns.schema

    @property
    def column_names(self) -> list[str]:
        """The names of all columns, in the order of `schema`, without building that schema."""
        return list(self.typed_columns.names)

    def names_of_file(self, index: int) -> Sequence[str]:
        """The names of the columns of one file, or of the schema that was given, and of the partition columns."""

        def names(table: Snapshot, open_files: OpenFiles) -> Sequence[str]:
            files = [table.files[index]] if table.files else []
            table.learn(files, open_files)
            return table.columns_of(files).names

        return self._read(names) if self._given is None else self._given.names

    @property
    def typed_columns(self) -> TableColumns:
        """The columns of `schema`, from which engines take the types of some columns by name."""

        def find(table: Snapshot, _: OpenFiles) -> TableColumns:
            table.need_all()
            found = table.all_columns
            self._refuse_stored_path(table, table.files)
            return found

        return self._given or self._read(find)

    def _parse_text(self, text: str, row_index: str | None = None) -> Any:
        """Parse a condition that is text. If it is about partition columns alone, no file is opened for its types.

        Files that such a condition rules out may disagree on the types of other columns.
        """
        with suppress(SchemaError):
            from smalti.predicate.text import parse_where

            return parse_where(text, self.partition_schema)
        return super()._parse_text(text, row_index)

    def with_file_paths(self, name: str) -> MosaicDataset:
        """The same table with a column, the last one, that has the path of each row's file."""
        settings = replace(self._settings, file_paths=name)
        schema = None if self._given is None else self._given.schema.append(pa.field(name, pa.string()))
        return MosaicDataset(self._find, schema, settings, self._filter)

    def with_schema(self) -> MosaicDataset:
        """The same table, read in the types of `schema` whichever files are read; for engines that ask for it first."""
        fixed = copy(self)
        fixed._given = self.typed_columns
        return fixed

    def _ends(self, scan: Scan, num_rows: int, *, from_end: bool) -> pa.Table:
        """The first or last rows of a scan. Files are read until there are enough rows; the others stay closed."""

        def read(table: Snapshot, open_files: OpenFiles) -> pa.Table:
            found: list[pa.RecordBatch] = []
            left, start, end, held = num_rows, 0, 0, self._stream_allowance()
            files = self._matching_files(table, parse_filter(scan.filters), open_files, is_first_enough=True)
            count = len(files)
            while left and end < count:
                start, end = end, min(count, 4 * end + 1)  # at first one file, then more and more at a time
                chosen = files[count - end : count - start] if from_end else files[start:end]
                plan = self._plan_files(table, chosen, scan, open_files)
                with closing(read_plan(table, plan, open_files, held=held)) as batches:
                    rows = last_rows(batches, left, held) if from_end else list(first_rows(batches, left, held))
                found = [*rows, *found] if from_end else [*found, *rows]
                left -= sum(batch.num_rows for batch in rows)
            looked_at = files[count - end :] if from_end else files[:end]
            output = self._plan_files(table, looked_at, scan, open_files).output
            # Where a column is in none of some files, their rows have the types of the whole table.
            schema = unify_schemas(("the table", each) for each in (output, *(batch.schema for batch in found)))
            return pa.Table.from_batches([adapt_batch(batch, schema, held) for batch in found], schema)

        return self._read(read)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows the table has, or how many of them match `filters`."""
        if filters is not None:
            scan = self.scan([], filters)
            return self._read(lambda table, open_files: sum(b.num_rows for b in self._batches(table, open_files, scan)))
        return self._read(lambda table, _: table.row_starts()[-1])

    def __repr__(self) -> str:
        return f"<smalti.MosaicDataset: {', '.join(text for _, text in self._in_words())}>"

    def _in_words(self) -> list[tuple[str, str]]:
        """Files, bytes, rows and columns. The last two are left out if many files would have to be opened for them."""
        files = self._table.files
        words = [("files", show_count(len(files), "file")), ("size", show_bytes(sum(file.size for file in files)))]
        if len(files) <= MAX_OPENED_TO_SHOW:
            with suppress(MosaicError, OSError):  # A summary does without these numbers. A read raises the error.
                words.append(("rows", show_count(self.count_rows(), "row")))
                words.append(("columns", show_count(len(self.column_names), "column")))
        return words

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from smalti.report.notebook import view_dataset

        columns = self.schema if len(self._table.files) <= MAX_OPENED_TO_SHOW else None
        return view_dataset(self._in_words(), self.partition_schema.names, self._table.files, columns)

    # --- how a scan is planned --------------------------------------------------------------------------------------

    def _plan(self, table: Snapshot, scan: Scan, open_files: OpenFiles) -> ReadPlan:
        """What a scan reads. Files that were opened for it, to know their columns, stay open in `open_files`."""
        filter_ = parse_filter(scan.filters)
        scan = replace(scan, filters=filter_)
        is_numbered = scan.rows is not None or scan.row_index is not None
        if is_numbered:
            table.need_all()  # Rows that a filter leaves out have numbers, too.
        files = self._matching_files(table, filter_, open_files)
        plan = self._plan_files(table, files, scan, open_files)
        if not is_numbered:
            return plan
        starts = table.row_starts(open_files)
        rows = None if scan.rows is None else parse_rows(scan.rows, starts[-1])
        pieces = numbered_pieces(files, table.files, starts, rows)
        if scan.is_per_file:
            pieces = [replace(piece, first_row=0) for piece in pieces]
        return replace(plan, pieces=pieces)

    def _matching_files(
        self, table: Snapshot, filter_: Filter | None, open_files: OpenFiles, *, is_first_enough: bool = False
    ) -> Sequence[FoundFile]:
        """The files that the names of directories do not rule out.

        A partition column that a file stores rules out nothing, because the stored value counts. So the files that are
        left are opened, which the read does anyway. If the read does not open them (`is_first_enough`, or with a given
        schema), the first file stands for all; engines, which have asked for the schema, have opened all files.
        """
        if filter_ is None:
            return table.files
        given, typed = self._given, table.partitions
        if given is not None:
            typed = given.project(given.present(typed.names))
        stored: set[str] = set()
        while True:
            files = matching_files(table.files, [field for field in typed if field.name not in stored], filter_)
            if len(files) == len(table.files) and table.is_whole:
                return files
            looked_at = files or table.files[:1]
            table.learn(looked_at[:1] if is_first_enough or given is not None else looked_at, open_files)
            known = [file for file in (looked_at if given is None else table.files) if file.path in table.columns]
            more = table.stored_partitions(known).intersection(filter_.columns) - stored
            if not more:
                return files
            table.need_all()
            stored |= more

    def _plan_files(self, table: Snapshot, files: Sequence[FoundFile], scan: Scan, open_files: OpenFiles) -> ReadPlan:
        """Plan to read files. Columns have types that hold the values of all of them.

        Without files, the first file of the table says which columns there are.
        """
        typed_by = files or table.files[:1]
        try:
            return self._plan_in_types(table, files, typed_by, scan, open_files)
        except SchemaError:
            # A column that no file to be read has may be in another file. Then all its rows are null here.
            if self._given is None:
                table.need_all()
            if self._given is not None or len(typed_by) == len(table.files):
                raise
            return self._plan_in_types(table, files, table.files, scan, open_files)

    def _plan_in_types(
        self,
        table: Snapshot,
        files: Sequence[FoundFile],
        typed_by: Sequence[FoundFile],
        scan: Scan,
        open_files: OpenFiles,
    ) -> ReadPlan:
        """Plan to read files. Columns have types that hold the values in all files of `typed_by`."""
        columns = self._given
        if columns is None:
            table.learn(typed_by, open_files)
            columns = table.columns_of(typed_by)
        self._refuse_stored_path(table, typed_by)
        # If no file was opened, one may store a partition column, so all conditions are left to the files.
        names = set(table.partitions.names) - table.stored_partitions(typed_by) if self._given is None else ()
        return plan_read(files, columns, scan.columns, parse_filter(scan.filters), sorted(names), scan.row_index)

    def _refuse_stored_path(self, table: Snapshot, files: Sequence[FoundFile]) -> None:
        """Refuse a column of paths that has the name of a column in the files, which would be read instead."""
        name = self._settings.file_paths
        if name is not None and self._given is None and name in table.stored_partitions(files):
            raise SchemaError(
                "the files have a column of this name; give the column of their paths another", found=name
            )

    # --- how it is read ---------------------------------------------------------------------------------------------

    def _scan_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self._schema_of(self.scan(columns))

    def _present(self, names: Sequence[str]) -> list[str]:
        columns = self.typed_columns
        found = columns.present(names)
        if any("." in name for name in set(names).difference(found)):
            return super()._present(names)  # which knows the fields of structs, and refuses them
        return found

    def _schema_of(self, scan: Scan) -> pa.Schema:
        return self._read(lambda table, open_files: self._plan(table, scan, open_files).output)

    def _scan_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        def read(table: Snapshot, open_files: OpenFiles) -> tuple[pa.Table, int]:
            attempt, plan = kept.part(), self._plan(table, scan, open_files)
            batches = list(read_plan(table, plan, open_files, progress=scan.progress, kept=attempt))
            return pa.Table.from_batches(batches, plan.output), attempt.held

        table, held = self._read(read)
        kept.take(held)
        return table

    def row_blocks(self, columns: Sequence[str] | None = None) -> RowBlocks:
        """The row groups of the files that there are now, which are read in any order, for `smalti.loader`."""

        def find(table: Snapshot, open_files: OpenFiles) -> RowBlocks:
            table.need_all()
            return TableBlocks(table, self._plan_files(table, table.files, self.scan(columns), open_files))

        return self._read(find)

    def _ahead(self) -> Budget:
        return self._table.budget

    def _batches(
        self, table: Snapshot, open_files: OpenFiles, scan: Scan, held: Allowance | None = None
    ) -> Iterator[pa.RecordBatch]:
        plan = self._plan(table, scan, open_files)
        return read_plan(table, plan, open_files, progress=scan.progress, held=held, batch_size=scan.batch_size)

    def _scan_batches(self, scan: Scan, held: Allowance) -> Iterator[pa.RecordBatch]:
        """Read batch by batch. The read can start over until its first batch was delivered."""
        with ExitStack() as stack:

            def begin(table: Snapshot, _: OpenFiles) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]:
                batches = self._batches(table, stack.enter_context(closing(OpenFiles(table.budget))), scan, held)
                return list(islice(batches, 1)), batches

            first, rest = self._read(begin)
            while first:
                yield first.pop()
            yield from rest


def _find_files(
    locations: Sequence[Location], given: Sequence[str], filter_: Filter | None, *, plain: bool, is_table: bool
) -> Listing:
    """The files at absolute locations; `given` are their paths as the user has passed them.

    As in pyarrow, a list of files has the partition columns of the directories in its paths, with nulls where a path
    has none, and a file is read as often as it is named.
    """
    listing = list_files(locations, plain=plain, prune=None if filter_ is None else partition_pruner(filter_))
    if not listing.files and not listing.ruled_out and not is_table:
        # Records of commits say that a directory is, or was, a table.
        tables = (Location(each.filesystem, table) for each in locations for table in tables_above(each.path))
        if not any(table.child(JOBS).exists() for table in tables):
            raise no_files_error(locations)
    if [file.name for file in listing.files] != [location.path for location in locations]:
        return listing
    partitions = [parse_partition(PurePosixPath(path).parts[:-1]) for path in given]
    keys = list(dict.fromkeys(key for partition in partitions for key in partition))
    filled = [{key: partition.get(key) for key in keys} for partition in partitions]
    files = [replace(file, partition=values) for file, values in zip(listing.files, filled, strict=True)]
    return replace(listing, files=files)


def _absolute(location: Location) -> Location:
    """The same place after the process has gone to another directory.

    A relative pattern stays relative where the name of the current directory would be taken for a part of it.
    """
    is_pattern_below = is_glob(location.path) and not PurePosixPath(location.path).is_absolute()
    return location if is_pattern_below and is_glob(str(Path.cwd())) else location.absolute()


def dataset(
    source: AnyPath | Sequence[AnyPath],
    *,
    schema: pa.Schema | None = None,
    partitioning: str | Sequence[str] | None = "hive",
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    readahead: int | None = None,
    memory_limit: int | None = None,
    plain: bool = False,
    logical: bool = True,
    include_file_paths: str | None = None,
) -> MosaicDataset:
    """Open a directory, glob or list of Mosaic files as one table.

    Parameters
    ----------
    source : str, os.PathLike or list of them
        Directories are searched for ``*.mosaic`` at any depth; names that start with a dot or an underscore are
        ignored. A list of files is read in its order, a file as often as it is named. A relative path is looked up in
        the directory in which the process is now.
    schema : pyarrow.Schema, optional
        Read as this schema instead of the union of the files' schemas, partition columns included.
    partitioning : "hive", list of str, or None
        Whether directories called ``key=value`` are columns, if the files do not store them: directories below
        `source`, and those in the paths of files that it names. Such a column is int64 if all its values are whole
        numbers, else string; `schema` may say otherwise. With a list of names, directories are values alone, as in
        ``2026/01``: those of each level below `source` are the column of this name.
    filesystem, storage_options, memory_limit, logical
        As in `smalti.open`.
    readahead : int, optional
        How many files are opened, and row groups read, before they are needed. By default 32 on remote storage; on this
        machine one for each core, and none if files are small.
    plain : bool
        Whether to read a Paimon table as the files in its directory, including old versions of rows, deleted rows and
        rows that were never committed. `smalti.paimon.dataset` reads its rows.
    include_file_paths : str, optional
        The name of a column, the last one, with the path of each row's file. Conditions on it rule out files.

    Raises
    ------
    PaimonTableError
        If there is a Paimon table, and `plain` is not set.
    MosaicError
        If a directory has no Mosaic files, unless `schema` is given or jobs of smalti have emptied it.

    Examples
    --------
    >>> import os, pyarrow as pa, smalti
    >>> os.makedirs("sales/year=2024", exist_ok=True)
    >>> _ = smalti.write_table(pa.table({"a": [1, 2]}), "sales/year=2024/part.mosaic")
    >>> smalti.dataset("sales").to_table(filters=[("year", "=", 2024)]).to_pydict()
    {'a': [1, 2], 'year': [2024, 2024]}
    """
    filesystem = chosen(filesystem, storage_options)
    levels = None if partitioning is None or isinstance(partitioning, str) else tuple(partitioning)
    if levels is None and partitioning not in ("hive", None):
        raise ValueError(f'partitioning is "hive", a list of names or None, not {partitioning!r}')
    settings = ReadSettings(partitioning is not None, readahead, memory_limit, logical, include_file_paths, levels)
    return open_dataset(source, filesystem, settings, schema=schema, plain=plain)


def open_dataset(
    source: AnyPath | Sequence[AnyPath],
    filesystem: AnyFileSystem,
    settings: ReadSettings,
    *,
    schema: pa.Schema | None = None,
    plain: bool = False,
    filters: AnyFilter = None,
) -> MosaicDataset:
    """`dataset`, for a single read with `filters`, if there are some: directories that they rule out are not listed."""
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    located = [locate(path, filesystem) for path in given]
    paths = [location.path for location in located]
    find = partial(_find_files, list(map(_absolute, located)), paths, plain=plain, is_table=schema is not None)
    # Types of partition columns, which a filter that is text is parsed by, are not known before they are listed.
    is_known = settings.is_partitioned and not isinstance(filters, str)
    return MosaicDataset(find, schema, settings, parse_filter(filters) if is_known else None)
