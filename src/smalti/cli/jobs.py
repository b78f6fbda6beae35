"""`convert`, `compact`, `clean`, `verify` and `profile`: their arguments and output. `smalti.jobs` does the work.

It is imported when a job is run, so that `--help` need not wait for it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import smalti
from smalti.cli.arguments import (
    FORMATS,
    add_columns,
    add_format,
    add_output,
    age,
    byte_count,
    select_columns,
    whole_number,
)
from smalti.cli.progress import ProgressBar
from smalti.cli.render.table import heads
from smalti.cli.render.text import cell, printable, size
from smalti.cli.screen import Screen
from smalti.errors import MosaicError, without_secrets
from smalti.logical.patterns import is_pattern
from smalti.options import LAYOUTS

if TYPE_CHECKING:
    from smalti import jobs


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="threads of this machine, or Spark (default local)",
    )


def _add_plain(parser: argparse.ArgumentParser) -> None:
    about = "read all files in the directory of a Paimon table, with old versions of rows and deleted rows"
    parser.add_argument("--plain", action="store_true", help=about)


def _add_snapshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--snapshot",
        type=whole_number,
        metavar="ID",
        help="of a Paimon table: the snapshot to read (default: the newest)",
    )
    parser.add_argument("--tag", metavar="NAME", help="of a Paimon table: the tag to read")


def _at_snapshot(options: argparse.Namespace) -> dict[str, Any]:
    chosen = {"snapshot": options.snapshot, "tag": options.tag}
    return {name: value for name, value in chosen.items() if value is not None}


def _add_care_and_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist at the target")
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="what to do about a file that cannot be read: stop, or leave it out (default raise)",
    )
    parser.add_argument("--workers", type=whole_number, metavar="N", help="run N tasks at once (default: one per core)")
    _add_engine(parser)


def _add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        type=float,
        metavar="HOURS",
        help="keep replaced Mosaic files for HOURS, for those who have listed the table before (default: delete them)",
    )


def _engine_and_care(options: argparse.Namespace) -> dict[str, Any]:
    """The values of `_add_care_and_engine`, as the jobs name them."""
    names = ("engine", "overwrite", "on_error")
    return {"workers": options.workers or None, **{name: getattr(options, name) for name in names}}


def _add_writer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how Mosaic is written")
    group.add_argument("--compression", choices=("zstd", "none"), help="how blocks are compressed (default zstd)")
    group.add_argument("--level", type=int, metavar="N", help="level of zstd, -7 to 22 (default 1)")
    group.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="what to aim at: the smallest file, a balance, or the fastest reads (default balanced)",
    )
    group.add_argument(
        "--buckets", type=whole_number, metavar="N", help="group columns into N buckets (default: chosen by samples)"
    )
    group.add_argument(
        "--page-size",
        type=byte_count,
        metavar="SIZE",
        help="compress each column by itself in buckets whose columns have SIZE bytes on average "
        "(default: chosen by samples)",
    )
    group.add_argument(
        "--row-group-bytes",
        type=byte_count,
        metavar="SIZE",
        help="begin a new row group after SIZE bytes, such as 64M (default: 256M, or more for very wide tables)",
    )
    group.add_argument("--row-group-rows", type=whole_number, metavar="N", help="begin a new row group after N rows")
    group.add_argument(
        "--stats",
        action="append",
        metavar="NAMES",
        help="columns to keep minimum and maximum of, with commas between, or 'all' (default: all, up to 100 columns)",
    )


def _writer_options(options: argparse.Namespace) -> smalti.WriterOptions | None:
    """The values of `_add_writer_options`; None if none is given, so that `compact` leaves large files as they are."""
    names = _names(options.stats)
    values = {
        "compression": options.compression,
        "compression_level": options.level,
        "layout": options.layout,
        "num_buckets": options.buckets,
        "page_size_threshold": options.page_size,
        "row_group_max_bytes": options.row_group_bytes,
        "row_group_max_rows": options.row_group_rows,
        "stats_columns": ("all" if names == ["all"] else tuple(names)) if names else None,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return smalti.WriterOptions(**given) if given else None


def _names(patterns: list[str] | None) -> list[str]:
    return [name for part in patterns or () for name in part.split(",") if name]


def _column_names(options: argparse.Namespace) -> list[str] | None:
    """The columns asked for. Globs are matched with the columns of the source, and so are names that have a comma."""
    names = _names(options.columns)
    if not any(map(is_pattern, names)):
        whole = {name for name in options.columns or () if "," in name} & set(_first_names(options))
        return [
            name for part in options.columns or () for name in ([part] if part in whole else _names([part]))
        ] or None
    from smalti.cli.sources import column_names, open_table

    with open_table(options.sources, options.source_format) as opened:
        return select_columns(column_names(opened), options.columns)


def _first_names(options: argparse.Namespace) -> list[str]:
    """The columns of the first file, if names with commas are asked for. What is wrong with it, the job will say."""
    if not any("," in name for name in options.columns or ()):
        return []
    from smalti.cli.sources import list_inputs
    from smalti.jobs.formats.tables import FormatTable

    try:
        listing, formats = list_inputs(options.sources, options.source_format)
        return FormatTable(replace(listing, files=listing.files[:1]), formats[:1]).schema.names
    except (MosaicError, OSError):
        return []


def _print_summary(options: argparse.Namespace, screen: Screen, summary: jobs.JobSummary | jobs.VerifyReport) -> None:
    if options.json:
        screen.json(summary.to_dict())
    else:
        screen.lines(printable(line) for line in str(summary).splitlines())


def arguments_convert(parser: argparse.ArgumentParser) -> None:
    about = "files, directories or patterns; several become files of one directory; - is standard input"
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help=about)
    about = "a file or a directory; its suffix says the format; - is standard output, with --to"
    parser.add_argument("target", metavar="TARGET", help=about)
    add_columns(parser)
    add_format(parser)
    about = f"the format of the target, if its suffix does not say it: {FORMATS}"
    parser.add_argument("--to", dest="target_format", metavar="FORMAT", help=about)
    parser.add_argument(
        "--no-resume",
        action="store_true",
        help="start from the beginning, even if an earlier run of the same job was interrupted",
    )
    _add_care_and_engine(parser)
    _add_keep(parser)
    _add_writer_options(parser)
    _add_plain(parser)
    add_output(parser)


def run_convert(options: argparse.Namespace, screen: Screen) -> None:
    from smalti.cli.sources import STANDARD_INPUT, local_paths

    with local_paths(options.sources, options.source_format) as paths:
        if options.sources == [STANDARD_INPUT]:
            options.sources, options.source_format = paths, None
        if options.target == STANDARD_INPUT:
            _convert_to_output(options, screen)
        else:
            _print_summary(options, screen, _convert(options, screen))


def _convert_to_output(options: argparse.Namespace, screen: Screen) -> None:
    """Convert one file to a temporary file and copy that to standard output: most formats are written out of order."""
    from smalti.cli.sources import list_inputs
    from smalti.io.locations import is_local
    from smalti.jobs.formats.registry import format_by_name

    if options.target_format is None:
        raise MosaicError("what to write to standard output? --to says the format")
    listing, _ = list_inputs(options.sources, options.source_format)
    if len(listing.files) > 1:
        raise MosaicError("standard output takes one file", path=options.sources[0], found=len(listing.files))
    with tempfile.TemporaryDirectory(prefix="smalti-stdout-") as directory:
        # The one file of a directory or pattern, so that the result is one file too.
        if listing.directory or is_local(listing.filesystem):
            options.sources = [listing.files[0].path]
        made = Path(directory, f"out{format_by_name(options.target_format).suffixes[0]}")
        options.target = str(made)
        _convert(options, screen)
        screen.out.flush()
        with made.open("rb") as file:
            shutil.copyfileobj(file, screen.out.buffer)


def _convert(options: argparse.Namespace, screen: Screen) -> jobs.JobSummary:
    from smalti import jobs
    from smalti.cli.sources import is_paimon

    writer_options = _writer_options(options)
    if is_paimon(options.target):
        from smalti import paimon

        if writer_options is not None:
            raise MosaicError(
                "how the files of a Paimon table are written is said by options of the table, such as "
                "mosaic.stats-columns, mosaic.num-buckets and file.block-size",
                path=options.target,
            )
        mode: Literal["append", "overwrite"] = "overwrite" if options.overwrite else "append"
        with ProgressBar(screen.err) as progress:
            return paimon.convert(
                options.sources,
                options.target,
                mode,
                source_format=options.source_format,
                columns=_column_names(options),
                progress=progress,
            )
    with ProgressBar(screen.err) as progress:
        return jobs.convert(
            options.sources[0] if len(options.sources) == 1 else options.sources,
            options.target,
            source_format=options.source_format,
            target_format=options.target_format,
            options=writer_options,
            columns=_column_names(options),
            resume=not options.no_resume,
            keep=options.keep,
            progress=progress,
            plain=options.plain,
            **_engine_and_care(options),
        )


def arguments_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a directory of Mosaic files")
    parser.add_argument("target", metavar="TARGET", nargs="?", help="where the new files go (default: in place)")
    parser.add_argument(
        "--file-bytes", type=byte_count, metavar="SIZE", help="how large files should get, such as 1G (default 256M)"
    )
    about = "sort the rows of each new file by these columns, separated by commas"
    parser.add_argument("--sort-by", metavar="NAMES", help=about)
    _add_care_and_engine(parser)
    _add_keep(parser)
    _add_writer_options(parser)
    _add_plain(parser)
    add_output(parser)


def run_compact(options: argparse.Namespace, screen: Screen) -> None:
    from smalti import jobs

    given = {"target_file_bytes": options.file_bytes} if options.file_bytes else {}
    with ProgressBar(screen.err) as progress:
        summary = jobs.compact(
            options.source,
            options.target,
            sort_by=options.sort_by.split(",") if options.sort_by else None,
            options=_writer_options(options),
            keep=options.keep,
            progress=progress,
            plain=options.plain,
            **given,
            **_engine_and_care(options),
        )
    _print_summary(options, screen, summary)


def arguments_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a directory that jobs or Spark have written to")
    parser.add_argument(
        "--older-than",
        type=age,
        default="1d",
        metavar="AGE",
        help="leave what is younger than AGE, such as 30m, 12h or 7d (default 1d)",
    )
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


def arguments_verify(parser: argparse.ArgumentParser) -> None:
    about = "Mosaic files, directories or patterns; - is standard input"
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help=about)
    _add_engine(parser)
    _add_snapshot(parser)
    _add_plain(parser)
    add_output(parser)


def run_verify(options: argparse.Namespace, screen: Screen) -> int:
    from smalti import jobs
    from smalti.cli.sources import is_paimon, local_paths

    given: dict[str, Any] = {"engine": options.engine}
    with local_paths(options.sources, "mosaic") as paths, ProgressBar(screen.err) as progress:
        if len(paths) == 1 and not options.plain and is_paimon(paths[0]):
            from smalti import paimon

            report = paimon.verify(paths[0], progress=progress, **given, **_at_snapshot(options))
        else:
            report = jobs.verify(paths, progress=progress, plain=options.plain, **given)
    _print_summary(options, screen, report)
    return 0 if report.ok else 1


def arguments_profile(parser: argparse.ArgumentParser) -> None:
    about = "files, directories or patterns, of any format that `convert` reads; - is standard input"
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help=about)
    add_format(parser)
    add_columns(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the profile to this file: Mosaic, Parquet or CSV, by its suffix"
    )
    parser.add_argument("--html", metavar="PAGE", help="write an HTML page here")
    _add_care_and_engine(parser)
    _add_snapshot(parser)
    _add_plain(parser)
    add_output(parser)


def run_profile(options: argparse.Namespace, screen: Screen) -> None:
    from smalti import jobs
    from smalti.cli.sources import STANDARD_INPUT, is_paimon, local_paths

    with local_paths(options.sources, options.source_format) as paths, ProgressBar(screen.err) as progress:
        if options.sources == [STANDARD_INPUT]:
            options.sources, options.source_format = paths, None
        given = {
            "output": options.output,
            "html": options.html,
            "columns": _column_names(options),
            "progress": progress,
            **_engine_and_care(options),
        }
        if len(paths) == 1 and not options.plain and is_paimon(paths[0]):
            from smalti import paimon

            profile = paimon.profile(paths[0], **given, **_at_snapshot(options))
        else:
            profile = jobs.profile(
                paths[0] if len(paths) == 1 else paths,
                source_format=options.source_format,
                plain=options.plain,
                **given,
            )
    columns = profile.table.to_pylist()
    if options.json:
        facts = {name: getattr(profile, name) for name in ("source", "num_rows", "num_files", "num_bytes", "seconds")}
        screen.json({**facts, "skipped": [str(item) for item in profile.skipped], "columns": columns})
        return
    titles = heads("column:20 | type:8 | >nulls | >distinct | min:8 | max:8 | values:16 | encodings:8 | >bytes")
    screen.lines([*screen.table(titles, map(_profile_line, columns)), printable(str(profile))])


def _profile_line(item: dict[str, Any]) -> list[str]:
    return [
        cell(item["column"]),
        cell(item["type"]),
        f"{item['nulls']:,}",
        "" if item["distinct"] is None else f"~{item['distinct']:,}",
        *("" if item[key] is None else cell(item[key]) for key in ("min", "max", "histogram", "encodings")),
        "" if item["stored_bytes"] is None else size(item["stored_bytes"]),
    ]
