"""Writing, on the driver: what is checked before tasks write, and the commit that makes their files visible."""

from __future__ import annotations

import hashlib
import json
import pickle
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from pyspark.sql.types import StructType

from smalti.errors import ConflictError, LeftoverWarning, MosaicError, PaimonTableError
from smalti.io import locate, write_whole
from smalti.io.services import service_of
from smalti.spark.options import WriteOptions
from smalti.spark.task.write import DirectoryWritePlan
from smalti.spark.types import stored_schema
from smalti.table.committing import Change
from smalti.table.listing import Listing, list_table
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, attempt_directory
from smalti.table.paimon_layout import refuse_writing
from smalti.table.partitions import check_partition_columns, partition_value
from smalti.table.records import FileId, Mode
from smalti.table.writing import check_fits, check_partitioned_alike, commit_staged, stage_empty

if TYPE_CHECKING:
    from smalti.spark.paimon_write import PaimonWrite

#: How rows come to a table. "error" and "ignore" need a table without files. If another job has written to the table
#: meanwhile, "error" raises, and "ignore" leaves the rows out.
SaveMode = Literal["append", "overwrite", "error", "ignore"]
#: The partition that is replaced, by the values of its columns as text.
Partition = Mapping[str, str | None]


def begin_write(
    options: WriteOptions,
    rows: StructType,
    mode: SaveMode,
    partition: Partition | None = None,
    *,
    streams: bool = False,
) -> DirectoryWrite | PaimonWrite:
    """Check what can be checked before a task starts, and return the write.

    `partition` is the one that "overwrite" replaces; by default it replaces all. `streams` says whether batches of a
    stream are committed.
    """
    kind = StreamWrite if streams else DirectoryWrite
    try:
        return kind(options, rows, mode, partition or {})
    except PaimonTableError as error:
        if PurePosixPath(error.place["path"]) != PurePosixPath(options.root.path):
            raise  # The directory lies within a Paimon table.
    from smalti.spark.paimon_write import PaimonWrite

    return PaimonWrite(options, rows, mode, partition or {}, streams=streams)


class DirectoryWrite:
    """One `df.write...save()` to a plain directory.

    Java keeps it, pickled, from the question `begin` to `commit` or `abort`, and sends its `plan` to the tasks.
    By the columns of `order`, the rows of a task are sorted before they are written.
    """

    def __init__(self, options: WriteOptions, rows: StructType, mode: SaveMode, partition: Partition) -> None:
        schema = stored_schema(rows)
        check_partition_columns(options.partition_by, schema)
        limits = (options.max_file_bytes, options.max_records_per_file)
        self.plan = DirectoryWritePlan(
            uuid.uuid4().hex, options.root, schema, options.partition_by, options.writer, *limits
        )
        self.order = options.partition_by
        replacing: Mode = "dynamic" if options.partition_overwrite_mode == "dynamic" else "overwrite"
        self._mode: Mode = replacing if mode == "overwrite" else "append" if mode == "append" else "create"
        self._ignores = mode == "ignore"
        self._replaced = partition
        self._keep = options.keep
        self._success_file = options.success_file
        #: The number of the table's last record when the write has begun, if other rows of the table stay.
        self._since: int | None = None
        # A Paimon table is refused before a task starts; a table that is appended to has to be listed for that anyway.
        if self._mode in ("overwrite", "create"):
            refuse_writing(self.plan.root)
            # New rows of a partition are not compared with the replaced ones, which need not be readable.
            self._since = list_table(self.plan.root).state.number if partition else None
        else:
            self._since = check_fits(self.plan, "the DataFrame")

    def commit(self, messages: Sequence[bytes], batch: int | None = None) -> None:  # noqa: ARG002
        """Make visible what the tasks have staged. `batch` is the number of a stream's batch."""
        staged = staged_files(messages)
        root = self.plan.root
        if not staged and not self._replaced and (self._mode == "overwrite" or not list_table(root).files):
            staged = [file.path for file in stage_empty(self.plan)]
        replaceable = partial(self._replaceable, writes=bool(staged))
        try:
            change = Change(root, self._mode, replaceable=replaceable, keep=self._keep, since=self._since)
            commit_staged(change, self.plan.job, staged)
        except ConflictError:
            # Rows are left out only if the table has others: whatever else is in the way stays an error.
            if not self._ignores or not list_table(root).files:
                raise
            CommitLog(root).discard([f"{JOBS}/{self.plan.job}"])
            return
        if self._success_file:
            try:
                write_whole(root.child("_SUCCESS"), b"")
            except OSError as error:  # The rows are there: a job that is run again would append them twice.
                text = f"{root.path}: the commit has happened, but _SUCCESS cannot be written: {error}"
                warnings.warn(text, LeftoverWarning, stacklevel=2)

    def abort(self, messages: Sequence[bytes]) -> None:  # noqa: ARG002
        """Remove what the tasks have staged."""
        CommitLog(self.plan.root).discard([f"{JOBS}/{self.plan.job}"], unless_pending=True)

    def _replaceable(self, listing: Listing, *, writes: bool) -> dict[str, FileId]:
        """The files that an overwrite may remove: all, or those of the partition that INSERT OVERWRITE names."""
        if not self._replaced:
            return listing.ids
        for file in listing.files:
            if writes or not self._replaced.keys() <= file.partition.keys():
                check_partitioned_alike(self.plan, file)
        types = {name: self.plan.schema.field(name) for name in self._replaced}
        wanted = {name: partition_value(self._replaced, field) for name, field in types.items()}
        kept = [
            file
            for file in listing.files
            if all(partition_value(file.partition, field) == wanted[name] for name, field in types.items())
        ]
        return replace(listing, files=kept).ids if kept else {}


class StreamWrite(DirectoryWrite):
    """Batches of a stream. A batch that Spark runs again after a failure is known by its number, and left out."""

    def __init__(self, options: WriteOptions, rows: StructType, mode: SaveMode, partition: Partition) -> None:
        if options.stream_id is None:
            raise MosaicError(
                "a stream needs a name that lasts: set option checkpointLocation on the writer, or streamId"
            )
        query_name(options)  # Fail now rather than at the first commit if the checkpoint cannot be read.
        self._options = options
        super().__init__(replace(options, partition_overwrite_mode=None), rows, mode, partition)

    def commit(self, messages: Sequence[bytes], batch: int | None = None) -> None:
        change = Change(self.plan.root, self._mode, since=self._since)
        commit_staged(change, self.plan.job, staged_files(messages), query_name(self._options), batch)

    def abort(self, messages: Sequence[bytes]) -> None:
        """Remove only what these tasks have staged, because other batches are staged under the same job."""
        attempts = set(map(attempt_directory, staged_files(messages)))
        CommitLog(self.plan.root).discard(attempts, unless_pending=True)


def staged_files(messages: Sequence[bytes]) -> list[str]:
    """The staged files that the answers of the tasks name, relative to the table."""
    return [path for message in messages for path in pickle.loads(message)]


def query_name(options: WriteOptions) -> str:
    """The name of a query across restarts: the id that Spark keeps in its checkpoint, or else the given name itself."""
    given = options.stream_id
    assert given is not None
    storage = options.storage if service_of(given) == service_of(options.path) else {}
    try:
        given = str(json.loads(locate(given, storage_options=storage).child("metadata").read_bytes())["id"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        pass  # It is a name of the user's own, or a place that only Spark can reach.
    except OSError as error:  # Under another name, batches that have been written would be written again.
        raise MosaicError(
            "the checkpoint cannot be read, so the query is not known again: set option streamId",
            path=given,
            found=str(error),
        ) from None
    return hashlib.sha256(given.encode()).hexdigest()[:32]
