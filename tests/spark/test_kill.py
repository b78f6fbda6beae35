"""Real applications, killed: a driver in the middle of an overwrite, an executor of a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyspark

import smalti
from smalti import jobs
from smalti.spark.setup.java import ensure_java
from smalti.table.names import JOBS
from tests.spark.apps import ROWS
from tests.support.children import ROOT

HOME = Path(pyspark.__file__).parent


@contextlib.contextmanager
def process(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a group of its own, all of which ends with the block."""
    ensure_java()
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        )
    try:
        yield child
    finally:
        kill_all(child)


def kill_all(child: subprocess.Popen[bytes]) -> None:
    """The process and everything below it, executors that have left its group included."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for below in psutil.Process(child.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                below.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(120)


def wait_for(condition: Callable[[], Any], what: str, log: Path, seconds: float = 900) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} in {seconds} s: {log.read_text()[-3000:]}")
        time.sleep(0.1)


def test_killed_driver_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table, log = tmp_path / "t", tmp_path / "log"
    table.mkdir()
    smalti.write_table(pa.table({"id": [1, 2, 3]}), table / "old.mosaic")
    with process([sys.executable, "-m", "tests.spark.apps", "endless", str(table)], log) as app:
        wait_for(lambda: len(list((table / JOBS).rglob("*.mosaic"))) > 4, "staged files", log)
        kill_all(app)
    assert list((table / JOBS).rglob("*.mosaic"))
    assert [path.name for path in table.glob("*.mosaic")] == ["old.mosaic"]
    assert smalti.dataset(table).to_table().to_pydict() == {"id": [1, 2, 3]}
    assert len(jobs.clean(str(table), timedelta(0))) == 1
    assert [path.name for path in (table / JOBS).rglob("*") if not path.name.startswith("commit-")] == []
    assert smalti.dataset(table).to_table().to_pydict() == {"id": [1, 2, 3]}


def test_cluster_survives_a_killed_executor(tmp_path: Path) -> None:
    """Two executors, processes of their own; one is killed while it writes, and a slow task has a copy."""
    table, log = tmp_path / "t", tmp_path / "app.log"
    command = [sys.executable, "-m", "tests.spark.apps", "cluster", "local-cluster[2,1,600]", str(table)]
    with process(command, log) as app:
        wait_for(lambda: any((table / JOBS).rglob("*-*")) or app.poll() is not None, "staged files", log)
        below = {child.pid for child in psutil.Process(app.pid).children(recursive=True)}
        executors = [
            child
            for child in psutil.process_iter(["cmdline"])
            if child.pid in below and "CoarseGrainedExecutorBackend" in " ".join(child.info["cmdline"] or ())
        ]
        assert len(executors) == 2, log.read_text()[-3000:]
        executors[1].kill()
        wait_for(lambda: app.poll() is not None, "end of the application", log)
        output = log.read_text()
        assert app.returncode == 0, output[-3000:]
        assert f"count(1)={ROWS}, count(DISTINCT id)={ROWS}, sum(id)={ROWS * (ROWS - 1) // 2}" in output
        assert f"compacted {ROWS} rows, verified True" in output
    for found in (table, f"{table}.compacted"):
        assert sorted(smalti.dataset(found).to_table()["id"].to_pylist()) == list(range(ROWS))
