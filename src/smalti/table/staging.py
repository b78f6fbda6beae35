"""Writing rows to a table, up to the commit: batches become files below a directory that no reader lists.

Spark's tasks and `smalti.write_dataset` write by it. `smalti.table.writing` makes the files visible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from smalti._compat.arrow import size_of
from smalti.file.writer import MosaicWriter
from smalti.io import Location
from smalti.io.sinks import SPOOL_MEMORY
from smalti.options import WriterOptions
from smalti.sizes import BATCH_BYTES, ROW_GROUP_BYTES
from smalti.spec import FILE_SUFFIX
from smalti.table.log import staging_below
from smalti.table.names import final_path, new_token, staging_directory
from smalti.table.partitions import by_directory
from smalti.table.splits import rows_per_batch

#: About how many bytes an open writer holds for each column, before it has rows.
_BYTES_PER_COLUMN = 1 << 10
#: The fewest and the most files that may be open at once; by default a process may have 1,024 open files.
_LEAST_OPEN, _MOST_OPEN = 16, 512


@dataclass(frozen=True)
class DirectoryPlan:
    """A write to a plain directory. It is pickled with its file system, so that no task resolves the path again."""

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
    max_file_rows: int = 0
    #: Partition columns that files store as well.
    stored: tuple[str, ...] = ()

    @property
    def file_schema(self) -> pa.Schema:
        """The columns in the files: all but the partition columns."""
        partitions = set(self.partition_by).difference(self.stored)
        fields = [field for field in self.schema if field.name not in partitions]
        return pa.schema(fields).with_metadata(self.schema.metadata or {})


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written; `path` is relative to the directory of the table."""

    path: str
    num_rows: int
    num_bytes: int


class Held(NamedTuple):
    """What an open file holds in memory: rows that wait for their row group, and bytes that wait to be sent."""

    rows: int
    unsent: int


def choose_release(held: Sequence[Held], limit: int) -> tuple[int, bool] | None:
    """Which open file gives memory back, and whether it has to be closed for that; None if all are within the limit.

    A row group can end before it is full. Bytes that wait to be sent to a store wait until their file is complete.

    Examples
    --------
    >>> choose_release([Held(60, 0), Held(30, 0)], 100), choose_release([Held(60, 0), Held(50, 0)], 100)
    (None, (0, False))
    >>> choose_release([Held(20, 10), Held(10, 70)], 100)
    (1, True)
    """
    rows, unsent = sum(each.rows for each in held), sum(each.unsent for each in held)
    if rows + unsent <= limit:
        return None
    must_close = unsent > rows
    sizes = [each.unsent if must_close else each.rows for each in held]
    return sizes.index(max(sizes)), must_close


def most_open_files(num_columns: int) -> int:
    """How many files may be open at once, so that what they hold besides rows stays within the size of a row group.

    Examples
    --------
    >>> most_open_files(20), most_open_files(1_000), most_open_files(100_000)
    (512, 262, 16)
    """
    return max(_LEAST_OPEN, min(_MOST_OPEN, ROW_GROUP_BYTES // (_BYTES_PER_COLUMN * max(1, num_columns))))


class _OpenFile:
    """A file that rows are still added to."""

    def __init__(self, plan: DirectoryPlan, schema: pa.Schema, staged: str) -> None:
        location = plan.root.child(staged)
        location.parent.make_directory()
        self.staged = staged
        self.writer = MosaicWriter(location.path, schema, plan.writer, filesystem=location.filesystem)
        self.num_rows = 0
        self._is_remote = not location.is_local

    @property
    def held(self) -> Held:
        unsent = min(self.writer.written_bytes, SPOOL_MEMORY) if self._is_remote else 0
        return Held(self.writer.buffered_bytes, unsent)


class StagingWriter:
    """Stages rows in files of their partitions, and begins another file of a partition when the last is large enough.

    `attempt` is the name of the directory below the job's, in which nobody else writes, and `number` that of the task,
    for the names of files. `adapt` brings batches to the schema of the plan. `most_open` files may be open at once; one
    is enough for rows that are sorted by partition.
    """

    def __init__(
        self,
        plan: DirectoryPlan,
        attempt: str,
        number: int = 0,
        adapt: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        most_open: int = 1,
    ) -> None:
        self._plan = plan
        self._file_schema = plan.file_schema
        self._adapt = adapt
        self._directory = staging_directory(plan.job, attempt)
        self._number = number
        self._most_open = most_open
        #: By the directory of the partition; the file that was written to last is the last.
        self._open: dict[str, _OpenFile] = {}
        # One token for all files, so that the files of a partition are sorted in the order of their rows.
        self._token, self._count = new_token(), 0
        self._files: list[WrittenFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows. Buffers of the batch may not be changed until the files are finished."""
        if not batch.num_rows:
            return
        # The bytes of many columns take long to count, so this is done only if whole buffers are large. A buffer counts
        # once even if columns share it, but then values of usual size would be too many.
        at_least = max(batch.get_total_buffer_size(), 8 * batch.num_rows * batch.num_columns)
        is_small = not self._plan.partition_by and at_least <= self._plan.max_file_bytes // 4
        row_bytes = 0 if is_small else size_of(batch) // batch.num_rows
        # Rows of partitions are copied, so a batch that takes much memory is cut into its partitions part by part.
        step = rows_per_batch(row_bytes, BATCH_BYTES, most=1 << 20) if self._plan.partition_by else batch.num_rows
        # A batch may be larger than a file should be. So it is written in parts, and the file may end between them.
        most = rows_per_batch(row_bytes, self._plan.max_file_bytes // 4)
        for start in range(0, batch.num_rows, step):
            rows = batch.slice(start, step)
            rows = self._adapt(rows) if self._adapt else rows
            for partition, part in by_directory(rows, self._plan.partition_by, self._plan.stored):
                self._write_to(partition, part, most)
            self._release()

    def _write_to(self, partition: str, rows: pa.RecordBatch, most: int) -> None:
        limit = self._plan.max_file_rows
        while rows.num_rows:
            file = self._open.pop(partition, None) or self.start_file(partition)
            self._open[partition] = file
            part = rows.slice(0, min(most, limit - file.num_rows) if limit > 0 else most)
            file.writer.write(part, copy=False)
            rows = rows.slice(part.num_rows)
            file.num_rows += part.num_rows
            if file.writer.estimated_size >= self._plan.max_file_bytes or file.num_rows == limit:
                self._close(partition)

    def start_file(self, partition: str) -> _OpenFile:
        """Begin another file in the directory of a partition."""
        while len(self._open) >= self._most_open:
            self._close(next(iter(self._open)))
        name = f"part-{self._number:05d}-{self._token}-{self._count:05d}{FILE_SUFFIX}"
        staged = "/".join(filter(None, [self._directory, partition, name]))
        self._count += 1
        with self._staging():
            file = self._open[partition] = _OpenFile(self._plan, self._file_schema, staged)
        return file

    def _staging(self) -> AbstractContextManager[None]:
        return staging_below(self._plan.root.child(self._directory).path)

    def _release(self) -> None:
        """Give memory back if open files hold more than one row group has."""
        if len(self._open) < 2:
            return
        while (chosen := choose_release([file.held for file in self._open.values()], ROW_GROUP_BYTES)) is not None:
            partition = list(self._open)[chosen[0]]
            if chosen[1]:
                self._close(partition)
            else:
                self._open[partition].writer.flush()

    def _close(self, partition: str) -> None:
        file = self._open.pop(partition)
        with self._staging():
            file.writer.close()
        assert file.writer.summary is not None
        self._files.append(WrittenFile(file.staged, file.num_rows, file.writer.summary.num_bytes))

    def finish(self) -> list[WrittenFile]:
        """Close all files; their paths are those of the staged files, sorted by the path that they shall have."""
        while self._open:
            self._close(next(iter(self._open)))
        return sorted(self._files, key=lambda file: final_path(file.path))

    def abort(self) -> None:
        """Delete what was staged. Files that cannot be deleted stay invisible."""
        for file in self._open.values():
            file.writer.abort()
        self._open = {}
        with contextlib.suppress(OSError):
            self._plan.root.filesystem.delete_dir(self._plan.root.child(self._directory).path)
