"""`schema`, `meta` and `stats`: what the tail of a file tells, without reading its data."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import pyarrow as pa

import smalti
from smalti.cli.arguments import add_columns, add_file, add_output, add_row_group, adding, check_below, select_columns
from smalti.cli.render.rows import plain_values
from smalti.cli.render.table import facts, heads, table
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.errors import without_secrets
from smalti.format.statistics import ColumnStatistics

arguments_schema = adding(add_file, add_columns, add_output)
arguments_meta = adding(add_file, add_output)
arguments_stats = adding(add_file, add_columns, add_row_group, add_output)


def run_schema(options: argparse.Namespace, screen: Screen) -> None:
    with smalti.open(options.file) as file:
        schema = file.schema
    names = schema.names
    chosen = select_columns(names, options.columns)
    columns = [
        {"position": position, "name": field.name, "type": str(field.type), "nullable": field.nullable}
        for position in (range(len(names)) if chosen is None else map(schema.get_field_index, chosen))
        for field in [schema.field(position)]
    ]
    if options.json:
        screen.json({"file": without_secrets(options.file), "num_columns": len(names), "columns": columns})
        return
    rows = [
        [f"{item['position']:,}", cell(item["name"]), cell(item["type"]), "" if item["nullable"] else "not null"]
        for item in columns
    ]
    screen.lines(table(heads("># | column:20 | type:12 | null"), rows, screen.room))


def run_meta(options: argparse.Namespace, screen: Screen) -> None:
    with smalti.open(options.file) as file:
        layout = file.layout(buckets=())
        num_rows = file.num_rows
    block, index = layout.schema_block, layout.index
    groups = []
    for group in layout.row_groups:
        modes = Counter(bucket.mode for bucket in group.buckets)
        groups.append(
            {
                "row_group": group.index,
                "rows": group.num_rows,
                "offset": min((bucket.offset for bucket in group.buckets if bucket.size), default=0),
                "bytes": sum(bucket.size for bucket in group.buckets),
                **{mode: modes[mode] for mode in ("monolithic", "paged", "empty")},
                "statistics": group.num_statistics,
            }
        )
    if options.json:
        screen.json(
            {
                "file": without_secrets(options.file),
                "size": layout.size,
                "rows": num_rows,
                "columns": layout.num_columns,
                "compression": layout.compression,
                "buckets": layout.num_buckets,
                "layout": layout.in_words,
                "schema_block": {"offset": block.offset, "size": block.size},
                "name_encoding": layout.name_encoding,
                "index": {"offset": index.offset, "size": index.size},
                "row_groups": groups,
            }
        )
        return
    smaller = f"({ratio(block.size, block.uncompressed_size)} smaller than it was), names as {layout.name_encoding}"
    pairs = [
        ("file", cell(without_secrets(options.file))),
        ("size", f"{size(layout.size)} ({layout.size:,} bytes)"),
        ("rows", f"{num_rows:,}"),
        ("columns", f"{layout.num_columns:,}"),
        ("buckets", f"{layout.num_buckets:,}"),
        ("layout", layout.in_words),
        ("compression", layout.compression),
        ("schema block", f"{size(block.size)} at {block.offset:,} {smaller}"),
        ("index", f"{size(index.size)} at {index.offset:,}"),
    ]
    titles = heads(">row group | >rows | >bytes | >monolithic | >paged | >empty | >statistics")
    keys = [head.title.replace(" ", "_") for head in titles]
    rows = [[size(item[key]) if key == "bytes" else f"{item[key]:,}" for key in keys] for item in groups]
    screen.lines([*facts(pairs), "", *table(titles, rows, None)])


def run_stats(options: argparse.Namespace, screen: Screen) -> None:
    with smalti.open(options.file) as file:
        names = file.column_names
        chosen = select_columns(names, options.columns)
        check_below("row group", options.row_group, file.num_row_groups)
        groups = range(file.num_row_groups) if options.row_group is None else [options.row_group]
        found = [file.row_group(group) for group in groups]
        merged = merge_statistics([(group.num_rows, group.statistics) for group in found])
    columns = [
        {"name": name, "null_count": known.null_count, "min": _plain(known.min), "max": _plain(known.max)}
        for name in (names if chosen is None else chosen)
        if (known := merged.get(name)) is not None
    ]
    if options.json:
        num_rows = sum(group.num_rows for group in found)
        screen.json({"file": without_secrets(options.file), "rows": num_rows, "columns": columns})
    elif not columns:
        screen.note("smalti: no statistics were written for these columns (see stats_columns in the writer's options)")
    else:
        rows = [
            [
                cell(item["name"]),
                f"{item['null_count']:,}",
                *("-" if item[end] is None else cell(item[end]) for end in ("min", "max")),
            ]
            for item in columns
        ]
        screen.lines(table(heads("column:20 | >nulls | min:10 | max:10"), rows, screen.room))


def merge_statistics(groups: list[tuple[int, dict[str, ColumnStatistics]]]) -> dict[str, ColumnStatistics]:
    """Statistics over several row groups, each given with its number of rows, of the columns that all of them have.

    A row group of nulls only says nothing about the bounds of the others. A row group with values but without bounds
    makes the bounds of the whole unknown.

    Examples
    --------
    >>> merge_statistics([(9, {"a": ColumnStatistics(1, 2, 5)}), (9, {"a": ColumnStatistics(9)})])
    {'a': ColumnStatistics(null_count=10, min=2, max=5)}
    """
    merged: dict[str, ColumnStatistics] = {}
    for name in groups[0][1] if groups else ():
        if not all(name in found for _, found in groups):
            continue
        parts = [(rows, found[name]) for rows, found in groups]
        nulls = sum(part.null_count for _, part in parts)
        known = [part for _, part in parts if part.has_min_max]
        if not known or any(not part.has_min_max and part.null_count < rows for rows, part in parts):
            merged[name] = ColumnStatistics(nulls)
        else:
            merged[name] = ColumnStatistics(nulls, min(part.min for part in known), max(part.max for part in known))
    return merged


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else plain_values(pa.array([value]))[0]
