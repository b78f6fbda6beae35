"""`merge`: rows of a table are updated by rows of other data with the same keys, and rows that are new are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import pyarrow as pa

from smalti._compat.arrow import null_array
from smalti.errors import MosaicError, SchemaError
from smalti.io.locations import AnyPath, Location
from smalti.jobs.change_columns import change_values
from smalti.jobs.change_data import Chunk, KeyedRows
from smalti.jobs.change_job import OpenTable, RunValues, run_change
from smalti.jobs.change_plan import check_columns_exist
from smalti.jobs.change_rows import key_bounds, merged_values, unmatched_rows
from smalti.jobs.change_task import MATCHED, ChangeSettings, FileChange, stage_rows
from smalti.jobs.engine import run_tasks
from smalti.jobs.formats.writers import with_statistics
from smalti.jobs.given_data import GivenData, key_names
from smalti.jobs.keys import refuse_fractions_as_text
from smalti.jobs.summary import ChangeReport, SplitResult
from smalti.logical.adapt import fit_array
from smalti.options import WriterOptions
from smalti.progress import Meter, Report
from smalti.table.staging import DirectoryPlan

#: Values that are made at a time when rows of the data are widened to all columns of the table.
_BATCH_CELLS = 4_000_000


def merge(
    table: AnyPath,
    data: Any,
    on: str | Sequence[str],
    when_matched: str = "update",
    when_not_matched: str = "insert",
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
        table in chunks then, of which one at a time is in memory for each task. Partition columns say where rows are
        inserted, and rows that are updated move to the partition that the data says.
    on : str or sequence of str
        Key columns. Two rows of the data with the same key are refused. A null key matches nothing, so rows of the data
        with a null key are inserted each time.
    when_matched : {"update", "ignore"}
        Whether rows of the table get the values of the data, or stay as they are.
    when_not_matched : {"insert", "ignore"}
        What becomes of rows of the data whose keys the table does not have.
    **run
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
    keys, given = key_names(on), GivenData.of(data, run)
    identity = None if given.identity is None else [given.identity, keys, when_matched, when_not_matched]
    inserts, null_keys = when_not_matched == "insert", 0
    rows: KeyedRows

    def prepare(opened: OpenTable) -> FileChange:
        nonlocal rows, null_keys
        names = [name for name in given.schema.names if name not in keys]
        check_columns_exist(names, opened.schema.names, (), "in the table; add_columns adds new ones")
        partitions = [opened.schema.field(name) for name in names if name in opened.partitions]
        for field in partitions:
            refuse_fractions_as_text(given.schema.field(field.name), field)
        updated = [name for name in names if name not in opened.partitions] if when_matched == "update" else []
        missing = [name for name in opened.partitions if name not in given.schema.names]
        if inserts and missing:
            raise SchemaError(
                "rows cannot be inserted, because the data lacks a column that the table is partitioned by",
                column=missing[0],
            )
        rows, null_keys = given.by_keys(opened, keys)
        for name in names:  # Refuse other types before all.
            fit_array(null_array(0, given.schema.field(name).type), opened.schema.field(name))
        fields = tuple(opened.schema.field(name) for name in updated)
        in_file = inserts if opened.target.is_file else None
        kept = partitions if when_matched == "update" else []
        values = partial(merged_values, rows, key_bounds(rows), fields, in_file, kept)
        return FileChange(partial(change_values, fields, values, None), files=opened.plan_files() if kept else None)

    def finish(opened: OpenTable, settings: ChangeSettings, done: Sequence[SplitResult]) -> list[Any]:
        notes = SplitResult(peak_memory=0, counts={"null_keys": null_keys})
        if opened.target.is_file:
            return [notes]
        matched = _all_matched(settings, done)
        notes.counts["rows_unmatched"] = left = rows.num_rows - len(matched)
        if not inserts or not left:
            return [notes]
        if settings.is_dry:
            notes.counts.update({"rows": left, "rows_inserted": left, "files": 1})
            return [notes]
        with opened.snapshot.open(opened.snapshot.files[0]) as first:
            statistics = first.row_group(0).raw_statistics if first.num_row_groups else ()
        plan, options = opened.plan_files(), settings.options or WriterOptions()
        work = partial(
            insert_chunk, replace(plan, writer=with_statistics(options, plan.file_schema, statistics)), matched
        )
        tasks = list(enumerate(rows.chunks))
        return [notes, *run_tasks(opened.executor, work, tasks, Meter("merge", 0, 0, None))]

    return run_change("merge", table, identity, prepare, finish, **run)


def _all_matched(settings: ChangeSettings, results: Sequence[SplitResult]) -> Any:
    """The numbers of all rows of the data that some file has a match for."""
    found = [result.counts["matched"] for result in results if "matched" in result.counts]
    if not settings.is_dry:
        staged = (Location(settings.staging.root.filesystem, path).read_bytes() for path in found)
        found = [pa.ipc.read_record_batch(pa.py_buffer(data), MATCHED).column(0) for data in staged]
    return pa.chunked_array(found, pa.int64()).unique()


def insert_chunk(
    plan: DirectoryPlan, matched: Any, task: tuple[int, Chunk], report: Report
) -> SplitResult | MosaicError:
    """Write the rows of a chunk that no row of the table has the keys of: files for each partition."""
    number, chunk = task
    rows = unmatched_rows(chunk, matched)
    try:
        batches = rows.to_batches(max_chunksize=max(1, _BATCH_CELLS // len(plan.schema)))
        staged = stage_rows(plan, f"insert-{number:06d}", number, batches, ())
    except MosaicError as error:
        return error
    report(rows.num_rows, 0)
    counts = {"rows": rows.num_rows, "rows_inserted": rows.num_rows, "files": len(staged)}
    counts["bytes_encoded"] = sum(file.num_bytes for file in staged)
    return SplitResult(staged, counts=counts)
