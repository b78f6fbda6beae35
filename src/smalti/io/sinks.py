"""Where bytes go: a file appears under its name only when it is complete, or it does not appear at all.

Local files are written beside their place, flushed to disk and renamed; `smalti.io.replacing` says what they keep of
the file that they replace. Others are spooled on this machine and sent off
when they are complete: in one go to object stores, which show nothing before it is all there; under another name and
then renamed elsewhere. What cannot be promised: on object stores that are reached by a file system of pyarrow's, an
upload that fails stays open and is paid for, because pyarrow offers no way to abort it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa

from smalti.errors import without_secrets
from smalti.io.locations import TEMPORARY_SUFFIX, AnyFileSystem, FsspecFileSystem, Location, locate, sync_directory
from smalti.io.replacing import follow_links, keep_access, old_file
from smalti.io.services import local_path

#: A remote file is held in memory up to this size before it goes to a temporary file.
SPOOL_MEMORY = 16 << 20
COPY_BYTES = 8 << 20
#: How object stores are called, by pyarrow and by fsspec.
OBJECT_STORES = frozenset({"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory", "mock"})


class Sink(Protocol):
    """Bytes in order, then `commit` or `abort`.

    Where `may_retry` is true, a commit that has failed may be called again; otherwise it has aborted.
    """

    name: str | None
    may_retry: bool

    def write(self, data: Any) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class LocalSink:
    """Temporary file, fsync, rename, fsync of the directory. Links are followed, and mode and owner kept."""

    may_retry = False

    def __init__(self, path: str) -> None:
        self.name: str | None = path
        self._target = follow_links(path).absolute()  # for a process that goes to another directory meanwhile
        old = old_file(self._target, path)
        self._temporary = self._target.with_name(f".{self._target.name}.{uuid.uuid4().hex[:12]}{TEMPORARY_SUFFIX}")
        # What may replace a private file is private from its first byte. `keep_access` gives more rights at the end.
        mode = 0o666 if old is None else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(self._temporary, flags, mode)
        except OSError as error:
            error.filename = path
            raise
        self._file: IO[bytes] = open(descriptor, "wb")  # noqa: SIM115, PTH123
        self._owner = os.getpid()
        _open_sinks.add(self)

    def write(self, data: Any) -> None:
        self._file.write(data)

    def commit(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            keep_access(self._temporary, self._target)
            self._temporary.replace(self._target)
        except BaseException:
            self.abort()
            raise
        sync_directory(self._target.parent)

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        if os.getpid() == self._owner:
            self._temporary.unlink(missing_ok=True)

    def disown(self) -> None:
        """In a forked child: what Python's buffer still holds must not be written a second time from here."""
        _write_nowhere(self._file)


class RemoteSink:
    """Spooled here, sent off on commit: whatever the store can do, it never shows half a file under its name.

    A commit that fails leaves what was there before, and may be tried again.
    """

    may_retry = True

    def __init__(self, location: Location, name: str) -> None:
        self.name: str | None = name
        self._location = location
        self._spool: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=SPOOL_MEMORY)  # noqa: SIM115
        _open_sinks.add(self)

    def write(self, data: Any) -> None:
        self._spool.write(data)

    def commit(self) -> None:
        size = self._spool.seek(0, os.SEEK_END)
        self._spool.seek(0)
        if self._location.stores is not None:
            self._location.stores.write(self._location.path, self._spool, size)
        elif is_object_store(self._location.filesystem):
            self._send(self._location)
        else:
            name = f".{self._location.name}.{uuid.uuid4().hex[:12]}{TEMPORARY_SUFFIX}"
            temporary = Location(
                self._location.filesystem, self._location.path.removesuffix(self._location.name) + name
            )
            try:
                self._send(temporary)
                self._rename(temporary)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.filesystem.delete_file(temporary.path)
                raise
        self._spool.close()

    def _send(self, location: Location) -> None:
        if location.fsspec is not None:
            self._send_fsspec(location.fsspec, location.path)
            return
        # pyarrow completes a stream whenever it is closed, also by an exception. With a single write there is no moment
        # at which some of the file is written and the stream is in good order.
        with (
            self._contents() as data,
            location.filesystem.open_output_stream(location.path, compression=None) as stream,
        ):
            stream.write(data)

    @contextlib.contextmanager
    def _contents(self) -> Iterator[pa.Buffer]:
        """All bytes of the spool as one buffer; those in a temporary file are mapped, not read."""
        size = self._spool.seek(0, os.SEEK_END)
        if size <= SPOOL_MEMORY:
            self._spool.seek(0)
            yield pa.py_buffer(self._spool.read())
            return
        self._spool.flush()
        with pa.memory_map(f"/dev/fd/{self._spool.fileno()}") as mapped:
            yield mapped.read_buffer()

    def _send_fsspec(self, filesystem: FsspecFileSystem, path: str) -> None:
        file = filesystem.open(path, "wb")
        try:
            shutil.copyfileobj(self._spool, file, COPY_BYTES)
            file.close()
        except BaseException:
            with contextlib.suppress(Exception):  # The first error is the one to be told.
                file.discard()
            try:
                file.closed = True  # Or a buffered file would be completed when it is collected.
            except AttributeError:
                file.close()
            raise

    def _rename(self, temporary: Location) -> None:
        filesystem, path = self._location.filesystem, self._location.path
        try:
            filesystem.move(temporary.path, path)
        except OSError:  # HDFS does not rename over a file that is there
            if not self._location.is_file():
                raise
            filesystem.delete_file(path)
            filesystem.move(temporary.path, path)

    def abort(self) -> None:
        self._spool.close()

    def disown(self) -> None:
        """In a forked child, as `LocalSink.disown`; what is still in memory is the child's own copy anyway."""
        if getattr(self._spool, "_rolled", False):
            _write_nowhere(self._spool)


def is_object_store(filesystem: Any) -> bool:
    """Whether a file appears whole, when it is closed, whatever its size. Only what is known to is believed.

    Examples
    --------
    >>> from pyarrow.fs import LocalFileSystem
    >>> is_object_store(LocalFileSystem())
    False
    """
    return not OBJECT_STORES.isdisjoint(re.findall(r"\w+", filesystem.type_name))


class FileObjectSink:
    """A binary file object of the caller's, who decides what becomes of it."""

    may_retry = False

    def __init__(self, file: Any) -> None:
        name = getattr(file, "name", None)
        self.name = name if isinstance(name, str) else None
        self._file = file

    def write(self, data: Any) -> None:
        written = self._file.write(data)
        if isinstance(self._file, io.RawIOBase):  # Only these may take less than they are given.
            data = memoryview(data).cast("B")
            while written is not None and 0 < written < len(data):
                data = data[written:]
                written = self._file.write(data)
            if written != len(data):
                raise OSError(errno.EAGAIN, "the file takes no more bytes", self.name)

    def commit(self) -> None:
        if hasattr(self._file, "flush"):
            self._file.flush()

    def abort(self) -> None:
        pass


class DeviceSink(FileObjectSink):
    """A pipe, a terminal or another device that has the name: written as it comes, because none can take its place."""

    def __init__(self, path: str) -> None:
        super().__init__(open(path, "wb"))  # noqa: SIM115, PTH123

    def commit(self) -> None:
        self._file.close()

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


def open_sink(where: Any, filesystem: AnyFileSystem = None) -> Sink:
    """Open a path, URI or binary file object for writing; see `open_source` for `filesystem`."""
    if isinstance(where, (str, os.PathLike)):
        path = local_path(os.fspath(where)) if filesystem is None else None
        if path is not None:
            return _local_sink(path)
        location = locate(where, filesystem)
        return _local_sink(location.path) if location.is_local else RemoteSink(location, without_secrets(str(where)))
    if hasattr(where, "write"):
        return FileObjectSink(where)
    raise TypeError(f"expected a path or a writable binary file, got {type(where).__name__}")


def _local_sink(path: str) -> Sink:
    file = Path(path)
    return LocalSink(path) if file.is_file() or file.is_dir() or not file.exists() else DeviceSink(path)


def write_whole(location: Location, data: bytes) -> None:
    """Write a small file, and make the directories above it; the file appears whole or not at all."""
    if "/" in location.path.strip("/"):
        location.parent.make_directory()
    finish_with(open_sink(location.path, location.filesystem), data)


def finish_with(sink: Sink, data: bytes) -> None:
    """Write all that goes into a sink, and commit it; abort it if that fails."""
    try:
        sink.write(data)
        sink.commit()
    except BaseException:
        sink.abort()
        raise


# --- forks ----------------------------------------------------------------------------------------------------------

#: Sinks of this process that may hold bytes that are not written yet.
_open_sinks: weakref.WeakSet[LocalSink | RemoteSink] = weakref.WeakSet()


def _write_nowhere(file: IO[bytes]) -> None:
    """Let this process's descriptor of a file lead to nowhere; the parent's, which shares the file, stays."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, file.fileno())
        os.close(nowhere)


def _after_fork() -> None:
    for sink in list(_open_sinks):
        sink.disown()
    _open_sinks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
