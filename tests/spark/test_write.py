"""Writing through Spark: types, options, partitions, modes; tasks that fail, are retried, or are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext

import smalti
from smalti import jobs
from smalti.table.names import JOBS
from smalti.table.records import record_name
from tests.support import tables


def save(frame: Any, path: Path, mode: str = "append", **options: Any) -> None:
    frame.write.format("mosaic").mode(mode).options(**options).save(str(path))


def values(spark: Any, path: Path, column: str = "id") -> list[Any]:
    return sorted(row[0] for row in spark.read.format("mosaic").load(str(path)).select(column).collect())


def files(path: Path) -> list[str]:
    """What any reader of the directory sees."""
    return sorted(str(p.relative_to(path)) for p in path.rglob("*.mosaic") if JOBS not in p.parts)


def leftovers(path: Path) -> list[str]:
    """What jobs have left in their own place, but for the records of their commits."""
    found = [p for p in (path / JOBS).rglob("*") if p.is_file() and p.parent.name != "streams"]
    return [str(p) for p in found if not p.name.startswith("commit-")]


def test_every_type_there_and_back(spark: Any, tmp_path: Path) -> None:
    kinds = {k: t for k, t in tables.TYPES.items() if not k.startswith(("ts", "tz", "lm", "decneg", "time"))}
    table = tables.matrix(5, 30, kinds, nan=False)
    table = table.select([name for name in table.column_names if name.endswith(("_Pn", "_N"))])
    smalti.write_table(table, tmp_path / "in.mosaic")
    frame = spark.read.format("mosaic").load(str(tmp_path / "in.mosaic"))
    save(frame, tmp_path / "out")
    again = smalti.dataset(tmp_path / "out").to_table(table.column_names)
    for name in table.column_names:
        if pa.types.is_nested(table.field(name).type):
            assert again[name].to_pylist() == table[name].to_pylist(), name
        else:
            assert again[name].combine_chunks().equals(table[name].combine_chunks()), name


def test_times_there_and_back(spark: Any, tmp_path: Path) -> None:
    columns = {
        "ntz": pa.array([-1, 1_700_000_000_123_456, None], pa.timestamp("us")),
        "tz": pa.array([-1, 1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
        "time": pa.array([0, 86_399_999, None], pa.time32("ms")),
    }
    smalti.write_table(pa.table(columns), tmp_path / "in.mosaic")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")  # must leave no trace
    try:
        given = spark.read.format("mosaic").schema("ntz timestamp_ntz, tz timestamp, time time")
        save(given.load(str(tmp_path / "in.mosaic")), tmp_path / "out")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert smalti.dataset(tmp_path / "out").to_table().equals(pa.table(columns))


def test_options_reach_the_writer(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(1000, numPartitions=1).selectExpr("id", "id * 2 AS b", "string(id) AS s")
    save(frame, tmp_path / "t", numBuckets="2", rowGroupMaxRows="300", statsColumns="id,b", compression="none")
    with smalti.open(tmp_path / "t" / files(tmp_path / "t")[0]) as file:
        assert (file.num_buckets, file.num_row_groups) == (2, 4)
        assert set(file.row_group(0).statistics) == {"id", "b"}
        assert file.layout().compression == "none"
    save(frame, tmp_path / "all", statsColumns="all", rowGroupMaxBytes="1MB", checksum="false")
    with smalti.open(tmp_path / "all" / files(tmp_path / "all")[0]) as file:
        assert set(file.row_group(0).statistics) == {"id", "b", "s"}


def test_files_are_rolled(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(50_000, numPartitions=1).selectExpr("id", "hex(hash(id)) AS h")
    save(frame, tmp_path / "t", maxFileBytes="100KB", rowGroupMaxRows="2000")
    found = files(tmp_path / "t")
    assert 3 <= len(found) <= 20
    assert values(spark, tmp_path / "t") == list(range(50_000))


class TestModes:
    def test_append_and_overwrite(self, spark: Any, tmp_path: Path) -> None:
        path = tmp_path / "t"
        save(spark.range(3), path)
        save(spark.range(3, 5), path)
        assert values(spark, path) == [0, 1, 2, 3, 4]
        save(spark.range(7, 9), path, "overwrite")
        assert values(spark, path) == [7, 8]
        assert leftovers(path) == []

    def test_overwriting_by_another_spelling_of_the_path(self, spark: Any, tmp_path: Path) -> None:
        for value, path in [(1, f"{tmp_path}/t"), (2, f"file:{tmp_path}//./t"), (3, f"{tmp_path}/t/")]:
            frame = spark.createDataFrame([(value,)], "x int")
            frame.write.format("mosaic").mode("overwrite").save(path)
            assert [row.x for row in spark.read.format("mosaic").load(f"{tmp_path}/t").collect()] == [value]
        frame.write.format("mosaic").mode("append").save(f"{tmp_path}/t[1]")
        frame.write.format("mosaic").mode("overwrite").save(f"{tmp_path}/t[1]")
        assert spark.read.format("mosaic").load(f"{tmp_path}/t[1]").count() == 1

    def test_a_table_may_be_overwritten_with_itself(self, spark: Any, tmp_path: Path) -> None:
        save(spark.range(6), tmp_path / "t")
        save(spark.read.format("mosaic").load(str(tmp_path / "t")).where("id % 2 = 0"), tmp_path / "t", "overwrite")
        assert values(spark, tmp_path / "t") == [0, 2, 4]

    def test_no_rows(self, spark: Any, tmp_path: Path) -> None:
        save(spark.range(3), tmp_path / "t")
        save(spark.range(0), tmp_path / "t")
        assert values(spark, tmp_path / "t") == [0, 1, 2]
        save(spark.range(0), tmp_path / "t", "overwrite")
        assert spark.read.format("mosaic").load(str(tmp_path / "t")).dtypes == [("id", "bigint")]
        assert values(spark, tmp_path / "t") == []
        dated = spark.range(2).selectExpr("id", "id AS p")
        save(dated.where("id > 5"), tmp_path / "dated", partitionBy="p")
        save(dated, tmp_path / "dated", partitionBy="p")
        assert spark.read.format("mosaic").load(str(tmp_path / "dated")).dtypes == [("id", "bigint"), ("p", "int")]
        assert values(spark, tmp_path / "dated", "p") == [0, 1]

    def test_partitions(self, spark: Any, tmp_path: Path) -> None:
        path = tmp_path / "t"
        frame = spark.range(6).selectExpr("id", "id % 3 AS day", "if(id = 1, NULL, concat('a/b ', id % 2)) AS c")
        save(frame, path, partitionBy="day,c")
        assert {str(Path(name).parent) for name in files(path)} == {
            "day=0/c=a%2Fb%200",
            "day=0/c=a%2Fb%201",
            "day=1/c=__HIVE_DEFAULT_PARTITION__",
            "day=1/c=a%2Fb%200",
            "day=2/c=a%2Fb%200",
            "day=2/c=a%2Fb%201",
        }
        again = spark.read.format("mosaic").load(str(path)).select("id", "day", "c")
        assert sorted(map(tuple, again.collect())) == sorted(map(tuple, frame.collect()))

    @pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
    def test_two_that_create_the_same_table(self, spark: Any, tmp_path: Path, mode: str) -> None:
        """The slower one finds no table when it begins, and the rows of the faster one when it commits."""
        path, began = str(tmp_path / "t"), tmp_path / "began"

        def wait(batches: Iterator[Any]) -> Iterator[Any]:
            began.touch()
            while not (Path(path) / "_mosaic_jobs" / record_name(2)).exists():
                time.sleep(0.05)
            yield from batches

        slow = spark.range(3).coalesce(1).mapInPandas(wait, "id long")
        with ThreadPoolExecutor(1) as pool:
            slower = pool.submit(slow.write.format("mosaic").mode(mode).save, path)
            while not began.exists():
                time.sleep(0.05)
            spark.range(10, 12).write.format("mosaic").mode(mode).save(path)
            if mode == "ignore":
                slower.result()
            else:
                with pytest.raises(Exception, match="another job has written to the target meanwhile"):
                    slower.result()
        assert sorted(row.id for row in spark.read.format("mosaic").load(path).collect()) == [10, 11]
        assert [entry.name for entry in (tmp_path / "t/_mosaic_jobs").iterdir() if entry.is_dir()] == []

    def test_dynamic_overwrite(self, spark: Any, tmp_path: Path) -> None:
        path = tmp_path / "t"
        save(spark.range(6).selectExpr("id", "id % 3 AS day"), path, partitionBy="day")
        new = spark.range(100, 102).selectExpr("id", "1 AS day")
        save(new, path, "overwrite", partitionBy="day", partitionOverwriteMode="dynamic")
        assert values(spark, path) == [0, 2, 3, 5, 100, 101]
        save(new, path, "overwrite", partitionBy="day")
        assert values(spark, path) == [100, 101]


class TestRefused:
    """Before a task starts, and before anything is there."""

    @pytest.mark.parametrize(
        ("columns", "options", "message"),
        [
            ("id", {"numBukets": "3"}, r"unknown option 'numbukets' for writing Mosaic; there are .*numBuckets"),
            ("id", {"numBuckets": "0"}, r"num_buckets out of range: found 0"),
            ("id", {"compressionLevel": "high"}, r"option compressionLevel cannot be read: found 'high'"),
            ("id", {"partitionBy": "day"}, r"no column .day. to partition by"),
            ("id", {"partitionBy": "id"}, r"every column is partitioned by"),
            ("id", {"partitionOverwriteMode": "dynamic"}, r"dynamic needs partitionBy"),
            (
                "make_ym_interval(1) AS s",
                {},
                r"column 's': Spark type has no place in Mosaic: found interval year to month",
            ),
        ],
    )
    def test_options_and_types(self, spark: Any, tmp_path: Path, columns: str, options: Any, message: str) -> None:
        with pytest.raises(Exception, match=message):
            save(spark.range(3).selectExpr(columns), tmp_path / "t", **options)
        assert not (tmp_path / "t").exists()

    def test_what_does_not_fit_the_table(self, spark: Any, tmp_path: Path) -> None:
        save(spark.range(3), tmp_path / "t")
        with pytest.raises(Exception, match=r"column 'id': files disagree on the type"):
            save(spark.range(3).selectExpr("string(id) AS id"), tmp_path / "t")
        with pytest.raises(Exception, match=r"partitioned in another way.*expected \[\]"):
            save(spark.range(3).selectExpr("id", "1 AS p"), tmp_path / "t", partitionBy="p")
        assert values(spark, tmp_path / "t") == [0, 1, 2]


class TestFailures:
    """The table is as it was or has all rows once, whatever happens to tasks."""

    def test_failing_job_leaves_the_table(self, spark: Any, tmp_path: Path) -> None:
        path = tmp_path / "t"
        save(spark.range(3), path)
        before = files(path)

        def fail_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            if TaskContext.get().partitionId() == 1:
                raise RuntimeError("on purpose")

        doomed = spark.range(0, 4000, numPartitions=2).mapInArrow(fail_late, "id bigint")
        with pytest.raises(Exception, match="on purpose"):
            save(doomed, path, "overwrite")
        assert files(path) == before
        assert values(spark, path) == [0, 1, 2]
        assert leftovers(path) == []

    def test_killed_workers_are_retried_and_rows_come_once(self, spark: Any, tmp_path: Path) -> None:
        path, marker, attempts = tmp_path / "t", tmp_path / "killed", tmp_path / "attempts"
        attempts.mkdir()

        def kill_neighbours(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            """Once: let rows through, then end every other Python worker, the one that writes these rows among them."""
            context = TaskContext.get()
            (attempts / f"{context.partitionId()}-{context.attemptNumber()}").touch()
            yield from batches
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return
            me = psutil.Process()
            for daemon in me.parent().parent().children():
                for process in daemon.children():
                    if process.pid != me.pid:
                        os.kill(process.pid, signal.SIGKILL)

        frame = spark.range(0, 20_000, numPartitions=2).mapInArrow(kill_neighbours, "id bigint")
        save(frame, path, maxFileBytes="20KB", rowGroupMaxRows="1000")
        assert any(not path.name.endswith("-0") for path in attempts.iterdir())  # something was run again
        assert values(spark, path) == list(range(20_000))
        assert leftovers(path) == []

    def test_leftovers_are_invisible_and_cleaned(self, spark: Any, tmp_path: Path) -> None:
        path = tmp_path / "t"
        save(spark.range(3), path)
        stale = path / JOBS / "dead" / "0-x" / "part-0.mosaic"
        stale.parent.mkdir(parents=True)
        smalti.write_table(pa.table({"id": [99]}), stale)
        assert values(spark, path) == [0, 1, 2]
        assert smalti.dataset(path).count_rows() == 3
        assert jobs.clean(str(path)) == []
        assert jobs.clean(str(path), timedelta(0)) == ["dead"]
        assert leftovers(path) == []
        assert values(spark, path) == [0, 1, 2]
