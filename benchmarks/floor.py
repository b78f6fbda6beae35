"""Small reads beside what no reader can avoid: ``python -m benchmarks.floor`` writes floor.json and floor.md.

The floor of a read is what remains if everything but storage and decompression took no time: the file is opened, the
same ranges are read by `pread`, the same frames are decompressed by zstd. A read is measured twice: the first of a
schema in a process, and the next, whose schema block is known already. All take turns, and the best of many counts.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard

import smalti
from benchmarks.datasets import DATASETS, scattered
from benchmarks.environment import describe
from benchmarks.report import markdown, publish, warning
from smalti.file import reader
from smalti.format import compression
from smalti.io.sources import LocalSource
from smalti.logical.mapping import SharedSchemas

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
COUNTS = (1, 10)
SINGLES = 1000
#: The most that a read of few columns may take beside its floor, a column of an open file, and the first read of a
#: process beside importing pyarrow; the last two in seconds.
MOST_OF_FLOOR, MOST_SINGLE, MOST_IMPORT = 3.0, 60e-6, 0.06


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description="Measure small reads.")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, seconds")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path, default=DOCS)
    args = parser.parse_args(arguments)
    sets = [DATASETS["wide-500"], DATASETS["wide-4500"]]
    if args.smoke:
        sets = [replace(sets[0], columns=200, rows=20)]
    reads, singles = [], []
    with tempfile.TemporaryDirectory() as directory:
        for dataset in sets:
            path = Path(directory) / f"{dataset.name}.mosaic"
            table = dataset.build() if args.smoke else dataset.load()
            smalti.write_table(table, path)
            for count in COUNTS:
                columns = scattered(table.column_names, count)
                reads.append({"table": dataset.name, "columns": count, **measure(path, columns, args.repeats)})
            singles.append({"table": dataset.name, "seconds": measure_singles(path, table.column_names)})
        imports = measure_imports(path, table.column_names[0], 2 if args.smoke else 15)
    document = {"environment": describe([]), "reads": reads, "singles": singles, "imports": imports}
    publish(args.out, "floor", document, page(document))
    return 0


def measure(path: Path, columns: list[str], repeats: int) -> dict[str, float]:
    """The best seconds of the floor, of a first read and of the next ones, in turns."""
    with recorded() as (ranges, frames):
        smalti.read_table(path, columns)
    decompressor = zstandard.ZstdDecompressor()

    def floor() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        for offset, size in ranges:
            os.pread(descriptor, size, offset)
        os.close(descriptor)
        for frame in frames:
            decompressor.decompress(frame)

    def first() -> None:
        with forgotten_schemas():
            smalti.read_table(path, columns)

    ways: dict[str, Callable[[], Any]] = {
        "floor": floor,
        "first": first,
        "next": lambda: smalti.read_table(path, columns),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(repeats):
        for name, act in ways.items():
            start = time.perf_counter()
            act()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@contextmanager
def forgotten_schemas() -> Iterator[None]:
    """Let no schema be known."""
    known, reader.PROCESS_SCHEMAS = reader.PROCESS_SCHEMAS, SharedSchemas()
    try:
        yield
    finally:
        reader.PROCESS_SCHEMAS = known


@contextmanager
def recorded() -> Iterator[tuple[list[tuple[int, int]], list[bytes]]]:
    """Record the ranges that are read from files, and the frames that are decompressed in this thread."""
    ranges: list[tuple[int, int]] = []
    frames: list[bytes] = []
    read, decompressor = LocalSource._read, compression._contexts.decompressor

    def record(source: LocalSource, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        ranges.extend(wanted)
        return read(source, wanted)

    class Recorder:
        def decompress(self, frame: Any, **options: Any) -> bytes:
            frames.append(bytes(frame))
            return decompressor.decompress(frame, **options)

        def multi_decompress_to_buffer(self, many: list[Any], **options: Any) -> Any:
            frames.extend(map(bytes, many))
            return decompressor.multi_decompress_to_buffer(many, **options)

    LocalSource._read = record  # type: ignore[method-assign]
    compression._contexts.decompressor = Recorder()  # type: ignore[assignment]
    try:
        with forgotten_schemas():
            yield ranges, frames
    finally:
        LocalSource._read = read  # type: ignore[method-assign]
        compression._contexts.decompressor = decompressor


def measure_singles(path: Path, names: list[str]) -> float:
    """Seconds for each of many random columns of a file that stays open: the best of several rounds."""
    picked = random.Random(1).choices(names, k=SINGLES)
    best = float("inf")
    for _ in range(7):
        with smalti.open(path, cache_bytes=0) as file:
            file.read([names[0]])
            start = time.perf_counter()
            for name in picked:
                file.read([name])
            best = min(best, (time.perf_counter() - start) / SINGLES)
    return best


def measure_imports(path: Path, column: str, repeats: int) -> dict[str, float]:
    """Seconds of a process that imports pyarrow, and of one that imports smalti and reads a column: the best."""
    ways = {
        "pyarrow": "import pyarrow",
        "smalti": f"import smalti; smalti.read_table({os.fspath(path)!r}, [{column!r}])",
    }
    best = dict.fromkeys(ways, float("inf"))
    # Modules are compiled once, as they are where a package is installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = os.fspath(path.parent / "bytecode")
    for number in range(repeats + 1):
        for name, code in ways.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            if number:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


# --- showing --------------------------------------------------------------------------------------------------------


def goals(document: dict[str, Any]) -> list[list[str]]:
    found = []
    for read in document["reads"]:
        if read["columns"] <= 10:
            for kind in ("next", "first"):
                title = f"{read['table']}, {read['columns']} columns, {kind} read: at most {MOST_OF_FLOOR} of the floor"
                ratio = read[kind] / read["floor"]
                found.append([title, f"{ratio:.2f}", ratio <= MOST_OF_FLOOR])
    for single in document["singles"]:
        title = f"{single['table']}, a column of an open file: at most {MOST_SINGLE * 1e6:.0f} µs"
        found.append([title, f"{single['seconds'] * 1e6:.0f} µs", single["seconds"] <= MOST_SINGLE])
    more = document["imports"]["smalti"] - document["imports"]["pyarrow"]
    title = f"import and one read: at most {MOST_IMPORT * 1e3:.0f} ms more than importing pyarrow"
    found.append([title, f"{more * 1e3:.0f} ms", more <= MOST_IMPORT])
    return [[title, measured, "reached" if reached else "**missed**"] for title, measured, reached in found]


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        [
            read["table"],
            f"{read['columns']}",
            *(f"{read[kind] * 1e6:,.0f}" for kind in ("floor", "first", "next")),
            *(f"{read[kind] / read['floor']:.2f}" for kind in ("first", "next")),
        ]
        for read in document["reads"]
    ]
    head = ["table", "columns", "floor, µs", "first read", "next read", "first / floor", "next / floor"]
    parts = [
        "# Small reads and their floor",
        f"Written by `python -m benchmarks.floor` on {document['environment']['date']}; do not edit. The floor of a "
        "read is the same ranges by `pread` and the same frames by zstd, that of the schema block among them. "
        "Each read is `smalti.read_table`, which opens the file. The first read of a schema in a process has to check "
        "the schema block and to find the columns in it; the next ones, of this file or of others with the same "
        "schema, do not. Files are in memory, and the best of many reads counts.",
        warning(document["environment"]),
        markdown(head, lines),
        f"A file that stays open, {SINGLES:,} random columns one by one, without a cache of buckets: "
        + ", ".join(f"{single['seconds'] * 1e6:.0f} µs each ({single['table']})" for single in document["singles"])
        + f". A process that imports pyarrow takes {document['imports']['pyarrow'] * 1e3:.0f} ms, one that imports "
        f"smalti and reads a column {document['imports']['smalti'] * 1e3:.0f} ms.",
        "## Goals",
        markdown(["goal", "measured", ""], goals(document)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
