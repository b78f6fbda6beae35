"""Small tables with commits, for the tests of commits and of those who read beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

import smalti
from smalti.io import Location
from smalti.table.log import CommitLog
from smalti.table.names import final_path, staging_directory
from smalti.table.records import (
    Addition,
    Commit,
    FileId,
    Mode,
    Removal,
    plan_changes,
    record_name,
)


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
