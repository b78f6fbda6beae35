"""Where bytes come from: local files, memory, Python file objects, object stores, file systems of pyarrow and fsspec.

A source answers `read_at` and `read_many` from any thread, in full or with an error.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from smalti import threads
from smalti.errors import CorruptFileError, MosaicError, ReplacedError, without_secrets
from smalti.io.connection import Connection
from smalti.io.locations import AnyFileSystem, FsspecFileSystem, resolve

if TYPE_CHECKING:
    from smalti.io.stores import ObjectStores

#: Bytes of the first read of a file, at its end. Locally a second read costs next to nothing; from a remote service,
#: reading the schema block of 10,000 columns and the index at once saves a round trip.
LOCAL_TAIL = 64 << 10
REMOTE_TAIL = 256 << 10
_IS_DIRECTORY = "Is a directory (smalti.dataset reads directories)"


class Range(NamedTuple):
    """`size` bytes at `offset`."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


class Source:
    """Random access to bytes that do not change, from any thread.

    `name` is a path or URI for messages, without secrets; `is_remote` says that each read is a round trip, and
    `tail_size` how many bytes the first read fetches from the end. `connection` of a remote source knows what reads
    cost; others have none.
    """

    #: ETag of the object that was opened; empty if it has none.
    etag = ""
    #: When the file that was opened was modified, in nanoseconds; 0 if unknown.
    modified = 0
    _is_closed = False
    _close_file: Callable[[], object] | None = None

    def __init__(
        self, size: int, name: str | None = None, *, is_remote: bool = False, connection: Connection | None = None
    ) -> None:
        self.size = size
        self.name = name
        self.is_remote = is_remote
        self.connection = (connection or Connection()) if is_remote else None
        self.tail_size = REMOTE_TAIL if is_remote else LOCAL_TAIL

    def read_at(self, offset: int, size: int) -> bytes:
        raise NotImplementedError

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges, given as offset and size; at the same time if each is a round trip."""
        if self.connection is None:
            return [self.read_at(*wanted) for wanted in ranges]
        with self.connection.timed(len(ranges), sum(size for _, size in ranges)):
            if len(ranges) == 1:
                return [self.read_at(*ranges[0])]
            return threads.request_all(lambda wanted: self.read_at(*wanted), ranges, self.connection.cost.parallel)

    def with_end(self, end: bytes) -> Source:
        """Return a source that has its last bytes, `end`, in memory and reads the others from this one."""
        return CachedEnd(self, end)

    def check_open(self) -> None:
        """Raise if the source is closed. Readers ask before they answer from memory, too."""
        if self._is_closed:
            raise ValueError(f"read of a closed file: {self.name or 'in memory'}")

    def close(self) -> None:
        """Refuse further reads, and close the file that was opened for them; file objects of callers stay open."""
        self._is_closed = True
        if self._close_file is not None:
            self._close_file()

    def _checked(self, data: bytes, offset: int, size: int) -> bytes:
        if len(data) != size:
            found, expected = f"{len(data)} bytes", f"{size} bytes"
            raise CorruptFileError("file ends early", path=self.name, offset=offset, found=found, expected=expected)
        return data


class LocalSource(Source):
    """A file of this machine, read with `pread`: no shared position, so reads do not wait for each other.

    The descriptor is closed after the last read in progress. Its number may then be given to another file, from which a
    slower thread would read.
    """

    def __init__(self, path: str) -> None:
        threads.renew_in_child(self)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        super().__init__(status.st_size, path)
        self.modified = status.st_mtime_ns
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise IsADirectoryError(errno.EISDIR, _IS_DIRECTORY, path)

    def renew_lock(self) -> None:
        self._lock, self._reading = threading.Lock(), 0

    def read_at(self, offset: int, size: int) -> bytes:
        return self._read([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read_at(*ranges[0])] if len(ranges) == 1 else self._read(ranges)

    def _read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read ranges; that the file is still open and the same is looked up once for all of them."""
        found = []
        with self._lock:
            self.check_open()
            self._reading += 1
        try:
            for offset, size in ranges:
                data = os.pread(self._fd, size, offset)
                # One call moves at most 2 GiB.
                while 0 < len(data) < size and (more := os.pread(self._fd, size - len(data), offset + len(data))):
                    data += more
                found.append(data)
            status = os.fstat(self._fd)
        finally:
            self._release(1)
        if (status.st_mtime_ns, status.st_size) != (self.modified, self.size):
            raise ReplacedError("the file was written to while it was open; open it again", path=self.name)
        return [self._checked(data, *wanted) for data, wanted in zip(found, ranges, strict=True)]

    def close(self) -> None:
        super().close()
        self._release(0)

    def _release(self, reads: int) -> None:
        """Count reads as finished, and close the descriptor if the source is closed and no read is in progress."""
        with self._lock:
            self._reading -= reads
            if self._is_closed and not self._reading and self._fd >= 0:
                # Forget the descriptor even if closing it fails: a second try could close that of another file.
                descriptor, self._fd = self._fd, -1
                os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            with contextlib.suppress(OSError):  # A destructor cannot raise, and closing what was read loses nothing.
                self.close()


class ReadAt(Source):
    """Bytes that a function returns, for `smalti.open`: a file that only another package can reach, for example.

    Parameters
    ----------
    read_at : callable
        `read_at(offset, size)` returns `size` bytes from `offset` on. Several threads may call it at the same time.
    size : int
        Of the file.
    name : str, optional
        What errors call it.
    is_remote : bool
        Whether a call is a round trip, so that fewer, larger and parallel reads are worth more bytes.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> _ = smalti.write_table(pa.table({"a": [1, 2]}), "called.mosaic")
    >>> data = open("called.mosaic", "rb").read()
    >>> with smalti.open(smalti.ReadAt(lambda offset, size: data[offset : offset + size], len(data))) as f:
    ...     f.read().to_pydict()
    {'a': [1, 2]}
    """

    def __init__(
        self,
        read_at: Callable[[int, int], Any],
        size: int,
        *,
        name: str | None = None,
        is_remote: bool = False,
        connection: Connection | None = None,
    ) -> None:
        super().__init__(size, name, is_remote=is_remote, connection=connection)
        self._read_at = read_at

    def read_at(self, offset: int, size: int) -> bytes:
        self.check_open()
        return self._checked(self._read_at(offset, size) if size else b"", offset, size)


class FsspecSource(ReadAt):
    """A file of an fsspec file system, read by ranges: its file objects would read ahead far more than is wanted."""

    def __init__(self, filesystem: FsspecFileSystem, path: str, name: str) -> None:
        info, cat_file = filesystem.info(path), filesystem.cat_file
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, _IS_DIRECTORY, name)
        if info["size"] is None:
            raise MosaicError("the file system does not know the size of the file", path=name)
        super().__init__(
            lambda at, size: cat_file(path, start=at, end=at + size), info["size"], name=name, is_remote=True
        )
        self._cat_ranges = filesystem.cat_ranges
        self._path = path

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if len(ranges) < 2:
            return super().read_many(ranges)
        starts, ends = [offset for offset, _ in ranges], [offset + size for offset, size in ranges]
        assert self.connection is not None
        with self.connection.timed(len(ranges), sum(size for _, size in ranges)):
            blobs = self._cat_ranges([self._path] * len(ranges), starts, ends, on_error="raise")
        return [self._checked(blob, *wanted) for blob, wanted in zip(blobs, ranges, strict=True)]


class WrappedSource(Source):
    """A source with the attributes of another one, which it closes. Subclasses change `read_many`."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.size, source.name, is_remote=source.is_remote, connection=source.connection)
        self._source = source
        self._close_file = source.close
        self.tail_size, self.etag, self.modified = source.tail_size, source.etag, source.modified

    def read_at(self, offset: int, size: int) -> bytes:
        return self.read_many([(offset, size)])[0]


class CachedEnd(WrappedSource):
    """A source whose last bytes are in memory, because opening a remote file has fetched them already."""

    def __init__(self, source: Source, end: bytes) -> None:
        super().__init__(source)
        self._end = end
        self._start = source.size - len(end)

    def with_end(self, end: bytes) -> Source:
        return self if len(end) <= len(self._end) else CachedEnd(self._source, end)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Fetch the bytes before the cached end, and add the others from memory."""
        before = [(offset, min(size, self._start - offset)) for offset, size in ranges if offset < self._start]
        fetched = iter(self._source.read_many(before))
        blobs = []
        for offset, size in ranges:
            head = next(fetched) if offset < self._start else b""
            if len(head) < size:
                at = offset + len(head) - self._start
                rest = self._end[at : at + size - len(head)]
                head = head + rest if head else rest
            blobs.append(self._checked(head, offset, size))
        return blobs


def open_source(source: Any, filesystem: AnyFileSystem = None) -> Source:
    """Open a path, URI, bytes-like object, file of pyarrow's, seekable binary file object or `ReadAt` for reading.

    `filesystem` is that of a path; by default the local machine's, or the one that the URI names.
    """
    if isinstance(source, (str, os.PathLike)):
        location = resolve(source, filesystem)
        if isinstance(location, str):
            return LocalSource(location)
        name = without_secrets(str(source))
        if location.stores is not None:
            return open_object(location.stores, location.path, name)
        if location.fsspec is not None:
            return FsspecSource(location.fsspec, location.path, name)
        file = location.filesystem.open_input_file(location.path)
        opened = ReadAt(lambda at, size: file.read_at(size, at), file.size(), name=name, is_remote=True)  # type: ignore[call-arg]
        opened._close_file = file.close
        return opened
    if isinstance(source, ReadAt):
        return copy.copy(source)  # The caller's own stays open when the file is closed.
    if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)):
        data = memoryview(source).cast("B")
        opened = ReadAt(lambda at, size: bytes(data[at : at + size]), len(data))
        opened._close_file = data.release
        return opened
    if isinstance(source, pa.NativeFile):
        return ReadAt(lambda at, size: source.read_at(size, at), source.size())  # type: ignore[call-arg]
    if hasattr(source, "read") and hasattr(source, "seek"):
        source.seek(0, os.SEEK_END)  # returns None for a memory-mapped file, up to Python 3.12
        return ReadAt(partial(_read_file, source, threads.ForkedLock()), source.tell(), name=file_name(source))
    raise TypeError(f"expected a path, bytes or a seekable binary file, got {type(source).__name__}")


def open_object(stores: ObjectStores, path: str, name: str, tail_size: int = REMOTE_TAIL) -> Source:
    """Open an object with one request, which fetches its end. All reads are of the object that was opened."""
    connection = stores.connection(path)
    with connection.timed(1) as timed:
        entry, end = stores.read_end(path, tail_size)
        timed.num_bytes = len(end)
    read_range = partial(stores.read_range, path, entry.etag)
    source = ReadAt(read_range, entry.size, name=name, is_remote=True, connection=connection)
    source.etag, source.modified = entry.etag, entry.modified
    return source.with_end(end)


def _read_file(file: Any, lock: threads.ForkedLock, offset: int, size: int) -> bytes:
    """Read from a Python file object; one thread at a time moves its position."""
    with lock.lock:
        file.seek(offset)
        data: bytes = file.read(size)
        while 0 < len(data) < size and (more := file.read(size - len(data))):
            data += more
    return data


def file_name(file: Any) -> str | None:
    """Return the name of a file object, for messages, or None: of some files the name is a number."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


def lasting_path(source: Any, opened: Source) -> Any:
    """The path or object that opens the same source in another process, which may run in another directory."""
    if not isinstance(opened, LocalSource) or not opened.name:
        return source
    return opened.name if opened.name.startswith("/") else str(Path(opened.name).absolute())
