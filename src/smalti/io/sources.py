"""Where bytes come from: local files, memory, Python file objects, anything `pyarrow.fs` opens.

A source answers `read_at` from any thread, in full or with an error.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

from smalti.errors import CorruptFileError
from smalti.io.places import AnyFileSystem, locate
from smalti.io.services import local_path

#: What a first read of the end of a file asks for. Locally a second read costs next to nothing; far away, one that
#: takes in the schema block of 10,000 columns and the index saves a round trip.
LOCAL_TAIL = 64 << 10
REMOTE_TAIL = 1 << 20
#: Bytes worth reading and throwing away to save a round trip.
REMOTE_GAP = 512 << 10


class Source:
    """Random access to bytes that do not change. The costs of a read are those of bytes on this machine."""

    name: str | None = None
    size: int
    tail_size = LOCAL_TAIL
    max_gap = 0
    is_remote = False

    def read_at(self, offset: int, size: int) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """Close what this source has opened; what the caller has opened stays open."""

    def _checked(self, data: bytes, offset: int, size: int) -> bytes:
        if len(data) != size:
            found, expected = f"{len(data)} bytes", f"{size} bytes"
            raise CorruptFileError("file ends early", path=self.name, offset=offset, found=found, expected=expected)
        return data


class LocalSource(Source):
    """A file of this machine, read with `pread`: no shared position, so no lock."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
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
        if self._fd < 0:
            raise ValueError(f"read of a closed file: {self.name}")
        data = os.pread(self._fd, size, offset)
        # One call moves at most 2 GiB.
        while 0 < len(data) < size and (more := os.pread(self._fd, size - len(data), offset + len(data))):
            data += more
        return self._checked(data, offset, size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

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
        self.size = file.seek(0, os.SEEK_END)

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            data = self._file.read(size)
            while 0 < len(data) < size and (more := self._file.read(size - len(data))):
                data += more
        return self._checked(data, offset, size)


class ArrowSource(Source):
    """A `pyarrow.NativeFile`: S3, GCS, HDFS, and what fsspec reaches through pyarrow's handler."""

    def __init__(self, file: pa.NativeFile, name: str | None, *, owned: bool, remote: bool) -> None:
        self.name = name
        self._file = file
        self._owned = owned
        if remote:
            self.is_remote, self.tail_size, self.max_gap = True, REMOTE_TAIL, REMOTE_GAP
        self.size = file.size()

    def read_at(self, offset: int, size: int) -> bytes:
        return self._checked(self._file.read_at(size, offset), offset, size)  # type: ignore[call-arg]

    def close(self) -> None:
        if self._owned:
            self._file.close()


class WrappedSource(Source):
    """A source that is like another one. Subclasses change how bytes are read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name = source.name
        self.size = source.size
        self.tail_size = source.tail_size
        self.max_gap = source.max_gap
        self.is_remote = source.is_remote

    def close(self) -> None:
        self._source.close()


class CachedEnd(WrappedSource):
    """A source whose last bytes are at hand: what opening a remote file has fetched need not be fetched again."""

    def __init__(self, source: Source, end: bytes) -> None:
        super().__init__(source)
        self._end = end
        self._start = source.size - len(end)

    def read_at(self, offset: int, size: int) -> bytes:
        if offset < self._start:
            return self._source.read_at(offset, size)
        at = offset - self._start
        return self._checked(self._end[at : at + size], offset, size)


def open_source(source: Any, filesystem: AnyFileSystem = None) -> Source:
    """Open a path, URI, bytes-like object or file object for reading.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like, pyarrow.Buffer, pyarrow.NativeFile or seekable binary file object
    filesystem : pyarrow.fs.FileSystem, fsspec file system or URI, optional
        Where a path is to be looked up; by default the local machine, or what the URI names.
    """
    if isinstance(source, (str, os.PathLike)):
        path = local_path(os.fspath(source)) if filesystem is None else None
        if path is not None:
            return LocalSource(path)
        place = locate(source, filesystem)
        if place.is_local:
            return LocalSource(place.path)
        return ArrowSource(place.filesystem.open_input_file(place.path), str(source), owned=True, remote=True)
    if isinstance(source, (bytes, bytearray, memoryview, pa.Buffer)):
        return BufferSource(source)
    if isinstance(source, pa.NativeFile):
        return ArrowSource(source, None, owned=False, remote=False)
    if hasattr(source, "read") and hasattr(source, "seek"):
        return FileObjectSource(source)
    raise TypeError(f"expected a path, bytes or a seekable binary file, got {type(source).__name__}")
