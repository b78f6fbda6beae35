"""A Mosaic or Parquet file as rows, for the commands that compare the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import smalti

#: Cells held of one file at a time when it is read in batches.
CELLS = 1 << 20


@dataclass(frozen=True)
class Rows:
    """What can be read; `format` is "mosaic" or "parquet"."""

    format: str
    schema: pa.Schema
    num_rows: int
    file: Any

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of the columns, in order."""
        width = len(self.schema) if columns is None else len(columns)
        step = max(64, CELLS // max(1, width))
        if self.format == "mosaic":
            yield from self.file.iter_batches(step, columns)
        else:
            for batch in self.file.iter_batches(step, columns=columns):
                # Parquet gives columns in the order of its file.
                yield batch if columns is None else batch.select(columns)

    def pieces(self, num_bytes: int) -> Iterator[pa.Table]:
        """All columns, in tables of about so many bytes."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self.batches():
            held.append(batch)
            size += batch.nbytes
            if size >= num_bytes:
                yield pa.Table.from_batches(held).combine_chunks()
                held, size = [], 0
        if held:
            yield pa.Table.from_batches(held).combine_chunks()


@contextmanager
def open_rows(path: str) -> Iterator[Rows]:
    """Open by suffix: `.parquet` and `.pq` are Parquet, anything else is Mosaic."""
    suffix = (path.partition("?")[0] if "://" in path else path).lower()
    if suffix.endswith((".parquet", ".pq")):
        import pyarrow.parquet as pq

        if "://" in path:
            from pyarrow.fs import FileSystem

            filesystem, inner = FileSystem.from_uri(path)
            parquet = pq.ParquetFile(filesystem.open_input_file(inner))
        else:
            parquet = pq.ParquetFile(path)
        with parquet:
            yield Rows("parquet", parquet.schema_arrow, parquet.metadata.num_rows, parquet)
        return
    with smalti.open(path) as file:
        yield Rows("mosaic", file.schema, file.num_rows, file)
