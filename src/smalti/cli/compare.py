"""`diff`: two files, their schemas and their rows in order. Either may be Parquet, to check a conversion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.cli.arguments import add_columns, add_output, whole_number
from smalti.cli.render.rows import plain_values
from smalti.cli.render.table import Head, table
from smalti.cli.render.text import cell
from smalti.cli.screen import Screen
from smalti.cli.select import select_columns
from smalti.cli.tables import Rows, open_rows
from smalti.file.logical import convert_array
from smalti.types import stored_schema


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
        return bool(
            self.only_a or self.only_b or self.types or self.reordered or self.cells or self.rows[0] != self.rows[1]
        )


def run_diff(options: Any, screen: Screen) -> int:
    with open_rows(options.a) as a, open_rows(options.b) as b:
        found = compare_schemas(a, b, options.columns)
        if not options.schema:
            compare_rows(a, b, _common(a, b, found, options.columns), found, options.n)
    if options.json:
        screen.json({"a": options.a, "b": options.b, "equal": not found.any, **vars(found)})
    else:
        screen.lines(_lines(found, options.schema))
    return 1 if found.any else 0


def _described(type_field: pa.Field) -> str:
    return f"{type_field.type}{'' if type_field.nullable else ' not null'}"


def _chosen(rows: Rows, patterns: list[str] | None, other: Rows) -> list[str]:
    names: list[str] = rows.schema.names
    if not patterns:
        return names
    wanted = set(select_columns(list(dict.fromkeys([*names, *other.schema.names])), patterns) or [])
    return [name for name in names if name in wanted]


def compare_schemas(a: Rows, b: Rows, patterns: list[str] | None = None) -> Differences:
    """Names, types as Mosaic stores them, nullability and order."""
    left, right = stored_schema(a.schema).schema, stored_schema(b.schema).schema
    names_a, names_b = _chosen(a, patterns, b), _chosen(b, patterns, a)
    in_a, in_b = set(names_a), set(names_b)
    shared = [name for name in names_a if name in in_b]
    found = Differences(
        only_a=[name for name in names_a if name not in in_b],
        only_b=[name for name in names_b if name not in in_a],
        reordered=shared != [name for name in names_b if name in in_a],
        rows=(a.num_rows, b.num_rows),
    )
    for name in shared:
        one, other = left.field(name), right.field(name)
        if one.type != other.type or one.nullable != other.nullable:
            found.types.append((name, _described(one), _described(other)))
    return found


def _common(a: Rows, b: Rows, found: Differences, patterns: list[str] | None) -> list[str]:
    left, right = stored_schema(a.schema).schema, stored_schema(b.schema).schema
    known = set(_chosen(b, patterns, a))
    changed = {name for name, _, _ in found.types if left.field(name).type != right.field(name).type}
    return [name for name in _chosen(a, patterns, b) if name in known and name not in changed]


def compare_rows(a: Rows, b: Rows, columns: list[str], found: Differences, limit: int) -> None:
    """Compare values of columns that have one type, row by row, holding a batch of each file at a time."""
    if not columns:
        return
    schema = stored_schema(pa.schema([a.schema.field(name) for name in columns])).schema
    row = 0
    for left, right in aligned(a.batches(columns), b.batches(columns)):
        for i, name in enumerate(columns):
            one = convert_array(left.column(i), schema.field(i).type)
            other = convert_array(right.column(i), schema.field(i).type)
            unequal = differing(one, other)
            if not unequal:
                continue
            found.cells[name] = found.cells.get(name, 0) + len(unequal)
            for at in unequal[: max(0, limit - len(found.examples))]:
                values = plain_values(one.slice(at, 1))[0], plain_values(other.slice(at, 1))[0]
                found.examples.append((row + at, name, *values))
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
    same = pc.fill_null(pc.equal(a, b), False)
    same = pc.or_(same, pc.and_(pc.is_null(a), pc.is_null(b)))
    if pt.is_floating(a.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(a), pc.is_nan(b)), False))
    return pc.indices_nonzero(pc.invert(same)).to_pylist()  # type: ignore[no-any-return]


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
        heads = [Head("row", right=True), Head("column", least=20), Head("A", least=10), Head("B", least=10)]
        rows = [[f"{row:,}", cell(name), cell(a), cell(b)] for row, name, a, b in found.examples]
        yield from table(heads, rows, None)
