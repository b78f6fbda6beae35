"""The Spark session of these tests: the same one the other Spark tests use, on the same worker of pytest-xdist."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Any:
    """A session whose tasks may fail three times; it ends with the process."""
    import smalti.spark

    session = smalti.spark.session("local[2,4]", driver_memory="2g")
    session.sparkContext.setLogLevel("OFF")
    return session
