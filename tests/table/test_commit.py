"""The commit protocol: decisions by table, processes that die between its steps, readers that come in between."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import fsspec
import obstore
import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem, FSSpecHandler, LocalFileSystem, PyFileSystem, S3FileSystem, SubTreeFileSystem

import smalti
from smalti import jobs
from smalti.errors import MosaicError, ReplacedError
from smalti.io import Location, Source, locate
from smalti.io.locations import TEMPORARY_SUFFIX
from smalti.table import log as commit_log
from smalti.table.committing import Change
from smalti.table.listing import FoundFile, list_files, list_table
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, STREAMS, Selection, final_path, is_ours, new_token, staging_directory, unique_names
from smalti.table.records import (
    Addition,
    Checkpoint,
    Commit,
    FileId,
    Hidden,
    Mode,
    Removal,
    checkpoint_after,
    parse_record,
    plan_changes,
    plan_removals,
    record_name,
    visible_files,
)
from tests.support.s3 import s3_by_uri

STAGED = ["_mosaic_jobs/j/1/p=1/b", "_mosaic_jobs/j/0/p=3/a"]


def planned(
    job: str,
    staged: Iterable[str] | Mapping[str, str],
    existing: Iterable[str] = (),
    mode: Mode = "append",
    *,
    number: int = 1,
    **named: Any,
) -> Commit:
    """A commit of files that keep the names they were staged under, as earlier versions wrote them."""
    names = staged if isinstance(staged, Mapping) else {path: final_path(path) for path in staged}
    removed = plan_changes(names.values(), dict.fromkeys(existing, FileId(1)), mode)
    add = tuple(Addition(*pair) for pair in sorted(names.items()))
    return Commit(job, add, tuple(map(Removal, removed)), number=number, **named)


def commit(log: CommitLog, what: Commit) -> Commit:
    """Commit something that is right whatever else has happened to the table."""
    numbered = replace(what, number=log.finish_pending()[0].number + 1)
    assert log.publish(numbered)
    log.carry_out(numbered)
    return numbered


@pytest.mark.parametrize(
    ("existing", "mode", "removed"),
    [
        (["p=1/x", "p=2/y"], "append", ()),
        (["p=1/x", "p=2/y"], "overwrite", ("p=1/x", "p=2/y")),
        (["p=1/x", "p=2/y", "p=1/q=2/z", "w"], "dynamic", ("p=1/x",)),
        ([], "overwrite", ()),
    ],
)
def test_plan(existing: list[str], mode: Mode, removed: tuple[str, ...]) -> None:
    made = planned("j", STAGED, existing, mode)
    assert made.add == (("_mosaic_jobs/j/0/p=3/a", "p=3/a", -1), ("_mosaic_jobs/j/1/p=1/b", "p=1/b", -1))
    assert tuple(each.path for each in made.remove) == removed


@pytest.mark.parametrize(
    "record",
    [
        Commit("j", (Addition("_mosaic_jobs/j/0/a", "a", 7),), (Removal("b"), Removal("c", None, True))),
        Commit("j", (), (Removal("d", FileId(4, '"etag"')),), time=99, is_listed=True, keep=5, note={"x": 1}),
        Commit("clean", discard=("j1", "j2"), stream="q", batch=4),
        Checkpoint({"a": Hidden(5), "b": Hidden(6, FileId(7, "8"))}, {"q": 3}),
        Checkpoint(),
    ],
)
def test_records_are_read_as_they_were_written(record: Commit | Checkpoint) -> None:
    assert parse_record(record.to_json(), "here", 1) == record


#: What a job finds when it commits, after it has begun with files a and b of partition 1 and c of partition 2. Another
#: size or mark is another file.
ONE = FileId(1, "m")
BEFORE = {"p=1/a": ONE, "p=1/b": ONE, "p=2/c": ONE}
READ = {"p=1/a": ONE, "p=1/b": ONE}
APPENDED = {**BEFORE, "p=1/new": FileId(5)}
COMPACTED = {"p=1/ab": FileId(9), "p=2/c": ONE}
OVERWRITTEN = {"p=3/x": FileId(7)}


@pytest.mark.parametrize(
    ("mode", "found", "removed"),
    [
        ("append", APPENDED, []),
        ("append", OVERWRITTEN, []),
        ("overwrite", APPENDED, ["p=1/a", "p=1/b", "p=1/new", "p=2/c"]),
        ("overwrite", OVERWRITTEN, ["p=3/x"]),
        ("overwrite", COMPACTED, ["p=1/ab", "p=2/c"]),
        ("dynamic", APPENDED, ["p=1/a", "p=1/b", "p=1/new"]),
        ("dynamic", COMPACTED, ["p=1/ab"]),
        ("dynamic", OVERWRITTEN, []),
        ("replace", BEFORE, ["p=1/a", "p=1/b"]),
        ("replace", APPENDED, ["p=1/a", "p=1/b"]),
        ("replace", {**READ, **OVERWRITTEN}, ["p=1/a", "p=1/b"]),  # another partition was overwritten
        ("replace", {**BEFORE, "p=1/a": FileId(1)}, ["p=1/a", "p=1/b"]),  # somebody does not tell marks
        ("replace", COMPACTED, None),
        ("replace", OVERWRITTEN, None),
        ("replace", {"p=1/a": ONE}, None),
        ("replace", {**BEFORE, "p=1/a": FileId(2, "m")}, None),
        ("replace", {**BEFORE, "p=1/a": FileId(1, "other")}, None),
        ("replace", {}, None),
        ("create", {}, []),
        ("create", OVERWRITTEN, None),
    ],
)
def test_what_a_job_does_about_what_others_have_done(
    mode: Mode, found: dict[str, FileId], removed: list[str] | None
) -> None:
    if removed is None:
        with pytest.raises(smalti.ConflictError, match=r"nothing was changed\. Run"):
            plan_changes(["p=1/out"], found, mode, READ)
    else:
        assert plan_changes(["p=1/out"], found, mode, READ) == removed


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("a.mosaic", "a-{}-00000.mosaic"),
        ("day=3/a-0123456789abcdef-00007.mosaic", "day=3/a-{}-00000.mosaic"),
        ("a-00007.mosaic", "a-00007-{}-00000.mosaic"),
        ("x" * 248 + ".mosaic", "x" * 225 + "-{}-00000.mosaic"),
        ("é" * 124 + ".mosaic", "é" * 112 + "-{}-00000.mosaic"),
    ],
)
def test_names_that_never_come_back(wanted: str, name: str) -> None:
    token = new_token()
    assert unique_names({"s": wanted}, token) == {"s": name.format(token)}
    assert is_ours(name.format(token))
    assert len(name.format(token).rpartition("/")[2].encode()) <= 255
    assert unique_names({"s": wanted}, new_token()) != {"s": name.format(token)}


DAY = 24 * 3600
OURS = "p=1/a-0123456789abcdef-00000.mosaic"


@pytest.mark.parametrize(
    ("file", "found", "copies", "expected"),
    [
        (OURS, FileId(3, "m", 5 * DAY * 10**9), True, Removal(OURS)),  # put there two days ago: no copy is under way
        (OURS, FileId(3, "m", 7 * DAY * 10**9), True, Removal(OURS, None, True)),
        (OURS, FileId(3), True, Removal(OURS, None, True)),
        (OURS, FileId(3, "m", 7 * DAY * 10**9), False, Removal(OURS)),  # a rename cannot come too late
        ("a.mosaic", FileId(3, "m", 9), True, Removal("a.mosaic", FileId(3, "m"))),  # of somebody else
    ],
)
def test_how_files_are_removed(file: str, found: FileId, copies: bool, expected: Removal) -> None:
    assert plan_removals({file: found}, 7 * DAY, copies=copies) == (expected,)


OLD_NAME, NEW_NAME = Hidden(7 * DAY), Hidden(8 * DAY + 1)


@pytest.mark.parametrize(
    ("before", "made", "failed", "hidden"),
    [
        ({}, {"remove": (Removal("a"),)}, [], []),
        ({}, {"remove": (Removal("a", None, True), Removal("b"))}, [], ["a"]),
        ({}, {"remove": (Removal("a"), Removal("b", FileId(1, "m")))}, ["b"], ["b"]),
        ({"x": OLD_NAME, "y": NEW_NAME}, {"is_listed": True}, [], ["y"]),  # a day is over
        ({"x": OLD_NAME, "y": NEW_NAME}, {"is_listed": False}, [], ["x", "y"]),  # x may be there, nobody has looked
        ({"x": OLD_NAME}, {"is_listed": True, "remove": (Removal("x", None, True),)}, [], ["x"]),  # it was there
        ({"x": NEW_NAME}, {"add": (Addition("s", "x"),)}, [], []),
    ],
)
def test_what_a_checkpoint_remembers(
    before: dict[str, Hidden], made: dict[str, Any], failed: list[str], hidden: list[str]
) -> None:
    after = checkpoint_after(Checkpoint(before), Commit("j", time=8 * DAY, **made), failed)
    assert sorted(after.hidden) == hidden
    assert (after.to_json() == b"") == (not hidden)


def test_checkpoints_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smalti.table.records.MAX_REMEMBERED", 2)
    before = Checkpoint({name: Hidden(8 * DAY + age) for age, name in enumerate("abcd")})
    made = Commit("j", remove=(Removal("e", None, True), Removal("f", None, True)), time=8 * DAY + 9, is_listed=True)
    assert sorted(checkpoint_after(before, made).hidden) == ["c", "d", "e", "f"]


def test_streams_in_checkpoints() -> None:
    after = checkpoint_after(Checkpoint(streams={"q": 4, "r": 1}), Commit("j", stream="q", batch=5))
    assert after.streams == {"q": 5, "r": 1}
    assert checkpoint_after(after, Commit("j", stream="q", batch=2)).streams == {"q": 5, "r": 1}


@pytest.mark.parametrize(
    ("listed", "visible"),
    [
        (["old", "kept"], {"kept": None, "a": "s/a", "b": "s/b"}),  # nothing carried out yet
        (["old", "kept", "a"], {"kept": None, "a": "s/a", "b": "s/b"}),  # half of it, or an older a
        (["kept", "a", "b"], {"kept": None, "a": "s/a", "b": "s/b"}),  # all but the record
        (["kept", "hidden", "back"], {"kept": None, "back": None, "a": "s/a", "b": "s/b"}),
        (["kept", "theirs"], {"kept": None, "theirs": None, "a": "s/a", "b": "s/b"}),  # put there again
    ],
)
def test_visible(listed: list[str], visible: dict[str, str | None]) -> None:
    pending = Commit(
        "j", (Addition("s/a", "a"), Addition("s/b", "b")), (Removal("old"), Removal("theirs", FileId(1, "first")))
    )
    memory = Checkpoint({"hidden": Hidden(1), "back": Hidden(1, FileId(1, "first"))})
    found = visible_files(dict.fromkeys(listed, FileId(1, "second")), [pending], memory)
    assert {name: addition and addition.staged for name, addition in found.items()} == visible


def test_later_commits_may_remove_what_earlier_ones_add() -> None:
    commits = [Commit("1", (Addition("s/a", "a"),)), Commit("2", (Addition("s/b", "b"),), (Removal("a"),))]
    assert list(visible_files({}, commits)) == ["b"]


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b'{"version": 1, "job": "x", "token": "t", "add": [], "remove": []}',
        b'{"version": 2, "job": "x", "add": [], "remove": []}',
        b"\xff",
        b'{"version": 2, "job": "x", "token": "t", "add": [], "remove": [], "batch": "soon"}',
        b'{"version": 2, "job": "x", "token": "t", "add": [], "remove": [], "batch": 1' + b"0" * 300 + b"}",
        b'{"version": 2, "job": "x", "token": "t", "add": [], "remove": [], "batch": 1' + b"0" * 9000 + b"}",
        b'{"version": 2, "job": "x", "token": "t", "add": [], "remove": [], "number": 5}',
        b'{"version": 2, "job": "x", "token": "t", "remove": [], "add": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"version": 2, "job": "x", "token": "t", "remove": [], "add": {"a": "b"}}',
        b'{"version": 2, "job": 3, "token": "t", "remove": [], "add": []}',
        b'{"version": 2, "job": "x", "token": "t", "remove": [], "add": [], "stream": []}',
    ],
)
def test_bad_records_are_refused(data: bytes) -> None:
    with pytest.raises(MosaicError, match="here: not a commit record"):
        parse_record(data, "here", 1)


@pytest.mark.parametrize("path", ["../x.mosaic", "/etc/passwd", "//etc/passwd", "a/../../b", "a/./b", "", "..", "/"])
@pytest.mark.parametrize("where", ["staged", "final", "remove", "stream", "job", "token"])
def test_records_stay_within_their_table(path: str, where: str) -> None:
    """Whoever finds a record carries it out: it must not move or delete what is not the table's."""
    record = {"version": 2, "job": "j", "token": "t", "add": [["_mosaic_jobs/j/0/a", "a"]], "remove": ["b"]}
    if where in ("staged", "final"):
        record["add"] = [[path, "a"] if where == "staged" else ["_mosaic_jobs/j/0/a", path]]
    else:
        record[where] = [path] if where == "remove" else path
    with pytest.raises(
        MosaicError, match=r"here: a commit (names a path outside its table|adds a file that no job has)"
    ):
        parse_record(json.dumps(record).encode(), "here", 1)


@pytest.mark.parametrize("path", ["a\0b", "p=1/" + "x" * 256, "é" * 128, "\ud800"])
@pytest.mark.parametrize("where", ["final", "remove", "stream", "job"])
def test_paths_that_no_file_system_takes(path: str, where: str) -> None:
    record = {"version": 2, "job": "j", "token": "t", "add": [["_mosaic_jobs/j/0/a", "a"]], "remove": ["b"]}
    if where == "final":
        record["add"] = [["_mosaic_jobs/j/0/a", path]]
    else:
        record[where] = [path] if where == "remove" else path
    with pytest.raises(MosaicError, match=r"here: (a commit names a path|not a commit record)"):
        parse_record(json.dumps(record).encode(), "here", 1)


@pytest.mark.parametrize("job", [STREAMS, ".."])
def test_jobs_that_are_none(job: str) -> None:
    """Once a commit is carried out, the directory of its job is removed: it must be one."""
    with pytest.raises(MosaicError, match="outside its table"):
        parse_record(Commit(job).to_json(), "here", 1)


BROKEN = [b"{", b'{"note": ' * 50_000, *(Commit("job", remove=(Removal(path),)).to_json() for path in ("../x", "\0"))]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("name", [record_name(1), "add-x.json"])
def test_cleaning_gets_past_broken_records(tmp_path: Path, data: bytes, name: str) -> None:
    """A record that cannot be read stops readers and writers with one clear error, until the table is cleaned."""
    table = tmp_path / "t"
    table.mkdir()
    log = table_in(table)
    (table / JOBS / name).write_bytes(data)
    for use in (log.finish_pending, log.finish_pending, lambda: smalti.dataset(table)):
        with pytest.raises(MosaicError, match=f"{name}: (not a commit record|a commit names)"):
            use()
    assert jobs.clean(table, timedelta(days=1)) == [name]
    assert seen(table) == OLD
    assert (table / STAGED_FILES[0]).exists(), "the staged files of a broken record are not old yet"
    commit(log, planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    assert seen(table) == NEW


def test_cleaning_gets_past_a_record_that_cannot_be_carried_out(tmp_path: Path) -> None:
    log = table_in(tmp_path)
    assert log.publish(planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    (tmp_path / STAGED_FILES[1]).unlink()
    (tmp_path / staging_directory("dead", "0")).mkdir(parents=True)
    os.utime(tmp_path / staging_directory("dead", "0"), (0, 0))
    os.utime(tmp_path / staging_directory("dead", ""), (0, 0))
    with pytest.raises(MosaicError, match=r"new2\.mosaic: a committed file has gone"):
        jobs.clean(tmp_path, timedelta(days=1))
    assert not (tmp_path / JOBS / "dead").exists()
    assert jobs.clean(tmp_path, timedelta(0)) == [record_name(1), "job"]
    assert log.state()[:2] == (4, ()), "the commit that was given up, and the job that was dropped"


def test_a_commit_that_is_given_up_has_not_happened(tmp_path: Path) -> None:
    """Files that it was to replace stay, also those that a checkpoint would hide, and its batch is not committed."""
    table = tmp_path / "t"
    table.mkdir()
    log = table_in(table)
    add = (Addition(STAGED_FILES[0], "new1.mosaic"),)
    assert log.publish(Commit("job", add, (Removal("old.mosaic", None, True),), stream="q", batch=0, number=1))
    (table / STAGED_FILES[0]).unlink()
    assert record_name(1) in jobs.clean(table, timedelta(0))
    assert seen(table) == OLD
    assert log.state().last_batch("q") == -1


@pytest.mark.parametrize(
    "hostile",
    [
        {"add": (Addition(f"{JOBS}/job/0/new1.mosaic", "p=1"),)},
        {"add": (Addition(f"{JOBS}/job/0/new1.mosaic", "old.mosaic/x.mosaic"),)},
        {"add": (Addition(f"{JOBS}/job/0/new1.mosaic", "/".join(["d" * 250] * 20)),)},
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_cleaning_gets_past_paths_that_cannot_be(tmp_path: Path, hostile: dict[str, Any], number: int) -> None:
    table = tmp_path / "t"
    table.mkdir()
    log = table_in(table)
    (table / "p=1").mkdir()
    commit = Commit("hostile", **hostile, number=number)
    (table / JOBS / commit.record).write_bytes(commit.to_json())
    for use in (log.finish_pending, lambda: jobs.clean(table, timedelta(days=1))):
        with pytest.raises(MosaicError, match=f"{commit.record}: a commit cannot be carried out"):
            use()
    assert commit.record in jobs.clean(table, timedelta(0))
    assert seen(table) == OLD
    assert log.finish_pending()[0].number == 2 * number + 2


@pytest.mark.parametrize("number", [0, 10**16 - 1, 10**30])
@pytest.mark.parametrize("data", [b"", b"{", Commit("hostile").to_json()])
def test_records_with_the_first_number_and_with_very_large_ones(tmp_path: Path, number: int, data: bytes) -> None:
    """Numbers have no end: after sixteen nines a name has one digit more. Nobody writes a record with number 0."""
    table = tmp_path / "t"
    table.mkdir()
    log = table_in(table)
    (table / JOBS / record_name(number)).write_bytes(data)
    jobs.clean(table, timedelta(days=1))
    committed = commit(log, planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    assert committed.number == number + (1 if data == b"" or number == 0 else 2)
    assert seen(table) == NEW
    assert log.state()[:2] == (committed.number + 1, ())


def test_cleaning_beside_writers_and_others_who_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary file that was listed may be renamed by its writer, or removed by another process that cleans."""
    (tmp_path / f".link.mosaic.0123456789ab{TEMPORARY_SUFFIX}").symlink_to("nowhere")
    for number in range(3):
        (tmp_path / f".{number}.mosaic.0123456789ab{TEMPORARY_SUFFIX}").write_bytes(b"x")
    walk = os.walk

    def late(path: str) -> Iterator[Any]:
        for found in walk(path):
            (tmp_path / f".1.mosaic.0123456789ab{TEMPORARY_SUFFIX}").unlink()
            yield found

    monkeypatch.setattr(os, "walk", late)
    assert sorted(name[:2] for name in jobs.clean(tmp_path, timedelta(0))) == [".0", ".2", ".l"]
    assert not list(tmp_path.iterdir())


def test_cleaning_takes_leftovers_of_killed_writers(tmp_path: Path) -> None:
    (tmp_path / "t/day=1").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    leftover, young, theirs = (
        directory / f".a.mosaic.0123456789ab{TEMPORARY_SUFFIX}"
        for directory in (tmp_path / "t/day=1", tmp_path / "t", elsewhere)
    )
    kept = tmp_path / "t/day=1/a.mosaic"
    for path in (leftover, young, theirs, kept):
        path.write_bytes(b"x")
    for path in (leftover, theirs, kept):
        os.utime(path, (0, 0))
    (tmp_path / "t/link").symlink_to(elsewhere)
    assert jobs.clean(tmp_path / "t") == [f"day=1/{leftover.name}"]
    assert [path.exists() for path in (leftover, young, theirs, kept)] == [False, True, True, True]


# --- a table, and processes that die --------------------------------------------------------------------------------

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
OLD, NEW = [1, 2], [10, 20]
STAGED_FILES = [f"{staging_directory('job', '0')}/new{n}.mosaic" for n in (1, 2)]
#: The record of a commit, and the one that says that it was carried out.
RECORDS = [record_name(1), record_name(2)]


def table_in(root: Path) -> CommitLog:
    smalti.write_table(pa.table({"x": OLD}), root / "old.mosaic")
    directory = root / staging_directory("job", "0")
    directory.mkdir(parents=True)
    for number, value in enumerate(NEW, 1):
        smalti.write_table(pa.table({"x": [value]}), directory / f"new{number}.mosaic")
    return CommitLog(Location(LocalFileSystem(), str(root)))


def rows_of(root: Path) -> list[int]:
    return sorted(smalti.dataset(root).to_table()["x"].to_pylist())


READERS: dict[str, Callable[[Path], list[int]]] = {
    "dataset": rows_of,
    "glob": lambda root: sorted(smalti.dataset(f"{root}/*.mosaic").to_table()["x"].to_pylist()),
    "from above": lambda root: sorted(smalti.dataset(root.parent).to_table()["x"].to_pylist()),
    "glob from above": lambda root: sorted(smalti.dataset(f"{root.parent}/*").to_table()["x"].to_pylist()),
}


def seen(root: Path) -> list[int]:
    """What every way of reading finds."""
    found = {name: reader(root) for name, reader in READERS.items()}
    assert len({tuple(rows) for rows in found.values()}) == 1, found
    return found["dataset"]


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


def test_batches_of_a_stream_are_remembered(tmp_path: Path) -> None:
    log = CommitLog(Location(LocalFileSystem(), str(tmp_path)))

    def last(stream: str = "q") -> int:
        return log.state().last_batch(stream)

    assert last() == -1
    log.publish(Commit("j1", stream="q", batch=0, number=1))
    assert last() == 0
    log.finish_pending()
    assert (last(), last("other")) == (0, -1)
    for batch in range(1, 40):
        commit(log, Commit(f"j{batch}", stream="q", batch=batch))
    log.carry_out(Commit("j38", stream="q", batch=38, number=77))  # by a process that was slow
    assert last() == 39
    assert len(list((tmp_path / JOBS).rglob("*"))) < 50
    assert log.state()[:2] == (80, ())


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


def change(root: Path | Location, mode: Mode = "overwrite", **named: Any) -> Change:
    return Change(root if isinstance(root, Location) else Location(LocalFileSystem(), str(root)), mode, **named)


NAMES = {path: final_path(path) for path in STAGED_FILES}


def test_what_cannot_be_carried_out_is_not_published(tmp_path: Path) -> None:
    table_in(tmp_path)
    (tmp_path / STAGED_FILES[1]).unlink()
    with pytest.raises(MosaicError, match=r"new2\.mosaic: a staged file has gone"):
        change(tmp_path).commit("job", NAMES, new_token())
    assert rows_of(tmp_path) == OLD


def test_a_number_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, other = table_in(tmp_path), CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    late = planned("job", STAGED_FILES, ["old.mosaic"], "overwrite", number=1)
    commit(other, Commit("other", stream="q", batch=0))
    assert not log.publish(late)
    assert rows_of(tmp_path) == OLD
    publish, tried = CommitLog.publish, []

    def slowly(self: CommitLog, what: Commit) -> bool:
        tried.append(what.number)
        if len(tried) == 1:
            publish(self, Commit("other", stream="q", batch=1, number=what.number))
        return publish(self, what)

    monkeypatch.setattr(CommitLog, "publish", slowly)
    assert change(tmp_path).commit("job", NAMES, new_token())
    assert tried == [3, 5]
    assert rows_of(tmp_path) == NEW


def test_a_table_that_never_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_in(tmp_path)
    monkeypatch.setattr("smalti.table.committing._MAX_ATTEMPTS", 3)
    publish = CommitLog.publish

    def late(self: CommitLog, what: Commit) -> bool:
        publish(self, Commit("other", stream="q", batch=what.number, number=what.number))
        return publish(self, what)

    monkeypatch.setattr(CommitLog, "publish", late)
    with pytest.raises(smalti.ConflictError, match=r"other jobs have committed first .* found 3 attempts"):
        change(tmp_path).commit("job", NAMES, new_token())
    assert rows_of(tmp_path) == OLD


@pytest.mark.parametrize("begin", [0, 1, 7])
def test_a_process_that_was_slow_for_many_commits(tmp_path: Path, begin: int) -> None:
    """The record of its number was removed long ago, so that the number seems to be free."""
    log, other = table_in(tmp_path), CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    for batch in range(begin):
        commit(other, Commit("other", stream="q", batch=batch))
    late = planned("job", STAGED_FILES, ["old.mosaic"], "overwrite", number=2 * begin + 1)
    for batch in range(begin, begin + 60):
        commit(other, Commit("other", stream="q", batch=batch))
    records = sorted((tmp_path / JOBS).glob("commit-*"))
    assert begin == 0 or tmp_path / JOBS / late.record not in records
    assert not log.publish(late)
    assert sorted((tmp_path / JOBS).glob("commit-*")) == records
    assert log.state()[:2] == (2 * (begin + 60), ())
    assert rows_of(tmp_path) == OLD


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
    monkeypatch.setattr(commit_log, "sync_directory", recorded("sync", commit_log.sync_directory))
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


def test_dynamic_overwriting_knows_a_partition_however_it_is_spelled() -> None:
    staged = ["_mosaic_jobs/j/0/city=S%C3%A3o%20Paulo/b.mosaic"]
    existing = ["city=São Paulo/a.mosaic", "city=Oslo/a.mosaic"]
    assert planned("j", staged, existing, "dynamic").remove == (Removal("city=São Paulo/a.mosaic"),)


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
    log = CommitLog(Location(LocalFileSystem(), str(root)))
    existing = [f"day={day}/old.mosaic" for day in (1, 2, 3)]
    log.publish(planned("job", staged, existing, "dynamic"))
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
    log.finish_pending()
    assert rows() == expected
    # What was found before its files were moved finds them still.
    assert sorted(before.to_table()["x"].to_pylist()) == [x for x, _ in expected]


def test_what_a_commit_replaces_by_name_is_not_seen(tmp_path: Path) -> None:
    for name in ("a", "b"):
        smalti.write_table(pa.table({"x": [0]}), tmp_path / f"{name}.mosaic")
    log = CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    staged = [f"{staging_directory('job', '0')}/{name}.mosaic" for name in ("a", "b")]
    (tmp_path / staged[0]).parent.mkdir(parents=True)
    for path in staged:
        smalti.write_table(pa.table({"x": [1]}), tmp_path / path)
    made = planned("job", staged, [], "append")
    log.publish(made)
    log._add(made, made.add[0])
    assert smalti.dataset(tmp_path).to_table()["x"].to_pylist() == [1, 1]


def test_other_paths_to_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = partitioned(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t/day=1")
    monkeypatch.chdir(tmp_path / "t/day=1")
    for path in (".", "../day=1", "new.mosaic", tmp_path / "link", tmp_path / "t/day=1/new.mosaic"):
        assert smalti.dataset(path).to_table()["x"].to_pylist() == [10], path
    log.finish_pending()
    for path in (".", "../day=1", "new.mosaic", tmp_path / "link"):
        assert smalti.dataset(path).to_table()["x"].to_pylist() == [10], path


def test_a_file_that_was_replaced_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """Old rows of one file and new rows of another would be a table that never was."""
    for name in ("a", "b"):
        smalti.write_table(pa.table({"x": [1, 2]}), tmp_path / f"{name}.mosaic")
    begun, ds = smalti.dataset(tmp_path).to_batches(), smalti.dataset(tmp_path, schema=pa.schema([("x", pa.int64())]))
    batches = ds.to_batches()  # Its schema is given, so that a file is opened when its turn comes.
    assert [next(begun)["x"].to_pylist(), next(batches)["x"].to_pylist()] == [[1, 2], [1, 2]]
    smalti.write_table(pa.table({"x": [3, 4]}), tmp_path / "b.mosaic")  # of the same size
    assert [batch["x"].to_pylist() for batch in begun] == [[1, 2]]  # The old file is still open.
    with pytest.raises(MosaicError, match=r"b\.mosaic: the file was replaced after the table was listed"):
        list(batches)


def test_a_reader_starts_over_when_files_have_gone(tmp_path: Path) -> None:
    """A dataset that was opened before an overwrite lists the table again, and has all of the new rows."""
    log = table_in(tmp_path)
    reads = ("to_table", "to_batches", "count_rows", "filtered", "schema", "begun")
    opened = {name: smalti.dataset(tmp_path) for name in reads}
    begun = opened["begun"].to_batches(batch_size=1)
    assert next(begun)["x"].to_pylist() == OLD[:1]
    commit(log, planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    assert opened["to_table"].to_table()["x"].to_pylist() == NEW
    assert [value for batch in opened["to_batches"].to_batches() for value in batch["x"].to_pylist()] == NEW
    assert opened["count_rows"].count_rows() == 2
    assert opened["filtered"].count_rows([("x", ">", 10)]) == 1
    assert opened["schema"].schema == pa.schema([("x", pa.int64())])
    # What was begun is read to its end: the file that is open is there until it is closed.
    assert [value for batch in begun for value in batch["x"].to_pylist()] == OLD[1:]


def test_a_reader_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_in(tmp_path)
    found = smalti.dataset(tmp_path)
    tries = []

    def replaced(file: FoundFile, _: FileSystem) -> Source:
        tries.append(file.path)
        raise ReplacedError("the file was replaced", path=file.path)

    monkeypatch.setattr("smalti.table.snapshot.open_found", replaced)
    for patience in (0.0, 0.5):
        monkeypatch.setattr("smalti.table.listing._READ_PATIENCE", patience)
        tries.clear()
        begun = time.monotonic()
        with pytest.raises(ReplacedError):
            found.count_rows()
        assert time.monotonic() - begun >= patience
        assert len(tries) >= 10


def test_what_is_missing_is_not_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo beside a million files costs a look or two, and fails as a typo."""
    entries, listed = Location.entries, []

    def counted_entries(location: Location, *, recursive: bool = False) -> Sequence[object]:
        listed.append(location.path)
        return entries(location, recursive=recursive)

    monkeypatch.setattr(Location, "entries", counted_entries)
    with pytest.raises(FileNotFoundError):
        smalti.dataset(tmp_path / "nope")
    assert listed == [f"{tmp_path}/{JOBS}"]  # only the commits of the directory above are looked at


def test_hidden_files_that_come_and_go_do_not_matter() -> None:
    selection = Selection("t", (), "")
    assert selection.same(["t/a", "t/.tmp1"], ["t/.tmp2", "t/a", "t/_x/b"])
    assert not selection.same(["t/a"], ["t/a", "t/b"])


@pytest.mark.parametrize("scheme", ["memory", "file", "subtree"])
def test_file_systems_that_list_by_another_spelling(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fs = SubTreeFileSystem(str(tmp_path), LocalFileSystem()) if scheme == "subtree" else fsspec.filesystem(scheme)
    spelled = ("/one", "one/") if scheme != "file" else ("./one", f"{tmp_path}//one")
    for number, path in enumerate(spelled):
        fs.create_dir(path) if scheme == "subtree" else fs.makedirs(path, exist_ok=True)
        smalti.write_table(pa.table({"x": [number]}), f"{path.rstrip('/')}/{number}.mosaic", filesystem=fs)
    for path in ("one", *spelled):
        assert sorted(smalti.dataset(path, filesystem=fs).to_table()["x"].to_pylist()) == [0, 1], path
    jobs.convert(spelled[0], spelled[0].replace("one", "two"), filesystem=fs)
    with pytest.raises(FileExistsError):
        jobs.convert(spelled[0], spelled[1].replace("one", "two"), filesystem=fs)
    jobs.convert(spelled[0], spelled[1].replace("one", "two"), filesystem=fs, overwrite=True)
    assert smalti.dataset("two", filesystem=fs).count_rows() == 2


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


def test_a_committed_file_that_is_gone(tmp_path: Path) -> None:
    partitioned(tmp_path / "t")
    (tmp_path / "t" / staging_directory("job", "0") / "day=4/new.mosaic").unlink()
    with pytest.raises(MosaicError, match=r"day=4/new\.mosaic: a committed file has gone"):
        smalti.dataset(tmp_path / "t")


# --- jobs, and object stores ----------------------------------------------------------------------------------------


def test_a_table_within_a_table(tmp_path: Path) -> None:
    """Who overwrites the outer one must know the files of the inner one by the names they will have."""
    partitioned(tmp_path / "lake/sales")
    smalti.write_table(pa.table({"x": [1]}), tmp_path / "lake/other.mosaic")
    found = list_table(locate(tmp_path / "lake")).files
    names = [str(Path(file.path).relative_to(tmp_path / "lake")) for file in found]
    days = [(1, "new"), (2, "new"), (3, "old"), (4, "new")]
    assert names == ["other.mosaic", *(f"sales/day={day}/{name}.mosaic" for day, name in days)]


def test_readers_move_nothing(tmp_path: Path) -> None:
    """Whoever only reads needs the permission to read: a commit that is pending stays pending."""
    partitioned(tmp_path / "t")
    before = sorted(path for path in (tmp_path / "t").rglob("*"))
    assert jobs.convert(tmp_path / "t", tmp_path / "out", target_format="parquet").num_rows == 4
    assert jobs.verify(tmp_path / "t").ok
    assert jobs.profile(tmp_path / "t").num_rows == 4
    assert smalti.dataset(tmp_path / "t").count_rows() == 4
    assert sorted(path for path in (tmp_path / "t").rglob("*")) == before


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
    assert len(list_files(table, fs).files) == 1
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
