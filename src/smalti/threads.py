"""The threads of a process: a pool that encodes and decodes, one that waits for object stores; locks, and forks."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Protocol, TypeVar
from weakref import WeakSet

from smalti.errors import MosaicError
from smalti.tasks import CLOSING_SECONDS, Task, Workers

#: Work of fewer bytes than this is not shared with another thread.
MIN_SHARED = 256 << 10
#: Bytes of a run: enough to be worth handing over, and few enough to bound the memory that runs take at a time.
MIN_RUN, MAX_RUN = 128 << 10, 2 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")

#: The most requests that a process makes at the same time. How many of them a read makes depends on the latency, see
#: `smalti.io.connection.Cost.parallel`.
REQUESTS = 512

#: By purpose and number of threads.
_pools: dict[tuple[str, int], Workers] = {}
os.register_at_fork(after_in_child=_pools.clear)  # A forked child has none of its parent's threads.


def cpu_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(threads: int, purpose: str = "compute") -> Workers:
    pool = _pools.get((purpose, threads))
    if pool is None:  # Two threads that come here at once both get the pool of the first.
        pool = _pools.setdefault((purpose, threads), Workers(threads))
    return pool


class OwnLock:
    """A reentrant lock among the threads of the process that has made it. A forked child, which has a copy, is refused.

    `owner` names the object that has the lock, for the message.
    """

    def __init__(self, owner: str) -> None:
        self._name = owner
        self._lock = threading.RLock()
        self._owner = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process has made the lock."""
        return os.getpid() == self._owner

    def __enter__(self) -> None:
        if not self.is_ours:  # A thread that only the parent has may hold the lock, so that waiting would never end.
            raise MosaicError(f"{self._name} belongs to the process that made it; a forked child cannot use it")
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Locked(Protocol):
    """An object with a lock that its reads take."""

    def renew_lock(self) -> None:
        """Make a new lock, and forget what other threads have under way."""


_locked: WeakSet[Locked] = WeakSet()


def renew_in_child(locked: Locked) -> None:
    """Make the lock of an object, and make it anew in every child that is forked while the object exists.

    A thread that only the parent has may hold the lock at the fork, so that the child would wait for ever.
    """
    locked.renew_lock()
    _locked.add(locked)


class ForkedLock:
    """Holds a `lock` that is free in a forked child.

    Users take it themselves: a method that took it could be left by Ctrl-C with the lock locked.
    """

    def __init__(self) -> None:
        renew_in_child(self)

    def renew_lock(self) -> None:
        self.lock = threading.Lock()


def _renew_all() -> None:
    for locked in list(_locked):
        locked.renew_lock()
    if sys.version_info < (3, 12):  # A cached property has one lock for all objects.
        modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "smalti"]
        for kind in {value for module in modules for value in vars(module).values() if isinstance(value, type)}:
            for value in vars(kind).values():
                if isinstance(value, cached_property):
                    vars(value)["lock"] = threading.RLock()


os.register_at_fork(after_in_child=_renew_all)


def request_all(function: Callable[[Item], Result], items: Sequence[Item], parallel: int = REQUESTS) -> list[Result]:
    """Call a function that waits for an answer with each item, `parallel` of them at the same time.

    Threads that only wait may be more than the cores. The function must not call this one, or all threads could wait
    for ever. Each of the threads takes the next item when it is done with one, so that a task for each item is not
    needed. The first error is raised, and items that were not begun then are not run.
    """
    results: list[Result] = [None] * len(items)  # type: ignore[list-item]
    waiting = deque(range(len(items)))

    def run() -> None:
        try:
            while True:
                try:
                    i = waiting.popleft()
                except IndexError:
                    return
                results[i] = function(items[i])
        except BaseException:
            waiting.clear()
            raise

    pool = _pool(REQUESTS, "request")
    try:
        running = [pool.submit(run) for _ in range(min(parallel, len(items)))]
        for task in running:
            task.wait()  # for all, also if one has failed
    finally:
        waiting.clear()
    for task in running:
        task.result()
    return results


def start(function: Callable[[], Result], threads: int) -> Task[Result]:
    """Run a function in the pool, or in the thread of the caller if `threads` is 1."""
    if threads > 1:
        return _pool(threads).submit(function)
    task = Task(function)
    task.run()
    return task


def share_out(weights: Sequence[int], threads: int) -> list[range]:
    """Cut items into runs for threads to work on, by their weights, which are bytes to read or to decompress.

    Handing a run over costs more than working on a few kilobytes, and a run that is too long leaves other threads idle
    at the end. Few bytes are one run. A single thread has runs too, because a whole run is in memory at a time.

    Examples
    --------
    >>> share_out([10, 20, 5], 2)
    [range(0, 3)]
    >>> share_out([100_000, 50_000, 900_000, 300_000], 2)
    [range(0, 2), range(2, 3), range(3, 4)]
    >>> share_out([1_500_000, 400_000, 900_000], 1)
    [range(0, 2), range(2, 3)]
    """
    total = sum(weights)
    if total < MIN_SHARED:
        return [range(len(weights))] if weights else []
    limit = min(max(total // (4 * threads), MIN_RUN), MAX_RUN) if threads > 1 else MAX_RUN
    runs, start, held = [], 0, 0
    for i, weight in enumerate(weights):
        if held and held + weight > limit:
            runs.append(range(start, i))
            start, held = i, 0
        held += weight
    runs.append(range(start, len(weights)))
    return runs


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Map in `threads` threads of the pool, and yield the results in order.

    At most twice as many items as threads are begun before their turn. With one thread, all runs in the thread of the
    caller. An error is raised when its item's turn comes, and items that were not begun are not run.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    pool = _pool(threads)
    running: deque[Task[Result]] = deque()
    try:
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > 2 * threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for task in [task for task in running if not task.cancel()]:
            task.wait(CLOSING_SECONDS)  # The function may still use buffers of the caller.
