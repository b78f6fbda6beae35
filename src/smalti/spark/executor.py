"""The Spark executor: tasks are the partitions of an RDD, and their results, which are small, are collected.

No rows pass through Spark. A task runs in a Python worker that imports smalti, and needs nothing of the session.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait

from pyspark import Accumulator, AccumulatorParam, SparkContext, inheritable_thread_target
from pyspark.sql import SparkSession

from smalti.jobs.engine import Result, Task, Work
from smalti.jobs.events import Meter
from smalti.spark.local import session

#: Seconds between looks at Spark's status tracker.
POLL_SECONDS = 0.2


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

    def run(self, work: Work[Task, Result], tasks: Sequence[Task], meter: Meter) -> Iterator[tuple[int, Result]]:
        """Run all tasks, then return their results. Spark repeats tasks whose worker dies."""
        if not tasks:
            return
        context = self._spark.sparkContext
        counts = context.accumulator((0, 0), _PairParam())
        # Pickled here, because Spark's own pickler would send the code along instead of the name of its module.
        parcels = [pickle.dumps((index, work, task)) for index, task in enumerate(tasks)]
        rdd = context.parallelize(parcels, len(parcels)).map(_Runner(counts))
        group = f"smalti-{uuid.uuid4().hex[:12]}"
        collected: Future[list[bytes]] = Future()

        def collect() -> None:
            try:
                context.setJobGroup(group, f"smalti: {len(tasks)} tasks", interruptOnCancel=True)
                collected.set_result(rdd.collect())
            except BaseException as error:
                collected.set_exception(error)

        # A daemon, so that a cluster that does not answer cannot keep this process from ending.
        threading.Thread(target=inheritable_thread_target(self._spark)(collect), daemon=True).start()
        seen = _Seen(meter)
        try:
            while not wait([collected], POLL_SECONDS).done:
                seen.update(_completed(context, group), counts.value)
        except BaseException:
            context.cancelJobGroup(group)
            raise
        results = collected.result()
        seen.update(len(tasks), counts.value)
        yield from map(pickle.loads, results)


class _Seen:
    """Turns totals into steps for the meter. Totals never go back, although Spark may repeat tasks."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._rows = self._bytes = self._done = 0

    def update(self, done: int, counts: tuple[int, int]) -> None:
        rows, num_bytes, done = max(counts[0], self._rows), max(counts[1], self._bytes), max(done, self._done)
        if (rows, num_bytes, done) != (self._rows, self._bytes, self._done):
            self._meter.add(rows - self._rows, num_bytes - self._bytes, done - self._done)
            self._rows, self._bytes, self._done = rows, num_bytes, done


class _Runner:
    """The function that Spark calls in a worker."""

    def __init__(self, counts: Accumulator[tuple[int, int]]) -> None:
        self._counts = counts

    def __call__(self, parcel: bytes) -> bytes:
        index, work, task = pickle.loads(parcel)
        result = work(task, lambda rows, num_bytes: self._counts.add((rows, num_bytes)))
        return pickle.dumps((index, result))


class _PairParam(AccumulatorParam[tuple[int, int]]):
    """Rows and bytes, which Spark adds up when tasks finish."""

    def zero(self, value: tuple[int, int]) -> tuple[int, int]:  # noqa: ARG002
        return 0, 0

    def addInPlace(self, value1: tuple[int, int], value2: tuple[int, int]) -> tuple[int, int]:
        return value1[0] + value2[0], value1[1] + value2[1]


def _completed(context: SparkContext, group: str) -> int:
    """How many tasks of a job group are done, according to Spark's status tracker."""
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
