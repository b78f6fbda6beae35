"""`convert`: files of one format to files of another. `smalti.jobs.convert` does the work."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, cast

import pyarrow as pa

from smalti import jobs
from smalti.cli.arguments import FORMATS, add_columns, add_format, add_output, add_where
from smalti.cli.inputs import STANDARD_INPUT, list_inputs, local_paths
from smalti.cli.job_arguments import add_replacing, add_resume, chosen_columns, print_summary, run_job
from smalti.cli.screen import Screen
from smalti.errors import MosaicError, PaimonTableError
from smalti.io.locations import is_local, locate


def arguments_convert(parser: argparse.ArgumentParser) -> None:
    about = "files, directories or patterns; several become files of one directory; - is standard input"
    parser.add_argument("files", metavar="SOURCE", nargs="+", help=about)
    about = "a file or a directory; its suffix says the format; - is standard output, with --to"
    parser.add_argument("target", metavar="TARGET", help=about)
    add_columns(parser)
    add_where(parser)
    about = "types of columns of CSV and JSON files, such as zip=string,price=double; the others are guessed"
    parser.add_argument("--types", type=column_types, metavar="NAME=TYPE,...", help=about)
    add_format(parser)
    about = f"the format of the target, if its suffix does not say it: {FORMATS}"
    parser.add_argument("--target-format", "--to", metavar="FORMAT", help=about)
    add_resume(parser)
    add_replacing(parser, salvages=True)
    add_output(parser)


def column_types(text: str) -> pa.Schema:
    """Types by name as they are typed, in Arrow's words; anything else is wrong usage.

    Examples
    --------
    >>> column_types("zip=string,at=timestamp[ms]").types
    [DataType(string), TimestampType(timestamp[ms])]
    """
    fields = []
    for part in re.split(r",(?=[^,=\]]+=)", text):
        name, _, type_ = part.rpartition("=")
        try:
            fields.append((name, pa.type_for_alias(cast("Any", type_.strip()))))
        except ValueError:
            words = "string, int64, double, bool, date32, timestamp[us]"
            raise argparse.ArgumentTypeError(f"{part} is no NAME=TYPE; types are {words} and others of Arrow") from None
    return pa.schema(fields)


def run_convert(options: argparse.Namespace, screen: Screen) -> int:
    with local_paths(options.files, options.source_format) as (options.files, options.source_format):
        if options.target == STANDARD_INPUT:
            summary = _convert_to_output(options, screen)
        else:
            summary = _convert(options, screen)
            print_summary(screen, summary)
    return 1 if summary.skipped and not summary.files else 0  # Files were skipped, and nothing is left to write.


def _convert_to_output(options: argparse.Namespace, screen: Screen) -> jobs.JobSummary:
    """Convert one file to a temporary file and copy that to standard output: most formats are written out of order."""
    from smalti.jobs.formats.registry import format_by_name
    from smalti.jobs.summary import skipped_lines

    if options.target_format is None:
        raise MosaicError("what to write to standard output? --to says the format")
    listing, _ = list_inputs(options.files, options.source_format)
    if len(listing.files) > 1:
        raise MosaicError("standard output takes one file", path=options.files[0], found=len(listing.files))
    with tempfile.TemporaryDirectory(prefix="smalti-stdout-") as directory:
        # The one file of a directory or pattern, so that the result is one file too.
        if listing.directory or is_local(listing.filesystem):
            options.files = [listing.files[0].path]
        made = Path(directory, f"out{format_by_name(options.target_format).suffixes[0]}")
        options.target = str(made)
        summary = _convert(options, screen)
        for line in skipped_lines(summary.skipped):
            screen.note(line)
        screen.out.flush()
        if summary.files:
            with made.open("rb") as file:
                shutil.copyfileobj(file, screen.out.buffer)
    return summary


def _convert(options: argparse.Namespace, screen: Screen) -> jobs.JobSummary:
    source = options.files[0] if len(options.files) == 1 else options.files
    columns = chosen_columns(options)
    try:
        return cast("jobs.JobSummary", run_job(options, screen, jobs.convert, source, columns=columns))
    except PaimonTableError as error:
        # The job finds the table in the listing of its target, before anything is written.
        is_target = PurePath(error.place["path"]) == PurePath(locate(options.target).absolute().path)
        if not is_target or find_spec("pypaimon") is None:
            raise
    from smalti import paimon

    target, mode = options.target, "overwrite" if options.overwrite else "append"
    options.target = options.overwrite = None
    return cast(
        "jobs.JobSummary",
        run_job(options, screen, paimon.convert, source, target, mode, columns=columns, reasons=_NOT_TO_PAIMON),
    )


_FROM_HERE = "this process writes a Paimon table; in Spark, df.write.format('mosaic').mode('append').save(TABLE) does"
#: Why arguments of `convert` do not work if the target is a Paimon table.
_NOT_TO_PAIMON = {
    "engine": _FROM_HERE,
    "workers": _FROM_HERE,
    "keep": "Paimon keeps the files of old snapshots; its table option snapshot.time-retained says for how long",
    "on_error": "one commit writes all files to a Paimon table; leave out those that cannot be read",
    "options": "table options control how a Paimon table's files are written, such as mosaic.stats-columns, "
    "mosaic.num-buckets and file.block-size",
    "resume": "nothing is resumed: rows go to a Paimon table in one commit, or not at all",
    "target_format": "the table option file.format says in which format a Paimon table is written",
    "types": "text is read in the types of the columns of the Paimon table",
}
