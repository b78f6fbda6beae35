"""The Spark executor: tasks are the partitions of an RDD, and their results, which are small, are collected.

No rows pass through Spark. A task runs in a Python worker that imports smalti, and needs nothing of the session.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from functools import lru_cache, partial
from typing import Any, cast

from pyspark import Accumulator, Broadcast, SparkContext, cloudpickle, inheritable_thread_target
from pyspark.sql import SparkSession

from smalti.jobs.engine import Combine, Result, Task, Work
from smalti.progress import Meter
from smalti.spark.setup.local import session

#: Seconds after which Spark's status tracker is asked again.
POLL_SECONDS = 0.2
#: The number of results from which on they are combined on the executors, and in how many steps.
MANY_TASKS, TREE_DEPTH = 16, 3
#: Rows, bytes and tasks that are done.
Totals = tuple[int, int, int]


class SparkExecutor:
    """Runs tasks on the executors of a session.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession, optional
        By default the active one, or a new local one.
    """

    name = "spark"

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._spark = spark or SparkSession.getActiveSession() or session()
        cpus = int(self._spark.conf.get("spark.task.cpus", "1") or 1)
        #: A task uses as many threads as Spark reserves cores for it.
        self.task_threads: int | None = cpus
        self.slots = max(1, self._spark.sparkContext.defaultParallelism // cpus)

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], meter: Meter, combine: Combine[Result] | None = None
    ) -> Generator[tuple[int, Result], None, None]:
        """Run all tasks, then return their results. Spark repeats tasks whose worker dies.

        The results of many tasks are combined on the executors, so that the driver gets one of them.
        """
        if not tasks:
            return
        context = self._spark.sparkContext
        rows, num_bytes = context.accumulator(0), context.accumulator(0)
        # What tasks have in common may be large: a schema of 10,000 columns, or the numbers of all matched rows.
        shared = context.broadcast(_packed(work))
        parcels = [_packed((index, task)) for index, task in enumerate(tasks)]
        rdd = context.parallelize(parcels, len(parcels)).map(partial(_run, rows, num_bytes, shared))
        group = f"smalti-{uuid.uuid4().hex[:12]}"
        collected: Future[list[bytes]] = Future()

        def collect() -> None:
            try:
                context.setJobGroup(group, f"smalti: {len(tasks)} tasks", interruptOnCancel=True)
                if combine is None or len(tasks) <= MANY_TASKS:
                    collected.set_result(rdd.collect())
                else:
                    collected.set_result([rdd.treeReduce(partial(_combine, pickle.dumps(combine)), TREE_DEPTH)])
            except BaseException as error:
                collected.set_exception(error)

        # A daemon, so that a cluster that does not answer cannot keep this process from ending.
        threading.Thread(target=inheritable_thread_target(self._spark)(collect), daemon=True).start()
        seen = (0, 0, 0)
        try:
            while not wait([collected], POLL_SECONDS).done:
                seen = _tell(meter, seen, (rows.value, num_bytes.value, min(len(tasks), _completed(context, group))))
            results = collected.result()
        except BaseException:
            context.cancelJobGroup(group)
            raise
        finally:
            shared.destroy()
        _tell(meter, seen, (rows.value, num_bytes.value, len(tasks)))
        yield from map(pickle.loads, results)


def _packed(value: object) -> bytes:
    """Pickle a value here, because Spark's own pickler would send code along instead of the name of its module.

    Only a function that has no such name, as a lambda of the user's, is sent as code.
    """
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def _tell(meter: Meter, seen: Totals, found: Totals) -> Totals:
    """Tell the meter what is new. Totals never go back, although Spark may repeat tasks."""
    rows, num_bytes, done = map(max, seen, found)
    if (rows, num_bytes, done) != seen:
        meter.add(rows - seen[0], num_bytes - seen[1], done - seen[2])
    return rows, num_bytes, done


@lru_cache(maxsize=1)
def _unpacked(work: bytes) -> Work[Any, Any]:
    """What tasks have in common, unpickled once for all tasks that a worker runs one after another."""
    return cast("Work[Any, Any]", pickle.loads(work))


def _run(rows: Accumulator[int], num_bytes: Accumulator[int], shared: Broadcast[bytes], parcel: bytes) -> bytes:
    """The function that Spark calls in a worker. Spark adds up rows and bytes when tasks finish."""

    def report(more_rows: int, more_bytes: int) -> None:
        rows.add(more_rows)
        num_bytes.add(more_bytes)

    index, task = pickle.loads(parcel)
    return pickle.dumps((index, _unpacked(shared.value)(task, report)))


def _combine(combine: bytes, one: bytes, other: bytes) -> bytes:
    """The results of two tasks as that of one; also called in a worker."""
    (index, first), (_, second) = pickle.loads(one), pickle.loads(other)
    return pickle.dumps((index, pickle.loads(combine)(first, second)))


def _completed(context: SparkContext, group: str) -> int:
    """How many tasks of a job group are done, according to Spark's status tracker."""
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
