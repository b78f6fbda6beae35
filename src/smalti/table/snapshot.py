"""One state of a table: the files that a listing has found, and what has been learnt of them since.

A snapshot never gets other files; a table that has changed has another snapshot. What a file tells when it is opened
is kept here, so that no other read opens the file for that. A file does not change either, so several threads may learn
and read at the same time: at worst two of them open the same file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from smalti.file.reader import MosaicFile
from smalti.format.statistics import ColumnStatistics
from smalti.io.locations import Location, is_local
from smalti.logical.adapt import ConstantOf
from smalti.logical.mapping import PROCESS_SCHEMAS, ColumnMapping
from smalti.readahead import MIN_LOCAL_BYTES, Budget, started
from smalti.table.columns import TableColumns, table_columns
from smalti.table.listing import FoundFile, Listing, open_found
from smalti.table.partitions import constants_of, level_values, partition_schema, shared_dictionary

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Answer = TypeVar("Answer")
#: Local files that are opened in less time than it takes to start threads which open them.
_FEW_FILES = 16


@dataclass(frozen=True)
class FileFacts:
    """What the index of one file tells before a row is read."""

    #: The rows of each row group.
    rows: tuple[int, ...]
    #: The stored bytes of each row group, over all columns.
    group_bytes: tuple[int, ...]
    #: For each row group, the statistics of the columns that have some; empty if they were not asked for.
    statistics: tuple[Mapping[str, ColumnStatistics], ...]
    #: The types of columns with statistics.
    types: Mapping[str, pa.DataType]
    #: The partition columns that the file stores itself.
    stored_partitions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, opened: MosaicFile, partitions: Sequence[str], *, has_statistics: bool) -> FileFacts:
        groups = [opened.row_group(group) for group in range(opened.num_row_groups)]
        found = [group.statistics if has_statistics else {} for group in groups]
        names = list(dict.fromkeys(name for group in found for name in group))
        names = opened.columns.whole(names)  # Fields of structs have statistics, too, under names that are no columns.
        types = dict(zip(names, opened.schema_of(names).types, strict=True)) if names else {}
        return cls(
            tuple(group.num_rows for group in groups),
            tuple(group.num_bytes for group in groups),
            tuple({name: _as_python(group[name]) for name in names if name in group} for group in found),
            types,
            frozenset(opened.columns.present(list(partitions))),
        )

    def only(self, groups: Sequence[int]) -> FileFacts:
        """What the index tells about some row groups."""
        return replace(
            self,
            rows=tuple(self.rows[group] for group in groups),
            group_bytes=tuple(self.group_bytes[group] for group in groups),
            statistics=tuple(self.statistics[group] for group in groups),
        )

    def without_statistics(self) -> FileFacts:
        return replace(self, statistics=({},) * len(self.rows), types={})

    @property
    def num_values(self) -> int:
        """How many statistics there are, over all row groups."""
        return sum(map(len, self.statistics))


def _as_python(statistics: ColumnStatistics) -> ColumnStatistics:
    """Statistics without bounds that Python cannot hold, such as dates before the year 1."""
    is_held = not isinstance(statistics.min, pa.Scalar) and not isinstance(statistics.max, pa.Scalar)
    return statistics if is_held else ColumnStatistics(statistics.null_count)


@dataclass(frozen=True)
class ReadSettings:
    """How the files of a table are read: see the parameters of `smalti.dataset`."""

    is_partitioned: bool = True
    readahead: int | None = None
    memory_limit: int | None = None
    logical: bool = True
    #: The name of a column with the path of each row's file; by default there is none.
    file_paths: str | None = None
    #: The columns that the levels of directories are, if their names are values alone.
    levels: tuple[str, ...] | None = None


def _with_path(file: FoundFile, filesystem: FileSystem, settings: ReadSettings) -> FoundFile:
    """The file with its path as a partition value: like a partition value, it is the same in all rows of the file."""
    assert settings.file_paths is not None
    stores = Location(filesystem, file.name).stores
    path = file.name if stores is None else f"{stores.get_type_name()}://{file.name}"
    return replace(file, partition={**(file.partition if settings.is_partitioned else {}), settings.file_paths: path})


class IncompleteError(Exception):
    """A read needs files in directories that a filter has ruled out."""


@dataclass(frozen=True)
class Snapshot:
    """The files of a table, in the order in which they are read."""

    filesystem: FileSystem
    files: Sequence[FoundFile]
    #: The columns that the names of directories spell.
    partitions: pa.Schema
    settings: ReadSettings = ReadSettings()
    #: False if a listing has left out directories that a filter ruled out.
    is_whole: bool = True
    #: The columns of the files that were opened so far, by path. Files with equal columns share the object.
    columns: dict[str, ColumnMapping] = field(default_factory=dict)
    #: What the index of files tells, by path, as far as somebody has asked for it.
    facts: dict[str, FileFacts] = field(default_factory=dict)
    #: The number of rows of the files that were opened so far, by path.
    counts: dict[str, int] = field(default_factory=dict)
    _dictionaries: dict[tuple[str, str], Mapping[str | None, pa.Scalar]] = field(default_factory=dict)

    @classmethod
    def of(cls, listing: Listing, settings: ReadSettings) -> Snapshot:
        files, ruled_out = listing.files, listing.ruled_out
        if settings.levels is not None:
            files = [replace(file, partition=level_values(listing.relative(file), settings.levels)) for file in files]
        if settings.file_paths is not None:
            files = [_with_path(file, listing.filesystem, settings) for file in files]
        has_columns = settings.is_partitioned or settings.file_paths is not None
        partitions = partition_schema(files, ruled_out=ruled_out) if has_columns else pa.schema([])
        return cls(listing.filesystem, files, partitions, settings, is_whole=not ruled_out)

    @cached_property
    def budget(self) -> Budget:
        """How far files are opened and row groups are read ahead."""
        return self._budget(self.settings.readahead)

    def _budget(self, readahead: int | None) -> Budget:
        return Budget.choose(
            readahead, self.settings.memory_limit, is_remote=self._is_remote, unit_bytes=self._mean_bytes
        )

    @cached_property
    def _is_remote(self) -> bool:
        return not is_local(self.filesystem)

    @cached_property
    def _mean_bytes(self) -> int:
        return sum(file.size for file in self.files) // max(1, len(self.files))

    def budget_of(self, num_columns: int) -> Budget:
        """The budget of a read of some columns. Few of many local columns are read in less time than threads start."""
        width = next((len(columns) for columns in self.columns.values()), num_columns)
        num_bytes = self._mean_bytes * num_columns // max(1, width)
        if self.settings.readahead is None and not self._is_remote and num_bytes < MIN_LOCAL_BYTES:
            return self._budget(0)
        return self.budget

    def constants_of(self, file: FoundFile) -> ConstantOf:
        """The values that partition columns have in all rows of a file."""
        return constants_of(file.partition if len(self.partitions) else {}, self._shared_dictionary)

    def _shared_dictionary(self, field: pa.Field) -> Mapping[str | None, pa.Scalar]:
        key = field.name, str(field.type)
        if key not in self._dictionaries:
            self._dictionaries[key] = shared_dictionary(self.files, field)
        return self._dictionaries[key]

    def need_all(self) -> None:
        """Raise `IncompleteError` if some directories were not listed, so that the reader starts over with all."""
        if not self.is_whole:
            raise IncompleteError

    # --- opening ----------------------------------------------------------------------------------------------------

    def open(self, file: FoundFile) -> MosaicFile:
        """Open a file of the snapshot. Raise an error if another file is in its place now."""
        return MosaicFile(
            open_found(file, self.filesystem),
            PROCESS_SCHEMAS,
            readahead=self.budget.readahead,
            memory_limit=self.settings.memory_limit,
            logical=self.settings.logical,
        )

    def visit(
        self, files: Iterable[FoundFile], ask: Callable[[MosaicFile], Answer], open_files: OpenFiles | None = None
    ) -> Iterator[tuple[FoundFile, Answer]]:
        """Open files, several at a time, and call `ask` with each. Files that `open_files` keeps stay open."""

        def visit(file: FoundFile) -> tuple[FoundFile, Answer]:
            opened = self.open(file)
            answer = ask(opened)
            if open_files is None or not open_files.keep(file.path, opened):
                opened.close()
            return file, answer

        files = list(files)
        is_quick = self.settings.readahead is None and not self._is_remote and len(files) <= _FEW_FILES
        # If one file fails, the others that are being opened are waited for, before the caller closes `open_files`.
        ahead = 0 if is_quick else self.budget.readahead
        with closing(started((partial(visit, file) for file in files), ahead)) as visits:
            for task in visits:
                yield task.result()

    def learn(self, files: Iterable[FoundFile], open_files: OpenFiles | None = None) -> None:
        """Find out which columns files have, unless that is known."""
        unknown = [file for file in files if file.path not in self.columns]
        for file, (columns, rows) in self.visit(unknown, lambda opened: (opened.columns, opened.num_rows), open_files):
            self.columns.setdefault(file.path, columns)
            self.counts[file.path] = rows

    def row_starts(self, open_files: OpenFiles | None = None) -> list[int]:
        """The number of the first row of each file, then of all rows. Files that were never opened are opened."""
        self.learn((file for file in self.files if file.path not in self.counts), open_files)
        return [0, *accumulate(self.counts[file.path] for file in self.files)]

    # --- columns ----------------------------------------------------------------------------------------------------

    def columns_of(self, files: Sequence[FoundFile]) -> TableColumns:
        """The columns of some files, which were learnt, and the partition columns."""
        variants: dict[ColumnMapping, str] = {}
        for file in files:
            variants.setdefault(self.columns[file.path], file.path)
        return table_columns(variants, self.partitions)

    @cached_property
    def all_columns(self) -> TableColumns:
        """The columns of all files, then the partition columns. All files are opened for it, once."""
        self.learn(self.files)
        return self.columns_of(self.files)

    def stored_partitions(self, files: Sequence[FoundFile]) -> set[str]:
        """The partition columns that files store themselves, among files that were learnt.

        The stored value counts, so the name of a directory decides nothing about these columns.
        """
        names = self.partitions.names
        known = [self.facts[file.path].stored_partitions for file in files if file.path in self.facts] if names else []
        rest = [file for file in files if file.path not in self.facts] if names else []
        variants = {self.columns[file.path] for file in rest}
        return set().union(*known, *(columns.present(names) for columns in variants))

    def __getstate__(self) -> dict[str, Any]:
        """Files are opened again where the snapshot arrives."""
        fresh: dict[str, Any] = {"columns": {}, "_dictionaries": {}}
        return {name: fresh.get(name, value) for name, value in vars(self).items() if name != "all_columns"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class OpenFiles:
    """Files that stay open between the planning of a read, which needs their columns, and the reading of their rows.

    So the bytes that were fetched to open a remote file are not fetched again. They may take half of the memory limit.
    A process may have few local files open, so only some of these stay open.
    """

    #: Local files that stay open: a quarter of the 1,024 that a process may have by default.
    _MAX_LOCAL = 256

    def __init__(self, budget: Budget) -> None:
        self._left = budget.memory_limit // 2
        self._local = 0
        self._files: dict[str, MosaicFile] = {}
        self._lock = threading.Lock()

    def keep(self, path: str, opened: MosaicFile) -> bool:
        """Keep a file open, unless that would exceed the limits. Return whether it is kept."""
        with self._lock:
            if path in self._files or opened.held_bytes > self._left:
                return False
            if not opened.held_bytes:
                if self._local == self._MAX_LOCAL:
                    return False
                self._local += 1
            self._left -= opened.held_bytes
            self._files[path] = opened
            return True

    def take(self, path: str) -> MosaicFile | None:
        return self._files.pop(path, None)

    def close(self) -> None:
        """Close the files that nobody has taken."""
        while self._files:
            self._files.popitem()[1].close()
