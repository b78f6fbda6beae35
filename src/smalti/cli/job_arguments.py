"""Arguments that the commands of jobs share, and the function of the library that a command calls.

An argument is called like the parameter that it fills: `--on-error` is `on_error` of `smalti.jobs`, and
`--compression-level` is `compression_level` of `smalti.WriterOptions`. So messages of the library name what was typed.
Arguments that were not typed are not passed on: the defaults are those of the library.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from smalti.cli.arguments import byte_count, select_columns, whole_number
from smalti.cli.render.text import printable
from smalti.cli.screen import Screen
from smalti.errors import MosaicError
from smalti.logical.patterns import is_pattern
from smalti.options import WriterOptions, WriterOptionValues, option_help

if TYPE_CHECKING:
    from types import ModuleType

    from smalti import jobs


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of the arguments that the command has, and that were typed, by name."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def add_engine(parser: argparse.ArgumentParser) -> None:
    about = "threads of this machine, or Spark (default local)"
    parser.add_argument("--engine", choices=("local", "spark"), help=about)


#: The names of the arguments that `add_run` and `add_replacing` add.
RUN = ("engine", "overwrite", "on_error", "workers")
REPLACING = (*RUN, "keep", "plain")


def add_run(parser: argparse.ArgumentParser, *, salvages: bool = False) -> None:
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist at the target")
    about = "what to do about a file that cannot be read: stop, or leave it out (default raise)"
    if salvages:
        about += "; skip-columns leaves out only the columns of Mosaic files that cannot be read"
    choices = ("raise", "skip", "skip-columns") if salvages else ("raise", "skip")
    parser.add_argument("--on-error", choices=choices, help=about)
    parser.add_argument("--workers", type=whole_number, metavar="N", help="run N tasks at once (default: one per core)")
    add_engine(parser)


def add_plain(parser: argparse.ArgumentParser) -> None:
    about = "read all files in the directory of a Paimon table, with old versions of rows and deleted rows"
    parser.add_argument("--plain", action="store_true", help=about)


def add_snapshot(parser: argparse.ArgumentParser) -> None:
    about = "of a Paimon table: the snapshot to read (default: the newest)"
    parser.add_argument("--snapshot", type=whole_number, metavar="ID", help=about)
    parser.add_argument("--tag", metavar="NAME", help="of a Paimon table: the tag to read")
    add_plain(parser)


def add_replacing(parser: argparse.ArgumentParser, *, salvages: bool = False) -> None:
    """Arguments of the jobs that write tables: how they run, what they replace, and how Mosaic is written."""
    add_run(parser, salvages=salvages)
    about = "keep replaced Mosaic files for HOURS, for those who have listed the table before (default: delete them)"
    parser.add_argument("--keep", type=float, metavar="HOURS", help=about)
    add_plain(parser)
    group = parser.add_argument_group("how Mosaic is written", "These are the options of smalti.WriterOptions.")
    helps, hints = option_help(), get_type_hints(WriterOptionValues)
    for option in fields(WriterOptions):
        about = helps[option.name] + ("" if option.default is None else f" (default {option.default})")
        hint = hints[option.name]
        kind: dict[str, Any]
        if hint is bool:
            kind = {"action": argparse.BooleanOptionalAction}
        elif get_origin(hint) is Literal:
            kind = {"choices": get_args(hint)}
        elif option.name == "stats_columns":
            kind = {"action": "append", "metavar": "NAMES"}
        elif option.name.endswith(("_bytes", "_threshold")):
            kind = {"type": partial(byte_count, least=0), "metavar": "SIZE"}
        else:
            kind = {"type": int, "metavar": "N"}
        group.add_argument(f"--{option.name.replace('_', '-')}", help=about.replace("%", "%%"), **kind)


def writer_options(options: argparse.Namespace) -> WriterOptions | None:
    """The options that were typed; None if there are none, so that `compact` leaves large files as they are."""
    values = given(options, *(option.name for option in fields(WriterOptions)))
    names = split_names(values.get("stats_columns"))
    if names:
        values["stats_columns"] = names[0] if names in (["all"], ["auto"]) else tuple(names)
    return WriterOptions(**values) if values else None


def split_names(texts: list[str] | None) -> list[str]:
    return [name for text in texts or () for name in text.split(",") if name]


def chosen_columns(options: argparse.Namespace) -> list[str] | None:
    """The columns asked for. Globs are matched with the columns of the source, and so are names that have a comma."""
    from smalti.cli.inputs import list_inputs, open_table
    from smalti.jobs.formats.tables import FormatTable

    names = split_names(options.columns)
    if any(map(is_pattern, names)):
        with open_table(options.sources, options.source_format) as opened:
            return select_columns(opened.column_names, options.columns)
    known: set[str] = set()
    if names != (options.columns or []):
        with suppress(MosaicError, OSError):  # The job will say what is wrong with the file.
            listing, formats = list_inputs(options.sources, options.source_format)
            known = set(FormatTable(replace(listing, files=listing.files[:1]), formats[:1]).schema.names)
    return [
        name for text in options.columns or () for name in ([text] if text in known else split_names([text]))
    ] or None


def called_on(options: argparse.Namespace, paths: list[str]) -> tuple[ModuleType, Any, dict[str, Any]]:
    """The module whose function does the work, the source to call it with, and the arguments that only it has.

    A Paimon table is read by `smalti.paimon`, unless `--plain` asks for its files. All else is read by `smalti.jobs`.
    """
    from smalti import jobs
    from smalti.cli.inputs import is_paimon

    if len(paths) == 1 and not options.plain and is_paimon(paths[0]):
        from smalti import paimon

        return paimon, paths[0], given(options, "snapshot", "tag")
    return jobs, paths[0] if len(paths) == 1 else paths, {"plain": options.plain}


def print_summary(
    options: argparse.Namespace, screen: Screen, summary: jobs.JobSummary | jobs.VerifyReport | jobs.ChangeReport
) -> None:
    if options.json:
        screen.json(summary.to_dict())
    else:
        screen.lines(printable(line) for line in str(summary).splitlines())
