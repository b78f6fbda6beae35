"""What is measured: which works on which data sets, by which peers, how often.

A profile is a list of plans, one for each data set, and an effort. ``headline`` holds what the goals need and takes
about ten minutes, ``full`` adds larger tables and growth, ``layouts`` compares the layouts of our files at every number
of columns. Each has a smoke form: the same plans on tiny tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.datasets import DATASETS, Dataset
from benchmarks.peers import FORMATS


@dataclass(frozen=True)
class Plan:
    """The works of one data set; writing is always among them.

    ``reads`` counts columns, None being all of them. ``peaks`` names the works whose memory is taken, ``levels`` the
    zstd levels at which the two Mosaic writers are compared besides the common one. ``filtered`` counts the columns of
    reads with a filter, ``repeats`` the single columns read one after the other from a file that is kept open, by
    the peers of ``REPEATING``.
    """

    dataset: Dataset
    reads: tuple[int | None, ...]
    peers: tuple[str, ...] = FORMATS
    peaks: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    filtered: int | None = None
    repeats: int | None = None
    peaks_without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Effort:
    """How often a work is repeated, after how many seconds a slow peer stops repeating it, and children for a peak."""

    rounds: int
    budget: float
    children: int


# Writers that take half a minute or more for one table are left out of the plans where they do.
SLOW = ("orc", "vortex")
QUICK = tuple(name for name in FORMATS if name not in SLOW)

# Those that can keep a file, or something that knows of it, between reads.
REPEATING = ("smalti", "reference", "parquet-file", "feather", "lance")

# Ours and Parquet's, with their default row groups and with ten, by the two readers of Parquet.
FILTERING = ("smalti-statistics", "smalti-groups", "parquet", "parquet-groups", "polars", "polars-groups")

# Those that take lists of one length.
VECTORS = ("smalti", "smalti-small", "parquet", "parquet-file", "feather", "lance")

# The three aims, the layouts they choose from as explicit options, and whom to compare with.
AIMS = ("smalti-small", "smalti", "smalti-fast")
LAYOUT_PEERS = (*AIMS, "smalti-100", "smalti-1000", "smalti-paged", "reference", "parquet", "feather", "lance")

TELEMETRY = Plan(DATASETS["telemetry"], reads=(), peers=FILTERING, filtered=50)

HEADLINE = (
    Plan(
        DATASETS["wide-500"],
        reads=(1, 10, 100, None),
        peaks=("write", "read-all"),
        levels=(1,),
        repeats=1000,
        peaks_without=(*SLOW, "parquet-file"),
    ),
    Plan(DATASETS["wide-10"], reads=(1, None), peers=tuple(name for name in FORMATS if name != "vortex")),
    Plan(DATASETS["wide-4500"], reads=(1, 10, 100), peers=QUICK),
    Plan(DATASETS["sparse"], reads=(10,), levels=(1,), peers=QUICK),
    TELEMETRY,
    Plan(DATASETS["narrow"], reads=(1, None), peers=QUICK),
)

FULL = (
    Plan(
        DATASETS["wide-500"],
        reads=(1, 10, 100, None),
        peaks=("write", "read-1", "read-all"),
        levels=(1, 3, 19),
        repeats=1000,
    ),
    Plan(DATASETS["wide-10"], reads=(1, 10, None), levels=(1,)),
    # With ORC, for the announcement's table: one write of it takes 9 GB of memory.
    Plan(
        DATASETS["wide-4500"],
        reads=(1, 10, 100, None),
        peaks=("write", "read-all"),
        peers=(*QUICK, "orc"),
        peaks_without=("orc",),
    ),
    Plan(DATASETS["sparse"], reads=(1, 10, 100, None), peaks=("write", "read-all"), levels=(1,)),
    TELEMETRY,
    Plan(DATASETS["narrow"], reads=(1, None), peaks=("write", "read-all")),
    Plan(DATASETS["vectors"], reads=(1, None), peaks=("write", "read-all"), peers=VECTORS),
    Plan(DATASETS["growth-1000"], reads=(1,), peaks=("read-1",)),
    Plan(DATASETS["growth-10000"], reads=(1,), peaks=("read-1",)),
    Plan(DATASETS["growth-30000"], reads=(1,), peaks=("read-1",), peers=QUICK),
    Plan(DATASETS["growth-100000"], reads=(1,), peaks=("read-1",), peers=QUICK),
)

LAYOUTS = (
    Plan(DATASETS["wide-500"], reads=(1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000), peers=LAYOUT_PEERS),
    Plan(DATASETS["wide-4500"], reads=(1, 10, 100, 1_000), peers=LAYOUT_PEERS),
    Plan(DATASETS["sparse"], reads=(1, 10, 100, 1_000), peers=LAYOUT_PEERS),
)


def tiny(plan: Plan) -> Plan:
    """The same plan on a table small enough for a test; memory is taken of a few works and peers only."""
    columns = min(24, plan.dataset.columns)
    dataset = replace(plan.dataset, columns=columns, rows=min(40, plan.dataset.rows))
    reads = dict.fromkeys(count if count is None else min(count, columns) for count in plan.reads)
    peaks = ("write", "read-1") if plan.peaks and plan.dataset.name == "wide-500" else ()
    few = tuple(name for name in FORMATS if name not in ("smalti", "reference", "parquet"))
    return replace(
        plan,
        dataset=dataset,
        reads=tuple(reads),
        peers=FORMATS if plan.peers == QUICK else plan.peers,
        peaks=peaks,
        filtered=plan.filtered and min(plan.filtered, 10),
        repeats=plan.repeats and min(plan.repeats, 20),
        peaks_without=few,
    )


PROFILES: dict[str, tuple[tuple[Plan, ...], Effort]] = {
    # The budget lets the slowest write that a goal speaks of, the reference's of 4,500 rows, happen twice.
    "headline": (HEADLINE, Effort(rounds=9, budget=12.0, children=2)),
    "full": (FULL, Effort(rounds=11, budget=10.0, children=3)),
    "layouts": (LAYOUTS, Effort(rounds=7, budget=3.0, children=1)),
}


def smoke(profile: str) -> tuple[tuple[Plan, ...], Effort]:
    """A profile's plans on tiny tables, once."""
    return tuple(tiny(plan) for plan in PROFILES[profile][0]), Effort(rounds=1, budget=1.0, children=1)


def work_of(count: int | None) -> str:
    """The name of reading this many columns."""
    return "read-all" if count is None else f"read-{count}"
