"""What reading from a store costs in time: latency, requests and bytes, measured while a connection is used, or given.

A read of several requests at once takes about

    latency + requests * seconds of a request + bytes * seconds of a byte

The seconds of a request are what one more request adds to many that are under way: at least the latency divided by the
number of requests that are made at the same time, and more if client or server are slow with each. Whoever plans ranges
asks for a `Cost`; sources report to a `Connection` what their reads have taken.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from smalti.threads import REQUESTS, renew_in_child

#: Environment variables that set the numbers for all stores of a process, which are then not measured: seconds that a
#: request takes to be answered, and bytes per second.
LATENCY, BANDWIDTH = "SMALTI_LATENCY", "SMALTI_BANDWIDTH"
#: The fewest requests at the same time, and the most in a second; `REQUESTS` is the most at the same time.
LEAST_REQUESTS, MOST_PER_SECOND = 128, 10_000
#: Each read counts this much less with every read after it, because networks change.
_MEMORY = 0.97
#: Reads at the same time count as one if they make so many requests together that no round trip is felt.
_MANY = 1000
#: The weight of the start value beside one read: it decides only what reads have not told yet.
_START_WEIGHT = 0.01
#: Measured numbers are this many times smaller or larger than the start values at most.
_RANGE = 30.0


@dataclass(frozen=True)
class Cost:
    """Seconds that a round trip takes, that each of many requests adds, and that each byte adds.

    Examples
    --------
    >>> Cost(latency=0.1, request=0.001, byte=1e-8).gap
    100000
    """

    latency: float
    request: float
    byte: float

    @property
    def parallel(self) -> int:
        """How many requests to make at the same time: at most 10,000 in a second, which is what services expect."""
        return min(REQUESTS, max(LEAST_REQUESTS, int(self.latency * MOST_PER_SECOND)))

    @property
    def gap(self) -> int:
        """The number of bytes that take as long as one more request."""
        return int(self.request / self.byte)

    def seconds(self, requests: int, num_bytes: int) -> float:
        """Estimated time of requests that are made at once."""
        return self.latency + requests * self.request + num_bytes * self.byte if requests else 0.0


def cost_of(latency: float, request: float, byte: float) -> Cost:
    """A cost whose requests take no less than the latency, divided by the number of requests at the same time."""
    cost = Cost(latency, request, byte)
    return replace(cost, request=max(request, latency / cost.parallel))


#: What is assumed until something was measured: an object store in the same region, where one more request takes as
#: long as 30 kB.
START = Cost(latency=0.05, request=0.0003, byte=1e-8)


@dataclass
class Timed:
    """A read that is being measured."""

    num_bytes: int


class Connection:
    """Measures what reads of one store take. Safe to use from several threads.

    Reads at the same time share the bandwidth, and may wait for each other, so that a read counts only if no other one
    was under way, or if all that were under way made many requests together. The three numbers are fitted to the reads
    by least squares of the relative errors, each number in units of its start value, and all pulled a little towards
    the start values.
    """

    def __init__(self, given: Cost | None = None) -> None:
        self._given = given or _given()
        renew_in_child(self)
        self._products = [[0.0] * 3 for _ in range(3)]
        self._sums = [0.0] * 3
        #: Since reads are under way without a pause: the time, their number, requests, bytes; and whether none failed.
        self._since = 0.0
        self._reads = self._requests = self._bytes = 0
        self._is_sound = True
        self.cost = self._given or START

    def renew_lock(self) -> None:
        self._lock, self._under_way = threading.Lock(), 0

    def __reduce__(self) -> tuple[type[Connection], tuple[Cost | None]]:
        """Other processes measure by themselves."""
        return Connection, (self._given,)

    @contextmanager
    def timed(self, requests: int, num_bytes: int = 0) -> Iterator[Timed]:
        """Measure a read of some requests, which are made in the block; it may say later how many bytes they had."""
        timed = Timed(num_bytes)
        if self._given is not None or not requests:
            yield timed
            return
        with self._lock:
            if self._under_way == 0:
                self._since, self._is_sound = time.perf_counter(), True
                self._reads = self._requests = self._bytes = 0
            self._under_way += 1
        try:
            yield timed
        except BaseException:
            self._is_sound = False
            raise
        finally:
            with self._lock:
                self._under_way -= 1
                self._reads += 1
                self._requests += requests
                self._bytes += timed.num_bytes
                if self._under_way == 0 and self._is_sound and (self._reads == 1 or self._requests >= _MANY):
                    self._learn(self._requests, self._bytes, max(time.perf_counter() - self._since, 1e-6))

    def _learn(self, requests: int, num_bytes: int, seconds: float) -> None:
        parts = (START.latency / seconds, requests * START.request / seconds, num_bytes * START.byte / seconds)
        for i, one in enumerate(parts):
            self._sums[i] = self._sums[i] * _MEMORY + one
            for j, other in enumerate(parts):
                self._products[i][j] = self._products[i][j] * _MEMORY + one * other
        rows = [
            [value + _START_WEIGHT * (i == j) for j, value in enumerate(row)] for i, row in enumerate(self._products)
        ]
        latency, request, byte = _least_squares(rows, [total + _START_WEIGHT for total in self._sums])
        self.cost = cost_of(latency * START.latency, request * START.request, byte * START.byte)


def _least_squares(rows: list[list[float]], right: list[float]) -> list[float]:
    """Solve symmetric equations of positive definite matrix, each unknown held within `_RANGE` of 1.

    By coordinate descent, which holds the bounds exactly; the few unknowns settle in a few dozen sweeps.
    """
    found = [1.0] * len(right)
    for _ in range(60):
        for i, row in enumerate(rows):
            rest = right[i] - sum(row[j] * found[j] for j in range(len(found)) if j != i)
            found[i] = min(max(rest / row[i], 1 / _RANGE), _RANGE)
    return found


def _given() -> Cost | None:
    """The cost that the environment sets; None if it sets none. One of the two numbers is enough."""
    numbers = {}
    for name in (LATENCY, BANDWIDTH):
        text = os.environ.get(name)
        if text is not None:
            try:
                numbers[name] = float(text)
            except ValueError:
                numbers[name] = 0.0
            if not 0 < numbers[name] < float("inf"):
                raise ValueError(f"{name} is a number above 0, not {text!r}")
    if not numbers:
        return None
    return cost_of(numbers.get(LATENCY, START.latency), 0.0, 1 / numbers.get(BANDWIDTH, 1 / START.byte))
