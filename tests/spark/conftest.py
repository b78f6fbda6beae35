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
def stock(spark: Any) -> Any:
    """A session of the same application without column pruning."""
    return spark.newSession()


@pytest.fixture(params=["enabled", "stock"])
def either(request: pytest.FixtureRequest, spark: Any, stock: Any) -> Any:
    return spark if request.param == "enabled" else stock


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
