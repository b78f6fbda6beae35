"""Progress while a job runs: frozen events, and the meter that counts them up from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

#: What a task calls as it goes: rows done, bytes of the source done.
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    Attributes
    ----------
    job : str
        "convert", "compact", "verify" or "profile".
    done, total : int
        Splits finished, those of an earlier run included, and splits in all.
    num_bytes, total_bytes : int
        Bytes of the source that have been read, and bytes in all.
    num_rows : int
        Rows done in this run.
    """

    job: str
    done: int
    total: int
    num_bytes: int
    total_bytes: int
    num_rows: int

    @property
    def fraction(self) -> float:
        """From 0 to 1, by bytes where they are known."""
        if self.done >= self.total:
            return 1.0
        return min(1.0, self.num_bytes / self.total_bytes) if self.total_bytes else self.done / self.total


class Meter:
    """Adds up what tasks report and tells the listener; listeners are called one at a time."""

    def __init__(self, job: str, total: int, total_bytes: int, listener: Callable[[Progress], None] | None) -> None:
        self._now = Progress(job, 0, total, 0, total_bytes, 0)
        self._listener = listener
        self._lock = threading.Lock()

    def add(self, num_rows: int, num_bytes: int) -> None:
        """A task has read so much more."""
        self._tell(done=0, num_rows=num_rows, num_bytes=num_bytes)

    def finish(self, count: int = 1) -> None:
        """So many more splits are done."""
        self._tell(done=count)

    def _tell(self, *, done: int = 0, num_rows: int = 0, num_bytes: int = 0) -> None:
        with self._lock:
            now = self._now
            self._now = Progress(
                now.job,
                min(now.total, now.done + done),
                now.total,
                min(now.total_bytes, now.num_bytes + num_bytes),
                now.total_bytes,
                now.num_rows + num_rows,
            )
            if self._listener is not None:
                self._listener(self._now)
