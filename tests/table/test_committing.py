"""Commits that are planned again because another job was faster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

import smalti
from smalti.errors import LeftoverWarning, MosaicError
from smalti.io import Location
from smalti.table.committing import Change
from smalti.table.log import CommitLog
from smalti.table.names import final_path, new_token
from smalti.table.records import Commit, Mode
from tests.support.commits import NEW, OLD, STAGED_FILES, commit, planned, rows_of, table_in


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


def test_a_disk_that_dies_right_after_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit has happened. A job that reported an error would be run again, and its rows would be there twice."""
    commit(table_in(tmp_path), Commit("other"))
    link = os.link

    def dead(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    def last(*paths: Any) -> None:
        link(*paths)
        for owner, name in ((os, "fsync"), (Path, "unlink"), (Location, "infos"), (Location, "make_directory")):
            patched.setattr(owner, name, dead)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", last)
        with pytest.warns(LeftoverWarning, match="the commit has happened, and all smalti readers see its rows"):
            assert change(tmp_path, "append").commit("job", NAMES, new_token())
    assert rows_of(tmp_path) == [*OLD, *NEW]
