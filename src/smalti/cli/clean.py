"""`clean`: finish interrupted commits and remove what killed jobs have left. `smalti.jobs.clean` does the work."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta

from smalti.cli.arguments import add_output
from smalti.cli.render.text import printable
from smalti.cli.screen import Screen
from smalti.errors import without_secrets


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
    from smalti import jobs
    from smalti.io import locate

    if not locate(options.table).is_directory():
        raise NotADirectoryError(20, "No such directory", options.table)
    removed = jobs.clean(options.table, options.older_than)
    if options.json:
        screen.json({"table": without_secrets(options.table), "removed": removed})
    else:
        screen.lines([f"removed {printable(name)}" for name in removed] or ["nothing to remove"])
