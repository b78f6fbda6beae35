"""The single steps of commits: files of a table are found, moved and deleted, on disks and on object stores."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from posixpath import dirname

from smalti.errors import MosaicError
from smalti.io import Location, open_sink
from smalti.io.locations import Entry, sync_directory
from smalti.io.sinks import COPY_BYTES


class TableDirectory:
    """The directory of a table. Paths are relative to it; nothing here knows what a commit is."""

    def __init__(self, root: Location) -> None:
        self._root = Location(root.filesystem, root.path.rstrip("/"))

    def path(self, relative: str) -> str:
        return f"{self._root.path}/{relative}"

    def _location(self, relative: str) -> Location:
        return Location(self._root.filesystem, self.path(relative))

    @property
    def is_exclusive(self) -> bool:
        """Whether several processes may write at the same time, because the file system creates files exclusively."""
        return self._root.is_local or self._root.stores is not None

    @property
    def copies(self) -> bool:
        """Whether files are moved by copies, of which one may still be under way when everybody else is done."""
        return not self._root.is_local

    def entries(self, directory: str, *, recursive: bool = False) -> Sequence[Entry]:
        return Location(self._root.filesystem, self.path(directory).rstrip("/")).entries(recursive=recursive)

    def files(self, paths: Sequence[str]) -> dict[str, Entry]:
        """Find the files at some paths; on an object store one listing finds many."""
        if self._root.stores is None or len(paths) < 2:
            entries: Iterable[Entry] = self._root.infos([self.path(path) for path in paths])
        else:
            entries = self.entries(os.path.commonpath(map(dirname, paths)), recursive=True)
        start = len(self.path(""))
        return {entry.path[start:]: entry for entry in entries if entry.is_file}

    def check_links(self, directories: Iterable[str]) -> None:
        """Raise if a symbolic link leads from one of these directories out of the table."""
        if not self._root.is_local:
            return
        root = os.path.realpath(self._root.path or "/")
        for directory in sorted(directories):
            if not PurePosixPath(os.path.realpath(self.path(directory))).is_relative_to(root):
                raise MosaicError("a commit leads out of its table, through a symbolic link", path=self.path(directory))

    def _copy(self, staged: str, final: str) -> None:
        """Copy a file through this machine; a copy that fails leaves the file that was at `final` before."""
        sink = open_sink(self.path(final), self._root.filesystem)
        try:
            with self._root.filesystem.open_input_stream(self.path(staged), compression=None) as source:
                shutil.copyfileobj(source, sink, COPY_BYTES)
            sink.commit()
        except BaseException:
            sink.abort()
            raise

    def _move(self, source: str, target: str) -> None:
        """Move a file, on an object store by a copy, after which both are there."""
        if self._root.stores is not None:
            self._root.stores.copy_file(self.path(source), self.path(target))
        else:
            self._root.filesystem.move(self.path(source), self.path(target))

    def _make_directories(self, directories: Iterable[str]) -> None:
        """Make directories on a disk, and raise if no file can be put there."""
        if self._root.stores is not None:
            return
        for directory in sorted(directories):
            self._root.filesystem.create_dir(self.path(directory), recursive=True)
            if self._root.is_local and not os.access(self.path(directory), os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "Permission denied", self.path(directory))

    def _sync(self, directories: Iterable[str]) -> None:
        """Flush the names in these directories to disk, and the names of the directories above them."""
        if self._root.is_local:
            paths = [PurePosixPath(path) for path in directories]
            for directory in sorted({above for path in paths for above in (path, *path.parents)}, reverse=True):
                sync_directory(Path(self.path(str(directory))))

    def _delete(self, relatives: Sequence[str]) -> dict[str, OSError]:
        failed = self._root.delete_files([self.path(relative) for relative in relatives])
        start = len(self.path(""))
        return {path[start:]: error for path, error in failed.items()}

    def _delete_empty(self, directories: Iterable[str]) -> None:
        """Delete directories that are empty, and those above them; object stores have none."""
        if self._root.stores is None:
            for directory in sorted(directories, reverse=True):
                for path in (directory, *map(str, PurePosixPath(directory).parents)):
                    if path not in ("", "."):
                        self._delete_if_empty(path)

    def _staged_entries(self, directory: str) -> Sequence[Entry]:
        """List a directory of a job for `_delete_staged`. A link in its place leads to files that are not ours."""
        return [] if self._is_link(directory) else self.entries(directory, recursive=not self._root.is_local)

    def _is_link(self, directory: str) -> bool:
        return self._root.is_local and Path(self.path(directory)).is_symlink()

    def _delete_staged(self, directory: str, listed: Sequence[Entry] | None = None) -> dict[str, OSError]:
        """Delete the entries of a directory, and the directory if it is empty then. Return files that stay.

        Links are deleted, and not what they lead to. Files that a task still writes there, because it has outlived its
        job, stay out of sight until `clean` removes them.
        """
        entries = self._staged_entries(directory) if listed is None else listed
        failed = self._root.delete_files([entry.path for entry in entries if not entry.is_directory])
        for entry in entries if self._root.stores is None else ():
            with contextlib.suppress(OSError):
                local = Path(entry.path)
                if self._root.is_local and local.is_symlink():
                    local.unlink()
                elif entry.is_directory:
                    self._root.filesystem.delete_dir(entry.path)
        self._delete_if_empty(directory)
        return failed

    def _delete_if_empty(self, directory: str) -> None:
        if self._root.is_local:
            local = Path(self.path(directory))
            with contextlib.suppress(OSError):
                local.unlink() if local.is_symlink() else local.rmdir()
        elif self._root.stores is None and not self.entries(directory):
            with contextlib.suppress(OSError):
                self._root.filesystem.delete_dir(self.path(directory))
