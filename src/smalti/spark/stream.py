"""Streaming: each new file of a directory becomes rows once, and each batch of a query becomes files once."""

from __future__ import annotations

import hashlib
import json
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
from smalti.io.places import locate
from smalti.io.services import service_of
from smalti.spark.names import skip_name_check
from smalti.spark.offsets import Offset, added, advance, first_offset
from smalti.spark.options import ReadOptions, WriteOptions
from smalti.spark.plan import Table
from smalti.spark.read import read_split
from smalti.spark.types import arrow_schema
from smalti.spark.write import StagingWriter, staged_files
from smalti.table.commit_log import CommitLog
from smalti.table.commits import Commit, Identity, plan_commit
from smalti.table.listing import list_table


class MosaicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads files as they appear. An offset says which files have been read; see `smalti.spark.offsets`."""

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
        table = Table(self._options, may_be_empty=True)
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
        return {file.name: file.modified for file in Table(self._options, may_be_empty=True).files}


class MosaicStreamWriter(StagingWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Commits every batch. A batch that Spark runs again after a failure is known by its number and left out."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if options.stream_id is None:
            raise MosaicError(
                "a stream needs a name that lasts: set option checkpointLocation on the writer, or streamId"
            )
        query_name(options)  # Fail now rather than at the first commit if the checkpoint cannot be read.
        self._options = options
        super().__init__(options, schema, "overwrite" if overwrite else "append")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log = CommitLog(self._plan.root)
        stream = query_name(self._options)
        staged = staged_files(messages)

        def plan() -> Commit | None:
            # The number is looked up first: if the batch is committed after that, this commit comes too late.
            after = log.settle()
            if log.has_batch(stream, batchId):
                log.discard_staged(staged)
                return None
            existing: dict[str, Identity] = {}
            if self._mode == "overwrite":
                listing = list_table(self._plan.root)
                after, existing = min(after, listing.number), listing.identities
            job = self._plan.job
            return plan_commit(job, staged, existing, self._mode, after=after, stream=stream, batch=batchId)

        log.commit_as_planned(plan)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        CommitLog(self._plan.root).discard_staged(staged_files(messages))


def query_name(options: WriteOptions) -> str:
    """The name of a query across restarts: the id that Spark keeps in its checkpoint, or else the given name itself."""
    given = options.stream_id
    assert given is not None
    storage = options.storage if service_of(given) == service_of(options.path) else {}
    try:
        given = str(json.loads(locate(given, storage=storage).child("metadata").read_bytes())["id"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        pass  # It is a name of the user's own, or a place that only Spark can reach.
    except OSError as error:  # Under another name, batches that have been written would be written again.
        raise MosaicError(
            "the checkpoint cannot be read, so the query is not known again: set option streamId",
            path=given,
            found=str(error),
        ) from None
    return hashlib.sha256(given.encode()).hexdigest()[:32]
