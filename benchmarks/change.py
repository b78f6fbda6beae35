"""Changing a wide table in place: ``python -m benchmarks.change`` measures, and writes change.json and change.md.

Every work is done by all peers in turns on the same rows, and begins with the same files, which are linked and not
copied: nobody writes into a file that is there. Bytes copied and encoded are what smalti reports, and what is written
is compared with the sizes of the files. ``--only`` measures some parts again and keeps the others of the last run.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.change_works import COLUMN_WORKS, FULL, PARTS, SMOKE, Shape, prepare
from benchmarks.environment import describe
from benchmarks.report import markdown, publish, size, warning

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


@dataclass(frozen=True)
class Goal:
    """A figure, and the most that it may be."""

    part: str
    title: str
    figure: str
    most: float


GOALS = (
    *(
        goal
        for work in COLUMN_WORKS
        for goal in (
            Goal("columns", f"{work}: at most 1/6 of reading and writing again", f"{work}: of rewrite", 1 / 6),
            Goal("columns", f"{work}: at most 2 of copying the files", f"{work}: of copy", 2),
            Goal("columns", f"{work}: at most 2 of copying and flushing them", f"{work}: of flushed copy", 2),
        )
    ),
    Goal("level9", "add 10 columns, zstd 9: at most 1/6 of reading and writing again", "level 9: of rewrite", 1 / 6),
    *(
        goal
        for name, what in (("one file", "in one of ten files"), ("scattered", "scattered"))
        for goal in (
            Goal("rows", f"delete 0.1 % {what}: bytes encoded, of those of the touched row groups", name, 1.05),
            Goal("rows", f"delete 0.1 % {what}: bytes written, of those of the touched files", f"{name}: files", 1.05),
        )
    ),
    Goal("merge", "merge: at most 1/5 of a full rewrite", "merge: of rewrite", 0.2),
    Goal("merge", "merge: memory, GiB", "merge: memory", 1),
    Goal("reads", "10 columns after 100 changes: at most 1.1 of before", "reads", 1.1),
)


# --- showing --------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.change", description="Measure changes in place.")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, seconds")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="parts to measure; others stay as they were")
    about = "a directory for the tables that works begin with, made there on first use (default: a temporary one)"
    parser.add_argument("--sources", type=Path, help=about)
    parser.add_argument("--prepare", action="store_true", help="make these tables, and measure nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    args = parser.parse_args(arguments)
    shape = SMOKE if args.smoke else FULL
    if args.sources is not None:
        args.sources.mkdir(parents=True, exist_ok=True)
    if args.prepare:
        prepare(shape, args.sources)
        return 0
    found = args.out / "change.json"
    parts: dict[str, Any] = json.loads(found.read_text())["parts"] if args.only and found.exists() else {}
    environment = describe([])
    for name in args.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="smalti-change-", dir=os.environ.get("SMALTI_BENCH_DIR")) as home:
            sources = args.sources or Path(home, "sources")
            sources.mkdir(exist_ok=True)
            measured = PARTS[name](shape, Path(home), sources)
        measured["costs"] = [asdict(cost) for cost in measured["costs"]]
        parts[name] = {**measured, "environment": environment}
        # After every part, so that a run that is stopped has published what it has measured.
        document = describe_run(shape, parts, has_goals=not args.smoke)
        publish(args.out, "change", document, page(document))
    return 0


def describe_run(shape: Shape, parts: dict[str, Any], *, has_goals: bool) -> dict[str, Any]:
    """All that is published."""
    return {
        "parts": {name: parts[name] for name in PARTS if name in parts},
        "shape": {
            "columns": shape.part.columns,
            "rows": shape.part.rows,
            "files": shape.files,
            "many": shape.many,
            "small": [shape.small.columns, shape.small.rows],
        },
        "goals": [outcome(goal, parts) for goal in GOALS if goal.part in parts and has_goals],
    }


def outcome(goal: Goal, parts: dict[str, Any]) -> dict[str, Any]:
    """What was measured for a goal, and whether it is good enough."""
    measured = parts[goal.part]["figures"].get(goal.figure)
    return {**asdict(goal), "measured": measured, "reached": measured is not None and measured <= goal.most}


TITLES = {
    "columns": "Columns",
    "level9": "Columns of files that are compressed at level 9",
    "rows": "Rows deleted",
    "merge": "Rows merged",
    "reads": "Reading after many changes",
}


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    shape = document["shape"]
    about = {
        "columns": f"{shape['files']} files of {shape['columns']:,} columns x {shape['rows']:,} rows, zstd 1, paged "
        "buckets; best of three rounds in which all take turns. smalti writes the new files, flushes them to disk and "
        "commits; a copy does not flush, so there is a second one that does. Lance keeps new columns in files of their "
        "own, and drops and renames in its manifest: nothing is rewritten there, and every reader has to put the "
        "columns together.",
        "level9": "What is copied is not compressed again, so the advantage grows with the level.",
        "rows": "Ten files of four row groups each. The bytes that count are those of row groups with a deleted row; "
        "the other row groups of their files are copied.",
        "merge": f"{shape['many']} files of {shape['columns']:,} columns x {shape['rows']:,} rows, zstd 1; the data "
        "has all columns of 1,000 rows: 900 that are there, in two files, and 100 new ones. Each merge runs in a "
        "process of its own, of which the memory is. deltalake merges the same rows into a smaller table, in Parquet, "
        "which is the case of delta-io/delta 3118.",
        "reads": f"A file of {shape['small'][0]:,} columns x {shape['small'][1]:,} rows, read before and after "
        "100 changes: columns added, renamed, updated and dropped.",
    }
    dates = [part["environment"]["date"] for part in document["parts"].values()]
    parts = [
        "# Changing a wide table in place",
        f"Written by `python -m benchmarks.change` on {max(dates, default='')}; do not edit. See [changing "
        "tables](../howto/changing-tables.md) for what is measured here.",
    ]
    for name, measured in document["parts"].items():
        head = ["work", "by", "s", "copied", "encoded", "written", "memory", ""]
        rows = [
            [
                cost["work"],
                cost["peer"],
                "" if cost["seconds"] is None else f"{cost['seconds']:.3g}",
                size(cost["bytes_copied"]),
                size(cost["bytes_encoded"]),
                size(cost["bytes_written"]),
                size(cost["peak_bytes"]),
                cost["remark"].replace("|", " "),
            ]
            for cost in measured["costs"]
        ]
        total = f" The files have {size(measured['bytes'])}." if "bytes" in measured else ""
        parts += [f"## {TITLES[name]}", about[name] + total, warning(measured["environment"]), markdown(head, rows)]
    goals = [
        [
            goal["title"],
            f"{goal['most']:.3g}",
            "" if goal["measured"] is None else f"{goal['measured']:.3g}",
            "reached" if goal["reached"] else "**missed**",
        ]
        for goal in document["goals"]
    ]
    if goals:
        parts += ["## Goals", markdown(["goal", "at most", "measured", ""], goals)]
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
