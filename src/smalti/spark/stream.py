"""Streaming: new files of a directory become rows once; batches of a query become files once."""

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
from smalti.io.places import locate, service_of
from smalti.spark.names import skip_name_check
from smalti.spark.offsets import Offset, added, advance, first_offset
from smalti.spark.options import ReadOptions, WriteOptions
from smalti.spark.read import read_split
from smalti.spark.table import Table
from smalti.spark.types import arrow_schema
from smalti.spark.write import Job, staged_files
from smalti.table.commits import Mode, plan_commit
from smalti.table.listing import FoundFile


class MosaicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files as they appear. The offset says which have been read; see `smalti.spark.offsets`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._listed: dict[str, int] | None = None  # with Trigger.AvailableNow: what there was at the start
        skip_name_check(schema)

    def initialOffset(self) -> Offset:
        return first_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_files_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._listed = _times(self._files())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        listed = _times(self._files()) if self._listed is None else self._listed
        return advance(start, listed, limit.max_files if isinstance(limit, ReadMaxFiles) else None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        names = added(start, end)
        if not names:
            return []
        files = self._files()
        gone = [name for name in names if name not in files]
        if gone:
            raise MosaicError("files of a batch have gone before they were read", path=gone[0], found=len(gone))
        splits = Table(self._options).splits([files[name] for name in names], self._schema, [])
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition.value, self._schema, self._options)

    def _files(self) -> dict[str, FoundFile]:
        """By the name each keeps: where it is once its commit is carried out."""
        try:
            return {file.name: file for file in Table(self._options).find()}
        except FileNotFoundError:
            return {}  # nothing yet


def _times(files: dict[str, FoundFile]) -> dict[str, int]:
    return {name: file.modified for name, file in files.items()}


class MosaicStreamWriter(DataSourceStreamArrowWriter):
    """Every batch a commit; one that Spark runs again after a failure is recognised by its number and left out."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if options.stream_id is None:
            raise MosaicError(
                "a stream needs a name that lasts: set option checkpointLocation on the writer, or streamId"
            )
        self._job = Job(options, schema)
        query_name(options)  # what cannot be known by then is better said now
        self._mode: Mode = "overwrite" if overwrite else "append"
        if not overwrite:
            self._job.check_append()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log = self._job.log()
        log.recover()
        stream = query_name(self._job.options)
        staged = staged_files(messages)
        if log.has_batch(stream, batchId):
            log.discard_staged(staged)
            return
        existing = self._job.existing() if self._mode == "overwrite" else []
        log.commit(plan_commit(self._job.id, staged, existing, self._mode, stream=stream, batch=batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        self._job.log().discard_staged(staged_files(messages))


def query_name(options: WriteOptions) -> str:
    """A name for the query that lasts across restarts: the id Spark keeps in its checkpoint, else what was given."""
    given = options.stream_id
    assert given is not None
    storage = options.storage if service_of(given) == service_of(options.path) else {}
    try:
        given = str(json.loads(locate(given, storage=storage).child("metadata").read_bytes())["id"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        pass  # a name of the user's own, or a kind of place only Spark knows
    except OSError as error:  # by another name, batches that were written would be written again
        raise MosaicError(
            "the checkpoint cannot be read, so the query is not known again: set option streamId",
            path=given,
            found=str(error),
        ) from None
    return hashlib.sha256(given.encode()).hexdigest()[:32]
