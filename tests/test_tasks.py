"""Functions that threads run: in order, each once, with errors for whoever asks; nothing is left behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest

from smalti.tasks import Task, Workers, wait_any


def fail() -> None:
    raise ValueError("broken")


def test_more_functions_than_threads() -> None:
    seen: list[int] = []
    with Workers(1) as workers:
        tasks = [workers.submit(seen.append, number) for number in range(100)]
        failed = workers.submit(fail)
        for task in tasks:
            task.result()
        for _ in range(2):
            with pytest.raises(ValueError, match="broken"):
                failed.result()
    assert seen == list(range(100))


def test_threads_are_started_when_none_is_idle() -> None:
    barrier = threading.Barrier(4)
    with Workers(3) as workers:
        tasks = [workers.submit(barrier.wait, 10) for _ in range(3)]
        barrier.wait(10)  # All of them run at the same time.
        for task in tasks:
            task.wait()
        assert len(workers._threads) == 3


def test_a_task_is_cancelled_or_run() -> None:
    cancelled, run = Task(lambda: 1), Task(lambda: 1)
    assert cancelled.cancel()
    cancelled.run()
    run.run()
    assert not run.cancel()
    assert run.result() == 1
    wait_any([cancelled, Task(lambda: 1)])
    wait_any([Task(lambda: 1)], 0.01)


def test_a_system_without_another_thread_runs_functions_in_that_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("smalti.tasks.start_new_thread", refuse)
    with Workers(2) as workers:
        assert workers.submit(threading.get_ident).result() == threading.get_ident()


def test_functions_that_are_running_end_before_the_process() -> None:
    """Its end would stop them anywhere, maybe inside a library whose memory is then taken away."""
    script = (
        "import time; from smalti.tasks import Workers; workers = Workers(1);"
        "begun = [workers.submit(lambda: (time.sleep(0.3), print('ended'))) for _ in range(5)]; time.sleep(0.1)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_reads_at_the_end_of_the_process() -> None:
    """Functions of `atexit` may read, in any order."""
    script = (
        "import atexit; atexit.register(lambda: print(threads.request_all(str, [1, 2, 3])));"
        "from smalti import threads; threads.request_all(str, [1])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("['1', '2', '3']\n", "")


def test_results_and_errors_are_released_with_their_task() -> None:
    class Held:
        pass

    def make(failing: bool) -> Held:
        held = Held()
        released.append(weakref.ref(held))
        if failing:
            raise ValueError
        return held

    released: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        with Workers(1) as workers:
            for failing in (False, True):
                task = workers.submit(partial(make, failing))
                with suppress(ValueError):
                    task.result()
                del task
                workers.submit(int).result()  # The thread has done something else since.
                assert released[-1]() is None
    finally:
        gc.enable()
