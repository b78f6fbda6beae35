"""Readers of formats with row groups, stripes or record batches: Parquet, ORC, Arrow IPC, Mosaic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
from pyarrow import NativeFile

import smalti
from smalti._compat.arrow import extends_dictionaries, size_of
from smalti.errors import MosaicError
from smalti.io.locations import Location
from smalti.jobs.formats.request import (
    ReadRequest,
    refuse_missing,
    refuse_row_groups,
    select_fields,
    split_batch,
)
from smalti.sizes import BATCH_BYTES
from smalti.table.splits import rows_per_batch


class GroupedReader:
    """What these readers have in common: an open file, and groups of rows that are read one by one.

    A group is a row group of Parquet or Mosaic, a stripe of ORC or a record batch of Arrow IPC.
    """

    _stream: NativeFile

    def __init__(self, location: Location, request: ReadRequest) -> None:
        self._request = request
        self._columns = None if request.columns is None else list(request.columns)
        with ExitStack() as opened:
            self.schema = select_fields(self._open(location, opened), request.columns)
            self.close = opened.pop_all().close

    def _open(self, location: Location, opened: ExitStack) -> pa.Schema:
        """Open the file, put what has to be closed into `opened`, and return the whole schema."""
        raise NotImplementedError

    def _weights(self) -> list[int]:
        """One number for each group; the bytes of the file are shared out among the groups by these."""
        raise NotImplementedError

    def _read_group(self, group: int, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        raise NotImplementedError

    def group_bytes(self) -> tuple[int, ...]:
        """Bytes of each group, for planning; empty if groups cannot be read one by one."""
        size, weights = self._stream.size(), self._weights()
        whole = math.fsum(weights) or 1
        return tuple(int(size * weight / whole) for weight in weights)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        sizes = self.group_bytes()
        groups = range(len(sizes)) if self._request.row_groups is None else self._request.row_groups
        if any(group >= len(sizes) for group in groups):
            raise MosaicError("file changed since the job was planned: it has fewer row groups", found=len(sizes))
        for group in groups:
            yield from self._read_group(group, sizes[group])

    def _in_pieces(self, batch: pa.RecordBatch, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The columns asked for of a batch, in pieces of the size asked for."""
        selected = batch if self._columns is None else batch.select(self._columns)
        return split_batch(selected, self._request.batch_size, num_bytes)


class ParquetReader(GroupedReader):
    """Parquet, in batches whose number of rows follows from the size of a row."""

    def _open(self, location: Location, opened: ExitStack) -> pa.Schema:
        import pyarrow.parquet as pq

        self._stream = opened.enter_context(location.filesystem.open_input_file(location.path))
        self._file = opened.enter_context(pq.ParquetFile(self._stream, pre_buffer=False))
        return self._file.schema_arrow

    def _weights(self) -> list[int]:
        metadata = self._file.metadata
        return [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]

    def _read_group(self, group: int, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        facts = self._file.metadata.row_group(group)
        if facts.num_rows == 0:
            return
        row_bytes = facts.total_byte_size / facts.num_rows * len(self.schema) / max(1, facts.num_columns)
        rows = self._request.batch_size or rows_per_batch(row_bytes, BATCH_BYTES, least=1, most=1 << 20)
        threads = self._request.threads
        if any(extends_dictionaries(field.type) for field in self.schema):
            table = self._file.read_row_group(group, columns=self._columns, use_threads=threads)
            batches: Iterator[pa.RecordBatch] = iter(table.to_batches(max_chunksize=rows))
        else:
            batches = self._file.iter_batches(
                batch_size=rows, row_groups=[group], columns=self._columns, use_threads=threads
            )
        for batch in batches:
            yield from self._in_pieces(batch, num_bytes * batch.num_rows // facts.num_rows)


class OrcReader(GroupedReader):
    """ORC, a stripe at a time."""

    def _open(self, location: Location, opened: ExitStack) -> pa.Schema:
        from pyarrow import orc

        self._stream = opened.enter_context(location.filesystem.open_input_file(location.path))
        self._file = orc.ORCFile(self._stream)
        return self._file.schema

    def _weights(self) -> list[int]:
        return [1] * self._file.nstripes

    def _read_group(self, group: int, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        return self._in_pieces(self._file.read_stripe(group, columns=self._columns), num_bytes)


class ArrowFileReader(GroupedReader):
    """Arrow IPC in the file format (also Feather 2), a record batch at a time."""

    def _open(self, location: Location, opened: ExitStack) -> pa.Schema:
        self._stream = opened.enter_context(location.filesystem.open_input_file(location.path))
        schema = pa.ipc.open_file(self._stream).schema
        refuse_missing(self._columns, schema.names)
        included = None if self._columns is None else [schema.get_field_index(name) for name in self._columns]
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=self._request.threads)
        self._file = pa.ipc.open_file(self._stream, options=options)
        return schema

    def _weights(self) -> list[int]:
        return [1] * self._file.num_record_batches

    def _read_group(self, group: int, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        return self._in_pieces(_validated(self._file.get_batch(group)), num_bytes)


class ArrowStreamReader(GroupedReader):
    """Arrow IPC in the stream format, which can only be read from its start to its end."""

    def _open(self, location: Location, opened: ExitStack) -> pa.Schema:
        refuse_row_groups(self._request)
        stream = opened.enter_context(location.filesystem.open_input_stream(location.path, compression="detect"))
        self._file = pa.ipc.open_stream(stream)
        return self._file.schema

    def group_bytes(self) -> tuple[int, ...]:
        return ()

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch in self._file:
            yield from self._in_pieces(_validated(batch), size_of(batch))


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Check the buffers of a batch, which Arrow IPC takes as they are: a wrong offset must not reach a kernel."""
    batch.validate(full=True)
    return batch


def open_arrow(location: Location, request: ReadRequest) -> ArrowFileReader | ArrowStreamReader:
    """Open either of the two formats, which share suffixes: the file format says so in its first bytes."""
    with location.filesystem.open_input_stream(location.path, compression=None) as stream:
        is_file = stream.read(6) == b"ARROW1"
    return ArrowFileReader(location, request) if is_file else ArrowStreamReader(location, request)


class MosaicFileReader(GroupedReader):
    """Mosaic, a row group at a time."""

    def _open(self, location: Location, opened: ExitStack) -> pa.Schema:
        self._file = opened.enter_context(smalti.open(location.path, filesystem=location.filesystem))
        return self._file.schema

    @property
    def file(self) -> smalti.MosaicFile:
        """The file, for jobs that copy its row groups."""
        return self._file

    def group_bytes(self) -> tuple[int, ...]:
        return tuple(self._file.row_group(group).num_bytes for group in range(self._file.num_row_groups))

    def statistics(self) -> list[str]:
        """The stored columns that have statistics, of which the first row group tells."""
        return list(self._file.row_group(0).statistics) if self._file.num_row_groups else []

    def _read_group(self, group: int, num_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        rows = self._file.row_group(group).num_rows
        for batch in self._file.iter_batches(self._request.batch_size, self._columns, row_groups=[group]):
            yield batch, num_bytes * batch.num_rows // rows
