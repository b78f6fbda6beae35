"""One state of a table: the files that a listing has found, and what has been learnt of them since.

A snapshot never gets other files; a table that has changed has another snapshot. What a file tells when it is opened
is kept here, so that no other read opens the file for that. A file does not change either, so several threads may learn
and read at the same time: at worst two of them open the same file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from smalti.file.reader import MosaicFile
from smalti.io.locations import is_local
from smalti.logical.mapping import ColumnMapping, SharedSchemas
from smalti.logical.widen import unify_schemas
from smalti.readahead import Budget, started
from smalti.table.listing import FoundFile, Listing, open_found
from smalti.table.partitions import partition_schema, with_partitions

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Answer = TypeVar("Answer")
#: Unions of schemas that a snapshot keeps: those of the queries that are asked again and again.
_MAX_UNIONS = 16


@dataclass(frozen=True)
class ReadSettings:
    """How the files of a table are read: see the parameters of `smalti.dataset`."""

    is_partitioned: bool = True
    readahead: int | None = None
    memory_limit: int | None = None
    logical: bool = True


@dataclass(frozen=True)
class Snapshot:
    """The files of a table, in the order in which they are read.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    files : sequence of FoundFile
    partitions : pyarrow.Schema
        The columns that the names of directories spell.
    is_whole : bool
        False if a listing has left out directories that a filter ruled out.
    columns : dict of str to ColumnMapping
        The columns of the files that were opened so far, by path. Files with equal columns share the object.
    """

    filesystem: FileSystem
    files: Sequence[FoundFile]
    partitions: pa.Schema
    settings: ReadSettings = ReadSettings()
    is_whole: bool = True
    columns: dict[str, ColumnMapping] = field(default_factory=dict)
    _schemas: SharedSchemas = field(default_factory=SharedSchemas)
    _unions: dict[Any, pa.Schema] = field(default_factory=dict)

    @classmethod
    def of(cls, listing: Listing, settings: ReadSettings) -> Snapshot:
        files, also = listing.files, listing.ruled_out
        partitions = partition_schema(files, also=also) if settings.is_partitioned else pa.schema([])
        return cls(listing.filesystem, files, partitions, settings, is_whole=not also)

    @cached_property
    def budget(self) -> Budget:
        """How far files are opened and row groups are read ahead."""
        return Budget.choose(
            self.settings.readahead,
            self.settings.memory_limit,
            is_remote=not is_local(self.filesystem),
            unit_bytes=sum(file.size for file in self.files) // max(1, len(self.files)),
        )

    # --- opening ----------------------------------------------------------------------------------------------------

    def open(self, file: FoundFile) -> MosaicFile:
        """Open a file of the snapshot. Raise an error if another file is in its place now."""
        return MosaicFile(
            open_found(file, self.filesystem),
            self._schemas,
            readahead=self.budget.readahead,
            memory_limit=self.settings.memory_limit,
            logical=self.settings.logical,
        )

    def visit(
        self, files: Iterable[FoundFile], ask: Callable[[MosaicFile], Answer], kept: OpenFiles | None = None
    ) -> Iterator[tuple[FoundFile, Answer]]:
        """Open files, several at a time, and ask each something. Files that `kept` has room for stay open."""

        def visit(file: FoundFile) -> tuple[FoundFile, Answer]:
            opened = self.open(file)
            answer = ask(opened)
            if kept is None or not kept.keep(file.path, opened):
                opened.close()
            return file, answer

        visits = started((partial(visit, file) for file in files), self.budget.readahead)
        return (future.result() for future in visits)

    def learn(self, files: Iterable[FoundFile], kept: OpenFiles | None = None) -> None:
        """Find out which columns files have, unless that is known."""
        unknown = [file for file in files if file.path not in self.columns]
        for file, columns in self.visit(unknown, lambda opened: opened.columns, kept):
            self.columns[file.path] = columns

    # --- columns ----------------------------------------------------------------------------------------------------

    def union(self, files: Sequence[FoundFile], names: Sequence[str] | None = None) -> pa.Schema:
        """The columns of some files, which were learnt, and the partition columns; or those among `names`.

        A path below a struct that files lack, or that leads to a field they lack, is left out.
        """
        variants: dict[ColumnMapping, str] = {}
        for file in files:
            variants.setdefault(self.columns[file.path], file.path)
        key = (tuple(map(id, variants)), None if names is None else tuple(names))
        if key not in self._unions:
            schemas = (
                (path, columns.schema if names is None else columns.project(nearest(columns, names)).schema)
                for columns, path in variants.items()
            )
            if len(self._unions) >= _MAX_UNIONS:
                self._unions.clear()
            self._unions[key] = with_partitions(unify_schemas(schemas), self.partitions)
        return self._unions[key]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all files, then the partition columns. All files are opened for it, once."""
        self.learn(self.files)
        return self.union(self.files)

    def stored_partitions(self, files: Iterable[FoundFile]) -> set[str]:
        """The partition columns that files store themselves, among files that were learnt.

        The stored value counts, so the name of a directory decides nothing about these columns.
        """
        names = self.partitions.names
        variants = {self.columns[file.path] for file in files} if names else set()
        return {name for columns in variants for name in columns.present(names)}

    def __getstate__(self) -> dict[str, Any]:
        """Files are opened again where the snapshot arrives."""
        fresh = {"columns": {}, "_schemas": SharedSchemas(), "_unions": {}}
        return {name: fresh.get(name, value) for name, value in vars(self).items() if name != "schema"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class OpenFiles:
    """Files that stay open between the look at their columns and the reading of their rows.

    What opening a remote file has fetched need not be fetched again then. Half of the memory limit is spent on that. A
    process may have few local files open, so only some of those stay open.
    """

    #: Local files that stay open: many fewer than the 1,024 that a process may have by default.
    _MAX_LOCAL = 64

    def __init__(self, budget: Budget) -> None:
        self._left = budget.memory_limit // 2
        self._local = 0
        self._files: dict[str, MosaicFile] = {}
        self._lock = threading.Lock()

    def keep(self, path: str, opened: MosaicFile) -> bool:
        """Keep a file open if there is room for it."""
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
