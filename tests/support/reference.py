"""The reference, `paimon-mosaic` 0.2.0, behind the same names as smalti's options."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

import mosaic

#: smalti's option -> the reference's.
NAMES = {
    "compression": "compression",
    "compression_level": "zstd_level",
    "num_buckets": "num_buckets",
    "dict_max_bytes": "max_dict_total_bytes",
    "dict_max_entries": "max_dict_entries",
    "page_size_threshold": "page_size_threshold",
    "stats_columns": "stats_columns",
}
COMPRESSION = {"none": 0, "zstd": 1}


def write(table: pa.Table, *, one_per_batch: bool = False, **options: Any) -> bytes:
    """One row group, or one per record batch of the table."""
    translated = {NAMES[name]: value for name, value in options.items()}
    if "compression" in translated:
        translated["compression"] = COMPRESSION[translated["compression"]]
    if "stats_columns" in translated:
        translated["stats_columns"] = list(translated["stats_columns"])
    translated["row_group_max_size"] = 1 if one_per_batch else 1 << 40
    stream = io.BytesIO()
    with mosaic.MosaicWriter(stream, table.schema, mosaic.WriterOptions(**translated)) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return stream.getvalue()


def read(data: bytes, columns: list[str] | None = None) -> pa.Table:
    return mosaic.read_table(lambda offset, length: data[offset : offset + length], len(data), columns)
