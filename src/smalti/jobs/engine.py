"""Running tasks: the executor's contract, and the one for this machine. The Spark one is in `smalti.spark.executor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from smalti import threads
from smalti.errors import MosaicError
from smalti.jobs.events import Meter, Report

Result = TypeVar("Result")
#: A module-level function of a picklable task.
Work = Callable[[Any, Report], Result]

ENGINES = ("local", "spark")


class Executor(Protocol):
    """Runs tasks somewhere and hands back their results, in any order, with the task's position."""

    name: str
    #: Threads each task may use for itself.
    task_threads: int | None
    #: Tasks that can run at once.
    slots: int

    def run(self, work: Work[Result], tasks: Sequence[Any], meter: Meter) -> Iterator[tuple[int, Result]]: ...


class LocalExecutor:
    """A thread pool: the kernels, Arrow and zstd all release the GIL, and nothing has to be copied or started.

    Parameters
    ----------
    workers : int, optional
        Tasks at once; by default one per core, but no more than there are tasks.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise MosaicError("workers out of range", found=workers, expected="1 at least")
        self._workers = workers or threads.cpu_count()
        self.task_threads: int | None = None
        self.slots = self._workers

    def run(self, work: Work[Result], tasks: Sequence[Any], meter: Meter) -> Iterator[tuple[int, Result]]:
        """Results as they come; when the caller stops asking, tasks that have not begun never do."""
        if self._workers == 1 or len(tasks) <= 1:
            for index, task in enumerate(tasks):
                result = work(task, meter.add)
                meter.finish()
                yield index, result
            return
        with ThreadPoolExecutor(min(self._workers, len(tasks)), thread_name_prefix="smalti-job") as pool:
            running: dict[Future[Result], int] = {
                pool.submit(work, task, meter.add): index for index, task in enumerate(tasks)
            }
            try:
                while running:
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        index = running.pop(future)
                        result = future.result()
                        meter.finish()
                        yield index, result
            finally:
                for future in running:
                    future.cancel()


def choose_executor(engine: str, spark: Any = None, workers: int | None = None) -> Executor:
    """The executor of an engine; pyspark is imported only for "spark"."""
    if engine == "local":
        if spark is not None:
            raise MosaicError('spark is given, so engine should be "spark"', found=engine)
        return LocalExecutor(workers)
    if engine == "spark":
        from smalti.spark.executor import SparkExecutor

        return SparkExecutor(spark)
    raise MosaicError("unknown engine", found=engine, expected=" or ".join(ENGINES))
