"""TPC-H through Spark: the 22 queries on Mosaic and on Parquet, in one session, each asked in turn.

The tables come from tpchgen-cli; Spark itself writes them in both formats, with the same rows in the same files.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.spark.shared import say, spark_session

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
FORMATS = ("parquet", "mosaic")
#: Tables of more rows than this are written in several files, so that both cores have work.
_SMALL, _FILES = 10_000, 4


def queries() -> dict[str, str]:
    """The text of each query by its name."""
    text = (Path(__file__).parent / "tpch.sql").read_text()
    parts = re.split(r"^-- (Q\d+)\n", text, flags=re.M)
    return {name: query.strip() for name, query in zip(parts[1::2], parts[2::2], strict=True)}


def generator() -> str | None:
    """The program tpchgen-cli: beside this Python, or on the path."""
    return shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")


def write_tables(spark: Any, root: Path, scale: float) -> None:
    """Generate the tables, and write them in both formats."""
    program = generator()
    assert program is not None, "pip install tpchgen-cli"
    raw = root / "raw"
    subprocess.run([program, "parquet", "-s", str(scale), "--output-dir", str(raw)], check=True, capture_output=True)
    for table in TABLES:
        frame = spark.read.parquet(str(raw / f"{table}.parquet"))
        files = 1 if frame.count() < _SMALL else _FILES
        for format_ in FORMATS:
            frame.repartition(files).write.format(format_).mode("overwrite").save(str(root / format_ / table))


def session_of(spark: Any, root: Path, format_: str) -> Any:
    """A session of the same application in which the names of the tables mean those of a format."""
    own = spark.newSession()
    for table in TABLES:
        own.read.format(format_).load(str(root / format_ / table)).createOrReplaceTempView(table)
    return own


def ask(spark: Any, query: str) -> tuple[float, list[str]]:
    """Seconds and rows of a query, from its text to its last row."""
    began = time.perf_counter()
    rows = spark.sql(query).collect()
    return time.perf_counter() - began, sorted(map(repr, rows))


def compare(spark: Any, root: Path, rounds: int, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Seconds of every query in both formats: the best of some rounds, after one that warms up.

    The formats take turns within a query. The rows must be equal.
    """
    sessions = {format_: session_of(spark, root, format_) for format_ in FORMATS}
    found: dict[str, Any] = {}
    for name, query in queries().items():
        if names is not None and name not in names:
            continue
        times: dict[str, list[float]] = {format_: [] for format_ in FORMATS}
        for number in range(rounds + 1):
            results = {}
            for format_ in FORMATS if number % 2 else FORMATS[::-1]:
                took, results[format_] = ask(sessions[format_], query)
                times[format_].append(took)
            assert results["mosaic"] == results["parquet"], f"{name} gives different rows"
        best = {format_: min(each[1:] or each) for format_, each in times.items()}
        found[name] = {**best, "ratio": best["mosaic"] / best["parquet"], "rows": len(results["parquet"])}
        say(f"{name}: Parquet {best['parquet']:.2f} s, Mosaic {best['mosaic']:.2f} s, {found[name]['ratio']:.2f} x")
    return found


def measure(root: Path, scale: float, rounds: int) -> dict[str, Any]:
    """All queries, and what they say together."""
    spark = spark_session()
    try:
        write_tables(spark, root, scale)
        found = compare(spark, root, rounds)
    finally:
        spark.stop()
    ratios = [times["ratio"] for times in found.values()]
    say(f"TPC-H: median {statistics.median(ratios):.2f} x, at most {max(ratios):.2f} x")
    return {
        "scale": scale,
        "rounds": rounds,
        "queries": found,
        "median": statistics.median(ratios),
        "most": max(ratios),
    }
