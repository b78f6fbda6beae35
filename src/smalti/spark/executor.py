"""The Spark executor: tasks travel as an RDD, one partition each, and small results come back.

No rows pass through Spark. A task runs in a Python worker that imports smalti; nothing of the session is needed there.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import AccumulatorParam, SparkContext, inheritable_thread_target
from pyspark.sql import SparkSession

from smalti.jobs.engine import Result, Task, Work
from smalti.jobs.events import Meter

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
        self._spark = spark or SparkSession.getActiveSession() or _local_session()
        cpus = int(self._spark.conf.get("spark.task.cpus", "1") or 1)
        #: What Spark gives a task is what it may use.
        self.task_threads: int | None = cpus
        self.slots = max(1, self._spark.sparkContext.defaultParallelism // cpus)

    def run(self, work: Work[Task, Result], tasks: Sequence[Task], meter: Meter) -> Iterator[tuple[int, Result]]:
        """Run all tasks, then hand back their results. Spark repeats tasks whose worker dies."""
        if not tasks:
            return
        context = self._spark.sparkContext
        counts = context.accumulator((0, 0), _PairParam())
        # Pickled here, once, by the module they name: Spark's own pickler would ship code by value.
        parcels = [pickle.dumps((index, work, task)) for index, task in enumerate(tasks)]
        rdd = context.parallelize(parcels, len(parcels)).map(_Runner(counts))
        group = f"smalti-{uuid.uuid4().hex[:12]}"
        outcome: list[Any] = []

        def collect() -> None:
            try:
                context.setJobGroup(group, f"smalti: {len(tasks)} tasks", interruptOnCancel=True)
                outcome.append(rdd.collect())
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=inheritable_thread_target(self._spark)(collect), daemon=True)
        thread.start()
        seen = _Seen(meter)
        try:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                seen.update(_completed(context, group), counts.value)
        except BaseException:
            context.cancelJobGroup(group)
            raise
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        seen.update(len(tasks), counts.value)
        for data in outcome[0]:
            yield pickle.loads(data)


class _Seen:
    """Turns totals into steps for the meter; totals never go back, whatever Spark repeats."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._done = self._rows = self._bytes = 0

    def update(self, done: int, counts: tuple[int, int]) -> None:
        rows, num_bytes = max(counts[0], self._rows), max(counts[1], self._bytes)
        if rows > self._rows or num_bytes > self._bytes:
            self._meter.add(rows - self._rows, num_bytes - self._bytes)
            self._rows, self._bytes = rows, num_bytes
        if done > self._done:
            self._meter.finish(done - self._done)
            self._done = done


class _Runner:
    """What Spark calls in a worker."""

    def __init__(self, counts: Any) -> None:
        self._counts = counts

    def __call__(self, parcel: bytes) -> bytes:
        index, work, task = pickle.loads(parcel)
        result = work(task, lambda rows, num_bytes: self._counts.add((rows, num_bytes)))
        return pickle.dumps((index, result))


class _PairParam(AccumulatorParam[tuple[int, int]]):
    """Rows and bytes; Spark adds up those of finished tasks."""

    def zero(self, value: tuple[int, int]) -> tuple[int, int]:  # noqa: ARG002
        return 0, 0

    def addInPlace(self, value1: tuple[int, int], value2: tuple[int, int]) -> tuple[int, int]:
        return value1[0] + value2[0], value1[1] + value2[1]


def _completed(context: SparkContext, group: str) -> int:
    """Tasks of a job group that are done, as the status tracker has it."""
    tracker = context.statusTracker()
    done = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job is not None else ():
            stage = tracker.getStageInfo(stage_id)
            done += stage.numCompletedTasks if stage is not None else 0
    return done


def _local_session() -> SparkSession:
    from smalti.spark.local import session

    made: SparkSession = session()
    return made
