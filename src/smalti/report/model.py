"""What the page is drawn from: the layout as plain lists, one entry per column or bucket, small enough to embed.

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

#: Codes in the page, the format's own.
CODES = {encoding.name: int(encoding) for encoding in Encoding}
#: Bounds are shown to people: longer texts are cut.
MAX_BOUND = 60


def build_model(file: MosaicFile, layout: FileLayout, name: str) -> dict[str, Any]:
    """Everything the page shows, ready for JSON."""
    schema = file.schema
    order = {column: i for i, column in enumerate(file.column_names)}
    columns, nodes = _columns(layout, schema, order)
    statistics = [file.row_group(group.index).statistics for group in layout.row_groups]
    return {
        "file": name,
        "size": layout.size,
        "rows": file.num_rows,
        "compression": layout.compression,
        "buckets": layout.num_buckets,
        "names": layout.name_encoding,
        "schemaBlock": vars(layout.schema_block),
        "index": vars(layout.index),
        "footer": FOOTER_SIZE,
        "encodings": list(CODES),
        "columns": columns,
        "nodes": nodes,
        "groups": [_group(group) for group in layout.row_groups],
        "statistics": _statistics(statistics, columns["name"]),
    }


def _columns(layout: FileLayout, schema: pa.Schema, order: dict[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns in the order they are stored, and the physical columns with the column each belongs to."""
    columns: dict[str, list[Any]] = {"name": [], "type": [], "bucket": [], "position": []}
    nodes: dict[str, list[Any]] = {"column": [], "path": [], "bucket": []}
    if not layout.row_groups:
        for name, position in order.items():
            _add_column(columns, name, schema, 0, position)
        return columns, nodes
    for bucket in layout.row_groups[0].buckets:
        places = {}
        for column in bucket.columns:
            if column.path == column.name and column.name not in places:
                places[column.name] = len(columns["name"])
                _add_column(columns, column.name, schema, bucket.id, order[column.name])
        for column in bucket.columns:
            nodes["column"].append(places[column.name])
            nodes["path"].append(column.path[len(column.name) :])
            nodes["bucket"].append(bucket.id)
    return columns, nodes


def _add_column(columns: dict[str, list[Any]], name: str, schema: pa.Schema, bucket: int, position: int) -> None:
    field = schema.field(position)
    columns["name"].append(name)
    columns["type"].append(str(field.type) + ("" if field.nullable else " not null"))
    columns["bucket"].append(bucket)
    columns["position"].append(position)


def _group(group: RowGroupLayout) -> dict[str, Any]:
    physical = [column for bucket in group.buckets for column in bucket.columns]
    return {
        "rows": group.num_rows,
        "mode": "".join(bucket.mode[0] for bucket in group.buckets),
        "offset": [bucket.offset for bucket in group.buckets],
        "size": [bucket.size for bucket in group.buckets],
        "raw": [bucket.uncompressed_size for bucket in group.buckets],
        "head": [_head(bucket) for bucket in group.buckets],
        "encoding": "".join(str(CODES[column.encoding]) for column in physical),
        "nulls": "".join("1" if column.has_nulls else "0" for column in physical),
        "bytes": [column.size for column in physical],
        "stored": [-1 if column.stored_size is None else column.stored_size for column in physical],
        "entries": [column.dict_entries for column in physical],
    }


def _head(bucket: BucketLayout) -> int:
    """Bytes before the first slot of a paged bucket."""
    return bucket.size - sum(column.stored_size or 0 for column in bucket.columns) if bucket.mode == "paged" else 0


def _statistics(groups: list[dict[str, ColumnStatistics]], names: list[str]) -> dict[int, list[Any]]:
    """By place of the column: [nulls, minimum, maximum] of each row group, or None."""
    found: dict[int, list[Any]] = {}
    for place, name in enumerate(names):
        records = [group.get(name) for group in groups]
        if any(records):
            found[place] = [
                record and [record.null_count, _bound(record.min), _bound(record.max)] for record in records
            ]
    return found


def _bound(value: Any) -> Any:
    """Numbers stay numbers where JavaScript can hold them, so that they compare; the rest is text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    text = str(value)
    return text if len(text) <= MAX_BOUND else f"{text[: MAX_BOUND - 1]}…"
