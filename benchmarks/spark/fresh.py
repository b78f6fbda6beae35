"""What a fresh session takes, for Mosaic and for Parquet in turn: its first query, and a table of many wide files.

Each measurement is a process of its own, so nothing is warm but the files. ``python -m benchmarks.spark.fresh`` is
that process.

- ``first``: load a small table and collect two columns of it. Also how many Python processes Spark has started for it.
- ``many``: load a directory of many files of many columns, count its rows, and aggregate three columns.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import datasets
from benchmarks.spark.shared import Shape, say, session_processes, spark_session

FORMATS = ("parquet", "mosaic")


def write_tables(root: Path, shape: Shape) -> None:
    """The same rows in files of both formats."""
    import smalti

    rows = max(1, shape.rows // shape.files)
    table = datasets.wide(np.random.RandomState(datasets.SEED), shape.columns, rows)
    for format_ in FORMATS:
        (root / format_).mkdir(parents=True)
    pq.write_table(table, root / "parquet" / "part-00000.parquet")
    smalti.write_table(table, root / "mosaic" / "part-00000.mosaic")
    for number in range(1, shape.files):
        for format_ in FORMATS:
            first = root / format_ / f"part-00000.{format_}"
            shutil.copyfile(first, first.with_name(f"part-{number:05d}.{format_}"))


def measure(root: Path, work: str, shape: Shape, rounds: int) -> dict[str, Any]:
    """Seconds of both formats in fresh sessions, in turn; the ratio is that of the medians."""
    write_tables(root, shape)
    found: dict[str, list[dict[str, Any]]] = {format_: [] for format_ in FORMATS}
    for number in range(rounds):
        for format_ in FORMATS if number % 2 else FORMATS[::-1]:
            found[format_].append(_run(work, format_, root / format_))
    assert len({record["answer"] for records in found.values() for record in records}) == 1, "different rows"
    result: dict[str, Any] = {
        format_: {
            "seconds": statistics.median(record["seconds"] for record in records),
            "runs": [record["seconds"] for record in records],
            "processes": max(record["processes"] for record in records),
        }
        for format_, records in found.items()
    }
    result["ratio"] = result["mosaic"]["seconds"] / result["parquet"]["seconds"]
    for format_ in FORMATS:
        say(f"{work}, {format_}: {result[format_]['seconds']:.2f} s, {result[format_]['processes']} Python processes")
    say(f"{work}: {result['ratio']:.2f} x")
    return {**vars(shape), **result}


def _run(work: str, format_: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.spark.fresh", work, format_, str(path)]
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=root, check=True)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def main() -> None:
    """One measurement in one session; prints JSON."""
    work, format_, path = sys.argv[1:]
    spark = spark_session()
    spark.range(10).collect()  # A session that has answered nothing at all is busy with itself.
    began = time.perf_counter()
    frame = spark.read.format(format_).load(path)
    names = frame.columns[:: max(1, len(frame.columns) // 3)][:3]
    if work == "first":
        answer = sorted(map(repr, frame.select(*names[:2]).collect()))
    else:
        row = frame.selectExpr(*(f"count(`{name}`)" for name in names)).first()
        answer = [str(frame.count()), repr(tuple(row))]
    seconds = time.perf_counter() - began
    processes = sum("python" in name for name in session_processes())
    print(json.dumps({"seconds": seconds, "processes": processes, "answer": " ".join(answer)[:10_000]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
