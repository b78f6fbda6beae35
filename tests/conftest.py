"""Settings shared by all tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Machines differ: no deadline per example, and examples are the same in every run, so that a failure is found again.
settings.register_profile(
    "smalti", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("smalti")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers, one of them gets all tests that need the Spark session.

    `xdist_group` marks would say the same, but xdist 3.8 writes groups where pytest 9.2 no longer looks for them.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSparkWorker(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return OneSparkWorker(config, log)
