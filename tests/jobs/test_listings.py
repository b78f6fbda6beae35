"""How often a job lists directories and reads the state of a commit log: on object stores, each is a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from smalti import jobs
from smalti.io import Location
from smalti.table.log import CommitLog
from smalti.table.names import JOBS
from smalti.table.records import Commit
from tests.jobs.data import mixed, mosaic_files

Count = Callable[[Callable[[], object]], Counter[str]]


@pytest.fixture
def count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """Runs a job and returns how often each directory was listed and each log was read."""
    seen: Counter[str] = Counter()
    entries, state = Location.entries, CommitLog.state

    def counted_entries(location: Location, *, recursive: bool = False) -> Sequence[object]:
        parts = Path(location.path).relative_to(tmp_path).parts
        below = parts.index(JOBS) if JOBS in parts else len(parts)
        # The ids of jobs differ from run to run.
        seen["/".join([*parts[: below + 1], *("<id>" for _ in parts[below + 1 : below + 2]), *parts[below + 2 :]])] += 1
        return entries(location, recursive=recursive)

    def counted_state(log: CommitLog) -> tuple[str, tuple[Commit, ...]]:
        seen["reads of a log's state"] += 1
        return state(log)

    monkeypatch.setattr(Location, "entries", counted_entries)
    monkeypatch.setattr(CommitLog, "state", counted_state)

    def run(job: Callable[[], object]) -> Counter[str]:
        seen.clear()
        job()
        return Counter(seen)

    return run


def two_files(root: Path) -> None:
    root.mkdir()
    for number in range(2):
        pq.write_table(mixed(10, number * 10), root / f"f{number}.parquet")


def test_convert_of_two_files(tmp_path: Path, count: Count) -> None:
    two_files(tmp_path / "raw")
    new = count(lambda: jobs.convert(tmp_path / "raw", tmp_path / "out"))
    assert new == {
        # The source: listed twice, because commits of files other than Mosaic leave no mark; and the log around it.
        "raw": 2,
        f"raw/{JOBS}": 2,
        # The target is not there. The directory above could have committed files to it.
        JOBS: 1,
        # For the commit it is listed again, its log before and after that; then what else is beside the records.
        "out": 1,
        f"out/{JOBS}": 4,
        "reads of a log's state": 6,
        # Splits of an earlier run, and what is to be removed after the commit.
        f"out/{JOBS}/<id>/done": 1,
        f"out/{JOBS}/<id>": 1,
    }
    again = count(lambda: jobs.convert(tmp_path / "raw", tmp_path / "out", overwrite=True))
    assert again == {
        "raw": 2,
        f"raw/{JOBS}": 2,
        # The target: listed at the beginning and for the commit, and its log before and after each time.
        "out": 2,
        f"out/{JOBS}": 5,
        "reads of a log's state": 6,
        f"out/{JOBS}/<id>/done": 1,
        f"out/{JOBS}/<id>": 1,
    }


def test_convert_of_one_file(tmp_path: Path, count: Count) -> None:
    two_files(tmp_path / "raw")
    found = count(lambda: jobs.convert(tmp_path / "raw/f0.parquet", tmp_path / "a.mosaic"))
    assert found == {f"{JOBS}/<id>/done": 1, f"{JOBS}/<id>": 1}  # A single file has nothing to do with a log.


def test_compact_in_place(tmp_path: Path, count: Count) -> None:
    mosaic_files(tmp_path / "t", [mixed(10), mixed(10, 10)])
    found = count(lambda: jobs.compact(tmp_path / "t"))
    # Source and target are the same: listed at the beginning and for the commit.
    assert found == {
        "t": 2,
        f"t/{JOBS}": 5,
        "reads of a log's state": 4,
        f"t/{JOBS}/<id>/done": 1,
        f"t/{JOBS}/<id>": 1,
    }
