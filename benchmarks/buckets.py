"""How many buckets? ``python -m benchmarks.buckets``: the count against file size, and the cost of reading one column.

Few buckets compress well and read much for one column; many do the opposite. The sweep shows the trade on the
announcement's table, for the documentation; it compares a peer with itself only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.__main__ import DOCS, say
from benchmarks.datasets import CACHE, DATASETS, Dataset, scattered
from benchmarks.environment import describe
from benchmarks.measure import Turn, take_turns
from benchmarks.peers import MOSAIC, Peer

COUNTS = (10, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Point:
    """One count of buckets and what it costs."""

    buckets: int
    file_bytes: int
    write_seconds: float
    read_seconds: float
    bytes_read: int
    requests: int


def sweep(name: str, dataset: Dataset, counts: tuple[int, ...], rounds: int, scratch: Path) -> list[Point]:
    """Write the table with each count, then let the files take turns at giving one column."""
    table = dataset.load()
    column = scattered(table.column_names, 1)
    peers: dict[int, Peer] = {count: MOSAIC[name](num_buckets=count) for count in counts}
    paths = {count: scratch / f"{count}.mosaic" for count in counts}
    writes = {str(n): Turn(run=lambda n=n: peers[n].write(table, paths[n])) for n in counts}
    reads = {str(n): Turn(run=lambda n=n: peers[n].read(paths[n], column)) for n in counts}
    written, failed = take_turns(writes, min(rounds, 3), budget=10.0)
    read, failed_reads = take_turns(reads, rounds, budget=10.0)
    if failed or failed_reads:
        raise RuntimeError(f"{name}: {failed | failed_reads}")
    points = []
    for count in counts:
        traffic = peers[count].traffic(paths[count], column)
        points.append(
            Point(
                buckets=count,
                file_bytes=paths[count].stat().st_size,
                write_seconds=min(written[str(count)]),
                read_seconds=min(read[str(count)]),
                bytes_read=traffic.bytes_read,
                requests=traffic.requests,
            )
        )
    return points


def page(document: dict[str, Any]) -> str:
    """The sweep as Markdown."""
    peer = next(iter(document["environment"]["peers"].values()))
    rows = [
        [
            f"{point['buckets']:,}",
            report.size(point["file_bytes"]),
            report.seconds(point["write_seconds"]),
            report.seconds(point["read_seconds"]),
            report.size(point["bytes_read"]),
            f"{point['requests']:,}",
        ]
        for point in document["points"]
    ]
    header = ["buckets", "file size", "write", "read 1 column", "bytes read", "requests"]
    return (
        "# Benchmark: number of buckets\n\n"
        f"Written by `{document['command']}`; do not edit. {peer['label']} {peer['version']}, zstd 9, "
        f"{document['columns']:,} columns x {document['rows']:,} rows, best of {document['rounds']}.\n\n"
        f"{report.markdown(header, rows)}\n"
    )


def main(arguments: list[str] | None = None) -> None:
    """Sweep, write JSON and a page, print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.buckets", description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=MOSAIC, default="smalti")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--smoke", action="store_true", help="a tiny table, for the tests")
    parser.add_argument("--out", type=Path, default=DOCS)
    args = parser.parse_args(arguments)

    dataset, counts = DATASETS["wide-500"], COUNTS
    if args.smoke:
        dataset, counts = replace(dataset, columns=24, rows=40), (2, 8)
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        points = sweep(args.peer, dataset, counts, args.rounds, Path(scratch))
    document = {
        "command": " ".join(["python -m benchmarks.buckets", *(sys.argv[1:] if arguments is None else arguments)]),
        "environment": describe([MOSAIC[args.peer]()]),
        "rounds": args.rounds,
        "columns": dataset.columns,
        "rows": dataset.rows,
        "points": [vars(point) for point in points],
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "buckets.json").write_text(json.dumps(document, indent=1) + "\n")
    (args.out / "buckets.md").write_text(page(document))
    print(page(document))
    say(f"written to {args.out}")


if __name__ == "__main__":
    main()
