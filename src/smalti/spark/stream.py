"""Streaming: each new file of a directory becomes rows once, and each batch of a query becomes files once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from smalti.errors import MosaicError
from smalti.spark.driver.offsets import Offset, added, advance, first_offset
from smalti.spark.driver.plan import Table
from smalti.spark.names import skip_name_check
from smalti.spark.options import ReadOptions, WriteOptions
from smalti.spark.task.read import read_split
from smalti.spark.task.write import StreamCommits, staged_files
from smalti.spark.types import arrow_schema


class MosaicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads files as they appear. An offset says which files have been read; see `smalti.spark.driver.offsets`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        #: With Trigger.AvailableNow: the files that there were at the start, and their times.
        self._listed: dict[str, int] | None = None
        skip_name_check(schema)

    def initialOffset(self) -> Offset:
        return first_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_files_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._listed = self._times()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        listed = self._times() if self._listed is None else self._listed
        return advance(start, listed, limit.max_files if isinstance(limit, ReadMaxFiles) else None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        names = added(start, end)
        if not names:
            return []
        table = Table(self._options, may_be_empty=True, may_be_missing=True)
        files = {file.name: file for file in table.files}
        gone = [name for name in names if name not in files]
        if gone:
            raise MosaicError("files of a batch have gone before they were read", path=gone[0], found=len(gone))
        splits = table.splits(self._schema, files=[files[name] for name in names])
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition.value, self._schema, self._options)

    def _times(self) -> dict[str, int]:
        """When each file was modified, by the name that it keeps once its commit is carried out."""
        return {file.name: file.modified for file in Table(self._options, may_be_empty=True, may_be_missing=True).files}


class MosaicStreamWriter(StreamCommits, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Commits every batch of a stream, where Spark calls the Python source itself.

    Spark passes over `writeStream.partitionBy` where a Python source writes, and tells nobody. So without the provider
    the partitions have to be said in a way that arrives.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if not options.is_planned and not options.says_partitions:
            raise MosaicError(
                "Spark does not tell a Python source the columns of writeStream.partitionBy: add the Java provider "
                "(smalti.spark.enable(spark), or the jar that `smalti spark-jar` writes), or set option partitionBy",
                found="no option partitionBy",
                expected="names between commas, or an empty text for no partitions",
            )
        super().__init__(options, schema, overwrite)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.commit_batch(staged_files(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        self.discard(staged_files(messages))
