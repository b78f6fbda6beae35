"""smalti on bytes: what most tests need, without a path of their own."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

import smalti


def written(data: Any, **options: Any) -> bytes:
    """The bytes of a file written by `smalti.write_table`."""
    stream = io.BytesIO()
    smalti.write_table(data, stream, **options)
    return stream.getvalue()


def written_as_reference(data: Any, **options: Any) -> bytes:
    """The same with the reference's layout unless `options` ask for another, and no checksums: the bytes must agree."""
    layout = {"num_buckets": 100, "page_size_threshold": 32 << 10}
    return written(data, **{**layout, "checksum": False, "companion": False, "stats_columns": (), **options})


def read(data: bytes, **arguments: Any) -> pa.Table:
    with smalti.open(data) as file:
        return file.read(**arguments)


def layout(data: bytes) -> Any:
    with smalti.open(data) as file:
        return file.layout()


def encodings(data: bytes) -> list[dict[str, str]]:
    """{path of a physical column: its encoding}, one per row group."""
    return [
        {column.path: column.encoding for bucket in group.buckets for column in bucket.columns}
        for group in layout(data).row_groups
    ]
