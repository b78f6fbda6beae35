"""TPC-H on a small scale: queries give the rows that they give with Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.spark import tpch

from tests.support.long import long_only

SCALE = 0.01


@pytest.fixture(scope="module")
def sessions(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if tpch.generator() is None:
        pytest.skip("tpchgen-cli is not installed")
    root: Path = tmp_path_factory.mktemp("tpch")
    tpch.write_tables(spark, root, SCALE)
    return {format_: tpch.session_of(spark, root, format_) for format_ in tpch.FORMATS}


def test_there_are_22_queries() -> None:
    assert list(tpch.queries()) == [f"Q{number}" for number in range(1, 23)]


@long_only  # test_reuse.py has joins, subqueries and grouping sets over small tables.
@pytest.mark.parametrize("name", tpch.queries())
def test_rows_are_those_of_parquet(sessions: dict[str, Any], name: str) -> None:
    query = tpch.queries()[name]
    rows = {format_: tpch.ask(session, query)[1] for format_, session in sessions.items()}
    assert rows["mosaic"] == rows["parquet"]
