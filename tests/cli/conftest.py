"""A small file every command can be tried on, and a way to run commands in this process."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def call(*arguments: Any) -> Done:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse: usage, help, version
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


def mixed_table(rows: int = 100) -> pa.Table:
    """Every kind of value a condition or a table can meet, nulls in most columns."""
    zone = dt.UTC

    def some(value: Callable[[int], Any]) -> list[Any]:
        return [None if i % 10 == 9 else value(i) for i in range(rows)]

    start = dt.datetime(2026, 1, 1)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "small": pa.array(some(lambda i: i % 7), pa.int8()),
            "price": pa.array(some(lambda i: decimal.Decimal(i) / 4), pa.decimal128(9, 2)),
            "ratio": pa.array(some(lambda i: float("nan") if i == 5 else i / 10), pa.float64()),
            "single": pa.array(some(lambda i: i / 10), pa.float32()),
            "name": pa.array(some(lambda i: f"n{i % 5}"), pa.string()),
            "flag": pa.array(some(lambda i: i % 3 == 0), pa.bool_()),
            "day": pa.array(some(lambda i: start.date() + dt.timedelta(days=i)), pa.date32()),
            "at": pa.array(some(lambda i: start + dt.timedelta(hours=i)), pa.timestamp("us")),
            "utc": pa.array(
                some(lambda i: (start + dt.timedelta(hours=i)).replace(tzinfo=zone)), pa.timestamp("ms", "UTC")
            ),
            "clock": pa.array(some(lambda i: dt.time(i % 24, 30)), pa.time32("ms")),
            "odd name, really*": pa.array(some(lambda i: i), pa.int64()),
            "tags": pa.array(some(lambda i: [i, None] if i % 2 else []), pa.list_(pa.int16())),
            "pairs": pa.array(some(lambda i: [("k", i)]), pa.map_(pa.string(), pa.int32())),
            "raw": pa.array(some(lambda i: bytes([i % 256, 0])), pa.binary()),
        }
    )


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "mixed.mosaic"
    smalti.write_table(mixed_table(), path, stats_columns="all", num_buckets=4, row_group_max_rows=30)
    return path


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 columns."""
    path = tmp_path_factory.mktemp("cli") / "wide.mosaic"
    columns = {f"sensor_{i:05d}": pa.array([i, None, i + 2], pa.int32()) for i in range(9_999)}
    smalti.write_table(pa.table({"id": pa.array([1, 2, 3]), **columns}), path, stats_columns=["id", "sensor_00007"])
    return path
