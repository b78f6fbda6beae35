"""One operation on files, repeated with a fault at every single step of it; run with `shim.c` preloaded.

``python -m tests.faults.child SCENARIO DIRECTORY`` prints a JSON object: the steps that failed, by their kind, and what
was not as promised. The loop ends when the operation has fewer steps than the number of the one to fail.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import smalti
from smalti import jobs, kudu
from smalti.errors import LeftoverWarning
from smalti.table import log as commit_log

SHORT, ONCE, FROM_THEN_ON = -1, 0, 1
#: What happens: a broken disk, a full one, a read or write that does half of its work; for once, or from then on.
FAULTS = {
    "error": (errno.EIO, ONCE),
    "full": (errno.ENOSPC, ONCE),
    "short": (SHORT, ONCE),
    "dead": (errno.EIO, FROM_THEN_ON),
    "stays full": (errno.ENOSPC, FROM_THEN_ON),
    "all short": (SHORT, FROM_THEN_ON),
}
OLD = pa.table({"a": pa.array(range(3000), pa.int64()), "s": [f"old {i % 100}" for i in range(3000)]})
NEW = pa.table({"a": pa.array(range(4000), pa.int64()), "s": [f"new {i % 90}" for i in range(4000)]})
OPTIONS: dict[str, Any] = {"row_group_max_rows": 1000, "threads": 1}

shim = ctypes.CDLL(None)
IS_ARMED = hasattr(shim, "fault_arm")
if IS_ARMED:  # `shim.c` is preloaded
    shim.fault_failed.restype = ctypes.c_char_p
    shim.fault_count.restype = ctypes.c_long


@dataclass(frozen=True)
class Scenario:
    """What is prepared, what is done while a step fails, and what a reader may find afterwards."""

    prepare: Callable[[Path], None]
    act: Callable[[Path], Any]
    look: Callable[[Path], Any]
    allowed: list[Any]
    #: After a success this is what a reader must find.
    done: Any = None
    is_table: bool = False


# --- scenarios ------------------------------------------------------------------------------------------------------


def old_file(home: Path) -> None:
    smalti.write_table(OLD, home / "t.mosaic", **OPTIONS)


def write_file(home: Path) -> None:
    smalti.write_table(NEW, home / "t.mosaic", **OPTIONS)


def file_rows(home: Path) -> list[Any]:
    return rows(smalti.read_table(home / "t.mosaic"))


def rows(table: pa.Table) -> list[Any]:
    return sorted(zip(table["a"].to_pylist(), table["s"].to_pylist(), strict=True))


def old_cfile(home: Path) -> None:
    with kudu.CFileWriter(home / "c", pa.string(), array=False, block_size=1024) as writer:
        writer.write(OLD["s"])


def write_cfile(home: Path) -> None:
    with kudu.CFileWriter(home / "c", pa.string(), array=False, block_size=1024) as writer:
        writer.write(NEW["s"])


def cfile_cells(home: Path) -> list[Any]:
    with kudu.CFileReader(home / "c") as reader:
        found: list[Any] = reader.read().to_pylist()
    return found


def old_table(home: Path) -> None:
    (home / "table").mkdir()
    for number in range(3):
        smalti.write_table(OLD.slice(number * 1000, 1000), home / f"table/part-{number}.mosaic", **OPTIONS)
    for number in range(2):
        smalti.write_table(NEW.slice(number * 2000, 2000), home / f"new-{number}.mosaic", **OPTIONS)


def overwrite_table(home: Path) -> None:
    jobs.convert([home / "new-0.mosaic", home / "new-1.mosaic"], home / "table", overwrite=True, workers=1)


def compact_table(home: Path) -> None:
    jobs.compact(home / "table", workers=1)


def table_rows(home: Path) -> list[Any]:
    return rows(smalti.dataset(home / "table").to_table())


MERGED = [f"new {i}" if i % 500 == 0 else text for i, text in enumerate(OLD["s"].to_pylist())]
CHANGED = pa.table({"a": OLD["a"], "s": MERGED})
MERGED_ROWS = pa.table({"a": range(0, 3000, 500), "s": [f"new {i}" for i in range(0, 3000, 500)]})
HALF = OLD.slice(0, 1500)


def merge_table(home: Path) -> None:
    jobs.merge(home / "table", MERGED_ROWS, on="a", workers=1)


def delete_rows(home: Path) -> None:
    jobs.delete(home / "table", "a >= 1500", workers=1)


def delete_from_file(home: Path) -> None:
    jobs.delete(home / "t.mosaic", "a >= 1500", workers=1)


SCENARIOS = {
    "write": Scenario(old_file, write_file, file_rows, [rows(OLD), rows(NEW)], rows(NEW)),
    "read": Scenario(old_file, file_rows, file_rows, [rows(OLD)], rows(OLD)),
    "cfile": Scenario(
        old_cfile, write_cfile, cfile_cells, [OLD["s"].to_pylist(), NEW["s"].to_pylist()], NEW["s"].to_pylist()
    ),
    "convert": Scenario(old_table, overwrite_table, table_rows, [rows(OLD), rows(NEW)], rows(NEW), is_table=True),
    "merge": Scenario(old_table, merge_table, table_rows, [rows(OLD), rows(CHANGED)], rows(CHANGED), is_table=True),
    "delete": Scenario(old_table, delete_rows, table_rows, [rows(OLD), rows(HALF)], rows(HALF), is_table=True),
    "delete in a file": Scenario(old_file, delete_from_file, file_rows, [rows(OLD), rows(HALF)], rows(HALF)),
    "compact": Scenario(old_table, compact_table, table_rows, [rows(OLD)], rows(OLD), is_table=True),
    "dataset": Scenario(old_table, table_rows, table_rows, [rows(OLD)], rows(OLD), is_table=True),
}


# --- the loop -------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What was tried and found with one kind of fault."""

    steps: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    #: Steps whose failure changed nothing, by their kind.
    survived: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


#: What Python could only report: an error in a destructor.
unraisable: list[str] = []
sys.unraisablehook = lambda found: unraisable.append(f"{found.exc_type.__name__}: {found.exc_value}")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def try_all(scenario: Scenario, home: Path, fault: str, stride: int) -> Outcome:
    """Fail one step after another; with a stride only every so many, others for each kind of fault."""
    outcome = Outcome()
    step = list(FAULTS).index(fault) % stride
    shim.fault_below(str(home).encode())
    while True:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        scenario.prepare(home)
        before = descriptors()
        failed, error, result = attempt(scenario, home, fault, step)
        if not failed and shim.fault_count() <= step:
            outcome.steps = shim.fault_count()
            return outcome
        where = f"{fault} at step {step} ({failed}): {type(error).__name__}: {error}"
        try:
            problem = check(scenario, home, error, result, failed, is_lasting=FAULTS[fault][1] == FROM_THEN_ON)
        except Exception as raised:
            problem = f"afterwards {type(raised).__name__}: {raised}"
        if descriptors() != before:
            gc.collect()
        if descriptors() != before:
            problem = problem or f"{descriptors() - before} descriptors stay open"
        if unraisable:
            problem = problem or f"in a destructor: {unraisable}"
            unraisable.clear()
        if problem:
            outcome.wrong.append(f"{where}: {problem}")
        if failed:
            outcome.failed[failed] += 1
        if error is None:
            outcome.survived[failed or "none"] += 1
        else:
            outcome.raised[type(error).__name__] += 1
        step += stride


def attempt(scenario: Scenario, home: Path, fault: str, step: int) -> tuple[str, BaseException | None, Any]:
    """Which kind of step failed, and how the operation took it."""
    number, how = FAULTS[fault]
    error, result = None, None
    shim.fault_arm(step, number, how)
    try:
        result = scenario.act(home)
    except BaseException as raised:
        raised.__traceback__ = None
        error = raised
    finally:
        shim.fault_disarm()
    if error is not None:
        error.__cause__ = error.__context__ = None
    return shim.fault_failed().decode(), error, result


def check(
    scenario: Scenario, home: Path, error: BaseException | None, result: Any, failed: str, *, is_lasting: bool
) -> str | None:
    """What is not as promised, if anything."""
    if error is not None and not isinstance(error, (OSError, smalti.MosaicError)):
        return "not an error of ours or of the system"
    found = scenario.look(home)
    if found not in scenario.allowed:
        return "a reader finds neither the old data nor the new"
    if error is None and found != scenario.done:
        return "reported success, and the new data is not there"
    if error is None and result is not None and scenario.act is scenario.look and result != scenario.done:
        return "read wrong values"
    if error is not None and scenario.is_table and found == scenario.done and len(scenario.allowed) > 1:
        return "reported failure, and it has happened"
    left = leftovers(home)
    if left and failed not in ("unlink", "stat") and not is_lasting:
        return f"left behind: {left}"
    if scenario.is_table:
        jobs.clean(home / "table", timedelta(0))
        if scenario.look(home) != found:
            return "cleaning has changed the rows"
        if left := staged(home):
            return f"left behind after cleaning: {left}"
    scenario.act(home)
    if scenario.look(home) != scenario.done:
        return "the same operation, done again, gives something else"
    return None


def leftovers(home: Path) -> list[str]:
    """Temporary files of writers. What a job has staged is for the next run of the same job, or for `clean`."""
    return [str(path.relative_to(home)) for path in home.rglob(".*") if "_mosaic_jobs" not in path.parts]


def staged(home: Path) -> list[str]:
    paths = (home / "table").rglob("*")
    return [str(path) for path in paths if path.name.endswith("-tmp") or "_mosaic_jobs" in path.parent.parts[:-1]]


def main(name: str, home: str, stride: str, *faults: str) -> None:
    commit_log.PATIENCE = 0.0
    warnings.simplefilter("ignore", LeftoverWarning)
    scenario = SCENARIOS[name]
    outcomes = {fault: vars(try_all(scenario, Path(home), fault, int(stride))) for fault in faults or FAULTS}
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
