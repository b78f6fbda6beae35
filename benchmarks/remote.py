"""Reading from an object store: ``python -m benchmarks.remote`` measures, and writes remote.json and remote.md.

The store is a real S3 server on loopback (`tests.support.s3`) that takes 20 ms or 100 ms longer for every request, as a
network would. What counts is what it counts: requests, rounds (`s3.rounds`) and bytes. Seconds are not the same on
every machine, and the server takes some of them: about 3 ms of a core for each request.

A file of many small row groups (apache/paimon 9740) is read through a `Link`, which takes 50 ms for every request and
has 100 MB/s for all of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import s3fs
from tests.support.s3 import Request, S3Server, rounds

import smalti
from benchmarks.counting import Link
from benchmarks.datasets import CACHE, DATASETS, SEED, Dataset, column_names, recipe, scattered
from benchmarks.environment import describe
from benchmarks.report import markdown, publish, size, warning
from smalti.io import stores
from smalti.io.connection import Connection

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
BUCKET = "bench"
OURS, PARQUET = "smalti", "Parquet through pyarrow.fs"


MANY = replace(DATASETS["wide-500"], columns=11_374, rows=400)


@dataclass(frozen=True)
class Shape:
    """What is read: a table as one file with one row group, with several, and as a directory of files."""

    table: Dataset
    part: Dataset
    row_groups: int = 20
    files: int = 50
    latencies: tuple[float, ...] = (0.02, 0.1)
    #: Requests are counted while each takes this long. With less, the server would have answered the first of many
    #: requests before it gets to the last one, which was sent in the same moment, and take them for several rounds.
    counting_latency: float = 0.25
    repeats: int = 3
    #: The file of many small row groups, their number, and the numbers of columns that are read of it.
    many: Dataset = MANY
    many_groups: int = 120
    many_columns: tuple[int, ...] = (1, 10, 20, 100)


#: Of the link to the file of many small row groups.
LINK_LATENCY, LINK_BANDWIDTH = 0.05, 100e6
#: How its columns are stored: as smalti chooses, and as blocks of some columns, as other writers do.
LAYOUTS: dict[str, dict[str, Any]] = {"paged": {}, "blocks": {"num_buckets": 400, "page_size_threshold": 1 << 30}}


FULL = Shape(DATASETS["wide-500"], DATASETS["wide-10"])
SMOKE = Shape(
    replace(DATASETS["wide-500"], columns=300, rows=60),
    replace(DATASETS["wide-10"], columns=60),
    row_groups=3,
    files=4,
    latencies=(0.01,),
    counting_latency=0.05,
    repeats=1,
    many=replace(MANY, columns=300, rows=40),
    many_groups=5,
)


@dataclass(frozen=True)
class Cost:
    """What one read cost: the best of its seconds, and what the server counted."""

    work: str
    peer: str
    latency: float
    seconds: float
    requests: int
    rounds: int
    bytes: int
    needed: int | None = None

    def excess(self) -> float | None:
        """Bytes fetched for each byte needed, the end of the file left out, whose size is not known before."""
        return None if self.needed is None else self.bytes / self.needed

    def floor(self) -> float:
        """Seconds over those that the bytes and three rounds take on the link."""
        return self.seconds / (self.bytes / LINK_BANDWIDTH + 3 * LINK_LATENCY)


@dataclass(frozen=True)
class Goal:
    """A figure of ours, and the most it may be, at every latency that was measured."""

    title: str
    work: str
    figure: str
    most: float


GOALS = (
    Goal("opening is one request", "open", "requests", 1),
    *(
        Goal(f"reading {work} of an open file takes one round", work, "rounds", 1)
        for work in ("3 columns", "100 columns", "all columns")
    ),
    Goal("reading 3 columns from cold takes two rounds", "open and read", "rounds", 2),
    Goal("3 columns: at most 2 of the bytes needed", "3 columns", "excess", 2),
    Goal("all columns: at most 1.05 of the bytes needed", "all columns", "excess", 1.05),
    Goal("100 columns: at most 40 requests", "100 columns", "requests", 40),
    Goal("100 columns: at most 0.15 s", "100 columns", "seconds", 0.15),
    Goal("3 columns take no longer than all", "3 columns", "of all", 1),
    Goal("100 columns take no longer than all", "100 columns", "of all", 1),
    Goal("1,000 columns take no longer than all", "1000 columns", "of all", 1),
    Goal("opening and reading 3 columns of 20 row groups takes three rounds at most", "row groups", "rounds", 3),
    Goal("3 columns of 50 files take eight rounds at most", "files", "rounds", 8),
    Goal("3 columns of 50 files take 105 requests at most", "files", "requests", 105),
    *(
        goal
        for layout in LAYOUTS
        for goal in (
            *(
                Goal(
                    f"120 row groups, {layout}, {count} columns: at most 1.5 of bytes over bandwidth and 3 rounds",
                    f"{layout}: {count}",
                    "floor",
                    1.5,
                )
                for count in FULL.many_columns
            ),
            Goal(f"120 row groups, {layout}, 20 columns: at most 0.8 s", f"{layout}: 20", "seconds", 0.8),
            Goal(f"120 row groups, {layout}, 100 columns: at most 2.5 s", f"{layout}: 100", "seconds", 2.5),
        )
    ),
    *(
        Goal(f"120 row groups, blocks, {count} columns: at most 2 of the bytes needed", f"blocks: {count}", "excess", 2)
        for count in FULL.many_columns
    ),
)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write results, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description="Measure reads from S3.")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, seconds")
    parser.add_argument("--latency", type=float, help="seconds that every request takes in addition, in place of both")
    parser.add_argument("--out", type=Path, default=DOCS)
    args = parser.parse_args(arguments)
    shape = SMOKE if args.smoke else FULL
    if args.latency is not None:
        shape = replace(shape, latencies=(args.latency,))
    with S3Server([BUCKET]) as server, _environment(server):
        costs = measure(server, shape)
    costs += measure_link(shape)
    document = {
        "environment": describe([]),
        "latencies": shape.latencies,
        "counting_latency": shape.counting_latency,
        "table": [shape.table.columns, shape.table.rows],
        "part": [shape.part.columns, shape.part.rows],
        "row_groups": shape.row_groups,
        "files": shape.files,
        "many": [shape.many.columns, shape.many.rows, shape.many_groups],
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
    arrow = pafs.S3FileSystem(
        endpoint_override=server.address, scheme="http", region="us-east-1", request_timeout=60, connect_timeout=60
    )
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

    few = scattered(part.column_names, 3)
    ways: list[tuple[str, str, Callable[[], Any]]] = [
        ("open", OURS, lambda: smalti.open(f"s3://{one}", cache_bytes=0).close()),
        ("open and read", OURS, lambda: smalti.read_table(f"s3://{one}", some)),
        ("open and read", "smalti through pyarrow.fs", lambda: smalti.read_table(one, some, filesystem=arrow)),
        ("open and read", "smalti through s3fs", lambda: smalti.read_table(one, some, filesystem=fsspec)),
        ("open and read", PARQUET, lambda: pq.read_table(f"{BUCKET}/one.parquet", columns=some, filesystem=arrow)),
        ("row groups", OURS, lambda: smalti.read_table(f"s3://{many}", some)),
        ("row groups", PARQUET, lambda: pq.read_table(f"{BUCKET}/groups.parquet", columns=some, filesystem=arrow)),
        ("files", OURS, lambda: smalti.dataset(f"s3://{BUCKET}/files").to_table(columns=few)),
        (
            "files",
            "Parquet through pyarrow.dataset",
            lambda: pads.dataset(f"{BUCKET}/parquet", filesystem=arrow).to_table(columns=few),
        ),
    ]
    costs = []
    for latency in shape.latencies:
        stores._connection.cache_clear()  # Networks do not change their latency; another one is measured anew.
        for count in (3, 100, 1000, None):
            columns = None if count is None else scattered(table.column_names, min(count, table.num_columns))
            server.reset()
            with smalti.open(f"s3://{one}", cache_bytes=0) as file:
                needed, read = bytes_needed(file, columns), partial(file.read, columns)
                work = f"{'all' if count is None else count} columns"
                costs.append(_cost(server, shape, latency, work, OURS, read, needed))
        costs += [_cost(server, shape, latency, *way) for way in ways]
    return costs


def _cost(
    server: S3Server,
    shape: Shape,
    latency: float,
    work: str,
    peer: str,
    act: Callable[[], Any],
    needed: int | None = None,
) -> Cost:
    """Act once to open connections, several times for the best time, and once for the rounds that the server counts."""
    server.reset(latency=latency)
    act()
    seconds = []
    for _ in range(shape.repeats):
        server.reset(latency=latency)
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    requests = server.requests()
    server.reset(latency=shape.counting_latency)
    # What reads cost stays as it was measured, while the server answers more slowly to be counted.
    with mock.patch.object(Connection, "_learn"):
        act()
    sent = sum(request.sent for request in requests)
    return Cost(work, peer, latency, min(seconds), len(requests), rounds(server.requests()), sent, needed)


def measure_link(shape: Shape) -> list[Cost]:
    """Read a file of many small row groups, from cold."""
    costs, names = [], column_names(np.random.RandomState(SEED), shape.many.columns)
    for layout in LAYOUTS:
        path = many_groups(shape, layout)
        for count in shape.many_columns:
            columns = scattered(names, count)
            with smalti.open(path) as file:
                needed = bytes_needed(file, columns, groups=1) * shape.many_groups
            costs.append(_link_cost(shape, path, f"{layout}: {count}", columns, needed))
    return costs


def many_groups(shape: Shape, layout: str) -> Path:
    """The file of many small row groups, which all have the same rows; made on first use."""
    path = CACHE / f"many-{layout}-{shape.many.columns}x{shape.many.rows}x{shape.many_groups}-{recipe()}.mosaic"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        table = shape.many.build()
        settings = smalti.WriterOptions(row_group_max_rows=table.num_rows, **LAYOUTS[layout])
        with smalti.MosaicWriter(path, table.schema, options=settings) as writer:
            for _ in range(shape.many_groups):
                writer.write(table)
    return path


def _link_cost(shape: Shape, path: Path, work: str, columns: list[str], needed: int) -> Cost:
    link = Link(path, LINK_LATENCY, LINK_BANDWIDTH)
    source = smalti.ReadAt(link.read_at, link.length, is_remote=True)
    seconds = []
    for _ in range(shape.repeats):
        link.reads.clear()
        start = time.perf_counter()
        with smalti.open(source, cache_bytes=0) as file:
            file.read(columns)
        seconds.append(time.perf_counter() - start)
    link.close()
    reads = [Request("", "", "", "", *read) for read in link.reads]
    sent = sum(request.sent for request in reads)
    return Cost(work, OURS, LINK_LATENCY, min(seconds), len(reads), rounds(reads), sent, needed)


def bytes_needed(file: smalti.MosaicFile, columns: list[str] | None, groups: int | None = None) -> int:
    """Bytes of the buckets that hold some columns; of paged ones, their directories and the slots of the columns.

    Of all row groups, or of the first `groups`.
    """
    wanted, total = None if columns is None else set(columns), 0
    buckets = None if columns is None else {file.bucket_of(column) for column in columns}
    for group in file.layout(buckets).row_groups[:groups]:
        for bucket in group.buckets:
            sizes = [column.stored_size or 0 for column in bucket.columns if wanted is None or column.name in wanted]
            if bucket.mode != "paged" or len(sizes) == len(bucket.columns):
                total += bucket.size if sizes else 0
            elif sizes:
                total += bucket.size - sum(column.stored_size or 0 for column in bucket.columns) + sum(sizes)
    return total


# --- showing --------------------------------------------------------------------------------------------------------


def outcome(goal: Goal, costs: list[Cost]) -> dict[str, Any]:
    """The worst figure over all latencies, and whether it is good enough."""
    every = {cost.latency: cost.seconds for cost in costs if cost.work == "all columns"}
    found = []
    for cost in costs:
        if (cost.work, cost.peer) == (goal.work, OURS):
            figures = {
                "excess": cost.excess(),
                "floor": cost.floor(),
                "of all": cost.seconds / every.get(cost.latency, cost.seconds),
            }
            found.append(figures.get(goal.figure) or getattr(cost, goal.figure))
    return {"measured": max(found), "reached": max(found) <= goal.most}


def page(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    columns, rows = document["table"]
    part_columns, part_rows = document["part"]
    many_columns, many_rows, many_groups = document["many"]
    works = {
        "3 columns": f"read 3 columns of an open file of {columns:,} columns x {rows:,} rows, one row group",
        "100 columns": "read 100 columns of it",
        "1000 columns": "read 1,000 columns of it",
        "all columns": "read all columns of it",
        "open": "open it",
        "open and read": "open it and read 3 columns",
        "row groups": f"the same with {document['row_groups']} row groups",
        "files": f"read 3 columns of {document['files']} files of {part_columns:,} columns x {part_rows:,} rows",
    }

    def lines(costs: list[dict[str, Any]]) -> list[list[str]]:
        return [
            [
                works.get(cost["work"], cost["work"]),
                cost["peer"],
                f"{cost['requests']:,}",
                f"{cost['rounds']}",
                size(cost["bytes"]),
                "" if cost["excess"] is None else f"{cost['excess']:.2f}",
                f"{cost['seconds']:.3f}",
            ]
            for cost in costs
        ]

    head = ["work", "by", "requests", "rounds", "bytes", "bytes / needed", "s"]
    on_link = [cost for cost in document["costs"] if cost["work"].partition(":")[0] in LAYOUTS]
    goals = [
        [goal["title"], f"{goal['measured']:.4g}", "reached" if goal["reached"] else "**missed**"]
        for goal in document["goals"]
    ]
    parts = [
        "# Reading from an object store",
        f"Written by `python -m benchmarks.remote` on {document['environment']['date']}; do not edit. "
        "A real S3 server on loopback takes longer for every request, as a network would; while rounds are counted, "
        f"{document['counting_latency'] * 1000:.0f} ms, so that what is asked at once is seen at once. "
        "Rounds are the length of the longest chain of requests each of which began after the one before was answered. "
        "Bytes are those that the server sent; those needed are the buckets or slots of the columns. The server takes "
        "about 3 ms of a core for each request, so that here few requests are worth many bytes; what a request costs "
        "is measured while the store is used.",
        warning(document["environment"]),
    ]
    for latency in document["latencies"]:
        costs = [cost for cost in document["costs"] if cost["latency"] == latency and cost not in on_link]
        parts += [f"## {latency * 1000:.0f} ms for every request", markdown(head, lines(costs))]
    parts += [
        "## Many small row groups",
        f"A file of {many_columns:,} columns in {many_groups} row groups of {many_rows} rows, as in apache/paimon "
        f"9740, opened and read through a link that takes {LINK_LATENCY * 1000:.0f} ms for every request and has "
        f"{LINK_BANDWIDTH / 1e6:.0f} MB/s for all of them: with the layout that smalti chooses, and with "
        f"{LAYOUTS['blocks']['num_buckets']} blocks of columns in each row group.",
        markdown(head, lines(on_link)),
    ]
    if goals:
        parts += ["## Goals", "The worst of all latencies.", markdown(["goal", "measured", ""], goals)]
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
