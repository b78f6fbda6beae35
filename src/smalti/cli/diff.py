"""`diff`: two files or tables, their schemas and their rows in order. Either may be of another format."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.cli.arguments import add_columns, add_format, add_output, select_columns, whole_number
from smalti.cli.inputs import open_table
from smalti.cli.render.table import heads
from smalti.cli.render.text import GREEN, RED, cell
from smalti.cli.screen import Screen
from smalti.file.streams import Scannable
from smalti.jobs.formats.text_values import plain_values
from smalti.logical.arrays import to_stored
from smalti.logical.types import is_binary_like, is_list_like, is_string_like, map_children, storage_type
from smalti.logical.widen import widen, widen_values
from smalti.table.opening import source_name
from smalti.units import show_count

#: Names, types and metadata listed one by one; the rest is counted.
MAX_LISTED = 20
#: Values of each side that are held in memory at a time.
CELLS = 1 << 20


def arguments_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a file, directory or pattern, of any format that `convert` reads")
    parser.add_argument("b", metavar="B", help="the other one; either may be -, standard input")
    add_format(parser)
    add_columns(parser)
    parser.add_argument("--schema", action="store_true", help="compare names, types, order and metadata only")
    about = "also fail if types differ only in how Arrow lays them out (string and large_string)"
    parser.add_argument("--strict", action="store_true", help=about)
    parser.add_argument(
        "-n", type=whole_number, default=10, metavar="N", help="show at most N differing values (default 10)"
    )
    add_output(parser)


@dataclass
class Differences:
    """What differs, by kind, with what A and B have."""

    #: Columns that one side lacks.
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    #: Columns whose types differ, or one of which may not be null.
    types: list[tuple[str, str, str]] = field(default_factory=list)
    #: Columns whose types differ only in how Arrow lays them out.
    declared: list[tuple[str, str, str]] = field(default_factory=list)
    #: Whether the columns that both have are in another order.
    reordered: bool = False
    #: Metadata of the schema or of a column.
    metadata: list[tuple[str, str, str]] = field(default_factory=list)
    #: Columns of types whose values cannot be compared, such as text and numbers.
    uncompared: list[str] = field(default_factory=list)
    rows: tuple[int, int] = (0, 0)
    #: How many values differ, by column.
    cells: Counter[str] = field(default_factory=Counter)
    #: Row and column of some of these values, and the values.
    examples: list[tuple[int, str, Any, Any]] = field(default_factory=list)

    @property
    def same_values(self) -> bool:
        return not (self.only_a or self.only_b or self.uncompared or self.cells) and self.rows[0] == self.rows[1]

    @property
    def same_schema(self) -> bool:
        return not (self.only_a or self.only_b or self.types or self.reordered or self.metadata)


def run_diff(options: argparse.Namespace, screen: Screen) -> int:
    with open_table([options.a], options.source_format) as a, open_table([options.b], options.source_format) as b:
        found, shared = compare_schemas(a.schema, b.schema, options.columns)
        if options.schema:
            found.uncompared = []
        else:
            found.rows = (a.count_rows(), b.count_rows())
            compare_rows(a, b, shared, found, options.n)
    equal = found.same_values and found.same_schema and not (options.strict and found.declared)
    document = {"a": source_name(options.a), "b": source_name(options.b), "equal": equal, **vars(found)}
    screen.show(document, _lines(found, options.schema, screen))
    return 0 if equal else 1


def compare_schemas(
    a: pa.Schema, b: pa.Schema, patterns: list[str] | None = None
) -> tuple[Differences, dict[str, pa.DataType]]:
    """Compare names, types, nullability, order and metadata; also return the columns whose values can be compared.

    These have the type in which their values are compared. Types are compared as they were given, not as they are
    stored. `patterns` limit this to some columns.
    """
    every = list(dict.fromkeys([*a.names, *b.names]))
    wanted = set(select_columns(every, patterns) or every)
    in_a = dict.fromkeys(name for name in a.names if name in wanted)
    in_b = dict.fromkeys(name for name in b.names if name in wanted)
    names = [name for name in in_a if name in in_b]
    found = Differences(
        only_a=[name for name in in_a if name not in in_b],
        only_b=[name for name in in_b if name not in in_a],
        reordered=names != [name for name in in_b if name in in_a],
    )
    shared = {}
    for name in names:
        one, other = a.field(name), b.field(name)
        if plain_layout(one.type) != plain_layout(other.type) or one.nullable != other.nullable:
            found.types.append((name, _described(one), _described(other)))
        elif one.type != other.type:
            found.declared.append((name, str(one.type), str(other.type)))
        common = widen(one.type, other.type)
        if common is None:
            found.uncompared.append(name)
        else:
            shared[name] = common
        found.metadata += _metadata_differences(f"column {name}", one.metadata, other.metadata)
    found.metadata += _metadata_differences("schema", a.metadata, b.metadata)
    return found, shared


def plain_layout(type_: Any) -> Any:
    """A type in Arrow's default layout: strings, bytes and lists with offsets of 32 bits."""
    if is_string_like(type_):
        return pa.string()
    if is_binary_like(type_) and not pt.is_fixed_size_binary(type_):
        return pa.binary()
    if is_list_like(type_) and not pt.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(plain_layout(type_.value_type)))
    return map_children(type_, plain_layout)


def _metadata_differences(
    where: str, a: dict[bytes, bytes] | None, b: dict[bytes, bytes] | None
) -> list[tuple[str, str, str]]:
    one, other = a or {}, b or {}
    keys = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
    return [(f"{where}: {key.decode(errors='replace')}", _text(one.get(key)), _text(other.get(key))) for key in keys]


def _text(value: bytes | None) -> str:
    return "absent" if value is None else value.decode(errors="replace")


def _described(found: pa.Field) -> str:
    return f"{found.type}{'' if found.nullable else ' not null'}"


def compare_rows(a: Scannable, b: Scannable, shared: dict[str, pa.DataType], found: Differences, limit: int) -> None:
    """Compare values of columns that both sides have, in a type that holds both, holding a batch of each at a time."""
    if not shared:
        return
    step = max(64, CELLS // len(shared))
    sides = [side.scan(list(shared), batch_size=step, exact=True).to_batches() for side in (a, b)]
    for row, (left, right) in zip(count(0, step), zip(*sides, strict=False), strict=False):
        rows = min(left.num_rows, right.num_rows)  # Only the last batches may have fewer than the others.
        for i, (name, common) in enumerate(shared.items()):
            one, other = (widen_values(side.column(i).slice(0, rows), common) for side in (left, right))
            unequal = differing(one, other)
            if not unequal:
                continue
            found.cells[name] += len(unequal)
            for at in unequal[: max(0, limit - len(found.examples))]:
                values = plain_values(one.slice(at, 1))[0], plain_values(other.slice(at, 1))[0]
                found.examples.append((row + at, name, *values))


def differing(a: Any, b: Any) -> list[int]:
    """Rows whose values differ; null equals null and NaN equals NaN."""
    if a.equals(b):
        return []
    if isinstance(a, pa.ExtensionArray):
        return differing(a.storage, b.storage)
    if isinstance(a, pa.DictionaryArray):
        return differing(*(to_stored(side, storage_type(a.type)) for side in (a, b)))
    if pt.is_nested(a.type) or pt.is_float16(a.type) or pt.is_run_end_encoded(a.type):
        pairs = zip(plain_values(a), plain_values(b), strict=True)
        return [i for i, (one, other) in enumerate(pairs) if one != other]
    same = pc.equal(a, b)  # null where either is null
    if pt.is_floating(a.type):
        same = pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    alike = pc.if_else(pc.and_(pc.is_null(a), pc.is_null(b)), True, same)
    rows: list[int] = pc.indices_nonzero(pc.invert(pc.fill_null(alike, False))).to_pylist()
    return rows


def _lines(found: Differences, schema_only: bool, screen: Screen) -> Iterator[str]:
    """What differs, a paragraph for each kind, and a last line that says which kinds are equal."""
    for label, names, code in (("only in A", found.only_a, RED), ("only in B", found.only_b, GREEN)):
        if names:
            yield screen.painted(f"{label}: {_listed([cell(name) for name in names])}", code)
    triples = (("type", found.types), ("layout of the type", found.declared), ("metadata", found.metadata))
    for label, items in triples:
        for name, one, other in items[:MAX_LISTED]:
            yield f"{label} of {cell(name)}: {cell(one)} in A, {cell(other)} in B"
        if len(items) > MAX_LISTED:
            yield f"… and {len(items) - MAX_LISTED:,} more of this kind"
    if found.reordered:
        yield "order: columns that both have are in another order"
    if found.uncompared:
        yield f"values not compared, because types differ: {_listed([cell(name) for name in found.uncompared])}"
    if found.rows[0] != found.rows[1]:
        yield f"rows: {found.rows[0]:,} in A, {found.rows[1]:,} in B"
    if found.cells:
        total = found.cells.total()
        differ = "differs" if total == 1 else "differ"
        yield f"values: {show_count(total, 'value')} {differ} in {show_count(len(found.cells), 'column')}"
        rows = [[f"{row:,}", cell(name), cell(a), cell(b)] for row, name, a, b in found.examples]
        yield from screen.table(heads(">row | column:20 | A:10 | B:10"), rows)
    if schema_only:
        yield "schemas are equal" if found.same_schema else "schemas differ"
    elif found.same_schema and found.same_values:
        yield "files are equal"
    else:
        yield "values are equal, schemas differ" if found.same_values else "files differ"


def _listed(names: list[str]) -> str:
    more = f" … and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
