"""Is the chosen layout a good one? ``python -m benchmarks.choices`` measures, and writes choices.json and choices.md.

For every data set of the benchmark, and some that the model was not made with, the default layout and every candidate
that was weighed are written and read: 1, 10 and 100 scattered columns, each time from a file that is opened for it.
What counts is the geometric mean of the three, and the size.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import pyarrow as pa

import smalti
from benchmarks.datasets import CACHE, DATASETS, Dataset, bell, leaning, scattered, skewed
from benchmarks.environment import describe
from benchmarks.report import markdown, publish, seconds
from benchmarks.words import CATEGORIES
from smalti.mosaic.layout_choice import RATE, RATE_BELOW, TOLERANCES

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
READS = (1, 10, 100)
#: How much slower than the best candidate within the bound on size the chosen layout may be.
GOAL = 1.3
DEFAULT = "chosen"


# --- data sets that the model was not made with -------------------------------------------------------------------


def mixed(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Sensors of all kinds beside each other: gauges, counters, states, flags, texts, each with some gaps."""
    states = pa.array(CATEGORIES[:40])

    def column(kind: int) -> pa.Array:
        if kind == 0:
            return pa.array(np.round(np.cumsum(bell(rng, rows)), 3))
        if kind == 1:
            return pa.array(np.cumsum(rng.randint(0, 50, rows), dtype=np.int64))
        if kind == 2:
            return states.take(pa.array(np.repeat(skewed(rng, 40, rows // 50 + 1), 50)[:rows]))
        if kind == 3:
            return pa.array(rng.random_sample(rows) < 0.02)
        if kind == 4:
            return pa.array(skewed(rng, 30_000, rows), mask=rng.random_sample(rows) < 0.3)
        return pa.array(bell(rng, rows).astype(np.float32))

    return pa.table({f"m{i:05d}": column(int(rng.randint(6))) for i in range(columns)})


def sparse_events(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Columns of which hardly one row in a hundred has a value."""
    filled = [max(1, rows // 200 + int(rng.randint(rows // 50 + 1))) for _ in range(columns)]
    arrays = []
    for count in filled:
        values, mask = np.zeros(rows), np.ones(rows, dtype=bool)
        at = rng.choice(rows, count, replace=False)
        values[at], mask[at] = np.round(100 * leaning(rng, count), 2), False
        arrays.append(pa.array(values, mask=mask))
    return pa.table(arrays, names=[f"event_{i:05d}" for i in range(columns)])


def sentences(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Texts of a few words each, of one vocabulary."""
    words = np.array([word.lower() for word in CATEGORIES[:900]])
    arrays = [
        pa.array([" ".join(row) for row in words[skewed(rng, len(words), 4 * rows)].reshape(rows, 4)])
        for _ in range(min(columns, 20))
    ]
    order = [rng.permutation(rows) for _ in range(columns)]
    return pa.table({f"text_{i:05d}": arrays[i % len(arrays)].take(pa.array(order[i])) for i in range(columns)})


def many_vectors(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """Short embeddings in many columns."""
    numbers = bell(rng, columns * rows * 16).astype(np.float32).reshape(columns, -1)
    return pa.table({f"v{i:04d}": pa.FixedSizeListArray.from_arrays(numbers[i], 16) for i in range(columns)})


def near_constant(rng: np.random.RandomState, columns: int, rows: int) -> pa.Table:
    """One value nearly everywhere, and another one here and there."""
    arrays = []
    for i in range(columns):
        values = np.full(rows, 1000 + i % 7, dtype=np.int32)
        values[rng.choice(rows, max(1, rows // 500), replace=False)] = rng.randint(5000)
        arrays.append(pa.array(values))
    return pa.table(arrays, names=[f"flag_{i:05d}" for i in range(columns)])


@dataclass(frozen=True)
class Case:
    """A table, and how its row groups are written."""

    data: Dataset
    options: dict[str, Any] = field(default_factory=dict)
    is_new: bool = True

    def load(self) -> pa.Table:
        return self.data.build() if self.is_new else self.data.load()


#: Tables of up to 100 columns are left out: each column has a bucket of its own, and nothing is chosen.
KNOWN = tuple(Case(data, is_new=False) for data in DATASETS.values() if data.columns > 100)
HELD_OUT = (
    Case(Dataset("mixed", 2_000, 20_000, mixed, "mixed sensors, four row groups"), {"row_group_max_rows": 5_000}),
    Case(Dataset("events", 5_000, 4_000, sparse_events, "one value in a hundred rows")),
    Case(Dataset("sentences", 1_000, 3_000, sentences, "texts of four words")),
    Case(Dataset("many-vectors", 300, 2_000, many_vectors, "16 numbers a row in each of 300 columns")),
    Case(Dataset("near-constant", 5_000, 5_000, near_constant, "one value in 499 of 500 rows")),
    Case(
        Dataset("many-groups", 3_000, 8_000, mixed, "mixed sensors, 40 row groups of 200 rows"),
        {"row_group_max_rows": 200},
    ),
    Case(replace(DATASETS["telemetry"], name="telemetry-groups"), {"row_group_max_rows": 5_000}),
)


# --- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """One layout of a data set: `size` is measured, relative to the reference's layout, `seconds` by columns read."""

    name: str
    size: float
    predicted_size: float
    predicted_cost: float
    seconds: dict[int, float]

    @property
    def mean(self) -> float:
        return geometric_mean(self.seconds.values())

    @property
    def weight(self) -> float:
        return self.mean * self.size ** (RATE if self.size > 1 else RATE_BELOW)


@dataclass(frozen=True)
class Outcome:
    """The chosen layout of a data set beside the candidates."""

    name: str
    about: str
    columns: int
    rows: int
    chosen: Layout
    choice: str
    candidates: list[Layout]
    bound: float = 1 + TOLERANCES["balanced"]

    @property
    def fastest(self) -> Layout:
        """The best candidate within the bound on size."""
        return min((each for each in self.candidates if each.size <= self.bound), key=lambda each: each.mean)

    @property
    def slowdown(self) -> float:
        return self.chosen.mean / self.fastest.mean

    @property
    def regret(self) -> float:
        """How much worse the choice is than the best one by the rate of exchange: 1 if the model was right."""
        return self.chosen.weight / min(each.weight for each in self.candidates if each.size <= self.bound)


def processor_seconds(run: Callable[[], object]) -> float:
    """What an action takes of all cores. Other work on the machine changes it far less than the time on the wall."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(case: Case, rounds: int, say: Callable[[str], None]) -> Outcome | None:
    """Write and read all candidates of a data set in turns; None if there is nothing to choose."""
    table = case.load()
    say(f"{case.data.name}: {case.data.columns:,} columns x {case.data.rows:,} rows")
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        chosen = Path(scratch) / f"{DEFAULT}.mosaic"
        layout = smalti.write_table(table, chosen, stats_columns=(), **case.options).layout
        if layout.chosen is None:
            return None
        files, sizes = {DEFAULT: chosen}, {DEFAULT: chosen.stat().st_size}
        for candidate in layout.candidates:
            files[str(candidate)] = path = Path(scratch) / f"{candidate.num_buckets}-{candidate.paged}.mosaic"
            threshold = 0 if candidate.paged else 1 << 30
            smalti.write_table(
                table, path, num_buckets=candidate.num_buckets, page_size_threshold=threshold, **case.options
            )
            sizes[str(candidate)] = path.stat().st_size
        given = Path(scratch) / "reference.mosaic"
        smalti.write_table(table, given, num_buckets=100, **case.options)
        reference = given.stat().st_size
        best_of: dict[str, dict[int, float]] = {name: {} for name in files}
        for count in (count for count in READS if count <= table.num_columns):
            names = scattered(table.column_names, count)
            for turn in range(rounds + 1):  # The first one warms up.
                for name, path in files.items():
                    taken = processor_seconds(lambda path=path, names=names: smalti.read_table(path, names))  # type: ignore[misc]
                    if turn:
                        best_of[name][count] = min(taken, best_of[name].get(count, taken))
    best = layout.candidates[layout.chosen]

    def found(name: str, predicted: Any) -> Layout:
        return Layout(name, sizes[name] / reference, predicted.size, predicted.cost, best_of[name])

    return Outcome(
        case.data.name,
        case.data.about,
        case.data.columns,
        case.data.rows,
        found(DEFAULT, best),
        str(best),
        [found(str(candidate), candidate) for candidate in layout.candidates],
    )


# --- the page -----------------------------------------------------------------------------------------------------


def page(document: dict[str, Any], outcomes: list[Outcome]) -> str:
    head = ["data set", "chosen", "size", "slower than the best within the bound", "worse by the rate", "goal"]
    goals = [
        [
            outcome.name,
            outcome.choice,
            f"{outcome.chosen.size:.3f}",
            f"{outcome.slowdown:.2f} x ({outcome.fastest.name}, {outcome.fastest.size:.3f})",
            f"{outcome.regret:.2f} x",
            "reached" if outcome.slowdown <= GOAL else "missed",
        ]
        for outcome in outcomes
    ]
    parts = [
        "# Benchmark: is the chosen layout a good one?",
        f"Written by `{document['command']}`; do not edit. What the choice weighs: "
        "[choosing a layout](../howto/buckets.md).",
        "Each candidate is written and read: 1, 10 and 100 scattered columns, from a file opened for each read, in "
        f"processor seconds, which is what the model counts, the best of {document['rounds']} turns, zstd 1. The goal: "
        f"the geometric mean of the three is at most {GOAL} x that of the best candidate within the bound on size. "
        'Sizes are measured, relative to the reference\'s layout. "Worse by the rate" is the same comparison by time '
        "and size together: 1 where the model chose the best.",
        markdown(head, goals),
    ]
    for outcome in outcomes:
        head = ["layout", "size", "by samples", *(f"read {count}" for count in outcome.chosen.seconds), "mean"]
        rows = []
        for each in (outcome.chosen, *outcome.candidates):
            rows.append(
                [
                    f"{each.name}: {outcome.choice}" if each is outcome.chosen else each.name,
                    f"{each.size:.3f}",
                    f"{each.predicted_size:.3f}",
                    *(seconds(taken) for taken in each.seconds.values()),
                    seconds(each.mean),
                    seconds(each.predicted_cost / 1e9),
                ]
            )
        parts += [f"## {outcome.name}: {outcome.columns:,} columns x {outcome.rows:,} rows", outcome.about + "."]
        parts.append(markdown([*head, "by the model"], rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choices", description=__doc__)
    names = [case.data.name for case in (*KNOWN, *HELD_OUT)]
    parser.add_argument("--only", nargs="+", choices=names, metavar="DATASET", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--smoke", action="store_true", help="one tiny table")
    parser.add_argument("--out", type=Path, help="where results go; docs/benchmarks, or the cache for a partial run")
    args = parser.parse_args(arguments)
    cases = [case for case in (*KNOWN, *HELD_OUT) if not args.only or case.data.name in args.only]
    if args.smoke:
        tiny = replace(HELD_OUT[0].data, columns=150, rows=100)
        cases = [replace(HELD_OUT[0], data=tiny, options={"row_group_max_rows": 50})]
    CACHE.mkdir(exist_ok=True)
    where = describe([])
    found = [
        outcome
        for case in cases
        if (outcome := measure(case, 1 if args.smoke else args.rounds, lambda line: print(line, file=sys.stderr)))
    ]
    document = {
        "command": " ".join(["python -m benchmarks.choices", *(sys.argv[1:] if arguments is None else arguments)]),
        "environment": where,
        "rounds": args.rounds,
        "load_at_end": os.getloadavg()[0],
        "results": [asdict(outcome) for outcome in found],
    }
    whole = not args.only and not args.smoke
    out = args.out or (DOCS if whole else CACHE / "results")
    out.mkdir(parents=True, exist_ok=True)
    publish(out, "choices", document, page(document, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
