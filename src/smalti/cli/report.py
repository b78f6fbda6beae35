"""`report`: the file as one HTML page."""

from __future__ import annotations

import argparse

from smalti.cli.arguments import add_mosaic_files, add_output
from smalti.cli.render.text import printable, size
from smalti.cli.screen import Screen
from smalti.io.places import locate
from smalti.report import write_report


def arguments_report(parser: argparse.ArgumentParser) -> None:
    add_mosaic_files(parser)
    parser.add_argument("-o", "--output", required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a page that is there")
    add_output(parser)


def run_report(options: argparse.Namespace, screen: Screen) -> None:
    place = locate(options.output)
    if not options.overwrite and place.exists():
        raise FileExistsError(17, "exists; --overwrite replaces it", options.output)
    (source,) = options.files
    write_report(source, options.output)
    written = place.info().size
    if options.json:
        screen.json({"file": source, "page": options.output, "size": written})
    else:
        screen.lines([f"wrote {printable(options.output)} ({size(written)})"])
