"""Paimon tables in Spark: the driver plans by snapshot, tasks read splits or write files, the driver commits.

`SnapshotTable` stands where `driver.plan.Table` does for a plain directory. Commit messages of tasks travel to the
driver, which makes one snapshot of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from smalti.errors import MosaicError, SchemaError, UnsupportedFeatureError
from smalti.logical.adapt import Adapter
from smalti.options import WriterOptions
from smalti.paimon.dataset import PaimonDataset
from smalti.paimon.split_reader import SplitReader
from smalti.paimon.tables import PaimonTable, open_for_commit, open_table
from smalti.paimon.writing import Job, check_names, commit, discard, write_files
from smalti.predicate import Filter, normalize_filters
from smalti.spark.filters import SparkFilter, filter_tree
from smalti.spark.options import ReadOptions, WriteOptions
from smalti.spark.task.read import OwnPiece
from smalti.spark.types import convert, stored_schema
from smalti.table.listing import FoundFile
from smalti.table.splits import Piece, pack

# --- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitPiece(OwnPiece):
    """A split that pypaimon has planned, as a piece of work for a task; `file` is the first of its files."""

    split: Any = None
    table: PaimonTable | None = None
    memory_limit: int | None = None

    def read(self, schema: pa.Schema, filters: Sequence[SparkFilter]) -> Iterator[pa.RecordBatch]:
        """The rows of the split, in batches of `schema`, as Spark wants them; some that do not match are left out."""
        assert self.table is not None
        names = [name for name in schema.names if name in self.table.table.field_dict]
        output = self.table.schema_of(names)
        adapter = Adapter(schema, names, convert=partial(_to_spark, self.table.path))
        # That a column is not null, which Spark asks of every key of a join, is hardly ever worth a look at rows.
        wanted = as_filter(output, [each for each in filters if each[0] != "IsNotNull"])
        for batch in SplitReader(self.table, output, wanted, memory_limit=self.memory_limit).batches([self.split]):
            yield adapter.adapt(batch)


def _to_spark(path: str, array: pa.Array, target: pa.Field) -> pa.Array:
    try:
        return convert(array, target.type)
    except pa.ArrowInvalid as error:
        raise SchemaError("value is out of Spark's range", path=path, column=target.name, found=str(error)) from None


class SnapshotTable:
    """A Paimon table as of the snapshot that read options name; by default the newest when this object is made."""

    def __init__(self, options: ReadOptions) -> None:
        if len(options.paths) != 1:
            raise MosaicError("a Paimon table is read by itself", found=f"{len(options.paths)} paths")
        self.options = options
        (path,) = options.paths
        travel = {"snapshot": options.snapshot_id, "tag": options.tag_name, "timestamp": options.timestamp}
        self.table = open_table(path, options.storage, **travel)  # type: ignore[arg-type]
        self._dataset = PaimonDataset(self.table)

    @property
    def files(self) -> list[FoundFile]:
        """The data files of the snapshot."""
        return [found_file(file) for split in self._dataset.splits() for file in split.files]

    def schema(self) -> pa.Schema:
        """The columns of the table, or those that the option `columns` names."""
        return self.table.schema_of(self.options.columns)

    def partitions(self) -> pa.Schema:
        """The partition columns."""
        return self.table.schema_of(self.table.table.partition_keys)

    def partition_values(self, schema: pa.Schema) -> list[list[object]]:
        """Spark's catalog does not manage the partitions of a Paimon table."""
        raise UnsupportedFeatureError("partitions of a Paimon table are Paimon's to show", found=schema.names)

    def filterable(self) -> set[str]:
        """The columns by which values that a join has found may rule out files."""
        return set(self.partitions().names)

    def learn(self, most: int | None = None) -> None:
        """Nothing: what Paimon's manifests tell is used in `splits`."""

    @property
    def num_row_groups(self) -> None:
        """Not known without opening files."""

    def by_row_group(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        return pieces

    def summarize(self, pieces: Sequence[Piece]) -> dict[str, int]:
        """Splits, and bytes of their files."""
        return {"files": len(pieces), "bytes": sum(piece.num_bytes for piece in pieces)}

    def aggregate(self, schema: pa.Schema, functions: Sequence[Sequence[str]], groups: Sequence[str] = ()) -> None:
        """Nothing: rows of a Paimon table may replace each other, so they are read."""

    def decides(self, schema: pa.Schema, filters: Sequence[Any]) -> list[bool]:  # noqa: ARG002
        """None: Spark applies all filters again."""
        return [False] * len(filters)

    def narrow(self, schema: pa.Schema, filters: Sequence[Any]) -> None:
        """Never asked for, because `decides` promises nothing."""

    def statistics(self, schema: pa.Schema, pieces: Sequence[Piece]) -> dict[str, dict[str, object]]:  # noqa: ARG002
        """None, because rows may replace each other."""
        return {}

    def splits(
        self,
        schema: pa.Schema,
        filters: Sequence[Any] = (),
        limit: int | None = None,
    ) -> list[tuple[Piece, ...]]:
        """What each task reads. Partitions, buckets and files that cannot match are left out.

        With a limit, splits after those that have so many rows are left out, if it is known how many they have.
        """
        for name in schema.names:
            if name not in self.table.table.field_dict:
                raise SchemaError("no such column in the table", path=self.table.path, found=name)
        planned = self._dataset.splits(as_filter(self.table.schema_of(schema.names), filters))
        if limit is not None:
            before = accumulate((split.merged_row_count() or 0 for split in planned), initial=0)
            planned = [split for split, rows in zip(planned, before, strict=False) if rows < limit]
        return self.tasks(planned)

    def tasks(self, planned: Sequence[Any]) -> list[tuple[Piece, ...]]:
        """Splits that pypaimon has planned, shared out among tasks."""
        pieces = []
        for split in planned:
            size = sum(file.file_size for file in split.files)
            pieces.append(
                SplitPiece(
                    found_file(split.files[0]),
                    size,
                    split=split,
                    table=self.table,
                    memory_limit=self.options.memory_limit,
                )
            )
        sizes = [piece.num_bytes + self.options.open_cost_bytes for piece in pieces]
        groups = pack(sizes, self.options.max_partition_bytes)
        return [tuple(pieces[index] for index in group) for group in groups]


def as_filter(types: pa.Schema, filters: Sequence[Any]) -> Filter | None:
    """The part of Spark's filters that the columns of a table decide; None if there is none."""
    tree = filter_tree(filters, {field.name: field.type for field in types})
    return None if tree is None else normalize_filters(tree)


def found_file(file: Any) -> FoundFile:
    return FoundFile(str(file.physical_path()), file.file_size)


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass
class Prepared(WriterCommitMessage):
    """What one attempt of a task has written: pypaimon's messages, pickled."""

    messages: bytes


class PaimonBatchWriter(DataSourceArrowWriter):
    """One `df.write...save()` to a Paimon table. It travels to the tasks, and to the process that commits or aborts."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._path, self._storage = options.path, options.storage
        self._schema = stored_schema(schema, options.time_columns)
        # Spark's modes mean what they mean for other tables: overwriting replaces all rows, unless it is dynamic.
        dynamic = options.partition_overwrite_mode == "dynamic" if overwrite else None
        replaced = {name: str(value) for name, value in options.replaced_partition.items()} if overwrite else None
        self._job = Job(replaced, dynamic)
        if options.batch is not None:
            raise UnsupportedFeatureError(
                "streams are not written to Paimon tables, because a batch that is repeated would be there twice",
                path=self._path,
            )
        if overwrite and None in options.replaced_partition.values():
            raise UnsupportedFeatureError("the partition of nulls is not overwritten by itself", path=self._path)
        table = open_table(self._path, self._storage).table
        if options.writer != WriterOptions():
            raise MosaicError(
                "how the files of a Paimon table are written is said by options of the table, such as "
                "mosaic.stats-columns, mosaic.num-buckets and file.block-size",
                path=self._path,
            )
        if options.partition_by and list(options.partition_by) != list(table.partition_keys):
            raise SchemaError(
                "the table is partitioned in another way",
                path=self._path,
                found=list(options.partition_by),
                expected=list(table.partition_keys),
            )
        # Refuse columns that the table does not have before a task starts.
        check_names(table, self._schema.names)
        self._one_task = table.bucket_mode().name == "HASH_DYNAMIC"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the rows of one task."""
        table = open_for_commit(self._path, self._storage).table
        adapter = Adapter(self._schema, self._schema.names, convert=_to_stored)
        batches = (adapter.adapt(batch) for batch in iterator if batch.num_rows)
        return Prepared(pickle.dumps(write_files(batches, table, self._job)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        table = open_for_commit(self._path, self._storage).table
        prepared = [pickle.loads(message.messages) for message in messages if isinstance(message, Prepared)]
        if self._one_task and sum(bool(part) for part in prepared) > 1:
            self.abort(messages)
            raise UnsupportedFeatureError(
                "each task would assign buckets of its own to the same keys: write to a table with dynamic buckets "
                "from one task (df.coalesce(1)), or give the table a fixed number of buckets",
                path=self._path,
                found=f"{sum(bool(part) for part in prepared)} tasks",
            )
        commit(table, self._job, [message for part in prepared for message in part])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        prepared = [pickle.loads(message.messages) for message in messages if isinstance(message, Prepared)]
        table = open_for_commit(self._path, self._storage).table
        discard(table, self._job, [message for part in prepared for message in part])


def _to_stored(array: pa.Array, target: pa.Field) -> pa.Array:
    try:
        return convert(array, target.type)
    except pa.ArrowInvalid as error:
        raise SchemaError("value cannot be stored", column=target.name, found=str(error)) from None
