"""Commits that are planned again because another job was faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

import smalti
from smalti.errors import MosaicError
from smalti.io import Location
from smalti.table.committing import Change
from smalti.table.log import CommitLog
from smalti.table.names import final_path, new_token
from smalti.table.records import (
    Commit,
    Mode,
)
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
