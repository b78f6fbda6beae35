"""Reading ahead: results in order, bounded in number and bytes, errors at their turn, nothing left running."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti._core.arrow_c import live_arrays
from smalti.file.reader import MosaicFile
from smalti.mosaic.scan import estimate_bytes
from smalti.readahead import REMOTE_READAHEAD, Budget, Unit, in_order, started
from smalti.tasks import Task
from tests.support.children import ROOT
from tests.support.long import LONG


class Work:
    """Units that note when they run, and how many ran at once."""

    def __init__(self, seconds: float = 0.005) -> None:
        self.begun: list[int] = []
        self.threads: set[int] = set()
        self.running = self.most = 0
        self._seconds = seconds
        self._lock = threading.Lock()

    def run(self, number: int) -> int:
        with self._lock:
            self.begun.append(number)
            self.threads.add(threading.get_ident())
            self.running += 1
            self.most = max(self.most, self.running)
        # The first ones take longest, so that later ones are done before them.
        time.sleep(self._seconds * (3 if number % 4 == 0 else 1))
        with self._lock:
            self.running -= 1
        return number

    def units(self, count: int, num_bytes: int = 1) -> Iterator[Unit[int]]:
        return (Unit(partial(self.run, number), num_bytes) for number in range(count))


@pytest.mark.parametrize("readahead", [0, 1, 3, 16])
def test_results_come_in_order_and_no_more_than_allowed_run_at_once(readahead: int) -> None:
    work = Work()
    assert list(in_order(work.units(20), Budget(readahead))) == list(range(20))
    assert work.most <= max(1, readahead)
    if readahead == 0:
        assert work.threads == {threading.get_ident()}
    if readahead == 16:
        assert work.most > 4


@pytest.mark.parametrize(("num_bytes", "most"), [(10, 16), (100, 4), (399, 1), (5000, 1)])
def test_bytes_bound_what_is_begun(num_bytes: int, most: int) -> None:
    work = Work()
    seen = 0
    for number in in_order(work.units(12, num_bytes), Budget(16, memory_limit=400)):
        seen += 1
        time.sleep(0.01)  # what can be begun has begun by now
        # The unit that was delivered counts until the next one is asked for.
        assert len(work.begun) - number <= max(1, most)
    assert seen == 12


def test_an_error_is_raised_when_its_turn_comes() -> None:
    def fail() -> int:
        raise ValueError("broken")

    work = Work()
    units = [*work.units(3), Unit(fail), *work.units(9)]
    results = in_order(units, Budget(8))
    assert [next(results), next(results), next(results)] == [0, 1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(results)
    assert work.running == 0
    assert list(results) == []


def test_closing_early_stops_the_work() -> None:
    work = Work(0.02)
    results = in_order(work.units(1000), Budget(4))
    next(results)
    results.close()
    begun = len(work.begun)
    assert work.running == 0
    assert begun <= 6
    time.sleep(0.05)
    assert len(work.begun) == begun


def test_results_are_delivered_while_the_next_unit_is_not_known_yet() -> None:
    """Units of a file are known when it is open: meanwhile those of the files before it are not held back."""
    opening = Task(lambda: 0)
    delivered: list[int] = []

    def units() -> Iterator[Unit[int] | Task[int]]:
        yield Unit(lambda: 1)
        while not opening.is_done:
            yield opening
        yield Unit(lambda: 2)

    for number in in_order(units(), Budget(4)):
        delivered.append(number)
        if number == 1:
            assert not opening.is_done
            threading.Timer(0.02, opening.run).start()
    assert delivered == [1, 2]


def test_closing_waits_for_a_unit_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the process: a unit may wait for a store that never answers."""
    monkeypatch.setattr("smalti.tasks.CLOSING_SECONDS", 0.05)
    answer, has_ended = threading.Event(), threading.Event()

    def hang() -> None:
        answer.wait(30)
        has_ended.set()

    for results in (in_order([Unit(int), Unit(hang), Unit(hang)], Budget(2)), started([int, hang], 1)):
        next(results)
        results.close()
        assert not has_ended.is_set()
    answer.set()
    assert has_ended.wait(10)


def test_ctrl_c_at_any_place_leaves_threads_in_order() -> None:
    """Locks of Python's own pools stayed locked, so that closing a read, or ending the process, waited for ever."""
    command = [sys.executable, "-m", "tests.support.interrupting_child", "1" if LONG else "5"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    interrupted, left = map(int, done.stdout.split())
    assert interrupted > 200
    assert left <= 8


@pytest.mark.parametrize("ahead", [0, 2])
def test_functions_are_started_ahead(ahead: int) -> None:
    work = Work()
    futures = started((partial(work.run, number) for number in range(10)), ahead)
    assert next(futures).result() == 0
    time.sleep(0.05)
    assert sorted(work.begun) == list(range(ahead + 1))
    assert [future.result() for future in futures] == list(range(1, 10))


@pytest.mark.parametrize(
    ("arguments", "readahead"),
    [
        ({"is_remote": True, "unit_bytes": 10}, REMOTE_READAHEAD),
        ({"is_remote": False, "unit_bytes": 10}, 0),
        ({"is_remote": False, "unit_bytes": 1 << 30, "is_file": True}, 0),
        ({"is_remote": True, "unit_bytes": 10, "is_file": True}, REMOTE_READAHEAD),
    ],
)
def test_defaults(arguments: dict[str, Any], readahead: int) -> None:
    assert Budget.choose(None, None, **arguments).readahead == readahead
    assert Budget.choose(3, 7, **arguments) == Budget(3, 3, 4)
    assert Budget.choose(0, 7, **arguments).read_limit == 7


@pytest.mark.parametrize(("readahead", "memory_limit"), [(-1, None), (None, 0)])
def test_budgets_that_are_none(readahead: int | None, memory_limit: int | None) -> None:
    with pytest.raises(ValueError, match="not"):
        smalti.open(b"", readahead=readahead, memory_limit=memory_limit)


# --- files ----------------------------------------------------------------------------------------------------------


class SlowSource(smalti.ReadAt):
    """Bytes as if from far away, which notes how many reads are under way."""

    def __init__(self, data: bytes) -> None:
        super().__init__(lambda offset, size: data[offset : offset + size], len(data), is_remote=True)
        self.tail_size = 1 << 12
        self.reads = self.running = self.most = 0
        self._lock = threading.Lock()

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            self.reads += 1
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.005)
        try:
            return super().read_at(offset, size)
        finally:
            with self._lock:
                self.running -= 1


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Twenty row groups whose bytes do not compress."""
    import random

    values = random.Random(5)
    table = pa.table({"id": range(20_000), "x": [values.random() for _ in range(20_000)]})
    path = tmp_path_factory.mktemp("twenty") / "t.mosaic"
    smalti.write_table(table, path, row_group_max_rows=1000, stats_columns=["id"])
    return path.read_bytes()


@pytest.mark.parametrize("filters", [None, [("id", ">=", 4500)], [("x", "<", 0.5)]], ids=str)
@pytest.mark.parametrize("readahead", [0, 1, 8])
def test_a_file_read_ahead_is_the_same_file(twenty: bytes, readahead: int, filters: Any) -> None:
    expected = smalti.open(twenty).read(filters=filters)
    source = SlowSource(twenty)
    with MosaicFile(source, readahead=readahead) as file:
        assert file.read(filters=filters).equals(expected)
        batches = list(file.iter_batches(300, filters=filters))
        assert pa.Table.from_batches(batches).equals(expected)
    assert source.most <= max(1, readahead)
    # Without a filter, the row groups of a small file are one request.
    assert (source.most > 1) == (readahead > 1 and filters is not None)


def test_progress_tells_of_every_row_group(twenty: bytes) -> None:
    seen: list[Any] = []
    table = smalti.open(twenty).scan(["x"], progress=seen.append).to_table()
    assert [event.done for event in seen] == list(range(1, 21))
    assert seen[-1].num_rows == table.num_rows == 20_000
    assert seen[-1].fraction == 1


def test_constant_columns_count_with_their_rows(tmp_path: Path) -> None:
    """Columns that store nothing per row take memory when they are decoded all the same."""
    path = tmp_path / "constant.mosaic"
    smalti.write_table(pa.table({"c": pa.array([7] * 100_000)}), path)
    with smalti.open(path) as file:
        assert path.stat().st_size < 1000
        assert estimate_bytes(file._tail, file.columns.every.stored, 0).decoded >= 800_000


@pytest.mark.parametrize("batch_size", [None, 300])
def test_batches_hold_one_row_group(twenty: bytes, batch_size: int | None) -> None:
    """A row group is released before the next one is fetched, if the caller has released its batches."""
    held: list[int] = []

    def read_at(offset: int, size: int) -> bytes:
        held.append(live_arrays())
        return twenty[offset : offset + size]

    source = smalti.ReadAt(read_at, len(twenty))
    source.tail_size = 32  # Otherwise opening reads all of the file.
    before = live_arrays()
    with smalti.open(source, readahead=0) as file:
        held.clear()
        batches = file.iter_batches(batch_size, columns=["x"])
        while next(batches, None) is not None:
            pass
    assert held == [before] * 20
