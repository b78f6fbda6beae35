"""`diff`: two files, their schemas and their rows in order. Either may be Parquet, to check a conversion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.cli.arguments import add_columns, add_output, select_columns, whole_number
from smalti.cli.render.rows import plain_values
from smalti.cli.render.table import heads, table
from smalti.cli.render.text import cell
from smalti.cli.screen import Screen
from smalti.cli.sources import Rows, open_rows
from smalti.file.logical import to_stored
from smalti.nesting import stored_schema


def arguments_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a Mosaic or Parquet file")
    parser.add_argument("b", metavar="B", help="another")
    add_columns(parser)
    parser.add_argument("--schema", action="store_true", help="compare names and types only")
    parser.add_argument(
        "-n", type=whole_number, default=10, metavar="N", help="show at most N differing values (default 10)"
    )
    add_output(parser)


@dataclass
class Differences:
    """What differs; `cells` counts differing values by column, `examples` are (row, column, a, b)."""

    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    types: list[tuple[str, str, str]] = field(default_factory=list)
    reordered: bool = False
    rows: tuple[int, int] = (0, 0)
    cells: dict[str, int] = field(default_factory=dict)
    examples: list[tuple[int, str, Any, Any]] = field(default_factory=list)

    @property
    def any(self) -> bool:
        lists = (self.only_a, self.only_b, self.types, self.reordered, self.cells)
        return any(lists) or self.rows[0] != self.rows[1]


def run_diff(options: argparse.Namespace, screen: Screen) -> int:
    with open_rows(options.a) as a, open_rows(options.b) as b:
        found, comparable = compare_schemas(a, b, options.columns)
        if not options.schema:
            compare_rows(a, b, comparable, found, options.n)
    if options.json:
        screen.json({"a": options.a, "b": options.b, "equal": not found.any, **vars(found)})
    else:
        screen.lines(_lines(found, options.schema))
    return 1 if found.any else 0


def compare_schemas(a: Rows, b: Rows, patterns: list[str] | None = None) -> tuple[Differences, pa.Schema]:
    """Compare names, types as Mosaic stores them, nullability and order; also return the columns of one type in both.

    `patterns` limit this to some columns of the two files.
    """
    left, right = stored_schema(a.schema).schema, stored_schema(b.schema).schema
    every = list(dict.fromkeys([*left.names, *right.names]))
    wanted = set(select_columns(every, patterns) or every)
    in_a = dict.fromkeys(name for name in left.names if name in wanted)
    in_b = dict.fromkeys(name for name in right.names if name in wanted)
    shared = [name for name in in_a if name in in_b]
    found = Differences(
        only_a=[name for name in in_a if name not in in_b],
        only_b=[name for name in in_b if name not in in_a],
        reordered=shared != [name for name in in_b if name in in_a],
        rows=(a.num_rows, b.num_rows),
    )
    for name in shared:
        one, other = left.field(name), right.field(name)
        if one.type != other.type or one.nullable != other.nullable:
            found.types.append((name, _described(one.type, one.nullable), _described(other.type, other.nullable)))
    return found, pa.schema([left.field(name) for name in shared if left.field(name).type == right.field(name).type])


def _described(type_: pa.DataType, nullable: bool) -> str:
    return f"{type_}{'' if nullable else ' not null'}"


def compare_rows(a: Rows, b: Rows, schema: pa.Schema, found: Differences, limit: int) -> None:
    """Compare values of columns that both files have as one type, holding a batch of each file at a time."""
    if not schema.names:
        return
    row = 0
    for left, right in aligned(a.batches(schema.names), b.batches(schema.names)):
        for i, column in enumerate(schema):
            one, other = (to_stored(side.column(i), column.type) for side in (left, right))
            unequal = differing(one, other)
            if not unequal:
                continue
            found.cells[column.name] = found.cells.get(column.name, 0) + len(unequal)
            for at in unequal[: max(0, limit - len(found.examples))]:
                values = plain_values(one.slice(at, 1))[0], plain_values(other.slice(at, 1))[0]
                found.examples.append((row + at, column.name, *values))
        row += left.num_rows


def aligned(
    a: Iterator[pa.RecordBatch], b: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Pairs of batches of the same rows, until one side ends."""
    left, right = next(a, None), next(b, None)
    while left is not None and right is not None:
        rows = min(left.num_rows, right.num_rows)
        if rows:
            yield left.slice(0, rows), right.slice(0, rows)
        left = left.slice(rows) if rows < left.num_rows else next(a, None)
        right = right.slice(rows) if rows < right.num_rows else next(b, None)


def differing(a: pa.Array, b: pa.Array) -> list[int]:
    """Rows whose values differ; null equals null and NaN equals NaN."""
    if a.equals(b):
        return []
    if pt.is_nested(a.type):
        pairs = zip(plain_values(a), plain_values(b), strict=True)
        return [i for i, (one, other) in enumerate(pairs) if one != other]
    same = pc.equal(a, b)  # null where either is null
    if pt.is_floating(a.type):
        same = pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    alike = pc.if_else(pc.and_(pc.is_null(a), pc.is_null(b)), True, same)
    rows: list[int] = pc.indices_nonzero(pc.invert(pc.fill_null(alike, False))).to_pylist()
    return rows


def _lines(found: Differences, schema_only: bool) -> Iterator[str]:
    if not found.any:
        yield "schemas are equal" if schema_only else "files are equal"
        return
    for label, names in (("only in A", found.only_a), ("only in B", found.only_b)):
        if names:
            more = f" … and {len(names) - 10:,} more" if len(names) > 10 else ""
            yield f"{label}: {', '.join(cell(name) for name in names[:10])}{more}"
    for name, one, other in found.types[:50]:
        yield f"type of {cell(name)}: {one} in A, {other} in B"
    if len(found.types) > 50:
        yield f"… and {len(found.types) - 50:,} more types"
    if found.reordered:
        yield "columns are in another order"
    if found.rows[0] != found.rows[1]:
        yield f"rows: {found.rows[0]:,} in A, {found.rows[1]:,} in B"
    if found.cells:
        yield f"values: {sum(found.cells.values()):,} differ in {len(found.cells):,} columns"
        rows = [[f"{row:,}", cell(name), cell(a), cell(b)] for row, name, a, b in found.examples]
        yield from table(heads(">row | column:20 | A:10 | B:10"), rows, None)
