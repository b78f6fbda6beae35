"""Tables and directories the job tests work on."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import smalti
from smalti.table.names import JOBS


def mixed(rows: int, start: int = 0) -> pa.Table:
    """Numbers, text, times and gaps; `id` counts on from `start`."""
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "reading": pa.array([None if i % 5 == 0 else i * 0.25 for i in numbers], pa.float64()),
            "city": pa.array([None if i % 7 == 0 else ("", "Ulm", "São Paulo", 'a "b", c')[i % 4] for i in numbers]),
            "day": pa.array([datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 40) for i in numbers]),
            "at": pa.array([datetime.datetime(2024, 1, 1, 0, 0, i % 60) for i in numbers], pa.timestamp("ns")),
            "flag": pa.array([i % 3 == 0 for i in numbers]),
        }
    )


def nested(rows: int) -> pa.Table:
    """What text formats cannot hold."""
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "price": pa.array([decimal.Decimal(i) / 4 for i in range(rows)], pa.decimal128(20, 2)),
            "tags": pa.array([[str(i), None] if i % 2 else None for i in range(rows)], pa.list_(pa.string())),
            "weights": pa.array([[("a", i)] for i in range(rows)], pa.map_(pa.string(), pa.int32())),
            "raw": pa.array([bytes([i % 256]) for i in range(rows)], pa.binary()),
        }
    )


def partitioned(root: Path, partitions: int = 2, files: int = 3, rows: int = 50) -> pa.Table:
    """Parquet files below `day=...` directories; returns all rows, in the order of their paths."""
    tables = []
    for partition in range(partitions):
        directory = root / f"day={partition}"
        directory.mkdir(parents=True)
        for number in range(files):
            table = mixed(rows, (partition * files + number) * rows)
            pq.write_table(table, directory / f"f{number}.parquet")
            tables.append(table)
    (root / "_SUCCESS").touch()
    return pa.concat_tables(tables)


def mosaic_files(root: Path, tables: list[pa.Table], **options: Any) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        smalti.write_table(table, root / f"f{number}.mosaic", **options)


def stems(paths: Iterable[str]) -> list[str]:
    """Names of files in tables as they were wanted, without what makes them unique."""
    return [re.sub(r"-0[0-9a-f]{15}-[0-9]{5}(?=\.mosaic$)", "", path) for path in paths]


def visible(root: Path) -> list[str]:
    """Files a reader would see, relative to `root`."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if not any(part.startswith((".", "_")) for part in path.parts))


def hidden(root: Path) -> list[str]:
    """Leftovers: hidden files, and what jobs staged. The numbered records of commits are none."""
    staged = [path.name for jobs in root.rglob(JOBS) for path in jobs.iterdir() if not path.name.startswith("commit-")]
    return sorted(path.name for path in root.rglob(".*")) + sorted(staged)


def rows_of(root: Path) -> pa.Table:
    """All rows of a directory of Mosaic files, without partition columns, in the order of the paths."""
    return pa.concat_tables([smalti.read_table(root / name) for name in visible(root)])
