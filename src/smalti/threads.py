"""The threads of a process: a bounded pool that decodes and encodes, another that waits for object stores, and the lock
that writers share among the threads that use them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from smalti.errors import MosaicError

#: Work of fewer bytes than this is not shared with another thread.
MIN_SHARED = 256 << 10
#: Bytes of a run: enough to be worth handing over, and few enough to bound what is in memory at a time.
MIN_RUN, MAX_RUN = 128 << 10, 2 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Requests of this process that are under way at once: one for each of the 100 buckets that files often have, and more.
REQUESTS = 128

#: By name and number of threads.
_pools: dict[tuple[str, int], ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # A forked child has none of its parent's threads; Windows does not fork.
    os.register_at_fork(after_in_child=_pools.clear)


def cpu_count() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pool(threads: int, name: str = "smalti") -> ThreadPoolExecutor:
    pool = _pools.get((name, threads))
    if pool is None:  # Of two threads that come here at once, both get the pool of the first.
        pool = _pools.setdefault((name, threads), ThreadPoolExecutor(threads, thread_name_prefix=name))
    return pool


class OwnLock:
    """A lock among the threads of the process that has made it. A forked child, which has a copy, is refused.

    A thread that has the lock may take it again.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.RLock()
        self._owner = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that has made the lock."""
        return os.getpid() == self._owner

    def __enter__(self) -> None:
        if not self.is_ours:  # A thread of the parent, which is not here, may have had the lock: never wait for it.
            raise MosaicError(f"{self._what} belongs to the process that made it; a forked child cannot use it")
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def request_pool() -> ThreadPoolExecutor:
    """The threads that wait for answers of object stores. They do nothing else, so they may be more than the cores.

    What runs there never waits for anything else that runs there, or the pool could come to a standstill.
    """
    return _pool(REQUESTS, "smalti-request")


def start(function: Callable[[], Result], threads: int) -> Future[Result]:
    """Run a function in the pool, or right here if there is only one thread."""
    if threads > 1:
        return _pool(threads).submit(function)
    done: Future[Result] = Future()
    done.set_result(function())
    return done


def share_out(weights: Sequence[int], threads: int) -> list[range]:
    """Cut items into runs for threads to work on, by their weights, which are bytes to read or to decompress.

    Handing a run over costs more than working on a few kilobytes, and a run that is too long leaves other threads idle
    at the end. What is not worth a second thread is one run. A single thread has runs too, because what a run holds is
    in memory at a time.

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


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int | None = None
) -> Iterator[Result]:
    """Map in `threads` threads of the pool, and yield the results in order.

    At most `ahead` items (by default twice the threads) are begun before their result is taken. With one thread, all
    runs in the thread of the caller. An error is raised when its item's turn comes, and items not yet begun are not
    run.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    pool = _pool(threads)
    waiting = iter(items)
    running: list[Future[Result]] = [pool.submit(function, item) for item in islice(waiting, ahead or 2 * threads)]
    try:
        while running:
            done = running.pop(0)
            result = done.result()
            running.extend(pool.submit(function, item) for item in islice(waiting, 1))
            yield result
    finally:
        for future in running:
            future.cancel()
        for future in running:
            if not future.cancelled():
                future.exception()  # Wait for it: it may still use buffers of the caller.
