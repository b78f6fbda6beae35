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


def use_tables(spark: Any, root: Path, format_: str) -> None:
    """Make the names of the tables mean those of a format."""
    for table in TABLES:
        spark.read.format(format_).load(str(root / format_ / table)).createOrReplaceTempView(table)


def ask(spark: Any, query: str) -> tuple[float, list[str]]:
    """Seconds and rows of a query, from its text to its last row."""
    began = time.perf_counter()
    rows = spark.sql(query).collect()
    return time.perf_counter() - began, sorted(map(repr, rows))


def compare(spark: Any, root: Path, rounds: int, names: list[str] | None = None) -> dict[str, Any]:
    """Seconds of every query in both formats: the best of some rounds. The results must be equal."""
    chosen = {name: query for name, query in queries().items() if names is None or name in names}
    seconds: dict[str, dict[str, list[float]]] = {name: {format_: [] for format_ in FORMATS} for name in chosen}
    for number in range(rounds + 1):
        for name, query in chosen.items():
            results = []
            for format_ in FORMATS if number % 2 else FORMATS[::-1]:
                use_tables(spark, root, format_)
                took, rows = ask(spark, query)
                if number:  # the first round warms up
                    seconds[name][format_].append(took)
                results.append(rows)
            assert results[0] == results[1], f"{name} gives different rows"
    found: dict[str, Any] = {
        name: {format_: min(times[format_]) for format_ in FORMATS} for name, times in seconds.items()
    }
    for times in found.values():
        times["ratio"] = times["mosaic"] / times["parquet"]
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
    for name, times in found.items():
        say(f"{name}: Parquet {times['parquet']:.2f} s, Mosaic {times['mosaic']:.2f} s, {times['ratio']:.2f} x")
    say(f"TPC-H: median {statistics.median(ratios):.2f} x, at most {max(ratios):.2f} x")
    return {
        "scale": scale,
        "rounds": rounds,
        "queries": found,
        "median": statistics.median(ratios),
        "most": max(ratios),
    }
