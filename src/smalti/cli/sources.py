"""A Mosaic or Parquet file as rows, for the commands that compare the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

import smalti
from smalti.io.places import locate
from smalti.io.services import local_path

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Values of one file held in memory at a time when it is read in batches.
CELLS = 1 << 20


@dataclass(frozen=True)
class Rows:
    """An open file."""

    schema: pa.Schema
    num_rows: int
    file: smalti.MosaicFile | pq.ParquetFile

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of the columns, in the order they are named."""
        width = len(self.schema) if columns is None else len(columns)
        for batch in self.file.iter_batches(max(64, CELLS // max(1, width)), columns=columns):
            # Parquet gives columns in the order of its file.
            yield batch if columns is None else batch.select(columns)

    def pieces(self, num_bytes: int) -> Iterator[pa.Table]:
        """All columns, in tables of about `num_bytes` each."""
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
    """Open a path or URI by its suffix: as Parquet if it has one of Parquet's suffixes, otherwise as Mosaic."""
    if _is_parquet(local_path(path) or path.partition("?")[0]):  # options of a URI follow a "?"
        import pyarrow.parquet as pq

        place = locate(path)
        with pq.ParquetFile(place.filesystem.open_input_file(place.path)) as parquet:
            yield Rows(parquet.schema_arrow, parquet.metadata.num_rows, parquet)
    else:
        with smalti.open(path) as file:
            yield Rows(file.schema, file.num_rows, file)


def _is_parquet(name: str) -> bool:
    if name.endswith(".mosaic"):  # the usual case does not wait for the import of all formats
        return False
    from smalti.jobs.formats.registry import format_of_path

    known = format_of_path(name)
    return known is not None and known[0].name == "parquet"
