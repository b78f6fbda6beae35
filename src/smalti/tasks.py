"""Tasks and worker threads. Ctrl-C at any point leaves them usable, and closing waits for a limited time.

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

#: Longest wait in seconds for running tasks when they are closed. What they use is closed after that in any case.
CLOSING_SECONDS = 60.0
#: Polling interval in seconds, in case Ctrl-C kept the message of a finished task from arriving.
_POLL_SECONDS = 1.0


class Task(Generic[Result]):
    """A function to be run by a worker, and its result."""

    def __init__(self, function: Callable[[], Result]) -> None:
        #: Whoever pops the function runs or cancels it.
        self._function = [function]
        self._result: list[Result] = []
        self._error: BaseException | None = None
        self._waiters: list[SimpleQueue[None]] = []
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
        for waiter in list(self._waiters):
            waiter.put(None)

    def cancel(self) -> bool:
        """Return whether the function will not run; False if it was begun."""
        try:
            self._function.pop()
        except IndexError:
            return False
        self._end()
        return True

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the task is done, at most `seconds`."""
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
    """Wait until one of the tasks is done, at most `seconds`."""
    waiter: SimpleQueue[None] = SimpleQueue()
    for task in tasks:
        task._waiters.append(waiter)
    end = None if seconds is None else time.monotonic() + seconds
    while not [task for task in tasks if task.is_done]:
        left = _POLL_SECONDS if end is None else min(_POLL_SECONDS, end - time.monotonic())
        if left <= 0:
            break
        with suppress(Empty):
            waiter.get(timeout=left)
    for task in tasks:
        with suppress(ValueError):
            task._waiters.remove(waiter)


_open: WeakSet[Workers] = WeakSet()


@atexit.register
def _finish_all() -> None:
    """Let running tasks finish before the process ends, which would stop them at any point."""
    for workers in list(_open):
        workers.finish()


class Workers:
    """Up to `count` threads, which run functions in the order in which they are submitted.

    They are started when they are needed, and do not keep the process from ending. `threading.Thread` is not used,
    because it waits until the thread has begun, which takes a lock of Python's.
    """

    #: Until `__init__` is done, there are no threads to end.
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
        """Run a function in a worker thread; in the caller's thread if the system cannot start one."""
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
        """Refuse to go on in a forked child, which has none of the threads. Generators call it after each `yield`."""
        if os.getpid() != self._owner:
            raise MosaicError("a forked child cannot continue its parent's read; start a new one in the child")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_threads()
        self.finish()

    def finish(self) -> None:
        """Cancel tasks that were not begun, and wait a limited time for the others."""
        if os.getpid() != self._owner:
            return
        end = time.monotonic() + CLOSING_SECONDS
        for task in [task for task in list(self._unfinished) if not task.cancel()]:
            task.wait(max(0.0, end - time.monotonic()))

    def __del__(self) -> None:
        self._end_threads()  # Ctrl-C may have ended `__exit__`.

    def _end_threads(self) -> None:
        """End each thread after its current task."""
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
