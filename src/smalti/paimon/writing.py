"""Rows into Paimon tables: written through pypaimon's writers, with smalti's encoder inside, in one commit.

`RowWriter` writes data files and returns what has to be committed; `commit` makes that visible. Spark runs the former
in its tasks and the latter on the driver, `write` does both.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon.table.file_store_table import FileStoreTable
from pypaimon.write.commit_callback import CommitCallback
from pypaimon.write.commit_message import CommitMessage

from smalti.errors import ConflictError, MosaicError, SchemaError, UnsupportedFeatureError
from smalti.file.streams import Scannable
from smalti.logical.adapt import Adapter
from smalti.logical.intake import arrow_batches
from smalti.paimon.engine import engine
from smalti.paimon.mosaic import refuse_rows
from smalti.paimon.tables import AnyTable, open_for_commit
from smalti.table.partitions import constants_of

Mode = Literal["append", "overwrite"]


@dataclass(frozen=True)
class Job:
    """One write: who commits, and what is replaced.

    Attributes
    ----------
    user : str
        By which Paimon knows the writers and the commit of a job as one.
    replaces : dict of str to str, optional
        None to append. Otherwise the partition whose rows are replaced; an empty one stands for the whole table, or,
        if it is partitioned and overwriting is dynamic, for the partitions that are written.
    dynamic : bool, optional
        Which of the two; by default what the option ``dynamic-partition-overwrite`` of the table says.
    """

    replaces: dict[str, str] | None = None
    dynamic: bool | None = None
    user: str = field(default_factory=lambda: str(uuid.uuid4()))

    def builder(self, table: FileStoreTable) -> Any:
        if self.dynamic is not None:
            table = table.copy_without_time_travel({"dynamic-partition-overwrite": str(self.dynamic).lower()})
        builder = table.new_batch_write_builder()._with_commit_user(self.user)
        return builder if self.replaces is None else builder.overwrite(self.replaces)


class RowWriter:
    """Writes data files of a table, which nobody sees until they are committed."""

    def __init__(self, table: FileStoreTable, job: Job) -> None:
        self._table = table
        self._schema: pa.Schema = PyarrowFieldParser.from_paimon_schema(table.fields)
        if table.options.file_format() == "mosaic":
            refuse_rows(self._schema)
        self._adapters: dict[tuple[tuple[str, ...], tuple[tuple[str, str | None], ...]], Adapter] = {}
        self._stack = ExitStack()
        self._stack.enter_context(engine())
        try:
            self._write = job.builder(table).new_write()
        except NotImplementedError as error:
            self._stack.close()
            raise UnsupportedFeatureError(
                f"pypaimon does not write such tables: {error}", path=table.table_path
            ) from None

    def write(self, batch: pa.RecordBatch, partition: Mapping[str, str | None] = MappingProxyType({})) -> None:
        """Write a batch; its columns are found by name, and those that it lacks are null.

        `partition` has the values of columns that directories spell, as text.
        """
        names = tuple(batch.schema.names)
        kind = names, tuple(partition.items())
        if kind not in self._adapters:
            self.check_names(self._table, [*names, *partition])
            self._adapters[kind] = Adapter(self._schema, names, constants_of(partition))
        try:
            adapted = self._adapters[kind].adapt(batch)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(f"values do not fit the table: {error}", path=self._table.table_path) from None
        for column in adapted.schema:
            if not column.nullable and adapted.column(column.name).null_count:
                raise SchemaError(
                    "null in a column that must not be null", path=self._table.table_path, column=column.name
                )
        self._write.write_arrow_batch(adapted)

    @staticmethod
    def check_names(table: FileStoreTable, names: Sequence[str]) -> None:
        """Refuse columns that the table does not have, and rows without a column that must not be null."""
        for name in names:
            if name not in table.field_dict:
                raise SchemaError("no such column in the table", path=table.table_path, found=name)
        for column in table.fields:
            if not column.type.nullable and column.name not in names:
                raise SchemaError(
                    "a column that must not be null is missing", path=table.table_path, column=column.name
                )

    def finish(self) -> list[CommitMessage]:
        """Close the files, and return what is to be committed."""
        try:
            return list(self._write.prepare_commit())
        finally:
            self.close()

    def abort(self) -> None:
        """Remove the files that were written."""
        try:
            self._write.abort()
        finally:
            self._stack.close()

    def close(self) -> None:
        try:
            self._write.close()
        finally:
            self._stack.close()


class _Committed(CommitCallback):  # type: ignore[misc]
    """Remembers which snapshot a commit has made."""

    snapshot: int | None = None

    def call(self, context: Any) -> None:
        self.snapshot = context.snapshot.id


def commit(table: FileStoreTable, job: Job, messages: Sequence[CommitMessage]) -> int | None:
    """Make what was written visible, all at once; return the id of the snapshot, None if there was nothing to commit.

    Raises
    ------
    ConflictError
        If another commit has changed the same rows meanwhile. Nothing of this one is visible then.
    """
    committed = _Committed()
    operation = job.builder(table).new_commit()
    operation.add_commit_callback(committed)
    try:
        operation.commit(list(messages))
    except RuntimeError as error:
        if "onflict" not in str(error):
            raise
        raise ConflictError(f"Paimon refuses the commit: {error}", path=table.table_path) from error
    finally:
        operation.close()
    return committed.snapshot


def discard(table: FileStoreTable, job: Job, messages: Sequence[CommitMessage]) -> None:
    """Remove the files of writers whose job is not committed."""
    operation = job.builder(table).new_commit()
    try:
        operation.abort(list(messages))
    finally:
        operation.close()


def replaced_partition(mode: str, partition: Mapping[str, object] | None) -> dict[str, str] | None:
    """What a mode replaces; see `Job`."""
    if mode not in ("append", "overwrite"):
        raise MosaicError("no such mode", found=mode, expected="append or overwrite")
    if mode == "append" and partition:
        raise MosaicError("a partition is given to replace it: that needs mode overwrite", found=dict(partition))
    return None if mode == "append" else {name: str(value) for name, value in (partition or {}).items()}


def write(
    table: AnyTable,
    data: Any,
    mode: Mode = "append",
    *,
    partition: Mapping[str, object] | None = None,
    storage: Mapping[str, str] | None = None,
) -> int | None:
    """Write rows to a Paimon table, in one commit.

    Readers see all of the rows or none. If another process commits at the same moment, both commits are kept, unless
    Paimon finds that they conflict. In a table with a primary key, rows replace those of the same key.

    Parameters
    ----------
    table : path, URI, or table of a pypaimon catalog
    data : pyarrow.Table, RecordBatch, RecordBatchReader, dataset, or anything with an Arrow stream
        Columns are matched by name. Types must fit those of the table without loss; missing columns are null.
    mode : {"append", "overwrite"}
        Overwriting replaces the rows of `partition`. Without one it replaces all rows, or, in a partitioned table,
        those of the partitions that `data` has rows for, as Paimon's option ``dynamic-partition-overwrite`` says.
    partition : mapping, optional
        Values of partition columns.
    storage : mapping, optional
        Credentials and endpoints for a URI; see `smalti.io.locations.locate`.

    Returns
    -------
    int, optional
        The id of the new snapshot; None if there was nothing to write.

    Raises
    ------
    SchemaError
        If the data does not fit the table. Nothing is committed.
    ConflictError
        If another commit has changed the same rows meanwhile.
    UnsupportedFeatureError
        If pypaimon does not write such tables.

    Examples
    --------
    >>> import pyarrow as pa, smalti.paimon
    >>> path = smalti.paimon.create("lake/kv", pa.schema([("k", pa.int64()), ("v", pa.string())]), primary_key=["k"],
    ...                             options={"bucket": "1"})
    >>> for value in ("old", "new"):
    ...     _ = smalti.paimon.write(path, pa.table({"k": [1], "v": [value]}))
    >>> smalti.paimon.dataset(path).to_table().to_pydict()
    {'k': [1], 'v': ['new']}
    """
    job = Job(replaced_partition(mode, partition))
    opened = open_for_commit(table, storage).table
    writer = RowWriter(opened, job)
    try:
        for batch in _batches(data):
            writer.write(batch)
        messages = writer.finish()
    except BaseException:
        writer.abort()
        raise
    return commit(opened, job, messages)


def _batches(data: Any) -> Iterable[pa.RecordBatch]:
    return data.scan().to_batches() if isinstance(data, Scannable) else arrow_batches(data)
