"""Rows of record batches as a table that fits a terminal whatever the number of columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from smalti.cli.render.table import GAP, Head
from smalti.cli.render.text import cell, cutter, shorten, width
from smalti.cli.screen import Screen
from smalti.jobs.formats.text_values import plain_values
from smalti.logical.types import is_number
from smalti.units import show_count

#: Longer cells are cut, so that one long text does not leave the other columns without room.
MAX_CELL = 40
#: How many of the first rows decide which columns of a table fit.
SAMPLE = 100


def row_table(
    screen: Screen, batches: Iterable[pa.RecordBatch], schema: pa.Schema, total: int | None = None, choose: str = ""
) -> Iterator[str]:
    """Rows under their names. Columns that do not fit are left out and counted in a last line.

    Even in a pipe the table is cut to a screen's width: --json, --csv and --markdown print all columns.

    `total` is the number of columns if the batches have only those that `may_fit`. `choose` says in the last line how
    the command chooses columns.
    """
    room = None if screen.markdown else screen.width
    waiting = iter(batches)
    if not schema.names:
        rows = sum(batch.num_rows for batch in waiting)
        yield f"{show_count(rows, 'row')} of no columns"
        return
    sample: list[pa.RecordBatch] = []
    rows = 0
    while rows < SAMPLE and (batch := next(waiting, None)) is not None:
        sample.append(batch)
        rows += batch.num_rows
    shown = range(len(schema))
    if room is not None:
        shown = shown[: _count_fitting((_width(i, sample, name) for i, name in enumerate(schema.names)), room)]
    title = cutter(schema.names, MAX_CELL)
    heads = [Head(title(cell(schema.names[i])), right=is_number(schema.field(i).type), least=4) for i in shown]

    def cells() -> Iterator[list[str]]:
        for batch in itertools.chain(sample, waiting):
            columns = [[_cut(value) for value in plain_values(batch.column(i))] for i in shown]
            yield from map(list, zip(*columns, strict=True))

    yield from screen.table(heads, cells(), room)
    total = len(schema) if total is None else total
    hidden = total - len(shown)
    if hidden:
        yield f"… {hidden:,} of {total:,} columns not shown: {choose}, or see --vertical, --json"


def vertical(screen: Screen, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[str]:
    """A line for each column with its first values side by side, which suits thousands of columns."""
    held = pa.Table.from_batches(list(batches), schema=schema)
    heads = [Head("column", least=20), Head("type", least=8), *(Head(f"row {i}") for i in range(held.num_rows))]
    if screen.room is not None:
        heads = heads[: 2 + max(1, (screen.room - 30) // 14)]

    def rows() -> Iterator[list[str]]:
        for i, field in enumerate(schema):
            column = held.column(i).slice(0, len(heads) - 2)
            values = [_cut(value) for chunk in column.chunks for value in plain_values(chunk)]
            yield [cell(field.name), cell(str(field.type)), *values]

    return screen.table(heads, rows())


def may_fit(names: Sequence[str], room: int) -> Sequence[str]:
    """The first columns, as many as fit `room` if no value is longer than the name above it; others need not be read.

    There is at least one, even if its name is longer than a line.

    Examples
    --------
    >>> may_fit(["id", "name", "price", "count"], 15)
    ['id', 'name', 'price']
    """
    return names[: _count_fitting((min(width(name), MAX_CELL) for name in names), room)]


def _count_fitting(widths: Iterable[int], room: int) -> int:
    ends = itertools.accumulate(each + GAP for each in widths)
    return max(1, sum(1 for _ in itertools.takewhile(lambda end: end - GAP <= room, ends)))


def _width(column: int, sample: list[pa.RecordBatch], name: str) -> int:
    """How wide a column is on the screen, so that its name and its first values fit."""
    values = [_cut(value) for batch in sample for value in plain_values(batch.column(column).slice(0, SAMPLE))]
    return max([min(width(name), MAX_CELL), *map(width, values)])


def _cut(value: Any) -> str:
    text = cell(value)
    return text if len(text) <= MAX_CELL else shorten(text, MAX_CELL)
