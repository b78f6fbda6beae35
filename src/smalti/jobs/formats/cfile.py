"""Kudu's CFile among the formats: a table of one column, which is named after the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import pyarrow as pa

from smalti._compat.arrow import size_of
from smalti.errors import SchemaError
from smalti.io.locations import Location
from smalti.jobs.formats.request import ReadRequest, select_fields, split_batch
from smalti.kudu import CFileReader, CFileWriter
from smalti.options import WriterOptions


class CFileColumnReader:
    """Reads a CFile as a table of one column, a block at a time."""

    def __init__(self, location: Location, request: ReadRequest) -> None:
        self._request = request
        self._file = CFileReader(location.path, filesystem=location.filesystem)
        try:
            column = pa.field(PurePosixPath(location.path).stem, self._file.arrow_type, self._file.metadata.nullable)
            self._full = pa.schema([column])
            self.schema = select_fields(self._full, request.columns)
        except BaseException:
            self._file.close()
            raise

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        for block, array in zip(self._file.blocks, self._file.iter_arrays(), strict=True):
            batch = pa.RecordBatch.from_arrays([array.cast(self._full.field(0).type)], schema=self._full)
            yield from split_batch(batch.select(self.schema.names), self._request.batch_size, block.pointer.size)

    def close(self) -> None:
        self._file.close()


class CFileColumnWriter:
    """Writes the one column of a table as a CFile."""

    def __init__(self, location: Location, schema: pa.Schema, options: WriterOptions) -> None:  # noqa: ARG002
        if len(schema) != 1:
            raise SchemaError("a CFile holds one column", found=len(schema), expected=1)
        field = schema.field(0)
        array = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
        try:
            self._writer = CFileWriter(
                location.path, field.type, nullable=field.nullable, array=array, filesystem=location.filesystem
            )
        except SchemaError as error:
            raise error.locate(column=field.name) from None
        self.estimated_size = 0
        self.close, self.abort = self._writer.close, self._writer.abort

    def write(self, batch: pa.RecordBatch) -> None:
        self.estimated_size += size_of(batch)
        self._writer.write(batch.column(0))
