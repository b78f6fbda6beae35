"""The task of a job that changes a table: one file is read where it has to be, and written with what stays copied.

What a verb does to a file is a `FileChange`. Its function (see `smalti.jobs.change_columns`, `change_rows`) plans the
columns and what becomes of each row group; columns are encoded anew when their row group has its turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from smalti._compat.arrow import columnless_batch, concat_batches, empty_batch
from smalti.errors import MosaicError, SchemaError
from smalti.file.reader import MosaicFile
from smalti.file.rewriting import GroupSource, rewrite_file
from smalti.io import write_whole
from smalti.jobs.change_plan import Action, ColumnPlan
from smalti.jobs.formats.writers import with_statistics
from smalti.jobs.staging import Staging
from smalti.jobs.summary import SplitResult, StagedFile
from smalti.logical.adapt import Adapter, ConstantOf, countable_schema, fit_batch
from smalti.logical.intake import arrow_batches
from smalti.logical.mapping import PROCESS_SCHEMAS
from smalti.options import WriterOptions
from smalti.progress import Report
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import FoundFile, open_found
from smalti.table.names import final_path, new_token
from smalti.table.partitions import constants_of
from smalti.table.staging import DirectoryPlan, StagingWriter, most_open_files


class TableFile:
    """An open file of a table, whose columns are read in the types of the table, partition columns included."""

    def __init__(self, opened: MosaicFile, schema: pa.Schema, constant_of: ConstantOf, index: int = 0) -> None:
        self.opened = opened
        #: The columns of the table.
        self.schema = schema
        #: The number of the file among those of the table.
        self.index = index
        self._constant_of = constant_of

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that the file stores."""
        return frozenset(self.opened.column_names)

    def constant(self, name: str) -> pa.Scalar | None:
        """The value that a column has in all rows, if it is a partition column that the file does not store."""
        if name in self.names or self.schema.get_field_index(name) < 0:
            return None
        return self._constant_of(self.schema.field(name))

    @property
    def groups(self) -> range:
        return range(self.opened.num_row_groups)

    def num_rows(self, group: int) -> int:
        return self.opened.row_group(group).num_rows

    def read(self, names: Sequence[str], group: int) -> pa.RecordBatch:
        """Columns of a row group, by their names in the table; nulls if the file does not have one."""
        stored = [name for name in names if name in self.names]
        if stored:
            batch = one_batch(self.opened.row_group(group).read(stored))
        else:
            batch = columnless_batch(self.num_rows(group))
        return Adapter(pa.schema([self.schema.field(name) for name in names]), stored, self._constant_of).adapt(batch)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """The rows of a table as one batch. Raise SchemaError if they are too large for it."""
    batches = list(arrow_batches(table))
    if len(batches) == 1:
        return batches[0]
    try:
        return concat_batches(batches) if batches else empty_batch(table.schema)
    except SchemaError as error:
        error.expected = "fewer rows in a row group: compact the table first"
        raise


@dataclass(frozen=True)
class FilePlan:
    """What becomes of one file.

    Attributes
    ----------
    columns : ColumnPlan
    actions : sequence of Action
        For each row group.
    fresh : callable
        Returns the columns of a row group that are encoded anew: some of them for `Action.ENCODE`, those that the rows
        which stay have for `Action.FILTER`.
    added : iterable of tables, optional
        Further row groups, with all columns.
    counts : mapping of str to int
        What the report adds up, by the names of its attributes.
    matched : pyarrow.Array, optional
        The rows of the data that rows of the file were matched with.
    num_changed : int
        How many columns are encoded anew in a row group with a row that changes.
    moved : iterable of batches, optional
        Rows that leave the file for other partitions, with columns of the table.
    """

    columns: ColumnPlan
    actions: Sequence[Action]
    fresh: Callable[[int], pa.Table | pa.RecordBatch] | None = None
    added: Iterable[pa.Table] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    matched: Any = None
    num_changed: int = 0
    moved: Iterable[pa.RecordBatch] | None = None

    def is_unchanged(self, old: pa.Schema) -> bool:
        """Whether a file with this schema stays as it is."""
        return self.added is None and {Action.COPY}.issuperset(self.actions) and self.columns.is_same(old)

    def sources(self, opened: MosaicFile) -> Iterator[GroupSource]:
        """The row groups of the new file."""
        for group, action in enumerate(self.actions):
            if action is Action.COPY:
                yield GroupSource(opened, group, self.columns.copied)
            elif action is Action.ENCODE:
                assert self.fresh is not None
                fresh = self.fresh(group)
                encoded = set(fresh.schema.names)
                copied = {new: old for new, old in self.columns.copied.items() if new not in encoded}
                yield GroupSource(opened, group, copied, fresh)
            elif action is Action.FILTER:
                assert self.fresh is not None
                yield GroupSource(None, 0, {}, self.fresh(group))
        for rows in self.added or ():
            yield GroupSource(None, 0, {}, rows)


@dataclass(frozen=True)
class FileChange:
    """What a verb does to each file. It is pickled with the tasks."""

    #: Decides what becomes of a file.
    plan: Callable[[TableFile], FilePlan]
    #: Whether columns are removed, or get other names or types.
    changes_columns: bool = False
    #: Whether files that were added since the plan can be changed in the same way.
    follows_additions: bool = True
    #: How rows that leave their file are written; None if no row can leave.
    files: DirectoryPlan | None = None


@dataclass(frozen=True)
class FileTask:
    """One file of the table, its number, and its name below the table, from which the name of its successor is made."""

    index: int
    file: FoundFile
    relative: str

    @property
    def num_bytes(self) -> int:
        return self.file.size


@dataclass(frozen=True)
class ChangeSettings:
    """What the tasks of one job have in common. It is pickled with them."""

    staging: Staging
    change: FileChange
    #: The columns of the table, partition columns included.
    schema: pa.Schema
    options: WriterOptions | None
    is_dry: bool = False
    #: Whether the file is the table, so that it stays when all of its rows go.
    is_single: bool = False


def change_file(settings: ChangeSettings, task: FileTask, report: Report) -> SplitResult | MosaicError:
    """Write the successor of one file, if anything changes; an error about data is returned."""
    try:
        with MosaicFile(open_found(task.file, settings.staging.root.filesystem), PROCESS_SCHEMAS) as opened:
            constants = constants_of(task.file.partition)
            plan = settings.change.plan(TableFile(opened, settings.schema, constants, task.index))
            result = _write(settings, task, opened, plan)
            report(opened.num_rows, task.file.size)
    except MosaicError as error:
        return error.locate(path=task.file.name)
    if not settings.is_dry:
        settings.staging.mark_done(task.index, result)
    return result


def _write(settings: ChangeSettings, task: FileTask, opened: MosaicFile, plan: FilePlan) -> SplitResult:
    touched = sum(action is not Action.COPY for action in plan.actions)
    counts = {"row_groups": touched, **plan.counts, **_stage_matched(settings, task, plan)}
    if plan.is_unchanged(opened.schema):
        return SplitResult(counts=counts)
    _refuse_link(settings, task)
    counts["files"] = 1
    if settings.is_dry:
        return SplitResult(counts=counts | estimated_bytes(opened, plan))
    moved = _stage_moved(settings, task, opened, plan)
    if not settings.is_single and plan.actions and {Action.DROP}.issuperset(plan.actions):
        return SplitResult(moved, counts=counts)
    path = f"{settings.staging.attempt_directory(task.index)}/changed{FILE_SUFFIX}"
    location = settings.staging.root.child(path)
    location.parent.make_directory()
    done = rewrite_file(
        location.path,
        plan.columns.schema,
        plan.sources(opened),
        options=settings.options,
        filesystem=location.filesystem,
        like=opened,
    )
    counts |= {"bytes_copied": done.bytes_copied, "bytes_encoded": done.bytes_encoded}
    staged = StagedFile(task.relative, done.rows, location.info().size, path, (task.file.path,))
    return SplitResult((staged, *moved), counts=counts)


def _stage_moved(
    settings: ChangeSettings, task: FileTask, opened: MosaicFile, plan: FilePlan
) -> tuple[StagedFile, ...]:
    """Write the rows that leave the file to files of their partitions."""
    if plan.moved is None:
        return ()
    files = settings.change.files
    assert files is not None
    statistics = opened.row_group(0).raw_statistics
    options = with_statistics(settings.options or WriterOptions(), files.file_schema, statistics)
    return stage_rows(
        replace(files, writer=options), f"move-{task.index:06d}", task.index, plan.moved, (task.file.path,)
    )


def stage_rows(
    plan: DirectoryPlan, prefix: str, number: int, batches: Iterable[pa.RecordBatch], sources: tuple[str, ...]
) -> tuple[StagedFile, ...]:
    """Write rows to files of their partitions. `prefix` and `number` tell the task from others of the job."""
    adapt = partial(fit_batch, schema=countable_schema(plan.schema))
    attempt = f"{prefix}-{new_token()}"
    writer = StagingWriter(plan, attempt, number, adapt, most_open_files(len(plan.schema)))
    try:
        for batch in batches:
            writer.write(batch)
        written = writer.finish()
    except BaseException:
        writer.abort()
        raise
    names = [str(PurePosixPath(final_path(file.path)).with_name(f"part{FILE_SUFFIX}")) for file in written]
    return tuple(
        StagedFile(name, file.num_rows, file.num_bytes, file.path, sources)
        for name, file in zip(names, written, strict=True)
    )


def _refuse_link(settings: ChangeSettings, task: FileTask) -> None:
    """Raise if the file is a symbolic link: a commit would replace the link, and its target would keep the old rows."""
    if settings.staging.root.is_local and not settings.is_single and Path(task.file.path).is_symlink():
        raise MosaicError(
            "a file of the table is a symbolic link, and the file that it leads to would keep the old values: put a "
            "copy of the file in the place of the link, and remove the other file if its values are to go",
            found=os.path.realpath(task.file.path),
        )


#: How a task stages the numbers of the rows of the data that it has found in its file.
MATCHED = pa.schema({"row": pa.int64()})


def _stage_matched(settings: ChangeSettings, task: FileTask, plan: FilePlan) -> dict[str, Any]:
    """Stage the numbers of the rows of the data that this file has keys of. The job adds the rows that no file has."""
    if plan.matched is None:
        return {}
    if settings.is_dry:
        return {"matched": plan.matched}
    location = settings.staging.directory.child(f"matched/{task.index:06d}.arrow")
    location.parent.make_directory()
    write_whole(location, pa.record_batch([plan.matched], schema=MATCHED).serialize().to_pybytes())
    return {"matched": location.path}


def estimated_bytes(opened: MosaicFile, plan: FilePlan) -> dict[str, int]:
    """About how many bytes would be copied, and how many encoded anew, by the bytes that columns take now.

    A column that is new has no bytes yet, so it counts as many as a column of the row group has in the mean.
    """
    copied = encoded = 0
    count = max(1, opened.num_columns)
    for group, action in enumerate(plan.actions):
        if action is Action.DROP:
            continue
        size, some = opened.row_group(group).num_bytes, max(len(plan.columns.encoded), plan.num_changed)
        fresh = {Action.ENCODE: some, Action.FILTER: count}.get(action, 0)
        copied += size * min(count, len(plan.columns.schema) - fresh) // count
        encoded += size * fresh // count
    return {"bytes_copied": copied, "bytes_encoded": encoded}
