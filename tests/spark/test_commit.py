"""The commit protocol: decisions by table, then processes that die between its steps. No Spark needed."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

import smalti
from smalti.commit import JOBS, Commit, CommitLog, final_path, plan_commit, staging_directory, visible_files
from smalti.errors import MosaicError
from smalti.spark.options import ReadOptions
from smalti.spark.plan import Piece, Split
from smalti.spark.read import read_split
from smalti.spark.table import Table

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
    assert Commit.from_json(commit.to_json(), "here") == commit


@pytest.mark.parametrize(
    ("listed", "visible"),
    [
        (["old", "kept"], {"kept": "kept", "a": "s/a", "b": "s/b"}),  # nothing carried out yet
        (["old", "kept", "a"], {"kept": "kept", "a": "a", "b": "s/b"}),  # half of it
        (["kept", "a", "b"], {"kept": "kept", "a": "a", "b": "b"}),  # all but the record
    ],
)
def test_visible(listed: list[str], visible: dict[str, str]) -> None:
    assert visible_files(listed, [Commit("j", (("s/a", "a"), ("s/b", "b")), ("old",))]) == visible


def test_later_commits_may_remove_what_earlier_ones_add() -> None:
    commits = [Commit("1", (("s/a", "a"),)), Commit("2", (("s/b", "b"),), ("a",))]
    assert visible_files([], commits) == {"b": "s/b"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 2, "job": "x", "add": [], "remove": []}', b"\xff"])
def test_bad_records_are_refused(data: bytes) -> None:
    with pytest.raises(MosaicError, match="here: not a commit record"):
        Commit.from_json(data, "here")


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


def seen(root: Path) -> list[int]:
    options = ReadOptions((str(root),))
    pieces = tuple(Piece(file, file.size) for file in Table(options).files())
    batches = read_split(Split(pieces), pa.schema([("x", pa.int64())]), options)
    return sorted(value for batch in batches for value in batch["x"].to_pylist())


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
    log = table_in(tmp_path)
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path), step], check=False)
    assert done.returncode == -9
    assert seen(tmp_path) == expected
    log.recover()
    assert seen(tmp_path) == expected
    log.clean(timedelta(0))
    assert seen(tmp_path) == expected
    assert smalti.dataset(tmp_path).to_table()["x"].to_pylist() == expected  # a plain directory again
    assert [p.name for p in (tmp_path / JOBS).iterdir()] == ([] if expected == OLD else ["last"])


def test_abort_before_and_after_the_record(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    log.abort("job")
    assert seen(tmp_path) == OLD
    assert not (tmp_path / JOBS / "job").exists()
    (tmp_path / "again").mkdir()
    log = table_in(tmp_path / "again")
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    log.publish(plan_commit("job", staged, ["old.mosaic"], "overwrite"))
    log.abort("job")
    assert seen(tmp_path / "again") == NEW


def test_carrying_out_twice_is_harmless(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    commit = plan_commit("job", staged, ["old.mosaic"], "overwrite")
    log.publish(commit)
    log.carry_out(commit)
    log.carry_out(commit)
    assert seen(tmp_path) == NEW
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
