"""`size` and `dictionary`: what columns take in files, and the values that dictionaries hold."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow.compute as pc
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
    whole_number,
)
from smalti.cli.render.rows import shown_values
from smalti.cli.render.table import heads
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.cli.sources import format_of, list_inputs, local_paths, open_each, shown_paths
from smalti.errors import MosaicError
from smalti.io.locations import Location
from smalti.jobs.formats.json_values import plain_values
from smalti.logical.arrays import as_compared
from smalti.mosaic.layout import FileLayout
from smalti.units import show_count


@dataclass(frozen=True)
class ColumnSize:
    """Bytes of a column, or of several that share a prefix.

    Attributes
    ----------
    name : str
    stored : int
        Bytes in the file. Columns of a monolithic bucket share its bytes by their sizes before compression.
    unpacked : int
        Bytes before compression.
    columns : int
    encodings : tuple of str
    """

    name: str
    stored: int
    unpacked: int
    columns: int = 1
    encodings: tuple[str, ...] = ()

    def __add__(self, other: ColumnSize) -> ColumnSize:
        return replace(
            self,
            stored=self.stored + other.stored,
            unpacked=self.unpacked + other.unpacked,
            encodings=tuple(dict.fromkeys(self.encodings + other.encodings)),
        )


def arguments_size(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "Mosaic or Parquet")
    add_columns(parser)
    parser.add_argument(
        "--prefix",
        type=whole_number,
        nargs="?",
        const=1,
        metavar="N",
        help="one line for all columns whose names share their first N parts (default 1); a part ends at _ . - / : or "
        "where a number begins",
    )
    parser.add_argument(
        "--sort",
        choices=("size", "name", "ratio"),
        default="size",
        help="order of the lines (default: size, largest first)",
    )
    parser.add_argument("-n", type=whole_number, metavar="N", help="the first N lines only")
    add_output(parser)


def run_size(options: argparse.Namespace, screen: Screen) -> None:
    sizes: dict[str, ColumnSize] = {}
    with local_paths(options.files, options.source_format) as paths:
        for found in _file_sizes(paths, options.source_format):
            for name, column in found.items():
                sizes[name] = sizes[name] + column if name in sizes else column
    chosen = select_columns(list(sizes), options.columns)
    columns = list(sizes.values()) if chosen is None else [sizes[name] for name in chosen]
    lines = columns if options.prefix is None else by_prefix(columns, max(1, options.prefix))
    order = {
        "size": lambda item: (-item.stored, item.name),
        "name": lambda item: item.name,
        "ratio": lambda item: item.unpacked / max(1, item.stored),
    }
    lines = sorted(lines, key=order[options.sort])[: options.n]
    total = sum(column.stored for column in columns)
    if options.json:
        documents = [vars(item) for item in lines]
        screen.json({"file": shown_paths(options.files), "stored": total, "columns": documents})
        return
    shares = accumulate(item.stored for item in lines)
    rows = [
        [
            cell(item.name),
            *([] if options.prefix is None else [f"{item.columns:,}"]),
            size(item.stored),
            f"{item.stored / max(1, total):.1%}",
            f"{share / max(1, total):.1%}",
            size(item.unpacked),
            ratio(item.stored, item.unpacked),
            ", ".join(item.encodings),
        ]
        for item, share in zip(lines, shares, strict=True)
    ]
    first = "column:20" if options.prefix is None else "prefix:20 | >columns"
    titles = f"{first} | >bytes | >share | >summed | >unpacked | >ratio | encodings:8"
    summary = f"{show_count(len(columns), 'column')} of {size(total)}"
    screen.lines([*screen.table(heads(titles), rows), summary])


def by_prefix(columns: Iterable[ColumnSize], parts: int) -> list[ColumnSize]:
    """Columns summed by the first parts of their names.

    Examples
    --------
    >>> found = by_prefix([ColumnSize("click_a", 5, 9), ColumnSize("click_b", 2, 9), ColumnSize("id", 1, 1)], 1)
    >>> [(item.name, item.stored, item.columns) for item in found]
    [('click_*', 7, 2), ('id', 1, 1)]
    """
    sums: dict[str, list[ColumnSize]] = {}
    for column in columns:
        pieces = re.findall(r"[^_.\-/:\d]*(?:[_.\-/:]+|\d+[_.\-/:]*|$)", column.name)
        head = "".join(pieces[:parts])
        sums.setdefault(head if len(head) < len(column.name) else column.name, []).append(column)
    merged = []
    for head, members in sums.items():
        whole = members[0]
        for member in members[1:]:
            whole = whole + member
        is_group = len(members) > 1 or members[0].name != head
        merged.append(replace(whole, name=f"{head}*" if is_group else head, columns=len(members)))
    return merged


def _file_sizes(paths: Sequence[str], source_format: str | None) -> Iterator[Mapping[str, ColumnSize]]:
    found = format_of(paths[0]) if len(paths) == 1 and source_format is None else None
    if found is not None and found.name == "mosaic":  # the usual case needs no listing
        for _, file in open_each(paths):
            yield layout_sizes(file.layout())
        return
    listing, formats = list_inputs(paths, source_format)
    for listed, (format_, _) in zip(listing.files, formats, strict=True):
        location = Location(listing.filesystem, listed.path)
        if format_.name == "mosaic":
            with smalti.open(location.path, filesystem=location.filesystem) as file:
                yield layout_sizes(file.layout())
        elif format_.name == "parquet":
            yield parquet_sizes(location)
        else:
            raise MosaicError("bytes by column are known of Mosaic and Parquet files", path=location.path)


def layout_sizes(layout: FileLayout) -> dict[str, ColumnSize]:
    return {
        name: ColumnSize(name, found.stored, found.unpacked, encodings=tuple(found.encodings))
        for name, found in layout.bytes_by_column().items()
    }


def parquet_sizes(location: Location) -> dict[str, ColumnSize]:
    import pyarrow.parquet as pq

    with location.filesystem.open_input_file(location.path) as stream:
        metadata = pq.read_metadata(stream)
    sizes: dict[str, ColumnSize] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            name = chunk.path_in_schema.partition(".")[0]
            encodings = tuple(encoding for encoding in chunk.encodings if encoding != "RLE")
            found = ColumnSize(name, chunk.total_compressed_size, chunk.total_uncompressed_size, encodings=encodings)
            sizes[name] = sizes[name] + found if name in sizes else found
    return sizes


arguments_dictionary = adding(add_mosaic_files, add_columns, add_row_group, add_output)


def run_dictionary(options: argparse.Namespace, screen: Screen) -> None:
    found: list[dict[str, Any]] = []
    several = False
    for count, (name, file) in enumerate(open_each(options.files)):
        several = several or count > 0
        check_below("row group", options.row_group, file.num_row_groups)
        columns = select_columns(file.column_names, options.columns) or file.column_names
        found += [{"file": name, **item} for item in dictionaries(file, columns, options)]
    if options.json:
        screen.json(found)
    elif not found:
        screen.note("smalti: none of these columns is stored with a dictionary (see `smalti layout -c`)")
    else:
        titles = heads(f"{'file:20 | ' if several else ''}column:20 | >row group | >entry | value:20 | >rows")
        rows = [
            [
                *([cell(item["file"])] if several else []),
                cell(item["column"]),
                f"{item['row_group']:,}",
                f"{entry:,}",
                cell(value),
                f"{rows:,}",
            ]
            for item in found
            for entry, (value, rows) in enumerate(item["entries"])
        ]
        screen.lines(screen.table(titles, rows))


def dictionaries(
    file: smalti.MosaicFile, columns: Sequence[str], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """The dictionary of every column that has one, row group by row group: its values and how many rows have each.

    Entries are in the order of their first rows, as writers number them. Entries that no row uses are only counted.
    """
    wanted = set(columns)
    types = file.schema_of(list(wanted))
    layout = file.layout({file.bucket_of(name) for name in wanted})
    for group in layout.row_groups:
        if options.row_group not in (None, group.index):
            continue
        sizes = {
            part.name: part.dict_entries
            for bucket in group.buckets
            for part in bucket.columns
            if part.encoding == "DICT" and part.path == part.name and part.name in wanted
        }
        names = [name for name in columns if name in sizes and not pt.is_nested(types.field(name).type)]
        rows = file.row_group(group.index).read(names) if names else None
        for name in names if rows is not None else ():
            stored = as_compared(rows[name].combine_chunks())  # type: ignore[index]
            counted = pc.value_counts(stored.drop_null())
            show = plain_values if options.json else shown_values
            values = show(counted.field("values")) if len(counted) else []
            entries = [list(pair) for pair in zip(values, counted.field("counts").to_pylist(), strict=True)]
            yield {
                "column": name,
                "row_group": group.index,
                "unused": sizes[name] - len(entries),
                "entries": entries,
            }
