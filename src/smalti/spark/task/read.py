"""Reading, in a task: the pieces of files that it was given become Arrow batches exactly as Spark wants them.

Only the columns asked for are read. A column that a file lacks becomes nulls, a column of a narrower type is widened,
and the values of partitions become columns. Row groups that statistics rule out are not read.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from smalti._compat.arrow import empty_table, relabelled, size_of
from smalti.errors import SchemaError
from smalti.file.reader import MosaicFile
from smalti.io import Source, locate
from smalti.io.locations import is_local
from smalti.io.sources import WrappedSource
from smalti.logical.adapt import Adapter, ConstantOf
from smalti.logical.mapping import SharedSchemas
from smalti.readahead import Budget
from smalti.sizes import SPARK_BATCH_BYTES
from smalti.spark.files import skip_unreadable, stored_columns
from smalti.spark.filters import SparkFilter, filter_tree, rename_in_filters, without_not_null
from smalti.spark.hidden import add_hidden, file_uri, row_index, stored_part
from smalti.spark.options import ReadOptions
from smalti.spark.types import convert_array, spelled_as
from smalti.table.listing import open_found
from smalti.table.partitions import constants_of
from smalti.table.reading import FileRead, read_pieces
from smalti.table.splits import Piece, rows_per_batch


@dataclass(frozen=True)
class OwnPiece(Piece):
    """A piece that knows how it is read, such as a split of a Paimon table."""

    def read(self, scan: TaskScan) -> Iterator[pa.RecordBatch]:
        """Batches of the columns that the scan reads. Rows that its filters rule out may be left out."""
        raise NotImplementedError


@dataclass
class Metrics:
    """What a task has read."""

    files: int = 0
    row_groups: int = 0
    #: Row groups that filters have ruled out.
    skipped: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def totals(self) -> tuple[int, ...]:
        """The figures that Spark shows, in the order of `jvm/SumMetric.java`."""
        return self.files, self.row_groups, self.skipped, self.bytes, int(self.seconds * 1000)


class CountingSource(WrappedSource):
    """A source that counts what is read."""

    def __init__(self, source: Source, metrics: Metrics) -> None:
        super().__init__(source)
        self._metrics = metrics

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._metrics.bytes += sum(size for _, size in ranges)
        return self._source.read_many(ranges)


@dataclass(frozen=True)
class TaskScan:
    """What all tasks of a scan have in common. It is sent to them pickled.

    Attributes
    ----------
    options : ReadOptions
    schema : pyarrow.Schema
        What batches look like.
    filters : tuple of SparkFilter
        Rows that they rule out are left out where that is cheap; Spark applies them again.
    limit : int, optional
        How many rows are enough.
    """

    options: ReadOptions
    schema: pa.Schema
    filters: Sequence[SparkFilter] = ()
    limit: int | None = None
    #: With a limit: the columns by which the first rows are the wanted ones, and for each whether it is ascending, and
    #: whether nulls come first.
    order: Sequence[tuple[str, bool, bool]] = ()
    #: Shared by all `OwnPiece`s of the table, such as the table itself.
    source: Any = None
    #: One row of the values that columns have in files which lack them; these are nulls for other columns.
    defaults: pa.RecordBatch | None = None
    #: The name of the hidden column, if it is asked for.
    hidden: str | None = None

    @cached_property
    def stored(self) -> pa.Schema:
        """What comes out of files."""
        return stored_part(self.schema, self.hidden)

    def read(self, split: bytes, metrics: Metrics) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The batches of a pickled split, each with the URI of the file that its rows are from."""
        batches = self.batches(pickle.loads(split), metrics)
        if self.order:
            yield from self._first(batches)
            return
        rows = 0
        for file, batch in batches:
            wanted = batch if self.limit is None else batch.slice(0, self.limit - rows)
            rows += wanted.num_rows
            yield file, wanted
            if rows == self.limit:
                return

    def _first(self, batches: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The first rows of each file, in the order that is asked for."""
        keys: list[tuple[str, Any]] = []
        for _, ascending, nulls_first in self.order:
            # Whether there is a value comes first, because Arrow puts nulls first or last for all columns alike.
            for is_ascending in (nulls_first, ascending):
                keys.append((str(len(keys)), "ascending" if is_ascending else "descending"))
        for file, group in groupby(batches, key=lambda pair: pair[0]):
            best = empty_table(self.schema)
            for _, batch in group:
                best = pa.concat_tables([best, pa.Table.from_batches([batch])])
                columns = [column for name, *_ in self.order for column in (best[name].is_valid(), best[name])]
                sorted_by = pa.table(columns, [key for key, _ in keys])
                best = best.take(pc.sort_indices(sorted_by, sort_keys=keys)[: self.limit])
            yield from ((file, batch) for batch in best.combine_chunks().to_batches())

    def batches(self, split: Sequence[Piece], metrics: Metrics) -> Iterator[tuple[str, pa.RecordBatch]]:
        """All batches of a split, each with the URI of its file."""
        started = time.monotonic()
        first = locate(self.options.paths[0], storage_options=self.options.storage)
        scheme = "file" if first.is_local else self.options.paths[0].partition(":")[0]
        try:
            for is_own, pieces in groupby(split, lambda piece: isinstance(piece, OwnPiece)):
                read = self._read_own if is_own else partial(self._read_files, first.filesystem)
                for piece, batch in read(list(pieces), metrics):
                    uri = file_uri(piece.file.name, scheme)
                    if self.hidden is not None:
                        batch = add_hidden(batch, self.schema, self.hidden, piece, uri)
                    metrics.seconds = time.monotonic() - started
                    yield uri, batch
        finally:
            metrics.seconds = time.monotonic() - started

    def _read_own(self, pieces: Sequence[Piece], _: Metrics) -> Iterator[tuple[Piece, pa.RecordBatch]]:
        for piece in pieces:
            assert isinstance(piece, OwnPiece)
            try:
                for batch in piece.read(self):
                    yield piece, batch
            except Exception as error:
                skip_unreadable(piece.file, error, self.options)

    def _read_files(
        self, filesystem: FileSystem, pieces: Sequence[Piece], metrics: Metrics
    ) -> Iterator[tuple[Piece, pa.RecordBatch]]:
        """The batches of pieces of Mosaic files, in rows that Spark handles well."""
        schemas, options = SharedSchemas(), self.options
        budget = Budget.choose(
            None,
            options.memory_limit,
            is_remote=not is_local(filesystem),
            unit_bytes=sum(piece.num_bytes for piece in pieces) // len(pieces),
            is_file=True,
        )

        def open_piece(piece: Piece) -> MosaicFile:
            source = CountingSource(open_found(piece.file, filesystem), metrics)
            return MosaicFile(source, schemas, memory_limit=options.memory_limit)

        def plan_piece(piece: Piece, file: MosaicFile) -> FileRead:
            return self._plan_piece(piece, file, metrics)

        def skip(piece: Piece, error: Exception) -> None:
            skip_unreadable(piece.file, error, options)

        for piece, batch in read_pieces(pieces, open_piece, plan_piece, budget, on_error=skip):
            # A batch without columns, as for `count()`, takes no memory and is passed on whole.
            has_columns = bool(len(self.stored))
            row_bytes = size_of(batch) // batch.num_rows
            fitting = rows_per_batch(row_bytes, SPARK_BATCH_BYTES) if has_columns else batch.num_rows
            rows = options.batch_size or fitting
            for start in range(0, batch.num_rows, rows):
                yield piece, batch.slice(start, rows)

    def _plan_piece(self, piece: Piece, file: MosaicFile, metrics: Metrics) -> FileRead:
        """What is read of a file: the columns that Spark asks for, and the row groups that filters do not rule out."""
        stored = stored_columns(file, piece.file, self.stored, case_sensitive=self.options.case_sensitive)
        filters = rename_in_filters(self.filters, stored.spelling)
        groups = kept = list(range(file.num_row_groups) if piece.row_groups is None else piece.row_groups)
        types = {column.name: column.type for column in stored.schema}
        tree = filter_tree(filters, types)
        if tree is not None:
            matching = set(file.matching_row_groups(tree))
            kept = [group for group in groups if group in matching]
        metrics.files += 1
        metrics.row_groups += len(kept)
        metrics.skipped += len(groups) - len(kept)
        constants = partial(self._constant_of, constants_of(piece.file.partition))
        convert = partial(to_spark, piece.file.path, case_sensitive=self.options.case_sensitive)
        # Row numbers are the first column of what is read, and the last of what is handed on.
        numbers = row_index(self.schema, self.hidden, file.columns)
        schema = self.stored if numbers is None else self.stored.append(numbers.field)
        names = stored.wanted if numbers is None else [numbers.name, *stored.wanted]
        adapter = Adapter(schema, names, constants, convert)
        wanted = filter_tree(without_not_null(filters), types)
        return FileRead(stored.paths, wanted, adapter.adapt, row_groups=kept, row_index=numbers)

    def _constant_of(self, partition_of: ConstantOf, field: pa.Field) -> pa.Scalar | None:
        """The value that a column has in all rows of a file which does not store it."""
        found = partition_of(field)
        has_default = found is None and self.defaults is not None and field.name in self.defaults.schema.names
        return self.defaults.column(field.name)[0] if has_default and self.defaults is not None else found


def to_spark(path: str, array: pa.Array, target: pa.Field, *, case_sensitive: bool = True) -> pa.Array:
    """An array of the file at `path`, in the type that Spark takes."""
    if not target.nullable and array.null_count:
        raise SchemaError("null in a column that must not be null", path=path, column=target.name)
    spelled = target.type if case_sensitive else spelled_as(target.type, array.type)
    try:
        converted: pa.Array = relabelled(convert_array(array, spelled), target.type)
        return converted
    except pa.ArrowInvalid as error:
        raise SchemaError("value is out of Spark's range", path=path, column=target.name, found=str(error)) from None
