"""A file behind a network without a network: its reads are counted, and grouped into rounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import smalti
from smalti.io.connection import Connection, Cost


class Store:
    """A file in a store. What is asked for together is one round.

    Attributes
    ----------
    rounds : list of list of (int, int)
        The ranges of each round, as offset and size; the first is that of opening the file.
    """

    def __init__(self, data: bytes, cost: Cost | None = None) -> None:
        self.rounds: list[list[tuple[int, int]]] = []
        self._data = data
        self._lock = threading.Lock()
        self._source = smalti.ReadAt(self._read_at, len(data), is_remote=True, connection=Connection(cost))

    def _read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            self.rounds[-1].append((offset, size))
        return self._data[offset : offset + size]

    @contextmanager
    def opened(self, **options: Any) -> Iterator[smalti.MosaicFile]:
        """The file, opened from cold."""
        self.rounds = [[]]
        with smalti.open(self._source, cache_bytes=0, **options) as file:
            _before(file._source, "read_many", self._begin)
            yield file

    def _begin(self) -> None:
        if self.rounds[-1]:
            self.rounds.append([])

    @property
    def num_bytes(self) -> int:
        return sum(size for ranges in self.rounds for _, size in ranges)


def _before(target: Any, name: str, act: Callable[[], None]) -> None:
    """Call `act` before a method of an object."""
    method = getattr(target, name)

    def called(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        act()
        return method(ranges)

    setattr(target, name, called)
