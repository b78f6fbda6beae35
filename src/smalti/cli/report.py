"""`report`: files as one HTML page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import PurePosixPath

import smalti
from smalti import jobs
from smalti.cli.arguments import add_files, add_output
from smalti.cli.inputs import STANDARD_INPUT, local_paths, open_table
from smalti.cli.progress import job_progress
from smalti.cli.render.text import printable, size
from smalti.cli.screen import Screen
from smalti.io import locate, open_sink
from smalti.io.sinks import finish_with
from smalti.report import render_report
from smalti.table.names import is_glob
from smalti.table.opening import source_name


def arguments_report(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    about = "the HTML file to write (default: the name of the file with .html, in the current directory)"
    parser.add_argument("-o", "--output", metavar="PAGE", help=about)
    about = "also measure values: nulls, distinct values, ranges, histograms (always done for formats but Mosaic)"
    parser.add_argument("--values", action="store_true", help=about)
    parser.add_argument("--overwrite", action="store_true", help="replace the page if it exists")
    add_output(parser)


def default_page(path: str) -> str:
    """The page of a file, directory or pattern if no name is given for it.

    Examples
    --------
    >>> default_page("data/days.mosaic"), default_page("s3://b/sales/?region=x"), default_page("days/*.mosaic")
    ('days.html', 'sales.html', 'days.html')
    """
    if path == STANDARD_INPUT:
        return "stdin.html"
    bare = PurePosixPath((path.partition("?")[0] if "://" in path else path).rstrip("/"))
    name = bare.parent.name if is_glob(bare.name) else bare.name.removesuffix(bare.suffix)
    return f"{name or 'report'}.html"


def run_report(options: argparse.Namespace, screen: Screen) -> None:
    if options.output is None:
        options.output = default_page(options.files[0])
    location = locate(options.output)
    if not options.overwrite and location.exists():
        raise FileExistsError(17, "exists; --overwrite replaces it", options.output)
    with local_paths(options.files, options.source_format) as (paths, source_format):
        page = None if options.values else _drawn(paths, source_format)
        if page is not None:
            finish_with(open_sink(options.output), page.encode())
        else:
            with job_progress(screen.err) as progress:
                jobs.profile(
                    paths[0] if len(paths) == 1 else paths,
                    html=options.output,
                    overwrite=options.overwrite,
                    progress=progress,
                    source_format=source_format,
                )
    written = location.info().size
    document = {"file": source_name(options.files), "page": options.output, "size": written}
    screen.show(document, [f"wrote {printable(options.output)} ({size(written)})"])


def _drawn(paths: Sequence[str], source_format: str | None) -> str | None:
    """The page of Mosaic files; None for others, whose page has their values only."""
    with open_table(paths, source_format) as opened:
        if isinstance(opened, (smalti.MosaicFile, smalti.MosaicDataset)):
            return render_report(opened, source_name(paths))
    return None
