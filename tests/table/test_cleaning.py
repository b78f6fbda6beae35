"""What cleaning removes: broken records, commits that cannot be carried out, files of killed jobs and writers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import smalti
from smalti import jobs
from smalti.errors import MosaicError
from smalti.io.locations import TEMPORARY_SUFFIX
from smalti.table.names import JOBS, staging_directory
from smalti.table.records import Addition, Commit, Removal, record_name
from tests.support.commits import NEW, OLD, STAGED_FILES, commit, planned, seen, table_in

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
