"""The goals smalti set itself (issues 3 and 11), as data, and the arithmetic that says which are reached.

A goal compares one figure of ours with the same figure of a peer in the same run. Nothing here is a result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.measure import Measurement

OURS = "smalti"
Figure = Literal["seconds", "file_bytes", "peak_bytes"]


@dataclass(frozen=True)
class Goal:
    """Seconds: ``factor`` times faster than the peer, or more. Bytes: ``factor`` times the peer's, or less."""

    title: str
    dataset: str
    work: str
    figure: Figure
    peer: str
    factor: float
    ours: str = OURS


@dataclass(frozen=True)
class Outcome:
    """A goal beside what was measured; ``measured`` and ``reached`` are None when either side is missing."""

    goal: Goal
    measured: float | None
    of_medians: float | None

    @property
    def reached(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.goal.factor if self.goal.figure == "seconds" else self.measured <= self.goal.factor

    def to_json(self) -> dict[str, Any]:
        return {**vars(self.goal), "measured": self.measured, "of_medians": self.of_medians, "reached": self.reached}


def _speed(title: str, dataset: str, work: str, reference: float, parquet: float) -> list[Goal]:
    return [
        Goal(title, dataset, work, "seconds", "reference", reference),
        Goal(title, dataset, work, "seconds", "parquet", parquet),
    ]


def _size(title: str, dataset: str, work: str = "write", factor: float = 1.01) -> Goal:
    return Goal(title, dataset, work, "file_bytes", "reference", factor)


def _memory(title: str, work: str) -> list[Goal]:
    return [Goal(title, "wide-500", work, "peak_bytes", peer, 1.0) for peer in ("reference", "parquet")]


def _filters() -> list[Goal]:
    """Never slower than pq.read_table; at most 1.5 times the time of Polars where statistics decide."""
    titles = {
        "none": "no filter",
        "hundredth": "statistics find 1 %",
        "scattered": "0.1 %, scattered",
        "run": "1 of 10",
    }
    goals = []
    for ours, theirs, rows in (("statistics", "parquet", ""), ("groups", "parquet-groups", ", ten row groups")):
        for case, title in titles.items():
            name = f"50 of 2,000, {title}{rows}"
            goals.append(Goal(name, "telemetry", f"filter-{case}", "seconds", theirs, 1, f"smalti-{ours}"))
    for case in ("hundredth", "run"):
        name = f"50 of 2,000, {titles[case]}, ten row groups"
        goals.append(Goal(name, "telemetry", f"filter-{case}", "seconds", "polars-groups", 1 / 1.5, "smalti-groups"))
    return goals


GOALS: tuple[Goal, ...] = (
    *_speed("open and read 1 of 10,000", "wide-500", "read-1", 10, 30),
    *_speed("read 10 of 10,000, scattered", "wide-500", "read-10", 5, 12),
    *_speed("read 100 of 10,000, scattered", "wide-500", "read-100", 2, 2),
    *_speed("read all 10,000", "wide-500", "read-all", 1.5, 3),
    *_speed("write 500 rows", "wide-500", "write", 2, 1.2),
    *_speed("write 10 rows", "wide-10", "write", 6, 3),
    *_speed("4,500 rows: open and read 1 of 10,000", "wide-4500", "read-1", 5, 15),
    *_speed("4,500 rows: read 10 of 10,000", "wide-4500", "read-10", 2, 5),
    *_speed("4,500 rows: read 100 of 10,000", "wide-4500", "read-100", 1.5, 2),
    *_speed("4,500 rows: write", "wide-4500", "write", 2, 1.2),
    *_speed("sparse: read 10", "sparse", "read-10", 4, 8),
    *_speed("sparse: write", "sparse", "write", 1.5, 1.5),
    *_filters(),
    _size("size, 500 rows, level 9", "wide-500", factor=1.02),
    _size("size, 500 rows, level 1", "wide-500", "write-level-1", factor=1.02),
    _size("size, 10 rows, level 9", "wide-10"),
    _size("size, 4,500 rows, level 9", "wide-4500", factor=1.10),
    _size("size, sparse, level 9", "sparse"),
    _size("size, sparse, level 1", "sparse", "write-level-1"),
    *_memory("peak memory of write", "write"),
    *_memory("peak memory of read-all", "read-all"),
)


def outcomes(results: Iterable[Measurement], goals: Iterable[Goal] = GOALS) -> list[Outcome]:
    """Every goal with the ratio measured; for times best against best, with median against median beside it.

    Times are compared over the rounds both took part in: the best of nine against the best of three flatters the nine.
    """
    known = {(result.dataset, result.work, result.peer): result for result in results}
    found = []
    for goal in goals:
        ours = known.get((goal.dataset, goal.work, goal.ours))
        theirs = known.get((goal.dataset, goal.work, goal.peer))
        if ours is None or theirs is None:
            found.append(Outcome(goal, None, None))
        elif goal.figure == "seconds":
            pairs = list(zip(theirs.seconds, ours.seconds, strict=False))
            found.append(Outcome(goal, ratio_of(min, pairs), ratio_of(statistics.median, pairs)))
        else:
            found.append(Outcome(goal, ratio(getattr(ours, goal.figure), getattr(theirs, goal.figure)), None))
    return found


def ratio_of(choose: Callable[[list[float]], float], pairs: list[tuple[float, float]]) -> float | None:
    """The chosen one of the first members over the chosen one of the second."""
    if not pairs:
        return None
    above, below = zip(*pairs, strict=True)
    return choose(list(above)) / choose(list(below))


def ratio(above: float | None, below: float | None) -> float | None:
    """One over the other, or None when there is nothing to compare."""
    return above / below if above is not None and below else None
