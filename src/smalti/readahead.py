"""Reading ahead: units of work begun before their turn and delivered in order, within a budget.

This is the scheduler for the row groups of a file and for the files of a table. Its threads wait for storage most of
the time, so they are apart from the threads that decode buckets (`smalti.threads`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from smalti.memory import asked_limit, default_limit, most_memory
from smalti.sizes import AHEAD_BYTES
from smalti.tasks import Task, Workers, wait_any
from smalti.threads import cpu_count, start

Result = TypeVar("Result")

#: Units begun ahead of their turn where each costs round trips.
REMOTE_READAHEAD = 32
#: Handing a smaller unit of a local file to another thread costs more than it brings.
MIN_LOCAL_BYTES = 1 << 20


@dataclass(frozen=True)
class Unit(Generic[Result]):
    """A piece of work, and an estimate of the bytes that it holds from its start until its result is released."""

    run: Callable[[], Result]
    num_bytes: int = 0


@dataclass(frozen=True)
class Budget:
    """How far to read ahead."""

    #: The most units that are begun and not delivered. With 0, each unit is run when its turn comes, without threads.
    readahead: int
    #: The most bytes that units hold before their turn, unless a single one holds more.
    memory_limit: int = AHEAD_BYTES
    #: The most bytes that the unit whose turn it is takes in addition.
    read_limit: int = AHEAD_BYTES

    @classmethod
    def choose(
        cls, readahead: int | None, memory_limit: int | None, *, is_remote: bool, unit_bytes: int, is_file: bool = False
    ) -> Budget:
        """Return the budget that was asked for, or one that suits the source, whose units have `unit_bytes` on average.

        Row groups of a single local file (`is_file`) are not read ahead: decoding one uses all cores already, and
        holding two would double the memory.

        Examples
        --------
        >>> Budget.choose(None, None, is_remote=True, unit_bytes=10).readahead
        32
        >>> Budget.choose(None, None, is_remote=False, unit_bytes=10).readahead
        0
        """
        if readahead is not None and readahead < 0:
            raise ValueError(f"readahead is a number of units, 0 or more, not {readahead}")
        if memory_limit is not None and memory_limit < 1:
            raise ValueError(f"memory_limit is a number of bytes, 1 or more, not {memory_limit}")
        if readahead is None:
            local = 0 if is_file or unit_bytes < MIN_LOCAL_BYTES or cpu_count() == 1 else cpu_count()
            readahead = REMOTE_READAHEAD if is_remote else local
        memory_limit = asked_limit() if memory_limit is None else memory_limit
        if memory_limit is not None:
            ahead = memory_limit // 2 if readahead else 0
            return cls(readahead, ahead, memory_limit - ahead)
        limit = default_limit(unit_bytes, most_memory())
        return cls(readahead, min(AHEAD_BYTES, limit), limit)


# Threads of a read are not kept for other reads, because each keeps memory for its next allocation: a read that begins
# few units at a time would hold the memory of all threads of an earlier one.


def started(functions: Iterable[Callable[[], Result]], ahead: int) -> Generator[Task[Result], None, None]:
    """Begin functions, and yield their tasks in order; `ahead` functions after the one last yielded are begun too.

    With 0, each function is run when its turn comes, in the thread of the caller.
    """
    if ahead == 0:
        yield from (start(function, 1) for function in functions)
        return
    running: deque[Task[Result]] = deque()
    with Workers(ahead + 1) as pool:
        for function in functions:
            running.append(pool.submit(function))
            if len(running) > ahead:
                yield running.popleft()
                pool.check_process()
        while running:
            yield running.popleft()
            pool.check_process()


def in_order(units: Iterable[Unit[Result] | Task[Any]], budget: Budget) -> Generator[Result, None, None]:
    """Yield the results of units in order, and begin later units ahead as far as the budget allows.

    `units` yields a task where the next unit is not known before that task is done; meanwhile finished results are
    delivered. An error is raised when its unit's turn comes. Closing the generator cancels units that were not begun
    and waits for the others, because they may use files that the caller is about to close; but not for ever.
    """
    if budget.readahead == 0:
        yield from (unit.run() for unit in units if isinstance(unit, Unit))
        return
    waiting = iter(units)
    running: deque[tuple[Task[Result], int]] = deque()
    held = 0
    upcoming = next(waiting, None)
    with Workers(budget.readahead) as pool:
        while upcoming is not None or running:
            while isinstance(upcoming, Unit) and len(running) < budget.readahead:
                if running and held + upcoming.num_bytes > budget.memory_limit:
                    break
                running.append((pool.submit(upcoming.run), upcoming.num_bytes))
                held += upcoming.num_bytes
                upcoming = next(waiting, None)
            if isinstance(upcoming, Task):
                wait_any([upcoming, *(task for task, _ in islice(running, 1))])
                if upcoming.is_done:
                    upcoming = next(waiting, None)
                    continue
            task, num_bytes = running.popleft()
            yield task.result()
            del task  # It holds its result, which only the caller may keep.
            pool.check_process()
            held -= num_bytes
