"""The commit protocol: decisions by table, processes that die between its steps, readers that come in between."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem

import smalti
from smalti import jobs
from smalti.commit import (
    JOBS,
    Commit,
    CommitLog,
    final_path,
    needs_mark,
    plan_commit,
    staging_directory,
    table_of,
    visible_files,
)
from smalti.discovery import discover
from smalti.errors import MosaicError
from smalti.spark.options import ReadOptions
from smalti.spark.plan import Piece, Split
from smalti.spark.read import read_split
from smalti.spark.table import Table
from tests.s3 import S3Server

STAGED = ["_mosaic_jobs/j/1/p=1/b", "_mosaic_jobs/j/0/p=3/a"]


@pytest.mark.parametrize(
    ("existing", "mode", "removed"),
    [
        (["p=1/x", "p=2/y"], "append", ()),
        (["p=1/x", "p=2/y"], "overwrite", ("p=1/x", "p=2/y")),
        (["p=1/x", "p=2/y", "p=1/q=2/z", "w"], "dynamic", ("p=1/x",)),
        ([], "overwrite", ()),
    ],
)
def test_plan(existing: list[str], mode: str, removed: tuple[str, ...]) -> None:
    commit = plan_commit("j", STAGED, existing, mode)  # type: ignore[arg-type]
    assert commit.add == (("_mosaic_jobs/j/0/p=3/a", "p=3/a"), ("_mosaic_jobs/j/1/p=1/b", "p=1/b"))
    assert commit.remove == removed
    assert Commit.from_json(commit.to_json(), "here", "j") == commit


@pytest.mark.parametrize(
    ("listed", "visible"),
    [
        (["old", "kept"], {"kept": "kept", "a": "s/a", "b": "s/b"}),  # nothing carried out yet
        (["old", "kept", "a"], {"kept": "kept", "a": "s/a", "b": "s/b"}),  # half of it, or an older a
        (["kept", "a", "b"], {"kept": "kept", "a": "s/a", "b": "s/b"}),  # all but the record
    ],
)
def test_visible(listed: list[str], visible: dict[str, str]) -> None:
    assert visible_files(listed, [Commit("j", (("s/a", "a"), ("s/b", "b")), ("old",))]) == visible


def test_later_commits_may_remove_what_earlier_ones_add() -> None:
    commits = [Commit("1", (("s/a", "a"),)), Commit("2", (("s/b", "b"),), ("a",))]
    assert visible_files([], commits) == {"b": "s/b"}


@pytest.mark.parametrize(
    ("add", "remove", "needed"),
    [
        (["a.mosaic"], [], False),
        (["a.mosaic", "b.mosaic"], [], True),
        (["a.mosaic"], ["b.mosaic"], True),
        (["a.parquet", "b.parquet"], [], False),  # nobody who reads those looks for a mark
    ],
)
def test_what_leaves_a_mark(add: list[str], remove: list[str], needed: bool) -> None:
    assert needs_mark(Commit("j", tuple((f"s/{path}", path) for path in add), tuple(remove))) is needed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 2, "job": "x", "add": [], "remove": []}',
        b"\xff",
        b'{"version": 1, "job": "x", "add": [], "remove": [], "batch": "soon"}',
    ],
)
def test_bad_records_are_refused(data: bytes) -> None:
    with pytest.raises(MosaicError, match="here: not a commit record"):
        Commit.from_json(data, "here", "x")


@pytest.mark.parametrize("path", ["../x.mosaic", "/etc/passwd", "a/../../b", ""])
@pytest.mark.parametrize("where", ["staged", "final", "remove", "stream"])
def test_records_stay_within_their_table(path: str, where: str) -> None:
    """Whoever finds a record carries it out: it must not move or delete what is not the table's."""
    record = {"version": 1, "job": "j", "add": [["_mosaic_jobs/j/0/a", "a"]], "remove": ["b"]}
    if where in ("staged", "final"):
        record["add"] = [[path, "a"] if where == "staged" else ["_mosaic_jobs/j/0/a", path]]
    else:
        record[where] = path or "/" if where == "stream" else [path]
    with pytest.raises(MosaicError, match="here: a commit record names a path outside its table"):
        Commit.from_json(json.dumps(record).encode(), "here", "j")


def test_records_are_of_the_job_they_lie_with(tmp_path: Path) -> None:
    """Once carried out, a job's directory is removed: it must not be another's."""
    log = table_in(tmp_path)
    (tmp_path / JOBS / "mine").mkdir()
    (tmp_path / JOBS / "mine/commit.json").write_bytes(Commit("job").to_json())
    with pytest.raises(MosaicError, match="not a commit record"):
        log.recover()
    assert list((tmp_path / JOBS / "job").iterdir())


# --- a table, and processes that die --------------------------------------------------------------------------------

CHILD = """
import os, signal, sys
from pyarrow.fs import LocalFileSystem
from smalti.commit import CommitLog, plan_commit
root, step = sys.argv[1:]
log = CommitLog(LocalFileSystem(), root)
staged = [f"_mosaic_jobs/job/0/new{n}.mosaic" for n in (1, 2)]
commit = plan_commit("job", staged, ["old.mosaic"], "overwrite")
if step == "before the record":
    os.kill(os.getpid(), signal.SIGKILL)
log.publish(commit)
if step == "after the record":
    os.kill(os.getpid(), signal.SIGKILL)
log._move("job", *commit.add[0])
if step == "between renames":
    os.kill(os.getpid(), signal.SIGKILL)
log._move("job", *commit.add[1])
log._delete("old.mosaic")
os.kill(os.getpid(), signal.SIGKILL)
"""
OLD, NEW = [1, 2], [10, 20]


def table_in(root: Path) -> CommitLog:
    smalti.write_table(pa.table({"x": OLD}), root / "old.mosaic")
    directory = root / staging_directory("job", "0")
    directory.mkdir(parents=True)
    for number, value in enumerate(NEW, 1):
        smalti.write_table(pa.table({"x": [value]}), directory / f"new{number}.mosaic")
    return CommitLog(LocalFileSystem(), str(root))


def seen_by_spark(root: Path) -> list[int]:
    options = ReadOptions((str(root),))
    pieces = tuple(Piece(file, file.size) for file in Table(options).files())
    batches = read_split(Split(pieces), pa.schema([("x", pa.int64())]), options)
    return sorted(value for batch in batches for value in batch["x"].to_pylist())


READERS: dict[str, Callable[[Path], list[int]]] = {
    "spark": seen_by_spark,
    "dataset": lambda root: sorted(smalti.dataset(root).to_table()["x"].to_pylist()),
    "glob": lambda root: sorted(smalti.dataset(f"{root}/*.mosaic").to_table()["x"].to_pylist()),
    "from above": lambda root: sorted(smalti.dataset(root.parent).to_table()["x"].to_pylist()),
    "glob from above": lambda root: sorted(smalti.dataset(f"{root.parent}/*").to_table()["x"].to_pylist()),
}


def seen(root: Path) -> list[int]:
    """What every way of reading finds."""
    found = {name: reader(root) for name, reader in READERS.items()}
    assert len({tuple(rows) for rows in found.values()}) == 1, found
    return found["dataset"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("before the record", OLD),
        ("after the record", NEW),
        ("between renames", NEW),
        ("before the record goes", NEW),
    ],
)
def test_a_killed_committer(tmp_path: Path, step: str, expected: list[int]) -> None:
    """Old rows or new rows, never a mixture; the next job, or cleaning, finishes what was decided."""
    table = tmp_path / "table"
    table.mkdir()
    log = table_in(table)
    done = subprocess.run([sys.executable, "-c", CHILD, str(table), step], check=False)
    assert done.returncode == -9
    assert seen(table) == expected
    log.recover()
    assert seen(table) == expected
    log.clean(timedelta(0))
    assert seen(table) == expected
    files = sorted(path.name for path in table.rglob("*") if path.is_file())
    assert files == (["old.mosaic"] if expected == OLD else ["last", "new1.mosaic", "new2.mosaic"])


def test_abort_before_and_after_the_record(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    log.abort("job")
    assert seen_by_spark(tmp_path) == OLD
    assert not (tmp_path / JOBS / "job").exists()
    (tmp_path / "again").mkdir()
    log = table_in(tmp_path / "again")
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    log.publish(plan_commit("job", staged, ["old.mosaic"], "overwrite"))
    log.abort("job")
    assert seen_by_spark(tmp_path / "again") == NEW


def test_carrying_out_twice_is_harmless(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    commit = plan_commit("job", staged, ["old.mosaic"], "overwrite")
    log.publish(commit)
    log.carry_out(commit)
    log.carry_out(commit)
    assert seen_by_spark(tmp_path) == NEW
    assert final_path(staged[0]) == "new1.mosaic"


def test_tasks_find_files_that_moved_after_planning(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    commit = plan_commit("job", staged, ["old.mosaic"], "overwrite")
    log.publish(commit)
    options = ReadOptions((str(tmp_path),))
    files = Table(options).files()
    assert all(JOBS in file.path for file in files)
    log.carry_out(commit)
    batches = read_split(Split(tuple(Piece(f, f.size) for f in files)), pa.schema([("x", pa.int64())]), options)
    assert sorted(v for batch in batches for v in batch["x"].to_pylist()) == NEW


def test_batches_of_a_stream_are_remembered(tmp_path: Path) -> None:
    log = CommitLog(LocalFileSystem(), str(tmp_path))
    assert not log.has_batch("q", 0)
    log.publish(Commit("j1", stream="q", batch=0))
    assert log.has_batch("q", 0)
    log.recover()
    assert log.has_batch("q", 0)
    assert not log.has_batch("q", 1)
    assert not log.has_batch("other", 0)


def test_every_commit_leaves_another_mark(tmp_path: Path) -> None:
    """Batches of a stream are commits of one job: a listing must not take the second for the first."""
    log = table_in(tmp_path)
    marks = []
    for batch in (0, 1):
        log.commit(Commit("job", remove=("old.mosaic", "gone.mosaic"), stream="q", batch=batch))
        marks.append(log.state()[0])
    assert len(set(marks)) == 2


# --- readers in between ---------------------------------------------------------------------------------------------


def partitioned(root: Path) -> CommitLog:
    """A table with a commit that has happened and is not carried out: two partitions change, one is new."""
    for day, value in [(1, 1), (2, 2), (3, 3)]:
        (root / f"day={day}").mkdir(parents=True)
        smalti.write_table(pa.table({"x": [value]}), root / f"day={day}/old.mosaic")
    staged = []
    for day, value in [(1, 10), (2, 20), (4, 40)]:
        staged.append(f"{staging_directory('job', '0')}/day={day}/new.mosaic")
        (root / staged[-1]).parent.mkdir(parents=True)
        smalti.write_table(pa.table({"x": [value]}), root / staged[-1])
    log = CommitLog(LocalFileSystem(), str(root))
    existing = [f"day={day}/old.mosaic" for day in (1, 2, 3)]
    log.publish(plan_commit("job", staged, existing, "dynamic"))
    return log


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("t", [(3, 3), (10, 1), (20, 2), (40, 4)]),
        ("t/day=*", [(3, 3), (10, 1), (20, 2), (40, 4)]),
        ("t/day=[13]/*.mosaic", [(3, 3), (10, 1)]),
        ("t/*/new.mosaic", [(10, 1), (20, 2), (40, 4)]),
        ("t/day=1", [(10, None)]),
        ("t/day=4", [(40, None)]),  # a directory that is not there yet
        ("*", [(3, 3), (10, 1), (20, 2), (40, 4)]),
    ],
)
def test_parts_of_a_table(tmp_path: Path, path: str, expected: list[tuple[int, int | None]]) -> None:
    log = partitioned(tmp_path / "t")

    def rows() -> list[tuple[int, int | None]]:
        found = smalti.dataset(f"{tmp_path}/{path}").to_table().to_pylist()
        return sorted((row["x"], row.get("day")) for row in found)

    before = smalti.dataset(f"{tmp_path}/{path}")
    assert rows() == expected
    log.recover()
    assert rows() == expected
    # What was found before its files were moved finds them still.
    assert sorted(before.to_table()["x"].to_pylist()) == [x for x, _ in expected]


def test_what_a_commit_replaces_by_name_is_not_seen(tmp_path: Path) -> None:
    for name in ("a", "b"):
        smalti.write_table(pa.table({"x": [0]}), tmp_path / f"{name}.mosaic")
    log = CommitLog(LocalFileSystem(), str(tmp_path))
    staged = [f"{staging_directory('job', '0')}/{name}.mosaic" for name in ("a", "b")]
    (tmp_path / staged[0]).parent.mkdir(parents=True)
    for path in staged:
        smalti.write_table(pa.table({"x": [1]}), tmp_path / path)
    commit = plan_commit("job", staged, [], "append")
    log.publish(commit)
    log._move("job", *commit.add[0])
    assert smalti.dataset(tmp_path).to_table()["x"].to_pylist() == [1, 1]


def test_a_committed_file_that_is_gone(tmp_path: Path) -> None:
    partitioned(tmp_path / "t")
    (tmp_path / "t" / staging_directory("job", "0") / "day=4/new.mosaic").unlink()
    with pytest.raises(MosaicError, match=r"day=4/new\.mosaic: a committed file has gone"):
        smalti.dataset(tmp_path / "t")


COMMITTING = """
import shutil, sys
from pathlib import Path
from pyarrow.fs import LocalFileSystem
from smalti.commit import CommitLog, plan_commit
root, count = Path(sys.argv[1]), int(sys.argv[2])
log = CommitLog(LocalFileSystem(), str(root))
old = [f"p={p}/0.mosaic" for p in range(4)]
for number in range(1, count):
    staged = [f"_mosaic_jobs/j{number}/0/p={p}/{number}.mosaic" for p in range(4)]
    for path in staged:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")
    log.commit(plan_commit(f"j{number}", staged, old, "overwrite"))
    old = [f"p={p}/{number}.mosaic" for p in range(4)]
"""


def test_listings_while_commits_go_on(tmp_path: Path) -> None:
    """Every listing finds the four files of one commit, whatever moment it falls into."""
    for number in range(4):
        (tmp_path / f"p={number}").mkdir()
        (tmp_path / f"p={number}/0.mosaic").write_bytes(b"x")
    seen_commits = set()
    with subprocess.Popen([sys.executable, "-c", COMMITTING, str(tmp_path), "150"]) as committing:
        while committing.poll() is None:
            _, files = discover(str(tmp_path))
            assert sorted(file.partition["p"] for file in files) == ["0", "1", "2", "3"]
            names = {Path(file.name).name for file in files}
            assert len(names) == 1, files
            seen_commits |= names
    assert committing.returncode == 0
    assert len(seen_commits) > 5


# --- jobs, and object stores ----------------------------------------------------------------------------------------


def test_a_job_reads_what_was_committed(tmp_path: Path) -> None:
    """A job reads for longer than a commit takes: what it finds committed, it carries out first."""
    partitioned(tmp_path / "t")
    summary = jobs.convert(tmp_path / "t", tmp_path / "out", target_format="parquet")
    assert summary.num_rows == 4
    assert not (tmp_path / "t" / JOBS / "job").exists()
    assert table_of(f"{tmp_path}/t/{JOBS}/job/0/day=1/new.mosaic") == f"{tmp_path}/t"


@pytest.fixture
def s3() -> Iterator[FileSystem]:
    with S3Server(buckets=["bucket"]) as server:
        yield S3FileSystem(
            access_key="test",
            secret_key="test",
            region="us-east-1",
            scheme="http",
            endpoint_override=f"127.0.0.1:{server.port}",
        )


def test_on_an_object_store(s3: FileSystem) -> None:
    """The same without renames and directories: a table, a commit half carried out, a job, its overwriting."""
    for name, value in [("t/old.mosaic", 1), (f"t/{JOBS}/job/0/new1.mosaic", 10), (f"t/{JOBS}/job/0/new2.mosaic", 20)]:
        smalti.write_table(pa.table({"x": [value]}), f"bucket/{name}", filesystem=s3)
    log = CommitLog(s3, "bucket/t")

    def rows() -> list[int]:
        return sorted(smalti.dataset("bucket/t", filesystem=s3).to_table()["x"].to_pylist())

    assert rows() == [1]
    commit = plan_commit("job", [f"{JOBS}/job/0/new1.mosaic", f"{JOBS}/job/0/new2.mosaic"], ["old.mosaic"], "overwrite")
    log.publish(commit)
    assert rows() == [10, 20]
    log._move("job", *commit.add[0])
    assert rows() == [10, 20]
    summary = jobs.compact("bucket/t", filesystem=s3)
    assert (summary.source_files, summary.num_rows) == (2, 2)
    assert rows() == [10, 20]
    assert len(discover("bucket/t", s3)[1]) == 1
    assert log.state()[1] == ()
