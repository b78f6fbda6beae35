"""Finding the files of a dataset: directories, globs and lists of paths, local or remote, with hive-style partitions.

Names that start with a dot or an underscore are passed over: leftovers of writers, markers, logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.io.sources import resolve
from smalti.spec import FILE_SUFFIX

#: What hive and Spark write for a null partition value.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class FoundFile:
    """A file, and what the directories above it say about its rows, as text."""

    path: str
    size: int
    partition: dict[str, str | None] = field(default_factory=dict)


def discover(source: Any, filesystem: Any = None, suffix: str = FILE_SUFFIX) -> tuple[Any, list[FoundFile]]:
    """The files below a path, a glob, or a list of them, sorted by path, and the file system they are on.

    A file that is named is taken whatever its suffix; below a directory, or by a glob, only those with `suffix`.

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
        for file in _expand(fs, path, suffix):
            found.setdefault(file.path, file)
    return shared, sorted(found.values(), key=lambda file: file.path)


def _locate(path: str, filesystem: Any) -> tuple[Any, str]:
    import pyarrow.fs

    if filesystem is None and "://" not in path:
        if path.startswith("file:"):  # how Spark writes local paths
            path = path[len("file:") :]
        return pyarrow.fs.LocalFileSystem(), path
    return resolve(path, filesystem)


def _expand(fs: Any, path: str, suffix: str) -> list[FoundFile]:
    import pyarrow.fs

    if any(character in path for character in "*?["):
        return _expand_glob(fs, path, suffix)
    info = fs.get_file_info(path)
    if info.type == pyarrow.fs.FileType.NotFound:
        raise FileNotFoundError(2, "No such file or directory", path)
    if info.type == pyarrow.fs.FileType.File:
        return [FoundFile(path, info.size)]
    return list(_below(fs, path, suffix))


def _below(fs: Any, base: str, suffix: str) -> Iterable[FoundFile]:
    """Every visible file below a directory, with its partition."""
    import pyarrow.fs

    root = PurePosixPath(base)
    for info in fs.get_file_info(pyarrow.fs.FileSelector(base, recursive=True)):
        parts = PurePosixPath(info.path).relative_to(root).parts
        if info.type == pyarrow.fs.FileType.File and info.path.endswith(suffix) and _visible(parts):
            yield FoundFile(info.path, info.size, parse_partition(parts[:-1]))


def _expand_glob(fs: Any, pattern: str, suffix: str) -> list[FoundFile]:
    """`*`, `?` and `[...]` within a path component; a directory that matches stands for all below it."""
    import pyarrow.fs

    parts = PurePosixPath(pattern).parts
    fixed = 0
    while not any(character in parts[fixed] for character in "*?["):
        fixed += 1
    level = [str(PurePosixPath(*parts[:fixed])) if fixed else "."]
    for depth, part in enumerate(parts[fixed:], start=fixed + 1):
        following = []
        for directory in level:
            for info in fs.get_file_info(pyarrow.fs.FileSelector(directory, allow_not_found=True)):
                name = PurePosixPath(info.path).name
                last = depth == len(parts) or info.type == pyarrow.fs.FileType.Directory
                if last and fnmatchcase(name, part) and (_visible([name]) or part[0] in "._"):
                    following.append(info.path)
        level = sorted(following)
    files: list[FoundFile] = []
    base = PurePosixPath(*parts[:fixed]) if fixed else PurePosixPath(".")
    for path in level:
        above = PurePosixPath(path).relative_to(base).parts if fixed else PurePosixPath(path).parts
        info = fs.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            if path.endswith(suffix):
                files.append(FoundFile(path, info.size, parse_partition(above[:-1])))
        else:
            for file in _below(fs, path, suffix):
                files.append(FoundFile(file.path, file.size, {**parse_partition(above), **file.partition}))
    if not files:
        raise FileNotFoundError(2, "Nothing matches", pattern)
    return files


def _visible(parts: Sequence[str]) -> bool:
    """`_x=1` is a partition, `_temporary` is not for us."""
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def parse_partition(directories: Sequence[str]) -> dict[str, str | None]:
    """Partition values of a path, in order.

    Examples
    --------
    >>> parse_partition(["raw", "day=2024-01-01", "city=S%C3%A3o%20Paulo"])
    {'day': '2024-01-01', 'city': 'São Paulo'}
    """
    values: dict[str, str | None] = {}
    for directory in directories:
        key, equals, value = directory.partition("=")
        if equals and key:
            values[unquote(key)] = None if value == HIVE_NULL else unquote(value)
    return values


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
