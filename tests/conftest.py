"""Settings shared by all tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.long import LONG

# "fixed" tries the same examples in every run, so that a failure is found again, and more of them in the long form.
# "explore" (`make fuzz`) tries ten times as many as that, and others each time; it remembers examples that failed in
# .hypothesis. Machines differ, so there is no deadline for an example.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("fixed", COMMON, derandomize=True, database=None, max_examples=100 if LONG else 35)
settings.register_profile("explore", COMMON, derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("fixed")

# For every Java that a test starts: what the optimizing compiler costs is never earned back in a few seconds, and
# verifying Spark's bytecode is a seventh of what a session costs until it answers.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xverify:none")


#: The tests of a file stay together on one worker, because they share what takes long to make. These go further: two
#: groups of files share a session of Spark each, so that all tests together start and warm up two sessions.
GROUPS = {
    "spark, as used every day": r"tests/spark/test_(day|tpch)\.py",
    "spark": r"tests/(spark/test_(?!kill|servers)|jobs/test_(docs|spark_engine))",
}
#: What takes longest comes first, so that no worker is left alone with it at the end.
FIRST = [
    *GROUPS.values(),
    r"tests/paimon/test_spark",
    r"tests/spark/",
    r"tests/table/test_races",
    r"tests/(mosaic/test_wide|docs/test_blocks|test_package|faults/|table/|io/test_stores|report/test_browser)",
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a commit pending in a test knows that its process is gone."""
    monkeypatch.setattr("smalti.table.log.PATIENCE", 0.0)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for each worker, as `smalti.spark.session` makes it; tasks may fail three times."""
    session_of = pytest.importorskip("smalti.spark").session
    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.ui.retainedExecutions": "100000",  # Tests look at the plans that have run by their number.
    }
    session = session_of("local[2,4]", driver_memory="2g", sql_shuffle_partitions=2, **settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((rank for rank, pattern in enumerate(FIRST) if re.match(pattern, item.nodeid)), len(FIRST))

    items.sort(key=rank)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadgroup``: files stay together, groups of files too, in the order in which they were collected.

    `xdist_group` marks would say the same, but xdist 3.8 writes groups where pytest 9.2 no longer looks for them.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # It would put files with many tests first, which are not the slow ones.

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            alone = nodeid if test.startswith("test_page[") else file  # Pages of the documentation share nothing.
            return next((name for name, files in GROUPS.items() if re.match(files, nodeid)), alone)

    return Scheduling(config, log)
