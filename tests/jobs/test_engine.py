"""The local executor, and what importing the jobs brings in."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import smalti
from smalti import jobs
from smalti.jobs.engine import LocalExecutor, choose_executor
from smalti.progress import Meter, Progress, Report
from tests.support.children import ROOT


def double(task: int, report: Report) -> int:
    report(1, 10)
    return 2 * task


@pytest.mark.parametrize("workers", [1, 3])
def test_every_result_comes_back_with_its_place(workers: int) -> None:
    events: list[Progress] = []
    meter = Meter("convert", 5, 50, events.append)
    results = dict(LocalExecutor(workers).run(double, [3, 1, 4, 1, 5], meter))
    assert results == {0: 6, 1: 2, 2: 8, 3: 2, 4: 10}
    assert (events[-1].done, events[-1].num_rows, events[-1].num_bytes) == (5, 5, 50)
    assert dict(LocalExecutor(workers).run(double, [], meter)) == {}


def test_tasks_that_have_not_begun_never_do() -> None:
    begun: list[int] = []
    gate = threading.Event()

    def slow(task: int, _: Report) -> int:
        begun.append(task)
        if task:
            gate.wait(60)
        return task

    results = LocalExecutor(2).run(slow, list(range(50)), Meter("convert", 50, 0, None))
    assert next(results) == (0, 0)
    threading.Timer(0.1, gate.set).start()
    results.close()
    assert len(begun) < 10


def test_an_error_of_a_task_is_raised() -> None:
    def fail(task: int, _: Report) -> int:
        raise RuntimeError(f"no {task}")

    with pytest.raises(RuntimeError, match="no "):
        list(LocalExecutor(2).run(fail, [1, 2, 3], Meter("convert", 3, 0, None)))


def test_engines_are_named() -> None:
    with pytest.raises(smalti.MosaicError, match="unknown engine: found flink, expected local or spark"):
        choose_executor("flink")
    with pytest.raises(smalti.MosaicError, match='engine should be "spark"'):
        choose_executor("local", spark=object())


def test_no_pyspark_unless_asked() -> None:
    script = "import sys, smalti.jobs; print([n for n in ('pyspark', 'pandas', 'numpy.random') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names() -> None:
    assert sorted(jobs.__all__) == jobs.__all__
    assert [name for name in jobs.__all__ if not getattr(jobs, name).__doc__] == []


@pytest.mark.parametrize("job", ["profile", "verify", "convert"])
def test_no_thread_outlives_a_job_that_fails(job: str, tmp_path: Path) -> None:
    """Threads that only the collector of garbage would end could hang a thread that is just being started."""
    for number in range(6):
        (tmp_path / f"{number}.mosaic").write_bytes(b"no Mosaic file")
    arguments = [tmp_path, tmp_path / "out"] if job == "convert" else [tmp_path]
    try:
        getattr(jobs, job)(*arguments, split_bytes=1, workers=3)
    except smalti.MosaicError as error:  # Its traceback holds what the job had in its hands.
        held = error
    assert job == "verify" or held.__traceback__ is not None
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("smalti-job")] == []
