"""Paimon tables through Spark: read by snapshot, written in one commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

import smalti
import smalti.paimon
import smalti.spark
from smalti.spark.driver.plan import find_table
from smalti.spark.driver.stream import DirectoryStream, find_stream
from smalti.spark.options import parse_read_options
from smalti.spark.task.read import Metrics, TaskScan
from tests.paimon.kinds import BASIC, KINDS, Maker, in_order, read_by_pypaimon, rows


def as_spark_gives_it(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as Spark hands them out: all in UTC here, without a zone."""
    fields = [pa.field(f.name, pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type) for f in table.schema]
    return in_order(table.cast(pa.schema(fields)))


def collected(frame: Any) -> list[dict[str, Any]]:
    found = frame.toArrow()
    return as_spark_gives_it(found)


#: One of each way to read, and all types: what else there is to a table is told by `test_reading`.
SHOWN = (
    "append",
    "primary_key_partitioned",
    "data_evolution",
    "deletion_vectors",
    "renamed_over",
    "null_partition",
    "typed_partitions",
    "nested",
    "all_types",
    "without_snapshot",
)


def test_kinds_of_tables_are_what_pypaimon_reads(spark: Any, made: Callable[..., str]) -> None:
    for kind in SHOWN:
        path = made(kind)
        expected = read_by_pypaimon(path)
        frame = spark.read.format("mosaic").load(path)
        assert frame.columns == expected.column_names, kind
        assert collected(frame) == as_spark_gives_it(expected), kind
    assert spark.read.format("mosaic").load(made("append")).count() == 80


def test_filters_and_columns(spark: Any, made: Callable[..., str]) -> None:
    path = made("primary_key_partitioned")
    frame = spark.read.format("mosaic").load(path)
    expected = [row["x"] for row in in_order(read_by_pypaimon(path)) if row["n"] == 3 and row["id"] > 5]
    assert sorted(row.x for row in frame.where("n = 3 and id > 5").select("x").collect()) == sorted(expected)


def test_time_travel(spark: Any, tmp_path: Path) -> None:
    path = KINDS["tagged"](tmp_path)
    before = int(time.time() * 1000)
    smalti.paimon.write(rows(900, 901), path)
    for option, value, expected in (("snapshotId", 2, 20), ("tagName", "first", 10), ("timestamp", before, 2)):
        assert spark.read.format("mosaic").option(option, value).load(path).count() == expected
    plain = spark.read.format("mosaic").option("plain", True).load(path)
    assert plain.count() == 23  # every file that lies there
    with pytest.raises(Exception, match="no such snapshot"):
        spark.read.format("mosaic").option("snapshotId", 77).load(path).count()


def test_options_of_directories_are_refused_by_name(tmp_path: Path) -> None:
    """They were ignored, so that all rows were read."""
    path = smalti.paimon.create(tmp_path / "t", BASIC)
    smalti.paimon.write(rows(0, 30), path)
    refused = {
        "basePath": path,
        "pathGlobFilter": "x*",
        "recursiveFileLookup": "true",
        "modifiedBefore": "2020-01-01T00:00:00",
        "modifiedAfter": "2030-01-01T00:00:00",
        "mergeSchema": "false",
    }
    for option, value in refused.items():
        with pytest.raises(smalti.MosaicError, match=f"{option}: a Paimon table is read by its snapshots"):
            find_table(parse_read_options({"path": path, option: value}))
    with pytest.raises(smalti.MosaicError, match="snapshotId: this chooses a snapshot of a Paimon table, and plain"):
        find_table(parse_read_options({"path": path, "snapshotId": "1", "plain": "true"}))
    table = find_table(parse_read_options({"path": path, "batchSize": "7"}))
    ((piece,),) = table.splits(table.schema())
    scan = TaskScan(table.options, table.schema(), source=table.source)
    assert [batch.num_rows for _, batch in scan.batches([piece], Metrics())] == [7, 7, 7, 7, 2]


class TestStreaming:
    def run(self, spark: Any, path: str, checkpoint: Path, **options: str) -> list[list[int]]:
        """Read what there is to read; the ids of each batch."""
        batches: list[list[int]] = []
        frame = spark.readStream.format("mosaic").options(**options).load(path)
        writer = frame.writeStream.foreachBatch(
            lambda batch, _: batches.append(sorted(row.id for row in batch.select("id").collect()))
        )
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination(600)
        assert query.exception() is None
        return [batch for batch in batches if batch]

    def test_what_is_appended_is_read_once(self, spark: Any, tmp_path: Path) -> None:
        made = Maker(tmp_path, partition_by=["n"])
        checkpoint = tmp_path / "checkpoint"
        frame = spark.readStream.format("mosaic").load(made.path)
        assert frame.isStreaming
        assert frame.columns == BASIC.names
        assert self.run(spark, made.path, checkpoint) == []
        made.write(rows(0, 3)).write(rows(3, 5))
        assert self.run(spark, made.path, checkpoint) == [[0, 1, 2, 3, 4]]
        # What overwrites is no new row. A column may be there later, and not when the stream began to read.
        made.write(rows(5, 6)).write(rows(50, 51), replacing={"n": "1"}).write(rows(6, 7))
        made.alter(SchemaChange.add_column("y", AtomicType("INT")))
        made.write(rows(7, 10).append_column("y", pa.array([1, 2, 3], pa.int32())))
        assert self.run(spark, made.path, checkpoint, maxFilesPerTrigger="2") == [[5, 6], [7, 8, 9]]

    def test_what_cannot_be_is_said(self, tmp_path: Path) -> None:
        def reader(path: str, **options: str) -> Any:
            return find_stream(parse_read_options({"path": path, **options}))

        with pytest.raises(smalti.UnsupportedFeatureError, match="rows replace those of the same primary key"):
            reader(KINDS["primary_key_updated"](tmp_path / "k"))
        with pytest.raises(smalti.UnsupportedFeatureError, match="commits change columns"):
            reader(KINDS["data_evolution"](tmp_path / "d"))
        made = Maker(tmp_path / "a").write(rows(0, 1)).write(rows(1, 2)).write(rows(2, 3))
        with pytest.raises(smalti.MosaicError, match="snapshotId"):
            reader(made.path, snapshotid="1")
        stream = reader(made.path)
        assert len(stream.splits(BASIC, {"snapshot": 1}, {"snapshot": 3})) == 1
        Path(made.path, "snapshot", "snapshot-2").unlink()
        with pytest.raises(smalti.MosaicError, match="a snapshot has expired before a stream has read it"):
            stream.splits(BASIC, {"snapshot": 1}, {"snapshot": 3})
        assert isinstance(reader(made.path, plain="true"), DirectoryStream)


class TestWriting:
    def frame(self, spark: Any, table: pa.Table, tasks: int = 3) -> Any:
        return spark.createDataFrame(table).repartition(tasks)

    def test_append_and_overwrite(self, spark: Any, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        for start in (0, 100):
            self.frame(spark, rows(start, start + 50)).write.format("mosaic").mode("append").save(path)
        assert smalti.paimon.dataset(path).snapshot_id == 2
        assert in_order(read_by_pypaimon(path)) == in_order(pa.concat_tables([rows(0, 50), rows(100, 150)]))
        self.frame(spark, rows(7, 9)).write.format("mosaic").mode("overwrite").save(path)
        assert in_order(read_by_pypaimon(path)) == in_order(rows(7, 9))
        assert collected(spark.read.format("mosaic").load(path)) == in_order(rows(7, 9))

    def test_partitions_and_primary_keys(self, spark: Any, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "p", BASIC, partition_by=["n"])
        self.frame(spark, rows(0, 30)).write.format("mosaic").mode("append").option("partitionBy", "n").save(path)
        assert in_order(read_by_pypaimon(path)) == in_order(rows(0, 30))
        write = self.frame(spark, rows(100, 101)).write.format("mosaic").mode("overwrite").option("partitionBy", "n")
        write.option("partitionOverwriteMode", "dynamic").save(path)
        assert sorted(read_by_pypaimon(path)["id"].to_pylist()) == [*(i for i in range(30) if i % 7 != 2), 100]
        write.option("partitionOverwriteMode", "static").save(path)
        assert read_by_pypaimon(path)["id"].to_pylist() == [100]
        keyed = smalti.paimon.create(tmp_path / "k", BASIC, primary_key=["id"], options={"bucket": "2"})
        for word in ("old", "new"):
            self.frame(spark, rows(0, 20, word)).write.format("mosaic").mode("append").save(keyed)
        assert {row["x"] for row in in_order(read_by_pypaimon(keyed))} == {f"new{i}" for i in range(20)}

    def test_what_cannot_be_is_refused_and_leaves_nothing(self, spark: Any, tmp_path: Path) -> None:
        dynamic = smalti.paimon.create(tmp_path / "d", BASIC, primary_key=["id"], options={"bucket": "-1"})
        with pytest.raises(Exception, match="dynamic buckets"):
            self.frame(spark, rows(0, 30)).write.format("mosaic").mode("append").save(dynamic)
        assert not list(Path(dynamic).rglob("*.mosaic"))
        self.frame(spark, rows(0, 30)).coalesce(1).write.format("mosaic").mode("append").save(dynamic)
        assert in_order(read_by_pypaimon(dynamic)) == in_order(rows(0, 30).cast(read_by_pypaimon(dynamic).schema))
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        frame = self.frame(spark, rows(0, 3))
        with pytest.raises(Exception, match="no such column"):
            frame.withColumnRenamed("x", "absent").write.format("mosaic").mode("append").save(path)
        for option, value in (("statsColumns", "id"), ("numBuckets", 3), ("keep", 5), ("maxFileBytes", "1MB")):
            with pytest.raises(Exception, match=rf"{option}: table options control .* mosaic\.stats-columns"):
                frame.write.format("mosaic").option(option, value).mode("append").save(path)
        with pytest.raises(Exception, match="partitioned in another way"):
            frame.write.format("mosaic").option("partitionBy", "n").mode("append").save(path)
        assert read_by_pypaimon(path).num_rows == 0
        with pytest.raises(Exception, match="a Paimon table"):
            frame.write.format("mosaic").mode("append").save(f"{path}/bucket-0")


def test_two_jobs_at_once_are_both_there(spark: Any, tmp_path: Path) -> None:
    path = smalti.paimon.create(tmp_path / "t", BASIC)
    frames = [spark.createDataFrame(rows(start, start + 20)).repartition(2) for start in (0, 100)]
    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(lambda frame: frame.write.format("mosaic").mode("append").save(path), frames):
            pass
    assert in_order(read_by_pypaimon(path)) == in_order(pa.concat_tables([rows(0, 20), rows(100, 120)]))
    assert smalti.paimon.dataset(path).snapshot_id == 2


JOB = """
    import sys, smalti.spark
    from tests.paimon.kinds import rows
    spark = smalti.spark.session("local[2]", driver_memory="1g")
    spark.createDataFrame(rows(0, 20)).repartition(2).write.format("mosaic").mode("append").save(sys.argv[1])
"""
HELD = """
    import sys
    class Watch:
        def find_spec(self, name, *rest):
            if name == "smalti.paimon.writing":
                sys.meta_path.remove(self)
                import time
                from pypaimon.write.table_commit import BatchTableCommit
                def commit(*arguments):
                    open({mark!r}, "w").close()
                    time.sleep(600)
                BatchTableCommit.commit = commit
    sys.meta_path.insert(0, Watch())
"""


@pytest.mark.skipif("SMALTI_RACES" not in os.environ, reason="takes a session of its own; `make races` runs it")
def test_a_driver_killed_before_its_commit_has_changed_nothing(tmp_path: Path) -> None:
    """The process that commits stops before it, when all tasks have ended, and the whole job is killed there."""
    path = smalti.paimon.create(tmp_path / "t", BASIC)
    smalti.paimon.write(rows(500, 510), path)
    mark = tmp_path / "about to commit"
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(HELD.format(mark=str(mark))))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    job = subprocess.Popen([sys.executable, "-c", textwrap.dedent(JOB), path], env=environment, start_new_session=True)
    deadline = time.monotonic() + 600
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait(120)
    assert mark.exists()
    assert len(list(Path(path).rglob("*.mosaic"))) == 3  # the tasks have written theirs
    assert in_order(read_by_pypaimon(path)) == in_order(rows(500, 510))
    assert smalti.paimon.dataset(path).snapshot_id == 1
    assert smalti.paimon.write(rows(0, 1), path) == 2
