"""`compact`, `verify` and `clean`: the upkeep of tables. `smalti.jobs` does the work, under the same names."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta

from smalti import jobs
from smalti.cli.arguments import add_mosaic_files, add_output, byte_count
from smalti.cli.job_arguments import (
    add_engine,
    add_replacing,
    add_snapshot,
    print_summary,
    run_job,
    run_reading_job,
    split_names,
)
from smalti.cli.render.text import printable
from smalti.cli.screen import Screen
from smalti.errors import without_secrets


def arguments_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a directory of Mosaic files")
    parser.add_argument("target", metavar="TARGET", nargs="?", help="where the new files go (default: in place)")
    about = "how large files should get, such as 1G (default 256M)"
    parser.add_argument("--target-file-bytes", type=byte_count, metavar="SIZE", help=about)
    about = "sort the rows of each new file by these columns, separated by commas"
    parser.add_argument("--sort-by", type=split_names, metavar="NAMES", help=about)
    parser.set_defaults(resume=None)
    add_replacing(parser)
    add_output(parser)


def run_compact(options: argparse.Namespace, screen: Screen) -> None:
    summary = run_job(options, screen, jobs.compact)
    if options.json or summary.splits:
        print_summary(screen, summary)
    else:
        screen.lines([f"nothing to do: the files of {printable(summary.source)} are as large as they should be"])


def arguments_verify(parser: argparse.ArgumentParser) -> None:
    add_mosaic_files(parser)
    add_engine(parser)
    add_snapshot(parser)
    add_output(parser)


def run_verify(options: argparse.Namespace, screen: Screen) -> int:
    from smalti.cli.inputs import local_paths

    with local_paths(options.files, "mosaic") as (paths, _):
        report = run_reading_job(options, screen, paths)
    print_summary(screen, report)
    return 0 if report.ok else 1


def age(text: str) -> timedelta:
    """A length of time such as 12h; anything else is wrong usage.

    Examples
    --------
    >>> str(age("12h")), str(age("1.5d")), str(age("0"))
    ('12:00:00', '1 day, 12:00:00', '0:00:00')
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if found is None or (not found[2] and float(found[1])):
        raise argparse.ArgumentTypeError(f"{text} is no age such as 30m, 12h or 7d")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "": "seconds"}[found[2]]
    return timedelta(**{unit: float(found[1])})


def arguments_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a directory that jobs or Spark have written to")
    about = "leave what is younger than AGE, such as 30m, 12h or 7d (default 1d)"
    parser.add_argument("--older-than", type=age, default="1d", metavar="AGE", help=about)
    add_output(parser)


def run_clean(options: argparse.Namespace, screen: Screen) -> None:
    from smalti.io import locate

    if not locate(options.table).is_directory():
        raise NotADirectoryError(20, "No such directory", options.table)
    removed = jobs.clean(options.table, options.older_than)
    document = {"table": without_secrets(options.table), "removed": removed}
    screen.show(document, [f"removed {printable(name)}" for name in removed] or ["nothing to remove"])
