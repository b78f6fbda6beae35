"""The Spark engine: the same results as the local one, and tasks that die."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from examples import demo

import smalti
from smalti import jobs
from smalti.progress import Meter, Progress, Report
from smalti.spark.executor import MANY_TASKS, SparkExecutor
from tests.jobs.data import hidden, partitioned, rows_of, stems, visible


def test_same_results_as_the_local_engine(spark: Any, tmp_path: Path) -> None:
    table = partitioned(tmp_path / "raw")
    events: list[Progress] = []
    local = jobs.convert(tmp_path / "raw", tmp_path / "local")
    remote = jobs.convert(tmp_path / "raw", tmp_path / "spark", progress=events.append, engine="spark", spark=spark)
    assert remote.engine == "spark"
    assert stems(file.path for file in remote.files) == stems(file.path for file in local.files)
    for one, other in zip(visible(tmp_path / "local"), visible(tmp_path / "spark"), strict=True):
        assert (tmp_path / "spark" / other).read_bytes() == (tmp_path / "local" / one).read_bytes()
    assert (events[-1].done, events[-1].num_rows) == (events[-1].total, 300)

    jobs.compact(tmp_path / "spark", sort_by="id", engine="spark", spark=spark)
    jobs.compact(tmp_path / "local", sort_by="id")
    assert rows_of(tmp_path / "spark").equals(rows_of(tmp_path / "local").cast(table.schema))
    assert len(visible(tmp_path / "spark")) == 2

    assert jobs.verify(tmp_path / "spark", engine="spark", spark=spark).ok
    profile = jobs.profile(tmp_path / "spark", html=tmp_path / "p.html", engine="spark", spark=spark)
    assert profile.table.equals(jobs.profile(tmp_path / "local").table)
    assert hidden(tmp_path) == []


def test_a_profile_of_many_tasks_is_merged_on_the_executors(spark: Any, tmp_path: Path) -> None:
    """The driver gets one result, in which files that failed are left out and columns keep their order."""
    names = [f"c{i}" for i in range(30)]
    for number, type_ in enumerate((pa.int32(), pa.int64(), pa.float64())):
        columns = names if number < 2 else ["other"]
        table = pa.table({name: pa.array(range(1000), type_) for name in columns})
        smalti.write_table(table, tmp_path / f"{number}.mosaic", row_group_max_rows=160)
    executor = SparkExecutor(spark)
    tasks = list(range(MANY_TASKS + 5))
    assert [found for _, found in executor.run(_number, tasks, Meter("", len(tasks), 0, None), add)] == [sum(tasks)]
    local, remote = (jobs.profile(tmp_path, split_bytes=1, engine=name) for name in ("local", "spark"))
    assert remote.table.drop_columns("histogram").equals(local.table.drop_columns("histogram"))
    assert remote.table["column"].to_pylist() == [*names, "other"]
    assert remote.table["distinct"].to_pylist() == pytest.approx([1000] * 31, rel=0.06)
    (tmp_path / "3.mosaic").write_bytes(b"MOSA" * 20)
    with pytest.raises(jobs.JobError, match=r"3\.mosaic"):
        jobs.profile(tmp_path, split_bytes=1, engine="spark", spark=spark)
    skipped = jobs.profile(tmp_path, split_bytes=1, on_error="skip", engine="spark", spark=spark)
    assert ([Path(item.path).name for item in skipped.skipped], skipped.num_rows) == (["3.mosaic"], 3000)


def _number(task: int, report: Report) -> int:  # noqa: ARG001
    return task


def test_broken_files(spark: Any, tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    bad = tmp_path / "raw/day=1/bad.parquet"
    bad.write_bytes(b"PAR1 broken PAR1")
    with pytest.raises(jobs.JobError, match=r"day=1/bad\.parquet: cannot be read as Parquet"):
        jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, engine="spark", spark=spark)
    assert visible(tmp_path / "out") == []
    summary = jobs.convert(
        tmp_path / "raw", tmp_path / "out", split_bytes=1, on_error="skip", engine="spark", spark=spark
    )
    assert [item.path for item in summary.skipped] == [str(bad)]
    assert summary.num_rows == 300


@dataclass(frozen=True)
class Deadly:
    """A task whose worker is killed the first time it runs."""

    number: int
    marker: str


def die_once(task: Deadly, report: Report) -> int:
    if task.number == 1 and not Path(task.marker).exists():
        Path(task.marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    report(1, 10)
    return task.number


def test_a_worker_that_is_killed(spark: Any, tmp_path: Path) -> None:
    tasks = [Deadly(number, str(tmp_path / "died")) for number in range(4)]
    events: list[Progress] = []
    results = dict(SparkExecutor(spark).run(die_once, tasks, Meter("convert", 4, 40, events.append)))
    assert results == {0: 0, 1: 1, 2: 2, 3: 3}
    assert (tmp_path / "died").exists()
    assert events[-1].done == 4


def columns_of(schema: pa.Schema, task: int, report: Report) -> int:  # noqa: ARG001
    return len(schema) * task


@pytest.mark.parametrize("columns", [10, 2000])
def test_what_tasks_have_in_common_is_sent_once(spark: Any, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with every task: it may be a schema of 10,000 columns, or the numbers of all matched rows."""
    schema = pa.schema([(f"column {number}", pa.int64()) for number in range(columns)])
    shared, sent = [], []

    def broadcast(value: bytes) -> Any:
        shared.append(len(value))
        return share(value)

    def parallelize(parcels: list[bytes], slices: int) -> Any:
        sent.extend(map(len, parcels))
        return send(parcels, slices)

    share, send = spark.sparkContext.broadcast, spark.sparkContext.parallelize
    monkeypatch.setattr(spark.sparkContext, "broadcast", broadcast)
    monkeypatch.setattr(spark.sparkContext, "parallelize", parallelize)
    for count in (2, 6):
        shared.clear(), sent.clear()
        work, tasks = partial(columns_of, schema), list(range(count))
        results = dict(SparkExecutor(spark).run(work, tasks, Meter("convert", count, 0, None)))
        assert results == {task: columns * task for task in tasks}
        assert len(shared) == 1
        assert 10 * columns < shared[0] < 100 * columns + 1000
        assert max(sent) < 100


def fail(task: int, report: Report) -> int:  # noqa: ARG001
    raise RuntimeError(f"no {task}")


def test_errors_that_are_not_about_data_come_through(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    share, shared = spark.sparkContext.broadcast, []

    def broadcast(value: bytes) -> Any:
        shared.append(share(value))
        return shared[0]

    monkeypatch.setattr(spark.sparkContext, "broadcast", broadcast)
    with pytest.raises(Exception, match="no 7"):
        list(SparkExecutor(spark).run(fail, [7], Meter("convert", 1, 1, None)))
    assert not Path(shared[0]._path).exists()  # The driver keeps no copy of it.


def test_the_demo(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    """Narrow and short, but all of it."""
    assert demo.main(["--columns", "60", "--rows", "240", "--directory", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "all sound" in printed
    assert "2026-03-02" in printed
    assert (tmp_path / "profile.html").exists()


def test_changes_in_place(spark: Any, tmp_path: Path) -> None:
    """Every file is a task, and the table is the same afterwards as with threads; a function may be a lambda."""
    import pyarrow.parquet as pq

    table = pa.table({"id": range(60), "day": [i // 20 for i in range(60)], "x": [i * 0.5 for i in range(60)]})
    pq.write_table(pa.table({"id": range(0, 60, 7), "city": [f"city {i}" for i in range(9)]}), tmp_path / "c.parquet")
    reports: dict[str, list[jobs.ChangeReport]] = {}
    for engine in ("local", "spark"):
        root, more = tmp_path / engine, {"engine": engine, "spark": spark if engine == "spark" else None}
        for day in range(3):
            (root / f"day={day}").mkdir(parents=True)
            rows = table.slice(20 * day, 20).drop_columns("day")
            smalti.write_table(rows, root / f"day={day}/f.mosaic", row_group_max_rows=8)
        new = pa.table({"id": [3, 70], "day": [1, 1], "x": [-1.0, -2.0]})  # One row moves to another partition.
        reports[engine] = [
            jobs.add_columns(root, tmp_path / "c.parquet", on="id", **more),
            jobs.add_columns(root, pa.table({"n": range(60)}), **more),
            jobs.add_columns(root, lambda batch: {"y": batch["x"]}, columns=["x"], **more),
            jobs.rename_columns(root, {"n": "m"}, **more),
            jobs.update(root, {"x": 7.5}, "id between 10 and 12", **more),
            jobs.delete(root, "day = 1 and id > 30", **more),
            jobs.merge(root, new, on="id", **more),
        ]
    found = [smalti.dataset(tmp_path / engine).to_table().sort_by("id") for engine in ("local", "spark")]
    assert found[0].equals(found[1])
    for local, remote in zip(reports["local"], reports["spark"], strict=True):
        assert (local.rows, local.files, local.row_groups) == (remote.rows, remote.files, remote.row_groups)
        assert (local.bytes_copied, local.bytes_encoded) == (remote.bytes_copied, remote.bytes_encoded)
    assert reports["spark"][-1].rows_inserted == 1
    assert hidden(tmp_path) == []
    again = pa.table({"id": [1, 1], "x": [1.0, 2.0]})
    with pytest.raises(smalti.MosaicError, match="several rows with the same key"):
        jobs.add_columns(tmp_path / "spark", again, "id", replace=True, engine="spark", spark=spark)
