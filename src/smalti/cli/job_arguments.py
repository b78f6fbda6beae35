"""Arguments that the commands of jobs share, and the function of the library that a command calls.

An argument is called like the parameter that it fills: `--on-error` is `on_error` of `smalti.jobs`, and
`--compression-level` is `compression_level` of `smalti.WriterOptions`. So messages of the library name what was typed.
Arguments that were not typed are not passed on: the defaults are those of the library.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

from smalti import jobs
from smalti.cli.arguments import byte_count, select_columns, whole_number
from smalti.cli.progress import job_progress
from smalti.cli.render.text import printable
from smalti.cli.screen import Screen
from smalti.errors import MosaicError
from smalti.logical.patterns import is_pattern
from smalti.options import WriterOptions, WriterOptionValues, option_help

#: The arguments that are no parameters of a job: what every command has, and what it does with the job's report.
_OTHERS = {"command", "debug", "memory_limit", "storage_option", "json", "markdown", "no_pager", "only", "files"}


def given(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments that were typed and are for the job, by the names of its parameters.

    Those of `smalti.WriterOptions` are one of them. If there are none, `compact` leaves large files as they are.
    """
    values = {name: vars(options)[name] for name in vars(options).keys() - _OTHERS}
    values = {name: value for name, value in values.items() if value not in (None, [])}
    written = {name: values.pop(name) for name in _writer_options(options)}
    if written:
        names = written.get("stats_columns")
        if names is not None:
            written["stats_columns"] = names[0] if names in (["all"], ["auto"]) else tuple(names)
        values["options"] = WriterOptions(**written)
    return values


def _writer_options(options: argparse.Namespace) -> list[str]:
    """The options of `smalti.WriterOptions` that were typed."""
    return [each.name for each in fields(WriterOptions) if getattr(options, each.name, None) not in (None, [])]


def run_job(
    options: argparse.Namespace,
    screen: Screen,
    job: Callable[..., Any],
    *source: Any,
    reasons: Mapping[str, str] | None = None,
    **more: Any,
) -> Any:
    """Call a job with the arguments of the command line while a bar shows its progress; those of `more` win.

    An argument that the job does not take is refused, with the reason for its parameter among `reasons`. The default of
    the job that is called like the command asks for nothing, so it is accepted.
    """
    values = given(options) | more
    usual = inspect.signature(getattr(jobs, options.command.replace("-", "_"))).parameters
    for name in [name for name in values if not _takes(job, name)]:
        value = values.pop(name)
        if name not in usual or usual[name].default != value:
            typed = _writer_options(options) if name == "options" else ["no_resume" if name == "resume" else name]
            flags = ", ".join(f"--{each.replace('_', '-')}" for each in typed)
            raise MosaicError(f"{flags}: {(reasons or {})[name]}")
    resumes = hasattr(options, "resume") and _takes(job, "resume") and values.get("resume", True)
    with job_progress(screen.err, resumes=resumes) as progress:
        return job(*source, progress=progress, **values)


def _takes(job: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(job).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def add_engine(parser: argparse.ArgumentParser) -> None:
    """How a job runs."""
    about = "threads of this machine, or Spark (default local)"
    parser.add_argument("--engine", choices=("local", "spark"), help=about)
    parser.add_argument("--workers", type=whole_number, metavar="N", help="run N tasks at once (default: one per core)")


def add_resume(parser: argparse.ArgumentParser) -> None:
    about = "start from the beginning, even if an earlier run of the same job was interrupted"
    parser.add_argument("--no-resume", dest="resume", action="store_const", const=False, help=about)


def add_run_id(parser: argparse.ArgumentParser) -> None:
    about = "a name for this run: if a run of this name has changed the table, only print its report"
    parser.add_argument("--run-id", metavar="NAME", help=about)


def add_keep(parser: argparse.ArgumentParser) -> None:
    about = "keep replaced Mosaic files for HOURS, for those who have listed the table before (default: delete them)"
    parser.add_argument("--keep", type=float, metavar="HOURS", help=about)


def add_run(parser: argparse.ArgumentParser, *, salvages: bool = False) -> None:
    about = "replace files that exist at the target"
    parser.add_argument("--overwrite", action="store_true", default=None, help=about)
    about = "what to do about a file that cannot be read: stop, or leave it out (default raise)"
    if salvages:
        about += "; skip-columns leaves out only the columns of Mosaic files that cannot be read"
    choices = ("raise", "skip", "skip-columns") if salvages else ("raise", "skip")
    parser.add_argument("--on-error", choices=choices, help=about)
    add_engine(parser)


def add_plain(parser: argparse.ArgumentParser) -> None:
    about = "read all files in the directory of a Paimon table, with old versions of rows and deleted rows"
    parser.add_argument("--plain", action="store_true", default=None, help=about)


def add_snapshot(parser: argparse.ArgumentParser) -> None:
    about = "of a Paimon table: the snapshot to read (default: the newest)"
    parser.add_argument("--snapshot", type=whole_number, metavar="ID", help=about)
    parser.add_argument("--tag", metavar="NAME", help="of a Paimon table: the tag to read")
    add_plain(parser)


def add_replacing(parser: argparse.ArgumentParser, *, salvages: bool = False) -> None:
    """Arguments of the jobs that write tables: how they run, what they replace, and how Mosaic is written."""
    add_run(parser, salvages=salvages)
    add_keep(parser)
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
            # Without a name the text stays what it is, so that the writer refuses it.
            kind = {"action": "extend", "type": lambda text: split_names(text) or [text], "metavar": "NAMES"}
        elif option.name.endswith(("_bytes", "_threshold")):
            kind = {"type": partial(byte_count, least=0), "metavar": "SIZE"}
        else:
            kind = {"type": int, "metavar": "N"}
        group.add_argument(f"--{option.name.replace('_', '-')}", help=about.replace("%", "%%"), **kind)


def split_names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def chosen_columns(options: argparse.Namespace) -> list[str] | None:
    """The columns asked for. Globs are matched with the columns of the source, and so are names that have a comma."""
    from smalti.cli.inputs import list_inputs, open_table
    from smalti.jobs.formats.tables import FormatTable

    texts = options.columns or []
    names = split_names(",".join(texts))
    if any(map(is_pattern, names)):
        with open_table(options.files, options.source_format) as opened:
            return select_columns(opened.column_names, options.columns)
    known: set[str] = set()
    if names != texts:
        with suppress(MosaicError, OSError):  # The job will say what is wrong with the file.
            listing, formats = list_inputs(options.files, options.source_format)
            known = set(FormatTable(replace(listing, files=listing.files[:1]), formats[:1]).schema.names)
    return [name for text in texts for name in ([text] if text in known else split_names(text))] or None


def run_reading_job(options: argparse.Namespace, screen: Screen, paths: list[str], **more: Any) -> Any:
    """Run the job of the command on files, or on a snapshot of a Paimon table unless `--plain` asks for its files."""
    from smalti.cli.inputs import is_paimon

    is_table = len(paths) == 1 and not options.plain and is_paimon(paths[0])
    module = importlib.import_module("smalti.paimon" if is_table else "smalti.jobs")
    reason = "this is for a Paimon table; --plain reads its files" if options.plain else "this is for a Paimon table"
    job, reasons = getattr(module, options.command), dict.fromkeys(("snapshot", "tag"), reason)
    return run_job(options, screen, job, paths[0] if len(paths) == 1 else paths, reasons=reasons, **more)


def print_summary(screen: Screen, summary: jobs.JobSummary | jobs.VerifyReport | jobs.ChangeReport) -> None:
    screen.show(summary.to_dict(), map(printable, str(summary).splitlines()))
