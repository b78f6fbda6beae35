"""Finding the files of a dataset: directories, globs and lists of paths, local or remote, with hive-style partitions.

Names that start with a dot or an underscore are passed over: leftovers of writers, markers, logs. Where a commit is
being carried out (see `smalti.table.commits`), its files are listed all or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from smalti.errors import MosaicError, SchemaError
from smalti.io import Source, is_local, open_source
from smalti.io.places import Place, list_directory, locate
from smalti.io.sources import LocalSource, resolve
from smalti.spec import FILE_SUFFIX
from smalti.table.commit_log import CommitLog
from smalti.table.commits import JOBS, Commit, visible_files
from smalti.table.partitions import parse_partition

#: A listing is taken again when a commit falls into it; more often than this and something else is wrong.
_MAX_LISTINGS = 100
#: Commits are finished, found anew and finished again; more often than this and they come too fast to wait for.
_MAX_SETTLINGS = 10
_WILDCARDS = "*?["


@dataclass(frozen=True)
class FoundFile:
    """A file, and what the directories above it say about its rows, as text.

    `path` is where it is now. While a commit is carried out, `settled` is where it will be, for those who come to open
    it later than that, and `table` the directory whose commit it is. `modified` is in nanoseconds, 0 if not known.
    """

    path: str
    size: int
    partition: dict[str, str | None] = field(default_factory=dict)
    settled: str | None = None
    modified: int = 0
    table: str | None = None

    @property
    def name(self) -> str:
        """The path it keeps."""
        return self.settled or self.path


# --- what is asked for, purely --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """What a path stands for: all below a directory, or what matches `wildcards`, one for each component below `base`.

    `*`, `?` and `[...]` match within a component; a directory that matches stands for all below it.
    """

    base: str
    wildcards: tuple[str, ...]
    suffix: str

    @classmethod
    def of_glob(cls, path: str, suffix: str) -> Selection:
        """
        Examples
        --------
        >>> Selection.of_glob("data/day=*/part-?.mosaic", ".mosaic")
        Selection(base='data', wildcards=('day=*', 'part-?.mosaic'), suffix='.mosaic')
        """
        parts = PurePosixPath(path).parts
        fixed = 0
        while fixed < len(parts) and not is_glob(parts[fixed]):
            fixed += 1
        return cls(str(PurePosixPath(*parts[:fixed])), parts[fixed:], suffix)

    def partition(self, path: str) -> dict[str, str | None] | None:
        """The partition of a file, or None if it is not asked for.

        Examples
        --------
        >>> Selection("data", (), ".mosaic").partition("data/day=3/part-0.mosaic")
        {'day': '3'}
        >>> Selection("data", ("day=4",), ".mosaic").partition("data/day=3/part-0.mosaic")
        """
        try:
            parts = PurePosixPath(path).relative_to(self.base).parts
        except ValueError:
            return None
        depth = len(self.wildcards)
        if len(parts) < max(1, depth) or not path.endswith(self.suffix) or not _visible(parts[depth:]):
            return None
        if not all(map(matches, parts, self.wildcards)):
            return None
        return parse_partition(parts[:-1])

    def same(self, listed: Iterable[str], again: Iterable[str]) -> bool:
        """Whether two listings have the same files, of those that are asked for."""
        first, second = ({path for path in paths if self.partition(path) is not None} for paths in (listed, again))
        return first == second


def is_glob(path: str) -> bool:
    return any(character in path for character in _WILDCARDS)


def matches(name: str, wildcard: str) -> bool:
    """Whether a component matches; hidden names must be asked for by their first character."""
    return fnmatchcase(name, wildcard) and (_visible([name]) or wildcard[0] in "._")


def _visible(parts: Sequence[str]) -> bool:
    """`_x=1` is a partition, `_temporary` is not for us."""
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def tables_above(path: str) -> list[str]:
    """The directories whose commits may concern a directory: itself, and of a partition the table it is part of.

    Examples
    --------
    >>> tables_above("lake/sales/day=3/hour=7"), tables_above("lake/sales")
    (['lake/sales/day=3/hour=7', 'lake/sales/day=3', 'lake/sales'], ['lake/sales'])
    """
    place = PurePosixPath(path)
    found = [str(place)]
    while "=" in place.name:
        place = place.parent
        found.append(str(place))
    return found


def rebase(path: str, old: str, new: str) -> str:
    """A path below `old`, said as below `new`; another stays as it is.

    Examples
    --------
    >>> rebase("/data/t/day=1/a", "/data/t", "t"), rebase("/data/u/a", "/data/t", "t")
    ('t/day=1/a', '/data/u/a')
    """
    place = PurePosixPath(path)
    return str(PurePosixPath(new, place.relative_to(old))) if place.is_relative_to(old) else str(place)


# --- looking for it -------------------------------------------------------------------------------------------------


def discover(
    source: Any, filesystem: Any = None, suffix: str = FILE_SUFFIX, *, globs: bool = True
) -> tuple[Any, list[FoundFile]]:
    """The files below a path, a glob, or a list of them, sorted by name, and the file system they are on.

    A file that is named is taken whatever its suffix; below a directory, or by a glob, only those with `suffix`. What
    exists is taken by its name, wildcards or not; without `globs`, so is what does not.

    Raises
    ------
    FileNotFoundError
        If a path does not exist, or a glob matches nothing.
    """
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not sources:
        raise FileNotFoundError("no paths given")
    found: dict[str, FoundFile] = {}
    shared: Any = None
    for item in sources:
        fs, path = _locate(os.fspath(item), filesystem)
        if shared is None:
            shared = fs
        elif not shared.equals(fs):
            raise ValueError(f"paths on several file systems: {os.fspath(item)} is not on {shared.type_name}")
        for file in _find(fs, path, suffix, globs=globs):
            # Several paths may lead to one file.
            found.setdefault(os.path.realpath(file.name) if len(sources) > 1 and is_local(fs) else file.name, file)
    return shared, sorted(found.values(), key=lambda file: file.name)


def discover_settled(
    source: Any, filesystem: Any = None, suffix: str = FILE_SUFFIX, *, globs: bool = True
) -> tuple[Any, list[FoundFile]]:
    """The same for those who need files to stay where they are: commits under way are finished first."""
    fs, found = discover(source, filesystem, suffix, globs=globs)
    for _ in range(_MAX_SETTLINGS):
        tables = {file.table for file in found if file.table is not None}
        if not tables:
            break
        try:
            for table in sorted(tables):
                CommitLog(fs, table).recover()
        except OSError:  # it may not be ours to write: then by somebody else, and files are found where they are staged
            break
        fs, found = discover(source, filesystem, suffix, globs=globs)
    return fs, found


def _locate(path: str, filesystem: Any) -> tuple[Any, str]:
    import pyarrow.fs

    if filesystem is None and "://" not in path:
        if path.startswith("file:"):  # how Spark writes local paths
            path = path[len("file:") :]
        return pyarrow.fs.LocalFileSystem(), path
    return resolve(path, filesystem)


def _find(fs: Any, path: str, suffix: str, *, globs: bool) -> list[FoundFile]:
    info = fs.get_file_info(path)
    if info.type.name == "File":
        return [FoundFile(path, info.size, modified=info.mtime_ns or 0)]
    if info.type.name == "NotFound" and globs and is_glob(path):
        files = _settled(fs, Selection.of_glob(path, suffix))
        if not files:
            raise FileNotFoundError(2, "Nothing matches", path)
        return files
    files = _settled(fs, Selection(str(PurePosixPath(path)), (), suffix))
    if not files and info.type.name == "NotFound":
        committed = _committed(fs, path)
        if committed is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return [committed]
    return files


def _committed(fs: Any, path: str) -> FoundFile | None:
    """A file that was committed and is asked for by its name before it got there."""
    real = os.path.realpath(path) if is_local(fs) else path
    for table, (_, pending) in _states(fs, tables_above(str(PurePosixPath(real).parent))).items():
        for staged, final in (pair for commit in pending for pair in commit.add):
            if f"{table}/{final}" == real:
                info = fs.get_file_info(f"{table}/{staged}")
                if info.type.name == "File":
                    return FoundFile(info.path, info.size, {}, path, info.mtime_ns or 0, table)
    return None


def _settled(fs: Any, selection: Selection) -> list[FoundFile]:
    """The files of a selection as if every commit were carried out at once."""
    # Commits know their table by one path, however it was asked for.
    real = os.path.realpath(selection.base) if is_local(fs) else selection.base
    before = _states(fs, tables_above(real))
    for _ in range(_MAX_LISTINGS):
        listed, tables = _list(fs, selection)
        files, gone = _follow(fs, selection, real, listed, before)
        after = _states(fs, {*before, *(rebase(table, selection.base, real) for table in tables)})
        if after == before and (selection.suffix == FILE_SUFFIX or selection.same(listed, _list(fs, selection)[0])):
            if gone:
                raise MosaicError("a committed file has gone", path=gone[0])
            return files
        before = after
    raise MosaicError("the files keep changing while they are listed", path=selection.base)


#: Of each table, its mark and what is being carried out in it.
_States = dict[str, tuple[str, tuple[Commit, ...]]]


def _states(fs: Any, tables: Iterable[str]) -> _States:
    return {table: CommitLog(fs, table).state() for table in sorted(tables)}


def _list(fs: Any, selection: Selection) -> tuple[dict[str, Any], set[str]]:
    """The files a selection finds on disk, and the tables it came upon where jobs have been at work."""
    tables: set[str] = set()
    level = [selection.base]
    files: dict[str, Any] = {}
    for depth, wildcard in enumerate(selection.wildcards, 1):
        following = []
        for info in (info for directory in level for info in list_directory(fs, directory)):
            name = PurePosixPath(info.path).name
            if name == JOBS:
                tables.add(str(PurePosixPath(info.path).parent))
            elif info.type.name == "Directory" and matches(name, wildcard):
                following.append(info.path)
            elif depth == len(selection.wildcards) and info.type.name == "File":
                files[str(PurePosixPath(info.path))] = info
        level = following
    for directory in level:
        for info in list_directory(fs, directory, recursive=True):
            if not PurePosixPath(info.path).is_relative_to(selection.base):
                raise MosaicError(
                    "the file system lists by other paths than it is asked for", path=directory, found=info.path
                )
            if f"/{JOBS}/" in info.path:
                tables.add(str(PurePosixPath(info.path.partition(f"/{JOBS}/")[0])))
            elif info.type.name == "File":
                files[str(PurePosixPath(info.path))] = info
    return files, tables


def _follow(
    fs: Any, selection: Selection, real: str, listed: dict[str, Any], states: _States
) -> tuple[list[FoundFile], list[str]]:
    """What was listed, as commits say: a file that is not at its place yet is where it was staged. And what is not."""
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


def open_found(file: FoundFile, filesystem: Any) -> Source:
    """Open a file where it is, or where it has been moved to since it was found.

    Raises
    ------
    MosaicError
        If another file has taken its place: its rows would stand among those of a table that is no more.
    """
    try:
        source = open_source(file.path, filesystem)
    except FileNotFoundError:
        if file.settled is None:
            raise
        source = open_source(file.settled, filesystem)
    replaced = source.size != file.size
    if file.modified and isinstance(source, LocalSource):
        replaced |= source.modified != file.modified
    if replaced:
        source.close()
        raise MosaicError("the file was replaced after the table was listed; list it again", path=file.name)
    return source


def partition_schema(files: Sequence[FoundFile]) -> pa.Schema:
    """Partition columns: int64 where every value is a whole number as one would write it, else string."""
    names = list(files[0].partition) if files else []
    for file in files:
        if list(file.partition) != names:
            raise SchemaError(
                "files are partitioned in different ways", path=file.path, found=list(file.partition), expected=names
            )
    fields = []
    for name in names:
        values = [file.partition[name] for file in files if file.partition[name] is not None]
        whole = bool(values) and all(_is_whole(value) for value in values)
        fields.append(pa.field(name, pa.int64() if whole else pa.string()))
    return pa.schema(fields)


def _is_whole(text: str | None) -> bool:
    """So that nothing is lost: "007" and "1e3" stay text."""
    try:
        return text is not None and str(int(text)) == text and abs(int(text)) < 1 << 63
    except ValueError:
        return False


def partition_value(file: FoundFile, field_: pa.Field) -> pa.Scalar:
    """A partition value as a scalar of its column's type."""
    text = file.partition.get(field_.name)
    if text is None:
        return pa.scalar(None, field_.type)
    return pa.scalar(text).cast(field_.type)


# --- the sources of a job --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceFile:
    """A file to be read: `relative` is its path below the directory that was asked for, its name if a file was."""

    path: str
    relative: str
    num_bytes: int
    modified: int

    @property
    def directory(self) -> str:
        parent = str(PurePosixPath(self.relative).parent)
        return "" if parent == "." else parent


def list_sources(
    source: Any, filesystem: Any = None, suffix: str = "", *, globs: bool = True
) -> tuple[Place, list[SourceFile]]:
    """The visible files of a path, glob or list of them; relative to the path, or to what they have in common.

    Without `globs`, names are taken as they are.

    Raises
    ------
    FileNotFoundError
        If there is nothing there, or nothing visible.
    """
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    places = [locate(path, filesystem) for path in paths]
    if not places:
        raise FileNotFoundError("no paths given")
    fs, found = discover_settled([place.path for place in places], places[0].filesystem, suffix, globs=globs)
    if any(not place.filesystem.equals(fs) for place in places):
        raise ValueError("the paths of one job must be on one file system")
    if not found:
        raise FileNotFoundError(2, f"No {suffix or 'visible'} files", places[0].path)
    base = _base(places, [file.name for file in found])
    files = [
        SourceFile(file.path, str(PurePosixPath(file.name).relative_to(base)), file.size, file.modified)
        for file in found
    ]
    return Place(fs, base), files


def _base(asked: Sequence[Place], found: Sequence[str]) -> str:
    """The directory that relative paths start from."""
    if len(asked) == 1 and asked[0].is_directory():
        return asked[0].path
    parents = [str(PurePosixPath(path).parent) for path in found]
    return os.path.commonpath(parents) if parents[0] else ""
