"""The main job, end to end: wide raw Parquet to Mosaic on an embedded Spark, then questions to it.

    python examples/demo.py [--columns 10000] [--rows 3000] [--directory DIR]

Makes sensor readings in hive partitions, runs the pipeline (convert, compact, verify, profile) as Spark tasks, asks
through Spark SQL and through plain Python, and compares with Parquet.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import smalti
from smalti import jobs
from smalti.jobs.summary import show_bytes

DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")
FILES_PER_DAY = 4
STATES = np.array(["ok", "warm", "hot", "offline"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--directory", type=Path, help="where to work; by default a new temporary directory")
    options = parser.parse_args(arguments)
    root = options.directory or Path(tempfile.mkdtemp(prefix="smalti-demo-"))
    raw, mosaic, page = root / "raw", root / "mosaic", root / "profile.html"
    began = time.monotonic()

    title(1, f"Raw data: {options.rows:,} rows of {options.columns:,} columns, Parquet by day")
    make_raw(raw, options.columns, options.rows)
    say(f"{len(list(raw.rglob('*.parquet')))} files, {show_bytes(size_of(raw))}, in {raw}")

    title(2, "Spark, on this machine")
    spark = timed("session", start_spark)

    title(3, "The pipeline, as Spark tasks on splits")
    say(str(jobs.convert(raw, mosaic, engine="spark", spark=spark, overwrite=True, progress=Bar("convert"))))
    writing = smalti.WriterOptions(stats_columns=("reading_id",))
    say(
        str(
            jobs.compact(
                mosaic, engine="spark", spark=spark, options=writing, sort_by="reading_id", progress=Bar("compact")
            )
        )
    )
    report = jobs.verify(mosaic, engine="spark", spark=spark, progress=Bar("verify"))
    frames, sums = sum(file.frames for file in report.files), sum(file.checksums for file in report.files)
    say(f"verify: {'all sound' if report.ok else 'PROBLEMS'}: {frames:,} frames decoded, {sums:,} checksums compared")
    for problem in report.problems:
        say(str(problem))
    profile = jobs.profile(
        mosaic, engine="spark", spark=spark, output=root / "profile.mosaic", html=page, overwrite=True,
        progress=Bar("profile"),
    )  # fmt: skip
    say(str(profile))

    title(4, "Questions")
    columns = [f"sensor_{i:05d}" for i in range(0, options.columns, max(1, options.columns // 10))][:10]
    ask_spark(spark, mosaic, columns)
    ask_python(mosaic, columns)

    title(5, f"Mosaic and Parquet: {len(columns)} of {options.columns:,} columns")
    compare(raw, mosaic, columns)
    print(f"\n  The profile of every column: {page}")
    print(f"  Done in {time.monotonic() - began:.0f} s. Everything is in {root}\n")
    return 0 if report.ok else 1


# --- the raw data -------------------------------------------------------------------------------------------------


def make_raw(root: Path, columns: int, rows: int) -> None:
    """Readings of many sensors: numbers, counters, states, gaps, and sensors that never change."""
    per_file = max(1, rows // (len(DAYS) * FILES_PER_DAY))
    random = np.random.RandomState(20260317)
    number = 0
    for day in DAYS:
        directory = root / f"day={day}"
        directory.mkdir(parents=True, exist_ok=True)
        for part in range(FILES_PER_DAY):
            arrays: dict[str, Any] = {"reading_id": pa.array(np.arange(number, number + per_file))}
            for i in range(columns - 1):
                arrays[f"sensor_{i:05d}"] = sensor(random, i, per_file)
            pq.write_table(pa.table(arrays), directory / f"part-{part}.parquet", compression="zstd")
            number += per_file


def sensor(random: np.random.RandomState, i: int, rows: int) -> pa.Array:
    """One column; its kind depends on its number."""
    kind = i % 10
    if kind < 4:
        return pa.array(np.round(20 + 5 * random.standard_normal(rows), 2), mask=random.random_sample(rows) < 0.05)
    if kind < 6:
        return pa.array(random.randint(0, 1000, rows).astype(np.int32))
    if kind < 8:
        return pa.array(STATES[random.randint(0, 4, rows)])
    return pa.array(np.full(rows, i)) if kind == 8 else pa.nulls(rows, pa.float64())


# --- Spark --------------------------------------------------------------------------------------------------------


def start_spark() -> Any:
    """A local session, quiet."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    import smalti.spark

    spark = smalti.spark.session("local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def ask_spark(spark: Any, mosaic: Path, columns: list[str]) -> None:
    """A question in SQL; only the columns it names are read."""
    spark.read.format("mosaic").load(str(mosaic)).createOrReplaceTempView("readings")
    question = (
        f"SELECT day, count(*) AS readings, round(avg({columns[0]}), 2) AS mean, max({columns[1]}) AS top "
        "FROM readings GROUP BY day ORDER BY day"
    )
    say(question)
    answer = timed("Spark SQL", lambda: spark.sql(question).collect())
    for row in answer:
        say(f"    {row.day}   {row.readings:>6,} readings   mean {row['mean']:>6}   top {row.top}")


def ask_python(mosaic: Path, columns: list[str]) -> None:
    """The same files without Spark."""
    say(f"smalti.dataset(...).to_table(columns={columns[:2]}, filters=[('reading_id', '<', 500)])")
    dataset = smalti.dataset(str(mosaic))
    table = timed("Python", lambda: dataset.to_table(columns=columns[:2], filters=[("reading_id", "<", 500)]))
    say(f"    {table.num_rows:,} rows of {len(dataset.files)} files; statistics ruled out the rest")


# --- against Parquet ----------------------------------------------------------------------------------------------


def compare(raw: Path, mosaic: Path, columns: list[str]) -> None:
    """Size, and the time and bytes of reading some columns: the best of three, files opened anew each time."""
    rows = [
        ("Parquet", raw, lambda: pads.dataset(raw, partitioning="hive").to_table(columns=columns)),
        ("Mosaic", mosaic, lambda: smalti.dataset(str(mosaic)).to_table(columns=columns)),
    ]
    print(f"\n  {'':10}{'files':>8}{'size':>12}{'time':>12}{'bytes read':>14}")
    for name, path, read in rows:
        results = [measure(read) for _ in range(3)]
        seconds, num_bytes = min(result[0] for result in results), min(result[1] for result in results)
        files = sum(1 for file in path.rglob("*.*") if file.suffix in (".parquet", ".mosaic"))
        shown = show_bytes(num_bytes) if num_bytes else "–"
        print(f"  {name:10}{files:>8,}{show_bytes(size_of(path)):>12}{1000 * seconds:>9,.0f} ms{shown:>14}")


def measure(read: Callable[[], Any]) -> tuple[float, int]:
    """Seconds, and bytes this process asked the system for (Linux)."""
    before, began = bytes_read(), time.perf_counter()
    read()
    return time.perf_counter() - began, bytes_read() - before


def bytes_read() -> int:
    status = Path("/proc/self/io")
    return int(status.read_text().split()[1]) if status.exists() else 0


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


# --- what is printed ----------------------------------------------------------------------------------------------


class Bar:
    """A bar that draws over itself on a terminal and is silent elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, event: jobs.Progress) -> None:
        if not sys.stdout.isatty():
            return
        full = int(30 * event.fraction)
        text = f"  {self._name:8} {'█' * full}{'░' * (30 - full)} {event.done}/{event.total}"
        end = "\r" if event.done < event.total else f"\r{' ' * len(text)}\r"
        print(text, end=end, flush=True)


def title(number: int, text: str) -> None:
    print(f"\n{number}. {text}", flush=True)


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def timed(name: str, function: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    result = function()
    say(f"{name}: {time.perf_counter() - began:.2f} s")
    return result


if __name__ == "__main__":
    sys.exit(main())
