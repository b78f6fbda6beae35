"""Functions that threads run. Ctrl-C at any place leaves the threads in order, and waiting for them ends.

Futures and pools of Python have locks that are taken by Python code. Ctrl-C in the thread that waits can leave such a
lock locked: then the thread that runs the function hangs when it has a result, and so does whoever waits for this
thread, even at the end of the process. Here threads talk through `queue.SimpleQueue` alone, which is written in C.
"""

from __future__ import annotations

import atexit
import os
import time
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Self, TypeVar
from weakref import WeakSet

from smalti.errors import MosaicError

Result = TypeVar("Result")

#: Seconds that closing waits for functions that are running. Whatever they use is then closed all the same.
CLOSING_SECONDS = 60.0
#: Seconds between looks whether a function has ended, should Ctrl-C have come in the way of its message.
_LOOK_SECONDS = 1.0


class Task(Generic[Result]):
    """A function that a thread runs."""

    def __init__(self, function: Callable[[], Result]) -> None:
        #: Whoever takes the function out runs it, or cancels it.
        self._function = [function]
        self._result: list[Result] = []
        self._error: BaseException | None = None
        self._bells: list[SimpleQueue[None]] = []
        self.is_done = False

    def run(self) -> None:
        """Run the function, unless the task was cancelled. The thread that waits for the result gets its error."""
        try:
            function = self._function.pop()
        except IndexError:
            return
        try:
            self._result.append(function())
        except BaseException as error:
            self._error = error
        del function  # It may hold buffers.
        self._end()
        del self  # The traceback of an error holds this frame.

    def _end(self) -> None:
        self.is_done = True
        for bell in list(self._bells):
            bell.put(None)

    def cancel(self) -> bool:
        """Return whether the function will not run; False if it was begun."""
        try:
            self._function.pop()
        except IndexError:
            return False
        self._end()
        return True

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the function has ended, or that long."""
        wait_any([self], seconds)

    def result(self) -> Result:
        """Wait for the result of the function, or raise its error."""
        self.wait()
        try:
            if self._error is not None:
                raise self._error
            return self._result[0]
        finally:
            del self


def wait_any(tasks: Sequence[Task[Any]], seconds: float | None = None) -> None:
    """Wait until one of the tasks is done, or that long."""
    bell: SimpleQueue[None] = SimpleQueue()
    for task in tasks:
        task._bells.append(bell)
    end = None if seconds is None else time.monotonic() + seconds
    while not [task for task in tasks if task.is_done]:
        left = _LOOK_SECONDS if end is None else min(_LOOK_SECONDS, end - time.monotonic())
        if left <= 0:
            break
        with suppress(Empty):
            bell.get(timeout=left)
    for task in tasks:
        with suppress(ValueError):
            task._bells.remove(bell)


_open: WeakSet[Workers] = WeakSet()


@atexit.register
def _settle_all() -> None:
    """Let running functions end before the process does, which would stop them anywhere."""
    for workers in list(_open):
        workers.settle()


class Workers:
    """Up to `count` threads, which run functions in the order in which they are submitted.

    They are started when they are needed, and do not keep the process from ending. `threading.Thread` is not used,
    because it waits until the thread has begun, which takes a lock of Python's.
    """

    #: Before `__init__` is done, there is no thread to be ended.
    _count = -1

    def __init__(self, count: int) -> None:
        self._owner = os.getpid()
        self._threads: list[int] = []
        self._tasks: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()
        self._unfinished: set[Task[Any]] = set()
        self._count = count
        _open.add(self)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Task[Result]:
        """Run a function in a thread; in that of the caller if the system starts no thread."""
        task = Task(partial(function, *arguments))
        self._unfinished.add(task)
        try:
            self._start_one()
            if self._threads:
                self._tasks.put(task)
            else:
                task.run()
        finally:  # also after Ctrl-C, unless a thread has the task
            if task.is_done or not self._threads:
                self._unfinished.discard(task)
        return task

    def _start_one(self) -> None:
        """Start another thread if none is idle."""
        try:
            self._idle.get_nowait()
        except Empty:
            if len(self._threads) < self._count:
                with suppress(RuntimeError):
                    self._threads.append(start_new_thread(_work, (self._tasks, self._idle, self._unfinished)))

    def check_process(self) -> None:
        """Refuse a forked child, which has none of the threads; for a generator that goes on after a `yield`."""
        if os.getpid() != self._owner:
            raise MosaicError("a forked child cannot go on with its parent's read; begin another one in the child")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_threads()
        self.settle()

    def settle(self) -> None:
        """Cancel functions that were not begun, and wait for the others, but not for ever."""
        if os.getpid() != self._owner:
            return
        end = time.monotonic() + CLOSING_SECONDS
        for task in [task for task in list(self._unfinished) if not task.cancel()]:
            task.wait(max(0.0, end - time.monotonic()))

    def __del__(self) -> None:
        self._end_threads()  # Ctrl-C may have ended `__exit__`.

    def _end_threads(self) -> None:
        """End the threads after the functions that they have."""
        for _ in range(self._count + 1):
            self._tasks.put(None)


def _work(tasks: SimpleQueue[Task[Any] | None], idle: SimpleQueue[None], unfinished: set[Task[Any]]) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except Empty:
            idle.put(None)
            task = tasks.get()
        if task is None:
            return
        task.run()
        unfinished.discard(task)
        del task  # It holds its result.
