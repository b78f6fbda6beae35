"""Reading from an object store: ``python -m benchmarks.remote`` measures, and writes remote.json and remote.md.

The store is a real S3 server on loopback (`tests.support.s3`) that takes 20 ms longer for every request, as a
network would. What counts is what it counts: requests, rounds (`s3.rounds`) and bytes. They are the same on
every machine; seconds are not, and the server takes some of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import s3fs
from tests.support.s3 import S3Server, rounds

import smalti
from benchmarks.datasets import DATASETS, Dataset, scattered
from benchmarks.environment import describe
from benchmarks.report import markdown, publish, size

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
BUCKET = "bench"
OURS = "smalti"


@dataclass(frozen=True)
class Shape:
    """What is read: a table as one file with one row group, with several, and as a directory of files."""

    table: Dataset
    part: Dataset
    row_groups: int = 20
    files: int = 50
    latency: float = 0.02
    #: Requests are counted while each takes this long. With less, the server would have answered the first of many
    #: requests before it gets to the last one, which was sent in the same moment, and take them for several rounds.
    counting_latency: float = 0.25
    repeats: int = 3


FULL = Shape(DATASETS["wide-500"], DATASETS["wide-10"])
SMOKE = Shape(
    replace(DATASETS["wide-500"], columns=300, rows=60),
    replace(DATASETS["wide-10"], columns=60),
    row_groups=3,
    files=4,
    latency=0.01,
    counting_latency=0.05,
    repeats=1,
)


@dataclass(frozen=True)
class Cost:
    """What one read cost: the best of its seconds, and what the server counted."""

    work: str
    peer: str
    seconds: float
    requests: int
    rounds: int
    bytes: int
    needed: int | None = None

    def excess(self) -> float | None:
        """Bytes fetched for each byte needed, the end of the file left out, whose size is not known before."""
        return None if self.needed is None else self.bytes / self.needed


@dataclass(frozen=True)
class Goal:
    """A figure of ours, and the most it may be."""

    title: str
    work: str
    figure: str
    most: float


GOALS = (
    Goal("opening is one request", "open", "requests", 1),
    Goal("reading 3 columns of one row group takes two rounds at most", "3 columns", "rounds", 2),
    Goal("reading 100 columns of one row group takes two rounds at most", "100 columns", "rounds", 2),
    Goal("reading all columns of one row group takes two rounds at most", "all columns", "rounds", 2),
    Goal("3 columns: at most 1.05 of the bytes needed", "3 columns", "excess", 1.05),
    Goal("100 columns: at most 1.05 of the bytes needed", "100 columns", "excess", 1.05),
    Goal("all columns: at most 1.05 of the bytes needed", "all columns", "excess", 1.05),
    Goal("opening and reading 3 columns of 20 row groups takes four rounds at most", "row groups", "rounds", 4),
    Goal("3 columns of 50 files take twelve rounds at most", "files", "rounds", 12),
)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description="Measure reads from S3.")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, seconds")
    parser.add_argument("--latency", type=float, help="seconds that every request takes in addition")
    parser.add_argument("--out", type=Path, default=DOCS)
    args = parser.parse_args(arguments)
    shape = SMOKE if args.smoke else FULL
    if args.latency is not None:
        shape = replace(shape, latency=args.latency)
    with S3Server([BUCKET]) as server, _environment(server):
        costs = measure(server, shape)
    document = {
        "environment": describe([]),
        "latency": shape.latency,
        "counting_latency": shape.counting_latency,
        "table": [shape.table.columns, shape.table.rows],
        "part": [shape.part.columns, shape.part.rows],
        "row_groups": shape.row_groups,
        "files": shape.files,
        "costs": [{**asdict(cost), "excess": cost.excess()} for cost in costs],
        "goals": [] if args.smoke else [{**asdict(goal), **outcome(goal, costs)} for goal in GOALS],
    }
    publish(args.out, "remote", document, page(document))
    return 0


@contextmanager
def _environment(server: S3Server) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(server.environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# --- measuring ------------------------------------------------------------------------------------------------------


def measure(server: S3Server, shape: Shape) -> list[Cost]:
    arrow = pafs.S3FileSystem(endpoint_override=server.address, scheme="http", region="us-east-1")
    fsspec = s3fs.S3FileSystem(endpoint_url=f"http://{server.address}")
    table, part = shape.table.build(), shape.part.build()
    one, many, some = f"{BUCKET}/one.mosaic", f"{BUCKET}/groups.mosaic", scattered(table.column_names, 3)
    groups = -(-table.num_rows // shape.row_groups)
    smalti.write_table(table, f"s3://{one}")
    smalti.write_table(table, f"s3://{many}", row_group_max_rows=groups)
    pq.write_table(table, f"{BUCKET}/one.parquet", filesystem=arrow, compression="zstd")
    pq.write_table(table, f"{BUCKET}/groups.parquet", filesystem=arrow, compression="zstd", row_group_size=groups)
    for number in range(shape.files):
        smalti.write_table(part, f"s3://{BUCKET}/files/{number:03d}.mosaic")
        pq.write_table(part, f"{BUCKET}/parquet/{number:03d}.parquet", filesystem=arrow, compression="zstd")

    costs = [_cost(server, shape, "open", OURS, lambda: smalti.open(f"s3://{one}", cache_bytes=0).close())]
    projections = {"3 columns": some, "100 columns": scattered(table.column_names, 100), "all columns": None}
    for work, columns in projections.items():
        server.reset()
        with smalti.open(f"s3://{one}", cache_bytes=0) as file:
            needed = bytes_needed(file, columns)
            costs.append(_cost(server, shape, work, OURS, lambda: file.read(columns), needed))  # noqa: B023
    ways: dict[str, Callable[[], Any]] = {
        OURS: lambda: smalti.read_table(f"s3://{one}", some),
        "smalti through pyarrow.fs": lambda: smalti.read_table(one, some, filesystem=arrow),
        "smalti through s3fs": lambda: smalti.read_table(one, some, filesystem=fsspec),
        "Parquet through pyarrow.fs": lambda: pq.read_table(f"{BUCKET}/one.parquet", columns=some, filesystem=arrow),
    }
    costs += [_cost(server, shape, "open and read", peer, read) for peer, read in ways.items()]
    costs += [
        _cost(server, shape, "row groups", OURS, lambda: smalti.read_table(f"s3://{many}", some)),
        _cost(
            server,
            shape,
            "row groups",
            "Parquet through pyarrow.fs",
            lambda: pq.read_table(f"{BUCKET}/groups.parquet", columns=some, filesystem=arrow),
        ),
    ]
    few = scattered(part.column_names, 3)
    costs += [
        _cost(server, shape, "files", OURS, lambda: smalti.dataset(f"s3://{BUCKET}/files").to_table(columns=few)),
        _cost(
            server,
            shape,
            "files",
            "Parquet through pyarrow.dataset",
            lambda: pads.dataset(f"{BUCKET}/parquet", filesystem=arrow).to_table(columns=few),
        ),
    ]
    return costs


def _cost(
    server: S3Server, shape: Shape, work: str, peer: str, act: Callable[[], Any], needed: int | None = None
) -> Cost:
    """Act once to open connections, several times for the best time, and once for what the server counts."""
    server.reset()
    act()
    seconds = []
    for _ in range(shape.repeats):
        server.reset(latency=shape.latency)
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    server.reset(latency=shape.counting_latency)
    act()
    requests = server.requests()
    sent = sum(request.sent for request in requests)
    return Cost(work, peer, min(seconds), len(requests), rounds(requests), sent, needed)


def bytes_needed(file: smalti.MosaicFile, columns: list[str] | None) -> int:
    """Bytes of the buckets that hold some columns; of paged ones, their directories and the slots of the columns."""
    wanted, total = None if columns is None else set(columns), 0
    for group in file.layout().row_groups:
        for bucket in group.buckets:
            sizes = [column.stored_size or 0 for column in bucket.columns if wanted is None or column.name in wanted]
            if bucket.mode != "paged" or len(sizes) == len(bucket.columns):
                total += bucket.size if sizes else 0
            elif sizes:
                total += bucket.size - sum(column.stored_size or 0 for column in bucket.columns) + sum(sizes)
    return total


# --- showing --------------------------------------------------------------------------------------------------------


def outcome(goal: Goal, costs: list[Cost]) -> dict[str, Any]:
    cost = next(cost for cost in costs if (cost.work, cost.peer) == (goal.work, OURS))
    found = cost.excess() if goal.figure == "excess" else getattr(cost, goal.figure)
    return {"measured": found, "reached": found is not None and found <= goal.most}


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    columns, rows = document["table"]
    part_columns, part_rows = document["part"]
    works = {
        "open": f"open a file of {columns:,} columns x {rows:,} rows, one row group",
        "3 columns": "read 3 columns of it, once it is open",
        "100 columns": "read 100 columns of it",
        "all columns": "read all columns of it",
        "open and read": "open it and read 3 columns",
        "row groups": f"the same with {document['row_groups']} row groups",
        "files": f"read 3 columns of {document['files']} files of {part_columns:,} columns x {part_rows:,} rows",
    }
    lines = [
        [
            works[cost["work"]],
            cost["peer"],
            f"{cost['requests']}",
            f"{cost['rounds']}",
            size(cost["bytes"]),
            "" if cost["excess"] is None else f"{cost['excess']:.2f}",
            f"{cost['seconds']:.3f}",
        ]
        for cost in document["costs"]
    ]
    goals = [
        [goal["title"], f"{goal['measured']:.4g}", "reached" if goal["reached"] else "**missed**"]
        for goal in document["goals"]
    ]
    parts = [
        "# Reading from an object store",
        f"Written by `python -m benchmarks.remote` on {document['environment']['date']}; do not edit. "
        f"A real S3 server on loopback takes {document['latency'] * 1000:.0f} ms longer for every request; while it "
        f"counts, {document['counting_latency'] * 1000:.0f} ms, so that what is asked at once is seen at once. "
        "Rounds are the length of the longest chain of requests each of which began after the one before was answered. "
        "Bytes are those that the server sent; those needed are the buckets or slots of the columns.",
        markdown(["work", "by", "requests", "rounds", "bytes", "bytes / needed", "s"], lines),
    ]
    if goals:
        parts += ["## Goals", markdown(["goal", "measured", ""], goals)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
