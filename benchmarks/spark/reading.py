"""Ten of many columns through Spark, warm: ``format("mosaic")`` against Spark's own Parquet reader.

Each has a session, so a Java machine and Python workers, to itself, and both are asked in turn. Memory is looked at
while they are asked some more, without a clock: the most that all processes below the session hold at a moment, pages
they share counted once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.spark.shared import Shape, family, say, spark_session, write_parquet

CHOSEN = 10
#: Rounds in which memory is looked at, and the seconds between looks.
WATCHED, INTERVAL = 3, 0.1


def read(root: Path, shape: Shape, rounds: int) -> dict[str, Any]:
    """Seconds and memory of both readers."""
    from smalti import jobs

    parquet = write_parquet(root / "wide-parquet", shape)
    jobs.convert(parquet, root / "wide-mosaic")
    readers = {name: _Reader(name, root / f"wide-{name}") for name in ("mosaic", "parquet")}
    try:
        for order in ["read"] * rounds + ["watch"] * WATCHED:
            for reader in readers.values():
                reader.tell(order)
        result = {name: reader.finish() for name, reader in readers.items()}
    finally:
        for reader in readers.values():
            reader.kill()
    for name, figures in result.items():
        say(
            f"{name}: cold {figures['cold']:.2f} s; warm, best: collect {min(figures['collect']):.2f} s, "
            f"load and collect {min(figures['load_and_collect']):.2f} s; "
            f"{figures['peak_bytes'] >> 20:,} MB, {figures['idle_bytes'] >> 20:,} of them before reading"
        )
    assert result["mosaic"]["digest"] == result["parquet"]["digest"]
    return result


class _Reader:
    """A process that reads when it is told to."""

    def __init__(self, name: str, path: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.spark.reading", name, str(path)]
        root = Path(__file__).parent.parent.parent
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        self._answer()

    def finish(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.tell("finish")
        self._process.wait(60)
        return answer

    def kill(self) -> None:
        self._process.kill()

    def tell(self, order: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a reader has died")
        return json.loads(line)


def main() -> None:
    """One session, driven by lines on standard input."""
    format_, path = sys.argv[1:]
    spark = spark_session()
    # Something small first: what every session holds, workers included.
    spark.range(1000).rdd.map(lambda row: row.id).sum()
    idle = held_by_session()
    began = time.perf_counter()
    frame = spark.read.format(format_).load(path)
    step = len(frame.columns) // CHOSEN
    names = frame.columns[::step][:CHOSEN]
    frame.select(*names).collect()
    figures: dict[str, Any] = {"cold": time.perf_counter() - began, "collect": [], "load_and_collect": []}
    rows: list[Any] = []
    peak = idle
    print(json.dumps("ready"), flush=True)
    while (order := sys.stdin.readline().strip()) != "finish":
        with Watch() if order == "watch" else contextlib.nullcontext() as watch:
            began = time.perf_counter()
            rows = frame.select(*names).collect()
            between = time.perf_counter()
            spark.read.format(format_).load(path).select(*names).collect()
            ended = time.perf_counter()
        if watch is None:
            figures["collect"].append(between - began)
            figures["load_and_collect"].append(ended - between)
        else:
            peak = max(peak, watch.peak)
        print(json.dumps("done"), flush=True)
    figures["idle_bytes"], figures["peak_bytes"] = idle, peak
    figures["digest"] = hashlib.sha256("\n".join(sorted(repr(tuple(row)) for row in rows)).encode()).hexdigest()
    print(json.dumps(figures), flush=True)
    spark.stop()


class Watch:
    """Looks at the memory of the session again and again, for as long as a block lasts."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(INTERVAL):
            self.peak = max(self.peak, held_by_session())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def held_by_session() -> int:
    """What this process's children, Java and the workers below it, hold now; shared pages count once among them."""
    held = 0
    for pid in family():
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            held += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return held


if __name__ == "__main__":
    main()
