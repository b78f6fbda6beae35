"""Readers of formats with row groups, stripes or record batches: Parquet, ORC, Arrow IPC, Mosaic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

import smalti
from smalti.errors import MosaicError
from smalti.io.places import Place
from smalti.jobs.formats.reading import ReadRequest, check_columns, pick, rows_for, slices


class ParquetReader:
    """Parquet, a row group at a time, in batches sized by what a row weighs."""

    def __init__(self, place: Place, request: ReadRequest) -> None:
        import pyarrow.parquet as pq

        self._request = request
        self._stream = place.filesystem.open_input_file(place.path)
        try:
            self._file = pq.ParquetFile(self._stream, pre_buffer=False)
            self.schema = pick(self._file.schema_arrow, request.columns)
        except BaseException:
            self._stream.close()
            raise

    def group_bytes(self) -> tuple[int, ...]:
        return _share(self._stream.size(), self._weights())

    def _weights(self) -> list[int]:
        metadata = self._file.metadata
        return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        sizes = self.group_bytes()
        request, metadata = self._request, self._file.metadata
        for group in _chosen(request.row_groups, metadata.num_row_groups):
            facts = metadata.row_group(group)
            if facts.num_rows == 0:
                continue
            share = len(self.schema) / max(1, metadata.num_columns)
            rows = rows_for(int(facts.total_byte_size * share), facts.num_rows, request.batch_rows)
            columns = list(request.columns) if request.columns is not None else None
            for batch in self._file.iter_batches(
                batch_size=rows, row_groups=[group], columns=columns, use_threads=request.threads
            ):
                used = sizes[group] * batch.num_rows // facts.num_rows
                yield batch if columns is None else batch.select(columns), used

    def close(self) -> None:
        self._file.close()
        self._stream.close()


class OrcReader:
    """ORC, a stripe at a time."""

    def __init__(self, place: Place, request: ReadRequest) -> None:
        from pyarrow import orc

        self._request = request
        self._stream = place.filesystem.open_input_file(place.path)
        try:
            self._file = orc.ORCFile(self._stream)
            self.schema = pick(self._file.schema, request.columns)
        except BaseException:
            self._stream.close()
            raise

    def group_bytes(self) -> tuple[int, ...]:
        return _share(self._stream.size(), [1] * self._file.nstripes)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        columns = list(self._request.columns) if self._request.columns is not None else None
        sizes = self.group_bytes()
        for stripe in _chosen(self._request.row_groups, self._file.nstripes):
            batch = self._file.read_stripe(stripe, columns=columns)
            if batch.num_rows:
                yield from slices(
                    batch if columns is None else batch.select(columns), self._request.batch_rows, sizes[stripe]
                )

    def close(self) -> None:
        self._stream.close()


class ArrowFileReader:
    """Arrow IPC in the file format (also Feather 2), a record batch at a time."""

    def __init__(self, place: Place, request: ReadRequest) -> None:
        self._request = request
        self._stream = place.filesystem.open_input_file(place.path)
        try:
            full = pa.ipc.open_file(self._stream).schema
            self.schema = pick(full, request.columns)
            chosen = [full.names.index(name) for name in request.columns] if request.columns is not None else None
            options = pa.ipc.IpcReadOptions(included_fields=chosen, use_threads=request.threads)
            self._file = pa.ipc.open_file(self._stream, options=options)
        except BaseException:
            self._stream.close()
            raise

    def group_bytes(self) -> tuple[int, ...]:
        return _share(self._stream.size(), [1] * self._file.num_record_batches)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        sizes = self.group_bytes()
        for index in _chosen(self._request.row_groups, self._file.num_record_batches):
            batch = self._file.get_batch(index)
            batch.validate(full=True)  # Arrow reads buffers as they are; a bad offset must not reach a kernel
            if batch.num_rows:
                batch = batch.select(self.schema.names)
                yield from slices(batch, self._request.batch_rows, sizes[index])

    def close(self) -> None:
        self._stream.close()


class ArrowStreamReader:
    """Arrow IPC in the stream format, which can only be read from its start."""

    def __init__(self, place: Place, request: ReadRequest) -> None:
        _refuse_groups(request)
        self._request = request
        self._stream = place.filesystem.open_input_stream(place.path, compression="detect")
        try:
            self._file = pa.ipc.open_stream(self._stream)
            self.schema = pick(self._file.schema, request.columns)
        except BaseException:
            self._stream.close()
            raise

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch in self._file:
            batch.validate(full=True)
            if batch.num_rows:
                yield from slices(batch.select(self.schema.names), self._request.batch_rows, batch.nbytes)

    def close(self) -> None:
        self._stream.close()


def open_arrow(place: Place, request: ReadRequest) -> ArrowFileReader | ArrowStreamReader:
    """The two formats share suffixes; the file format says so in its first bytes."""
    with place.filesystem.open_input_stream(place.path, compression=None) as stream:
        is_file = stream.read(6) == b"ARROW1"
    return ArrowFileReader(place, request) if is_file else ArrowStreamReader(place, request)


class MosaicReader:
    """Mosaic, a row group at a time."""

    def __init__(self, place: Place, request: ReadRequest) -> None:
        self._request = request
        self._file = smalti.open(place.path, filesystem=place.filesystem)
        try:
            check_columns(request.columns, self._file.column_names if request.columns is not None else ())
            self.schema = pick(self._file.schema, request.columns)
        except BaseException:
            self._file.close()
            raise

    def group_bytes(self) -> tuple[int, ...]:
        return tuple(self._file.row_group(group).num_bytes for group in range(self._file.num_row_groups))

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        sizes = self.group_bytes()
        columns = self._request.columns
        for group in _chosen(self._request.row_groups, self._file.num_row_groups):
            rows = self._file.row_group(group).num_rows
            for batch in self._file.iter_batches(self._request.batch_rows, columns, row_groups=[group]):
                yield batch, sizes[group] * batch.num_rows // rows

    def close(self) -> None:
        self._file.close()


def group_bytes(place: Place, opener: Any) -> tuple[int, ...]:
    """Bytes of each row group of a file, for planning; empty if its format has none."""
    reader = opener(place, ReadRequest())
    try:
        return reader.group_bytes() if hasattr(reader, "group_bytes") else ()
    finally:
        reader.close()


def _chosen(row_groups: tuple[int, ...] | None, count: int) -> Sequence[int]:
    if row_groups is None:
        return range(count)
    if any(group >= count for group in row_groups):
        raise MosaicError("file changed since the job was planned: it has fewer row groups", found=count)
    return row_groups


def _refuse_groups(request: ReadRequest) -> None:
    if request.row_groups is not None:
        raise MosaicError("this format has no row groups", found=request.row_groups)


def _share(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """`total` spread by weight."""
    whole = math.fsum(weights) or 1
    return tuple(int(total * weight / whole) for weight in weights)
