"""Narrow and tall tables, where a format for wide ones could fall off a cliff: ``python -m benchmarks.cliffs``.

Every case is one small program, run on a Mosaic file and on a Parquet file of the same table, both by default options
with zstd at level 1, in turns. Figures are processor seconds of all threads, the best of the turns: other work on the
machine hardly changes them. Writes cliffs.json and cliffs.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import smalti
from benchmarks.datasets import CACHE
from benchmarks.environment import describe
from benchmarks.report import markdown, publish, seconds, size

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
#: How many times Parquet's processor seconds a case may take.
GOAL = 2.0
LEVEL = 1

Run = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """A table of about `rows` rows, and what is done with its file by each library."""

    name: str
    rows: int
    table: Callable[[np.random.RandomState, int], pa.Table]
    ours: Run
    theirs: Run


@dataclass(frozen=True)
class Cost:
    name: str
    ours: float
    theirs: float
    our_bytes: int
    their_bytes: int

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def size_ratio(self) -> float:
        return self.our_bytes / self.their_bytes


# --- tables -------------------------------------------------------------------------------------------------------


def log(rng: np.random.RandomState, rows: int) -> pa.Table:
    """An id that ascends, a price and a number of things."""
    prices = np.round(rng.random_sample(rows) * 1000, 2)
    return pa.table({"id": np.arange(rows), "price": prices, "count": rng.randint(0, 1 << 20, rows)})


def floats(rng: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table({"x": rng.random_sample(rows)})


def integers(rng: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table({"x": rng.randint(0, 1 << 40, rows)})


def long_decimals(rng: np.random.RandomState, rows: int) -> pa.Table:
    digits = rng.randint(0, 10**9, (rows, 6))
    numbers = [Decimal("".join(f"{part:09d}" for part in row)).scaleb(-10) for row in digits]
    return pa.table({"x": pa.array(numbers, pa.decimal256(60, 10))})


def unsigned(rng: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table({"x": rng.randint(0, 1 << 63, rows, dtype=np.int64).astype(np.uint64) * np.uint64(2)})


def dictionary(rng: np.random.RandomState, rows: int) -> pa.Table:
    entries = pa.array([f"station {number:04d} north" for number in range(1000)])
    return pa.table({"x": pa.DictionaryArray.from_arrays(rng.randint(0, 1000, rows).astype(np.int32), entries)})


def categories(count: int) -> Callable[[np.random.RandomState, int], pa.Table]:
    """40 columns of so many categories each."""

    def table(rng: np.random.RandomState, rows: int) -> pa.Table:
        words = pa.array([f"category {number:012d}" for number in range(count)])
        columns = (rng.randint(0, count, rows).astype(np.int32) for _ in range(40))
        return pa.table({f"c{i}": pa.DictionaryArray.from_arrays(each, words) for i, each in enumerate(columns)})

    return table


def repeated(rng: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table({"x": rng.randint(0, 1 << 40, 1000)[rng.randint(0, 1000, rows)]})


def keys(rng: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table(
        {"x": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(rng.bytes(16 * rows))])}
    )


def huge_texts(rng: np.random.RandomState, rows: int) -> pa.Table:
    words = np.array([f"w{number:05x} " for number in rng.randint(0, 1 << 20, 60_000)])
    return pa.table({"x": ["".join(words[rng.randint(0, len(words), rows)]) for _ in range(4)]})


def ascending(_: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table({"x": np.arange(rows)})


def tiny(_: np.random.RandomState, rows: int) -> pa.Table:
    return pa.table({"id": range(rows), "name": [f"name {i}" for i in range(rows)]})


# --- what is done with them ---------------------------------------------------------------------------------------


def our_read(path: Path) -> Any:
    return smalti.read_table(path)


def their_read(path: Path) -> Any:
    return pq.read_table(path)


def our_head(path: Path) -> Any:
    with smalti.open(path) as file:
        return file.head(10)


def their_head(path: Path) -> Any:
    with pq.ParquetFile(path) as file:
        return next(file.iter_batches(10))


def filtered(condition: tuple[str, str, Any]) -> tuple[Run, Run]:
    return (
        lambda path: smalti.read_table(path, filters=[condition]),
        lambda path: pq.read_table(path, filters=[condition]),
    )


def our_writes(path: Path) -> None:
    table = pq.read_table(path.with_suffix(".parquet"))
    for number in range(200):
        smalti.write_table(table, path.with_name(f"{number}.mosaic"))


def their_writes(path: Path) -> None:
    table = pq.read_table(path)
    for number in range(200):
        pq.write_table(table, path.with_name(f"{number}.parquet"), compression="zstd")


def our_write(path: Path) -> None:
    smalti.write_table(pq.read_table(path.with_suffix(".parquet")), path.with_name("written.mosaic"))


def their_write(path: Path) -> None:
    pq.write_table(pq.read_table(path), path.with_name("written.parquet"), compression="zstd", compression_level=LEVEL)


FLOATS = np.random.RandomState(1).random_sample(2_000_000)[:1000].tolist()
INTEGERS = list(range(0, 20_000 * 977, 977))
CASES = (
    Case("first 10 rows of 10 million x 3 columns", 10_000_000, log, our_head, their_head),
    Case("id == x in 10 million sorted rows", 10_000_000, log, *filtered(("id", "==", 7_654_321))),
    Case("all of 10 million x 3 columns", 10_000_000, log, our_read, their_read),
    Case("a float IN 1,000 values, 2 million rows", 2_000_000, floats, *filtered(("x", "in", FLOATS))),
    Case("an int IN 20,000 values, 2 million rows", 2_000_000, integers, *filtered(("x", "in", INTEGERS))),
    Case("read decimal256(60), 200,000 rows", 200_000, long_decimals, our_read, their_read),
    Case("read uint64, 4 million rows", 4_000_000, unsigned, our_read, their_read),
    Case("read a dictionary of 1,000 texts, 4 million rows", 4_000_000, dictionary, our_read, their_read),
    *(
        Case(f"{verb} 40 columns of {count:,} categories, 200,000 rows", 200_000, categories(count), *programs)
        for count in (20, 200, 5000, 100_000)
        for verb, programs in (("read", (our_read, their_read)), ("write", (our_write, their_write)))
    ),
    Case("read int64 of 1,000 values, 10 million rows", 10_000_000, repeated, our_read, their_read),
    Case("read fixed_size_binary(16), 1 million rows", 1_000_000, keys, our_read, their_read),
    Case("read four texts of 100 MB", 14_300_000, huge_texts, our_read, their_read),
    Case("read sorted 0 to 10 million", 10_000_000, ascending, our_read, their_read),
    Case("write 200 tiny files", 10, tiny, our_writes, their_writes),
)


# --- measuring ----------------------------------------------------------------------------------------------------


def measure(case: Case, rounds: int, shrink: int, scratch: Path) -> Cost:
    """Write both files, then run both programs in turns."""
    table = case.table(np.random.RandomState(7), max(case.rows // shrink, 10))
    ours, theirs = scratch / "a.mosaic", scratch / "a.parquet"
    smalti.write_table(table, ours, compression_level=LEVEL)
    pq.write_table(table, theirs, compression="zstd", compression_level=LEVEL)
    del table
    best = [float("inf")] * 2
    for turn in range(rounds + 1):  # The first one warms up.
        for at, (run, path) in enumerate(((case.ours, ours), (case.theirs, theirs))):
            start = time.process_time()
            run(path)
            if turn:
                best[at] = min(best[at], time.process_time() - start)
    return Cost(case.name, *best, ours.stat().st_size, theirs.stat().st_size)


def page(document: dict[str, Any], costs: list[Cost], before: dict[str, Any] | None) -> str:
    earlier = {each["name"]: each for each in before["results"]} if before else {}
    head = ["", "smalti", "Parquet", "times Parquet", "goal", "size", "size, times Parquet"]
    rows = []
    for cost in costs:
        was = earlier.get(cost.name)
        rows.append(
            [
                cost.name,
                seconds(cost.ours) + (f" (before: {seconds(was['ours'])})" if was else ""),
                seconds(cost.theirs),
                f"{cost.ratio:.2f}",
                "reached" if cost.ratio <= GOAL else "missed",
                size(cost.our_bytes),
                f"{cost.size_ratio:.2f}" + (f" (before: {was['our_bytes'] / was['their_bytes']:.2f})" if was else ""),
            ]
        )
    return (
        "\n\n".join(
            [
                "# Benchmark: narrow and tall tables",
                f"Written by `{document['command']}`; do not edit. Processor seconds of all threads, the best of "
                f"{document['rounds']} turns, zstd 1, a file opened for each turn. The goal is at most {GOAL:g} x "
                "Parquet (pyarrow). About the misses: [when not to use it](../when-not.md).",
                markdown(head, rows),
            ]
        )
        + "\n"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cliffs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these words")
    parser.add_argument("--smoke", action="store_true", help="tables of a thousandth of the rows, once")
    parser.add_argument("--before", type=Path, help="cliffs.json of an earlier run, to show beside this one")
    parser.add_argument("--out", type=Path, help="where results go; docs/benchmarks, or the cache for a partial run")
    args = parser.parse_args(arguments)
    cases = [case for case in CASES if not args.only or any(word in case.name for word in args.only)]
    CACHE.mkdir(exist_ok=True)
    where = describe([])
    costs = []
    for case in cases:
        print(case.name, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            costs.append(measure(case, 1 if args.smoke else args.rounds, 1000 if args.smoke else 1, Path(scratch)))
    document = {
        "command": " ".join(["python -m benchmarks.cliffs", *(sys.argv[1:] if arguments is None else arguments)]),
        "environment": where,
        "rounds": args.rounds,
        "load_at_end": os.getloadavg()[0],
        "results": [asdict(cost) for cost in costs],
    }
    out = args.out or (CACHE / "results" if args.smoke or args.only else DOCS)
    before = None
    if args.before is not None:
        import json

        before = json.loads(args.before.read_text())
    publish(out, "cliffs", document, page(document, costs, before))
    return 0


if __name__ == "__main__":
    sys.exit(main())
