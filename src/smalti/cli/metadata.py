"""`schema`, `meta` and `stats`: what the tails of files tell, without reading their data."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

import smalti
from smalti.cli.arguments import (
    add_columns,
    add_files,
    add_mosaic_files,
    add_output,
    add_row_group,
    adding,
    check_below,
    select_columns,
)
from smalti.cli.render.table import facts, heads
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.cli.sources import list_inputs, local_paths, open_each, open_table, shown_paths
from smalti.errors import MosaicError
from smalti.format.statistics import ColumnStatistics
from smalti.jobs.formats.text_values import plain_values
from smalti.logical.tree import LogicalColumn, plan_schema
from smalti.logical.types import storage_kind
from smalti.moments import in_seconds, shortest_half
from smalti.units import show_count


def add_stored(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stored", action="store_true", help="also show how columns are stored if the format does not have their type"
    )


arguments_schema = adding(add_files, add_columns, add_stored, add_output)
arguments_meta = adding(add_files, add_output)
arguments_stats = adding(add_mosaic_files, add_columns, add_row_group, add_output)


#: What the encodings of column names mean.
_NAMES = {"front": "each name stored as its difference from the one before", "bpe": "frequent parts of names as codes"}


def run_schema(options: argparse.Namespace, screen: Screen) -> None:
    with open_table(options.files, options.source_format) as opened:
        schema = opened.schema
    names = schema.names
    chosen = select_columns(names, options.columns)
    stored = plan_schema(schema).columns if options.stored else {}
    columns: list[dict[str, Any]] = [
        {
            "position": position,
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            **({"stored_as": _stored_as(stored.get(position), field)} if options.stored else {}),
        }
        for position in (range(len(names)) if chosen is None else map(schema.get_field_index, chosen))
        for field in [schema.field(position)]
    ]
    if options.json:
        screen.json({"file": shown_paths(options.files), "num_columns": len(names), "columns": columns})
        return
    rows = [
        [
            f"{item['position']:,}",
            cell(item["name"]),
            cell(item["type"]),
            "" if item["nullable"] else "not null",
            *([cell(", ".join(f"{each['name']}: {each['type']}" for each in item["stored_as"]))] if stored else []),
        ]
        for item in columns
    ]
    titles = "># | column:20 | type:12 | null | stored as:20" if stored else "># | column:20 | type:12 | null"
    screen.lines(screen.table(heads(titles), rows))


def _stored_as(column: LogicalColumn | None, field: pa.Field) -> list[dict[str, Any]]:
    fields = [field] if column is None else [each.field for each in column.stored]
    return [{"name": each.name, "type": str(each.type), "nullable": each.nullable} for each in fields]


def run_meta(options: argparse.Namespace, screen: Screen) -> None:
    with open_table(options.files, options.source_format) as opened:
        if isinstance(opened, smalti.MosaicFile):
            _file_meta(options, screen, opened)
            return
    _files_meta(options, screen)


def _files_meta(options: argparse.Namespace, screen: Screen) -> None:
    """A line for each of several files, or of a file of another format, and their sums."""
    from smalti.jobs.formats.tables import FormatTable

    found: list[dict[str, Any]] = []
    with local_paths(options.files, options.source_format) as paths:
        listing, formats = list_inputs(paths, options.source_format)
        for file, (format_, suffix) in zip(listing.files, formats, strict=True):
            one = FormatTable(replace(listing, files=[replace(file, partition={})]), [(format_, suffix)])
            found.append(
                {
                    "file": file.name,
                    "format": format_.name,
                    "size": file.size,
                    "rows": one.count_rows(),
                    "columns": len(one.schema),
                }
            )
    sums = {key: sum(int(item[key]) for item in found) for key in ("size", "rows")}
    if options.json:
        screen.json({"num_files": len(found), **sums, "files": found})
        return
    lines = [
        [cell(item["file"]), item["format"], size(item["size"]), f"{item['rows']:,}", f"{item['columns']:,}"]
        for item in found
    ]
    total = f"{show_count(len(found), 'file')}, {size(sums['size'])}, {show_count(sums['rows'], 'row')}"
    screen.lines([*screen.table(heads("file:20 | format | >size | >rows | >columns"), lines), total])


def _file_meta(options: argparse.Namespace, screen: Screen, file: smalti.MosaicFile) -> None:
    layout, num_rows = file.layout(buckets=()), file.num_rows
    block, index, companion = layout.schema_block, layout.index, layout.companion
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
                "file": shown_paths(options.files),
                "size": layout.size,
                "rows": num_rows,
                "columns": layout.num_columns,
                "compression": layout.compression,
                "buckets": layout.num_buckets,
                "layout": layout.in_words,
                "schema_block": {"offset": block.offset, "size": block.size},
                "name_encoding": layout.name_encoding,
                "companion": None if companion is None else {"offset": companion.offset, "size": companion.size},
                "index": {"offset": index.offset, "size": index.size},
                "row_groups": groups,
            }
        )
        return
    own_size = block.size - (0 if companion is None else companion.size)
    smaller = f"({ratio(own_size, block.uncompressed_size)} compressed), {_NAMES[layout.name_encoding]}"
    pairs = [
        ("file", cell(shown_paths(options.files))),
        ("size", f"{size(layout.size)} ({layout.size:,} bytes)"),
        ("rows", f"{num_rows:,}"),
        ("columns", f"{layout.num_columns:,}"),
        ("buckets", f"{layout.num_buckets:,}"),
        ("layout", layout.in_words),
        ("compression", layout.compression),
        ("schema block", f"{size(own_size)} at {block.offset:,} {smaller}"),
        ("companion", layout.companion_in_words),
        ("index", f"{size(index.size)} at {index.offset:,}"),
    ]
    titles = heads(">row group | >rows | >bytes | >monolithic | >paged | >empty | >statistics")
    keys = [head.title.replace(" ", "_") for head in titles]
    rows = [[size(item[key]) if key == "bytes" else f"{item[key]:,}" for key in keys] for item in groups]
    screen.lines([*facts(pairs), "", *screen.table(titles, rows)])


def run_stats(options: argparse.Namespace, screen: Screen) -> None:
    names: dict[str, None] = {}
    types: dict[str, pa.DataType | None] = {}  # of the columns with statistics, as given; None if files differ
    groups: list[tuple[int, dict[str, ColumnStatistics]]] = []
    for count, (_, file) in enumerate(open_each(options.files)):
        if count and options.row_group is not None:
            raise MosaicError("--row-group is for a single file", found=shown_paths(options.files))
        names.update(dict.fromkeys(file.stored_schema.names))  # fields of structs have statistics of their own
        check_below("row group", options.row_group, file.num_row_groups)
        wanted = range(file.num_row_groups) if options.row_group is None else [options.row_group]
        groups += [(group.num_rows, group.statistics) for group in map(file.row_group, wanted)]
        for name in {name for _, statistics in groups[len(groups) - len(wanted) :] for name in statistics}:
            type_ = file.columns.given_type(name) or file.stored_schema.field(name).type
            types[name] = type_ if types.setdefault(name, type_) == type_ else None
    chosen = select_columns(list(names), options.columns)
    merged = merge_statistics(groups)
    columns: list[dict[str, Any]] = [
        {
            "name": name,
            "null_count": known.null_count,
            **{end: _plain(getattr(known, end), types.get(name)) for end in ("min", "max")},
        }
        for name in (names if chosen is None else chosen)
        if (known := merged.get(name)) is not None
    ]
    if options.json:
        num_rows = sum(rows for rows, _ in groups)
        screen.json({"file": shown_paths(options.files), "rows": num_rows, "columns": columns})
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
        screen.lines(screen.table(heads("column:20 | >nulls | min:10 | max:10"), rows))


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
            least = _extreme(min, [part.min for part in known])
            merged[name] = ColumnStatistics(nulls, least, _extreme(max, [part.max for part in known]))
    return merged


def _extreme(choose: Callable[..., Any], bounds: list[Any]) -> Any:
    """The least or the greatest of some bounds. Days and moments that Python cannot hold are Arrow scalars."""
    type_ = next((bound.type for bound in bounds if isinstance(bound, pa.Scalar)), None)
    if type_ is None:
        return choose(bounds)
    scalars = [bound if isinstance(bound, pa.Scalar) else pa.scalar(bound, type_) for bound in bounds]
    return choose(scalars, key=in_seconds)


def _plain(value: Any, column_type: pa.DataType | None) -> Any:
    """A bound as JSON can hold it, of a column whose files all have the type, if it is given.

    By itself Arrow would take every moment and duration for one in microseconds. Those with nanoseconds are pandas'.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    type_: pa.DataType | None = None
    if isinstance(value, pa.Scalar):
        type_ = value.type
    elif hasattr(value, "nanosecond"):
        type_ = pa.timestamp("ns", None if value.tzinfo is None else "UTC")
    elif isinstance(value, (timedelta, float)) and column_type is not None:
        type_ = storage_kind(column_type)
    if type_ is not None and pt.is_float16(type_):
        return shortest_half(value)
    return plain_values(pa.array([value], type_))[0]
