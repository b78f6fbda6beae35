"""The table and the session of both measurements."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import datasets


@dataclass(frozen=True)
class Shape:
    """Of a directory of files."""

    columns: int
    rows: int
    files: int


def write_parquet(root: Path, shape: Shape) -> Path:
    """The benchmark's wide table, the same rows in each file, in row groups of at most 1,000 rows."""
    root.mkdir()
    table = datasets.wide(np.random.RandomState(datasets.SEED), shape.columns, shape.rows // shape.files)
    first = root / "part-00000.parquet"
    pq.write_table(table, first, row_group_size=1_000, compression="zstd")
    for number in range(1, shape.files):
        shutil.copyfile(first, root / f"part-{number:05d}.parquet")
    return root


def spark_session(**settings: str) -> Any:
    """Two cores and 4 GB; the Java machine as Spark starts it, without what `smalti.spark.session` sets there."""
    import smalti.spark

    spark = smalti.spark.session("local[2]", driver_memory="4g", driver_extraJavaOptions="", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def session_processes() -> list[str]:
    """The names of the programs that this process's session runs: Java, and the Python processes below it."""
    return [_program(pid) for pid in family()]


def family() -> set[int]:
    """The processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone since
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
