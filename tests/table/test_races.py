"""Pairs of jobs that change one table at the same moment, as real processes: no row is lost, doubled or comes back.

In each round two processes do their actions on the same small table. Afterwards the table has to be what one order of
the actions that succeeded would have made of it. An action that failed must say that it met a conflict, and must have
changed nothing. A short run is part of the tests; ``SMALTI_RACES=200`` asks for that many rounds of each pair.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.errors import RemovedError, ReplacedError
from smalti.io import locate
from smalti.spark.driver.plan import Table
from smalti.spark.options import ReadOptions
from smalti.spark.task.read import Metrics, TaskScan
from smalti.table.listing import list_files
from smalti.table.log import CommitLog
from smalti.table.splits import Piece
from tests.support import racing_child
from tests.support.children import ROOT
from tests.support.s3 import s3_by_uri

ROUNDS = int(os.environ.get("SMALTI_RACES", "1"))
#: The longest that a process waits before it commits, in seconds.
LONGEST = 0.02
Row = tuple[int, int]
Action = tuple[Any, ...]
Rows = Counter[Row]

START: list[Row] = [(number, number % 3) for number in range(12)]
ONE: list[Row] = [(100, 0), (101, 1)]
TWO: list[Row] = [(200, 0), (201, 2)]

#: Two lists of actions that run at the same time; what is compacted reads the table and no other rows.
PAIRS: dict[str, tuple[list[Action], list[Action]]] = {
    "append, append": ([("append", ONE)], [("append", TWO)]),
    "overwrite, overwrite": ([("overwrite", ONE)], [("overwrite", TWO)]),
    "append, overwrite": ([("append", ONE)], [("overwrite", TWO)]),
    "compact, append": ([("compact",)], [("append", ONE)]),
    "compact, append and compact": ([("compact",)], [("append", ONE), ("compact",)]),
    "compact, overwrite": ([("compact",)], [("overwrite", ONE)]),
    "compact, compact": ([("compact",)], [("compact",)]),
    "compact, another compact": ([("compact",)], [("compact", {"sort_by": "id"})]),
    "dynamic, dynamic": ([("dynamic", ONE)], [("dynamic", TWO)]),
    "dynamic, append": ([("dynamic", ONE)], [("append", TWO)]),
    "dynamic, overwrite": ([("dynamic", ONE)], [("overwrite", TWO)]),
    "dynamic, compact": ([("dynamic", ONE)], [("compact",)]),
    "compact, clean": ([("compact",)], [("clean",), ("clean",)]),
    "convert, overwrite": ([("convert", ONE)], [("overwrite", TWO)]),
    "convert, compact": ([("convert", ONE)], [("compact",)]),
    "convert, another convert": ([("convert", ONE)], [("convert", TWO)]),
    "convert, the same convert": ([("convert", ONE)], [("convert", ONE)]),
    "delete, append": ([("delete", 100)], [("append", ONE)]),
    "delete, overwrite": ([("delete", 3)], [("overwrite", ONE)]),
    "delete, compact": ([("delete", 3)], [("compact",)]),
    "delete, another delete": ([("delete", 3)], [("delete", 4)]),
    "update, append": ([("update", 100)], [("append", ONE)]),
    "update, dynamic": ([("update", 3)], [("dynamic", ONE)]),
    "merge, append": ([("merge", [(100, 0), (3, 0)])], [("append", ONE)]),
    "merge, the same merge": ([("merge", [(100, 0)])], [("merge", [(100, 0)])]),
    "merge, compact": ([("merge", [(100, 0), (3, 0)])], [("compact",)]),
    "merge, overwrite": ([("merge", [(100, 0), (3, 0)])], [("overwrite", ONE)]),
    "add, append": ([("add",)], [("append", ONE)]),
    "add, clean": ([("add",)], [("clean",), ("clean",)]),
}
#: Only these may find that somebody else was faster: the second because two runs of the same job share their files.
MAY_CONFLICT = {"compact", "convert", "create", "convert new", "delete", "update", "merge", "add", "increment"}
#: Both want a table that has no files yet; one of them succeeds.
NEW_PAIRS: dict[str, tuple[list[Action], list[Action]]] = {
    "create, create": ([("create", ONE)], [("create", TWO)]),
    "create, convert": ([("create", ONE)], [("convert new", TWO)]),
    "convert new, convert new": ([("convert new", ONE)], [("convert new", TWO)]),
    "create, overwrite": ([("create", ONE)], [("overwrite", TWO)]),
    "create, append": ([("create", ONE)], [("append", TWO)]),
}
#: What one process does while it is held at each of its steps, and what the others do meanwhile.
HELD: list[list[Action]] = [
    [("append", ONE)],
    [("overwrite", ONE)],
    [("dynamic", ONE)],
    [("compact",)],
    [("convert", ONE)],
    [("clean",)],
    [("delete", 3)],
    [("merge", [(100, 0), (3, 0)])],
]
#: What else is held, and for which actions meanwhile.
HELD_FOR: dict[str, tuple[list[Action], list[Action]]] = {
    "increment, the same increment": ([("increment", 1)], [("increment", 1)]),
    "append, many commits and clean": ([("append", ONE)], [("commits", 20), ("clean",)]),
}
MEANWHILE: dict[str, list[Action]] = {
    "overwrite": [("overwrite", TWO)],
    "append, compact": [("append", TWO), ("compact",)],
    "compact": [("compact",)],
    "dynamic": [("dynamic", TWO)],
    "clean, append": [("clean",), ("append", TWO)],
    "convert": [("convert", TWO)],
}
#: Of these, one process is killed at any moment.
KILLED = ["overwrite, overwrite", "compact, append", "compact, overwrite", "dynamic, compact", "merge, append"]


class Racer:
    """A process that changes tables; see `tests.support.racing_child`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.racing_child", str(LONGEST)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment},
        )

    def start(self, table: str, actions: Sequence[Action], hold: int | None = None) -> None:
        self._say({"table": table, "actions": actions, "hold": hold})

    def go_on(self) -> None:
        self._say("go on")

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(120)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def racers(environment: dict[str, str]) -> Iterator[tuple[Racer, Racer]]:
    with ExitStack() as stack:
        pair = (Racer(environment), Racer(environment))
        for racer in pair:
            stack.callback(racer.stop)
        for racer in pair:
            assert racer.answer() == "ready"
        yield pair


def applied(rows: Rows, action: Action) -> Rows:
    """What an action makes of a table that nobody else changes."""
    kind, *arguments = action
    if kind in ("compact", "clean", "add", "commits"):
        return rows
    if kind == "increment":
        return Counter({(number + arguments[0], day): count for (number, day), count in rows.items()})
    if kind == "delete":
        return Counter({row: count for row, count in rows.items() if row[0] != arguments[0]})
    if kind == "update":
        moved = Counter[Row]()
        for (number, day), count in rows.items():
            moved[(number + 1000 if number == arguments[0] else number, day)] += count
        return moved
    if kind == "merge":  # By id, of which the data has no other columns to update: only new rows change the table.
        there = {number for number, _ in rows}
        return rows + Counter(tuple(row) for row in arguments[0] if row[0] not in there)
    added = Counter(map(tuple, arguments[0]))
    if kind in ("append", "create", "convert new"):
        return rows + added
    if kind in ("overwrite", "convert"):
        return added
    days = {day for _, day in added}
    return Counter({row: count for row, count in rows.items() if row[1] not in days}) + added


def orders(first: Sequence[Action], second: Sequence[Action]) -> Iterator[list[Action]]:
    """Every way to do two lists of actions one after the other, each list in its order."""
    for places in itertools.combinations(range(len(first) + len(second)), len(first)):
        left, right = iter(first), iter(second)
        yield [next(left) if at in places else next(right) for at in range(len(first) + len(second))]


def test_orders() -> None:
    assert list(orders([("a",)], [("b",), ("c",)])) == [
        [("a",), ("b",), ("c",)],
        [("b",), ("a",), ("c",)],
        [("b",), ("c",), ("a",)],
    ]


def make_table(table: str, rows: Sequence[Row] = tuple(START)) -> None:
    for day in range(3):
        ids = [number for number, of in rows if of == day]
        for part, chosen in enumerate(filter(None, (ids[::2], ids[1::2]))):
            place = locate(f"{table}/day={day}/start-{part}.mosaic")
            place.parent.make_directory()
            smalti.write_table(pa.table({"id": chosen}), place.path, filesystem=place.filesystem)


def rows_of(table: str) -> Rows:
    found = smalti.dataset(table).to_table(["id", "day"])
    return Counter(zip(found["id"].to_pylist(), found["day"].to_pylist(), strict=True))


def listed_rows(table: str) -> Rows:
    """The rows that a reader finds who knows nothing of commits, and lists the directory."""
    rows: Rows = Counter()
    place = locate(table)
    for info in place.entries(recursive=True):
        if info.path.endswith(".mosaic") and "/_" not in info.path:
            day = int(info.path.partition("/day=")[2].partition("/")[0])
            with smalti.open(place.filesystem.open_input_file(info.path)) as file:
                rows.update((number, day) for number in file.read(["id"])["id"].to_pylist())
    return rows


def start_round(
    pair: tuple[Racer, Racer], table: str, actions: tuple[list[Action], list[Action]], start: Sequence[Row]
) -> None:
    make_table(table, start)
    make_sources(table, actions)
    for racer, mine in zip(pair, actions, strict=True):
        racer.start(table, mine)


def make_sources(table: str, actions: tuple[list[Action], list[Action]]) -> None:
    for kind, *rows in (action for mine in actions for action in mine):
        if kind.startswith("convert"):
            make_table(f"{table}-source-{rows[0][0][0]}", rows[0])


def check_round(
    table: str,
    actions: tuple[list[Action], list[Action]],
    outcomes: Sequence[list[str | None]],
    start: Sequence[Row] = tuple(START),
) -> list[str]:
    """Everything that is wrong after one round. An outcome for each action: None, or why it failed."""
    done, wrong = [], []
    for mine, outcome in zip(actions, outcomes, strict=True):
        done.append([action for action, error in zip(mine, outcome, strict=True) if error is None])
        for action, error in zip(mine, outcome, strict=True):
            is_conflict = error is not None and error.startswith("ConflictError: ") and action[0] in MAY_CONFLICT
            # Who begins when the other is done finds its files.
            is_conflict |= action[0] == "convert new" and error is not None and error.startswith("FileExistsError: ")
            # Cleaning with no regard to age takes from jobs that are running what they have staged.
            is_cleaned = ("clean",) in actions[0] + actions[1] and error is not None and "/_mosaic_jobs/" in error
            if error is not None and not is_conflict and not (is_cleaned and error.startswith("ConflictError: ")):
                wrong.append(f"{action[0]} failed: {error}")
    found = rows_of(table)
    right = []
    for order in orders(*done):
        rows: Rows = Counter(start)
        for action in order:
            if rows and action[0] in ("create", "convert new"):
                break  # It would have met a conflict.
            rows = applied(rows, action)
        else:
            right.append(rows)
    if found not in right:
        wrong.append(f"{found.total()} rows, expected {sorted({rows.total() for rows in right})}")
    if not any(done):
        wrong.append("nobody succeeded")
    return wrong


def show(wrong: Counter[str], rounds: int) -> str:
    return f"of {rounds} rounds: " + "; ".join(f"{count} x {what}" for what, count in wrong.most_common(8))


@pytest.fixture(scope="module", params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    if request.param == "local":
        with racers({}) as pair:
            yield str(tmp_path_factory.mktemp("races")), pair
        return
    with s3_by_uri("races") as server, racers(server.environment) as pair:
        yield "s3://races", pair


@pytest.mark.parametrize("name", [*PAIRS, *NEW_PAIRS])
def test_races(name: str, place: tuple[str, Any]) -> None:
    root, pair = place
    if ROUNDS == 1 and root.startswith("s3") and [*PAIRS, *NEW_PAIRS].index(name) % 2:
        pytest.skip("make races")
    actions, start = (PAIRS[name], START) if name in PAIRS else (NEW_PAIRS[name], [])
    wrong: Counter[str] = Counter()
    for number in range(ROUNDS):
        table = f"{root}/{name.replace(', ', '-').replace(' ', '-')}-{number}"
        start_round(pair, table, actions, start)
        wrong.update(check_round(table, actions, [racer.answer() for racer in pair], start))
        if listed_rows(table) != rows_of(table):
            wrong.update(["other rows for those who list the directory"])
    assert not wrong, show(wrong, ROUNDS)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("held", [actions[0][0] for actions in HELD])
def test_held(held: str, meanwhile: str, place: tuple[str, Any]) -> None:
    """One process is held before each of its steps, and slow copies land after all others are done.

    Whoever reads meanwhile, whoever has listed the table before, and whoever writes afterwards, finds what one order
    of the actions has made.
    """
    if ROUNDS < 50 and place[0].startswith("s3") and (meanwhile != "overwrite" or held not in ("append", "compact")):
        pytest.skip("make races")
    actions = next(each for each in HELD if each[0][0] == held), MEANWHILE[meanwhile]
    hold_at_steps(f"held-{held}-{meanwhile.replace(', ', '-')}", actions, place, list(MEANWHILE).index(meanwhile))


@pytest.mark.parametrize("name", HELD_FOR)
def test_held_for(name: str, place: tuple[str, Any]) -> None:
    if ROUNDS < 50 and place[0].startswith("s3"):
        pytest.skip("make races")
    hold_at_steps(f"held-for-{name.replace(', ', '-').replace(' ', '-')}", HELD_FOR[name], place, 2, stride=16)


def hold_at_steps(
    name: str, actions: tuple[list[Action], list[Action]], place: tuple[str, Any], first: int, stride: int = 4
) -> None:
    root, pair = place
    wrong: Counter[str] = Counter()
    for step in steps_to_hold(root, first, stride):
        table = f"{root}/{name}-{step}"
        make_table(table)
        racing_child.act(table, "commits", 1)  # The first record is never removed, so a late second one tells more.
        make_sources(table, actions)
        before = Table(ReadOptions((table,)))
        pair[0].start(table, actions[0], step)
        first = pair[0].answer()
        is_held = first == "held"
        if is_held:
            wrong.update(f"a reader beside it, step {step}: {what}" for what in check_read(table, actions))
            pair[1].start(table, actions[1])
            second = pair[1].answer()
            pair[0].go_on()
            first = pair[0].answer()
            found = check_round(table, actions, [first, second])
            wrong.update(f"step {step}: {what}" for what in found)
            wrong.update(f"a frame made before, step {step}: {what}" for what in check_frame(before))
            if not found:
                rows = rows_of(table)
                racing_child.act(table, "append", [(900, 0)])
                if rows_of(table) != rows + Counter([(900, 0)]) or listed_rows(table) != rows_of(table):
                    wrong.update([f"step {step}: the next writer leaves {listed_rows(table).total()} rows"])
        if not is_held:
            break
    else:
        wrong.update(["never done"])
    assert not wrong, show(wrong, step)


def steps_to_hold(root: str, first: int, stride: int = 4) -> range:
    """The short form takes every fourth step, or eighth, beginning at one for each of the actions meanwhile."""
    stride = 1 if ROUNDS >= 50 else 8 if root.startswith("s3") else stride
    return range(first % stride, 60, stride)


@pytest.mark.parametrize("held", ["rename", "join"])
def test_columns_of_files_that_are_added_meanwhile(held: str, place: tuple[str, Any]) -> None:
    """A column is renamed to `b`, or added as `b`, beside an append with a `b` of its own, whose values stay."""
    root, pair = place
    if ROUNDS < 50 and root.startswith("s3"):
        pytest.skip("make races")
    wrong, conflicts = Counter[str](), 0
    for step in steps_to_hold(root, 2):
        table = f"{root}/columns-{held}-{step}"
        smalti.write_dataset(pa.table({"id": [1, 2], "a": [3, 4]}), table, max_file_rows=1)
        pair[0].start(table, [(held,)], step)
        outcomes = [pair[0].answer()]
        if outcomes[0] != "held":
            break
        pair[1].start(table, [("append both",)])
        outcomes.append(pair[1].answer())
        pair[0].go_on()
        outcomes[0] = pair[0].answer()
        ((changed,), (appended,)) = outcomes
        for error in filter(None, (changed, appended)):
            wrong.update([f"step {step}: {error}"] if not error.startswith("ConflictError: ") else [])
        conflicts += changed is not None
        found = {row["id"]: (row.get("a"), row.get("b")) for row in smalti.dataset(table).to_table().to_pylist()}
        kept = {1: (3, None), 2: (4, None)}
        done = {1: (None, 3), 2: (None, 4)} if held == "rename" else {1: (3, 10), 2: (4, 20)}
        right = (kept if changed else done) | ({} if appended else {500: (51, 52)})
        if found != right:
            wrong.update([f"step {step}: {found}, expected {right}"])
    else:
        wrong.update(["never done"])
    assert not wrong, show(wrong, step)
    assert conflicts


def test_a_file_that_two_jobs_change(place: tuple[str, Any]) -> None:
    """Each change that succeeds is in the file, whatever step the other one is held at."""
    root, pair = place
    wrong, conflicts = Counter[str](), 0
    for step in steps_to_hold(root, 2):
        file = f"{root}/file-{step}/t.mosaic"
        locate(file).parent.make_directory()
        smalti.write_table(pa.table({"id": [0]}), file)
        pair[0].start(file, [("increment", 1)], step)
        outcomes = [pair[0].answer()]
        if outcomes[0] != "held":
            break
        pair[1].start(file, [("increment", 10)])
        outcomes.append(pair[1].answer())
        pair[0].go_on()
        outcomes[0] = pair[0].answer()
        errors = [error for (error,) in outcomes]
        conflicts += sum(error is not None for error in errors)
        wrong.update(f"step {step}: {error}" for error in errors if error and not error.startswith("ConflictError: "))
        found = smalti.read_table(file)["id"].to_pylist()
        if found != [sum(number for number, error in zip((1, 10), errors, strict=True) if error is None)]:
            wrong.update([f"step {step}: {found} after {errors}"])
    else:
        wrong.update(["never done"])
    assert not wrong, show(wrong, step)
    assert conflicts


def check_read(table: str, actions: tuple[list[Action], list[Action]]) -> list[str]:
    """What is wrong with a read while one process is held in the middle of its action: it has happened or not."""
    found, done = rows_of(table), applied(Counter(START), actions[0][0])
    return [] if found in (Counter(START), done) else [f"{found.total()} rows"]


def check_frame(table: Table) -> list[str]:
    """What is wrong with the rows of a frame that was made before all that: all of them, or an error that says so."""
    try:
        pieces = [Piece(file, file.size) for file in table.files]
        scan = TaskScan(table.options, pa.schema([("id", pa.int64()), ("day", pa.int32())]))
        batches = [batch for _, batch in scan.batches(pieces, Metrics())]
    except (RemovedError, ReplacedError):
        return []
    rows = Counter(
        pair for batch in batches for pair in zip(batch["id"].to_pylist(), batch["day"].to_pylist(), strict=True)
    )
    return [] if rows == Counter(START) else [f"{rows.total()} rows"]


@pytest.mark.parametrize("name", KILLED)
def test_races_with_a_process_that_is_killed(name: str, tmp_path: Path) -> None:
    """What the killed process was doing has happened or has not, and the other one goes on as if it were alone."""
    rounds, wrong = max(1, ROUNDS // 4), Counter[str]()
    for number in range(rounds):
        table = tmp_path / str(number)
        table.mkdir()
        with racers({}) as pair:
            start_round(pair, str(table), PAIRS[name], START)
            time.sleep(random.uniform(0, 4 * LONGEST))
            pair[0].kill()
            outcomes = pair[1].answer()
        pending = [commit.job for commit in CommitLog(locate(table)).state().pending]
        jobs.recover(table)
        tries = [check_round(str(table), PAIRS[name], [[first], outcomes]) for first in ("ConflictError: killed", None)]
        # An overwrite that was killed is no conflict, but it may not have happened all the same.
        found = min(([what for what in wrongs if "killed" not in what] for wrongs in tries), key=len)
        wrong.update(f"{what}, pending: {pending}" for what in found if what != "nobody succeeded")
        jobs.clean(table, timedelta(0))
        assert rows_of(str(table)) == listed_rows(str(table))
    assert not wrong, show(wrong, rounds)


# --- readers and listings beside commits ----------------------------------------------------------------------------

#: Overwrites the four files of a table, one in each partition, as fast as it can, until it is killed.
COMMITTING = """
import sys
from itertools import count
from pathlib import Path
import pyarrow as pa
import smalti
from smalti.io import locate
from smalti.table.listing import list_files
from smalti.table.log import CommitLog
from smalti.table.records import Addition, Commit, Removal
root = Path(sys.argv[1])
log, old = CommitLog(locate(root)), [f"p={p}/0.mosaic" for p in range(4)]
for number in count(1):
    staged = [f"_mosaic_jobs/j{number}/0/p={p}/{number}.mosaic" for p in range(4)]
    for path in staged:
        (root / path).parent.mkdir(parents=True)
        smalti.write_table(pa.table({"x": [number]}), root / path)
    add = tuple(Addition(path, path.split("/", 3)[3]) for path in staged)
    commit = Commit(f"j{number}", add, tuple(map(Removal, old)), number=2 * number - 1)
    assert log.publish(commit)
    log.carry_out(commit)
    old = [each.final for each in add]
"""


@pytest.mark.parametrize("kind", ["listing", "reading"])
def test_while_a_table_is_overwritten(tmp_path: Path, kind: str) -> None:
    """Every listing has the four files of one commit, and every read the four rows, whatever moment it falls into."""
    for partition in range(4):
        (tmp_path / f"p={partition}").mkdir()
        smalti.write_table(pa.table({"x": [0]}), tmp_path / f"p={partition}/0.mosaic")
    seen: set[int] = set()
    with subprocess.Popen([sys.executable, "-c", COMMITTING, str(tmp_path)]) as committing:
        try:
            while len(seen) < 10 * ROUNDS:
                assert committing.poll() is None
                if kind == "listing":
                    found = [int(Path(file.name).stem) for file in list_files(tmp_path).files]
                else:
                    found = smalti.dataset(tmp_path).to_table()["x"].to_pylist()
                assert (len(found), len(set(found))) == (4, 1), found
                seen |= set(found)
        finally:
            committing.kill()
