"""Records and decisions of commits, by tables of cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

import smalti
from smalti.errors import MosaicError
from smalti.table.names import STREAMS
from smalti.table.records import (
    Addition,
    Checkpoint,
    Commit,
    FileId,
    FilesAddedError,
    FinishedRun,
    Hidden,
    Mode,
    Removal,
    Run,
    checkpoint_after,
    parse_record,
    plan_changes,
    plan_removals,
    refuse_finished,
    refuse_old_columns,
    visible_files,
)
from tests.support.commits import planned

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
        Commit("j", (), (Removal("d"),), rewrites=True, changes_columns=True),
        Checkpoint({"a": Hidden(5), "b": Hidden(6, FileId(7, "8"))}, {"q": 3}),
        Commit("j", run=Run("nightly", "3f"), note={"rows": 1}),
        Checkpoint(rewritten=5, columns_changed=3, runs={"b": FinishedRun("", {}), "a": FinishedRun("3f", {"x": [1]})}),
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
    ("found", "removed"),
    [
        (BEFORE, ["p=1/a", "p=1/b"]),
        (READ, ["p=1/a", "p=1/b"]),  # a file that the job has seen, and not changed, has gone
        (COMPACTED, smalti.ConflictError),
        (OVERWRITTEN, smalti.ConflictError),
        (APPENDED, FilesAddedError),  # the job has to change the new file, too
        ({**READ, "p=2/c": FileId(2, "m")}, FilesAddedError),  # it has seen another file there
    ],
)
def test_what_a_job_that_changes_all_files_does(found: dict[str, FileId], removed: list[str] | type[Exception]) -> None:
    if isinstance(removed, list):
        assert plan_changes(["p=1/out"], found, "change", READ, BEFORE) == removed
    else:
        with pytest.raises(smalti.ConflictError, match=r"nothing was changed\. Run") as raised:
            plan_changes(["p=1/out"], found, "change", READ, BEFORE)
        assert raised.type is removed


def test_an_append_does_not_bring_old_columns_back() -> None:
    drop = Commit("j", (), (Removal("a"),), rewrites=True, changes_columns=True, number=3)
    after = checkpoint_after(Checkpoint(), drop)
    assert (after.rewritten, after.columns_changed) == (3, 3)
    compacted = checkpoint_after(after, Commit("j", rewrites=True, number=5))
    assert (compacted.rewritten, compacted.columns_changed) == (5, 3)
    assert checkpoint_after(compacted, Commit("j", number=7)) == compacted
    refuse_old_columns(compacted, 4)  # It has begun when the drop was done.
    with pytest.raises(smalti.ConflictError, match="removed, renamed or given another type"):
        refuse_old_columns(compacted, 2)


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


def test_named_runs_in_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smalti.table.records.MAX_RUNS", 2)
    after = Checkpoint()
    for name in "abc":
        after = checkpoint_after(after, Commit("j", run=Run(name, "3f"), note={"rows": 1}))
        after = checkpoint_after(after, Commit("j"))
    assert after.runs == {"b": ("3f", {"rows": 1}), "c": ("3f", {"rows": 1})}
    refuse_finished(after, Run("a"))
    with pytest.raises(smalti.ConflictError, match=r"nothing was changed.*found run_id='b'"):
        refuse_finished(after, Run("b"))


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
        b'{"version": 3, "job": "x", "token": "t", "remove": [], "add": [], "run": [3]}',
        b'{"version": 3, "checkpoint": {"hidden": [], "streams": {}, "runs": [["a", "b", []]]}}',
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


def test_dynamic_overwriting_knows_a_partition_however_it_is_spelled() -> None:
    staged = ["_mosaic_jobs/j/0/city=S%C3%A3o%20Paulo/b.mosaic"]
    existing = ["city=São Paulo/a.mosaic", "city=Oslo/a.mosaic"]
    assert planned("j", staged, existing, "dynamic").remove == (Removal("city=São Paulo/a.mosaic"),)
