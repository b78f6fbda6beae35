"""Progress of jobs and long reads: frozen events, the meter that adds up the reports of all threads, and a bar."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO, TypeAlias

#: Seconds between two drawings of a bar.
INTERVAL = 0.1
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


#: What users pass to be told of progress: a function, or True for a bar on stderr.
Listener: TypeAlias = Callable[[Progress], None] | bool


class Meter:
    """Adds up the reports of tasks and calls a listener, in one thread at a time."""

    def __init__(self, job: str, total: int, total_bytes: int, listener: Listener | None) -> None:
        self._now = Progress(job, 0, total, 0, total_bytes, 0)
        self._listener = drawn_on(sys.stderr) if listener is True else listener or None
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


def drawn_on(stream: TextIO) -> Callable[[Progress], None]:
    """A listener that draws a bar on a terminal, and elsewhere prints one line when all is done."""
    bar, started, is_done = ProgressBar(stream), time.monotonic(), False

    def show(event: Progress) -> None:
        nonlocal is_done
        if event.done < event.total:
            bar.show(event)
        elif bar.is_terminal:
            bar.remove()
        elif not is_done:
            is_done = True
            stream.write(f"{event.job}: {event.num_rows:,} rows in {time.monotonic() - started:.1f} s\n")

    return show


class ProgressBar:
    """Draws the progress that a job or a read reports, on one line of a terminal, and removes the line at the end.

    Examples
    --------
    >>> import io
    >>> with ProgressBar(io.StringIO()) as listener:
    ...     print(listener)
    None
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self._last = 0.0  # when the bar was last drawn; 0 if never
        self._started = time.monotonic()
        self._first: float | None = None  # the fraction at the beginning, which an earlier run may have done
        self.fraction = 0.0

    def __enter__(self) -> Callable[[Progress], None] | None:
        """The listener to hand to a job or a scan, or None if the stream is not a terminal."""
        return self.show if self.is_terminal else None

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the bar from the terminal."""
        if self._last:
            self._last = 0.0
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, event: Progress) -> None:
        """Draw the bar, unless that was done a moment ago."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._started = event.fraction, now
        if not self.is_terminal or now - self._last < INTERVAL:
            return
        import shutil  # A read without a bar does without it.

        self._last = now
        width = shutil.get_terminal_size().columns
        self._stream.write("\r" + line(event, now - self._started, width, self._first) + "\x1b[K")
        self._stream.flush()


def line(event: Progress, elapsed: float, width: int, first: float = 0.0) -> str:
    """The bar at one moment; `first` is what an earlier run had done already when the time began."""
    fraction = max(0.0, min(1.0, event.fraction))
    done = fraction - first
    left = f", {elapsed * (1 - fraction) / done:,.0f} s left" if done > 0.02 and fraction < 1 else ""
    text = f" {fraction:4.0%}  {event.num_rows:,} rows{left}"
    room = max(5, min(40, width - len(text) - len(event.job) - 4))
    full = round(room * fraction)
    return f"{event.job} {'█' * full}{'░' * (room - full)}{text}"[: max(1, width - 1)]
