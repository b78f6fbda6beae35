"""`size`: the bytes that each column takes in files."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import smalti
from smalti.cli.arguments import add_columns, add_files, add_output, select_columns, whole_number
from smalti.cli.inputs import list_inputs, local_paths
from smalti.cli.render.table import heads
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.errors import MosaicError
from smalti.io.locations import Location
from smalti.mosaic.layout import ColumnBytes
from smalti.table.opening import source_name
from smalti.units import show_count


def arguments_size(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "Mosaic or Parquet")
    add_columns(parser)
    about = (
        "one line for all columns whose names share their first N parts (default 1); a part ends at _ . - / : or "
        "where a number begins"
    )
    parser.add_argument("--prefix", type=whole_number, nargs="?", const=1, metavar="N", help=about)
    about = "order of the lines (default: size, largest first)"
    parser.add_argument("--sort", choices=("size", "name", "ratio"), default="size", help=about)
    parser.add_argument("-n", type=whole_number, metavar="N", help="the first N lines only")
    add_output(parser)


def run_size(options: argparse.Namespace, screen: Screen) -> None:
    sizes: dict[str, ColumnBytes] = {}
    with local_paths(options.files, options.source_format) as inputs:
        for found in _file_sizes(*inputs):
            for name, column in found.items():
                sizes.setdefault(name, ColumnBytes()).add(column)
    chosen = select_columns(list(sizes), options.columns)
    if chosen is not None:
        sizes = {name: sizes[name] for name in chosen}
    total = sum(column.stored for column in sizes.values())
    groups = by_prefix(sizes, None if options.prefix is None else max(1, options.prefix))
    order: dict[str, Callable[[tuple[str, int, ColumnBytes]], Any]] = {
        "size": lambda line: (-line[2].stored, line[0]),
        "name": lambda line: line[0],
        "ratio": lambda line: line[2].unpacked / max(1, line[2].stored),
    }
    lines = sorted(groups, key=order[options.sort])[: options.n]
    documents = [
        {
            "name": name,
            "columns": count,
            "stored": found.stored,
            "unpacked": found.unpacked,
            "encodings": list(found.encodings),
        }
        for name, count, found in lines
    ]
    shares = accumulate(found.stored for _, _, found in lines)
    rows = [
        [
            cell(name),
            *([] if options.prefix is None else [f"{count:,}"]),
            size(found.stored),
            f"{found.stored / max(1, total):.1%}",
            f"{share / max(1, total):.1%}",
            size(found.unpacked),
            ratio(found.stored, found.unpacked),
            ", ".join(found.encodings),
        ]
        for (name, count, found), share in zip(lines, shares, strict=True)
    ]
    first = "column:20" if options.prefix is None else "prefix:20 | >columns"
    titles = f"{first} | >bytes | >share | >summed | >unpacked | >ratio | encodings:8"
    summary = f"{show_count(len(sizes), 'column')} of {size(total)}"
    document = {"file": source_name(options.files), "stored": total, "columns": documents}
    screen.show(document, [*screen.table(heads(titles), rows), summary])


def by_prefix(sizes: Mapping[str, ColumnBytes], parts: int | None) -> list[tuple[str, int, ColumnBytes]]:
    """Columns summed by the first parts of their names: prefix, number of columns, bytes. With None each by itself.

    Examples
    --------
    >>> found = by_prefix({"click_a": ColumnBytes(5), "click_b": ColumnBytes(2), "id": ColumnBytes(1)}, 1)
    >>> [(name, count, column.stored) for name, count, column in found]
    [('click_*', 2, 7), ('id', 1, 1)]
    """
    groups: dict[str, tuple[list[str], ColumnBytes]] = {}
    for name, column in sizes.items():
        pieces = re.findall(r"[^_.\-/:\d]*(?:[_.\-/:]+|\d+[_.\-/:]*|$)", name)
        names, whole = groups.setdefault(name if parts is None else "".join(pieces[:parts]), ([], ColumnBytes()))
        names.append(name)
        whole.add(column)
    return [(head if names == [head] else f"{head}*", len(names), whole) for head, (names, whole) in groups.items()]


def _file_sizes(paths: Sequence[str], source_format: str | None) -> Iterator[Mapping[str, ColumnBytes]]:
    listing, formats = list_inputs(paths, source_format)
    for listed, (format_, _) in zip(listing.files, formats, strict=True):
        location = Location(listing.filesystem, listed.path)
        if format_.name == "mosaic":
            with smalti.open(location.path, filesystem=location.filesystem) as file:
                yield file.layout().bytes_by_column()
        elif format_.name == "parquet":
            yield parquet_sizes(location)
        else:
            raise MosaicError("bytes by column are known of Mosaic and Parquet files", path=location.path)


def parquet_sizes(location: Location) -> dict[str, ColumnBytes]:
    import pyarrow.parquet as pq

    with location.filesystem.open_input_file(location.path) as stream:
        metadata = pq.read_metadata(stream)
    sizes: dict[str, ColumnBytes] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            encodings = Counter[str](encoding for encoding in chunk.encodings if encoding != "RLE")
            found = ColumnBytes(chunk.total_compressed_size, chunk.total_uncompressed_size, encodings)
            sizes.setdefault(chunk.path_in_schema.partition(".")[0], ColumnBytes()).add(found)
    return sizes
