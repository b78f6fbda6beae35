"""`convert`, `compact`, `verify` and `profile`: arguments for `smalti.jobs`, which does the work, and its summary."""

from __future__ import annotations

import argparse
from typing import Any

from smalti.cli.arguments import add_columns, add_output, byte_count, whole_number
from smalti.cli.progress import ProgressBar
from smalti.cli.render.text import printable
from smalti.cli.screen import Screen

SOURCES = ("csv", "jsonl", "parquet", "orc", "arrow", "cfile", "mosaic")
TARGETS = ("mosaic", "parquet", "arrow", "csv")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="where it runs (default local: threads)"
    )


def _add_writer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how Mosaic is written")
    group.add_argument("--compression", choices=("zstd", "none"), help="default zstd")
    group.add_argument("--level", type=int, metavar="N", help="of zstd (default 1)")
    group.add_argument("--buckets", type=whole_number, metavar="N", help="how many buckets (default 100)")
    group.add_argument("--row-group-bytes", type=byte_count, metavar="SIZE", help="such as 64M (default 256M)")
    group.add_argument("--row-group-rows", type=whole_number, metavar="N", help="at most N rows in a row group")
    group.add_argument("--stats", action="append", metavar="NAMES", help="columns to keep statistics of, or 'all'")


def _writer_options(options: Any) -> Any:
    from smalti.options import WriterOptions

    names = [name for part in options.stats or () for name in part.split(",") if name]
    values = {
        "compression": options.compression,
        "compression_level": options.level,
        "num_buckets": options.buckets,
        "row_group_max_bytes": options.row_group_bytes,
        "row_group_max_rows": options.row_group_rows,
        "stats_columns": ("all" if names == ["all"] else tuple(names)) if names else None,
    }
    return WriterOptions(**{name: value for name, value in values.items() if value is not None})


def _finish(options: Any, screen: Screen, summary: Any) -> None:
    if options.json:
        screen.json(summary.to_dict())
    else:
        screen.lines(printable(line) for line in str(summary).splitlines())


def arguments_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a file, a directory, or a glob")
    parser.add_argument("target", metavar="TARGET", help="a file or a directory; its suffix says the format")
    add_columns(parser)
    parser.add_argument(
        "--from", dest="source_format", choices=SOURCES, help="format of the source, if its suffix lies"
    )
    parser.add_argument("--to", dest="target_format", choices=TARGETS, help="format of the target, if its suffix lies")
    parser.add_argument("--overwrite", action="store_true", help="replace a target that is there")
    parser.add_argument("--no-resume", action="store_true", help="start over instead of where an earlier run stopped")
    _add_engine(parser)
    _add_writer_options(parser)
    add_output(parser)


def run_convert(options: Any, screen: Screen) -> int:
    from smalti import jobs

    with ProgressBar(screen.err) as progress:
        summary = jobs.convert(
            options.source,
            options.target,
            source_format=options.source_format,
            target_format=options.target_format,
            engine=options.engine,
            options=_writer_options(options),
            columns=[name for part in options.columns for name in part.split(",")] if options.columns else None,
            overwrite=options.overwrite,
            resume=not options.no_resume,
            progress=progress,
        )
    _finish(options, screen, summary)
    return 0


def arguments_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a directory of Mosaic files")
    parser.add_argument("target", metavar="TARGET", nargs="?", help="where the new files go (default: in place)")
    parser.add_argument("--file-bytes", type=byte_count, metavar="SIZE", help="how large files should get, such as 1G")
    parser.add_argument("--sort-by", metavar="NAMES", help="order rows by these columns, with commas between")
    _add_engine(parser)
    _add_writer_options(parser)
    add_output(parser)


def run_compact(options: Any, screen: Screen) -> int:
    from smalti import jobs

    given = {"target_file_bytes": options.file_bytes} if options.file_bytes else {}
    with ProgressBar(screen.err) as progress:
        summary = jobs.compact(
            options.source,
            options.target,
            sort_by=options.sort_by.split(",") if options.sort_by else None,
            options=_writer_options(options),
            engine=options.engine,
            progress=progress,
            **given,
        )
    _finish(options, screen, summary)
    return 0


def arguments_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files or directories")
    _add_engine(parser)
    add_output(parser)


def run_verify(options: Any, screen: Screen) -> int:
    from smalti import jobs

    with ProgressBar(screen.err) as progress:
        report = jobs.verify(options.sources, engine=options.engine, progress=progress)
    _finish(options, screen, report)
    return 0 if report.ok else 1


def arguments_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a file or a directory")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the profile of every column here, as JSON")
    parser.add_argument("--html", metavar="PAGE", help="write a page here")
    _add_engine(parser)
    add_output(parser)


def run_profile(options: Any, screen: Screen) -> int:
    from smalti import jobs

    with ProgressBar(screen.err) as progress:
        profile = jobs.profile(
            options.source, output=options.output, html=options.html, engine=options.engine, progress=progress
        )
    _finish(options, screen, profile)
    return 0
