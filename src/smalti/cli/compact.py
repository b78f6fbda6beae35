"""`compact`: many small files into few. `smalti.jobs.compact` does the work."""

from __future__ import annotations

import argparse

from smalti.cli.arguments import add_output, byte_count
from smalti.cli.job_arguments import REPLACING, add_replacing, given, print_summary, split_names, writer_options
from smalti.cli.progress import job_progress
from smalti.cli.render.text import printable
from smalti.cli.screen import Screen


def arguments_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a directory of Mosaic files")
    parser.add_argument("target", metavar="TARGET", nargs="?", help="where the new files go (default: in place)")
    about = "how large files should get, such as 1G (default 256M)"
    parser.add_argument("--target-file-bytes", type=byte_count, metavar="SIZE", help=about)
    about = "sort the rows of each new file by these columns, separated by commas"
    parser.add_argument("--sort-by", metavar="NAMES", help=about)
    add_replacing(parser)
    add_output(parser)


def run_compact(options: argparse.Namespace, screen: Screen) -> None:
    from smalti import jobs

    keys, more = split_names(options.sort_by and [options.sort_by]), given(options, *REPLACING, "target_file_bytes")
    with job_progress(screen.err, resumes=True) as progress:
        summary = jobs.compact(
            options.source,
            options.target,
            sort_by=keys or None,
            options=writer_options(options),
            progress=progress,
            **more,
        )
    if not options.json and not summary.splits:
        screen.lines([f"nothing to do: the files of {printable(summary.source)} are as large as they should be"])
        return
    print_summary(options, screen, summary)
