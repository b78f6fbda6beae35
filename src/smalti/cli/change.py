"""Commands that change a table or a file in place. `smalti.jobs` does the work, under the same names."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from smalti import jobs
from smalti.cli.arguments import add_columns, add_output
from smalti.cli.commands import COMMANDS
from smalti.cli.job_arguments import (
    add_engine,
    add_keep,
    add_resume,
    add_run_id,
    print_summary,
    run_job,
    split_names,
)
from smalti.cli.screen import Screen
from smalti.errors import MosaicError


def _add_table(parser: argparse.ArgumentParser) -> None:
    about = "a directory of Mosaic files, or one file, which is replaced"
    parser.add_argument("table", metavar="TABLE", help=about)


def _add_run(parser: argparse.ArgumentParser) -> None:
    about = "change nothing; say what would be copied and encoded"
    parser.add_argument("--dry-run", action="store_true", default=None, help=about)
    add_keep(parser)
    add_resume(parser)
    add_run_id(parser)
    add_engine(parser)
    add_output(parser)


def _run(options: argparse.Namespace, screen: Screen) -> None:
    """Call the job that has the name of the command."""
    print_summary(screen, run_job(options, screen, getattr(jobs, COMMANDS[options.command].function)))


run_drop_columns = run_reorder_columns = run_delete = _run


# --- columns --------------------------------------------------------------------------------------------------------


def arguments_add_columns(parser: argparse.ArgumentParser) -> None:
    _add_table(parser)
    about = "a file, directory or pattern with the new columns, of any format that `convert` reads"
    parser.add_argument("data", metavar="DATA", help=about)
    about = (
        "key columns to join by, separated by commas; rows without a match get nulls (default: rows are put side by "
        "side, in their order)"
    )
    parser.add_argument("--on", metavar="NAMES", type=split_names, help=about)
    add_columns(parser)
    if parser.prog.endswith("add-columns"):
        about = "give columns that exist the new values, and types, for all rows"
        parser.add_argument("--replace", action="store_true", default=None, help=about)
    _add_run(parser)


def run_add_columns(options: argparse.Namespace, screen: Screen) -> None:
    options.columns = split_names(",".join(options.columns or []))
    _run(options, screen)


arguments_replace_columns, run_replace_columns = arguments_add_columns, run_add_columns


def _arguments_of_names(parser: argparse.ArgumentParser, about: str, metavar: str = "NAME") -> None:
    _add_table(parser)
    parser.add_argument("names", metavar=metavar, nargs="+", help=about)
    _add_run(parser)


arguments_drop_columns = partial(_arguments_of_names, about="columns: names or globs such as 'click.*'")
arguments_reorder_columns = partial(
    _arguments_of_names,
    about="the columns that come first, in this order: names or globs; the others follow as they are",
)
arguments_rename_columns = partial(
    _arguments_of_names, about="an old name and a new one with = between them; the last = counts", metavar="OLD=NEW"
)


def run_rename_columns(options: argparse.Namespace, screen: Screen) -> None:
    renamed: dict[str, str] = {}
    for pair in options.names:
        old, equals, new = pair.rpartition("=")
        if not equals or not old or not new:
            raise MosaicError("an old name and a new one are needed", found=pair, expected="OLD=NEW")
        if old in renamed:
            raise MosaicError("a column is renamed twice", found=old)
        renamed[old] = new
    options.names = renamed
    _run(options, screen)


# --- rows -----------------------------------------------------------------------------------------------------------


def arguments_delete(parser: argparse.ArgumentParser) -> None:
    _add_table(parser)
    about = (
        "which rows to delete, such as \"user = 'u42' and day < date '2026-01-01'\"; rows for which it is null, "
        "because a column is null, are kept and counted"
    )
    parser.add_argument("--where", metavar="CONDITION", required=True, help=about)
    _add_run(parser)


def arguments_update(parser: argparse.ArgumentParser) -> None:
    _add_table(parser)
    about = (
        "a column and its new value, such as price=9.5, unit='kg', seen=null or \"day=date '2026-01-31'\"; or another "
        "column, such as price=list_price; may be repeated"
    )
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", required=True, dest="values", help=about)
    about = (
        "which rows to change, such as \"unit = 'g'\" (default: all); rows for which it is null, because a column is "
        "null, stay as they are and are counted"
    )
    parser.add_argument("--where", metavar="CONDITION", help=about)
    _add_run(parser)


def run_update(options: argparse.Namespace, screen: Screen) -> None:
    from smalti.cli.inputs import open_table
    from smalti.predicate.text import parse_value

    with open_table([options.table]) as opened:
        schema = opened.schema
    values: dict[str, Any] = {}
    for pair in options.values:
        name, equals, text = pair.partition("=")
        for known in schema.names:  # The name of a column may have an = itself.
            if len(known) > len(name) and pair.startswith(f"{known}="):
                name, text = known, pair[len(known) + 1 :]
        if not equals or not name:
            raise MosaicError("a column and a value are needed", found=pair, expected="NAME=VALUE")
        if name in values:
            raise MosaicError("a column is given two values", found=name)
        values[name] = parse_value(text, name, schema)
    options.values = values
    _run(options, screen)


def arguments_merge(parser: argparse.ArgumentParser) -> None:
    _add_table(parser)
    about = "a file, directory or pattern with the rows, of any format that `convert` reads"
    parser.add_argument("data", metavar="DATA", help=about)
    about = "key columns, separated by commas; rows match if all of them are equal, and a null matches nothing"
    parser.add_argument("--on", metavar="NAMES", type=split_names, required=True, help=about)
    about = "what becomes of rows of the table that match (default update: they get the values of the data)"
    parser.add_argument("--when-matched", choices=("update", "ignore"), help=about)
    about = "what becomes of rows of the data that match none (default insert)"
    parser.add_argument("--when-not-matched", choices=("insert", "ignore"), help=about)
    _add_run(parser)


def run_merge(options: argparse.Namespace, screen: Screen) -> None:
    # The job says what is wrong if no key column is named.
    print_summary(screen, run_job(options, screen, jobs.merge, on=options.on))
