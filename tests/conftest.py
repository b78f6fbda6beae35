"""Settings shared by all tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# "fixed" tries the same examples in every run, so that a failure is found again. "explore" (`make fuzz`) tries ten
# times as many, and others each time; it remembers examples that failed in .hypothesis. Machines differ, so there is no
# deadline for an example.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("fixed", COMMON, derandomize=True, database=None)
settings.register_profile("explore", COMMON, derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("fixed")


#: Files whose tests stay together on one worker, because they share something that takes long to make.
TOGETHER = re.compile(r"tests/(test_package|paimon/test_spark|spark/test_(pruning|secrets|servers|storage|tpch))\.py")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a commit pending in a test knows that its process is gone."""
    monkeypatch.setattr("smalti.table.log.PATIENCE", 0.0)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for each worker, as `smalti.spark.session` makes it; tasks may fail three times."""
    session_of = pytest.importorskip("smalti.spark").session
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = session_of("local[2,4]", driver_memory="2g", **warehouse)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: "tests/spark/" not in item.nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Every test goes to the worker that is free, except those that stay together.

    `xdist_group` marks would say the same, but xdist 3.8 writes groups where pytest 9.2 no longer looks for them.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            together = TOGETHER.match(nodeid)
            return together[0] if together else nodeid

    return Scheduling(config, log)
