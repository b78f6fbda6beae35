"""The plain source beside the provider, and what tasks have read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def plain(spark: Any) -> str:
    """The name of a format that is the Python source alone, as Spark runs it where the provider is missing."""
    from smalti.spark.source import MosaicDataSource

    class PlainDataSource(MosaicDataSource):
        @classmethod
        def name(cls) -> str:
            return "mosaic_plain"

    spark.dataSource.register(PlainDataSource)
    return PlainDataSource.name()


@pytest.fixture(params=["provider", "plain"])
def either(request: pytest.FixtureRequest, plain: str) -> str:
    """The name of the format, with the provider and without."""
    return "mosaic" if request.param == "provider" else plain


@pytest.fixture
def touched(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """What tasks have read since the last call, as they reported it to the option metricsPath (`tmp_path / "m"`)."""

    def collect() -> list[dict[str, Any]]:
        reports = []
        for path in sorted((tmp_path / "m").glob("*.json")):
            reports.append(json.loads(path.read_text()))
            path.unlink()
        return reports

    return collect
