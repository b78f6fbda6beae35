"""A process that changes tables when it is told to: one line of JSON in, one line out. See `tests.table.test_races`."""

from __future__ import annotations

import io
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StructField, StructType

import smalti
from smalti import jobs
from smalti.io import locate, locations, sinks, stores
from smalti.io.locations import Location
from smalti.jobs import target
from smalti.jobs.target import Target
from smalti.spark.driver.write import SaveMode, begin_write
from smalti.spark.options import parse_write_options
from smalti.table import log as commit_log
from smalti.table.log import CommitLog
from smalti.table.names import new_token
from smalti.table.records import Commit

ROWS = StructType([StructField("id", LongType()), StructField("day", LongType())])


def write(table: str, rows: list[list[int]], mode: str) -> None:
    """What `df.write.format("mosaic").mode(mode).save(table)` does on a driver and in two tasks, without the JVM."""
    options = {"path": table, "partitionby": "day"}
    if mode == "dynamic":
        options["partitionoverwritemode"] = "dynamic"
    named: dict[str, SaveMode] = {"append": "append", "create": "error"}
    writer = begin_write(parse_write_options(options), ROWS, named.get(mode, "overwrite"))
    messages = []
    try:
        for number, part in enumerate((rows[::2], rows[1::2])):
            ids, days = ([row[at] for row in part] for at in (0, 1))
            batch = pa.record_batch({"id": pa.array(ids, pa.int64()), "day": days})
            messages.append(writer.plan.write(number, [batch]))
        writer.commit(messages)
    except BaseException:
        writer.abort(messages)
        raise


def act(table: str, kind: str, *arguments: Any) -> None:
    if kind == "compact":
        jobs.compact(table, workers=1, **(arguments[0] if arguments else {}))
    elif kind == "convert":
        jobs.convert(f"{table}-source-{arguments[0][0][0]}", table, overwrite=True, workers=1)
    elif kind == "convert new":
        jobs.convert(f"{table}-source-{arguments[0][0][0]}", table, workers=1)
    elif kind == "delete":
        jobs.delete(table, f"id = {arguments[0]}", workers=1)
    elif kind == "update":
        jobs.update(table, {"id": arguments[0] + 1000}, f"id = {arguments[0]}", workers=1)
    elif kind == "merge":
        ids, days = zip(*arguments[0], strict=True)
        jobs.merge(table, pa.table({"id": ids, "day": days}), "id", when_matched="ignore", workers=1)
    elif kind == "add":
        jobs.add_columns(table, lambda batch: {"more": batch["id"]}, columns=["id"], workers=1)
    elif kind == "clean":
        jobs.clean(table, timedelta(0))
    elif kind == "increment":
        jobs.update(table, {"id": pc.add(pc.field("id"), arguments[0])}, workers=1)
    elif kind == "rename":
        jobs.rename_columns(table, {"a": "b"}, workers=1)
    elif kind == "join":
        jobs.add_columns(table, pa.table({"id": [1, 2], "b": [10, 20]}), on="id", workers=1)
    elif kind == "append both":
        smalti.write_dataset(pa.table({"id": [500], "a": [51], "b": [52]}), table, mode="append")
    elif kind == "commits":
        log = CommitLog(locate(table))
        for _ in range(arguments[0]):
            log.publish(commit := Commit(new_token(), number=log.finish_pending()[0].number + 1))
            log.carry_out(commit)
    else:
        write(table, arguments[0], kind)


def slowly(step: Callable[..., Any], longest: float) -> Callable[..., Any]:
    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(random.uniform(0, longest))
        return step(*arguments, **named)

    return slow


class Holding:
    """Stops this process before one of its steps, until it is told to go on. Its other threads are not stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = -1

    def at(self, step: int | None) -> None:
        self._left = -1 if step is None else step

    def step(self) -> None:
        with self._lock:
            self._left -= 1
            is_held = self._left == -1
        if is_held:
            print(json.dumps("held"), flush=True)
            sys.stdin.readline()

    def before(self, owner: Any, name: str) -> None:
        """Let a function or method of another module be a step."""
        act = getattr(owner, name)

        def held(*arguments: Any, **named: Any) -> Any:
            self.step()
            return act(*arguments, **named)

        setattr(owner, name, held)

    def slow_copies(self) -> None:
        """A copy has begun before the process is held, and lands when it goes on: what stores may do."""

        def copy_file(self_: stores.ObjectStores, src: str, dest: str) -> None:
            data = self_.read(src)
            self.step()
            self_.write(dest, io.BytesIO(data), len(data))

        stores.ObjectStores.copy_file = copy_file  # type: ignore[method-assign]

    def late_puts(self) -> None:
        """A put that replaces a certain version of an object is a step."""
        put = stores.obstore.put

        def held(*arguments: Any, **named: Any) -> Any:
            if isinstance(named.get("mode"), dict):
                self.step()
            return put(*arguments, **named)

        stores.obstore.put = held


def hold_steps() -> Holding:
    """Everything that changes files is a step."""
    holding = Holding()
    holding.slow_copies()
    holding.late_puts()
    for owner, name in [
        (locations, "_link_exclusively"),
        (stores.ObjectStores, "create"),
        (sinks.LocalSink, "commit"),
        (sinks.RemoteSink, "commit"),
        (CommitLog, "_add"),
        (CommitLog, "_make_directories"),
        (CommitLog, "_delete_staged"),
        (CommitLog, "_delete_if_empty"),
        (Location, "delete_files"),
        (Target, "put_file"),
        (target, "keep_access"),
    ]:
        holding.before(owner, name)
    return holding


def main() -> None:
    longest = float(sys.argv[1])
    commit_log.PATIENCE = 0.0
    sinks.LOCK_PATIENCE = 0.1
    holding = hold_steps()
    # What decides a race is when a job looks and when it commits; waiting in between makes each order likely.
    CommitLog.publish = slowly(CommitLog.publish, longest)  # type: ignore[method-assign]
    CommitLog.carry_out = slowly(CommitLog.carry_out, longest)  # type: ignore[method-assign]
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        outcomes = []
        time.sleep(random.uniform(0, longest) if asked["hold"] is None else 0)
        holding.at(asked["hold"])
        for kind, *arguments in asked["actions"]:
            try:
                act(asked["table"], kind, *arguments)
                outcomes.append(None)
            except Exception as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        holding.at(None)
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main()
