"""Listing the files of a table: directories, globs and lists of paths, local or remote, with partitions in their paths.

Names that start with a dot or an underscore are passed over: they are leftovers of writers, markers and logs. While a
commit is carried out (see `smalti.table.records`), a listing has all of its changes or none. Listing and reading never
move or delete anything; only writers finish commits.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from smalti.errors import MosaicError, NoMosaicFilesError, RemovedError, ReplacedError
from smalti.io import Source, open_source
from smalti.io.locations import AnyPath, Entry, Location, locate
from smalti.spec import FILE_SUFFIX
from smalti.table.log import CommitLog, file_id
from smalti.table.names import JOBS, KEPT, Selection, is_glob, is_ours, matches, parse_partition, rebase, tables_above
from smalti.table.paimon_layout import (
    SCHEMAS,
    is_bucket,
    listed_to_write,
    paimon_tables_above,
    refuse_reading,
)
from smalti.table.records import Addition, Checkpoint, Commit, FileId, Hidden, State, visible_files

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: How often a listing is repeated because a commit fell into it. If that is not enough, something else is wrong.
_MAX_LISTINGS = 100
#: A read starts over when a file of the listing has gone, until it was tried this often and for this many seconds. On a
#: local disk ten reads of a small table take less than 0.1 s, in which a busy machine may run nothing but writers.
_MIN_READS = 10
_READ_PATIENCE = 10.0
#: Which of several directories may hold wanted rows, by the partition values that their paths spell.
Prune = Callable[[Sequence[Mapping[str, "str | None"]]], list[bool]]
#: For each table, what its records say.
_States = dict[str, State]
Result = TypeVar("Result")


@dataclass(frozen=True)
class FoundFile:
    """A file of a table, and the partition values that the directories above it spell."""

    #: Where the file is now.
    path: str
    size: int
    #: Partition values by column, as text.
    partition: dict[str, str | None] = field(default_factory=dict, hash=False)
    #: While a commit is carried out, the path that the file is moved to, where a later read finds it.
    final: str | None = None
    #: Time of modification in nanoseconds, 0 if it is not known.
    modified: int = 0
    #: The ETag of an object, empty if it is not known.
    etag: str = ""
    #: The directory that was listed.
    table: str | None = None

    @property
    def name(self) -> str:
        """The path that the file keeps once its commit is carried out."""
        return self.final or self.path

    @property
    def id(self) -> FileId:
        """Tells the file from another one of its name. Of a file that is still to be moved, only the size counts."""
        return FileId(self.size) if self.final else FileId.of(self.size, self.etag, self.modified)


@dataclass(frozen=True)
class Listing:
    """The files that were found: those of a directory or glob sorted by name, those of a list in the list's order."""

    filesystem: FileSystem
    files: list[FoundFile]
    #: The directory that was listed, if it was a single one.
    directory: str | None = None
    #: Tables with commits under way.
    pending: frozenset[str] = frozenset()
    #: The interrupted commits that `list_table` has finished first.
    finished: tuple[Commit, ...] = ()
    #: What the records of `directory` said when it was listed.
    state: State = field(default_factory=State)
    #: Files that are there although they were removed, by their names below `directory`.
    leftovers: dict[str, FileId] = field(default_factory=dict)
    #: The partition values, by column, of directories that were not listed, because a filter rules them out.
    ruled_out: Mapping[str, Set[str | None]] = field(default_factory=dict)
    #: Tables whose rows a job has put into other files, each with the number of the last commit that did so.
    rewritten: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def base(self) -> Location:
        """The directory that `relative` starts from: the one that was listed, or what the files have in common."""
        path = self.directory
        if path is None:
            path = os.path.commonpath([str(PurePosixPath(file.name).parent) for file in self.files])
        return Location(self.filesystem, path)

    def relative(self, file: FoundFile) -> str:
        """The name of a file below `base`."""
        return str(PurePosixPath(file.name).relative_to(self.base.path))

    @cached_property
    def ids(self) -> dict[str, FileId]:
        """Which file there is at each name below `base`."""
        return {self.relative(file): file.id for file in self.files}


def list_files(
    source: AnyPath | Location | Sequence[AnyPath | Location],
    suffix: str = FILE_SUFFIX,
    *,
    globs: bool = True,
    plain: bool = False,
    prune: Prune | None = None,
) -> Listing:
    """The files below a path, a glob, or a list of them. A file is listed as often as the paths of a list lead to it.

    A path that names a file is taken whatever its suffix; below a directory, or by a glob, files with `suffix` are. An
    existing path is never treated as a pattern; `globs=False` turns patterns off. With `plain`, the directories of
    Paimon tables are listed like any other, with all files that lie in them. `prune` tells which directories may hold
    wanted rows, by the partition values in their paths; the others are not listed.

    Raises
    ------
    FileNotFoundError
        If a path does not exist, or a glob matches nothing.
    PaimonTableError
        If there is a Paimon table at a path, below it or above it; the path of a single file is never refused.
    """
    sources = [source] if isinstance(source, (str, os.PathLike, Location)) else list(source)
    locations = [item if isinstance(item, Location) else locate(item) for item in sources]
    if not locations:
        raise FileNotFoundError("no paths given")
    for location in locations:
        if not location.filesystem.equals(locations[0].filesystem):
            raise ValueError(f"paths on several file systems: {location} is not on {locations[0].filesystem.type_name}")
    found = [_find(location, suffix, globs=globs, plain=plain, prune=prune) for location in locations]
    if len(found) == 1:
        return found[0]
    files = [file for listing in found for file in listing.files]
    if not plain:
        _refuse_paimon(locations[0].filesystem, files)
    ruled_out: dict[str, set[str | None]] = {}
    for listing in found:
        for name, values in listing.ruled_out.items():
            ruled_out.setdefault(name, set()).update(values)
    pending = frozenset().union(*(listing.pending for listing in found))
    rewritten = {table: number for listing in found for table, number in listing.rewritten.items()}
    return Listing(locations[0].filesystem, files, pending=pending, ruled_out=ruled_out, rewritten=rewritten)


def list_table(root: Location, suffix: str = FILE_SUFFIX) -> Listing:
    """List a table for a job that plans a commit: pending commits are finished first, and a missing table has no files.

    Raises
    ------
    ConflictError
        If a commit of another job is pending and cannot be finished.
    FileExistsError
        If there is a file in the place of the table.
    PaimonTableError
        If it is a Paimon table, or lies in one.
    """
    finished: tuple[Commit, ...] = ()
    for _ in range(_MAX_LISTINGS):
        try:
            with listed_to_write(root):
                listing = list_files(root, suffix=suffix, globs=False)
        except FileNotFoundError as error:
            if error.filename != root.path:  # A link in the table leads to nothing.
                raise
            return Listing(root.filesystem, [], root.path, finished=finished, state=CommitLog(root).finish_pending()[0])
        if listing.directory is None:
            raise FileExistsError(17, "A file, where a directory is to be written", root.path)
        if not listing.pending:
            return replace(listing, finished=finished)
        for table in sorted(listing.pending):  # This table, tables within it, and the table above a partition.
            finished += CommitLog(Location(root.filesystem, table)).finish_pending()[1]
    raise MosaicError("the files keep changing while they are listed", path=root.path)


def _find(location: Location, suffix: str, *, globs: bool, plain: bool, prune: Prune | None = None) -> Listing:
    """The files of one path or glob."""
    fs, path, info = location.filesystem, location.path, location.info()
    if info.is_file:
        return Listing(fs, [FoundFile(path, info.size, modified=info.modified, etag=info.etag)])
    if info.kind == "NotFound" and globs and is_glob(path):
        listing = _Walk(fs, Selection.of_glob(path, suffix), plain=plain, prune=prune).listing()
        if not listing.files and not listing.ruled_out:
            raise FileNotFoundError(2, "Nothing matches", path)
        return replace(listing, directory=None)
    if info.kind == "NotFound":
        # A table above may have committed files to this path that have not been moved there yet.
        real = _real(location)
        has_parent = location.stores is None or "/" in real.strip("/")  # Above a bucket there is nothing to ask.
        above = _states(fs, tables_above(str(PurePosixPath(real).parent)) if has_parent else (), {})
        if not any(state.pending for state in above.values()):
            if location.exists():  # It has been moved there meanwhile.
                return _find(location, suffix, globs=globs, plain=plain, prune=prune)
            raise FileNotFoundError(2, "No such file or directory", path)
        committed = _find_committed(fs, path, real, above)
        if committed is not None:
            return committed
    listing = _Walk(fs, Selection(str(PurePosixPath(path)), (), suffix), plain=plain, prune=prune).listing()
    if info.kind == "NotFound" and not listing.files:
        raise FileNotFoundError(2, "No such file or directory", path)
    return listing


def _find_committed(fs: FileSystem, path: str, real: str, states: _States) -> Listing | None:
    """A file that was committed, and is asked for by its final name before it has been moved there."""
    for table, state in states.items():
        for staged, final, _ in (addition for commit in state.pending for addition in commit.add):
            if f"{table}/{final}" == real and (info := Location(fs, f"{table}/{staged}").info()).is_file:
                file = FoundFile(info.path, info.size, {}, path, info.modified, info.etag)
                return Listing(fs, [file], pending=frozenset({table}))
    return None


def _real(location: Location) -> str:
    """The path without symbolic links, as records hold it."""
    return os.path.realpath(location.path) if location.is_local else str(PurePosixPath(location.path))


def _states(fs: FileSystem, tables: Iterable[str], logs: dict[str, CommitLog]) -> _States:
    """The states of some tables; `logs` keeps what was read, because a record never changes."""
    return {table: logs.setdefault(table, CommitLog(Location(fs, table))).state() for table in sorted(tables)}


def _refuse_paimon(fs: FileSystem, files: Iterable[FoundFile], base: str | None = None) -> None:
    """Raise if files that were found lie in a Paimon table above `base`; below it, the listing has shown the table.

    Only files in directories that are called buckets give reason to look, so plain directories cost no request.
    """
    parents = {file.name.rpartition("/")[0] for file in files}
    buckets = {parent for parent in map(PurePosixPath, parents) if is_bucket(parent.name)}
    suspects = {above for bucket in buckets for above in paimon_tables_above(str(bucket))}
    refuse_reading(fs, [path for path in suspects if base is None or not PurePosixPath(path).is_relative_to(base)])


class _Walk:
    """Lists the files of a selection, as if every commit were carried out in one instant."""

    def __init__(self, fs: FileSystem, selection: Selection, *, plain: bool, prune: Prune | None) -> None:
        self._fs, self._selection, self._plain, self._prune = fs, selection, plain, prune
        self._base = selection.base
        self._real = _real(Location(fs, selection.base))
        #: Directories that were ruled out while they were listed, and their partition values.
        self._passed_over: set[str] = set()
        self._ruled_out: dict[str, set[str | None]] = {}

    def listing(self) -> Listing:
        selection, logs = self._selection, dict[str, CommitLog]()
        before = _states(self._fs, tables_above(self._real), logs)
        for _ in range(_MAX_LISTINGS):
            listed, tables = self._entries()
            listing = self._apply_records(listed, before)
            after = _states(self._fs, {*before, *(rebase(each, self._base, self._real) for each in tables)}, logs)
            if after == before and (
                selection.suffix == FILE_SUFFIX or selection.chosen(listed) == selection.chosen(self._entries()[0])
            ):
                gone = [file.name for file in listing.files if file.size < 0]
                if gone:
                    raise MosaicError("a committed file has gone", path=gone[0])
                if not self._plain:
                    _refuse_paimon(self._fs, listing.files, self._base)
                return listing
            before = after
        raise MosaicError("the files keep changing while they are listed", path=self._base)

    def _entries(self) -> tuple[dict[str, Entry], set[str]]:
        """The files on disk that may be selected, staged ones included, and the tables that have a directory of jobs.

        The same listing shows whether there is a Paimon table, which is refused unless it is read as plain files.
        """
        found: list[Entry] = []
        level = [self._base]
        for wildcard in takewhile(lambda wildcard: wildcard != "**", self._selection.wildcards):
            entries = [entry for directory in level for entry in Location(self._fs, directory).entries()]
            found += entries
            below = [entry for entry in entries if entry.is_directory and entry.name != JOBS]
            level = [entry.path for entry in below if matches(entry.name, wildcard)]
        for location in (Location(self._fs, directory) for directory in level):
            is_whole = self._prune is None
            found += location.entries(recursive=True) if is_whole else location.entries_of_some(self._choose)
        tables, paimon, files = set[str](), set[str](), dict[str, Entry]()
        for entry in found:
            path = str(PurePosixPath(entry.path))
            if not path.startswith(f"{self._base}/") and not PurePosixPath(path).is_relative_to(self._base):
                reason = "the file system lists by other paths than it is asked for"
                raise MosaicError(reason, path=self._base, found=entry.path)
            table, is_in_jobs, _ = f"{path}/".partition(f"/{JOBS}/")
            if is_in_jobs:
                tables.add(table)
            if entry.is_directory and entry.name == SCHEMAS:
                paimon.add(str(PurePosixPath(path).parent))
            elif not entry.is_directory:
                files[path] = entry
                if entry.kind == "NotFound" and self._selection.partition(path) is not None:
                    raise FileNotFoundError(2, "A symbolic link leads to nothing", path)
        if not self._plain:
            refuse_reading(self._fs, paimon)
        return {path: entry for path, entry in files.items() if entry.is_file}, tables

    def _choose(self, directories: Sequence[str]) -> Sequence[bool]:
        """Which of the directories are listed. That of the jobs is not: what is staged there is listed when needed."""
        assert self._prune is not None
        parts = [PurePosixPath(path).relative_to(self._base).parts for path in directories]
        may_match = self._prune([parse_partition(path) for path in parts])
        for path, levels, is_wanted in zip(directories, parts, may_match, strict=True):
            if not is_wanted:
                self._passed_over.add(path)
                for name, value in parse_partition(levels[-1:]).items():
                    self._ruled_out.setdefault(name, set()).add(value)
        return [is_wanted and levels[-1] != JOBS for levels, is_wanted in zip(parts, may_match, strict=True)]

    def _apply_records(self, listed: dict[str, Entry], states: _States) -> Listing:
        """Apply the records of pending commits to what was listed.

        A file that is found neither at its staged path nor at its final one has the size -1.
        """
        pending, checkpoint = self._as_listed(states)
        ids = {path: file_id(entry) for path, entry in listed.items()}
        visible = visible_files(ids, pending, checkpoint)
        chosen = {name: partition for name in visible if (partition := self._selection.partition(name)) is not None}
        if self._passed_over:  # A pending commit may add files there.
            parents = {name: map(str, PurePosixPath(name).parents) for name in chosen}
            chosen = {name: each for name, each in chosen.items() if self._passed_over.isdisjoint(parents[name])}
        # A listing of the whole table has shown what is staged. For others, one listing of each job shows it.
        staged = {addition.staged for name in chosen if (addition := visible[name]) is not None}
        for job in sorted(set(map(_job_directory, staged - listed.keys()))):
            listed |= {entry.path: entry for entry in Location(self._fs, job).entries(recursive=True) if entry.is_file}
        files = []
        for name, partition in chosen.items():
            addition = visible[name]
            entry = (addition and listed.get(addition.staged)) or listed.get(name)
            if entry is None:  # It was moved while it was listed.
                entry = Location(self._fs, name).info()
                entry = entry if entry.is_file else Entry(name, "NotFound", -1)
            final = name if addition is not None and entry.path == addition.staged else None
            files.append(FoundFile(entry.path, entry.size, partition, final, entry.modified, entry.etag, self._base))
        hidden = {path: found for path, found in ids.items() if path not in visible and checkpoint.hides(path, found)}
        return Listing(
            self._fs,
            sorted(files, key=lambda file: file.name),
            self._base,
            frozenset(table for table, state in states.items() if state.pending),
            state=states[self._real],
            leftovers={rebase(path, self._base, "."): found for path, found in hidden.items()},
            ruled_out=self._ruled_out,
            rewritten={table: state.rewritten for table, state in states.items() if state.rewritten},
        )

    def _as_listed(self, states: _States) -> tuple[list[Commit], Checkpoint]:
        """The pending commits and hidden files of tables, with paths as the listing has them.

        Records have paths relative to their table. The table may lie below the listed directory, or above it, and this
        directory may be a symbolic link.
        """
        pending: list[Commit] = []
        hidden: dict[str, Hidden] = {}
        for table, state in states.items():
            start, is_inside = rebase(table, self._real, self._base), PurePosixPath(table).is_relative_to(self._real)

            def listed(path: str, start: str = start, is_inside: bool = is_inside) -> str:
                return f"{start}/{path}" if is_inside else rebase(f"{start}/{path}", self._real, self._base)

            hidden |= {listed(path): each for path, each in state.checkpoint.hidden.items()}
            for commit in state.pending:
                add = tuple(Addition(listed(staged), listed(final), size) for staged, final, size in commit.add)
                remove = tuple(each._replace(path=listed(each.path)) for each in commit.remove)
                pending.append(Commit(commit.job, add, remove))
        return pending, Checkpoint(hidden)


def _job_directory(staged: str) -> str:
    table, jobs, below = staged.partition(f"/{JOBS}/")
    return f"{table}{jobs}{below.partition('/')[0]}"


def no_files_error(locations: Sequence[Location], wanted: str = f"*{FILE_SUFFIX} files") -> NoMosaicFilesError:
    """Return the error of directories without files that are `wanted`; it says what they hold instead."""
    found: Counter[str] = Counter()
    for location in locations:
        files = (entry.path for entry in location.entries(recursive=True) if entry.is_file)
        found.update(PurePosixPath(name).suffix for name in sorted(Selection(location.path, (), "").chosen(files)))
    holds = ", ".join(f"{count:,} {suffix or 'without a suffix'}" for suffix, count in found.most_common())
    where = ", ".join(repr(location.path) for location in locations[:3]) + (", …" if len(locations) > 3 else "")
    return NoMosaicFilesError(f"no {wanted} in {where} ({holds or 'no files at all'})")


def read_again(read: Callable[[], Result], list_again: Callable[[], object]) -> Result:
    """Read a table; when a file has gone or was replaced since it was listed, list the table again and start over."""
    reads, end = 0, time.monotonic() + _READ_PATIENCE
    while True:
        reads += 1
        try:
            return read()
        except (FileNotFoundError, ReplacedError):
            if reads >= _MIN_READS and time.monotonic() >= end:
                raise
            list_again()


def open_found(file: FoundFile, filesystem: FileSystem) -> Source:
    """Open a file where it is, or where it has been moved to since it was found, or where it is kept.

    Raise `ReplacedError` if another file has taken its place, whose rows may not belong to the table that was listed.
    """
    for path in filter(None, (file.path, file.final)):
        try:
            source = open_source(path, filesystem)
        except FileNotFoundError:
            continue
        if source.size != file.size or _is_other(source, file, is_moved=path != file.path):
            source.close()
            raise ReplacedError("the file was replaced after the table was listed; list it again", path=file.name)
        return source
    return open_source(kept_location(file, filesystem).path, filesystem)


def kept_location(file: FoundFile, filesystem: FileSystem) -> Location:
    """Where a file is that was removed from its table and is kept. Raise `RemovedError` if it is not kept."""
    for location in (Location(filesystem, path) for path in _kept_paths(file, filesystem)):
        # Only one file ever gets a name that smalti has made. Another name may have been kept several times.
        found = file_id(location.info())
        if found.size == file.size and (is_ours(file.name) or not file.id.is_other(found)):
            return location
    if file.table is None:
        raise FileNotFoundError(2, "No such file or directory", file.name)
    raise RemovedError(
        "the file was removed after the table was listed, as by a job that overwrites or compacts it; read the table "
        "again, or let such jobs keep removed files for a while (keep=)",
        path=file.name,
    )


def location_of(file: FoundFile, filesystem: FileSystem) -> Location:
    """Where a file is now, for readers of other formats: it may have been moved since it was found."""
    location = Location(filesystem, file.path)
    return location if file.final is None or location.is_file() else Location(filesystem, file.final)


def _kept_paths(file: FoundFile, filesystem: FileSystem) -> Iterator[str]:
    """Where a file may be kept that was removed from its table."""
    directories = [] if file.table is None else [file.table, *tables_above(str(PurePosixPath(file.name).parent))]
    for table in dict.fromkeys(each for directory in directories for each in tables_above(directory)):
        for entry in reversed(Location(filesystem, f"{table}/{JOBS}/{KEPT}").entries()):
            yield rebase(file.name, table, entry.path)


def _is_other(source: Source, file: FoundFile, *, is_moved: bool) -> bool:
    """Whether another file than the one listed was opened, by ETag or time of modification."""
    is_timed = bool(file.modified and source.modified)
    if not source.is_remote:
        return is_timed and source.modified != file.modified
    # A store gives objects that it moves, perhaps twice, other times and ETags; a name of ours is of one file only.
    if is_moved or is_ours(file.name):
        return False
    if file.etag and source.etag:
        return source.etag != file.etag
    # A store may tell times in seconds in one answer and finer in another.
    return is_timed and source.modified // 10**9 - file.modified // 10**9 > 1
