"""Progress of jobs and long reads: frozen events, and the meter that adds up the reports of all threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

#: A function that a task calls with the rows and the bytes of the source that it has read since the last call.
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Progress:
    """The progress of a job or a read.

    Attributes
    ----------
    job : str
        "convert", "compact", "verify", "profile" or "read".
    done, total : int
        Splits that are finished, including those of an earlier run, and splits in all. The splits of a read are its
        files, or the row groups of a single file.
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
        """The part that is done, from 0 to 1: of the bytes if they are known, else of the splits."""
        if self.done >= self.total:
            return 1.0
        return min(1.0, self.num_bytes / self.total_bytes) if self.total_bytes else self.done / self.total


#: A function that users pass to be told of progress.
Listener = Callable[[Progress], None]


class Meter:
    """Adds up the reports of tasks and calls a listener, in one thread at a time."""

    def __init__(self, job: str, total: int, total_bytes: int, listener: Listener | None) -> None:
        self._now = Progress(job, 0, total, 0, total_bytes, 0)
        self._listener = listener
        self._lock = threading.Lock()

    def add(self, num_rows: int, num_bytes: int, done: int = 0) -> None:
        """Count rows and bytes that were read and splits that are done, and call the listener."""
        with self._lock:
            now = self._now
            self._now = replace(
                now,
                done=min(now.total, now.done + done),
                num_bytes=min(now.total_bytes, now.num_bytes + num_bytes),
                num_rows=now.num_rows + num_rows,
            )
            if self._listener is not None:
                self._listener(self._now)
