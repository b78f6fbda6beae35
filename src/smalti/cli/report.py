"""`report`: the file as one HTML page."""

from __future__ import annotations

import argparse

from smalti.cli.arguments import add_file
from smalti.cli.screen import Screen
from smalti.io.places import locate
from smalti.report import write_report


def arguments_report(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument("-o", "--output", required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a page that is there")


def run_report(options: argparse.Namespace, screen: Screen) -> None:
    if not options.overwrite and locate(options.output).exists():
        raise FileExistsError(17, "exists; --overwrite replaces it", options.output)
    write_report(options.file, options.output)
    if screen.is_terminal:
        screen.note(f"wrote {options.output}")
