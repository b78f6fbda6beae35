"""Settings shared by all tests."""

from __future__ import annotations

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


#: Tests of Spark that start processes of their own, or none.
OWN_PROCESSES = tuple(f"tests/spark/test_{name}.py" for name in ("costs", "kill", "plan", "servers"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers, one of them gets all tests that need the Spark session.

    `xdist_group` marks would say the same, but xdist 3.8 writes groups where pytest 9.2 no longer looks for them.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSparkWorker(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            needs_session = nodeid.startswith("tests/spark/") and not nodeid.startswith(OWN_PROCESSES)
            return "spark" if needs_session else nodeid

    return OneSparkWorker(config, log)
