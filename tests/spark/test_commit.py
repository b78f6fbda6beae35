"""What Spark's tasks read of a table while a commit is carried out; `tests.table.test_log` has the protocol."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

import smalti
from smalti import jobs
from smalti.errors import ConflictError
from smalti.spark.driver.plan import Table
from smalti.spark.driver.write import DirectoryWrite, begin_write
from smalti.spark.options import ReadOptions, parse_write_options
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


@pytest.mark.parametrize(("mode", "partition"), [("dynamic", {}), ("static", {"p": "1"})])
def test_overwritten_partitions_bring_no_columns_back(tmp_path: Path, mode: str, partition: dict[str, str]) -> None:
    """Columns that were dropped while INSERT OVERWRITE .. PARTITION ran, although other rows of the table stay."""
    rows = pa.table({"x": [1, 2], "gone": [3, 4], "p": [1, 2]})
    smalti.write_dataset(rows, tmp_path, partition_by="p")
    given = {"path": str(tmp_path), "partitionby": "p", "partitionoverwritemode": mode}
    schema = StructType().add("x", LongType())
    wide = StructType([*schema, *StructType().add("gone", LongType()).add("p", IntegerType())])
    writing = begin_write(parse_write_options(given), wide, "overwrite", partition)
    assert isinstance(writing, DirectoryWrite)
    message = writing.plan.write(0, rows.slice(0, 1).to_batches())
    jobs.drop_columns(tmp_path, "gone")
    with pytest.raises(ConflictError, match="columns"):
        writing.commit([message])
    assert smalti.dataset(tmp_path).to_table().sort_by("x").to_pydict() == {"x": [1, 2], "p": [1, 2]}
    again = begin_write(parse_write_options(given), schema.add("p", IntegerType()), "overwrite", partition)
    assert isinstance(again, DirectoryWrite)
    again.commit([again.plan.write(0, pa.table({"x": [9], "p": [1]}).to_batches())])
    assert smalti.dataset(tmp_path).to_table(["x"])["x"].to_pylist() == [9, 2]
