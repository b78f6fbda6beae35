"""`layout`: how the columns of a file are stored."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import smalti
from smalti.cli.arguments import add_file, add_output, whole_number
from smalti.cli.render.table import Head, table
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.cli.select import select_columns
from smalti.file.layout import BucketLayout, ColumnLayout, FileLayout


def arguments_layout(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument(
        "-c",
        "--column",
        action="append",
        metavar="NAMES",
        help="a line for each of these columns (names or globs) and row group, instead of one for each bucket",
    )
    parser.add_argument(
        "--bucket", action="append", type=whole_number, metavar="N", help="the columns of this bucket; may be repeated"
    )
    parser.add_argument("--row-group", type=whole_number, metavar="N", help="of this row group only")
    add_output(parser)


def run_layout(options: Any, screen: Screen) -> int:
    names: set[str] | None = None
    with smalti.open(options.file) as file:
        buckets: set[int] | None = None
        if options.bucket:
            _check("bucket", max(options.bucket), file.num_buckets)
            buckets = set(options.bucket)
        if options.column:
            chosen = select_columns(file.column_names, options.column) or []
            names = set(chosen)
            buckets = (buckets or set()) | {file.bucket_of(name) for name in chosen}
        if options.row_group is not None:
            _check("row group", options.row_group, file.num_row_groups)
        layout = file.layout(buckets)
    by_column = buckets is not None

    def wanted(bucket: int, column: ColumnLayout) -> bool:
        return names is None or column.name in names or bucket in (options.bucket or ())

    if options.json:
        screen.json(_document(layout, options.row_group, buckets, wanted))
        return 0
    room = screen.width if screen.is_terminal else None
    if by_column:
        rows = [
            _column_line(group, bucket, column)
            for group, bucket in _buckets(layout, options.row_group)
            for column in bucket.columns
            if wanted(bucket.id, column)
        ]
        screen.lines(table(_COLUMN_HEADS, rows, room))
    else:
        lines = (_bucket_line(group, bucket) for group, bucket in _buckets(layout, options.row_group))
        screen.lines(table(_BUCKET_HEADS, lines, room))
    return 0


def _check(what: str, found: int, count: int) -> None:
    if found >= count:
        raise smalti.MosaicError(f"no such {what}", found=found, expected=f"below {count}")


def _buckets(layout: FileLayout, only: int | None) -> Iterator[tuple[int, BucketLayout]]:
    for group in layout.row_groups:
        if only is None or group.index == only:
            for bucket in group.buckets:
                yield group.index, bucket


_BUCKET_HEADS = [
    Head("row group", right=True),
    Head("bucket", right=True),
    Head("mode"),
    Head("columns", right=True),
    Head("bytes", right=True),
    Head("unpacked", right=True),
    Head("ratio", right=True),
    Head("encodings", least=12),
    Head("from … to", least=20),
]


def _bucket_line(group: int, bucket: BucketLayout) -> list[str]:
    encodings = Counter(column.encoding for column in bucket.columns)
    names = list(dict.fromkeys(column.name for column in bucket.columns))
    span = f"{cell(names[0])} … {cell(names[-1])}" if len(names) > 1 else "".join(map(cell, names))
    return [
        f"{group:,}",
        f"{bucket.id:,}",
        bucket.mode,
        f"{len(names):,}",
        size(bucket.size),
        size(bucket.uncompressed_size),
        ratio(bucket.size, bucket.uncompressed_size),
        ", ".join(f"{count:,} {name}" for name, count in encodings.most_common()),
        span,
    ]


_COLUMN_HEADS = [
    Head("row group", right=True),
    Head("bucket", right=True),
    Head("column", least=20),
    Head("type"),
    Head("encoding"),
    Head("nulls"),
    Head("values", right=True),
    Head("entries", right=True),
    Head("unpacked", right=True),
    Head("slot", right=True),
    Head("ratio", right=True),
]


def _column_line(group: int, bucket: BucketLayout, column: ColumnLayout) -> list[str]:
    """`slot` is what a paged column takes in the file; in a monolithic bucket columns are compressed together."""
    return [
        f"{group:,}",
        f"{bucket.id:,}",
        cell(column.path),
        column.type,
        column.encoding,
        "yes" if column.has_nulls else "",
        f"{column.num_values:,}",
        f"{column.dict_entries:,}" if column.dict_entries else "",
        size(column.size),
        "shared" if column.stored_size is None else size(column.stored_size),
        ratio(column.stored_size or 0, column.size),
    ]


def _document(layout: FileLayout, only: int | None, buckets: set[int] | None, wanted: Any) -> dict[str, Any]:
    document = asdict(layout)
    document["row_groups"] = [group for group in document["row_groups"] if only is None or group["index"] == only]
    if buckets is not None:
        kept = [group for group in layout.row_groups if only is None or group.index == only]
        for group, source in zip(document["row_groups"], kept, strict=True):
            group["buckets"] = [
                {
                    **asdict(bucket),
                    "columns": [asdict(column) for column in bucket.columns if wanted(bucket.id, column)],
                }
                for bucket in source.buckets
                if bucket.id in buckets
            ]
    return document
