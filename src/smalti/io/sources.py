"""Where bytes come from: local files, memory, Python file objects, object stores, file systems of pyarrow and fsspec.

A source answers `read_at` and `read_many` from any thread, in full or with an error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti import threads
from smalti.errors import CorruptFileError, MosaicError, ReplacedError, without_secrets
from smalti.io.locations import AnyFileSystem, FsspecFileSystem, locate
from smalti.io.services import local_path

if TYPE_CHECKING:
    from smalti.io.stores import ObjectStores

#: What a first read of the end of a file asks for. Locally a second read costs next to nothing; far away, one that
#: takes in the schema block of 10,000 columns and the index saves a round trip.
LOCAL_TAIL = 64 << 10
REMOTE_TAIL = 256 << 10
#: Bytes worth reading and throwing away to save a round trip.
REMOTE_GAP = 512 << 10
#: Longer reads are made in several pieces. Far away, pieces come at the same time.
LOCAL_REQUEST = 32 << 20
REMOTE_REQUEST = 8 << 20

#: Where a read begins, and its length.
Span = tuple[int, int]


class Source:
    """Random access to bytes that do not change. The costs of a read are those of bytes on this machine."""

    name: str | None = None
    size: int
    tail_size = LOCAL_TAIL
    max_gap = 0
    max_request = LOCAL_REQUEST
    is_remote = False

    def read_at(self, offset: int, size: int) -> bytes:
        raise NotImplementedError

    def read_many(self, spans: Sequence[Span]) -> list[bytes]:
        """Several reads, at the same time where each is a round trip."""
        if self.is_remote and len(spans) > 1:
            return list(threads.request_pool().map(lambda span: self.read_at(*span), spans))
        return [self.read_at(*span) for span in spans]

    def _is_far(self) -> None:
        """Set the costs of a read to those of a service far away."""
        self.is_remote, self.tail_size = True, REMOTE_TAIL
        self.max_gap, self.max_request = REMOTE_GAP, REMOTE_REQUEST

    def close(self) -> None:
        """Close what this source has opened; what the caller has opened stays open."""

    def _checked(self, data: bytes, offset: int, size: int) -> bytes:
        if len(data) != size:
            found, expected = f"{len(data)} bytes", f"{size} bytes"
            raise CorruptFileError("file ends early", path=self.name, offset=offset, found=found, expected=expected)
        return data


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    """What `os.pread` does, on systems that lack it (Windows): one thread at a time moves the position."""
    with _SEEKING:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


_SEEKING = threading.Lock()
_pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)


class LocalSource(Source):
    """A file of this machine, read with `pread`: no shared position, so reads do not wait for each other.

    The descriptor is closed when the last read that is under way is over. Its number may then be that of another file,
    from which a slower thread would read.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self._lock = threading.Lock()
        self._reading = 0
        self._is_closed = False
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(self._fd)
            self.size = status.st_size
            #: Nanoseconds, of the file that is open, whatever has its name by now.
            self.modified = status.st_mtime_ns
            if Path(path).is_dir():
                raise IsADirectoryError(21, "Is a directory (smalti.dataset reads directories)", path)
        except BaseException:
            self.close()
            raise

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._is_closed:
                raise ValueError(f"read of a closed file: {self.name}")
            self._reading += 1
        try:
            data = _pread(self._fd, size, offset)
            # One call moves at most 2 GiB.
            while 0 < len(data) < size and (more := _pread(self._fd, size - len(data), offset + len(data))):
                data += more
            status = os.fstat(self._fd)
        finally:
            self._let_go(1)
        if (status.st_mtime_ns, status.st_size) != (self.modified, self.size):
            raise ReplacedError("the file was written to while it was open; open it again", path=self.name)
        return self._checked(data, offset, size)

    def close(self) -> None:
        self._is_closed = True
        self._let_go(0)

    def _let_go(self, reads: int) -> None:
        """Say that reads are over, and close the descriptor if nobody will use it any more."""
        with self._lock:
            self._reading -= reads
            if self._is_closed and not self._reading and self._fd >= 0:
                # Closed, whatever the answer is: a second try could close the descriptor of another file.
                descriptor, self._fd = self._fd, -1
                os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class BufferSource(Source):
    """Bytes in memory."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)

    def read_at(self, offset: int, size: int) -> bytes:
        return self._checked(bytes(self._data[offset : offset + size]), offset, size)

    def close(self) -> None:
        self._data.release()


class FileObjectSource(Source):
    """A seekable Python file object of the caller's, which stays open. One reader at a time moves its position."""

    def __init__(self, file: Any) -> None:
        name = getattr(file, "name", None)
        self.name = name if isinstance(name, str) else None
        self._file = file
        self._lock = threading.Lock()
        file.seek(0, os.SEEK_END)  # answers nothing where the file is mapped into memory, up to Python 3.12
        self.size = file.tell()

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            data = self._file.read(size)
            while 0 < len(data) < size and (more := self._file.read(size - len(data))):
                data += more
        return self._checked(data, offset, size)


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
        self, read_at: Callable[[int, int], Any], size: int, *, name: str | None = None, is_remote: bool = False
    ) -> None:
        self._read_at = read_at
        self.size = size
        self.name = name
        if is_remote:
            self._is_far()

    def read_at(self, offset: int, size: int) -> bytes:
        return self._checked(self._read_at(offset, size), offset, size)


class ArrowSource(Source):
    """A `pyarrow.NativeFile`: of HDFS, or of a file system that the caller passes."""

    def __init__(self, file: pa.NativeFile, name: str | None, *, owned: bool, remote: bool) -> None:
        self.name = name
        self._file = file
        self._owned = owned
        if remote:
            self._is_far()
        self.size = file.size()

    def read_at(self, offset: int, size: int) -> bytes:
        return self._checked(self._file.read_at(size, offset), offset, size)  # type: ignore[call-arg]

    def close(self) -> None:
        if self._owned:
            self._file.close()


class ObjectSource(Source):
    """An object of a store. Opening fetches its end, in one request; all reads are of the object that was opened."""

    def __init__(self, stores: ObjectStores, path: str, name: str) -> None:
        self.name = name
        self._stores = stores
        self._path = path
        self._is_far()
        #: `modified` is in whole seconds.
        self._end, self.size, self.etag, self.modified = stores.read_end(path, self.tail_size)

    def read_at(self, offset: int, size: int) -> bytes:
        cached = self.size - len(self._end)
        if offset >= cached:
            data = self._end if (offset, size) == (cached, len(self._end)) else self._end[offset - cached :][:size]
        else:
            data = self._stores.read_range(self._path, offset, size, self.etag) if size else b""
        return self._checked(data, offset, size)


class FsspecSource(Source):
    """A file of an fsspec file system, read by ranges: its file objects would read ahead far more than is wanted."""

    def __init__(self, filesystem: FsspecFileSystem, path: str, name: str) -> None:
        self.name = name
        self._filesystem = filesystem
        self._path = path
        self._is_far()
        info = filesystem.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(21, "Is a directory (smalti.dataset reads directories)", name)
        if info["size"] is None:
            raise MosaicError("the file system does not know the size of the file", path=name)
        self.size = info["size"]

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._filesystem.cat_file(self._path, start=offset, end=offset + size) if size else b""
        return self._checked(data, offset, size)

    def read_many(self, spans: Sequence[Span]) -> list[bytes]:
        if len(spans) < 2:
            return [self.read_at(*span) for span in spans]
        starts, ends = [offset for offset, _ in spans], [offset + size for offset, size in spans]
        blobs = self._filesystem.cat_ranges([self._path] * len(spans), starts, ends, on_error="raise")
        return [self._checked(blob, *span) for blob, span in zip(blobs, spans, strict=True)]


class WrappedSource(Source):
    """A source that is like another one. Subclasses change how bytes are read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name = source.name
        self.size = source.size
        self.tail_size = source.tail_size
        self.max_gap = source.max_gap
        self.max_request = source.max_request
        self.is_remote = source.is_remote

    def close(self) -> None:
        self._source.close()


class CachedEnd(WrappedSource):
    """A source whose last bytes are at hand: what opening a remote file has fetched is not fetched again."""

    def __init__(self, source: Source, end: bytes) -> None:
        super().__init__(source)
        self._end = end
        self._start = source.size - len(end)

    def read_at(self, offset: int, size: int) -> bytes:
        return self.read_many([(offset, size)])[0]

    def read_many(self, spans: Sequence[Span]) -> list[bytes]:
        """Fetch only what lies before the cached end, and add the rest."""
        before = [(offset, min(size, self._start - offset)) for offset, size in spans if offset < self._start]
        fetched = iter(self._source.read_many(before))
        blobs = []
        for offset, size in spans:
            head = next(fetched) if offset < self._start else b""
            if len(head) < size:
                at = offset + len(head) - self._start
                rest = self._end[at : at + size - len(head)]
                head = head + rest if head else rest
            blobs.append(self._checked(head, offset, size))
        return blobs


def open_source(source: Any, filesystem: AnyFileSystem = None) -> Source:
    """Open a path, URI, bytes-like object or file object for reading.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, pyarrow.Buffer, pyarrow.NativeFile, seekable binary file object or ReadAt
    filesystem : pyarrow.fs.FileSystem, fsspec file system or URI, optional
        Where a path is to be looked up; by default the local machine, or what the URI names.
    """
    if isinstance(source, (str, os.PathLike)):
        path = local_path(os.fspath(source)) if filesystem is None else None
        if path is not None:
            return LocalSource(path)
        location = locate(source, filesystem)
        if location.is_local:
            return LocalSource(location.path)
        name = without_secrets(str(source))
        if location.stores is not None:
            return ObjectSource(location.stores, location.path, name)
        if location.fsspec is not None:
            return FsspecSource(location.fsspec, location.path, name)
        return ArrowSource(location.filesystem.open_input_file(location.path), name, owned=True, remote=True)
    if isinstance(source, ReadAt):
        return source
    if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)):
        return BufferSource(source)
    if isinstance(source, pa.NativeFile):
        return ArrowSource(source, None, owned=False, remote=False)
    if hasattr(source, "read") and hasattr(source, "seek"):
        return FileObjectSource(source)
    raise TypeError(f"expected a path, bytes or a seekable binary file, got {type(source).__name__}")


def lasting_path(source: Any, opened: Source) -> Any:
    """What leads to an opened source from another process too, which may run in another directory."""
    return str(Path(opened.name).absolute()) if isinstance(opened, LocalSource) and opened.name else source
