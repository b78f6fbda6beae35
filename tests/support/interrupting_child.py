"""Interrupts reads at every place where Ctrl-C can: `python -m tests.support.interrupting_child STEP`.

A thread stands in for the main thread: a trace function raises KeyboardInterrupt in it at one event after the other, in
smalti's code and in Python's own, such as the locks of `threading`. Prints how many reads were interrupted, and how
many threads are left. If a read hangs, an alarm ends the process with the stacks of all threads.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from types import FrameType
from typing import Any

from smalti import threads
from smalti.readahead import Budget, Unit, in_order, started


def _work(number: int) -> int:
    time.sleep(0.0005)
    return number


def _read_ahead() -> None:
    with closing(in_order((Unit(partial(_work, number)) for number in range(5)), Budget(2))) as results:
        assert list(results) == list(range(5))


def _open_ahead() -> None:
    with closing(started((partial(_work, number) for number in range(4)), 2)) as tasks:
        assert [task.result() for task in tasks] == list(range(4))


def _decode() -> None:
    assert list(threads.ordered_map(_work, range(6), 2)) == list(range(6))


def _fetch() -> None:
    assert threads.request_all(_work, range(6), 3) == list(range(6))


#: Threads that may be left beside those that a process keeps: one that Ctrl-C has cut off from its read is seldom.
MOST_LEFT = 8


class Interruption:
    """Runs a function in a thread, and interrupts it at one of its events."""

    def __init__(self, function: Callable[[], None], at: int) -> None:
        self._function, self._at = function, at
        self.events = 0

    def run(self) -> None:
        thread = threading.Thread(target=self._target, daemon=True)
        thread.start()
        thread.join()

    def _target(self) -> None:
        sys.settrace(self._trace)
        try:  # noqa: SIM105 (`suppress` could be interrupted itself)
            self._function()
        except KeyboardInterrupt:
            pass
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        self.events += 1
        if self.events == self._at:
            raise KeyboardInterrupt
        return self._trace


def main() -> None:
    faulthandler.dump_traceback_later(40, exit=True)
    threading.excepthook = sys.unraisablehook = lambda _: None
    step, interrupted = int(sys.argv[1]), 0
    for function in (_read_ahead, _open_ahead, _decode, _fetch):
        at, is_interrupted = 1, True
        while is_interrupted:
            attempt = Interruption(function, at)
            attempt.run()
            is_interrupted = attempt.events >= at
            interrupted, at = interrupted + is_interrupted, at + step
        function()  # The threads of the process work as before.
    kept = 1 + sum(len(pool._threads) for pool in threads._pools.values())
    end = time.monotonic() + 5
    while (left := len(os.listdir("/proc/self/task")) - kept) > MOST_LEFT and time.monotonic() < end:  # noqa: PTH208
        time.sleep(0.01)
    print(interrupted, left, flush=True)


if __name__ == "__main__":
    main()
