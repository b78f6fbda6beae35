"""Executor side: a split to Arrow batches exactly as Spark wants them.

Only the columns asked for are read; what a file lacks becomes nulls, what it stores narrower is widened, what its
directories say becomes a column. Row groups that statistics rule out are not read.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter

from smalti.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from smalti.file.columnless import columnless_batch
from smalti.file.reader import MosaicFile
from smalti.io import Source, locate, write_whole
from smalti.spark.filters import filter_tree
from smalti.spark.options import ReadOptions
from smalti.spark.types import convert, fits
from smalti.table.listing import FoundFile, open_found
from smalti.table.partitions import partition_array
from smalti.table.splits import Piece, rows_per_batch

_BATCH_BYTES = 16 << 20
#: What is wrong with a file that can be skipped. One that is gone or replaced is not: the table has changed.
UNREADABLE = (CorruptFileError, UnsupportedFeatureError)
_log = logging.getLogger(__name__)


@dataclass
class Metrics:
    """What one task touched."""

    files: list[dict[str, Any]] = field(default_factory=list)
    bytes_read: int = 0
    requests: int = 0
    rows: int = 0
    seconds: float = 0.0


class CountingSource:
    """Passes reads on, and counts them."""

    def __init__(self, source: Source, metrics: Metrics) -> None:
        self._source = source
        self._metrics = metrics
        self.name = source.name
        self.size = source.size
        self.tail_size = source.tail_size
        self.max_gap = source.max_gap
        self.is_remote = source.is_remote

    def read_at(self, offset: int, size: int) -> bytes:
        self._metrics.bytes_read += size
        self._metrics.requests += 1
        return self._source.read_at(offset, size)

    def close(self) -> None:
        self._source.close()


def read_split(
    split: Sequence[Piece], schema: pa.Schema, options: ReadOptions, filters: Sequence[Filter] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in batches of `schema`."""
    metrics = Metrics()
    started = time.monotonic()
    for piece in split:
        try:
            for batch in _read_piece(piece, schema, options, filters, metrics):
                metrics.rows += batch.num_rows
                yield batch
        except UNREADABLE as error:
            if not options.ignore_corrupt_files:
                raise
            report_bad_file(piece.file.path, error, options)
    metrics.seconds = time.monotonic() - started
    if options.metrics_path is not None:
        _leave(options.metrics_path, {**metrics.__dict__}, options)


def open_table_file(file: FoundFile, filesystem: Any, metrics: Metrics | None = None) -> MosaicFile:
    """Open a file, counting what is read if that is wanted."""
    source = open_found(file, filesystem)
    return MosaicFile(source if metrics is None else CountingSource(source, metrics))


def _read_piece(
    piece: Piece, schema: pa.Schema, options: ReadOptions, filters: Sequence[Filter], metrics: Metrics
) -> Iterator[pa.RecordBatch]:
    with open_table_file(piece.file, locate(options.paths[0], storage=options.storage).filesystem, metrics) as file:
        adapter = Adapter(file, piece.file, schema)
        groups = list(range(file.num_row_groups) if piece.row_groups is None else piece.row_groups)
        kept = _matching_groups(file, groups, filters, adapter.stored)
        metrics.files.append(
            {
                "path": piece.file.path,
                "columns": adapter.columns,
                "row_groups": kept,
                "skipped": len(groups) - len(kept),
            }
        )
        if not len(schema):
            yield from _count(file, kept, options)
            return
        for batch in file.iter_batches(columns=adapter.columns, row_groups=kept):
            rows = options.batch_rows or rows_per_batch(batch.nbytes // batch.num_rows, _BATCH_BYTES)
            for start in range(0, batch.num_rows, rows):
                yield adapter.adapt(batch.slice(start, rows))


def _matching_groups(
    file: MosaicFile, groups: list[int], filters: Sequence[Filter], stored: dict[str, pa.DataType]
) -> list[int]:
    tree = filter_tree(filters, stored)
    if tree is None:
        return groups
    matching = set(file.matching_row_groups(tree))
    return [group for group in groups if group in matching]


def _count(file: MosaicFile, groups: list[int], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Rows without columns: nothing but the index is read."""
    step = options.batch_rows or (1 << 20)
    total = sum(file.row_group(group).num_rows for group in groups)
    for start in range(0, total, step):
        yield columnless_batch(min(step, total - start))


class Adapter:
    """Brings batches of one file to the schema Spark asked for.

    Parameters
    ----------
    file : MosaicFile
    entry : FoundFile
        Where it is, and the values of its partition.
    schema : pyarrow.Schema
        As Spark takes it.
    """

    def __init__(self, file: MosaicFile, entry: FoundFile, schema: pa.Schema) -> None:
        self._schema = schema
        self._targets = list(schema)
        self._partition = entry.partition
        wanted = [name for name in schema.names if name not in entry.partition]
        found = zip(wanted, file.find_columns(wanted), strict=True)
        self.columns = [name for name, position in found if position is not None]
        self.stored = {field.name: field.type for field in file.schema_of(self.columns)}
        self._sources = {name: place for place, name in enumerate(self.columns)}
        for name, type_ in self.stored.items():
            target = schema.field(name).type
            if not fits(type_, target):
                raise SchemaError(
                    "column does not fit the schema asked for",
                    path=entry.path,
                    column=name,
                    found=str(type_),
                    expected=str(target),
                )
        known = {*self.columns, *entry.partition}
        missing = [target.name for target in self._targets if not target.nullable and target.name not in known]
        if missing:
            raise SchemaError("a column that must not be null is not in the file", path=entry.path, column=missing[0])
        self._path = entry.path

    def adapt(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of `columns` as one of the schema."""
        arrays = []
        for target in self._targets:
            place = self._sources.get(target.name)
            if place is not None:
                arrays.append(self._converted(batch.column(place), target))
            elif target.name in self._partition:
                arrays.append(partition_array(self._partition, target, batch.num_rows))
            else:
                arrays.append(pa.nulls(batch.num_rows, target.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _converted(self, array: pa.Array, target: pa.Field) -> pa.Array:
        if not target.nullable and array.null_count:
            raise SchemaError("null in a column that must not be null", path=self._path, column=target.name)
        try:
            return convert(array, target.type)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                "value is out of Spark's range", path=self._path, column=target.name, found=str(error)
            ) from None


def report_bad_file(path: str, error: Exception, options: ReadOptions) -> None:
    """List a file that was skipped."""
    _log.warning("skipping %s: %s", path, error)
    if options.bad_files_path is not None:
        _leave(options.bad_files_path, {"path": path, "reason": str(error)}, options)


def _leave(directory: str, report: dict[str, Any], options: ReadOptions) -> None:
    place = locate(directory, storage=options.storage).child(f"{uuid.uuid4().hex}.json")
    write_whole(place, json.dumps(report).encode())
