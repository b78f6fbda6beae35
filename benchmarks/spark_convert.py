"""Wide Parquet through Spark: the job on splits against DataFrames. ``python -m benchmarks.spark_convert``

Three ways to rewrite the same directory of Parquet files on ``local[2]``, one after the other in one warmed-up session:

- ``jobs``: `smalti.jobs.convert` with ``engine="spark"``, Parquet to Mosaic, Arrow all the way;
- ``dataframe``: ``spark.read.parquet(...).write.format("mosaic")``;
- ``parquet``: ``spark.read.parquet(...).write.parquet(...)``, Spark on its own.

The last two take minutes for what the first does in seconds, so ``--dataframe-rows`` can give them fewer rows; their
seconds are then scaled up in proportion, which counts their fixed cost (planning, generated code) several times over:
read the unscaled seconds as well. With ``--memory`` the memory of the job is measured again with four times the rows in
each file: flat means that it does not follow.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import datasets, environment

GOAL = 5.0


def main() -> None:
    """Measure and print, as text and JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--dataframe-rows", type=int, help="rows for the two DataFrame roads (default: all)")
    parser.add_argument("--memory", action="store_true", help="also measure a job with four times the rows per file")
    parser.add_argument("--output", type=Path, help="where to write the result as JSON")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="smalti-spark-convert-"))
    try:
        result = run(root, options)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(result, indent=2))
    if options.output:
        options.output.write_text(json.dumps(result, indent=2) + "\n")


def run(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All of it, in `root`."""
    import smalti.spark
    from smalti import jobs

    per_file = options.rows // options.files
    write_parquet(root / "raw", options.columns, per_file, options.files)
    frame_rows = options.dataframe_rows or options.rows
    frame_files = max(1, options.files * frame_rows // options.rows)
    frames = root / "raw"
    if frame_rows < options.rows:
        write_parquet(frames := root / "frames", options.columns, frame_rows // frame_files, frame_files)
    spark = smalti.spark.session("local[2]", driver_memory="4g")
    spark.sparkContext.setLogLevel("ERROR")
    write_parquet(root / "small", 100, 100, 2)
    jobs.convert(root / "small", root / "small-mosaic", engine="spark", spark=spark)

    result: dict[str, Any] = {**environment.describe([]), "columns": options.columns, "rows": options.rows}
    seconds, summary = timed(lambda: jobs.convert(root / "raw", root / "jobs", engine="spark", spark=spark))
    result["jobs"] = {"seconds": seconds, "peak_memory": summary.peak_memory, "splits": summary.splits}
    say(f"jobs: {seconds:.1f} s, at most {summary.peak_memory >> 20:,} MB in a task's process; {summary}")
    assert summary.num_rows == per_file * options.files
    if options.memory:
        write_parquet(root / "long", options.columns, 4 * per_file, 2)
        summary = jobs.convert(root / "long", root / "jobs-long", engine="spark", spark=spark)
        result["jobs"]["peak_memory_longer_files"] = summary.peak_memory
        say(f"jobs, files of {4 * per_file:,} rows: at most {summary.peak_memory >> 20:,} MB in a task's process")

    roads: dict[str, Callable[[], Any]] = {
        "dataframe": lambda: (
            spark.read.parquet(str(frames)).write.format("mosaic").mode("overwrite").save(str(root / "dataframe"))
        ),
        "parquet": lambda: spark.read.parquet(str(frames)).write.mode("overwrite").parquet(str(root / "parquet")),
    }
    for name, road in roads.items():
        took, _ = timed(road)
        scaled = took * options.rows / frame_rows
        result[name] = {"seconds": took, "rows": frame_rows, "seconds_scaled": scaled, "times": scaled / seconds}
        say(f"{name}: {took:.1f} s for {frame_rows:,} rows: {scaled / seconds:.1f} times as long (goal: {GOAL:.0f})")
    result["load_at_end"] = os.getloadavg()[0]
    spark.stop()
    return result


def write_parquet(root: Path, columns: int, rows: int, files: int) -> None:
    """The benchmark's wide table, the same rows in each file, in row groups of at most 1,000 rows."""
    root.mkdir()
    table = datasets.wide(np.random.RandomState(datasets.SEED), columns, rows)
    pq.write_table(table, root / "part-00000.parquet", row_group_size=1_000, compression="zstd")
    for number in range(1, files):
        shutil.copyfile(root / "part-00000.parquet", root / f"part-{number:05d}.parquet")


def timed(road: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = road()
    return time.perf_counter() - began, result


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
