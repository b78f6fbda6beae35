"""A process that changes tables when it is told to: one line of JSON in, one line out. See `tests.test_races`."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from smalti import jobs
from smalti.spark.options import parse_write_options
from smalti.spark.write import MosaicBatchWriter
from smalti.table.commit_log import CommitLog

ROWS = StructType([StructField("id", LongType()), StructField("day", LongType())])


def write(table: str, rows: list[list[int]], mode: str) -> None:
    """What `df.write.format("mosaic").mode(mode).save(table)` does on a driver and in two tasks, without the JVM."""
    options = {"path": table, "partitionby": "day"}
    if mode == "dynamic":
        options["partitionoverwritemode"] = "dynamic"
    writer = MosaicBatchWriter(parse_write_options(options), ROWS, mode != "append")
    messages = []
    try:
        for part in (rows[::2], rows[1::2]):
            ids, days = ([row[at] for row in part] for at in (0, 1))
            messages.append(writer.write(iter([pa.record_batch({"id": pa.array(ids, pa.int64()), "day": days})])))
        writer.commit(messages)
    except BaseException:
        writer.abort(messages)
        raise


def act(table: str, kind: str, *arguments: Any) -> None:
    if kind == "compact":
        jobs.compact(table, workers=1, **(arguments[0] if arguments else {}))
    elif kind == "convert":
        jobs.convert(f"{table}-source-{arguments[0][0][0]}", table, overwrite=True, workers=1)
    elif kind == "clean":
        jobs.clean(table)
    else:
        write(table, arguments[0], kind)


def slowly(step: Callable[..., Any], longest: float) -> Callable[..., Any]:
    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(random.uniform(0, longest))
        return step(*arguments, **named)

    return slow


def main() -> None:
    longest = float(sys.argv[1])
    # What decides a race is when a job looks and when it commits; waiting in between makes each order likely.
    CommitLog.publish = slowly(CommitLog.publish, longest)  # type: ignore[method-assign]
    CommitLog.carry_out = slowly(CommitLog.carry_out, longest)  # type: ignore[method-assign]
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        outcomes = []
        time.sleep(random.uniform(0, longest))
        for kind, *arguments in asked["actions"]:
            try:
                act(asked["table"], kind, *arguments)
                outcomes.append(None)
            except Exception as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main()
