"""The command line: ``python -m benchmarks.spark`` measures, and writes spark.json and spark.md."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.environment import describe
from benchmarks.report import markdown, publish, size, warning
from benchmarks.spark import fresh, tpch
from benchmarks.spark.converting import convert
from benchmarks.spark.reading import read
from benchmarks.spark.shared import Shape, say
from benchmarks.spark.writing import write
from smalti.units import show_count

WORKS = ("first", "many", "tpch", "read", "convert", "write")
DOCS = Path(__file__).parent.parent.parent / "docs" / "benchmarks"
#: At most these times of the job's: a wide DataFrame from Parquet to Mosaic, half of a wide Mosaic table.
#: At most this times Parquet's: writing a narrow table.
CONVERT_GOAL, HALF_GOAL, NARROW_GOAL = 4.0, 2.0, 1.2
#: At most these times of Parquet's: the median query of TPC-H, each of them, a first query, many wide files.
TPCH_MEDIAN_GOAL, TPCH_MOST_GOAL, FIRST_GOAL, MANY_GOAL = 1.2, 2.5, 1.5, 1 / 3


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description="Measure Spark on a wide table.")
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7, help="of reading")
    parser.add_argument("--scale", type=float, default=0.1, help="of TPC-H")
    parser.add_argument("--narrow", type=int, default=5_000_000, help="rows of the narrow table that is written")
    parser.add_argument("--many", type=int, nargs=2, default=(300, 5_000), metavar=("FILES", "COLUMNS"))
    parser.add_argument("--sessions", type=int, default=5, help="fresh sessions of each format")
    parser.add_argument("--only", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--out", type=Path, default=DOCS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write results, print the page."""
    args = parse(arguments)
    shape = Shape(args.columns, args.rows, args.files)
    document: dict[str, Any] = {"environment": describe([]), **asdict(shape)}
    root = Path(tempfile.mkdtemp(prefix="smalti-bench-spark-"))
    try:
        works: dict[str, Callable[[], dict[str, Any]]] = {
            "first": lambda: fresh.measure(root / "first", "first", Shape(20, 10_000, 1), args.sessions),
            "many": lambda: fresh.measure(
                root / "many", "many", Shape(args.many[1], 10 * args.many[0], args.many[0]), max(1, args.sessions // 2)
            ),
            "tpch": lambda: tpch.measure(root / "tpch", args.scale, args.rounds),
            "read": lambda: read(root, shape, args.rounds),
            "convert": lambda: convert(root, shape),
            "write": lambda: write(root / "write", shape, args.narrow, min(args.rounds, 3)),
        }
        for name, work in works.items():
            if name in args.only:
                document[name] = work()
                shutil.rmtree(root / name, ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    document["load_at_end"] = os.getloadavg()[0]
    publish(args.out, "spark", document, page(document))
    say(f"written to {args.out}")


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    parts = [
        "# Benchmark: Spark",
        "Written by `python -m benchmarks.spark`; do not edit.",
        warning(document["environment"]),
        convert_part(document) if "convert" in document else "",
        write_part(document) if "write" in document else "",
        read_part(document) if "read" in document else "",
        tpch_part(document["tpch"]) if "tpch" in document else "",
        fresh_part(document),
        "`local[2]`, 4 GB for Java, with the settings Spark starts it with. "
        f"{document['environment']['processor']}, {document['environment']['cores']} cores.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def convert_part(document: dict[str, Any]) -> str:
    """Times of the roads over the job's, and its memory."""
    found = document["convert"]
    labels = {"job": "job on splits", "dataframe": "DataFrame to Mosaic", "parquet": "Spark, Parquet to Parquet"}
    rows = []
    for name, label in labels.items():
        road = found[name]
        times = "" if name == "job" else f"{road['times']:.1f} x"
        reached = _reached(road["times"], CONVERT_GOAL) if name == "dataframe" else ""
        rows.append([label, f"{road['seconds']:.1f} s", times, reached, size(road["bytes"])])
    job = found["job"]
    table = markdown(["way", "time", "over the job's", f"goal: at most {CONVERT_GOAL:g} x", "written"], rows)
    return (
        f"## Converting {document['columns']:,} columns x {document['rows']:,} rows of Parquet\n\n{table}\n\n"
        f"The job ran {len(job['runs'])} times, before, between and after the others (median; "
        f"{', '.join(f'{run:.1f}' for run in job['runs'])} s). The most memory a task's process held: "
        f"{size(job['peak_bytes'])}; with four times the rows in each file, {size(job['peak_bytes_of_longer_files'])}."
    )


def write_part(document: dict[str, Any]) -> str:
    """What a DataFrame's writes took, beside their peers."""
    found = document["write"]
    works = {
        "narrow": (f"20 columns x {found['narrow_rows']:,} rows", "Spark to Parquet", NARROW_GOAL),
        "half": (f"{document['columns'] // 2:,} of {document['columns']:,} columns, filtered", "job", HALF_GOAL),
    }
    rows = []
    for name, (label, peer, goal) in works.items():
        measured = found[name]
        times = [f"{measured['seconds']:.1f} s", f"{peer}, {measured['peer']:.1f} s", f"{measured['ratio']:.2f} x"]
        rows.append([label, *times, f"at most {goal:g} x", _reached(measured["ratio"], goal)])
    header = ["written by a DataFrame", "time", "peer", "ratio", "goal", "reached"]
    return (
        f"## Writing\n\n{markdown(header, rows)}\n\nBest of {found['half']['rounds']}, in turn in one session. The job "
        f"without the filter, which copies columns as bytes, takes {found['half']['copied']:.1f} s."
    )


def read_part(document: dict[str, Any]) -> str:
    """Both readers, side by side."""
    found = document["read"]
    labels = {"mosaic": 'Mosaic, `format("mosaic")`', "parquet": "Parquet, Spark's own reader"}
    rows = []
    for name, label in labels.items():
        reader = found[name]
        seconds = [reader["cold"], min(reader["collect"]), min(reader["load_and_collect"])]
        rows.append([label, *(f"{value:.2f} s" for value in seconds), size(reader["peak_bytes"])])
    header = ["reader", "cold, load and collect", "warm, collect", "warm, load and collect", "memory"]
    return (
        f"## Reading 10 of {document['columns']:,} columns, {document['rows']:,} rows\n\n{markdown(header, rows)}\n\n"
        f"Best of {len(found['mosaic']['collect'])}, the readers asked in turn, each in a session of its own. Memory: "
        "the most that Java and all Python workers hold together, shared pages counted once. A session that has read "
        f"nothing yet holds {size(found['mosaic']['idle_bytes'])}."
    )


def tpch_part(found: dict[str, Any]) -> str:
    """Every query in both formats, and what the goals ask of all of them."""
    rows = [
        [name, f"{times['parquet']:.2f} s", f"{times['mosaic']:.2f} s", f"{times['ratio']:.2f} x"]
        for name, times in found["queries"].items()
    ]
    reached = _reached(found["median"], TPCH_MEDIAN_GOAL), _reached(found["most"], TPCH_MOST_GOAL)
    return (
        f"## TPC-H, scale factor {found['scale']:g}\n\n"
        f"The median query takes {found['median']:.2f} times what it takes with Parquet (goal: at most "
        f"{TPCH_MEDIAN_GOAL:g}: {reached[0]}), the slowest {found['most']:.2f} times (goal: at most "
        f"{TPCH_MOST_GOAL:g}: {reached[1]}). All rows are equal. Best of {found['rounds']}, "
        "both formats in turn in one application.\n\n" + markdown(["query", "Parquet", "Mosaic", "ratio"], rows)
    )


def fresh_part(document: dict[str, Any]) -> str:
    """What fresh sessions took."""
    labels = {
        "first": ("first query of a session", FIRST_GOAL),
        "many": ("load, count, and aggregate 3 columns", MANY_GOAL),
    }
    rows = []
    for name, (label, goal) in labels.items():
        if name in document:
            found = document[name]
            shape = f"{show_count(found['files'], 'file')} x {show_count(found['columns'], 'column')}"
            times = [f"{found[format_]['seconds']:.2f} s" for format_ in ("parquet", "mosaic")]
            processes = str(found["mosaic"]["processes"])
            rows.append(
                [
                    label,
                    shape,
                    *times,
                    f"{found['ratio']:.2f} x",
                    f"{goal:.2g} x",
                    _reached(found["ratio"], goal),
                    processes,
                ]
            )
    header = ["work", "table", "Parquet", "Mosaic", "ratio", "goal", "reached", "Python processes"]
    return "## Fresh sessions\n\n" + markdown(header, rows) if rows else ""


def _reached(measured: float, most: float) -> str:
    return "yes" if measured <= most else "**no**"


if __name__ == "__main__":
    main()
