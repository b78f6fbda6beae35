"""Writing a table: what is checked before rows are staged, the commit that makes them visible, and `write_dataset`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack, get_args

import pyarrow as pa

from smalti.errors import MosaicError, SchemaError
from smalti.file.reader import MosaicFile
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, locate
from smalti.logical.intake import arrow_batches, batch_reader
from smalti.logical.widen import unify_schemas
from smalti.options import WriterOptions, WriterOptionValues
from smalti.sizes import FILE_BYTES
from smalti.table.committing import Change
from smalti.table.listing import FoundFile, list_files, list_table, open_found, read_again
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, final_path, new_token, partition_directory, unique_names
from smalti.table.paimon_layout import listed_to_write
from smalti.table.partitions import check_partition_columns
from smalti.table.records import Mode
from smalti.table.staging import DirectoryPlan, StagingWriter, WrittenFile, most_open_files
from smalti.units import show_bytes, show_count

WriteMode = Literal["error", "append", "overwrite", "overwrite_partitions"]
_MODES: Mapping[str, Mode] = {
    "error": "create",
    "append": "append",
    "overwrite": "overwrite",
    "overwrite_partitions": "dynamic",
}


# --- shared with Spark ----------------------------------------------------------------------------------------------


def check_fits(plan: DirectoryPlan, name: str) -> int | None:
    """Refuse rows, which messages call `name`, that could not be read together with the rows of the table.

    Files are looked into, the latest first, until each column of the rows was found: mostly that is one file.
    Returns the number of the record that the table was listed at, for the commit (`Change.since`).
    """
    root, schema = plan.root, plan.file_schema

    def check() -> int | None:
        try:
            with listed_to_write(root):
                listing = list_files(root, globs=False)
        except FileNotFoundError:
            return None
        missing = set(schema.names)
        for file in sorted(listing.files, key=lambda file: -file.modified):
            if not missing:
                break
            check_partitioned_alike(plan, file)
            with MosaicFile(open_found(file, root.filesystem)) as opened:
                found = opened.column_names
                if not missing.isdisjoint(found):
                    unify_schemas([(file.path, opened.schema), (name, schema)])
                missing.difference_update(found)
        return listing.state.number

    return read_again(check, lambda: None)


def check_partitioned_alike(plan: DirectoryPlan, file: FoundFile) -> None:
    """Refuse to write beside a file whose directories spell other columns, which could not be read together."""
    if list(file.partition) != list(plan.partition_by):
        raise SchemaError(
            "the table is partitioned in another way",
            path=plan.root.path,
            found=list(plan.partition_by),
            expected=list(file.partition),
        )


def stage_empty(plan: DirectoryPlan) -> list[WrittenFile]:
    """Stage a file without rows, in the partition of nulls, if any: it keeps the schema of an empty table."""
    writer = StagingWriter(plan, "empty")
    writer.start_file(partition_directory([(name, None) for name in plan.partition_by]))
    return writer.finish()


def commit_staged(
    change: Change, job: str, staged: Sequence[str], stream: str | None = None, batch: int | None = None
) -> dict[str, str]:
    """Give staged files names that never come back, and make them visible; return the names."""
    token = new_token()
    names = unique_names({path: final_path(path) for path in sorted(staged, key=final_path)}, token)
    change.commit(job, names, token, stream=stream, batch=batch)
    return names


# --- write_dataset --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DatasetSummary:
    """What `write_dataset` has written.

    Attributes
    ----------
    path : str
        The directory of the table.
    num_rows : int
        Rows that were written.
    files : tuple of WrittenFile
        Their `path` is relative to the directory.
    """

    path: str
    num_rows: int
    files: tuple[WrittenFile, ...] = field(repr=False)

    @property
    def num_files(self) -> int:
        return len(self.files)

    @property
    def num_bytes(self) -> int:
        """Bytes that were written."""
        return sum(file.num_bytes for file in self.files)

    @property
    def partitions(self) -> list[str]:
        """The directories of partitions that have got rows, such as ``day=2026-01-31``."""
        return list(dict.fromkeys(file.path.rpartition("/")[0] for file in self.files if "/" in file.path))

    def __repr__(self) -> str:
        inside = f" in {show_count(len(self.partitions), 'partition')}" if self.partitions else ""
        return (
            f"DatasetSummary: {show_count(self.num_rows, 'row')} to {show_count(self.num_files, 'file')}{inside}, "
            f"{show_bytes(self.num_bytes)}"
        )


def write_dataset(
    data: Any,
    path: AnyPath,
    *,
    partition_by: str | Sequence[str] = (),
    mode: WriteMode = "error",
    schema: pa.Schema | None = None,
    options: WriterOptions | None = None,
    max_file_bytes: int = FILE_BYTES,
    max_file_rows: int | None = None,
    keep: float | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    **option_values: Unpack[WriterOptionValues],
) -> DatasetSummary:
    """Write rows to a directory of Mosaic files, in one commit: readers see all of them or none.

    Rows are written as they come, in bounded memory: beside the batch at hand, open files hold at most 256 MiB of rows
    and as much of everything else. Several processes may write to a table at once; none loses a row of another.

    Parameters
    ----------
    data : pyarrow.Table, RecordBatchReader, pandas or Polars frame, or any other object with an Arrow stream
        Or an iterable of such objects with one schema, for example a generator of batches.
    path : str or os.PathLike
        A directory, which need not exist; a local path or a URI.
    partition_by : str or sequence of str
        Columns whose values become directories (``day=2026-01-31``) and are not stored in files. See `smalti.dataset`
        for the types that they are read in. Rows should have few different values of them, or be sorted by them:
        the more partitions get rows in turn, the smaller are the row groups and files of each.
    mode : {"error", "append", "overwrite", "overwrite_partitions"}
        What happens to the files of a table that is there: they are an error, stay, or are removed, all of them or
        those of the partitions that get rows. They are removed when the new files are complete.
    schema : pyarrow.Schema, optional
        The schema of an iterable, by default that of its first batch.
    options : WriterOptions, optional
    max_file_bytes, max_file_rows : int, optional
        Begin another file when one has about `max_file_bytes`, by default 256 MiB, or exactly `max_file_rows`.
    keep : float, optional
        For how many hours removed files are kept where only smalti finds them, so that whoever has listed the table
        before can read on.
    filesystem, storage_options
        As in `smalti.open`.
    **option_values
        Options of the writer by name, instead of `options`; see `WriterOptions`.

    Raises
    ------
    FileExistsError
        If the table has files and `mode` is "error".
    ConflictError
        If another process has put files there meanwhile, and `mode` is "error".
    SchemaError
        If the rows cannot be read together with those that stay, or are partitioned in another way.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> sales = pa.table({"year": [2025, 2025, 2026], "item": ["a", "b", "c"]})
    >>> smalti.write_dataset(sales, "shop", partition_by="year").partitions
    ['year=2025', 'year=2026']
    >>> summary = smalti.write_dataset(sales.slice(2), "shop", partition_by="year", mode="append")
    >>> smalti.dataset("shop").count_rows([("year", "=", 2026)])
    2
    """
    if mode not in get_args(WriteMode):
        raise MosaicError("unknown mode", found=mode, expected=" or ".join(map(repr, get_args(WriteMode))))
    names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if mode == "overwrite_partitions" and not names:
        raise MosaicError('mode "overwrite_partitions" needs columns to partition by', expected="partition_by=[...]")
    for name, value in (("max_file_bytes", max_file_bytes), ("max_file_rows", max_file_rows), ("keep", keep)):
        if value is not None and value <= 0:
            raise MosaicError(f"{name} must be positive", found=value)
    writer_options = WriterOptions.of(
        options, option_values, ("partition_by", "mode", "max_file_bytes", "max_file_rows")
    )
    reader = batch_reader(data, schema)
    check_partition_columns(names, reader.schema)
    root = locate(path, filesystem, storage_options).absolute()
    plan = DirectoryPlan(
        uuid.uuid4().hex, root, reader.schema, names, writer_options, max_file_bytes, max_file_rows or 0
    )
    if root.is_file():
        raise FileExistsError(17, "A file, where a directory is to be written", root.path)
    since = None
    if mode in ("append", "overwrite_partitions"):
        since = check_fits(plan, "the new rows")
    elif list_table(root).files and mode == "error":
        text = 'There are files; mode="append" adds to them, mode="overwrite" replaces them'
        raise FileExistsError(17, text, root.path)
    return _write(plan, arrow_batches(reader), Change(root, _MODES[mode], keep=keep, since=since))


def _write(plan: DirectoryPlan, batches: Iterator[pa.RecordBatch], change: Change) -> DatasetSummary:
    """Stage all rows, then commit. After an error nothing stays behind."""
    try:
        writer = StagingWriter(plan, "0", most_open=most_open_files(len(plan.schema)))
        try:
            for batch in batches:
                writer.write(batch)
                del batch
            files = writer.finish()
        except BaseException:
            writer.abort()
            raise
        if not files and (change.mode != "append" or not list_table(plan.root).files):
            files = stage_empty(plan)
        names = commit_staged(change, plan.job, [file.path for file in files])
    except BaseException:
        CommitLog(plan.root).discard([f"{JOBS}/{plan.job}"], unless_pending=True)
        raise
    written = tuple(WrittenFile(names[file.path], file.num_rows, file.num_bytes) for file in files)
    return DatasetSummary(plan.root.path, sum(file.num_rows for file in files), written)
