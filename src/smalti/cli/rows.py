"""`head`, `tail`, `sample`, `cat` and `count`: rows, chosen by column and condition."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from smalti.cli.arguments import add_columns, add_files, add_output, add_where, adding, select_columns, whole_number
from smalti.cli.inputs import open_table
from smalti.cli.render.rows import may_fit, row_table, vertical
from smalti.cli.screen import Screen
from smalti.errors import MosaicError, SchemaError
from smalti.file.scans import first_rows
from smalti.file.streams import Scannable
from smalti.jobs.formats.text_values import csv_header, csv_lines, json_lines
from smalti.logical.intake import arrow_batches
from smalti.logical.tree import field_paths
from smalti.progress import ProgressBar
from smalti.table.opening import source_name

#: Values handed to the renderer at a time: few rows if there are many columns, so that memory stays bounded.
CELLS_AT_ONCE = 1 << 18
#: Rows that `--vertical` shows side by side.
MAX_VERTICAL = 10


def _arguments(parser: argparse.ArgumentParser, default: int | None) -> None:
    add_files(parser)
    add_columns(parser)
    add_where(parser)
    many = "all" if default is None else default
    parser.add_argument("-n", type=whole_number, default=default, metavar="N", help=f"at most N rows (default {many})")
    add_row_output(parser)


def add_row_output(parser: argparse.ArgumentParser) -> None:
    about = f"a line for each column instead of each row; {MAX_VERTICAL} rows at most"
    add_output(parser, "print JSON lines, one object per row", **{"--csv": "print CSV", "--vertical": about})


def arguments_sample(parser: argparse.ArgumentParser) -> None:
    _arguments(parser, 10)
    about = "choose the same rows in every run with this number (default: different rows each time)"
    parser.add_argument("--seed", type=int, metavar="N", help=about)


def _arguments_in_order(parser: argparse.ArgumentParser, default: int | None) -> None:
    _arguments(parser, default)
    about = "the rows from START on and before END, counted from 0, or from the end if negative; -n is ignored"
    parser.add_argument("--rows", type=row_span, metavar="START:END", help=about)


def row_span(text: str) -> slice:
    """Rows by number, as Python's slices have them; a single number is one row.

    Examples
    --------
    >>> row_span("1000:1010"), row_span("-5:"), row_span("7"), row_span("-1")
    (slice(1000, 1010, None), slice(-5, None, None), slice(7, 8, None), slice(-1, None, None))
    """
    start, colon, end = text.partition(":")
    try:
        if not colon:
            return slice(int(start), int(start) + 1 or None)
        return slice(int(start) if start else None, int(end) if end else None)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no span of rows, such as 1000:1010") from None


arguments_tail = partial(_arguments, default=10)
arguments_head = partial(_arguments_in_order, default=10)
arguments_cat = partial(_arguments_in_order, default=None)
arguments_count = adding(add_files, add_where, add_output)


def run_head(options: argparse.Namespace, screen: Screen) -> None:
    limit, rows = _limit(options), options.rows
    with open_table(options.files, options.source_format) as table:
        has_files = limit is not None and rows is None and hasattr(table, "names_of_file")
        columns, total, condition = _chosen(options, screen, table, 0 if has_files else None)
        if has_files:  # Only those that have these rows are opened.
            first = table.head(limit or 0, columns, condition)
            show_rows(options, screen, first.to_batches(), first.schema, total)
            return
        schema = table.scan(columns, condition).schema
        step = max(1, CELLS_AT_ONCE // max(1, len(schema)))
        # Rows on the same terminal show the progress themselves.
        with ProgressBar(screen.err) as show:
            progress = None if screen.is_terminal else show
            scan = table.scan(columns, condition, batch_size=step, progress=progress, rows=rows)
            show_rows(options, screen, first_rows(scan.to_batches(), limit), schema, total)


run_cat = run_head  # they differ only in how many rows they show by default


def run_tail(options: argparse.Namespace, screen: Screen) -> None:
    with open_table(options.files, options.source_format) as table:
        columns, total, condition = _chosen(options, screen, table, -1)
        found = table.tail(_limit(options) or 0, columns, condition)
        show_rows(options, screen, found.to_batches(), found.schema, total)


def run_sample(options: argparse.Namespace, screen: Screen) -> None:
    with open_table(options.files, options.source_format) as table:
        columns, total, condition = _chosen(options, screen, table)
        limit = _limit(options)
        found = table.sample(table.num_rows if limit is None else limit, columns, condition, seed=options.seed)
        show_rows(options, screen, arrow_batches(found), found.schema, total)


def _chosen(
    options: argparse.Namespace, screen: Screen, table: Scannable, file: int | None = None
) -> tuple[list[str] | None, int | None, Any]:
    """The columns to read, how many there are if some have no room on the screen and so are not read, the condition.

    A table whose columns all fit is read without naming them: its files may have different ones. With `file`, the
    names in this one of its files count.
    """
    columns = None
    condition = None if options.where is None else _condition(options.where, table)
    if options.columns:
        names = table.column_names
        if not {piece for pattern in options.columns for piece in (pattern, *pattern.split(","))} <= set(names):
            names = [*names, *field_paths(table.schema)]  # a field of a struct, maybe
        columns = select_columns(names, options.columns)
    if options.json or options.csv or options.vertical or screen.markdown:
        return columns, None, condition
    every: Sequence[str] | None = columns
    if every is None:
        names_of: Any = getattr(table, "names_of_file", None)
        every = table.column_names if file is None or names_of is None else names_of(file)
    fitting = may_fit(every, screen.width)
    return (columns, None, condition) if len(fitting) == len(every) else (list(fitting), len(every), condition)


def _condition(text: str, table: Scannable) -> Any:
    """Parse the condition of `--where` for the columns of a table.

    For conditions on partition columns alone no file has to be opened, and files that disagree on the type of another
    column may be among those that it rules out.
    """
    from smalti.predicate.text import parse_where

    if hasattr(table, "partition_schema"):
        with contextlib.suppress(SchemaError):
            return parse_where(text, table.partition_schema)
    try:
        return parse_where(text, table.schema)
    except SchemaError as error:
        raise MosaicError(f"--where: {error}") from None


def _limit(options: argparse.Namespace) -> int | None:
    """How many rows are shown at most. With `--rows`, which names the rows, `-n` does not count."""
    limit: int | None = None if getattr(options, "rows", None) is not None else options.n
    return limit if not options.vertical else MAX_VERTICAL if limit is None else min(MAX_VERTICAL, limit)


def show_rows(
    options: argparse.Namespace,
    screen: Screen,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    total: int | None = None,
) -> None:
    """Print rows in the shape that the options of `add_row_output` ask for; `total` as in `row_table`."""
    if options.json:
        screen.data(json_lines(batches))
    elif options.csv:
        screen.data(chain([csv_header(schema.names)], csv_lines(batches)))
    elif options.vertical:
        screen.lines(vertical(screen, batches, schema))
    else:
        choose = "choose with -c 'pattern*'" if hasattr(options, "columns") else "name columns in the query"
        screen.lines(row_table(screen, batches, schema, total, choose))


def run_count(options: argparse.Namespace, screen: Screen) -> None:
    with open_table(options.files, options.source_format) as table:
        if options.where is None:
            total = rows = table.count_rows()
        else:
            with ProgressBar(screen.err) as show:
                matching = table.scan([], _condition(options.where, table), progress=show)
                rows = sum(batch.num_rows for batch in matching.to_batches())
            total = table.count_rows() if options.json else 0
    screen.show({"file": source_name(options.files), "rows": rows, "of": total}, [str(rows)])
