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

from smalti.io.sinks import open_sink
from smalti.io.sources import is_local, resolve

#: Another job may remove the directory of jobs, empty, just before this one makes its own in it.
_MAKE_ATTEMPTS = 5
#: A listing fails when what it comes upon is being removed.
_LIST_ATTEMPTS = 20


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


def list_directory(filesystem: Any, path: str, *, recursive: bool = False) -> Sequence[Any]:
    """What is in a directory; nothing, if there is none."""
    selector = pafs.FileSelector(path, recursive=recursive, allow_not_found=True)
    for attempt in range(_LIST_ATTEMPTS):
        try:
            found: Sequence[Any] = filesystem.get_file_info(selector)
            return found
        except FileNotFoundError:  # a directory further down has gone meanwhile
            if attempt == _LIST_ATTEMPTS - 1:
                raise
    return ()


def make_directory(filesystem: Any, path: str) -> None:
    """Make a directory for staged files, and those above it."""
    for attempt in range(_MAKE_ATTEMPTS):
        try:
            filesystem.create_dir(path, recursive=True)
            return
        except FileNotFoundError:
            if attempt == _MAKE_ATTEMPTS - 1:
                raise


def write_whole(filesystem: Any, path: str, data: bytes) -> None:
    """Write a small file, and the directories above it; it appears whole or not at all."""
    if path.rpartition("/")[0]:
        make_directory(filesystem, path.rpartition("/")[0])
    sink = open_sink(path, filesystem)
    sink.write(data)
    sink.commit()
