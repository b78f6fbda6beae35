"""How often one process asks another for a read and for a write: as docs/architecture.md draws it, and no more."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
Hops = Callable[[], dict[str, int]]


@pytest.fixture
def hops(spark: Any) -> Hops:
    """The requests to Python processes since the last call, by their kind."""
    count = lambda: Counter(json.loads(spark._jvm.smalti.spark.jvm.Worker.requests()))  # noqa: E731
    before = count()

    def since() -> dict[str, int]:
        nonlocal before
        last, before = before, count()
        return dict(before - last)

    return since


def drawn(name: str, tasks: int) -> dict[str, int]:
    """The hops of a diagram: lines with an arrow from Java to Python. Those of tasks are marked with a star."""
    (diagram,) = re.findall(rf"^```text\n{name}\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    found = re.findall(r"──► (\w+)( \*)?", diagram)
    return {question: tasks if star else 1 for question, star in found}


def test_a_write_and_a_read(spark: Any, tmp_path: Path, hops: Hops) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 1000, numPartitions=3).write.format("mosaic").save(path)
    assert hops() == drawn("df.write.save", tasks=3)
    frame = spark.read.format("mosaic").load(path)
    assert len(frame.select("id").collect()) == 1000
    reads = drawn("spark.read.load.select.collect", tasks=1)
    assert {name: number for name, number in hops().items() if name != "read"} == {
        name: number for name, number in reads.items() if name != "read"
    }
    # A second query of the same frame asks for its plan only.
    assert frame.where("id < 10").count() == 10
    assert hops().keys() == {"plan", "read"}


def test_an_aggregate_is_asked_for_once(spark: Any, tmp_path: Path, hops: Hops) -> None:
    path = str(tmp_path / "t")
    spark.range(100).write.format("mosaic").save(path)
    hops()
    assert spark.read.format("mosaic").load(path).agg({"id": "max"}).first()[0] == 99
    assert hops() == {"open": 1, "aggregate": 1}


def test_the_table_is_sent_to_a_process_that_does_not_know_it(spark: Any, tmp_path: Path, hops: Hops) -> None:
    """All Python workers end between two queries of a frame."""
    spark.range(100).write.format("mosaic").save(str(tmp_path / "t"))
    frame = spark.read.format("mosaic").load(str(tmp_path / "t"))
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    killed = []
    for process in psutil.Process(java).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # a process that has ended meanwhile
            if "pyspark_mosaic.daemon" in process.cmdline() and process.ppid() != java:
                process.kill()
                killed.append(process)
    psutil.wait_procs(killed, 60)  # Spark would take one that its daemon has not noticed yet for alive.
    hops()
    assert frame.agg({"id": "max"}).first()[0] == 99
    assert hops()["aggregate"] >= 1
