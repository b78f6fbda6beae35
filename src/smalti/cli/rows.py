"""`head`, `cat` and `count`: rows, chosen by column and condition."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

import smalti
from smalti.cli.arguments import add_columns, add_file, add_output, add_where, adding, select_columns, whole_number
from smalti.cli.progress import ProgressBar
from smalti.cli.render.rows import csv_lines, json_lines, row_table, vertical
from smalti.cli.screen import Screen
from smalti.errors import without_secrets
from smalti.predicate.text import parse_where
from smalti.progress import Listener

#: Rows handed to the renderer at a time: few when there are many columns, so that memory stays bounded.
CELLS_AT_ONCE = 1 << 18


def _arguments(parser: argparse.ArgumentParser, default: int | None) -> None:
    add_file(parser)
    add_columns(parser)
    add_where(parser)
    many = "all" if default is None else default
    parser.add_argument("-n", type=whole_number, default=default, metavar="N", help=f"at most N rows (default {many})")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--csv", action="store_true", help="print CSV")
    shape.add_argument("--vertical", action="store_true", help="a line for each column instead of each row")
    add_output(parser, "print JSON lines, one object per row")


arguments_head = partial(_arguments, default=10)
arguments_cat = partial(_arguments, default=None)
arguments_count = adding(add_file, add_where, add_output)


def run_head(options: argparse.Namespace, screen: Screen) -> None:
    with smalti.open(options.file) as file:
        columns = select_columns(file.column_names, options.columns)
        condition = None if options.where is None else parse_where(options.where, file.schema)
        schema = file.schema if columns is None else pa.schema([file.schema.field(name) for name in columns])
        # Rows on the same terminal show the progress themselves.
        with ProgressBar(screen.err) as show:
            batches = limited_batches(file, columns, condition, options.n, None if screen.is_terminal else show)
            if options.json:
                screen.data(json_lines(batches))
            elif options.csv:
                screen.data(csv_lines(batches, schema))
            elif options.vertical:
                first = limited_batches(file, columns, condition, min(10, 10 if options.n is None else options.n))
                screen.lines(vertical(first, schema, screen.room))
            else:
                # Even in a pipe this table is cut to a screen's width: --json and --csv are for programs.
                screen.lines(row_table(batches, schema, screen.width))


run_cat = run_head  # they differ only in how many rows they show by default


def limited_batches(
    file: smalti.MosaicFile,
    columns: list[str] | None,
    condition: Any,
    limit: int | None,
    progress: Listener | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of at most `limit` rows in all; row groups after the last one needed are not read."""
    if limit == 0:
        return
    width = max(1, file.num_columns if columns is None else len(columns))
    step = max(1, CELLS_AT_ONCE // width)
    left = limit
    for batch in file.scan(columns, condition, batch_size=step, progress=progress).to_batches():
        yield batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return


def run_count(options: argparse.Namespace, screen: Screen) -> None:
    with smalti.open(options.file) as file:
        total = rows = file.num_rows
        if options.where is not None:
            with ProgressBar(screen.err) as show:
                matching = file.scan([], parse_where(options.where, file.schema), progress=show)
                rows = sum(batch.num_rows for batch in matching.to_batches())
    if options.json:
        screen.json({"file": without_secrets(options.file), "rows": rows, "of": total})
    else:
        screen.lines([str(rows)])
