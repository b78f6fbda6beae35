"""Many files as one table: a directory, partitions in its paths, the union of the files' schemas."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from smalti._compat import arrow as compat
from smalti._core.allowance import Allowance
from smalti.errors import NoMosaicFilesError, SchemaError, no_column
from smalti.file.reader import MosaicFile
from smalti.file.streams import Scan, Scannable, cut_batches
from smalti.io.locations import AnyFileSystem, AnyPath, Location, is_local, locate
from smalti.logical.adapt import Adapter, ConstantOf, adapt_batch, check_schema
from smalti.logical.mapping import ColumnMapping, SharedSchemas, field_in_list
from smalti.logical.patterns import check_columns, is_pattern, match_names
from smalti.logical.tree import project_schema
from smalti.logical.widen import unify_schemas
from smalti.readahead import Budget, started
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import FoundFile, Listing, list_files, open_found, read_again, stream_again
from smalti.table.names import JOBS, Selection, is_glob, parse_partition, tables_above
from smalti.table.partitions import constants_of, partition_schema, partition_value, with_partitions
from smalti.table.scanning import FileRead, read_files
from smalti.units import show_count

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter

Result = TypeVar("Result")


class Dataset(Scannable):
    """What a directory of files and a Paimon table have in common: many files that are read as one table."""

    def to_table(self, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """Read to a table; `columns` and `filters` as in `MosaicFile.read`, partition columns included."""
        return self.scan(columns, filters).to_table()

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filters: AnyFilter = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch: row groups in order, some of them read ahead within the memory limit.

        If files are replaced after the first batch was read, an error is raised, because rows would be missing or
        come twice. If they are replaced before that, and in `to_table`, the table is listed again.
        """
        return self.scan(columns, filters, batch_size=batch_size).to_batches()

    def _scan_batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        return cut_batches(self._stream(scan), scan.batch_size)

    @abstractmethod
    def _stream(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """The batches of a read, in sizes as they come."""


class MosaicDataset(Dataset):
    """Mosaic files that are read as one table. Made by `smalti.dataset`. Several threads may share it.

    Files are opened when they are needed, several at a time. Files whose schema block has the same bytes share what is
    known about it. The type of a column is one that holds the values of all files. So a stream, and a read with a
    filter, opens all files first, unless a schema was given or an earlier read has opened all of them.
    """

    def __init__(
        self,
        find: Callable[[], Listing],
        schema: pa.Schema | None,
        partitioned: bool,
        readahead: int | None = None,
        memory_limit: int | None = None,
        logical: bool = True,
    ) -> None:
        self._find = find
        self._logical = logical
        self._given_schema = None if schema is None else check_schema(schema)
        self._partitioned = partitioned
        self._limits = readahead, memory_limit
        self._memory_limit = memory_limit
        self._schemas = SharedSchemas()
        self._list()

    def _list(self) -> None:
        """Find the files, and forget what is known of the files that were found before."""
        listing = self._find()
        self._found = files = listing.files
        self._filesystem = listing.filesystem
        self._schema = self._given_schema
        self.partition_schema = partition_schema(files) if self._partitioned else pa.schema([])
        self._budget = Budget.choose(
            *self._limits,
            is_remote=not is_local(listing.filesystem),
            unit_bytes=sum(file.size for file in files) // max(1, len(files)),
        )
        #: The different columns that files have, each with the paths of the files that have them; None until every file
        #: has been opened.
        self._variants: dict[ColumnMapping, list[str]] | None = None

    def _apart(self) -> MosaicDataset:
        """The same files with what is known of them, for one read. Another thread may list the table anew meanwhile."""
        apart = object.__new__(type(self))
        vars(apart).update(vars(self))
        return apart

    def _keep(self, apart: MosaicDataset) -> None:
        """Know from now on what a read has learnt; all of it in one step, because other threads may be looking."""
        vars(self).update(vars(apart))

    def _read_apart(self, read: Callable[[MosaicDataset], Result]) -> Result:
        """Read, and if files were replaced meanwhile, list the table again and start over."""
        apart = self._apart()
        result = read_again(lambda: read(apart), apart._list)
        self._keep(apart)
        return result

    @property
    def files(self) -> list[str]:
        """The paths of the files, in the order in which they are read: sorted by name, or as in the list given."""
        return [file.path for file in self._found]

    @property
    def schema(self) -> pa.Schema:
        """Columns of all files, then the partition columns."""
        return self._read_apart(MosaicDataset._find_schema)

    def _find_schema(self) -> pa.Schema:
        if self._schema is None:
            self._survey()
            self._schema = self._union(None)
        return self._schema

    def last_batches(
        self, num_rows: int, columns: Sequence[str] | None = None, filters: AnyFilter = None
    ) -> list[pa.RecordBatch]:
        """Batches of the last rows that match, in order. Files are read from the last one backwards, as far as needed.

        All files are those of one listing: if one was removed or replaced meanwhile, the table is listed again.
        """

        scan = self.scan(columns, filters)

        def read(apart: MosaicDataset) -> list[pa.RecordBatch]:
            found: list[pa.RecordBatch] = []
            apart._survey()
            some = apart._looked_at(scan, _parsed(scan))
            left, schema = num_rows, some._columns_of(columns)
            for file in reversed(some._found):
                if not left:
                    break
                alone = some._apart()
                alone._schema, alone._found = some._find_schema(), [file]
                rows = pa.Table.from_batches(alone._typed_batches(scan), schema)
                found = [*rows.slice(max(0, rows.num_rows - left)).to_batches(), *found]
                left -= min(left, rows.num_rows)
            return found

        return self._read_apart(read)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows there are, or would remain."""
        if filters is not None:
            return self._read_apart(lambda apart: sum(batch.num_rows for batch in apart.to_batches([], filters)))
        return self._read_apart(lambda apart: sum(rows for _, rows in apart._visit(lambda opened: opened.num_rows)))

    def __getstate__(self) -> dict[str, Any]:
        """Files are opened again where the dataset arrives."""
        return vars(self) | {"_variants": None}

    def __repr__(self) -> str:
        return f"<smalti.MosaicDataset: {show_count(len(self._found), 'file')}>"

    def _repr_html_(self) -> str:
        """What notebooks show. Opens nothing."""
        from smalti.report.notebook import view_dataset

        return view_dataset(self.partition_schema.names, self._found)

    # --- schemas ----------------------------------------------------------------------------------------------------

    def _open(self, file: FoundFile) -> MosaicFile:
        source, limits = open_found(file, self._filesystem), (self._budget.readahead, self._memory_limit)
        return MosaicFile(source, self._schemas, readahead=limits[0], memory_limit=limits[1], logical=self._logical)

    def _visit(
        self, ask: Callable[[MosaicFile], Result], kept: OpenFiles | None = None
    ) -> Iterator[tuple[str, Result]]:
        """Open all files, ahead, and ask each something; those that `kept` has room for stay open."""

        def visit(file: FoundFile) -> tuple[str, Result]:
            opened = self._open(file)
            answer = ask(opened)
            if kept is None or not kept.keep(file.path, opened):
                opened.close()
            return file.path, answer

        visits = started((partial(visit, file) for file in self._found), self._budget.readahead)
        return (future.result() for future in visits)

    def _survey(self, kept: OpenFiles | None = None) -> None:
        """Learn which columns the files have, unless that is known."""
        if self._schema is None and self._variants is None:
            variants: dict[ColumnMapping, list[str]] = {}
            for path, columns in self._visit(lambda opened: opened.columns, kept):
                variants.setdefault(columns, []).append(path)
            self._variants = variants

    def _union(self, names: Sequence[str] | None) -> pa.Schema:
        """Columns of all files, or some of them, and partition columns; only once all files are known."""
        assert self._variants is not None
        schemas = (
            (paths[0], columns.schema if names is None else columns.project(nearest(columns, names)).schema)
            for columns, paths in self._variants.items()
        )
        return with_partitions(unify_schemas(schemas), self.partition_schema)

    def _types(self, names: Sequence[str]) -> pa.Schema:
        """The fields of columns, or of paths below them, in this order; they must be in the dataset."""
        known = self._union(names) if self._schema is None else self._schema
        found, missing = project_schema(known, names)
        if missing:
            raise no_column(missing[0], self._find_schema().names, "in the dataset")
        return found

    def _names(self, columns: Sequence[str] | None) -> list[str] | None:
        """The columns that are asked for, each once; patterns need the names of all files."""
        names = check_columns(columns)
        if names is None or not any(map(is_pattern, names)):
            return None if names is None else list(dict.fromkeys(names))
        return match_names(self._find_schema().names, names)

    # --- how a scan is read -----------------------------------------------------------------------------------------

    def _scan_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self._read_apart(lambda apart: apart._columns_of(columns))

    def _schema_of(self, scan: Scan) -> pa.Schema:
        def find(apart: MosaicDataset) -> pa.Schema:
            apart._survey()
            return apart._looked_at(scan, _parsed(scan))._columns_of(scan.columns)

        return self._read_apart(find)

    def _columns_of(self, columns: Sequence[str] | None) -> pa.Schema:
        self._survey()
        names = self._names(columns)
        return self._find_schema() if names is None else self._types(names)

    def _scan_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        def read(apart: MosaicDataset) -> tuple[pa.Table, int]:
            attempt = kept.part()
            return apart._read_table(scan, attempt), attempt.held

        table, held = self._read_apart(read)
        kept.take(held)
        return table

    def _read_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        if scan.filters is None and self._schema is None and self._variants is None:
            return self._read_once(self._names(scan.columns), scan, kept)
        batches = list(self._typed_batches(scan, kept))
        return pa.Table.from_batches(batches, schema=self._looked_at(scan, _parsed(scan))._columns_of(scan.columns))

    def _read_once(self, names: list[str] | None, scan: Scan, kept: Allowance) -> pa.Table:
        """Read all files to a table before the types of their columns are known, and bring batches to them then."""
        variants: dict[ColumnMapping, list[str]] = {}

        def plan(file: FoundFile, opened: MosaicFile) -> FileRead:
            present = None if names is None else nearest(opened.columns, names)
            known = {*(present or ()), *self.partition_schema.names}
            if names is not None and not variants and not known.issuperset(names):
                self._survey()  # The first file lacks a column: if no file has it, nothing needs to be read.
                self._types(names)
            variants.setdefault(opened.columns, []).append(file.path)
            return FileRead(present)

        read = list(read_files(self._found, self._open, plan, self._budget, scan.progress, kept=kept))
        self._variants = variants
        output = self._find_schema() if names is None else self._types(names)
        return pa.Table.from_batches(
            [Adapter(output, batch.schema.names, self._constants(file)).adapt(batch, kept) for file, batch in read],
            output,
        )

    def _stream(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        apart, is_first = self._apart(), True
        for batch in stream_again(lambda: apart._typed_batches(scan), apart._list):
            if is_first:
                self._keep(apart)
                is_first = False
            yield batch
            del batch

    def _typed_batches(self, scan: Scan, table: Allowance | None = None) -> Iterator[pa.RecordBatch]:
        """The batches of a scan; with an allowance for all of them if they become a table."""
        kept = OpenFiles(self._budget)
        self._survey(kept)
        filter_ = _parsed(scan)
        yield from self._looked_at(scan, filter_)._read_batches(scan, filter_, kept, table)

    def _looked_at(self, scan: Scan, filter_: Filter | None) -> MosaicDataset:
        """All files; if they disagree on types, only those that partitions do not rule out."""
        if filter_ is None or self._variants is None:
            return self
        try:
            self._columns_of(scan.columns)
            self._types(filter_.columns)
            return self
        except SchemaError:
            matching = self._matching(filter_, self._partition_values())
            if all(matching):
                raise
        some = self._apart()
        some._found = list(compress(self._found, matching))
        there = {file.path for file in some._found}
        some._variants = {
            columns: left for columns, paths in self._variants.items() if (left := [p for p in paths if p in there])
        }
        return some

    def _partition_values(self) -> list[dict[str, pa.Scalar]]:
        """The values of each file that no file stores."""
        fields = self._unstored_partitions()
        return [{field.name: partition_value(file.partition, field) for field in fields} for file in self._found]

    def _matching(self, filter_: Filter, partitions: Sequence[Mapping[str, pa.Scalar]]) -> list[bool]:
        """Whether each file may have rows that match, by its partition values."""
        from smalti.predicate import fit_values, prune_partitions

        types = {name: value.type for name, value in partitions[0].items()} if partitions else {}
        return prune_partitions(fit_values(filter_, types).tree, partitions)

    def _read_batches(
        self, scan: Scan, filter_: Filter | None, kept: OpenFiles, table: Allowance | None
    ) -> Iterator[pa.RecordBatch]:
        files = self._found
        names = self._names(scan.columns)
        output = self._find_schema() if names is None else self._types(names)
        needed = output
        if filter_ is not None:
            from smalti.predicate import undecided  # slow to import, see smalti.mosaic.filtering

            needed = self._types(list(dict.fromkeys([*(output.names if names is None else names), *filter_.columns])))
            filter_ = fit_filter(filter_, self._types(filter_.columns))
            partitions = self._partition_values()
            matching = self._matching(filter_, partitions)
            files, partitions = list(compress(files, matching)), list(compress(partitions, matching))
            if self._variants is not None:  # Otherwise a file that was not looked into may store a partition column.
                # Without the conditions that partitions meet, files can apply the others by themselves.
                left = undecided(filter_.tree, partitions)
                filter_ = None if left is None else filter_.with_tree(left)

        asked = output.names if names is None else names

        def plan(file: FoundFile, opened: MosaicFile) -> FileRead:
            if filter_ is None or self._is_pushable(opened, filter_):
                columns = self._stored(opened, asked)
                adapter = Adapter(output, opened.schema_of(columns).names, self._constants(file))
                return FileRead(columns, filter_, adapter.adapt)
            opened.columns.refuse_ambiguous(filter_.nested)
            columns = self._stored(opened, [*asked, *filter_.columns])
            adapter = Adapter(needed, opened.schema_of(columns).names, self._constants(file))
            return FileRead(columns, None, lambda batch, held: filtered(adapter.adapt(batch, held), filter_, output))

        def open_(file: FoundFile) -> MosaicFile:
            return kept.take(file.path) or self._open(file)

        reading = read_files(files, open_, plan, self._budget, scan.progress, kept=table, batch_size=scan.batch_size)
        for _, batch in reading:
            yield batch
            del batch

    def _constants(self, file: FoundFile) -> ConstantOf:
        return constants_of(file.partition if len(self.partition_schema) else {})

    def _unstored_partitions(self) -> list[pa.Field]:
        """The partition columns that no file stores, so that the names of directories decide which files may match.

        If the schema was given, and no file was opened for it, the first file stands for all.
        """
        if self._variants is not None:
            columns = list(self._variants)
        elif self._found and len(self.partition_schema):
            with self._open(self._found[0]) as opened:
                columns = [opened.columns]
        else:
            columns = []
        names = self.partition_schema.names
        stored = {name for found in columns for name in found.present(names)}
        return [self._types([name]).field(0) for name in names if name not in stored]

    def _stored(self, opened: MosaicFile, names: Sequence[str]) -> list[str]:
        """The columns among `names` that are read from a file."""
        return nearest(opened.columns, names)

    def _is_pushable(self, opened: MosaicFile, filter_: Filter) -> bool:
        """Whether the file can filter by itself: it has all columns of the filter, in the dataset's types."""
        if self._stored(opened, filter_.columns) != list(filter_.columns):
            return False
        return opened.schema_of(filter_.columns).types == self._types(filter_.columns).types


class OpenFiles:
    """Remote files that stay open between the look at their columns and the reading of their rows.

    What opening has fetched need not be fetched again then. Half of the memory limit is spent on that; local files are
    opened again, which costs little, while the number of files that a process may have open is small.
    """

    def __init__(self, budget: Budget) -> None:
        self._left = budget.memory_limit // 2
        self._files: dict[str, MosaicFile] = {}
        self._lock = threading.Lock()

    def keep(self, path: str, opened: MosaicFile) -> bool:
        """Keep a file open if there is room for what was fetched of it."""
        with self._lock:
            if not opened.held_bytes or opened.held_bytes > self._left or path in self._files:
                return False
            self._left -= opened.held_bytes
            self._files[path] = opened
            return True

    def take(self, path: str) -> MosaicFile | None:
        return self._files.pop(path, None)


def nearest(columns: ColumnMapping, names: Sequence[str]) -> list[str]:
    """The columns of a file that are read for names: a struct that lacks a field is read to know where it is null."""
    present = columns.present(names)
    if len(present) == len(names):
        return present
    there = set(present)
    found: dict[str, None] = {}
    for name in names:
        part: str | None = name if name in there else columns.nearest_struct(name)
        if part is not None:
            found[part] = None
    return list(found)


def _parsed(scan: Scan) -> Filter | None:
    """The filter of a scan."""
    if scan.filters is None:
        return None
    from smalti.predicate import normalize_filters  # slow to import, see smalti.mosaic.filtering

    return normalize_filters(scan.filters)


def fit_filter(filter_: Filter, schema: pa.Schema) -> Filter:
    """The filter with values in the types that columns of a schema, and fields of its structs, are compared as.

    Raises
    ------
    SchemaError
        If a column is not there, or cannot be compared so. Nothing has to be read to know that.
    """
    from smalti.logical.types import compared_type
    from smalti.predicate import fit_values

    empty = pa.RecordBatch.from_arrays([compat.null_array(0, field.type) for field in schema], schema=schema)
    return fit_values(filter_, {name: compared_type(_leaf(empty, name).type) for name in filter_.columns})


def filtered(batch: pa.RecordBatch, filter_: Filter, output: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch that match a filter that fits it, with the columns of `output`.

    A filter names fields of structs by their paths.
    """
    from smalti.logical.arrays import as_compared, filter_rows
    from smalti.predicate import match_mask

    names = list(filter_.columns)
    compared = [as_compared(_leaf(batch, name)) for name in names]
    by_itself = pa.RecordBatch.from_arrays(compared, names=names) if names else batch
    return adapt_batch(filter_rows(batch, match_mask(by_itself, filter_)), output)


def _leaf(batch: pa.RecordBatch, name: str) -> Any:
    """A column, or the field of a struct that a path leads to."""
    from smalti.logical.arrays import struct_fields

    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    path = name
    while path not in columns:
        owner = next((each for each in columns if path.startswith(each + ".")), None)
        if owner is None:
            raise no_column(name, columns, "in the dataset")
        struct, path = columns[owner], path.removeprefix(owner + ".")
        while isinstance(struct, pa.ExtensionArray):
            struct = struct.storage
        if not pa.types.is_struct(struct.type):
            raise field_in_list(name)
        columns = dict(zip([field.name for field in struct.type], struct_fields(struct), strict=True))
    return columns[path]


def _find_files(locations: Sequence[Location], given: Sequence[str], *, plain: bool, is_table: bool) -> Listing:
    """The files at places, whose paths were given in another form.

    As in pyarrow, a list of files has the partition columns of the directories in its paths, with nulls where a path
    has none, and a file is read as often as it is named.
    """
    listing = list_files(locations, plain=plain)
    if not listing.files and not is_table:
        _refuse_empty(locations)
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


def _refuse_empty(locations: Sequence[Location]) -> None:
    """Refuse directories without Mosaic files, unless records of commits say that they are, or were, a table."""
    found: Counter[str] = Counter()
    for location in locations:
        if any(Location(location.filesystem, table).child(JOBS).exists() for table in tables_above(location.path)):
            return
        every = Selection(location.path, (), "")
        names = [info.path for info in location.entries(recursive=True) if info.is_file]
        found.update(f"*{PurePosixPath(name).suffix}" for name in names if every.partition(name) is not None)
    raise NoMosaicFilesError(
        "no Mosaic files in this directory",
        path=locations[0].path,
        found=", ".join(f"{show_count(count, 'file')} {suffix}" for suffix, count in found.most_common()) or "no files",
        expected=f"*{FILE_SUFFIX}, or a schema to read as",
    )


def dataset(
    source: AnyPath | Sequence[AnyPath],
    *,
    schema: pa.Schema | None = None,
    partitioning: str | None = "hive",
    filesystem: AnyFileSystem = None,
    readahead: int | None = None,
    memory_limit: int | None = None,
    plain: bool = False,
    logical: bool = True,
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
    partitioning : {"hive", None}
        Whether directories called ``key=value`` are columns, if the files do not store them: directories below
        `source`, and those in the paths of files that it names. Such a column is int64 if all its values are whole
        numbers, else string; `schema` may say otherwise.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    readahead : int, optional
        How many files are opened, and row groups read, before they are needed. By default 32 on remote storage; on this
        machine one for each core, and none if files are small.
    memory_limit : int, optional
        Bytes that a read may hold at a time, see `smalti.open`.
    plain : bool
        Whether to read a Paimon table as the files in its directory, including old versions of rows, deleted rows and
        rows that were never committed. `smalti.paimon.dataset` reads its rows.
    logical : bool
        Whether columns come as they were given; False gives the stored ones, as in `smalti.open`.

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
    if partitioning not in ("hive", None):
        raise ValueError(f'partitioning is "hive" or None, not {partitioning!r}')
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    located = [locate(path, filesystem) for path in given]
    paths = [location.path for location in located]
    find = partial(_find_files, list(map(_absolute, located)), paths, plain=plain, is_table=schema is not None)
    return MosaicDataset(find, schema, partitioning == "hive", readahead, memory_limit, logical)
