"""Rows into Paimon tables: written by pypaimon's writers, with smalti's writer of files inside, in one commit.

`write_files` writes data files and returns what has to be committed; `commit` makes them visible. Spark calls the
former in its tasks and the latter on the driver. `write` calls both.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
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
from smalti.paimon.tables import AnyTable, PaimonTable, open_for_commit

Mode = Literal["append", "overwrite"]


@dataclass(frozen=True)
class Job:
    """One write: what it replaces, and under which name it commits.

    Attributes
    ----------
    replaces : dict of str to str, optional
        None to append. Otherwise the partition whose rows are replaced. An empty one stands for the whole table, or,
        if the table is partitioned and `dynamic` is set, for the partitions that are written.
    dynamic : bool, optional
        By default what the option ``dynamic-partition-overwrite`` of the table says.
    user : str
        Paimon's "commit user", by which it knows that the files of several writers and a commit are one job.
    """

    replaces: dict[str, str] | None = None
    dynamic: bool | None = None
    user: str = field(default_factory=lambda: str(uuid.uuid4()))

    def builder(self, table: FileStoreTable) -> Any:
        if self.dynamic is not None:
            table = table.copy_without_time_travel({"dynamic-partition-overwrite": str(self.dynamic).lower()})
        builder = table.new_batch_write_builder()._with_commit_user(self.user)
        return builder if self.replaces is None else builder.overwrite(self.replaces)


def check_names(table: FileStoreTable, names: Sequence[str]) -> None:
    """Refuse columns that the table does not have, and rows without a column that must not be null."""
    for name in names:
        if name not in table.field_dict:
            raise SchemaError("no such column in the table", path=table.table_path, found=name)
    given = set(names)
    for column in table.fields:
        if not column.type.nullable and column.name not in given:
            raise SchemaError("a column that must not be null is missing", path=table.table_path, column=column.name)


def write_files(batches: Iterable[pa.RecordBatch], table: FileStoreTable, job: Job) -> list[CommitMessage]:
    """Write data files of a table, which nobody sees until what this returns is committed.

    The columns of a batch are found by name, and those that it lacks are null. If writing fails, the files are removed.
    """
    schema: pa.Schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    if table.options.file_format() == "mosaic":
        refuse_rows(schema)
    with engine():
        try:
            writer = job.builder(table).new_write()
        except NotImplementedError as error:
            reason = f"pypaimon does not write such tables: {error}"
            raise UnsupportedFeatureError(reason, path=table.table_path) from None
        try:
            for batch in _fitting(batches, table, schema):
                writer.write_arrow_batch(batch)
            messages = list(writer.prepare_commit())
        except BaseException:
            writer.abort()
            raise
        writer.close()
        return messages


def _fitting(batches: Iterable[pa.RecordBatch], table: FileStoreTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches with the columns and types of the table."""
    required = [column.name for column in schema if not column.nullable]
    adapters: dict[tuple[str, ...], Adapter] = {}
    for batch in batches:
        names = tuple(batch.schema.names)
        if names not in adapters:
            check_names(table, names)
            adapters[names] = Adapter(schema, names)
        try:
            fitting = adapters[names].adapt(batch)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(f"values do not fit the table: {error}", path=table.table_path) from None
        for name in required:
            if fitting.column(name).null_count:
                raise SchemaError("null in a column that must not be null", path=table.table_path, column=name)
        yield fitting


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
    with closing(job.builder(table).new_commit()) as operation:
        operation.add_commit_callback(committed)
        try:
            operation.commit(list(messages))
        except RuntimeError as error:
            if "onflict" not in str(error):
                raise
            raise ConflictError(f"Paimon refuses the commit: {error}", path=table.table_path) from error
    return committed.snapshot


def discard(table: FileStoreTable, job: Job, messages: Sequence[CommitMessage]) -> None:
    """Remove the files of writers whose job is not committed."""
    with closing(job.builder(table).new_commit()) as operation:
        operation.abort(list(messages))


def replaced_partition(mode: str, partition: Mapping[str, object] | None = None) -> dict[str, str] | None:
    """What a mode replaces; see `Job`."""
    if mode not in ("append", "overwrite"):
        raise MosaicError("no such mode", found=mode, expected="append or overwrite")
    if mode == "append" and partition:
        raise MosaicError("a partition is given to replace it: that needs mode overwrite", found=dict(partition))
    return None if mode == "append" else {name: str(value) for name, value in (partition or {}).items()}


def write(
    data: Any,
    table: AnyTable,
    mode: Mode = "append",
    *,
    partition: Mapping[str, object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> int | None:
    """Write rows to a Paimon table, in one commit.

    Readers see all of the rows or none. If another process commits at the same moment, both commits are kept, unless
    Paimon finds that they conflict. In a table with a primary key, rows replace those of the same key.

    Parameters
    ----------
    data : pyarrow.Table, RecordBatch, RecordBatchReader, dataset, or anything with an Arrow stream
        Columns are matched by name. Types must fit those of the table without loss; missing columns are null.
    table : path, URI, or table of a pypaimon catalog
    mode : {"append", "overwrite"}
        Overwriting replaces the rows of `partition`. Without one it replaces all rows, or, in a partitioned table,
        those of the partitions that `data` has rows for, as Paimon's option ``dynamic-partition-overwrite`` says.
    partition : mapping, optional
        Values of partition columns.
    storage_options
        As in `smalti.paimon.dataset`.

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
    ...     _ = smalti.paimon.write(pa.table({"k": [1], "v": [value]}), path)
    >>> smalti.paimon.dataset(path).to_table().to_pydict()
    {'k': [1], 'v': ['new']}
    """
    if isinstance(data, (str, os.PathLike, FileStoreTable, PaimonTable)):
        raise TypeError("the data comes first, then the table: smalti.paimon.write(data, table)")
    job = Job(replaced_partition(mode, partition))
    opened = open_for_commit(table, storage_options).table
    batches = data.scan().to_batches() if isinstance(data, Scannable) else arrow_batches(data)
    return commit(opened, job, write_files(batches, opened, job))
