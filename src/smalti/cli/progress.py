"""What Ctrl-C does to a job, beside its progress bar."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from smalti.progress import Progress, ProgressBar

INTERRUPTED = 130


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
