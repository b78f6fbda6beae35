"""`verify`: check files. `smalti.jobs.verify` does the work."""

from __future__ import annotations

import argparse

from smalti.cli.arguments import add_output
from smalti.cli.job_arguments import add_engine, add_snapshot, called_on, given, print_summary
from smalti.cli.progress import job_progress
from smalti.cli.screen import Screen


def arguments_verify(parser: argparse.ArgumentParser) -> None:
    about = "Mosaic files, directories or patterns; - is standard input"
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help=about)
    add_engine(parser)
    add_snapshot(parser)
    add_output(parser)


def run_verify(options: argparse.Namespace, screen: Screen) -> int:
    from smalti.cli.inputs import local_paths

    with local_paths(options.sources, "mosaic") as (paths, _), job_progress(screen.err) as progress:
        module, source, more = called_on(options, paths)
        report = module.verify(source, progress=progress, **given(options, "engine"), **more)
    print_summary(options, screen, report)
    return 0 if report.ok else 1
