"""A progress bar for jobs and long reads: drawn on a terminal, silent elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from smalti.progress import Progress

#: Seconds between two drawings.
INTERVAL = 0.1


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
        self._last = 0.0  # when the bar was last drawn; 0 if never
        self._started = time.monotonic()

    def __enter__(self) -> Callable[[Progress], None] | None:
        """The listener to hand to a job or a scan, or None if the stream is not a terminal."""
        return self._show if self._stream.isatty() else None

    def __exit__(self, *_: object) -> None:
        if self._last:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self, event: Progress) -> None:
        now = time.monotonic()
        if now - self._last < INTERVAL:
            return
        self._last = now
        self._stream.write("\r" + line(event, now - self._started, shutil.get_terminal_size().columns) + "\x1b[K")
        self._stream.flush()


def line(event: Progress, elapsed: float, width: int) -> str:
    """The bar at one moment."""
    fraction = max(0.0, min(1.0, event.fraction))
    left = f", {elapsed * (1 - fraction) / fraction:,.0f} s left" if 0.02 < fraction < 1 else ""
    text = f" {fraction:4.0%}  {event.num_rows:,} rows{left}"
    room = max(5, min(40, width - len(text) - len(event.job) - 4))
    full = round(room * fraction)
    return f"{event.job} {'█' * full}{'░' * (room - full)}{text}"[: max(1, width - 1)]
