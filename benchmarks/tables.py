"""Tables of many files on this machine: ``python -m benchmarks.tables`` measures, and writes tables.json and tables.md.

Three columns of 300 files with 10,000 columns and one row each (the case of Polars' issue 17259), beside Parquet read
by pyarrow.dataset and by Polars; what listing and opening cost per file when all have the same schema; and the peak
memory of a read with a limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import smalti
import smalti.polars
from benchmarks.environment import describe
from benchmarks.measure import Turn, take_turns
from benchmarks.memory import settle, status
from benchmarks.report import markdown, publish

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
OURS = "smalti.dataset"
ARROW, POLARS = "Parquet through pyarrow.dataset", "Parquet through polars.scan_parquet"
MIB = 1 << 20


@dataclass(frozen=True)
class Shape:
    """How many files, of how many columns; and the files of the memory test, with the limit that is set there."""

    files: int = 300
    columns: int = 10_000
    linked_files: int = 10_000
    large_files: int = 10
    large_rows: int = 2_000_000
    memory_limit: int = 128 * MIB
    rounds: int = 3


SMOKE = Shape(files=6, columns=200, linked_files=60, large_files=8, large_rows=500_000, memory_limit=16 * MIB, rounds=1)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description="Measure tables of many files.")
    parser.add_argument("--smoke", action="store_true", help="small tables, seconds")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.peak:
        print(json.dumps(peak_of_read(args.peak[0], int(args.peak[1]))))
        return 0
    shape = SMOKE if args.smoke else Shape()
    with tempfile.TemporaryDirectory() as directory:
        document = {"environment": describe([]), "shape": asdict(shape), **measure(Path(directory), shape)}
    document["goals"] = [] if args.smoke else goals(document)
    publish(args.out, "tables", document, page(document))
    return 0


# --- measuring ------------------------------------------------------------------------------------------------------


def measure(directory: Path, shape: Shape) -> dict[str, Any]:
    mosaic, parquet, linked = directory / "mosaic", directory / "parquet", directory / "linked"
    write_files(mosaic, parquet, shape)
    linked.mkdir()
    sources = sorted(mosaic.iterdir())
    for number in range(shape.linked_files):
        os.link(sources[number % len(sources)], linked / f"{number:05d}.mosaic")
    columns = [f"metric_{place:05d}" for place in (3, shape.columns // 2, shape.columns - 1)]
    turns = {
        OURS: Turn(lambda: smalti.dataset(mosaic).to_table(columns)),
        "smalti.polars.scan_mosaic": Turn(lambda: smalti.polars.scan_mosaic(mosaic).select(columns).collect()),
        ARROW: Turn(lambda: pads.dataset(parquet).to_table(columns=columns)),
        POLARS: Turn(lambda: pl.scan_parquet(parquet / "*.parquet").select(columns).collect()),
    }
    for turn in turns.values():
        turn.run()  # imports and caches
    seconds, errors = take_turns(turns, shape.rounds, budget=60)
    if errors:
        raise RuntimeError(errors)
    large = directory / "large"
    write_large(large, shape)
    return {
        "seconds": {name: min(taken) for name, taken in seconds.items()},
        "cpu_ms_per_file": {
            "list": cpu_ms(lambda: smalti.dataset(linked), shape.linked_files),
            "list, open and unify": cpu_ms(lambda: smalti.dataset(linked).schema, shape.linked_files),
            "list, open, plan and read 3 columns": cpu_ms(
                lambda: smalti.dataset(linked).to_table(columns), shape.linked_files
            ),
        },
        "decoded_bytes": shape.large_rows * 8 * shape.large_files,
        "peak_bytes": {str(limit): in_a_child(large, limit) for limit in (shape.memory_limit, 1 << 40)},
    }


def write_files(mosaic: Path, parquet: Path, shape: Shape) -> None:
    values = np.random.default_rng(17259)
    names = [f"metric_{place:05d}" for place in range(shape.columns)]
    mosaic.mkdir()
    parquet.mkdir()
    for number in range(shape.files):
        row = values.random(shape.columns)
        table = pa.table([pa.array(row[place : place + 1]) for place in range(shape.columns)], names=names)
        smalti.write_table(table, mosaic / f"{number:03d}.mosaic")
        pq.write_table(table, parquet / f"{number:03d}.parquet", compression="zstd")


def write_large(directory: Path, shape: Shape) -> None:
    """Files of one column that does not compress."""
    values = np.random.default_rng(1)
    directory.mkdir()
    for number in range(shape.large_files):
        table = pa.table({"x": values.integers(-(1 << 62), 1 << 62, shape.large_rows)})
        smalti.write_table(table, directory / f"{number}.mosaic")


def cpu_ms(act: Callable[[], object], files: int) -> float:
    """Processor time of this process for each file, in milliseconds."""
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1000 / files


def in_a_child(directory: Path, memory_limit: int) -> int:
    command = [sys.executable, "-m", "benchmarks.tables", "--peak", str(directory), str(memory_limit)]
    root = Path(__file__).parent.parent
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout)


def peak_of_read(directory: str, memory_limit: int) -> int:
    """Bytes that this process grows by while a slow reader takes batches that are read ahead."""
    with tempfile.TemporaryDirectory() as small:
        smalti.write_table(pa.table({"x": [1]}), f"{small}/x.mosaic")
        list(smalti.dataset(small, readahead=8).to_batches())
    before = settle()
    for batch in smalti.dataset(directory, readahead=8, memory_limit=memory_limit).to_batches():
        time.sleep(0.05)
        del batch
    return status("VmHWM") - before


# --- showing --------------------------------------------------------------------------------------------------------


def goals(document: dict[str, Any]) -> list[list[str]]:
    seconds, limit = document["seconds"], document["shape"]["memory_limit"]
    arrow, polars = seconds[ARROW] / seconds[OURS], seconds[POLARS] / seconds[OURS]
    cpu, peak = document["cpu_ms_per_file"]["list, open and unify"], document["peak_bytes"][str(limit)]
    checks = [
        ("15 times as fast as pyarrow.dataset", f"{arrow:.1f}", arrow >= 15),
        ("5 times as fast as polars.scan_parquet", f"{polars:.1f}", polars >= 5),
        ("a file listed and opened in 0.5 ms of processor time", f"{cpu:.3f} ms", cpu <= 0.5),
        ("peak memory of a read within its limit", f"{peak / limit:.2f} of it", peak <= limit),
    ]
    return [[title, measured, "reached" if reached else "**missed**"] for title, measured, reached in checks]


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    shape, ours = document["shape"], document["seconds"][OURS]
    seconds = [[name, f"{taken:.3f}", f"{taken / ours:.1f}"] for name, taken in document["seconds"].items()]
    cpu = [[name, f"{taken:.3f}"] for name, taken in document["cpu_ms_per_file"].items()]
    peaks = [
        ["none" if int(limit) >= 1 << 40 else f"{int(limit) / MIB:.0f} MiB", f"{peak / MIB:.0f} MiB"]
        for limit, peak in document["peak_bytes"].items()
    ]
    parts = [
        "# Tables of many files",
        f"Written by `python -m benchmarks.tables` on {document['environment']['date']}; do not edit.",
        f"## 3 columns of {shape['files']} files with {shape['columns']:,} columns and one row each, local",
        markdown(["by", "s", "times smalti"], seconds),
        f"## Processor time for each of {shape['linked_files']:,} files with the same schema",
        markdown(["work", "ms"], cpu),
        f"## Peak memory of a read of {document['decoded_bytes'] / MIB:.0f} MiB, eight row groups ahead",
        markdown(["memory_limit", "peak"], peaks),
    ]
    if document["goals"]:
        parts += ["## Goals", markdown(["goal", "measured", ""], document["goals"])]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
