"""Rows of record batches as JSON lines, as CSV, or as a table that fits a terminal whatever the number of columns."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.cli.render.table import GAP, Head, table
from smalti.cli.render.text import NULL, Null, cell, cutter, shorten, width
from smalti.file.logical import rebuild
from smalti.predicate.literals import is_number
from smalti.report.units import show_count
from smalti.types import is_list_like

#: The stubs of pyarrow have no functions for runs.
_runs: Any = pc
#: Longer cells are cut, so that one long text does not leave the other columns without room.
MAX_CELL = 40
#: The first so many rows decide which columns of a table fit.
SAMPLE = 100


def plain_values(array: Any) -> list[Any]:
    """Values that JSON can hold: moments and decimals as text, bytes as hexadecimal, maps as lists of pairs.

    Moments become text without passing through `datetime`, which would lose their nanoseconds.
    """
    type_ = array.type
    if pt.is_temporal(type_):
        return _moments(array)
    if pt.is_decimal(type_):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if isinstance(array, pa.ExtensionArray):
        return plain_values(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _chosen(plain_values(array.dictionary), array.indices)
    if isinstance(array, pa.RunEndEncodedArray):
        values = plain_values(array.values)
        places: Any = pa.array(range(len(values)), pa.int64())
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, places)  # type: ignore[call-overload]
        return _chosen(values, _runs.run_end_decode(runs.slice(array.offset, len(array))))
    if any(
        is_kind(type_) for is_kind in (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view)
    ):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pt.is_floating(type_):
        return [value if value is None or math.isfinite(value) else _special(value) for value in array.to_pylist()]
    if pt.is_map(type_):
        entries = array.cast(pa.list_(pa.struct([type_.key_field, type_.item_field])))
        keys, values = map(plain_values, entries.flatten().flatten())
        pairs = [list(pair) for pair in zip(keys, values, strict=True)]
        return _regroup(entries.value_lengths().to_pylist(), pairs)
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return _regroup(array.value_lengths().to_pylist(), plain_values(array.flatten()))
    if is_list_like(type_):  # views of lists
        return plain_values(rebuild(array, pa.list_(type_.value_field), lambda elements, _: elements))
    if isinstance(array, pa.StructArray):
        names = [type_.field(i).name for i in range(type_.num_fields)]
        inner = [plain_values(child) for child in array.flatten()]
        valid = array.is_valid().to_pylist()
        return [
            dict(zip(names, values, strict=True)) if there else None
            for there, *values in zip(valid, *inner, strict=True)
        ]
    return list(array.to_pylist())


def _chosen(values: list[Any], places: pa.Array) -> list[Any]:
    return [None if place is None else values[place] for place in places.to_pylist()]


def _moments(array: pa.Array) -> list[Any]:
    if pt.is_timestamp(array.type) and array.type.tz is not None:
        # Shown in UTC, with a Z: this is the same moment, and needs no time zone database.
        array = array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.timestamp(array.type.unit))
        return [None if text is None else f"{text.replace(' ', 'T')}Z" for text in array.cast(pa.string()).to_pylist()]
    if pt.is_duration(array.type):
        return array.cast(pa.int64()).to_pylist()
    return [None if text is None else text.replace(" ", "T") for text in array.cast(pa.string()).to_pylist()]


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _regroup(lengths: list[int | None], inner: list[Any]) -> list[Any]:
    out: list[Any] = []
    at = 0
    for length in lengths:
        out.append(None if length is None else inner[at : at + length])
        at += length or 0
    return out


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A JSON object for each row."""
    for batch in batches:
        names = batch.schema.names
        if not names:
            yield from itertools.repeat("{}", batch.num_rows)
            continue
        columns = [plain_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)


def csv_lines(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[str]:
    """Header and rows; null is empty, nested values are JSON, text is quoted where it must be."""
    yield ",".join(_csv_cell(name) for name in schema.names)
    for batch in batches:
        for row in zip(*(plain_values(column) for column in batch.columns), strict=True):
            yield ",".join(_csv_cell(value) for value in row)


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
    # Empty text is quoted, because an empty field means null.
    if not text or any(char in text for char in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


#: Lays out columns and rows in so much room: `table`, or a screen's own way.
Draw = Callable[[Sequence[Head], Iterable[Sequence[str]], "int | None"], Iterator[str]]


def row_table(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, room: int | None, draw: Draw = table
) -> Iterator[str]:
    """Rows under their names. Columns that do not fit `room` are left out and counted in a last line."""
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
    shown = _columns_that_fit(sample, schema, room)
    title = cutter(schema.names, MAX_CELL)
    heads = [Head(title(cell(schema.names[i])), right=is_number(schema.field(i).type), least=4) for i in shown]

    def cells() -> Iterator[list[str]]:
        for batch in itertools.chain(sample, waiting):
            columns = [[_cut(value) for value in plain_values(batch.column(i))] for i in shown]
            yield from map(list, zip(*columns, strict=True))

    yield from draw(heads, cells(), room)
    hidden = len(schema) - len(shown)
    if hidden:
        note = "choose with -c 'pattern*', or see --vertical, --json"
        yield f"… {hidden:,} of {len(schema):,} columns not shown: {note}"


def vertical(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, room: int | None, draw: Draw = table
) -> Iterator[str]:
    """A line for each column with its first values side by side, which suits thousands of columns."""
    held = pa.Table.from_batches(list(batches), schema=schema)
    heads = [Head("column", least=20), Head("type", least=8), *(Head(f"row {i}") for i in range(held.num_rows))]
    if room is not None:
        heads = heads[: 2 + max(1, (room - 30) // 14)]

    def rows() -> Iterator[list[str]]:
        for i, field in enumerate(schema):
            column = held.column(i).slice(0, len(heads) - 2)
            values = [_cut(value) for chunk in column.chunks for value in plain_values(chunk)]
            yield [cell(field.name), cell(str(field.type)), *values]

    return draw(heads, rows(), room)


def _columns_that_fit(sample: list[pa.RecordBatch], schema: pa.Schema, room: int | None) -> list[int]:
    if room is None:
        return list(range(len(schema)))
    shown: list[int] = []
    left = room
    for i, name in enumerate(schema.names):
        values = [_cut(value) for batch in sample for value in plain_values(batch.column(i).slice(0, SAMPLE))]
        need = max([min(width(name), MAX_CELL), *(width(value) for value in values)])
        if shown and need > left:
            break
        shown.append(i)
        left -= need + GAP
    return shown


def _cut(value: Any) -> str:
    text = cell(value)
    if isinstance(text, Null):
        return NULL
    return text if len(text) <= MAX_CELL else shorten(text, MAX_CELL)
