"""`report`: the file as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from smalti.cli.arguments import add_file
from smalti.cli.screen import Screen
from smalti.report import write_report


def arguments_report(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument("-o", "--output", required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a page that is there")


def run_report(options: Any, screen: Screen) -> int:
    if not options.overwrite and _exists(options.output):
        raise FileExistsError(17, "exists; --overwrite replaces it", options.output)
    write_report(options.file, options.output)
    if screen.is_terminal:
        screen.note(f"wrote {options.output}")
    return 0


def _exists(path: str) -> bool:
    if "://" not in path:
        return Path(path).exists()
    from pyarrow.fs import FileSystem, FileType

    filesystem, inner = FileSystem.from_uri(path)
    return bool(filesystem.get_file_info(inner).type != FileType.NotFound)
