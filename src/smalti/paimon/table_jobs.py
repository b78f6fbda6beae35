"""Jobs on Paimon tables: convert files into one, verify the files of a snapshot, profile its rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from smalti.errors import UnsupportedFeatureError
from smalti.file.writer import write_table
from smalti.io.locations import AnyFileSystem
from smalti.jobs.formats.registry import format_of_source
from smalti.jobs.formats.tables import FormatTable
from smalti.jobs.profile_job import Profile
from smalti.jobs.profile_job import profile as profile_files
from smalti.jobs.source_files import AnySource, list_sources
from smalti.jobs.summary import JobSummary
from smalti.jobs.verify_job import VerifyReport
from smalti.jobs.verify_job import verify as verify_files
from smalti.paimon.dataset import PaimonDataset, dataset
from smalti.paimon.split_reader import SplitReader
from smalti.paimon.tables import AnyTable, open_for_commit
from smalti.paimon.writing import Job, Mode, commit, replaced_partition, write_files
from smalti.predicate.python import AnyFilter
from smalti.progress import Listener
from smalti.spec import FILE_SUFFIX
from smalti.table.staging import WrittenFile


def convert(
    source: AnySource,
    table: AnyTable,
    mode: Mode = "append",
    *,
    source_format: str | None = None,
    columns: Sequence[str] | None = None,
    where: AnyFilter | str = None,
    progress: Listener | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: Mapping[str, Any] | None = None,
    plain: bool = False,
) -> JobSummary:
    """Write the rows of files to a Paimon table, in one commit.

    Parameters
    ----------
    source : path, URI, glob or list of them
        Files of any format that `smalti.jobs.convert` reads. Columns are matched by name, and directories called
        ``key=value`` are columns too. CSV and JSON lines are read in the types of the table.
    table : path, URI, or table of a pypaimon catalog
    mode : {"append", "overwrite"}
        As in `smalti.paimon.write`.
    source_format, columns, where, progress, filesystem, plain
        As in `smalti.jobs.convert`; `filesystem` is the source's.
    storage_options : mapping, optional
        Credentials and endpoints for the URI of the table.

    Examples
    --------
    >>> import pyarrow as pa, smalti.paimon
    >>> _ = open("people.csv", "w").write("id,name\\n1,Ada\\n2,Bo\\n")
    >>> path = smalti.paimon.create("lake/csv", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    >>> smalti.paimon.convert("people.csv", path).num_rows
    2
    """
    began = time.monotonic()
    listing = list_sources(source, filesystem, plain=plain)
    formats = format_of_source([file.path for file in listing.files], source_format)
    opened, job = open_for_commit(table, storage_options), Job(replaced_partition(mode))
    files = FormatTable(listing, formats, opened.schema_of())
    rows = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in files.scan(columns, where, progress=progress).to_batches():
            rows += batch.num_rows
            yield batch

    messages = write_files(batches(), opened.table, job)
    commit(opened.table, job, messages)
    written = [file for message in messages for file in message.new_files]
    return JobSummary(
        "convert",
        "paimon",
        str(listing.base.path),
        opened.path,
        num_rows=rows,
        source_files=len(listing.files),
        source_bytes=sum(file.size for file in listing.files),
        files=tuple(WrittenFile(str(file.physical_path()), file.row_count, file.file_size) for file in written),
        seconds=time.monotonic() - began,
    )


def verify(table: AnyTable, *, storage_options: Mapping[str, Any] | None = None, **options: Any) -> VerifyReport:
    """Check the Mosaic files of a snapshot, as `smalti.jobs.verify` does.

    Parameters
    ----------
    table, storage_options
        As in `smalti.paimon.dataset`.
    **options
        `snapshot`, `tag` and `timestamp` of `smalti.paimon.dataset`; the others are those of `smalti.jobs.verify`.
    """
    opened = dataset(table, storage_options=storage_options, **_travel(options))
    paths, filesystem = _mosaic_files(opened)
    if not paths:
        return VerifyReport((), "local", 0.0)
    return verify_files(paths, filesystem=filesystem, plain=True, **options)


def profile(table: AnyTable, *, storage_options: Mapping[str, Any] | None = None, **options: Any) -> Profile:
    """Null counts, bounds and distinct values of the columns of a snapshot, as `smalti.jobs.profile` finds them.

    Where files hold other rows than the table, as with primary keys, or not all of its columns, the rows are copied to
    a temporary file first; encodings and bytes are then those of the copy.

    Parameters
    ----------
    table, storage_options
        As in `smalti.paimon.dataset`.
    **options
        `snapshot`, `tag` and `timestamp` of `smalti.paimon.dataset`; the others are those of `smalti.jobs.profile`.
    """
    opened = dataset(table, storage_options=storage_options, **_travel(options))
    if _files_are_rows(opened):
        paths, filesystem = _mosaic_files(opened)
        found = profile_files(paths, filesystem=filesystem, plain=True, **options)
    else:
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, f"rows{FILE_SUFFIX}")
            write_table(opened, copy)
            found = profile_files(copy, **options)
    return replace(found, source=opened.table.path)


def _travel(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options that choose a snapshot out of `options`, and return them."""
    return {name: options.pop(name) for name in ("snapshot", "tag", "timestamp") if name in options}


def _mosaic_files(opened: PaimonDataset) -> tuple[list[str], AnyFileSystem]:
    """The Mosaic files of a snapshot, and the file system that they are on."""
    locations = [opened.table.locate(path) for path in opened.files if path.endswith(FILE_SUFFIX)]
    reached = [location for location in locations if location is not None]
    if len(reached) < len(locations):
        raise UnsupportedFeatureError("only pypaimon reaches the files of this table", path=opened.table.path)
    return [location.path for location in reached], reached[0].filesystem if reached else None


def _files_are_rows(opened: PaimonDataset) -> bool:
    """Whether the files of a snapshot have exactly the rows and columns of the table, and smalti reaches them."""
    reader, table, splits = SplitReader(opened.table, opened.schema), opened.table.table, opened.splits()
    is_reached = opened.table.locate(opened.table.path) is not None
    return (
        bool(splits)
        and is_reached
        and not table.is_primary_key_table
        and all(
            reader.is_raw(split)
            and not any(split.data_deletion_files or ())
            and all(file.schema_id == table.table_schema.id for file in split.files)
            for split in splits
        )
    )
