"""Files that count what is asked of them: how many requests, how many bytes.

A request is one read call a library makes on the file it was given. On object storage each would be a round trip,
which is why they are reported beside the seconds of a local disk.
"""

from __future__ import annotations

import io
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Traffic:
    """What one read asked for."""

    requests: int = 0
    bytes_read: int = 0


class PositionedFile:
    """Thread-safe reads at an offset: the shape the Rust reference and Vortex ask for."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self.length = os.fstat(self._fd).st_size

    def size(self) -> int:
        return self.length

    def read_at(self, offset: int, length: int) -> bytes:
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> PositionedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CountingPositionedFile(PositionedFile):
    """The same, counted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.traffic = Traffic()
        self._lock = threading.Lock()

    def read_at(self, offset: int, length: int) -> bytes:
        data = super().read_at(offset, length)
        with self._lock:
            self.traffic.requests += 1
            self.traffic.bytes_read += len(data)
        return data


class CountingFile(io.RawIOBase):
    """A binary file object, counted: the shape pyarrow and smalti ask for."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self.traffic = Traffic()

    def readinto(self, buffer: memoryview) -> int:
        count = self._file.readinto(buffer)
        self.traffic.requests += 1
        self.traffic.bytes_read += count
        return count

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class Link:
    """A file behind a network: every read takes a round trip, and all reads share the bandwidth, in bytes per second.

    Attributes
    ----------
    reads : list of (float, float, int)
        When each read began and ended, in seconds, and its bytes.
    """

    def __init__(self, path: Path, latency: float, bandwidth: float) -> None:
        self._file = PositionedFile(path)
        self._latency = latency
        self._bandwidth = bandwidth
        self._lock = threading.Lock()
        self._free = 0.0
        self.reads: list[tuple[float, float, int]] = []
        self.length = self._file.length

    def read_at(self, offset: int, length: int) -> bytes:
        began = time.monotonic()
        data = self._file.read_at(offset, length)
        with self._lock:
            # The bytes of a read follow those of the reads before it.
            self._free = ended = max(self._free, began + self._latency) + length / self._bandwidth
            self.reads.append((began, ended, length))
        time.sleep(max(0.0, ended - time.monotonic()))
        return data

    def close(self) -> None:
        self._file.close()
