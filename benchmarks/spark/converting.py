"""Three ways to rewrite the same directory of wide Parquet files, one after the other in one warmed-up session.

- ``job``: `smalti.jobs.convert` with ``engine="spark"``, Parquet to Mosaic, Arrow all the way;
- ``dataframe``: ``spark.read.parquet(...).write.format("mosaic")``;
- ``parquet``: ``spark.read.parquet(...).write.parquet(...)``, Spark on its own.

The last two take minutes, so they run once; the job runs before, between and after them. Its memory is measured again
with four times the rows in each file: flat means that it does not follow.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark.shared import Shape, say, spark_session, write_parquet


def convert(root: Path, shape: Shape) -> dict[str, Any]:
    """Seconds and memory of each way."""
    from smalti import jobs

    raw = write_parquet(root / "raw", shape)
    long = write_parquet(root / "long", Shape(shape.columns, 8 * shape.rows // shape.files, 2))
    small = write_parquet(root / "small", Shape(100, 200, 2))
    spark = spark_session()
    job_runs: list[Any] = []

    def job(source: Path) -> Any:
        return jobs.convert(source, fresh(root / "job"), engine="spark", spark=spark)

    def timed_job() -> None:
        seconds, summary = timed(lambda: job(raw))
        assert summary.num_rows == shape.rows
        job_runs.append((seconds, summary))
        say(f"job: {seconds:.1f} s, at most {summary.peak_memory >> 20:,} MB in a task's process; {summary}")

    roads: dict[str, Callable[[], Any]] = {
        "dataframe": lambda: (
            spark.read.parquet(str(raw)).write.format("mosaic").mode("overwrite").save(str(root / "dataframe"))
        ),
        "parquet": lambda: spark.read.parquet(str(raw)).write.mode("overwrite").parquet(str(root / "parquet")),
    }
    job(small)
    timed_job()
    result: dict[str, Any] = {}
    for name, road in roads.items():
        seconds, _ = timed(road)
        result[name] = {"seconds": seconds, "bytes": size(root / name)}
        say(f"{name}: {seconds:.1f} s")
        shutil.rmtree(root / name)
        timed_job()
    seconds = statistics.median(seconds for seconds, _ in job_runs)
    for road in result.values():
        road["times"] = road["seconds"] / seconds
    longer = job(long)
    spark.stop()
    result["job"] = {
        "seconds": seconds,
        "runs": [seconds for seconds, _ in job_runs],
        "bytes": job_runs[0][1].num_bytes,
        "splits": job_runs[0][1].splits,
        "peak_bytes": max(summary.peak_memory for _, summary in job_runs),
        "peak_bytes_of_longer_files": longer.peak_memory,
    }
    return result


def fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return path


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def timed(road: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = road()
    return time.perf_counter() - began, result
