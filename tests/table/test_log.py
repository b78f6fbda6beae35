"""Commits that are carried out: by processes that die between two steps, that are slow, on disks and on stores."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import fsspec
import obstore
import pyarrow as pa
import pytest
from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem, S3FileSystem

import smalti
from smalti import jobs
from smalti.errors import MosaicError
from smalti.io import Location, locate
from smalti.io.locations import sync_directory
from smalti.table import steps as log_steps
from smalti.table.listing import list_files
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, STREAMS, final_path, new_token, staging_directory, unique_names
from smalti.table.records import Addition, Commit, Removal, record_name
from tests.support.commits import NEW, OLD, RECORDS, STAGED_FILES, commit, planned, rows_of, seen, table_in
from tests.support.s3 import s3_by_uri

#: For each line with a table and a number n: a child commits two files over one, and dies before its n-th change of the
#: file system, whatever that change is. The answer is how the child has ended.
CHILD = """
import os, signal, sys
from pathlib import Path
from pyarrow.fs import LocalFileSystem
from smalti.io import Location, sinks
from smalti.table import log as commit_log
from smalti.table.records import Addition, Commit, Removal
left = 0

def dying(change):
    def step(*arguments, **named):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return change(*arguments, **named)
    return step

class Dying:
    type_name = "local"
    def __init__(self):
        self._local = LocalFileSystem()
    def __getattr__(self, name):
        found = getattr(self._local, name)
        changes = ("move", "delete_file", "delete_dir", "create_dir", "open_output_stream")
        return dying(found) if name in changes else found

def commit(root):
    log = commit_log.CommitLog(Location(Dying(), root))
    add = tuple(Addition(f"_mosaic_jobs/job/0/new{n}.mosaic", f"new{n}.mosaic") for n in (1, 2))
    commit = Commit("job", add, (Removal("old.mosaic"),), number=1)
    log.publish(commit)
    log.carry_out(commit)

commit_log._PARALLEL = 1
os.link, Path.unlink = dying(os.link), dying(Path.unlink)
sinks.LocalSink.commit = dying(sinks.LocalSink.commit)
Path.rmdir = dying(Path.rmdir)
sinks.resolve = lambda path, filesystem: path
for line in sys.stdin:
    root, left = line.split()[0], int(line.split()[1])
    child = os.fork()
    if not child:
        commit(root)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_committer_that_is_killed_at_any_step(tmp_path: Path) -> None:
    """Old rows until some step, new rows from it on, never a mixture; the next job, or cleaning, finishes the rest."""
    outcomes, ended = [], -9
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as committing:
        assert committing.stdin is not None
        assert committing.stdout is not None
        while ended == -9:
            step = len(outcomes)
            table = tmp_path / f"at-{step}/table"
            table.mkdir(parents=True)
            log = table_in(table)
            committing.stdin.write(f"{table} {step}\n")
            committing.stdin.flush()
            ended = int(committing.stdout.readline())
            rows = seen(table)
            outcomes.append(rows)
            assert rows in (OLD, NEW), f"killed before change {step}"
            log.finish_pending()
            assert seen(table) == rows
            jobs.clean(table, timedelta(0))
            assert seen(table) == rows
            files = sorted(path.name for path in table.rglob("*") if path.is_file())
            assert files == [*RECORDS, *(["old.mosaic"] if rows == OLD else ["new1.mosaic", "new2.mosaic"])]
        committing.stdin.close()
    assert ended == 0
    first_new = outcomes.index(NEW)
    assert outcomes == [OLD] * first_new + [NEW] * (len(outcomes) - first_new)
    assert first_new >= 1
    assert len(outcomes) - first_new >= 6, "each of two moves, the removal, the mark and the record is a step"


def test_discarding_before_and_after_the_record(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    log.discard([f"{JOBS}/job"], unless_pending=True)
    assert rows_of(tmp_path) == OLD
    assert not (tmp_path / JOBS / "job").exists()
    (tmp_path / "again").mkdir()
    log = table_in(tmp_path / "again")
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    log.publish(planned("job", staged, ["old.mosaic"], "overwrite"))
    log.discard([f"{JOBS}/job"], unless_pending=True)
    assert rows_of(tmp_path / "again") == NEW


def test_carrying_out_twice_is_harmless(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    commit = planned("job", staged, ["old.mosaic"], "overwrite")
    assert log.publish(commit)
    assert log.carry_out(commit)
    assert not log.carry_out(commit)
    assert rows_of(tmp_path) == NEW
    assert final_path(staged[0]) == "new1.mosaic"


def test_a_directory_that_another_process_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow process that applies an earlier commit deletes an empty directory just before a file gets there."""
    log = table_in(tmp_path)
    staged = {f"{staging_directory('job', '0')}/new{n}.mosaic": f"p={n}/new.mosaic" for n in (1, 2)}
    move, raced = log._move, []

    def race(source: str, target: str) -> None:
        if not raced:
            raced.append(target)
            log._delete_empty([target.rpartition("/")[0]])
        move(source, target)

    monkeypatch.setattr(log, "_move", race)
    commit(log, planned("job", staged, ["old.mosaic"], "overwrite"))
    assert raced
    assert rows_of(tmp_path) == NEW


def test_batches_of_a_stream_are_remembered(tmp_path: Path) -> None:
    log = CommitLog(Location(LocalFileSystem(), str(tmp_path)))

    def last(stream: str = "q") -> int:
        return log.state().last_batch(stream)

    assert last() == -1
    log.publish(Commit("j1", stream="q", batch=0, number=1))
    assert last() == 0
    log.finish_pending()
    assert (last(), last("other")) == (0, -1)
    for batch in range(1, 20):
        commit(log, Commit(f"j{batch}", stream="q", batch=batch))
    log.carry_out(Commit("j18", stream="q", batch=18, number=37))  # by a process that was slow
    assert last() == 19
    assert len(list((tmp_path / JOBS).rglob("*"))) < 30
    assert log.state()[:2] == (40, ())


def test_what_tasks_of_a_stream_stage_goes(tmp_path: Path) -> None:
    """Spark makes a writer for its tasks and another for each commit: they stage under a name of their own."""
    log = table_in(tmp_path)
    (tmp_path / JOBS / "job/1-speculated").mkdir()
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    commit(log, planned("committer", staged, [], "append", stream="q", batch=0))
    assert sorted(path.name for path in (tmp_path / JOBS).iterdir()) == RECORDS


def test_every_commit_leaves_another_mark(tmp_path: Path) -> None:
    """Batches of a stream are commits of one job: a listing must not take the second for the first."""
    log = table_in(tmp_path)
    marks = []
    for batch in (0, 1):
        commit(log, Commit("job", remove=(Removal("old.mosaic"), Removal("gone.mosaic")), stream="q", batch=batch))
        marks.append(log.state()[0])
    assert len(set(marks)) == 2


@pytest.mark.parametrize("begin", [0, 1, 7])
def test_a_process_that_was_slow_for_many_commits(tmp_path: Path, begin: int) -> None:
    """The record of its number was removed long ago, so that the number seems to be free."""
    log, other = table_in(tmp_path), CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    for batch in range(begin):
        commit(other, Commit("other", stream="q", batch=batch))
    late = planned("job", STAGED_FILES, ["old.mosaic"], "overwrite", number=2 * begin + 1)
    for batch in range(begin, begin + 20):
        commit(other, Commit("other", stream="q", batch=batch))
    if begin == 7:  # Another slow process has marked the commit before once more as finished.
        (tmp_path / JOBS / record_name(late.number - 1)).touch()
    records = sorted((tmp_path / JOBS).glob("commit-*"))
    assert begin == 0 or tmp_path / JOBS / late.record not in records
    assert not log.publish(late)
    assert sorted((tmp_path / JOBS).glob("commit-*")) == records
    assert log.state()[:2] == (2 * (begin + 20), ())
    assert rows_of(tmp_path) == OLD


@pytest.mark.parametrize("answers", ["at once", "the second time", "never"])
def test_a_slow_process_whose_staged_files_were_cleaned(
    tmp_path: Path, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That its files have gone does not say that somebody has applied its commit; neither does a disk that fails."""
    log, other = table_in(tmp_path), CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    for batch in range(21):
        commit(other, Commit("other", stream="q", batch=batch))
    late = planned("job", STAGED_FILES, ["old.mosaic"], "overwrite", number=3)
    if answers == "at once":
        jobs.clean(tmp_path, timedelta(0))
    records, fails = CommitLog.records, [OSError(5, "Input/output error")] * (1 if answers == "the second time" else 2)

    def failing(log_: CommitLog) -> Any:
        if answers != "at once" and fails and (tmp_path / JOBS / late.record).exists():
            raise fails.pop()
        return records(log_)

    monkeypatch.setattr(CommitLog, "records", failing)
    if answers == "never":
        with pytest.raises(OSError, match="may have happened: see whether the table has its rows"):
            log.publish(late)
    else:
        assert not log.publish(late)
        assert not (tmp_path / JOBS / late.record).exists()
    commit(other, Commit("other", stream="q", batch=99))
    assert rows_of(tmp_path) == OLD


def test_a_commit_that_was_overtaken_counts_by_its_final_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have carried it out and made so many commits that its record was removed before it looks again."""
    log, other = table_in(tmp_path), CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    commit(other, Commit("other"))
    create = CommitLog._create

    def publish(removed: bool) -> bool:
        names = unique_names({path: final_path(path) for path in STAGED_FILES}, new_token())
        number = other.finish_pending()[0].number + 1

        def slower(log_: CommitLog, record: Location, data: bytes) -> bool:
            created = create(log_, record, data)
            if log_ is log:
                for batch in range(20):
                    commit(other, Commit("other", stream="q", batch=batch))
                for name in names.values() if removed else ():
                    (tmp_path / name).unlink()
            return created

        monkeypatch.setattr(CommitLog, "_create", slower)
        return log.publish(planned("job", names, number=number))

    assert publish(removed=False)
    assert rows_of(tmp_path) == [*OLD, *NEW]
    table_in(tmp_path)
    with pytest.raises(smalti.ConflictError, match=r"its files have gone.*See whether the table has its rows"):
        publish(removed=True)


def test_old_records_are_removed_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a store does not delete stays with all that follow, because a gap would say that it is late."""
    log, delete = table_in(tmp_path), CommitLog._delete

    def refusing(log_: CommitLog, paths: Any) -> dict[str, OSError]:
        refused = [path for path in paths if path.endswith(record_name(5))]
        return delete(log_, [path for path in paths if path not in refused]) | dict.fromkeys(refused, OSError(13, "no"))

    monkeypatch.setattr(CommitLog, "_delete", refusing)
    for batch in range(20):
        commit(log, Commit("other", stream="q", batch=batch))
    assert [number for number, _ in log.records()] == [1, *range(5, 41)]


def test_names_are_on_disk_before_the_record_that_relies_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged names before the commit, final names and removals before the record that says that it is carried out."""
    steps: list[str] = []

    def recorded(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def step(where: Any, *arguments: Any) -> Any:
            steps.append(f"{name} {Path(str(where)).relative_to(tmp_path)}")
            return act(where, *arguments)

        return step

    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
    smalti.write_table(pa.table({"x": [1]}), tmp_path / "day=2/old.mosaic")
    staged = f"{staging_directory('job', '0')}/day=1/new.mosaic"
    (tmp_path / staged).parent.mkdir(parents=True)
    smalti.write_table(pa.table({"x": [2]}), tmp_path / staged)
    monkeypatch.setattr(log_steps, "sync_directory", recorded("sync", sync_directory))
    monkeypatch.setattr(Location, "create_exclusively", recorded("create", Location.create_exclusively))
    log = CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    commit(log, planned("job", [staged], ["day=2/old.mosaic"], "overwrite"))
    first, second = (steps.index(f"create {JOBS}/{name}") for name in RECORDS)
    above = [f"{JOBS}/job/0/day=1", f"{JOBS}/job/0", f"{JOBS}/job", JOBS, "."]
    assert steps[:first] == [f"sync {path}" for path in above]
    assert set(steps[first + 1 : second]) == {"sync day=1", "sync day=2", "sync ."}


def test_a_slow_process_leaves_the_next_run_of_the_same_job_alone(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    first = commit(log, Commit("job", (Addition(staged[0], "new1.mosaic"),), (Removal("old.mosaic"),)))
    smalti.write_table(pa.table({"x": OLD}), tmp_path / "old.mosaic")  # by a later job, under the same name
    again = table_again(tmp_path)
    log.publish(again)
    log.carry_out(first)
    assert (tmp_path / "old.mosaic").exists()
    assert log.state()[:2] == (3, (again,))
    log.finish_pending()
    assert rows_of(tmp_path) == [*OLD, *NEW]


def table_again(root: Path) -> Commit:
    """The second run of a job, staged."""
    directory = root / staging_directory("job", "1")
    directory.mkdir(parents=True)
    smalti.write_table(pa.table({"x": [20]}), directory / "new2.mosaic")
    return Commit("job", (Addition(f"{staging_directory('job', '1')}/new2.mosaic", "new2.mosaic"),), number=3)


def test_symbolic_links_do_not_lead_out(tmp_path: Path) -> None:
    table, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    elsewhere.mkdir()
    table.mkdir()
    (elsewhere / "keys").write_text("precious")
    (elsewhere / "more").mkdir()
    log = table_in(table)
    (table / "x").symlink_to(elsewhere)
    (table / JOBS / "link").symlink_to(elsewhere)
    hostile = Commit("job", remove=(Removal("x/keys"),), number=1)
    with pytest.raises(MosaicError, match="leads out of its table"):
        log.publish(hostile)
    (table / JOBS / record_name(1)).write_bytes(hostile.to_json())
    with pytest.raises(MosaicError, match="leads out of its table"):
        log.finish_pending()
    (table / JOBS / record_name(1)).unlink()
    jobs.clean(table, timedelta(0))
    assert (elsewhere / "keys").read_text() == "precious"
    assert (elsewhere / "more").exists()


def test_symbolic_links_in_the_place_of_our_directories(tmp_path: Path) -> None:
    """Whoever cleans removes what is in these directories."""
    table, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    (elsewhere / "dir").mkdir(parents=True)
    for name in ("dir/x", "1", "2"):
        (elsewhere / name).write_bytes(b"x")
    table.mkdir()
    (table / JOBS).symlink_to(elsewhere)
    log = CommitLog(locate(table))
    for use in (lambda: jobs.clean(table, timedelta(0)), lambda: log.discard([f"{JOBS}/dir"])):
        with pytest.raises(MosaicError, match="out of its table, through a symbolic link"):
            use()
    (table / JOBS).unlink()
    (table / JOBS / STREAMS).mkdir(parents=True)
    (table / JOBS / STREAMS / "query").symlink_to(elsewhere)
    commit(log, Commit("job", stream="query", batch=50))
    assert sorted(path.name for path in elsewhere.rglob("*")) == ["1", "2", "dir", "x"]


def test_removals_do_not_read_the_record_each_time(tmp_path: Path) -> None:
    """A record is as long as its list of files: reading it for every file makes many removals quadratic."""
    count = 200
    for number in range(count):
        (tmp_path / f"old{number}.mosaic").write_bytes(b"x")
    log = table_in(tmp_path)
    old = [f"old{number}.mosaic" for number in range(count)]
    commit = planned("job", [f"{staging_directory('job', '0')}/new1.mosaic"], old, "overwrite")
    assert log.publish(commit)
    reads: list[str] = []
    read_bytes = Location.read_bytes

    def counted(location: Location) -> bytes:
        reads.append(location.name)
        return read_bytes(location)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Location, "read_bytes", counted)
        log.carry_out(commit)
    assert reads == []
    assert sorted(path.name for path in tmp_path.glob("*.mosaic")) == ["new1.mosaic", "old.mosaic"]


@pytest.fixture(params=["obstore", "pyarrow"])
def s3(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """A table on an object store, by a URI and by a file system that is passed."""
    options = {"access_key": "test", "secret_key": "test", "region": "us-east-1", "scheme": "http"}
    with s3_by_uri("commit") as server:
        location = locate(f"s3://commit/{tmp_path.name}/t")
        if request.param == "pyarrow":
            location = Location(S3FileSystem(**options, endpoint_override=server.address), location.path)
        yield location


def test_on_an_object_store(s3: Location) -> None:
    """The same without renames and directories: a table, a commit half carried out, a job, its overwriting."""
    fs, table = s3.filesystem, s3.path
    for name, value in [("old.mosaic", 1), (f"{JOBS}/job/0/new1.mosaic", 10), (f"{JOBS}/job/0/new2.mosaic", 20)]:
        smalti.write_table(pa.table({"x": [value]}), f"{table}/{name}", filesystem=fs)
    log = CommitLog(s3)

    def rows() -> list[int]:
        return sorted(smalti.dataset(table, filesystem=fs).to_table()["x"].to_pylist())

    assert rows() == [1]
    made = planned("job", [f"{JOBS}/job/0/new1.mosaic", f"{JOBS}/job/0/new2.mosaic"], ["old.mosaic"], "overwrite")
    log.publish(made)
    assert rows() == [10, 20]
    log._add(made, made.add[0])
    assert rows() == [10, 20]
    if not log.is_exclusive:  # pyarrow's own S3: whoever has written the record may still be at work.
        with pytest.raises(smalti.ConflictError, match="only one process may write at a time"):
            jobs.compact(table, filesystem=fs)
        with pytest.raises(smalti.ConflictError, match=r"finish the commit with smalti\.jobs\.recover"):
            jobs.clean(table, filesystem=fs)
        jobs.recover(table, filesystem=fs)
    summary = jobs.compact(table, filesystem=fs)
    assert (summary.source_files, summary.num_rows) == (2, 2)
    assert rows() == [10, 20]
    assert len(list_files(Location(fs, table)).files) == 1
    assert log.state()[1] == ()
    smalti.write_table(pa.table({"x": [0]}), f"{table}/{JOBS}/dead/0/part.mosaic", filesystem=fs)
    assert jobs.clean(table, timedelta(days=1), filesystem=fs) == []
    assert jobs.clean(table, timedelta(0), filesystem=fs) == ["dead"]
    assert rows() == [10, 20]


def test_large_objects_are_copied_in_parts(s3: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 copies up to 5 GB in one go; here it refuses all."""
    fs, table, stores = s3.filesystem, s3.path, s3.stores
    log = CommitLog(s3)
    smalti.write_table(pa.table({"x": [1]}), f"{table}/{JOBS}/job/0/a.mosaic", filesystem=fs)

    def refuse(*_: object, **__: object) -> None:
        raise obstore.exceptions.GenericError("EntityTooLarge")

    if stores is None:
        log._copy(f"{JOBS}/job/0/a.mosaic", "a.mosaic")
    else:
        with monkeypatch.context() as patched:
            patched.setattr(obstore, "copy", refuse)
            with pytest.raises(OSError, match="EntityTooLarge"):  # A small one must not go through this machine.
                stores.copy_file(f"{table}/{JOBS}/job/0/a.mosaic", f"{table}/a.mosaic")
            patched.setattr("smalti.io.stores._COPIED_AT_ONCE", 10)
            stores.copy_file(f"{table}/{JOBS}/job/0/a.mosaic", f"{table}/a.mosaic")
    assert smalti.dataset(table, filesystem=fs).to_table()["x"].to_pylist() == [1]
    assert log.state()[1] == ()


def test_a_record_that_was_cut_short_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files appear as they are written, as on HDFS, a record gets its name when it is whole."""
    slow = PyFileSystem(FSSpecHandler(fsspec.filesystem("file")))
    table_in(tmp_path)
    log = CommitLog(Location(slow, str(tmp_path)))
    staged = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
    made = planned("job", staged, ["old.mosaic"], "overwrite")

    def cut(_: object, target: IO[bytes], __: int) -> None:
        target.write(b"{")
        target.flush()
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", cut)
        with pytest.raises(OSError, match="no space left"):
            log.publish(made)
    assert rows_of(tmp_path) == OLD
    commit(log, made)
    assert rows_of(tmp_path) == NEW
    assert log.state()[1] == ()
