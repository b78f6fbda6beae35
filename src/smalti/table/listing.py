"""Listing the files of a table: directories, globs and lists of paths, local or remote, with partitions in their paths.

Names that start with a dot or an underscore are passed over: they are leftovers of writers, markers and logs. While a
commit is carried out (see `smalti.table.commits`), a listing has all of its changes or none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from smalti.errors import ConflictError, MosaicError, ReplacedError
from smalti.io import Source, open_source
from smalti.io.places import AnyFileSystem, AnyPath, Place, locate
from smalti.io.sources import LocalSource, ObjectSource
from smalti.spec import FILE_SUFFIX
from smalti.table.commit_log import PATIENCE, CommitLog
from smalti.table.commits import JOBS, Commit, Identity, State, visible_files
from smalti.table.names import Selection, is_glob, matches, rebase, tables_above
from smalti.table.paimon_layout import (
    SCHEMAS,
    is_bucket,
    listed_to_write,
    refuse_reading,
    table_of_schema_file,
)
from smalti.table.paimon_layout import tables_above as paimon_tables_above

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

#: A listing is taken again when a commit falls into it; more often than this and something else is wrong.
_MAX_LISTINGS = 100
#: `settled` finishes commits and lists again; more often than this and commits come too fast to wait for.
_MAX_SETTLINGS = 100
#: A read starts over when a file of the listing has gone: so often at least, and for so many seconds. On a local disk
#: ten reads of a small table take less than a tenth of a second, in which a busy machine may let only the writers run.
_MIN_READS = 10
_READ_PATIENCE = 10.0
#: For each table, the number of its last record and the commits that are being carried out.
_States = dict[str, State]
Result = TypeVar("Result")


@dataclass(frozen=True)
class FoundFile:
    """A file of a table, and the partition values that the directories above it spell.

    Attributes
    ----------
    path : str
        Where the file is now.
    size : int
    partition : dict
        Partition values by column, as text.
    settled : str, optional
        While a commit is carried out: where the file will be afterwards, for those who open it later.
    modified : int
        Time of modification in nanoseconds, 0 if it is not known.
    table : str, optional
        While a commit is carried out: the directory whose commit it is.
    """

    path: str
    size: int
    partition: dict[str, str | None] = field(default_factory=dict, hash=False)
    settled: str | None = None
    modified: int = 0
    table: str | None = None

    @property
    def name(self) -> str:
        """The path that the file keeps once its commit is carried out."""
        return self.settled or self.path


@dataclass(frozen=True)
class Listing:
    """The files that were found: those of a directory or glob sorted by name, those of a list in the list's order.

    Attributes
    ----------
    directory : str, optional
        The directory that was listed, if it was a single one.
    unfinished : frozenset of str
        Tables with commits under way: those that were listed as a whole, and those that have staged the files found.
    finished : tuple of Commit
        The interrupted commits that `list_files` finished first, because it was asked to.
    number : int
        The number of the last record of `directory` when it was listed: the files are those that this record left.
    """

    filesystem: FileSystem
    files: list[FoundFile]
    directory: str | None = None
    unfinished: frozenset[str] = frozenset()
    finished: tuple[Commit, ...] = ()
    number: int = 0

    @cached_property
    def base(self) -> Place:
        """The directory that `relative` starts from: the one that was listed, or what the files have in common."""
        path = self.directory
        if path is None:
            path = os.path.commonpath([str(PurePosixPath(file.name).parent) for file in self.files])
        return Place(self.filesystem, path)

    def relative(self, file: FoundFile) -> str:
        """The name of a file below `base`."""
        return str(PurePosixPath(file.name).relative_to(self.base.path))

    @property
    def identities(self) -> dict[str, Identity]:
        """Which file there is at each name below `base`."""
        return {self.relative(file): (file.size, file.modified) for file in self.files}


# --- looking for it -------------------------------------------------------------------------------------------------


def list_files(
    source: AnyPath | Place | Sequence[AnyPath | Place],
    filesystem: AnyFileSystem = None,
    suffix: str = FILE_SUFFIX,
    *,
    globs: bool = True,
    settled: bool = False,
    plain: bool = False,
) -> Listing:
    """The files below a path, a glob, or a list of them.

    Parameters
    ----------
    source : path, URI or Place, or a sequence of them
        A path that names a file is taken whatever its suffix; below a directory, or by a glob, files with `suffix` are.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
    suffix : str
    globs : bool
        An existing path is never treated as a pattern; `globs=False` turns patterns off.
    settled : bool
        Finish commits that are under way first, for callers who need files to stay where they are.
    plain : bool
        Whether the directories of Paimon tables are listed like any other, with all files that lie in them.

    Raises
    ------
    FileNotFoundError
        If a path does not exist, or a glob matches nothing.
    PaimonTableError
        If there is a Paimon table at a path, below it or above it; the path of a single file is never refused.
    """
    sources = [source] if isinstance(source, (str, os.PathLike, Place)) else list(source)
    places = [item if isinstance(item, Place) else locate(item, filesystem) for item in sources]
    if not places:
        raise FileNotFoundError("no paths given")
    for place in places:
        if not place.filesystem.equals(places[0].filesystem):
            raise ValueError(f"paths on several file systems: {place} is not on {places[0].filesystem.type_name}")
    listing = _list_places(places, suffix, globs=globs, plain=plain)
    finished: tuple[Commit, ...] = ()
    for _ in range(_MAX_SETTLINGS if settled else 0):
        if not listing.unfinished:
            break
        try:
            for table in sorted(listing.unfinished):
                finished += CommitLog(Place(listing.filesystem, table)).recover(PATIENCE)
        except OSError:
            break  # A table that is not ours to write: its files are read from where they are staged.
        listing = _list_places(places, suffix, globs=globs, plain=plain)
    return replace(listing, finished=finished)


def list_table(root: Place, suffix: str = FILE_SUFFIX) -> Listing:
    """The files of a table for those who plan a commit: none is pending, and a table that is not there has no files.

    Raises
    ------
    ConflictError
        If a commit of another job is pending and cannot be finished.
    FileExistsError
        If there is a file in the place of the table.
    PaimonTableError
        If it is a Paimon table, or lies in one.
    """
    try:
        with listed_to_write(root):
            listing = list_files(root, suffix=suffix, globs=False, settled=True)
    except FileNotFoundError:
        return Listing(root.filesystem, [], root.path)
    if listing.directory is None:
        raise FileExistsError(17, "A file, where a directory is to be written", root.path)
    if listing.unfinished:
        raise ConflictError("a commit of another job is pending and cannot be finished", path=root.path)
    return listing


def _list_places(places: Sequence[Place], suffix: str, *, globs: bool, plain: bool) -> Listing:
    found: dict[str, FoundFile] = {}
    directory: str | None = None
    number = 0
    unfinished: set[str] = set()
    for place in places:
        state, files = _find(place, suffix, globs=globs, plain=plain)
        if state is not None and len(places) == 1:
            directory, number = place.path, state.number
        tables = {_real(place)} if state is not None and state.pending else set()
        for file in sorted(files, key=lambda file: file.name):
            # Several paths may lead to the same file.
            same = os.path.realpath(file.name) if len(places) > 1 and place.is_local else file.name
            found.setdefault(same, file)
        unfinished |= tables | {file.table for file in files if file.table is not None}
    listed = list(found.values())
    if len(places) > 1 and not plain:
        _refuse_paimon(places[0].filesystem, (file.name for file in listed))
    return Listing(places[0].filesystem, listed, directory, frozenset(unfinished), number=number)


def _find(place: Place, suffix: str, *, globs: bool, plain: bool) -> tuple[State | None, list[FoundFile]]:
    """The state of a place if it is a directory, and the files found there."""
    fs, path, info = place.filesystem, place.path, place.info()
    kind = info.type.name
    if kind == "File":
        return None, [FoundFile(path, info.size, modified=info.mtime_ns or 0)]
    if kind == "NotFound" and globs and is_glob(path):
        files, _ = _settled(fs, Selection.of_glob(path, suffix), plain=plain)
        if not files:
            raise FileNotFoundError(2, "Nothing matches", path)
        return None, files
    if kind == "NotFound":
        # A table above may have committed files to this path that have not been moved there yet.
        real = _real(place)
        above = _states(fs, tables_above(str(PurePosixPath(real).parent)), {})
        if not any(state.pending for state in above.values()):
            if place.exists():  # It has been moved there meanwhile.
                return _find(place, suffix, globs=globs, plain=plain)
            raise FileNotFoundError(2, "No such file or directory", path)
        committed = _committed(fs, path, real, above)
        if committed is not None:
            return None, [committed]
    files, state = _settled(fs, Selection(str(PurePosixPath(path)), (), suffix), plain=plain)
    if kind == "NotFound" and not files:
        raise FileNotFoundError(2, "No such file or directory", path)
    return state, files


def _committed(fs: FileSystem, path: str, real: str, states: _States) -> FoundFile | None:
    """A file that was committed, and is asked for by its final name before it has been moved there."""
    for table, (_, pending) in states.items():
        for staged, final in (pair for commit in pending for pair in commit.add):
            if f"{table}/{final}" == real:
                info = fs.get_file_info(f"{table}/{staged}")
                if info.type.name == "File":
                    return FoundFile(info.path, info.size, {}, path, info.mtime_ns or 0, table)
    return None


def _real(place: Place) -> str:
    """The path that records hold; the place may have been asked for through a symbolic link."""
    return os.path.realpath(place.path) if place.is_local else str(PurePosixPath(place.path))


def _settled(fs: FileSystem, selection: Selection, *, plain: bool) -> tuple[list[FoundFile], State]:
    """The files of a selection, as if every commit were carried out in one instant; and the state of its directory."""
    real = _real(Place(fs, selection.base))
    logs: dict[str, CommitLog] = {}
    before = _states(fs, tables_above(real), logs)
    for _ in range(_MAX_LISTINGS):
        listed, tables = _list(fs, selection, plain=plain)
        files, gone = _follow(fs, selection, real, listed, before)
        after = _states(fs, {*before, *(rebase(table, selection.base, real) for table in tables)}, logs)
        if after == before and (
            selection.suffix == FILE_SUFFIX or selection.same(listed, _list(fs, selection, plain=True)[0])
        ):
            if gone:
                raise MosaicError("a committed file has gone", path=gone[0])
            if not plain:
                _refuse_paimon(fs, (file.name for file in files), selection.base)
            return files, before[real]
        before = after
    raise MosaicError("the files keep changing while they are listed", path=selection.base)


def _states(fs: FileSystem, tables: Iterable[str], logs: dict[str, CommitLog]) -> _States:
    """The states of some tables; `logs` keeps what was read, because a record never changes."""
    return {table: logs.setdefault(table, CommitLog(Place(fs, table))).state() for table in sorted(tables)}


def _refuse_paimon(fs: FileSystem, files: Iterable[str], base: str | None = None) -> None:
    """Raise if files that were found lie in a Paimon table above `base`; below it, the listing has shown the table.

    Only files in directories that are called buckets give reason to look, so plain directories cost no request.
    """
    buckets = {parent for parent in {PurePosixPath(file).parent for file in files} if is_bucket(parent.name)}
    suspects = {above for bucket in buckets for above in paimon_tables_above(str(bucket))}
    refuse_reading(fs, [path for path in suspects if base is None or not PurePosixPath(path).is_relative_to(base)])


def _list(fs: FileSystem, selection: Selection, *, plain: bool) -> tuple[dict[str, FileInfo], set[str]]:
    """The files of a selection that are on disk, and the tables on the way that have a directory of jobs.

    The same listing shows whether there is a Paimon table, which is refused unless its files are read as `plain` ones.
    """
    tables: set[str] = set()
    paimon: set[str] = set()
    level = [selection.base]
    files: dict[str, FileInfo] = {}
    for depth, wildcard in enumerate(selection.wildcards, 1):
        following = []
        for info in (info for directory in level for info in Place(fs, directory).entries()):
            name = PurePosixPath(info.path).name
            if name == SCHEMAS and info.type.name == "Directory":
                paimon.add(str(PurePosixPath(info.path).parent))
            if name == JOBS:
                tables.add(str(PurePosixPath(info.path).parent))
            elif info.type.name == "Directory" and matches(name, wildcard):
                following.append(info.path)
            elif depth == len(selection.wildcards) and info.type.name == "File":
                files[str(PurePosixPath(info.path))] = info
        level = following
    for directory in level:
        for info in Place(fs, directory).entries(recursive=True):
            if not PurePosixPath(info.path).is_relative_to(selection.base):
                raise MosaicError(
                    "the file system lists by other paths than it is asked for", path=directory, found=info.path
                )
            if f"/{JOBS}/" in info.path:
                tables.add(str(PurePosixPath(info.path.partition(f"/{JOBS}/")[0])))
            elif info.type.name == "File":
                files[str(PurePosixPath(info.path))] = info
                if f"/{SCHEMAS}/" in info.path and (table := table_of_schema_file(info.path)) is not None:
                    paimon.add(table)
    if not plain:
        refuse_reading(fs, paimon)
    return files, tables


def _follow(
    fs: FileSystem, selection: Selection, real: str, listed: dict[str, FileInfo], states: _States
) -> tuple[list[FoundFile], list[str]]:
    """Apply pending commits to what was listed. Return the visible files, and the names found in neither place."""
    commits, table_of = [], {}
    for table, (_, pending) in states.items():
        for commit in pending:
            add = tuple(
                (f"{table}/{staged}", rebase(f"{table}/{final}", real, selection.base)) for staged, final in commit.add
            )
            table_of.update({staged: table for staged, _ in add})
            remove = tuple(rebase(f"{table}/{path}", real, selection.base) for path in commit.remove)
            commits.append(Commit(commit.job, add, remove))
    chosen = {
        name: (path, partition)
        for name, path in visible_files(listed, commits).items()
        if (partition := selection.partition(name)) is not None
    }
    staged = [(name, path) for name, (path, _) in chosen.items() if name != path]
    waiting = {
        name: info
        for (name, _), info in zip(staged, fs.get_file_info([path for _, path in staged]), strict=True)
        if info.type.name == "File"
    }
    moved = [name for name, _ in staged if name not in waiting]
    arrived = dict(zip(moved, fs.get_file_info(moved), strict=True))
    files = []
    for name, (path, partition) in chosen.items():
        info = waiting.get(name) or arrived.get(name) or listed[name]
        file = FoundFile(info.path, info.size, partition, modified=info.mtime_ns or 0)
        files.append(replace(file, settled=name, table=table_of[path]) if name in waiting else file)
    return files, [name for name, info in arrived.items() if info.type.name != "File"]


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


def stream_again(read: Callable[[], Iterator[Result]], list_again: Callable[[], object]) -> Iterator[Result]:
    """The same for a read in parts, which can start over only as long as no part of it was delivered."""

    def begin() -> tuple[list[Result], Iterator[Result]]:
        parts = read()
        return list(islice(parts, 1)), parts

    first, rest = read_again(begin, list_again)
    while first:
        yield first.pop()
    yield from rest


def open_found(file: FoundFile, filesystem: FileSystem) -> Source:
    """Open a file where it is, or where it has been moved to since it was found.

    Raises
    ------
    ReplacedError
        If another file has taken its place, because its rows may not belong to the table that was listed.
    """
    is_moved = False
    try:
        source = open_source(file.path, filesystem)
    except FileNotFoundError:
        if file.settled is None:
            raise
        source = open_source(file.settled, filesystem)
        is_moved = True
    if source.size != file.size or _is_newer(source, file.modified, is_moved=is_moved):
        source.close()
        raise ReplacedError("the file was replaced after the table was listed; list it again", path=file.name)
    return source


def _is_newer(source: Source, modified: int, *, is_moved: bool) -> bool:
    """Whether another file than the one listed was opened, by the time of modification in the listing."""
    if isinstance(source, LocalSource):
        return bool(modified) and source.modified != modified
    # A store gives objects that it moves another time, and may tell times in seconds in one place and finer in another.
    if not isinstance(source, ObjectSource) or is_moved or not modified or not source.modified:
        return False
    return source.modified - modified // 10**9 > 1
