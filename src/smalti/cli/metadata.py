"""`schema`, `meta` and `stats`: what the tails of files tell, without reading their data."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

import smalti
from smalti._compat.arrow import min_max
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
from smalti.cli.inputs import STANDARD_INPUT, list_inputs, local_paths, open_each, open_table
from smalti.cli.render.table import facts, heads
from smalti.cli.render.text import cell, size
from smalti.cli.screen import Screen
from smalti.errors import MosaicError
from smalti.jobs.formats.text_values import plain_values
from smalti.logical.tree import LogicalColumn, plan_schema
from smalti.logical.widen import widen, widen_values
from smalti.table.opening import source_name
from smalti.units import show_count


def add_stored(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stored", action="store_true", help="also show how columns are stored if the format does not have their type"
    )


arguments_schema = adding(add_files, add_columns, add_stored, add_output)
arguments_meta = adding(add_files, add_output)
arguments_stats = adding(add_mosaic_files, add_columns, add_row_group, add_output)


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
    rows = (
        [
            f"{item['position']:,}",
            cell(item["name"]),
            cell(item["type"]),
            "" if item["nullable"] else "not null",
            *([cell(", ".join(f"{each['name']}: {each['type']}" for each in item["stored_as"]))] if stored else []),
        ]
        for item in columns
    )
    titles = "># | column:20 | type:12 | null | stored as:20" if stored else "># | column:20 | type:12 | null"
    document = {"file": source_name(options.files), "num_columns": len(names), "columns": columns}
    screen.show(document, screen.table(heads(titles), rows))


def _stored_as(column: LogicalColumn | None, field: pa.Field) -> list[dict[str, Any]]:
    fields = [field] if column is None else [each.field for each in column.stored]
    return [{"name": each.name, "type": str(each.type), "nullable": each.nullable} for each in fields]


def run_meta(options: argparse.Namespace, screen: Screen) -> None:
    with local_paths(options.files, options.source_format) as inputs:
        with open_table(*inputs) as opened:
            if isinstance(opened, smalti.MosaicFile):
                _file_meta(options, screen, opened)
                return
        _files_meta(options, screen, *inputs)


def _files_meta(options: argparse.Namespace, screen: Screen, paths: list[str], source_format: str | None) -> None:
    """A line for each of several files, or of a file of another format, and their sums."""
    from smalti.jobs.formats.tables import FormatTable

    listing, formats = list_inputs(paths, source_format)
    found: list[dict[str, Any]] = []
    for file, format_ in zip(listing.files, formats, strict=True):
        one = FormatTable(replace(listing, files=[replace(file, partition={})]), [format_])
        name = STANDARD_INPUT if options.files == [STANDARD_INPUT] else file.name
        counts = {"size": file.size, "rows": one.count_rows(), "columns": len(one.schema)}
        found.append({"file": name, "format": format_[0].name, **counts})
    sums = {key: sum(item[key] for item in found) for key in ("size", "rows")}
    lines = [
        [cell(item["file"]), item["format"], size(item["size"]), f"{item['rows']:,}", f"{item['columns']:,}"]
        for item in found
    ]
    total = f"{show_count(len(found), 'file')}, {size(sums['size'])}, {show_count(sums['rows'], 'row')}"
    table = screen.table(heads("file:20 | format | >size | >rows | >columns"), lines)
    screen.show({"num_files": len(found), **sums, "files": found}, [*table, total])


def _file_meta(options: argparse.Namespace, screen: Screen, file: smalti.MosaicFile) -> None:
    layout = file.layout(buckets=())
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
    document = {
        "file": source_name(options.files),
        "size": layout.size,
        "rows": layout.num_rows,
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
    titles = heads(">row group | >rows | >bytes | >monolithic | >paged | >empty | >statistics")
    keys = [head.title.replace(" ", "_") for head in titles]
    rows = [[size(item[key]) if key == "bytes" else f"{item[key]:,}" for key in keys] for item in groups]
    pairs = [("file", cell(source_name(options.files))), *layout.facts]
    screen.show(document, [*facts(pairs), "", *screen.table(titles, rows)])


def run_stats(options: argparse.Namespace, screen: Screen) -> None:
    names: dict[str, None] = {}
    rows: list[int] = []
    bounds: dict[str, list[tuple[int, pa.Array]]] = {}
    for count, (_, file) in enumerate(open_each(options.files)):
        if count and options.row_group is not None:
            raise MosaicError("--row-group is for a single file", found=source_name(options.files))
        names.update(dict.fromkeys(file.stored_schema.names))  # fields of structs have statistics of their own
        check_below("row group", options.row_group, file.num_row_groups)
        wanted = range(file.num_row_groups) if options.row_group is None else [options.row_group]
        for group in map(file.row_group, wanted):
            rows.append(group.num_rows)
            for name, found in group.bounds().items():
                bounds.setdefault(name, []).append(found)
    chosen = select_columns(list(names), options.columns)
    columns: list[dict[str, Any]] = []
    for name in names if chosen is None else chosen:
        parts = bounds.get(name, [])
        if parts and len(parts) == len(rows):
            low, high = merge_bounds(rows, parts)
            columns.append({"name": name, "null_count": sum(nulls for nulls, _ in parts), "min": low, "max": high})
    if not columns and not options.json:
        screen.note("smalti: no statistics were written for these columns (see stats_columns in the writer's options)")
        return
    lines = (
        [
            cell(item["name"]),
            f"{item['null_count']:,}",
            *("-" if item[end] is None else cell(item[end]) for end in ("min", "max")),
        ]
        for item in columns
    )
    document = {"file": source_name(options.files), "rows": sum(rows), "columns": columns}
    screen.show(document, screen.table(heads("column:20 | >nulls | min:10 | max:10"), lines))


def merge_bounds(rows: Sequence[int], parts: Sequence[tuple[int, pa.Array]]) -> list[Any]:
    """Minimum and maximum over row groups with these numbers of rows, as JSON has them; None if they are not known.

    A row group of nulls only says nothing about the bounds of the others. A row group with values but without bounds
    makes the bounds of the whole unknown, and so do files whose types cannot be compared.

    Examples
    --------
    >>> merge_bounds([9, 9], [(1, pa.array([2, 5])), (9, pa.array([None, None], pa.int64()))])
    [2, 5]
    """
    known = [ends for _, ends in parts if not ends.null_count]
    unknown = any(ends.null_count and nulls < count for count, (nulls, ends) in zip(rows, parts, strict=True))
    type_: Any = known[0].type if known and not unknown else None
    for ends in known if type_ is not None else ():
        type_ = type_ and widen(type_, ends.type)
    if type_ is None:
        return [None, None]
    values = pa.concat_arrays([widen_values(ends, type_) for ends in known])
    if isinstance(values, pa.ExtensionArray):
        return plain_values(pa.ExtensionArray.from_storage(type_, min_max(values.storage)))
    return plain_values(min_max(values))
