"""A progress bar for jobs and long reads, drawn on a terminal and silent elsewhere, and what Ctrl-C does to a job."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from smalti.progress import Progress

#: Seconds between two drawings.
INTERVAL = 0.1
INTERRUPTED = 130


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
        self._is_terminal = stream.isatty()
        self._last = 0.0  # when the bar was last drawn; 0 if never
        self._started = time.monotonic()
        self._first: float | None = None  # the fraction at the beginning, which an earlier run may have done
        self.fraction = 0.0

    def __enter__(self) -> Callable[[Progress], None] | None:
        """The listener to hand to a job or a scan, or None if the stream is not a terminal."""
        return self.show if self._is_terminal else None

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
        if not self._is_terminal or now - self._last < INTERVAL:
            return
        self._last = now
        width = shutil.get_terminal_size().columns
        self._stream.write("\r" + line(event, now - self._started, width, self._first) + "\x1b[K")
        self._stream.flush()


@contextlib.contextmanager
def job_progress(stream: TextIO, *, resumes: bool = False) -> Iterator[Callable[[Progress], None]]:
    """The listener to hand to a job, which draws a bar on a terminal, and lets Ctrl-C stop the job in an orderly way.

    The first Ctrl-C says at once what is going on. A job that `resumes` finishes the files that it is writing, which
    the next run keeps; another one ends at its next report. A second Ctrl-C ends the process, like a kill.
    """
    bar = ProgressBar(stream)
    stopped = False

    def listen(event: Progress) -> None:
        bar.fraction = event.fraction
        if not stopped:
            bar.show(event)
        elif not resumes:
            raise KeyboardInterrupt  # in the thread of a task, whose result nobody waits for any more

    def interrupt(_: int, __: object) -> None:
        nonlocal stopped
        bar.remove()
        if stopped:
            write("stopped\n")
            os._exit(INTERRUPTED)
        stopped = True
        write("stopping after the current file ... (Ctrl-C again stops at once)\n" if resumes else "stopping ...\n")
        raise KeyboardInterrupt

    def write(text: str) -> None:
        # Not through the buffer of the stream: the main thread may be in the middle of a write to it.
        with contextlib.suppress(OSError, ValueError):
            os.write(stream.fileno(), text.encode())

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, interrupt) if is_main else None
    try:
        yield listen
    except KeyboardInterrupt:
        bar.remove()
        then = "; run the same command to continue" if resumes else ""
        print(f"interrupted at {100 * bar.fraction:.0f} %{then}", file=stream, flush=True)
        raise
    finally:
        bar.remove()
        if is_main:
            signal.signal(signal.SIGINT, before)


def line(event: Progress, elapsed: float, width: int, first: float = 0.0) -> str:
    """The bar at one moment; `first` is what an earlier run had done already when the time began."""
    fraction = max(0.0, min(1.0, event.fraction))
    done = fraction - first
    left = f", {elapsed * (1 - fraction) / done:,.0f} s left" if done > 0.02 and fraction < 1 else ""
    text = f" {fraction:4.0%}  {event.num_rows:,} rows{left}"
    room = max(5, min(40, width - len(text) - len(event.job) - 4))
    full = round(room * fraction)
    return f"{event.job} {'█' * full}{'░' * (room - full)}{text}"[: max(1, width - 1)]
