"""Kudu's CFile among the formats: one column, named after its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.io.places import Place
from smalti.jobs.formats.reading import ReadRequest, select_fields, split_batch
from smalti.kudu import CFileReader, CFileWriter
from smalti.options import WriterOptions


class CFileColumnReader:
    """A CFile as a table of one column, a block at a time."""

    def __init__(self, place: Place, request: ReadRequest) -> None:
        self._request = request
        self._stream = place.filesystem.open_input_file(place.path)
        try:
            self._file = CFileReader(self._stream)
            column = pa.field(PurePosixPath(place.path).stem, self._file.arrow_type, self._file.metadata.nullable)
            self._full = pa.schema([column])
            self.schema = select_fields(self._full, request.columns)
        except BaseException:
            self._stream.close()
            raise

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        total, rows = self._stream.size(), max(1, self._file.num_values)
        for array in self._file.iter_arrays():
            if len(array):
                batch = pa.RecordBatch.from_arrays([array.cast(self._full.field(0).type)], schema=self._full)
                part = total * len(array) // rows
                yield from split_batch(batch.select(self.schema.names), self._request.batch_rows, part)

    def close(self) -> None:
        self._file.close()
        self._stream.close()


class CFileColumnWriter:
    """The one column of a table as a CFile."""

    def __init__(self, place: Place, schema: pa.Schema, options: WriterOptions) -> None:  # noqa: ARG002
        if len(schema) != 1:
            raise SchemaError("a CFile holds one column", found=len(schema), expected=1)
        field = schema.field(0)
        self._place = place
        self._bytes = 0
        array = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
        self._stream = place.filesystem.open_output_stream(place.path)
        try:
            self._writer = CFileWriter(self._stream, field.type, nullable=field.nullable, array=array)
        except SchemaError as error:
            self._stream.close()
            raise error.locate(column=field.name) from None

    def write(self, batch: pa.RecordBatch) -> None:
        self._bytes += batch.nbytes
        self._writer.write(batch.column(0))

    @property
    def estimated_size(self) -> int:
        return self._bytes

    def close(self) -> int:
        self._writer.close()
        self._stream.close()
        return int(self._place.info().size)

    def abort(self) -> None:
        self._writer.abort()
        self._stream.close()
