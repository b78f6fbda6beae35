"""The order of the rows of an epoch: a pure function of seed, number of the epoch, and rows of each row group.

Row groups come in random order, and the rows of some consecutive ones, a *window*, are mixed. A share of an epoch is a
stretch of this order, so that the rows of all shares together are all rows, and shares differ by one row at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smalti.errors import MosaicError
from smalti.extras import optional_module

#: What a random order is for, so that two orders of an epoch are independent of each other.
_BLOCKS, _ROWS = 0, 1
_WORD = (1 << 32) - 1


@dataclass(frozen=True)
class Segment:
    """Rows `start` to `stop` of a block, which is a row group or a part of a table that is read at once."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True)
class Window:
    """Segments whose rows are in memory, and mixed, at the same time; `number` is its place among those of a share."""

    number: int
    segments: tuple[Segment, ...]

    @property
    def num_rows(self) -> int:
        return sum(segment.stop - segment.start for segment in self.segments)


@dataclass(frozen=True)
class Order:
    """What decides about the order of rows: the same in every process that takes a share of an epoch."""

    seed: int
    shuffle: bool
    #: The most bytes of a window, unless a single block has more.
    window_bytes: int

    def windows(
        self, epoch: int, counts: Sequence[int], sizes: Sequence[int], share: tuple[int, int] = (0, 1)
    ) -> list[Window]:
        """The windows of a share of an epoch.

        Parameters
        ----------
        epoch : int
        counts, sizes : sequence of int
            Rows of each block, and about how many bytes these take in memory.
        share : tuple of int
            The number of the share, from 0 on, and the number of shares.

        Examples
        --------
        >>> [window.segments for window in Order(0, False, 50).windows(0, [3, 4], [30, 40], (1, 2))]
        [(Segment(block=1, start=0, stop=4),)]
        """
        index, num_shares = share
        total = sum(counts)
        first, last = index * total // num_shares, (index + 1) * total // num_shares
        blocks = self._permutation(len(counts), epoch, _BLOCKS, 0) if self.shuffle else range(len(counts))
        windows: list[Window] = []
        held: list[Segment] = []
        held_bytes = at = 0
        for block in map(int, blocks):
            segment = Segment(block, max(0, first - at), min(counts[block], last - at))
            at += counts[block]
            if segment.start >= segment.stop:
                continue
            num_bytes = sizes[block] * (segment.stop - segment.start) // counts[block]
            if held and held_bytes + num_bytes > self.window_bytes:
                windows.append(Window(len(windows), tuple(held)))
                held, held_bytes = [], 0
            held.append(segment)
            held_bytes += num_bytes
        if held:
            windows.append(Window(len(windows), tuple(held)))
        return windows

    def rows(self, epoch: int, window: Window, share: tuple[int, int]) -> Any:
        """The order of the rows of a window, as indices into those of its segments; None if they stay as they are."""
        if not self.shuffle:
            return None
        return self._permutation(window.num_rows, epoch, _ROWS, window.number, *share)

    def _permutation(self, count: int, epoch: int, *purpose: int) -> Any:
        """A random order. NumPy promises that `RandomState` gives the same numbers in every version."""
        random = optional_module("numpy").random.RandomState
        words = [self.seed & _WORD, self.seed >> 32 & _WORD, epoch & _WORD, *purpose]
        return random(words).permutation(count)


def check_shard(shard: Any) -> tuple[int, int]:
    """Return a shard as two numbers, or raise `MosaicError`."""
    try:
        index, count = shard
    except (TypeError, ValueError):
        index = count = None
    is_whole = all(isinstance(number, int) and not isinstance(number, bool) for number in (index, count))
    if not is_whole or not 0 <= index < count:
        raise MosaicError("no such shard", found=shard, expected="(i, n), with i from 0 to n - 1")
    return index, count


def share_of(shard: tuple[int, int], worker: tuple[int, int]) -> tuple[int, int]:
    """The share of one of several worker processes that read a shard together.

    Examples
    --------
    >>> share_of((1, 2), (0, 3)), share_of((1, 2), (2, 3))
    ((3, 6), (5, 6))
    """
    return shard[0] * worker[1] + worker[0], shard[1] * worker[1]


def share_rows(total: int, share: tuple[int, int]) -> int:
    """How many rows a share has.

    Examples
    --------
    >>> [share_rows(10, (index, 4)) for index in range(4)]
    [2, 3, 2, 3]
    """
    index, count = share
    return (index + 1) * total // count - index * total // count


def num_batches(rows: int, batch_size: int, *, drop_last: bool) -> int:
    return rows // batch_size if drop_last else -(-rows // batch_size)
