"""Paimon tables written in Spark: tasks write files, and the driver makes one snapshot of what they answer."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from smalti.errors import MosaicError, SchemaError, UnsupportedFeatureError
from smalti.logical.adapt import Adapter
from smalti.paimon.tables import open_for_commit, open_table
from smalti.paimon.writing import Job, check_names, commit, discard, write_files
from smalti.spark.driver.write import Partition, SaveMode
from smalti.spark.options import WriteOptions, asked
from smalti.spark.task.write import to_stored
from smalti.spark.types import stored_schema


class PaimonWrite:
    """One `df.write...save()` to a Paimon table; see `DirectoryWrite`. It is the plan of its tasks, too."""

    order: Sequence[str] = ()

    def __init__(
        self, options: WriteOptions, rows: StructType, mode: SaveMode, partition: Partition, *, streams: bool
    ) -> None:
        path = options.path
        overwrite = mode == "overwrite"
        # Spark's modes mean what they mean for other tables: overwriting replaces all rows, unless it is dynamic.
        dynamic = options.partition_overwrite_mode == "dynamic" if overwrite else None
        replaced = {name: str(value) for name, value in partition.items()} if overwrite else None
        self._path, self._storage = path, options.storage
        self._schema, self._job = stored_schema(rows), Job(replaced, dynamic)
        if streams:
            raise UnsupportedFeatureError(
                "streams are not written to Paimon tables, because a batch that Spark repeats would be written twice",
                path=path,
            )
        if overwrite and None in partition.values():
            raise UnsupportedFeatureError("the partition of nulls is not overwritten by itself", path=path)
        table = open_table(path, options.storage).table
        if refused := [*asked(options.writer), *asked(options, ("keep", "max_file_bytes", "success_file"))]:
            raise MosaicError(
                f"{', '.join(refused)}: table options control how a Paimon table's files are written and kept, such as "
                "mosaic.stats-columns, mosaic.num-buckets, file.block-size and snapshot.time-retained",
                path=path,
            )
        if options.partition_by and list(options.partition_by) != list(table.partition_keys):
            raise SchemaError(
                "the table is partitioned in another way",
                path=path,
                found=list(options.partition_by),
                expected=list(table.partition_keys),
            )
        # Refuse columns that the table does not have before a task starts.
        check_names(table, self._schema.names)
        self._one_task = table.bucket_mode().name == "HASH_DYNAMIC"

    @property
    def plan(self) -> PaimonWrite:
        return self

    def _open(self) -> Any:
        return open_for_commit(self._path, self._storage).table

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> bytes:  # noqa: ARG002
        """Write the rows of a task, and return the messages of pypaimon, pickled."""
        adapter = Adapter(self._schema, self._schema.names, convert=to_stored)
        adapted = (adapter.adapt(batch) for batch in batches if batch.num_rows)
        return pickle.dumps(write_files(adapted, self._open(), self._job))

    def commit(self, messages: Sequence[bytes], batch: int | None = None) -> None:  # noqa: ARG002
        written = [part for part in map(pickle.loads, messages) if part]
        if self._one_task and len(written) > 1:
            self.abort(messages)
            raise UnsupportedFeatureError(
                "each task would assign buckets of its own to the same keys: write to a table with dynamic buckets "
                "from one task (df.coalesce(1)), or give the table a fixed number of buckets",
                path=self._path,
                found=f"{len(written)} tasks",
            )
        commit(self._open(), self._job, [message for part in written for message in part])

    def abort(self, messages: Sequence[bytes]) -> None:
        staged = [message for part in map(pickle.loads, messages) for message in part]
        discard(self._open(), self._job, staged)
