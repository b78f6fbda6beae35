"""What Spark's tasks read of a table while a commit is carried out; `tests.table.test_log` has the protocol."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from smalti.spark.driver.plan import Table
from smalti.spark.options import ReadOptions
from smalti.spark.task.read import Metrics, TaskScan
from smalti.table.listing import FoundFile
from smalti.table.names import JOBS
from smalti.table.splits import Piece
from tests.support.commits import NEW, OLD, STAGED_FILES, planned, table_in


def planned_files(root: Path) -> tuple[FoundFile, ...]:
    return tuple(Table(ReadOptions((str(root),))).files)


def rows_of(files: tuple[FoundFile, ...], root: Path) -> list[int]:
    pieces = [Piece(file, file.size) for file in files]
    scan = TaskScan(ReadOptions((str(root),)), pa.schema([("x", pa.int64())]))
    return sorted(value for _, batch in scan.batches(pieces, Metrics()) for value in batch["x"].to_pylist())


def test_a_commit_is_seen_from_its_record_on(tmp_path: Path) -> None:
    """Before the record, after it, after each step of carrying it out, and when it is done."""
    log = table_in(tmp_path)
    assert rows_of(planned_files(tmp_path), tmp_path) == OLD
    log.publish(planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    assert rows_of(planned_files(tmp_path), tmp_path) == NEW
    for number, staged in enumerate(STAGED_FILES, 1):
        (tmp_path / staged).rename(tmp_path / f"new{number}.mosaic")
        assert rows_of(planned_files(tmp_path), tmp_path) == NEW
    (tmp_path / "old.mosaic").unlink()
    assert rows_of(planned_files(tmp_path), tmp_path) == NEW
    log.finish_pending()
    assert rows_of(planned_files(tmp_path), tmp_path) == NEW


def test_tasks_find_files_that_moved_after_planning(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    log.publish(planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    files = planned_files(tmp_path)
    assert all(JOBS in file.path for file in files)
    log.finish_pending()
    assert rows_of(files, tmp_path) == NEW
