"""The cases of a Spark user's day, each with Parquet and with Mosaic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.day import CASES, DIFFERENCES, FORMATS, PAGE, Case, Day, page
from tests.support.long import LONG

#: Queries like these are in test_reuse.py, test_filters.py and test_pruning.py, too: the short form leaves them out.
SELDOM = {
    *("query_aggregates", "query_broadcast", "query_cached", "query_dynamic_pruning", "query_filters"),
    *("query_no_broadcast", "query_subqueries", "query_two_filters"),
}


@pytest.mark.parametrize(
    "case", [case for case in CASES if LONG or case.name not in SELDOM], ids=lambda case: case.name
)
def test_both_formats_behave_the_same(spark: Any, tmp_path: Path, case: Case) -> None:
    found = {}
    for format_ in FORMATS:
        directory = tmp_path / case.name / format_
        directory.mkdir(parents=True)
        found[format_] = Day(spark, format_, directory).outcome(case.run)
    parquet, mosaic = map(repr, found.values())
    assert (parquet != mosaic) == (case.name in DIFFERENCES), f"\nParquet: {parquet}\nMosaic:  {mosaic}"


def test_the_lists_name_cases() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert set(DIFFERENCES) | SELDOM <= set(names)


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.spark.day"
