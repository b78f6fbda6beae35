"""Writing, in a task: Arrow batches become files below a directory of the task's own, which no reader lists.

A task answers with the names of its files. If it ran several times, Spark passes one of the answers to the commit, and
only the files that this answer names become visible; see `smalti.table.records`.
"""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from smalti._compat.arrow import size_of
from smalti.errors import SchemaError
from smalti.file.writer import MosaicWriter
from smalti.io import Location
from smalti.logical.adapt import Adapter
from smalti.options import WriterOptions
from smalti.spark.types import convert
from smalti.spec import FILE_SUFFIX
from smalti.table.names import new_token, staging_directory
from smalti.table.partitions import by_directory
from smalti.table.splits import rows_per_batch


class WritePlan(Protocol):
    """Where and how the rows of a DataFrame are written. The driver makes it once, and it travels to the tasks."""

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> bytes:
        """Write the rows of a task, and return what the commit needs, pickled. After an error nothing stays behind."""


@dataclass(frozen=True)
class DirectoryPlan:
    """A write to a plain directory. The file system travels along, so that no task has to resolve the path again."""

    #: The id of the job, under which its files are staged.
    job: str
    #: The directory of the table.
    root: Location
    #: All columns, with the types they are stored in.
    schema: pa.Schema
    partition_by: tuple[str, ...]
    writer: WriterOptions
    max_file_bytes: int
    #: 0 or less if the number of rows is not limited.
    max_file_rows: int

    @property
    def file_schema(self) -> pa.Schema:
        """The columns in the files: all but the partition columns."""
        partitions = set(self.partition_by)
        return pa.schema([field for field in self.schema if field.name not in partitions])

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> bytes:
        writer = TaskWriter(self, f"{task}-{uuid.uuid4().hex[:12]}", task)
        try:
            for batch in batches:
                writer.write(batch)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise


class TaskWriter:
    """Stages the rows of one task in one file after the other.

    A new file begins when the last one is large enough, and with each new partition: Spark sorts the rows of a task by
    partition before it writes them.
    """

    def __init__(self, plan: DirectoryPlan, attempt: str, number: int) -> None:
        self._plan = plan
        self._file_schema = plan.file_schema
        self._adapter = Adapter(plan.schema, plan.schema.names, convert=to_stored)
        self._directory = staging_directory(plan.job, attempt)
        self._number = number
        self._open: MosaicWriter | None = None
        self._partition = ""
        self._rows = 0  # in the open file
        self._files: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        # A batch is larger than small files should be, so it is written in parts, and the file is looked at in between.
        most = rows_per_batch(size_of(batch) // batch.num_rows, self._plan.max_file_bytes // 4)
        for partition, rows in by_directory(self._adapter.adapt(batch), self._plan.partition_by):
            while rows.num_rows:
                writer = self._open if self._open and partition == self._partition else self.start_file(partition)
                limit = self._plan.max_file_rows
                part = rows.slice(0, min(most, limit - self._rows) if limit > 0 else most)
                writer.write(part)
                rows = rows.slice(part.num_rows)
                self._rows += part.num_rows
                if writer.estimated_size >= self._plan.max_file_bytes or self._rows == limit:
                    self._close()

    def start_file(self, partition: str) -> MosaicWriter:
        """Begin another file in the directory of a partition."""
        self._close()
        name = f"part-{self._number:05d}-{new_token()}-{len(self._files):05d}{FILE_SUFFIX}"
        staged = "/".join(filter(None, [self._directory, partition, name]))
        location = self._plan.root.child(staged)
        location.parent.make_directory()
        self._open = MosaicWriter(location.path, self._file_schema, self._plan.writer, filesystem=location.filesystem)
        self._partition, self._rows = partition, 0
        self._files.append(staged)
        return self._open

    def _close(self) -> None:
        writer, self._open = self._open, None
        if writer is not None:
            writer.close()

    def finish(self) -> bytes:
        """The names of the staged files, pickled."""
        self._close()
        return pickle.dumps(self._files)

    def abort(self) -> None:
        """Delete what was staged. Files that cannot be deleted stay invisible."""
        if self._open is not None:
            self._open.abort()
        with contextlib.suppress(OSError):
            self._plan.root.filesystem.delete_dir(self._plan.root.child(self._directory).path)


def to_stored(array: pa.Array, target: pa.Field) -> pa.Array:
    """An array of Spark's in the type that it is stored in."""
    try:
        return convert(array, target.type)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "value cannot be stored", column=target.name, found=str(error), expected=str(target.type)
        ) from None
    except SchemaError as error:
        raise error.locate(column=target.name) from None
