"""Where data is: a path on a `pyarrow.fs` file system, in a form that travels to another process.

Knows files and directories; knows nothing of formats or jobs. Local paths are made absolute, because a task may run
in another directory than the one the job was started from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.fs as pafs

from smalti.commit_log import list_directory, make_directory, write_whole
from smalti.discovery import discover_settled
from smalti.io import is_local
from smalti.io.sources import resolve


@dataclass(frozen=True)
class Place:
    """A path and the file system it is on."""

    filesystem: Any
    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def parent(self) -> Place:
        return Place(self.filesystem, str(PurePosixPath(self.path).parent))

    @property
    def is_local(self) -> bool:
        return is_local(self.filesystem)

    def child(self, relative: str) -> Place:
        return Place(self.filesystem, str(PurePosixPath(self.path) / relative))

    def info(self) -> Any:
        return self.filesystem.get_file_info(self.path)

    def is_file(self) -> bool:
        return bool(self.info().type == pafs.FileType.File)

    def is_directory(self) -> bool:
        return bool(self.info().type == pafs.FileType.Directory)

    def make_directory(self) -> None:
        make_directory(self.filesystem, self.path)

    def read_bytes(self) -> bytes:
        with self.filesystem.open_input_stream(self.path, compression=None) as stream:
            data: bytes = stream.read()
        return data

    def write_bytes(self, data: bytes) -> None:
        """Write a small file, whole or not at all."""
        write_whole(self.filesystem, self.path, data)

    def sync(self) -> None:
        """On disk, so that no marker of it outlives what it stands for; elsewhere, writing is as good."""
        if self.is_local:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def names(self) -> list[str]:
        """What is directly in a directory, hidden names included; empty if there is no such directory."""
        return sorted(PurePosixPath(info.path).name for info in list_directory(self.filesystem, self.path))


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


def locate(path: Any, filesystem: Any = None) -> Place:
    """The place of a path or URI."""
    text = os.fspath(path)
    if filesystem is None and "://" not in text:
        text = text[len("file:") :] if text.startswith("file:") else text
        return Place(pafs.LocalFileSystem(), str(Path(text).absolute()))
    found, inner = resolve(text, filesystem)
    if is_local(found):
        inner = str(Path(inner).absolute())
    return Place(found, inner.rstrip("/") or inner)


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
