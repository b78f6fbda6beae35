"""`schema`, `meta` and `stats`: what the end of a file tells."""

from __future__ import annotations

import argparse
from typing import Any

import smalti
from smalti.cli.arguments import add_columns, add_file, add_output, whole_number
from smalti.cli.render.rows import plain_values
from smalti.cli.render.table import Head, facts, table
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.cli.select import select_columns
from smalti.format.statistics import ColumnStatistics


def arguments_schema(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_columns(parser)
    add_output(parser)


def run_schema(options: Any, screen: Screen) -> int:
    with smalti.open(options.file) as file:
        names = file.column_names
        chosen = select_columns(names, options.columns)
        places = {name: i for i, name in enumerate(names)}
        schema = file.schema
        columns = [
            {"position": places[name], "name": name, "type": str(field.type), "nullable": field.nullable}
            for name in (names if chosen is None else chosen)
            for field in [schema.field(places[name])]
        ]
    if options.json:
        screen.json({"file": options.file, "num_columns": len(names), "columns": columns})
        return 0
    heads = [Head("#", right=True), Head("column", least=20), Head("type", least=12), Head("null")]
    rows = [
        [f"{item['position']:,}", cell(item["name"]), cell(item["type"]), "" if item["nullable"] else "not null"]
        for item in columns
    ]
    screen.lines(table(heads, rows, screen.width if screen.is_terminal else None))
    return 0


def arguments_meta(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_output(parser)


def run_meta(options: Any, screen: Screen) -> int:
    with smalti.open(options.file) as file:
        layout = file.layout(buckets=())
        num_rows = file.num_rows
    groups = [
        {
            "row_group": group.index,
            "rows": group.num_rows,
            "offset": min((bucket.offset for bucket in group.buckets if bucket.size), default=0),
            "bytes": sum(bucket.size for bucket in group.buckets),
            "monolithic": sum(bucket.mode == "monolithic" for bucket in group.buckets),
            "paged": sum(bucket.mode == "paged" for bucket in group.buckets),
            "empty": sum(bucket.mode == "empty" for bucket in group.buckets),
            "statistics": group.num_statistics,
        }
        for group in layout.row_groups
    ]
    document = {
        "file": options.file,
        "size": layout.size,
        "rows": num_rows,
        "columns": layout.num_columns,
        "compression": layout.compression,
        "buckets": layout.num_buckets,
        "schema_block": {"offset": layout.schema_block.offset, "size": layout.schema_block.size},
        "name_encoding": layout.name_encoding,
        "index": {"offset": layout.index.offset, "size": layout.index.size},
        "row_groups": groups,
    }
    if options.json:
        screen.json(document)
        return 0
    lines = [
        *facts(
            [
                ("file", cell(options.file)),
                ("size", f"{size(layout.size)} ({layout.size:,} bytes)"),
                ("rows", f"{num_rows:,}"),
                ("columns", f"{layout.num_columns:,}"),
                ("buckets", f"{layout.num_buckets:,}"),
                ("compression", layout.compression),
                (
                    "schema block",
                    f"{size(layout.schema_block.size)} at {layout.schema_block.offset:,} "
                    f"({ratio(layout.schema_block.size, layout.schema_block.uncompressed_size)} smaller than it was), "
                    f"names as {layout.name_encoding}",
                ),
                ("index", f"{size(layout.index.size)} at {layout.index.offset:,}"),
            ]
        ),
        "",
        *table(
            [
                Head("row group", right=True),
                Head("rows", right=True),
                Head("bytes", right=True),
                Head("monolithic", right=True),
                Head("paged", right=True),
                Head("empty", right=True),
                Head("statistics", right=True),
            ],
            [
                [
                    f"{item['row_group']:,}",
                    f"{item['rows']:,}",
                    size(item["bytes"]),
                    *(f"{item[key]:,}" for key in ("monolithic", "paged", "empty", "statistics")),
                ]
                for item in groups
            ],
            None,
        ),
    ]
    screen.lines(lines)
    return 0


def arguments_stats(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_columns(parser)
    parser.add_argument("--row-group", type=whole_number, metavar="N", help="of this row group only")
    add_output(parser)


def run_stats(options: Any, screen: Screen) -> int:
    with smalti.open(options.file) as file:
        names = file.column_names
        chosen = select_columns(names, options.columns)
        groups = range(file.num_row_groups) if options.row_group is None else [options.row_group]
        if options.row_group is not None and options.row_group >= file.num_row_groups:
            raise smalti.MosaicError(
                "no such row group", found=options.row_group, expected=f"below {file.num_row_groups}"
            )
        found = [file.row_group(group) for group in groups]
        merged = merge_statistics([(group.num_rows, group.statistics) for group in found])
        num_rows = sum(group.num_rows for group in found)
    shown = [name for name in (names if chosen is None else chosen) if name in merged]
    columns = [{"name": name, **_described(merged[name])} for name in shown]
    if options.json:
        screen.json({"file": options.file, "rows": num_rows, "columns": columns})
        return 0
    if not columns:
        screen.note("smalti: no statistics were written for these columns (see stats_columns in the writer's options)")
        return 0
    heads = [
        Head("column", least=20),
        Head("nulls", right=True),
        Head("min", least=10),
        Head("max", least=10),
    ]
    rows = [
        [cell(item["name"]), f"{item['null_count']:,}", _bound(item["min"]), _bound(item["max"])] for item in columns
    ]
    screen.lines(table(heads, rows, screen.width if screen.is_terminal else None))
    return 0


def merge_statistics(groups: list[tuple[int, dict[str, ColumnStatistics]]]) -> dict[str, ColumnStatistics]:
    """Statistics over row groups, each given with its rows: columns that have them in every group.

    A group of nulls says nothing about the bounds of the others; a group whose writer could not tell makes them
    unknown.

    Examples
    --------
    >>> merge_statistics([(9, {"a": ColumnStatistics(1, 2, 5)}), (9, {"a": ColumnStatistics(9)})])
    {'a': ColumnStatistics(null_count=10, min=2, max=5)}
    """
    if not groups:
        return {}
    common = set.intersection(*(set(found) for _, found in groups))
    merged = {}
    for name in groups[0][1]:
        if name not in common:
            continue
        parts = [(rows, found[name]) for rows, found in groups]
        nulls = sum(part.null_count for _, part in parts)
        known = [part for _, part in parts if part.has_min_max]
        if not known or any(not part.has_min_max and part.null_count < rows for rows, part in parts):
            merged[name] = ColumnStatistics(nulls)
        else:
            merged[name] = ColumnStatistics(nulls, min(part.min for part in known), max(part.max for part in known))
    return merged


def _described(statistics: ColumnStatistics) -> dict[str, Any]:
    return {
        "null_count": statistics.null_count,
        "min": _plain(statistics.min),
        "max": _plain(statistics.max),
    }


def _plain(value: Any) -> Any:
    import pyarrow as pa

    if value is None or isinstance(value, (bool, int, str)):
        return value
    return plain_values(pa.array([value]))[0]


def _bound(value: Any) -> str:
    return "-" if value is None else cell(value)
