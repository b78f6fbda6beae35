"""Executor side of writing: Arrow batches to staged files. And the job around it, as Spark calls it.

A task writes below a directory of its own that no reader lists, and answers with the names of what it wrote. Of all
attempts of a task Spark passes one answer to the commit, and only files it names become visible: `table.commits`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from smalti.errors import SchemaError
from smalti.file.writer import MosaicWriter
from smalti.io import Place, locate
from smalti.spark.options import WriteOptions
from smalti.spark.read import open_table_file
from smalti.spark.types import convert, stored_schema
from smalti.spec import FILE_SUFFIX
from smalti.table.commit_log import CommitLog
from smalti.table.commits import Mode, plan_commit, staging_directory
from smalti.table.listing import list_files
from smalti.table.partitions import by_directory, check_partition_columns, partition_directory
from smalti.table.schemas import unify_schemas

#: Files a task writes at once, one per partition it meets; then the largest is finished. Each holds a row group.
_MAX_OPEN = 8


@dataclass
class Written(WriterCommitMessage):
    """What one task attempt staged, relative to the table."""

    files: tuple[str, ...]


class Job:
    """A table that is written to: the same for the batch and the streaming writer.

    Parameters
    ----------
    options : WriteOptions
    schema : StructType
        Of the DataFrame.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.id = uuid.uuid4().hex
        self.schema = stored_schema(schema, options.time_columns)
        check_partition_columns(options.partition_by, self.schema)
        partitions = set(options.partition_by)
        self.file_schema = pa.schema([field for field in self.schema if field.name not in partitions])

    def root(self) -> Place:
        """The table's directory."""
        return locate(self.options.path, storage=self.options.storage)

    def log(self) -> CommitLog:
        return CommitLog(self.root())

    def existing(self) -> list[str]:
        """The table's files as they are, relative to it."""
        try:
            listing = list_files(self.root(), globs=False, settled=True)
        except FileNotFoundError:
            return []
        return [listing.relative(file) for file in listing.files]

    def check_append(self) -> None:
        """Refuse rows that the table could not be read together with, before a task starts."""
        root = self.root()
        try:
            first = next(iter(list_files(root, globs=False).files), None)
        except FileNotFoundError:
            return
        if first is None:
            return
        if list(first.partition) != list(self.options.partition_by):
            raise SchemaError(
                "the table is partitioned in another way",
                path=root.path,
                found=list(self.options.partition_by),
                expected=list(first.partition),
            )
        with open_table_file(first, root.filesystem) as opened:
            unify_schemas([(first.path, opened.schema), ("the DataFrame", self.file_schema)])

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one task."""
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        attempt = f"{number}-{uuid.uuid4().hex[:12]}"
        writer = TaskWriter(self.root(), staging_directory(self.id, attempt), number, self)
        try:
            for batch in batches:
                writer.write(batch)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def write_empty(self) -> list[str]:
        """A file without rows, in the partition of nulls if any, so that a table without rows has a schema."""
        writer = TaskWriter(self.root(), staging_directory(self.id, "empty"), 0, self)
        writer.start(partition_directory([(name, None) for name in self.options.partition_by]))
        return list(writer.finish().files)


class TaskWriter:
    """Rows of one task to files: one per partition at a time, a new one when it is large enough."""

    def __init__(self, root: Place, directory: str, number: int, job: Job) -> None:
        self._root = root
        self._directory = directory
        self._number = number
        self._job = job
        self._open: dict[str, MosaicWriter] = {}
        self._files: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for directory, rows in by_directory(self._stored(batch), self._job.options.partition_by):
            writer = self._open.get(directory) or self.start(directory)
            writer.write(rows)
            if writer.estimated_size >= self._job.options.max_file_bytes:
                self._open.pop(directory).close()

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for array, target in zip(batch.columns, self._job.schema, strict=True):
            try:
                arrays.append(convert(array, target.type))
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    "value cannot be stored", column=target.name, found=str(error), expected=str(target.type)
                ) from None
            except SchemaError as error:
                raise error.locate(column=target.name) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._job.schema)

    def start(self, directory: str) -> MosaicWriter:
        """Begin another file of a partition."""
        if len(self._open) >= _MAX_OPEN:
            largest = max(self._open, key=lambda name: self._open[name].estimated_size)
            self._open.pop(largest).close()
        name = f"part-{self._number:05d}-{uuid.uuid4().hex[:12]}{FILE_SUFFIX}"
        staged = "/".join(filter(None, [self._directory, directory, name]))
        place = self._root.child(staged)
        place.parent.make_directory()
        job = self._job
        writer = MosaicWriter(place.path, job.file_schema, job.options.writer, filesystem=place.filesystem)
        self._open[directory] = writer
        self._files.append(staged)
        return writer

    def finish(self) -> Written:
        while self._open:
            self._open.popitem()[1].close()
        return Written(tuple(self._files))

    def abort(self) -> None:
        """Leave as little as possible; what stays is invisible."""
        for writer in self._open.values():
            writer.abort()
        with contextlib.suppress(OSError):
            self._root.filesystem.delete_dir(self._root.child(self._directory).path)


def staged_files(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    """What the tasks that count have staged."""
    return [path for message in messages if isinstance(message, Written) for path in message.files]


class MosaicBatchWriter(DataSourceArrowWriter):
    """One `df.write...save()`. Travels to tasks, and to the processes that commit or abort."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._job = Job(options, schema)
        self._mode: Mode = "append" if not overwrite else "dynamic" if options.dynamic else "overwrite"
        if self._mode != "overwrite":
            self._job.check_append()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log = self._job.log()
        log.recover()
        staged = staged_files(messages)
        existing = [] if staged and self._mode == "append" else self._job.existing()
        if not staged and (self._mode == "overwrite" or not existing):
            staged = self._job.write_empty()
        log.commit(plan_commit(self._job.id, staged, existing, self._mode))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        self._job.log().abort(self._job.id)
