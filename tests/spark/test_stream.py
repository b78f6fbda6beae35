"""Streaming: new files are rows once, batches are files once, across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.errors import ReplacedError
from smalti.spark.driver.offsets import Offset, added, advance, first_offset
from smalti.spark.driver.stream import find_stream
from smalti.spark.driver.write import query_name
from smalti.spark.options import ReadOptions, WriteOptions
from smalti.table.names import JOBS


@pytest.mark.parametrize(
    ("start", "listed", "limit", "expected"),
    [
        ({}, {"a": 5, "b": 3}, None, ["a", "b"]),
        ({}, {"a": 5, "b": 3}, 1, ["b"]),  # the oldest first
        ({"a": 5}, {"a": 5, "b": 3}, None, ["b"]),  # late, with an older time
        ({"a": 5, "b": 3}, {"a": 5, "b": 3}, None, []),
        ({"a": 5}, {"b": 6}, None, ["b"]),  # a is gone
        ({}, {"old": 1, "new": 1000}, None, ["new", "old"]),  # first sight: age does not matter
        ({"n": 1000}, {"n": 1000, "old": 950}, None, ["old"]),
        ({}, {"old": 1, "new": 1000}, 1, ["old"]),
    ],
)
def test_offsets(start: dict[str, int], listed: dict[str, int], limit: int | None, expected: list[str]) -> None:
    before = {"horizon": -1, "files": start}
    after = advance(before, listed, limit, max_age=100)
    assert added(before, after) == expected


def test_offsets_do_not_grow_and_nothing_is_read_twice() -> None:
    offset, read = first_offset(), []
    for now in range(0, 3000, 10):
        listed = {f"f{t}": t for t in range(0, now + 1, 10)}
        following = advance(offset, listed, 2, max_age=100)
        read += added(offset, following)
        offset = following
        assert len(offset["files"]) < 20
    assert read == [f"f{t}" for t in range(0, 3000, 10)]


def test_files_that_become_younger_when_they_settle_are_read_once() -> None:
    """On object stores a commit copies: a file that was read where it was staged has a later time at its place."""
    offset, read = first_offset(), []
    for now in range(0, 1000, 10):
        listed = {f"f{t}": t + (7 if t < now else 0) for t in range(0, now + 1, 10)}
        following = advance(offset, listed, None, max_age=105)
        read += added(offset, following)
        offset = following
    assert read == [f"f{t}" for t in range(0, 1000, 10)]


def file(path: Path, values: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    smalti.write_table(pa.table({"x": values}), path)


def run(spark: Any, source: Path, out: Path, checkpoint: Path, **options: str) -> int:
    """Read what is there into a table, then stop; how many batches it took."""
    frame = spark.readStream.format("mosaic").schema("x bigint").options(**options).load(str(source))
    writer = frame.writeStream.format("mosaic").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(out))
    query.awaitTermination(600)
    assert query.exception() is None
    return len([progress for progress in query.recentProgress if progress.numInputRows])


def table(out: Path) -> list[int]:
    return sorted(smalti.dataset(out).to_table()["x"].to_pylist())


def test_from_files_to_files(spark: Any, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "cp"
    file(source / "a.mosaic", [1, 2])
    file(source / "b.mosaic", [3])
    run(spark, source, out, checkpoint)
    assert table(out) == [1, 2, 3]
    for number in range(3):
        file(source / f"c{number}.mosaic", [10 + number])
    assert run(spark, source, out, checkpoint, maxFilesPerTrigger="2") == 2
    assert table(out) == [1, 2, 3, 10, 11, 12]
    # The query dies after the sink has committed and before Spark has noted it: the batch runs again, and counts once.
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda p: int(p.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    run(spark, source, out, checkpoint)
    assert table(out) == [1, 2, 3, 10, 11, 12]
    # A new checkpoint is a new query, which reads all files and is not taken for the old one.
    run(spark, source, out, tmp_path / "cp2")
    assert table(out) == sorted([1, 2, 3, 10, 11, 12] * 2)
    # What tasks staged is gone; of the commits only records are left.
    assert {path.name.partition("-")[0] for path in (out / JOBS).iterdir()} == {"commit"}


def test_a_stream_may_begin_with_nothing(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert run(spark, tmp_path / "in", tmp_path / "out", tmp_path / "cp") == 0
    file(tmp_path / "in/a.mosaic", [1])
    run(spark, tmp_path / "in", tmp_path / "out", tmp_path / "cp")
    assert table(tmp_path / "out") == [1]


def test_a_query_is_known_by_its_checkpoint(tmp_path: Path) -> None:
    def name(given: str) -> str:
        return query_name(WriteOptions(path="/t", writer=smalti.WriterOptions(), stream_id=given))

    (tmp_path / "cp").mkdir()
    before = name(str(tmp_path / "cp"))
    (tmp_path / "cp/metadata").write_text('{"id": "one"}')
    assert name(str(tmp_path / "cp")) != before
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/metadata").write_text('{"id": "one"}')
    assert name(str(tmp_path / "moved")) == name(str(tmp_path / "cp"))
    (tmp_path / "cp/metadata").unlink()
    (tmp_path / "cp/metadata").mkdir()  # there, and cannot be read
    with pytest.raises(smalti.MosaicError, match="set option streamId"):
        name(str(tmp_path / "cp"))


def test_a_query_is_known_without_a_checkpoint_of_its_own(spark: Any, tmp_path: Path) -> None:
    file(tmp_path / "in/a.mosaic", [1])
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "cp"))
    try:
        frame = spark.readStream.format("mosaic").load(str(tmp_path / "in"))
        for _ in range(2):
            writer = frame.writeStream.format("mosaic").queryName("named").trigger(availableNow=True)
            writer.start(str(tmp_path / "out")).awaitTermination(600)
        assert table(tmp_path / "out") == [1]
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_updates_are_refused(spark: Any, tmp_path: Path) -> None:
    """By a path, as with Parquet: each batch would be appended, so that a key had a row for each update."""
    file(tmp_path / "in/a.mosaic", [1, 2, 1])
    counts = spark.readStream.format("mosaic").schema("x bigint").load(str(tmp_path / "in")).groupBy("x").count()
    errors = []
    for format_ in ("parquet", "mosaic"):
        writer = counts.writeStream.format(format_).outputMode("update")
        with pytest.raises(Exception, match=r"(?i)update") as refused:
            writer.option("checkpointLocation", str(tmp_path / format_)).start(str(tmp_path / "out"))
        errors.append((type(refused.value), refused.value.getCondition()))
    assert errors[0] == errors[1]
    spark.sql("CREATE TABLE updated (x BIGINT, count BIGINT) USING mosaic")
    try:
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "table"))
        with pytest.raises(Exception, match="does not support Update mode"):
            writer.toTable("updated").awaitTermination(600)
    finally:
        spark.sql("DROP TABLE updated")


def test_filters_on_partitions(spark: Any, tmp_path: Path) -> None:
    """In queries of tables the directories decide them. A stream has its own list of files, so Spark applies them."""
    for part in (0, 1):
        file(tmp_path / f"in/p={part}/a.mosaic", [part, part + 10])
    frame = spark.readStream.format("mosaic").load(str(tmp_path / "in")).where("p = 1")
    writer = frame.writeStream.format("mosaic").option("checkpointLocation", str(tmp_path / "cp"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(600)
    assert table(tmp_path / "out") == [1, 11]


def test_a_table_that_was_changed_is_refused_and_never_read_twice(tmp_path: Path) -> None:
    """Files with rows that were read have other names now. A stream that begins afterwards reads them once."""
    for number in range(3):
        file(tmp_path / f"t/f{number}.mosaic", [number, number + 10])

    def following(start: Offset, most: int | None = None) -> Offset:
        return find_stream(ReadOptions((str(tmp_path / "t"),))).next_offset(start, None, most)

    offset = following(first_offset())
    jobs.delete(tmp_path / "t", "x = 11")
    file(tmp_path / "t/f9.mosaic", [99])
    with pytest.raises(ReplacedError, match="compacted or changed since this stream has read it"):
        following(offset)
    offset = following(first_offset(), 2)
    offset = following(offset)  # It has begun after the change, and goes on.
    assert len(offset["files"]) == 4
    jobs.compact(tmp_path / "t")
    with pytest.raises(ReplacedError, match="rows rewritten by record 3"):
        following(offset)
