"""`profile`: measure every column. `smalti.jobs.profile` does the work."""

from __future__ import annotations

import argparse
from typing import Any

from smalti.cli.arguments import add_columns, add_files, add_output
from smalti.cli.inputs import local_paths
from smalti.cli.job_arguments import add_run, add_snapshot, chosen_columns, run_reading_job
from smalti.cli.render.table import heads
from smalti.cli.render.text import cell, printable, size
from smalti.cli.screen import Screen
from smalti.report.findings import KINDS, find_kind


def arguments_profile(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_columns(parser)
    about = "write the profile to this file: Mosaic, Parquet or CSV, by its suffix"
    parser.add_argument("-o", "--output", metavar="FILE", help=about)
    parser.add_argument("--html", metavar="PAGE", help="write an HTML page here")
    kinds = ", ".join(KINDS)
    about = f"only columns that are one of these, separated by commas: {kinds}"
    parser.add_argument("--only", type=_kinds, metavar="KINDS", help=about)
    add_run(parser)
    add_snapshot(parser)
    add_output(parser)


#: The most lines that are printed if the whole profile goes to a file.
MAX_BESIDE_FILE = 50


def _kinds(text: str) -> list[str]:
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind} is none of {', '.join(KINDS)}")
    return kinds


def run_profile(options: argparse.Namespace, screen: Screen) -> None:
    with local_paths(options.files, options.source_format) as (options.files, options.source_format):
        profile = run_reading_job(options, screen, options.files, columns=chosen_columns(options))
    columns = profile.table.to_pylist()
    if options.only is not None:
        columns = [item for item, fact in zip(columns, profile.facts, strict=True) if find_kind(fact) in options.only]
    names = ("source", "num_rows", "num_files", "num_bytes", "seconds", "findings")
    document = {name: getattr(profile, name) for name in names}
    document |= {"skipped": [str(item) for item in profile.skipped], "columns": columns}
    titles = heads("column:20 | type:8 | >nulls | >distinct | min:8 | max:8 | values:16 | encodings:8 | >bytes")
    found = profile.findings
    shown = columns[:MAX_BESIDE_FILE] if options.output else columns
    rest = len(columns) - len(shown)
    screen.show(
        document,
        [
            *([f"{printable(found)} (--only shows them)", ""] if found else []),
            *screen.table(titles, map(_line, shown)),
            *([f"… {rest:,} more columns are in {printable(options.output)}"] if rest else []),
            *map(printable, str(profile).splitlines()),
        ],
    )


def _line(item: dict[str, Any]) -> list[str]:
    return [
        cell(item["column"]),
        cell(item["type"]),
        f"{item['nulls']:,}",
        "" if item["distinct"] is None else f"~{item['distinct']:,}",
        *("" if item[key] is None else cell(item[key]) for key in ("min", "max", "histogram", "encodings")),
        "" if item["stored_bytes"] is None else size(item["stored_bytes"]),
    ]
