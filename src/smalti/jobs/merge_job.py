"""`merge`: rows of a table are updated by rows of other data with the same keys, and rows that are new are added."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import pyarrow as pa

from smalti._compat.arrow import null_array
from smalti.errors import MosaicError, SchemaError
from smalti.file.writer import MAX_AUTO_STATISTICS
from smalti.format.types import has_statistics
from smalti.io.locations import AnyPath, Location
from smalti.jobs.change_data import Chunk, KeyedRows, read_numbers
from smalti.jobs.change_job import OpenTable, RunOptions, RunValues, run_change
from smalti.jobs.change_plan import check_columns_exist
from smalti.jobs.change_rows import MergedRows, unmatched_rows
from smalti.jobs.change_task import ChangeSettings, FileChange
from smalti.jobs.copy_task import peak_memory
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.given_data import GivenData, key_names
from smalti.jobs.summary import ChangeReport, SplitResult, StagedFile
from smalti.logical.adapt import Adapter, widen_array
from smalti.logical.tree import plan_schema
from smalti.options import WriterOptions
from smalti.progress import Meter, Report
from smalti.spec import FILE_SUFFIX
from smalti.table.partitions import by_directory

#: Values that are made at a time when rows of the data are widened to all columns of the table.
_BATCH_CELLS = 4_000_000


def merge(
    table: AnyPath,
    data: Any,
    on: str | Sequence[str],
    when_matched: str = "update",
    when_not_matched: str = "insert",
    dry_run: bool = False,
    **run: Unpack[RunValues],
) -> ChangeReport:
    """Update the rows of a table that have the keys of other rows, and insert the others.

    Only key columns are read to find the rows. Of row groups with a matching row, the columns that the data has are
    encoded anew; everything else is copied as bytes, and files without a matching row are not touched. Rows that are
    inserted become files of their own, or a row group of a single file; columns that the data lacks are null in them.

    Parameters
    ----------
    table : path or URI
    data : Arrow data or path
        As in `add_columns`, with columns that the table has. It may be larger than memory: it is staged beside the
        table in chunks then, of which one at a time is in memory for each task.
    on : str or sequence of str
        Key columns. Two rows of the data with the same key are refused. A null key matches nothing, so rows of the data
        with a null key are inserted each time.
    when_matched : {"update", "ignore"}
        Whether rows of the table get the values of the data, or stay as they are.
    when_not_matched : {"insert", "ignore"}
        What becomes of rows of the data whose keys the table does not have.
    dry_run, **run
        As in `add_columns`.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> from smalti import jobs
    >>> _ = smalti.write_table(pa.table({"user": [1, 2], "age": [31, 42]}), "merged.mosaic")
    >>> report = jobs.merge("merged.mosaic", pa.table({"user": [2, 3], "age": [43, 54]}), on="user")
    >>> report.rows_updated, report.rows_inserted
    (1, 1)
    >>> smalti.read_table("merged.mosaic").to_pydict()
    {'user': [1, 2, 3], 'age': [31, 43, 54]}
    """
    for name, value, allowed in (
        ("when_matched", when_matched, ("update", "ignore")),
        ("when_not_matched", when_not_matched, ("insert", "ignore")),
    ):
        if value not in allowed:
            raise MosaicError(f"unknown {name}", found=value, expected=" or ".join(allowed))
    keys, options = key_names(on), RunOptions(dry_run, **run)
    given = GivenData.of(data, options.filesystem)
    identity = None if given.identity is None else [given.identity, keys, when_matched, when_not_matched]
    inserts, null_keys = when_not_matched == "insert", 0

    def prepare(opened: OpenTable) -> FileChange:
        nonlocal null_keys
        names = [name for name in given.schema.names if name not in keys]
        check_columns_exist(names, opened.schema.names, (), "in the table; add_columns adds new ones")
        updated = names if when_matched == "update" else []
        check_columns_exist(updated, opened.changeable, opened.partitions, "to update")
        missing = [name for name in opened.partitions if name not in given.schema.names]
        if inserts and missing:
            raise SchemaError(
                "rows cannot be inserted, because the data lacks a column that the table is partitioned by",
                column=missing[0],
            )
        rows, null_keys = given.by_keys(opened, keys)
        fields = tuple(opened.schema.field(name) for name in updated)
        for field in fields:
            widen_array(null_array(0, given.schema.field(field.name).type), field)  # Refuse other types before all.
        return MergedRows(rows, fields, inserts, opened.is_single)

    def finish(opened: OpenTable, settings: ChangeSettings, done: Sequence[SplitResult], meter: Meter) -> list[Any]:
        notes = SplitResult((), (), 0, {"null_keys": null_keys})
        if opened.is_single:
            return [notes]
        change = settings.change
        assert isinstance(change, MergedRows)
        matched = _all_matched(settings, done)
        left = change.rows.num_rows - len(matched)
        notes.counts["unmatched"] = left
        if not inserts or not left:
            return [notes]
        if settings.is_dry:
            notes.counts.update({"rows": left, "inserted": left, "files": 1})
            return [notes]
        statistics = _statistics(opened)
        insertion = Insertion(
            settings, change.rows, matched, tuple(opened.partitions), tuple(opened.stored), statistics
        )
        results = [notes]
        tasks = list(range(len(change.rows.chunks)))
        with closing(opened.executor.run(partial(insert_chunk, insertion), tasks, meter)) as inserted:
            for _, result in inserted:
                if isinstance(result, MosaicError):
                    raise result
                results.append(result)
        return results

    return run_change("merge", table, identity, prepare, options, finish)


def _all_matched(settings: ChangeSettings, results: Sequence[SplitResult]) -> Any:
    """The numbers of all rows of the data that some file has a match for."""
    found = [result.counts["matched"] for result in results if "matched" in result.counts]
    filesystem = settings.staging.root.filesystem
    arrays = [each if isinstance(each, pa.Array) else read_numbers(Location(filesystem, each)) for each in found]
    return pa.chunked_array(arrays, pa.int64()).unique()


def _statistics(opened: OpenTable) -> tuple[str, ...]:
    """The stored columns that have statistics in the first file, for the files of inserted rows."""
    with opened.snapshot.open(opened.snapshot.files[0]) as first:
        return tuple(first.row_group(0).raw_statistics) if first.num_row_groups else ()


@dataclass(frozen=True)
class Insertion:
    """What the tasks that insert rows have in common."""

    settings: ChangeSettings
    rows: KeyedRows
    matched: Any
    partitions: tuple[str, ...]
    stored: tuple[str, ...]
    statistics: tuple[str, ...]


def insert_chunk(insertion: Insertion, number: int, report: Report) -> SplitResult | MosaicError:
    """Write the rows of a chunk that no row of the table has the keys of: a file for each partition."""
    try:
        return _insert_chunk(insertion, insertion.rows.chunks[number], number, report)
    except MosaicError as error:
        return error


def _insert_chunk(insertion: Insertion, chunk: Chunk, number: int, report: Report) -> SplitResult:
    settings, schema = insertion.settings, insertion.settings.schema
    rows = unmatched_rows(chunk, insertion.matched)
    file_schema = pa.schema([schema.field(name) for name in insertion.stored]).with_metadata(schema.metadata or {})
    directory = settings.staging.attempt_directory(900_000 + number)
    writers: dict[str, Any] = {}
    files, counts = [], {"rows": rows.num_rows, "inserted": rows.num_rows}
    try:
        for batch in rows.to_batches(max_chunksize=max(1, _BATCH_CELLS // len(schema))):
            whole = Adapter(schema, batch.schema.names).adapt(batch)
            for partition, part in by_directory(whole, insertion.partitions, insertion.stored):
                if partition not in writers:
                    path = f"{directory}/{len(writers):05d}{FILE_SUFFIX}"
                    location = settings.staging.root.child(path)
                    location.parent.make_directory()
                    options = _options(insertion, file_schema)
                    writers[partition] = (path, FORMATS["mosaic"].writer(location, file_schema, options), [0])
                _, writer, count = writers[partition]
                writer.write(part.select(file_schema.names))
                count[0] += part.num_rows
            report(batch.num_rows, 0)
        for partition, (path, writer, count) in writers.items():
            writer.close()
            name = f"{partition}/part{FILE_SUFFIX}" if partition else f"part{FILE_SUFFIX}"
            size = settings.staging.root.child(path).info().size
            files.append(StagedFile(name, count[0], size, path, ()))
    except BaseException:
        for _, writer, _ in writers.values():
            writer.abort()
        raise
    counts |= {"files": len(files), "bytes_encoded": sum(file.num_bytes for file in files)}
    return SplitResult(tuple(files), (), peak_memory(), counts)


def _options(insertion: Insertion, schema: pa.Schema) -> WriterOptions:
    options = insertion.settings.options or WriterOptions()
    stored = plan_schema(schema).schema
    if len(stored) <= MAX_AUTO_STATISTICS:
        return options
    there = {field.name for field in stored if has_statistics(field.type)}
    return WriterOptions(threads=options.threads, stats_columns=tuple(n for n in insertion.statistics if n in there))
