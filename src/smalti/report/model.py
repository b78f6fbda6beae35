"""The data of a file's page: its layout and statistics as plain lists, small enough to embed in the page.

A physical column is what the file stores: a list or map is several, one for itself and one for each of its children.
Physical columns come bucket by bucket, in the same order in every row group, so their names are given once.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from smalti.file.layout import BucketLayout, FileLayout, RowGroupLayout
from smalti.file.reader import MosaicFile
from smalti.format.statistics import ColumnStatistics
from smalti.spec import FOOTER_SIZE, Encoding

#: Bounds longer than this many characters are cut.
MAX_BOUND = 60


def build_model(file: MosaicFile, layout: FileLayout, name: str) -> dict[str, Any]:
    """Everything the page shows, ready for JSON."""
    columns, nodes = _columns(layout, file.schema)
    statistics = [file.row_group(group.index).statistics for group in layout.row_groups]
    return {
        "file": name,
        "size": layout.size,
        "rows": file.num_rows,
        "compression": layout.compression,
        "buckets": layout.num_buckets,
        "layout": layout.in_words,
        "names": layout.name_encoding,
        "schemaBlock": vars(layout.schema_block),
        "index": vars(layout.index),
        "footer": FOOTER_SIZE,
        "encodings": [encoding.name for encoding in Encoding],
        "columns": columns,
        "nodes": nodes,
        "groups": [_group(group) for group in layout.row_groups],
        "statistics": _statistics(statistics, columns["name"]),
    }


def _columns(layout: FileLayout, schema: pa.Schema) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The columns in the order they are stored, and the physical columns with the column each belongs to."""
    buckets = [bucket for group in layout.row_groups[:1] for bucket in group.buckets]
    physical = [(column, bucket.id) for bucket in buckets for column in bucket.columns]
    # Without row groups the layout has no buckets to tell columns from.
    homes = {column.name: bucket for column, bucket in physical} if buckets else dict.fromkeys(schema.names, 0)
    places = {name: place for place, name in enumerate(homes)}
    positions = {name: position for position, name in enumerate(schema.names)}
    fields = [schema.field(positions[name]) for name in homes]
    columns: dict[str, list[Any]] = {
        "name": list(homes),
        "type": [str(field.type) + ("" if field.nullable else " not null") for field in fields],
        "bucket": list(homes.values()),
        "position": [positions[name] for name in homes],
    }
    nodes: dict[str, list[Any]] = {
        "column": [places[column.name] for column, _ in physical],
        "path": [column.path[len(column.name) :] for column, _ in physical],
        "bucket": [bucket for _, bucket in physical],
    }
    return columns, nodes


def _group(group: RowGroupLayout) -> dict[str, Any]:
    physical = [column for bucket in group.buckets for column in bucket.columns]
    return {
        "rows": group.num_rows,
        "mode": "".join(bucket.mode[0] for bucket in group.buckets),
        "offset": [bucket.offset for bucket in group.buckets],
        "size": [bucket.size for bucket in group.buckets],
        "raw": [bucket.uncompressed_size for bucket in group.buckets],
        "head": [_head(bucket) for bucket in group.buckets],
        "encoding": "".join(str(Encoding[column.encoding].value) for column in physical),
        "nulls": "".join("1" if column.has_nulls else "0" for column in physical),
        "bytes": [column.size for column in physical],
        "stored": [-1 if column.stored_size is None else column.stored_size for column in physical],
        "entries": [column.dict_entries for column in physical],
    }


def _head(bucket: BucketLayout) -> int:
    """Bytes before the first slot of a paged bucket."""
    return bucket.size - sum(column.stored_size or 0 for column in bucket.columns) if bucket.mode == "paged" else 0


def _statistics(groups: list[dict[str, ColumnStatistics]], names: list[str]) -> dict[int, list[Any]]:
    """By place of the column: [nulls, minimum, maximum] of each row group, or None where a row group has none."""
    return {
        place: [record and [record.null_count, _bound(record.min), _bound(record.max)] for record in records]
        for place, name in enumerate(names)
        if any(records := [group.get(name) for group in groups])
    }


def _bound(value: Any) -> Any:
    """Numbers that JavaScript can hold stay numbers, so that the page can compare them; the rest becomes text."""
    is_exact = math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and abs(value) < 1 << 53
    if value is None or is_exact:
        return value
    text = str(value)
    return text if len(text) <= MAX_BOUND else f"{text[: MAX_BOUND - 1]}…"
