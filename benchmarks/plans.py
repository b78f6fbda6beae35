"""What is measured: which works on which data sets, by which peers, how often.

A profile is a list of plans, one for each data set, and an effort. ``headline`` holds what the goals need and takes
about five minutes, ``full`` adds larger tables and growth, ``smoke`` is ``full`` on tiny tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.datasets import DATASETS, Dataset
from benchmarks.peers import PEERS


@dataclass(frozen=True)
class Plan:
    """The works of one data set; writing is always among them.

    ``reads`` counts columns, None being all of them. ``peaks`` names the works whose memory is taken, ``levels`` the
    zstd levels at which the two Mosaic writers are compared besides the common one.
    """

    dataset: Dataset
    reads: tuple[int | None, ...]
    peaks: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    without: tuple[str, ...] = ()
    peaks_without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Effort:
    """How often a work is repeated, after how many seconds a slow peer stops repeating it, and children for a peak."""

    rounds: int
    budget: float
    children: int


# Writers that take half a minute or more for one table are left out of the plans where they do.
SLOW = ("orc", "vortex")

HEADLINE = (
    Plan(
        DATASETS["wide-500"],
        reads=(1, 10, 100, None),
        peaks=("write", "read-all"),
        levels=(1,),
        peaks_without=(*SLOW, "parquet-file"),
    ),
    Plan(DATASETS["wide-10"], reads=(1, None), without=("vortex",)),
    Plan(DATASETS["sparse"], reads=(10,), levels=(1,), without=SLOW),
)

FULL = (
    Plan(DATASETS["wide-500"], reads=(1, 10, 100, None), peaks=("write", "read-1", "read-all"), levels=(1, 3, 19)),
    Plan(DATASETS["wide-10"], reads=(1, 10, None), levels=(1,)),
    Plan(DATASETS["wide-4500"], reads=(1, 10, None), peaks=("write", "read-all"), without=SLOW),
    Plan(DATASETS["sparse"], reads=(1, 10, 100, None), peaks=("write", "read-all"), levels=(1,)),
    Plan(DATASETS["narrow"], reads=(1, None), peaks=("write", "read-all")),
    Plan(DATASETS["growth-1000"], reads=(1,), peaks=("read-1",)),
    Plan(DATASETS["growth-10000"], reads=(1,), peaks=("read-1",)),
    Plan(DATASETS["growth-30000"], reads=(1,), peaks=("read-1",), without=SLOW),
    Plan(DATASETS["growth-100000"], reads=(1,), peaks=("read-1",), without=SLOW),
)


def tiny(plan: Plan) -> Plan:
    """The same plan on a table small enough for a test; memory is taken of a few works and peers only."""
    columns = min(24, plan.dataset.columns)
    dataset = replace(plan.dataset, columns=columns, rows=min(40, plan.dataset.rows))
    reads = dict.fromkeys(count if count is None else min(count, columns) for count in plan.reads)
    peaks = ("write", "read-1") if plan.dataset.name == "wide-500" else ()
    few = tuple(name for name in PEERS if name not in ("smalti", "reference", "parquet"))
    return replace(plan, dataset=dataset, reads=tuple(reads), peaks=peaks, peaks_without=few, without=())


PROFILES: dict[str, tuple[tuple[Plan, ...], Effort]] = {
    "headline": (HEADLINE, Effort(rounds=9, budget=5.0, children=2)),
    "full": (FULL, Effort(rounds=11, budget=10.0, children=3)),
    "smoke": (tuple(tiny(plan) for plan in FULL), Effort(rounds=1, budget=1.0, children=1)),
}


def work_of(count: int | None) -> str:
    """The name of reading this many columns."""
    return "read-all" if count is None else f"read-{count}"
