"""`size`: the bytes that each column takes in files."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import smalti
from smalti.cli.arguments import add_columns, add_files, add_output, select_columns, whole_number
from smalti.cli.render.table import heads
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.cli.sources import format_of, list_inputs, local_paths, open_each, shown_paths
from smalti.errors import MosaicError
from smalti.io.locations import Location
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
