"""The same for S3: one operation, repeated with an outage that begins at every single request of it.

``python -m tests.faults.stores SCENARIO STRIDE HOW...`` prints what `tests.faults.child` prints.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

import smalti
from smalti import jobs
from smalti.errors import LeftoverWarning
from smalti.io import locate, stores
from smalti.table import log as commit_log
from tests.faults.child import CHANGED, HALF, MERGED_ROWS, NEW, OLD, OPTIONS, Outcome, rows
from tests.support.s3 import S3Server

#: A request is tried once more, so an outage of one request should not be noticed and one of several is an error.
stores._RETRY.update(
    max_retries=1,
    backoff={"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2},
)
#: How a request fails, and how many in a row.
OUTAGES = {
    "error": ("500", 2),
    "busy": ("503", 6),
    "refused": ("403", 1),
    "cut": ("cut", 2),
    "lost answer": ("lost", 1),
    "half an answer": ("half", 2),
    "one error": ("500", 1),
}
#: Sent in parts, so that there are uploads to complete and to abort.
stores.PART_SIZE = 5 << 20
BIG_OLD = pa.table({"a": pa.array(range(1_000), pa.int64()), "s": ["old"] * 1_000})
BIG_NEW = pa.table({"a": pa.array(range(90), pa.int64()), "s": [os.urandom(60_000).hex() for _ in range(90)]})


@dataclass(frozen=True)
class Scenario:
    prepare: Callable[[str], Any]
    act: Callable[[str], Any]
    look: Callable[[str], Any]
    allowed: list[Any]
    done: Any
    is_table: bool = False


def _old_table(home: str) -> None:
    for number in range(2):
        smalti.write_table(OLD.slice(number * 1500, 1500), f"{home}/table/part-{number}.mosaic", **OPTIONS)
    smalti.write_table(NEW, f"{home}/new.mosaic", **OPTIONS)


def _read_table(home: str) -> Any:
    return rows(smalti.dataset(f"{home}/table").to_table())


def _file(table: pa.Table) -> Callable[[str], Any]:
    return lambda home: smalti.write_table(table, f"{home}/t.mosaic", compression="none") and None


def _read_file(home: str) -> Any:
    return rows(smalti.read_table(f"{home}/t.mosaic"))


SCENARIOS = {
    "write": Scenario(_file(BIG_OLD), _file(BIG_NEW), _read_file, [rows(BIG_OLD), rows(BIG_NEW)], rows(BIG_NEW)),
    "read": Scenario(_file(BIG_OLD), _read_file, _read_file, [rows(BIG_OLD)], rows(BIG_OLD)),
    "convert": Scenario(
        _old_table,
        lambda home: jobs.convert([f"{home}/new.mosaic"], f"{home}/table", overwrite=True, workers=1) and None,
        _read_table,
        [rows(OLD), rows(NEW)],
        rows(NEW),
        is_table=True,
    ),
    "delete": Scenario(
        _old_table,
        lambda home: jobs.delete(f"{home}/table", "a >= 1500", workers=1) and None,
        _read_table,
        [rows(OLD), rows(HALF)],
        rows(HALF),
        is_table=True,
    ),
    "merge": Scenario(
        _old_table,
        lambda home: jobs.merge(f"{home}/table", MERGED_ROWS, on="a", workers=1) and None,
        _read_table,
        [rows(OLD), rows(CHANGED)],
        rows(CHANGED),
        is_table=True,
    ),
    "compact": Scenario(
        _old_table,
        lambda home: jobs.compact(f"{home}/table", workers=1) and None,
        _read_table,
        [rows(OLD)],
        rows(OLD),
        is_table=True,
    ),
}


def try_all(scenario: Scenario, server: S3Server, outage: str, stride: int) -> Outcome:
    how, times = OUTAGES[outage]
    outcome = Outcome()
    request = list(OUTAGES).index(outage) % stride
    while True:
        home = f"s3://bucket/{uuid.uuid4().hex}"
        scenario.prepare(home)
        before = server.open_uploads("bucket")
        server.reset(fail=" ", times=times, after=request, how=how)
        error, result = None, None
        try:
            result = scenario.act(home)
        except Exception as raised:
            error = raised.with_traceback(None)
        asked = server.requests()
        server.reset()
        if len(asked) <= request:
            outcome.steps = len(asked)
            return outcome
        failed = f"{asked[request].method} {'record' if '_mosaic_jobs' in asked[request].path else 'file'}"
        outcome.failed[failed] += 1
        try:
            problem = check(scenario, home, error, result)
        except Exception as raised:
            problem = f"afterwards {type(raised).__name__}: {raised}"
        # An upload whose beginning was not answered, or that an outage outlasts, cannot be aborted by anybody.
        is_known = how not in ("lost", "half") and times <= 2
        if is_known and server.open_uploads("bucket") > before:
            problem = problem or "an upload stays open"
        if problem:
            outcome.wrong.append(
                f"{outage} at request {request} ({failed}): {type(error).__name__}: {error}: {problem}"
            )
        if error is None:
            outcome.survived[failed] += 1
        else:
            outcome.raised[type(error).__name__] += 1
        request += stride


def check(scenario: Scenario, home: str, error: Exception | None, result: Any) -> str | None:
    """What is not as promised, if anything."""
    if error is not None and not isinstance(error, (OSError, smalti.MosaicError)):
        return "not an error of ours or of the system"
    found = scenario.look(home)
    if found not in scenario.allowed:
        return "a reader finds neither the old data nor the new"
    if error is None and (found != scenario.done or (result is not None and result != scenario.done)):
        return "reported success, and the data is not right"
    if error is not None and scenario.is_table and found == scenario.done and len(scenario.allowed) > 1:
        return "reported failure, and it has happened"
    if scenario.is_table:
        jobs.clean(f"{home}/table", timedelta(0))
        if scenario.look(home) != found:
            return "cleaning has changed the rows"
        jobs_left = locate(f"{home}/table/_mosaic_jobs").entries(recursive=True)
        if left := [info.path for info in jobs_left if not info.name.startswith("commit-")]:
            return f"left behind after cleaning: {left}"
    scenario.act(home)
    if scenario.look(home) != scenario.done:
        return "the same operation, done again, gives something else"
    return None


def main(name: str, stride: str, *outages: str) -> None:
    commit_log.PATIENCE = 0.0
    warnings.simplefilter("ignore", LeftoverWarning)
    with S3Server(["bucket"]) as server:
        os.environ.update(server.environment)
        found = {outage: vars(try_all(SCENARIOS[name], server, outage, int(stride))) for outage in outages or OUTAGES}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
