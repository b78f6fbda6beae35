"""Reading, in a task: the pieces of files that it was given become Arrow batches exactly as Spark wants them.

Only the columns asked for are read. A column that a file lacks becomes nulls, a column of a narrower type is widened,
and the values of partitions become columns. Row groups that statistics rule out are not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import pyarrow as pa
from pyarrow.fs import FileSystem
from pyspark.sql.datasource import Filter

from smalti.errors import SchemaError
from smalti.file.reader import MosaicFile
from smalti.io import Source, locate
from smalti.io.sources import Span, WrappedSource
from smalti.spark.files import UNREADABLE, skip_unreadable, stored_columns, write_report
from smalti.spark.filters import filter_tree
from smalti.spark.options import ReadOptions
from smalti.spark.types import convert
from smalti.table.adapt import Adapter
from smalti.table.listing import open_found
from smalti.table.splits import Piece, rows_per_batch

_BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class OwnPiece(Piece):
    """A piece that knows how it is read, such as a split of a Paimon table."""

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Batches of `schema`."""
        raise NotImplementedError


@dataclass
class FileMetrics:
    """What a task has read of one file."""

    path: str
    columns: list[str]
    row_groups: list[int]
    skipped: int


@dataclass
class Metrics:
    """What a task has read."""

    files: list[FileMetrics] = field(default_factory=list)
    bytes_read: int = 0
    requests: int = 0
    rows: int = 0
    seconds: float = 0.0


class CountingSource(WrappedSource):
    """A source that counts what is read."""

    def __init__(self, source: Source, metrics: Metrics) -> None:
        super().__init__(source)
        self._metrics = metrics

    def read_at(self, offset: int, size: int) -> bytes:
        return self.read_many([(offset, size)])[0]

    def read_many(self, spans: Sequence[Span]) -> list[bytes]:
        self._metrics.bytes_read += sum(size for _, size in spans)
        self._metrics.requests += len(spans)
        return self._source.read_many(spans)


def read_split(
    split: Sequence[Piece], schema: pa.Schema, options: ReadOptions, filters: Sequence[Filter] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in batches of `schema`."""
    metrics = Metrics()
    started = time.monotonic()
    filesystem = locate(options.paths[0], storage=options.storage).filesystem
    for piece in split:
        if isinstance(piece, OwnPiece):
            for batch in piece.read(schema):
                metrics.rows += batch.num_rows
                yield batch
            continue
        try:
            for batch in _read_piece(piece, filesystem, schema, options, filters, metrics):
                metrics.rows += batch.num_rows
                yield batch
        except UNREADABLE as error:
            skip_unreadable(piece.file, error, options)
    metrics.seconds = time.monotonic() - started
    if options.metrics_path is not None:
        write_report(options.metrics_path, asdict(metrics), options)


def _read_piece(
    piece: Piece,
    filesystem: FileSystem,
    schema: pa.Schema,
    options: ReadOptions,
    filters: Sequence[Filter],
    metrics: Metrics,
) -> Iterator[pa.RecordBatch]:
    source = CountingSource(open_found(piece.file, filesystem), metrics)
    with MosaicFile(source, memory_limit=options.memory_limit) as file:
        stored = stored_columns(file, piece.file, schema)
        columns = stored.names
        groups = kept = list(range(file.num_row_groups) if piece.row_groups is None else piece.row_groups)
        tree = filter_tree(filters, {column.name: column.type for column in stored})
        if tree is not None:
            matching = set(file.matching_row_groups(tree))
            kept = [group for group in groups if group in matching]
        metrics.files.append(FileMetrics(piece.file.path, columns, kept, len(groups) - len(kept)))
        adapter = Adapter(schema, columns, piece.file.partition, partial(_to_spark, piece.file.path))
        for batch in file.iter_batches(columns=columns, row_groups=kept):
            # A batch without columns, as for `count()`, takes no memory and is passed on whole.
            fitting = rows_per_batch(batch.nbytes // batch.num_rows, _BATCH_BYTES) if len(schema) else batch.num_rows
            rows = options.batch_rows or fitting
            for start in range(0, batch.num_rows, rows):
                yield adapter.adapt(batch.slice(start, rows))


def _to_spark(path: str, array: pa.Array, target: pa.Field) -> pa.Array:
    """An array of the file at `path`, in the type that Spark takes."""
    if not target.nullable and array.null_count:
        raise SchemaError("null in a column that must not be null", path=path, column=target.name)
    try:
        return convert(array, target.type)
    except pa.ArrowInvalid as error:
        raise SchemaError("value is out of Spark's range", path=path, column=target.name, found=str(error)) from None
