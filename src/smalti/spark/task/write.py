"""Writing: tasks stage Arrow batches as files, and a commit makes the staged files visible.

A task writes below a directory of its own that no reader lists, and answers with the names of its files. If a task ran
several times, Spark passes one of the answers to the commit, and only the files it names become visible; see
`smalti.table.records`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from smalti.errors import ConflictError, LeftoverWarning, MosaicError, SchemaError
from smalti.file.reader import MosaicFile
from smalti.file.writer import MosaicWriter
from smalti.io import Location, locate, write_whole
from smalti.io.services import service_of
from smalti.logical.adapt import Adapter
from smalti.logical.widen import unify_schemas
from smalti.options import WriterOptions
from smalti.spark.options import WriteOptions
from smalti.spark.types import convert, stored_schema
from smalti.spec import FILE_SUFFIX
from smalti.table.committing import Change
from smalti.table.listing import FoundFile, Listing, list_files, list_table, open_found, read_again
from smalti.table.log import CommitLog
from smalti.table.names import (
    JOBS,
    attempt_directory,
    final_path,
    new_token,
    partition_directory,
    staging_directory,
    unique_names,
)
from smalti.table.paimon_layout import listed_to_write, refuse_writing
from smalti.table.partitions import by_directory, check_partition_columns, partition_value
from smalti.table.records import FileId, Mode

_OVERWRITE_SETTING = "spark.sql.sources.partitionOverwriteMode"
#: How many files a task writes at the same time, one for each partition. Each file holds a row group in memory, so when
#: another partition comes, the largest file is finished.
_MAX_OPEN = 8


@dataclass
class Written(WriterCommitMessage):
    """The files that one attempt of a task has staged, relative to the table."""

    files: tuple[str, ...]


def staged_files(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    """The staged files that the answers of the tasks name."""
    return [path for message in messages if isinstance(message, Written) for path in message.files]


@dataclass(frozen=True)
class WritePlan:
    """Where and how the rows of a DataFrame are written.

    The driver makes it once. It travels to the tasks and to the processes that commit or abort, and the file system
    travels with it, so that none of them has to resolve the path again.
    """

    #: The id of the job, under which its files are staged.
    job: str
    #: The directory of the table.
    root: Location
    #: All columns, with the types they are stored in.
    schema: pa.Schema
    partition_by: tuple[str, ...]
    writer: WriterOptions
    max_file_bytes: int
    #: 0 or less for as many as there are.
    max_file_rows: int
    success_file: bool

    @classmethod
    def of(cls, options: WriteOptions, rows: StructType) -> WritePlan:
        schema = stored_schema(rows, options.time_columns)
        check_partition_columns(options.partition_by, schema)
        limits = (options.max_file_bytes, options.max_records_per_file)
        job, root = uuid.uuid4().hex, options.root
        return cls(job, root, schema, options.partition_by, options.writer, *limits, options.success_file)

    @property
    def file_schema(self) -> pa.Schema:
        """The columns in the files: all but the partition columns."""
        partitions = set(self.partition_by)
        return pa.schema([field for field in self.schema if field.name not in partitions])

    def commit(self, change: Change, staged: list[str], stream: str | None = None, batch: int | None = None) -> bool:
        """Make staged files visible; see `Change.commit`."""
        token = new_token()
        names = unique_names({path: final_path(path) for path in sorted(staged, key=final_path)}, token)
        return change.commit(self.job, names, token, stream=stream, batch=batch)

    def check_append(self) -> None:
        """Refuse rows that could not be read together with the rows of the table, before a task starts."""

        def check() -> None:
            try:
                with listed_to_write(self.root):
                    first = next(iter(list_files(self.root, globs=False).files), None)
            except FileNotFoundError:
                return
            if first is not None:
                self.check_partition(first)
                with MosaicFile(open_found(first, self.root.filesystem)) as opened:
                    unify_schemas([(first.path, opened.schema), ("the DataFrame", self.file_schema)])

        read_again(check, lambda: None)

    def check_partition(self, file: FoundFile) -> None:
        """Refuse to write beside a file whose directories spell other columns, which could not be read together."""
        if list(file.partition) != list(self.partition_by):
            raise SchemaError(
                "the table is partitioned in another way",
                path=self.root.path,
                found=list(self.partition_by),
                expected=list(file.partition),
            )


class TaskWriter:
    """Stages the rows of one task: one open file for each partition, and a new one when a file is large enough."""

    def __init__(self, plan: WritePlan, attempt: str, number: int) -> None:
        self._plan = plan
        self._file_schema = plan.file_schema
        self._adapter = Adapter(plan.schema, plan.schema.names, convert=_to_stored)
        self._directory = staging_directory(plan.job, attempt)
        self._number = number
        self._open: dict[str, MosaicWriter] = {}
        self._rows: dict[str, int] = {}  # in the open files
        self._files: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for partition, rows in by_directory(self._adapter.adapt(batch), self._plan.partition_by):
            while rows.num_rows:
                writer = self._open.get(partition) or self.start_file(partition)
                limit, written = self._plan.max_file_rows, self._rows[partition]
                part = rows.slice(0, limit - written) if limit > 0 else rows
                writer.write(part)
                rows = rows.slice(part.num_rows)
                self._rows[partition] += part.num_rows
                if writer.estimated_size >= self._plan.max_file_bytes or self._rows[partition] == limit:
                    self._open.pop(partition).close()

    def start_file(self, partition: str) -> MosaicWriter:
        """Begin another file in the directory of a partition."""
        if len(self._open) >= _MAX_OPEN:
            largest = max(self._open, key=lambda name: self._open[name].estimated_size)
            self._open.pop(largest).close()
        name = f"part-{self._number:05d}-{new_token()}-{len(self._files):05d}{FILE_SUFFIX}"
        staged = "/".join(filter(None, [self._directory, partition, name]))
        location = self._plan.root.child(staged)
        location.parent.make_directory()
        writer = MosaicWriter(location.path, self._file_schema, self._plan.writer, filesystem=location.filesystem)
        self._open[partition] = writer
        self._rows[partition] = 0
        self._files.append(staged)
        return writer

    def finish(self) -> Written:
        while self._open:
            self._open.popitem()[1].close()
        return Written(tuple(self._files))

    def abort(self) -> None:
        """Delete what was staged. Files that cannot be deleted stay invisible."""
        for writer in self._open.values():
            writer.abort()
        with contextlib.suppress(OSError):
            self._plan.root.filesystem.delete_dir(self._plan.root.child(self._directory).path)


def _to_stored(array: pa.Array, target: pa.Field) -> pa.Array:
    try:
        return convert(array, target.type)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "value cannot be stored", column=target.name, found=str(error), expected=str(target.type)
        ) from None
    except SchemaError as error:
        raise error.locate(column=target.name) from None


class StagingWriter:
    """What the batch and the streaming writer share. It travels to tasks, and to processes that commit or abort."""

    def __init__(self, options: WriteOptions, schema: StructType, mode: Mode) -> None:
        self._plan = WritePlan.of(options, schema)
        self._mode = mode
        #: Whether this would replace all partitions where Parquet replaces some, if the session says so. The Java
        #: provider has looked; the Python source alone learns of the session's settings in its tasks.
        self._must_be_static = (
            mode == "overwrite"
            and bool(options.partition_by)
            and options.partition_overwrite_mode is None
            and not options.is_planned
        )
        # A Paimon table is refused before a task starts; what is appended to has to be listed for that anyway.
        if mode in ("overwrite", "create"):
            refuse_writing(self._plan.root)
        else:
            self._plan.check_append()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        context = TaskContext.get()
        if self._must_be_static and context is not None:
            _refuse_dynamic(context.getLocalProperty(_OVERWRITE_SETTING))
        number = context.partitionId() if context is not None else 0
        writer = TaskWriter(self._plan, f"{number}-{uuid.uuid4().hex[:12]}", number)
        try:
            for batch in iterator:
                writer.write(batch)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise


def _refuse_dynamic(setting: str | None) -> None:
    if (setting or "").lower() == "dynamic":
        raise MosaicError(
            f"the session sets {_OVERWRITE_SETTING}=dynamic, which Spark does not pass to Python sources; nothing was "
            "changed. Set the option partitionOverwriteMode, or add the Java provider (smalti.spark.enable)"
        )


class MosaicBatchWriter(StagingWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """One `df.write...save()`."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        replacing: Mode = "dynamic" if options.partition_overwrite_mode == "dynamic" else "overwrite"
        self._replaced = options.replaced_partition
        self._create, self._keep = options.create, options.keep
        super().__init__(options, schema, replacing if overwrite else "create" if self._create else "append")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staged = staged_files(messages)
        if not staged and not self._replaced and (self._mode == "overwrite" or not list_table(self._plan.root).files):
            # A file without rows (in the partition of nulls, if any) keeps the schema of an empty table.
            writer = TaskWriter(self._plan, "empty", 0)
            writer.start_file(partition_directory([(name, None) for name in self._plan.partition_by]))
            staged = list(writer.finish().files)
        change = Change(
            self._plan.root,
            self._mode,
            replaceable=partial(self._replaceable, writes=bool(staged)),
            keep=self._keep,
        )
        try:
            self._plan.commit(change, staged)
        except ConflictError:
            # Whatever is in the way: rows are left out only if there are others.
            if self._create != "ignore" or not list_table(self._plan.root).files:
                raise
            CommitLog(self._plan.root).discard([f"{JOBS}/{self._plan.job}"])
            return
        if self._plan.success_file:
            try:
                write_whole(self._plan.root.child("_SUCCESS"), b"")
            except OSError as error:  # The rows are there: a job that is run again would append them twice.
                text = f"{self._plan.root.path}: the commit has happened, but _SUCCESS cannot be written: {error}"
                warnings.warn(text, LeftoverWarning, stacklevel=2)

    def _replaceable(self, listing: Listing, *, writes: bool) -> dict[str, FileId]:
        """The files that an overwrite may remove: all, or those of the partitions that INSERT OVERWRITE names."""
        if not self._replaced:
            return listing.ids
        for file in listing.files:
            if writes or not self._replaced.keys() <= file.partition.keys():
                self._plan.check_partition(file)
        types = {name: self._plan.schema.field(name) for name in self._replaced}
        wanted = {name: partition_value(self._replaced, field) for name, field in types.items()}
        kept = [
            file
            for file in listing.files
            if all(partition_value(file.partition, field) == wanted[name] for name, field in types.items())
        ]
        return replace(listing, files=kept).ids if kept else {}

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        CommitLog(self._plan.root).discard([f"{JOBS}/{self._plan.job}"], unless_pending=True)


class StreamCommits(StagingWriter):
    """Commits the batches of a stream. A batch that Spark runs again after a failure is known by its number."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if options.stream_id is None:
            raise MosaicError(
                "a stream needs a name that lasts: set option checkpointLocation on the writer, or streamId"
            )
        query_name(options)  # Fail now rather than at the first commit if the checkpoint cannot be read.
        self._options = options
        super().__init__(options, schema, "overwrite" if overwrite else "append")

    def commit_batch(self, staged: list[str], batch: int) -> None:
        """Commit the files of a batch, unless an earlier run of the same batch was committed."""
        self._plan.commit(Change(self._plan.root, self._mode), staged, query_name(self._options), batch)

    def discard(self, staged: list[str]) -> None:
        CommitLog(self._plan.root).discard(set(map(attempt_directory, staged)), unless_pending=True)


class StreamedBatchWriter(StreamCommits, DataSourceArrowWriter):  # type: ignore[misc]
    """One batch of a stream, which the provider writes as a DataFrame."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        assert self._options.batch is not None
        self.commit_batch(staged_files(messages), self._options.batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.discard(staged_files(messages))


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
