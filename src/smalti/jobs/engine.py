"""Running tasks: what an executor is, and the executor for this machine. Spark's is in `smalti.spark.executor`.

The arguments that all jobs have in common are checked here too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from smalti import threads
from smalti.errors import MosaicError
from smalti.extras import optional_module
from smalti.options import WriterOptions
from smalti.progress import Meter, Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The session that a user passes for engine "spark"; None stands for the active one, or a new local one.
AnySession: TypeAlias = "SparkSession | None"
Task = TypeVar("Task")
Result = TypeVar("Result")
#: What is done with a task. It is sent to other processes, so it is a module-level function or a `partial` of one, and
#: tasks and results can be pickled. Spark repeats a task that raises, so errors about data are returned as results.
Work = Callable[[Task, Report], Result]
#: Makes one result of two, in any order; it is sent to other processes as well, and may change the first result.
Combine = Callable[[Result, Result], Result]

ENGINES = ("local", "spark")
ON_ERROR = ("raise", "skip")


class Executor(Protocol):
    """Runs tasks somewhere and returns their results, in any order, each with the position of its task."""

    name: str
    #: Threads that each task may use for itself; None if tasks share the threads of this process.
    task_threads: int | None
    #: Tasks that can run at once.
    slots: int

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], meter: Meter, combine: Combine[Result] | None = None
    ) -> Generator[tuple[int, Result], None, None]:
        """With `combine`, which makes one result of two, fewer results may come back than there are tasks."""
        ...


class LocalExecutor:
    """Runs tasks in threads, since the kernels, Arrow and zstd all release the GIL.

    Parameters
    ----------
    workers : int, optional
        Tasks at once; by default one per core, but no more than there are tasks.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        check_positive(workers=workers)
        self.task_threads: int | None = None
        self.slots = workers or threads.cpu_count()

    def run(
        self,
        work: Work[Task, Result],
        tasks: Sequence[Task],
        meter: Meter,
        combine: Combine[Result] | None = None,  # noqa: ARG002
    ) -> Generator[tuple[int, Result], None, None]:
        """Results as tasks finish. Close it: tasks that have not begun are then not run, and the others are waited for.

        The collector of garbage must not close it. It may do so in a thread that is just being started, which holds a
        lock of Python's that waiting for threads needs.
        """
        if self.slots == 1 or len(tasks) <= 1:
            for index, task in enumerate(tasks):
                result = work(task, meter.add)
                meter.add(0, 0, done=1)
                yield index, result
            return
        with ThreadPoolExecutor(min(self.slots, len(tasks)), thread_name_prefix="smalti-job") as pool:
            running: dict[Future[Result], int] = {
                pool.submit(work, task, meter.add): index for index, task in enumerate(tasks)
            }
            try:
                while running:
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        index = running.pop(future)
                        result = future.result()
                        meter.add(0, 0, done=1)
                        yield index, result
            finally:
                for future in running:
                    future.cancel()


def run_tasks(
    executor: Executor,
    work: Work[Task, Result | MosaicError],
    tasks: Sequence[Task],
    meter: Meter,
    finished: Mapping[int, Result] | None = None,
) -> list[Result]:
    """The results of tasks, in the order of these. Tasks that an earlier run has `finished`, by position, are not run.

    The first error about data is raised, when the tasks that are running are done.
    """
    results = dict(finished or {})
    waiting = [at for at in range(len(tasks)) if at not in results]
    with closing(executor.run(work, [tasks[at] for at in waiting], meter)) as done:
        for index, result in done:
            if isinstance(result, MosaicError):
                raise result
            results[waiting[index]] = result
    return [results[at] for at in range(len(tasks))]


def choose_executor(engine: str, spark: AnySession = None, workers: int | None = None) -> Executor:
    """The executor of an engine. pyspark is imported only for "spark"."""
    if engine == "local":
        if spark is not None:
            raise MosaicError('spark is given, so engine should be "spark"', found=engine)
        return LocalExecutor(workers)
    if engine == "spark":
        if workers is not None:
            raise MosaicError('workers is for engine "local"; the cores of the Spark session say how many tasks run')
        optional_module("pyspark", "spark")
        from smalti.spark.executor import SparkExecutor

        return SparkExecutor(spark)
    raise MosaicError("unknown engine", found=engine, expected=" or ".join(ENGINES))


def options_for(executor: Executor, options: WriterOptions | None) -> WriterOptions:
    """Options of a writer that uses as many threads as the executor grants a task, unless the user says how many."""
    options = options or WriterOptions()
    return options if options.threads is not None else replace(options, threads=executor.task_threads)


def check_on_error(on_error: str, *more: str) -> None:
    """Refuse an `on_error` that no job knows; `more` are those that only this job has."""
    if on_error not in (*ON_ERROR, *more):
        raise MosaicError("unknown on_error", found=on_error, expected=" or ".join([*ON_ERROR, *more]))


def check_positive(**numbers: float | None) -> None:
    """Refuse arguments that are not positive, or counts below 1; None stands for the default."""
    for name, value in numbers.items():
        if value is not None and (value < 1 if isinstance(value, int) else not value > 0):
            raise MosaicError(f"{name} out of range", found=value, expected="1 at least")
