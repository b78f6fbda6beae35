"""Tables on stores and disks that are late, refuse, or fail: what has happened is seen, and nothing else."""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.errors import LeftoverWarning, RemovedError, ReplacedError
from smalti.io import locate
from smalti.io.locations import Location
from smalti.table.committing import Change
from smalti.table.listing import list_files, open_found
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, final_path, new_token, staging_directory, unique_names
from smalti.table.partitions import by_directory
from smalti.table.records import Commit, record_name
from tests.support.children import ROOT
from tests.support.racing_child import act
from tests.support.s3 import S3Server, s3_by_uri

RELEASES = ROOT / "tests/data/releases"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_by_uri("late") as server:
        yield server


@pytest.fixture(params=["disk", "s3"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path / "t")
    server: S3Server = request.getfixturevalue("server")
    server.reset()
    return f"s3://late/{tmp_path.name}"


def write(table: str, ids: list[int], mode: str = "append") -> None:
    act(table, mode, [(number, 0) for number in ids])


def ids(table: str) -> list[int]:
    return sorted(smalti.dataset(table).to_table(["id"])["id"].to_pylist())


def names(table: str) -> list[str]:
    """What somebody sees who only lists the directory."""
    location = locate(table)
    found = [entry.path for entry in location.entries(recursive=True) if entry.is_file]
    return sorted(path.removeprefix(location.path + "/") for path in found if f"/{JOBS}/" not in path)


def put(table: str, name: str, data: bytes) -> None:
    smalti.io.write_whole(locate(f"{table}/{name}"), data)


# --- late copies and files of others --------------------------------------------------------------------------------


def test_a_copy_that_lands_after_its_file_was_removed(server: S3Server, tmp_path: Path) -> None:
    table = f"s3://late/{tmp_path.name}"
    write(table, [1, 2])
    late = {name: locate(f"{table}/{name}").read_bytes() for name in names(table)}
    write(table, [3], "overwrite")
    for name, data in late.items():
        put(table, name, data)
    assert len(names(table)) == 3
    assert ids(table) == [3]
    server.reset()
    list_files(table)
    asked = [(request.method, request.path.rpartition("/")[2][:7]) for request in server.requests()]
    assert asked.count(("GET", "commit-")) == 1, "the checkpoint, where something was removed lately"
    write(table, [4])
    assert len(names(table)) == 2, "the next writer has swept what came back, although it only appends"
    for name, data in late.items():
        put(table, name, data)
    jobs.compact(table)
    assert (ids(table), len(names(table))) == ([3, 4], 1)


def test_files_of_others_come_back(table: str) -> None:
    """Somebody who puts `a.mosaic` back finds it there, and so does everybody else."""
    sink = pa.BufferOutputStream()
    smalti.write_table(pa.table({"id": [7]}), sink)
    for data in (sink.getvalue().to_pybytes(), b"", None):
        put(table, "day=0/a.mosaic", sink.getvalue().to_pybytes())
        write(table, [1], "overwrite")
        assert ids(table) == [1]
        if data:
            smalti.write_table(pa.table({"id": [8], "more": ["x"]}), f"{table}/day=0/a.mosaic")
            assert ids(table) == [1, 8]


def test_a_file_of_another_that_is_replaced_in_the_meantime_stays(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the plan of an overwrite and its deletions somebody puts another file there."""
    put(table, "day=0/a.mosaic", b"one")
    publish = CommitLog.publish

    def later(log: CommitLog, commit: Commit) -> bool:
        published = publish(log, commit)
        smalti.write_table(pa.table({"id": [8]}), f"{table}/day=0/a.mosaic")
        return published

    monkeypatch.setattr(CommitLog, "publish", later)
    write(table, [1], "overwrite")
    assert ids(table) == [1, 8]


def test_objects_of_the_same_size_and_second(server: S3Server, tmp_path: Path) -> None:
    """A reader must not have old rows of one file and new rows of another; S3 tells times in seconds."""
    table = f"s3://late/{tmp_path.name}"
    for name in "ab":
        smalti.write_table(pa.table({"id": [1]}), f"{table}/{name}.mosaic")
    server.reset()
    files = list_files(table)
    for name in "ab":
        smalti.write_table(pa.table({"id": [2]}), f"{table}/{name}.mosaic")
    for file in files.files:
        with pytest.raises(ReplacedError, match=r"[ab]\.mosaic: the file was replaced"):
            open_found(file, files.filesystem)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_a_store_that_refuses_to_delete(server: S3Server, tmp_path: Path) -> None:
    """Without the permission to delete, appends work, and an overwrite has happened; nobody is in the way later."""
    table = f"s3://late/{tmp_path.name}"
    write(table, [1, 2])
    server.reset(fail="POST /late?delete", times=10_000)
    with pytest.warns(LeftoverWarning, match="staged files, which clean removes"):
        write(table, [3])
    with pytest.warns(LeftoverWarning, match="3 removed files, which stay hidden"):
        write(table, [4], "overwrite")
    assert ids(table) == [4]
    with pytest.warns(LeftoverWarning):
        write(table, [5])
    assert ids(table) == [4, 5]
    with pytest.warns(LeftoverWarning):
        jobs.compact(table)
    assert ids(table) == [4, 5]
    server.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(table, [6])
    assert ids(table) == [4, 5, 6]
    assert len(names(table)) == 2
    jobs.clean(table, timedelta(0))
    assert [entry.name for entry in locate(f"{table}/{JOBS}").entries() if entry.is_directory] == []


def test_nothing_fails_after_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are there once the record is: what fails later is a warning, and the next writer does the rest."""
    table = str(tmp_path / "t")
    write(table, [1])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(CommitLog, "_add", full)
        with pytest.warns(LeftoverWarning, match=r"has happened, and all smalti readers see its rows.*No space left"):
            write(table, [2])
        assert ids(table) == [1, 2]
        with pytest.raises(
            smalti.ConflictError, match=r"commit-.*: a commit of another job is pending .*No space left"
        ):
            write(table, [3])
    write(table, [3])
    assert ids(table) == [1, 2, 3]


def test_directories_are_checked_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(tmp_path / "t")
    write(table, [1])
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("day=0"))
    with pytest.raises(PermissionError, match="day=0"):
        write(table, [2])
    monkeypatch.undo()
    assert ids(table) == [1]
    assert CommitLog(locate(table)).state()[:2] == (2, ())


def test_an_answer_that_is_lost(server: S3Server, tmp_path: Path) -> None:
    """A store that does not answer may have written the record, or write it later: that is found out, or prevented."""
    table = f"s3://late/{tmp_path.name}"
    write(table, [1])
    server.reset(fail=f"PUT /late/{tmp_path.name}/{JOBS}/commit-", how="lost")
    write(table, [2])
    assert ids(table) == [1, 2]
    location = locate(f"{table}/{JOBS}/{record_name(5)}")
    commit = Commit("job", number=5)
    create, tries = Location.create_exclusively, []

    def refused(self: Location, data: bytes) -> bool:
        tries.append(data)
        if len(tries) == 1:
            raise OSError(5, "no answer")
        return create(self, data)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Location, "create_exclusively", refused)
        with pytest.raises(OSError, match="no answer"):
            CommitLog(locate(table)).publish(commit)
    assert not location.create_exclusively(tries[0]), "the number is taken, so that the late record is none"
    (nothing,) = CommitLog(locate(table)).state().pending
    assert (nothing.number, nothing.add, nothing.remove) == (5, (), ())
    assert ids(table) == [1, 2]
    write(table, [3])
    assert ids(table) == [1, 2, 3]


def test_cleaning_between_the_look_at_staged_files_and_the_record(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table stays readable, and the job that has lost its files says so."""
    write(table, [1])
    publish = CommitLog.publish

    def cleaned(log: CommitLog, commit: Commit) -> bool:
        if commit.add:
            jobs.clean(table, timedelta(0))
        return publish(log, commit)

    monkeypatch.setattr(CommitLog, "publish", cleaned)
    with pytest.raises(smalti.ConflictError, match="a staged file has gone: the table was cleaned meanwhile"):
        write(table, [2])
    assert ids(table) == [1]


def test_partition_values_that_are_too_long() -> None:
    rows = pa.record_batch({"id": [1], "day": ["x" * 300]})
    with pytest.raises(smalti.SchemaError, match=r"day.*too long for the name of a directory: found 304 bytes"):
        list(by_directory(rows, ["day"]))


# --- readers --------------------------------------------------------------------------------------------------------


def test_a_reader_that_pauses_beside_a_compaction(table: str) -> None:
    """Without `keep` it is told what has happened; with it, it reads on, and others do not see what is kept."""
    for number in range(3):
        write(table, [number])
    # With a schema, files are opened when their turn comes; without, all of these are open already.
    begun = smalti.dataset(table, readahead=0, schema=pa.schema([("id", pa.int64())])).to_batches(["id"])
    next(begun)
    listed = list_files(table)
    jobs.compact(table)
    with pytest.raises(RemovedError, match=r"removed after the table was listed, as by a job .*\(keep=\)"):
        open_found(listed.files[0], listed.filesystem)
    with pytest.raises(RemovedError):
        list(begun)
    for number in range(3, 6):
        write(table, [number])
    begun = smalti.dataset(table, readahead=0).to_batches(["id"])
    rows = next(begun)["id"].to_pylist()
    jobs.compact(table, keep=1)
    write(table, [9], "overwrite")
    rows += [number for batch in begun for number in batch["id"].to_pylist()] if len(rows) < 6 else []
    assert sorted(rows) == list(range(6))
    assert ids(table) == [9]
    kept = locate(f"{table}/{JOBS}/kept")
    assert [entry.name for entry in kept.entries()], "for an hour"
    for entry in kept.entries():
        for file in entry.path, *(each.path for each in Location(kept.filesystem, entry.path).entries(recursive=True)):
            old = file.replace(entry.name, f"1-{entry.name.partition('-')[2]}")
            if Location(kept.filesystem, file).is_file():
                smalti.io.write_whole(Location(kept.filesystem, old), Location(kept.filesystem, file).read_bytes())
        kept.filesystem.delete_dir(entry.path)
    write(table, [10])
    assert not kept.entries(), "the next writer removes what is over"


def test_a_dynamic_overwrite_without_rows_touches_no_partition(table: str) -> None:
    """Not even that of nulls, where a table that is overwritten by no rows keeps its schema."""
    act(table, "append", [(1, None), (2, 0)])
    before = names(table)
    act(table, "dynamic", [])
    assert (ids(table), names(table)) == ([1, 2], before)
    act(table, "overwrite", [])
    assert (ids(table), len(names(table))) == ([], 1)


def test_links(tmp_path: Path) -> None:
    (tmp_path / "t/day=1").mkdir(parents=True)
    smalti.write_table(pa.table({"x": [1]}), tmp_path / "t/day=1/a.mosaic")
    (tmp_path / "t/day=1/self").symlink_to(tmp_path / "t/day=1")
    (tmp_path / "t/up").symlink_to(tmp_path)
    assert smalti.dataset(tmp_path / "t").count_rows() == 1
    (tmp_path / "t/day=1/b.mosaic").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match=r"leads to nothing: .*b\.mosaic"):
        smalti.dataset(tmp_path / "t")


def test_a_file_that_is_written_to_while_it_is_open(tmp_path: Path) -> None:
    """Columns that were read before and columns that are read after would be of two files."""
    path = tmp_path / "a.mosaic"
    options = smalti.WriterOptions(num_buckets=2, compression="none")
    smalti.write_table(pa.table({"a": [1], "b": [1]}), path, options=options)
    smalti.write_table(pa.table({"a": [2], "b": [2]}), tmp_path / "other.mosaic", options=options)
    with smalti.open(path, cache_bytes=1 << 20) as file:
        assert file.read(["a"])["a"].to_pylist() == [1]
        path.write_bytes((tmp_path / "other.mosaic").read_bytes())
        os.utime(path, ns=(0, 0))
        with pytest.raises(ReplacedError, match="written to while it was open"):
            file.read(["b"])


def test_columns_that_are_spelled_differently_are_not_gathered(tmp_path: Path) -> None:
    for name in ("Id", "id"):
        smalti.write_table(pa.table({name: [1]}), tmp_path / f"{name}-file.mosaic")
    with pytest.raises(smalti.MosaicError, match=r"spell a column differently.*found 'id', expected 'Id'"):
        jobs.compact(tmp_path)
    (tmp_path / "both").mkdir()
    for number in range(2):  # Where a file has both, they are two columns already.
        smalti.write_table(pa.table({"Id": [1], "id": [2]}), tmp_path / f"both/{number}.mosaic")
    assert jobs.compact(tmp_path / "both").num_rows == 2


def test_two_conversions_to_one_file(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without overwrite, of two that find no file, one creates it, and the other says that it was too late."""
    for number in range(2):
        put(table, f"source-{number}.csv", f"x\n{number}\n".encode())
    from smalti.jobs.target import Target

    put_file, others = Target.put_file, [1]

    def slower(target: Target, *arguments: Any) -> None:
        while others:
            jobs.convert(f"{table}/source-{others.pop()}.csv", f"{table}/one.mosaic")
        put_file(target, *arguments)

    monkeypatch.setattr(Target, "put_file", slower)
    with pytest.raises(smalti.ConflictError, match="another job has written to the target meanwhile"):
        jobs.convert(f"{table}/source-0.csv", f"{table}/one.mosaic")
    assert smalti.read_table(f"{table}/one.mosaic")["x"].to_pylist() == [1]
    jobs.convert(f"{table}/source-0.csv", f"{table}/one.mosaic", overwrite=True)
    assert smalti.read_table(f"{table}/one.mosaic")["x"].to_pylist() == [0]
    assert not [entry.name for entry in locate(f"{table}/{JOBS}").entries()]


def test_two_conversions_to_a_directory_of_another_format(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        put(table, f"source-{number}/a.csv", f"x\n{number}\n".encode())
    publish, others = CommitLog.publish, [1]

    def slower(log: CommitLog, commit: Commit) -> bool:
        while others:
            jobs.convert(f"{table}/source-{others.pop()}", f"{table}/out", target_format="arrow")
        return publish(log, commit)

    monkeypatch.setattr(CommitLog, "publish", slower)
    with pytest.raises(smalti.ConflictError, match="another job has written to the target meanwhile"):
        jobs.convert(f"{table}/source-0", f"{table}/out", target_format="arrow")
    assert names(f"{table}/out") == ["a.arrow"]
    left = [entry.name for entry in locate(f"{table}/out/{JOBS}").entries()]
    assert not [name for name in left if name.startswith("commit-")], "other tools find no records of ours"


# --- many files -----------------------------------------------------------------------------------------------------


def test_commits_in_bulk_are_few_requests(server: S3Server, tmp_path: Path) -> None:
    """At most 1.1 requests for a file that is added, and 0.01 for one that is removed, beyond a constant."""
    table, count = f"s3://late/{tmp_path.name}", 60
    location = locate(table)

    def stage(job: str) -> tuple[dict[str, str], str]:
        staged = [f"{staging_directory(job, '0')}/{number}.mosaic" for number in range(count)]
        for path in staged:
            server.ask(f"/late/{tmp_path.name}/{path}", "PUT", b"x")
        token = new_token()
        return unique_names({path: final_path(path) for path in staged}, token), token

    def counted(do: Callable[[], object]) -> int:
        server.reset()
        do()
        return len(server.requests())

    few = 30
    first, second = stage("first"), stage("second")
    appended = counted(lambda: Change(location, "append").commit("first", *first))
    assert appended <= 1.1 * count + few
    overwritten = counted(lambda: Change(location, "overwrite").commit("second", *second))
    assert overwritten <= 1.1 * count + 0.01 * count + few
    published = CommitLog(location)
    third, token = stage("third")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CommitLog, "finish", lambda *_: None)
        Change(location, "append").commit("third", third, token)
    assert len(published.state().pending) == 1
    server.reset()
    assert len(list_files(table).files) == 2 * count
    kinds = {request.method for request in server.requests() if "list-type" not in request.query}
    assert len(server.requests()) <= 10, "a reader beside a pending commit needs listings, and the record"
    assert kinds <= {"GET", "HEAD"}


# --- tables of the version before -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "rows"), [("settled", [0, 2, 3]), ("pending", [10, 20]), ("added", [0, 2, 3, 30])])
def test_tables_of_the_version_before_are_carried_on(tmp_path: Path, name: str, rows: list[int]) -> None:
    with zipfile.ZipFile(RELEASES / "tables-2026-11-16.zip") as archive:
        archive.extractall(tmp_path)
    table = tmp_path / name

    def seen() -> list[int]:
        return sorted(smalti.dataset(table).to_table()["x"].to_pylist())

    assert seen() == rows
    log = CommitLog(locate(table))
    last = log.state().last_batch("q" * 32)
    assert last == (8 if name == "pending" else 7)
    summary = jobs.compact(table)
    assert summary.num_rows == len(rows)
    assert seen() == rows
    assert log.state().last_batch("q" * 32) == last
    assert sorted(path.name for path in (table / JOBS).iterdir() if path.is_dir()) == []
    assert json.loads((table / JOBS / record_name(log.state().number)).read_bytes())["checkpoint"]["streams"]
