"""One Spark session for all tests that need one; `tests/conftest.py` keeps them on one worker of pytest-xdist."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import smalti.spark


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session as `smalti.spark.session` makes it; tasks may fail three times."""
    session = smalti.spark.session("local[2,4]", driver_memory="2g")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


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
