"""`layout`: how the columns of a file are stored."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import smalti
from smalti.cli.arguments import add_mosaic_files, add_output, add_row_group, check_below, select_columns, whole_number
from smalti.cli.inputs import open_each
from smalti.cli.render.table import heads
from smalti.cli.render.text import cell, ratio, size
from smalti.cli.screen import Screen
from smalti.errors import MosaicError
from smalti.mosaic.layout import BucketLayout, ColumnLayout, FileLayout


def arguments_layout(parser: argparse.ArgumentParser) -> None:
    add_mosaic_files(parser)
    about = "a line for each of these columns (names or globs) and row group, instead of one for each bucket"
    parser.add_argument("-c", "--column", action="append", metavar="NAMES", help=about)
    parser.add_argument(
        "--bucket", action="append", type=whole_number, metavar="N", help="the columns of this bucket; may be repeated"
    )
    about = "compare the layouts that a writer could choose for these rows: their size and the cost of reading"
    parser.add_argument("--weigh", action="store_true", help=about)
    about = "with --weigh: zstd's level (default 1)"
    parser.add_argument("--compression-level", type=int, metavar="N", help=about)
    add_row_group(parser)
    add_output(parser)


def run_layout(options: argparse.Namespace, screen: Screen) -> None:
    if options.weigh and (options.column or options.bucket):
        raise MosaicError("--weigh compares layouts of all columns, so it takes no --column and no --bucket")
    if options.compression_level is not None and not options.weigh:
        raise MosaicError("--compression-level needs --weigh")
    describe = _weigh if options.weigh else _show
    found = []
    for name, file in open_each(options.files):
        document, lines = describe(options, screen, file)
        found.append(({"file": name, **document}, [cell(name), *lines, ""]))
    if len(found) == 1:  # Names of files only matter if there are several.
        screen.show(found[0][0], found[0][1][1:-1])
    else:
        screen.show([document for document, _ in found], (line for _, lines in found for line in lines))


def _show(options: argparse.Namespace, screen: Screen, file: smalti.MosaicFile) -> tuple[dict[str, Any], list[str]]:
    """The layout of a file as a document, or as lines."""
    layout, by_column = _chosen_layout(options, file)
    if options.json:
        return asdict(layout), []
    buckets = [(group.index, bucket) for group in layout.row_groups for bucket in group.buckets]
    if by_column:
        rows = [_column_line(group, bucket, column) for group, bucket in buckets for column in bucket.columns]
        return {}, list(screen.table(_COLUMN_HEADS, rows))
    lines = screen.table(_BUCKET_HEADS, (_bucket_line(group, bucket) for group, bucket in buckets))
    return {}, [layout.in_words, "", *lines]


def _weigh(options: argparse.Namespace, screen: Screen, file: smalti.MosaicFile) -> tuple[dict[str, Any], list[str]]:
    """What a writer would choose for the rows of the first row group, or the one that is asked for."""
    from smalti.file.writer import weigh_layouts

    check_below("row group", options.row_group, file.num_row_groups)
    groups = [options.row_group or 0] if file.num_row_groups else []
    level = options.compression_level
    written = smalti.WriterOptions() if level is None else smalti.WriterOptions(compression_level=level)
    choices = weigh_layouts(file.read(row_groups=groups), written)
    if options.json:
        return {aim: asdict(choice) for aim, choice in choices.items()}, []
    candidates = next(iter(choices.values())).candidates
    rows = [
        [
            str(candidate),
            f"{candidate.size:.1%}",
            f"{candidate.cost / 1e6:.2f} ms",
            ", ".join(aim for aim, choice in choices.items() if choice.chosen == place),
        ]
        for place, candidate in enumerate(candidates)
    ]
    notes = [f"{aim}: {choice.reason}" for aim, choice in choices.items()]
    return {}, [*screen.table(heads("layout:20 | >size | >reading | chosen by"), rows), "", *notes]


def _chosen_layout(options: argparse.Namespace, file: smalti.MosaicFile) -> tuple[FileLayout, bool]:
    """The layout of the row groups, buckets and columns asked for, and whether columns or buckets were asked for."""
    whole = set(options.bucket or ())
    check_below("bucket", max(whole, default=None), file.num_buckets)
    check_below("row group", options.row_group, file.num_row_groups)
    names = set(select_columns(file.column_names, options.column) or ())
    read = whole | {file.bucket_of(name) for name in names}
    layout = file.layout(read or None)
    groups = [group for group in layout.row_groups if options.row_group in (None, group.index)]

    def chosen(bucket: BucketLayout) -> BucketLayout:
        is_whole = bucket.id in whole
        return replace(bucket, columns=tuple(part for part in bucket.columns if is_whole or part.name in names))

    if read:
        groups = [replace(group, buckets=tuple(chosen(b) for b in group.buckets if b.id in read)) for group in groups]
    return replace(layout, row_groups=tuple(groups)), bool(read)


_BUCKET_HEADS = heads(
    ">row group | >bucket | mode | >columns | >bytes | >unpacked | >ratio | encodings:12 | from … to:20"
)


def _bucket_line(group: int, bucket: BucketLayout) -> list[str]:
    encodings = Counter(column.encoding for column in bucket.columns)
    names = list(dict.fromkeys(column.name for column in bucket.columns))
    return [
        f"{group:,}",
        f"{bucket.id:,}",
        bucket.mode,
        f"{len(names):,}",
        size(bucket.size),
        size(bucket.uncompressed_size),
        ratio(bucket.size, bucket.uncompressed_size),
        ", ".join(f"{count:,} {name}" for name, count in encodings.most_common()),
        f"{cell(names[0])} … {cell(names[-1])}" if len(names) > 1 else "".join(map(cell, names)),
    ]


_COLUMN_HEADS = heads(
    ">row group | >bucket | column:20 | type | encoding | nulls | >values | >entries | >unpacked | >slot | >ratio"
)


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
