"""Where Python workers import pyspark from."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path
from typing import Any

import pytest

from smalti.spark.setup.home import has_installed_pyspark, installed_pyspark, linked_home

PACKAGES = Path(site.getsitepackages()[0])


def test_workers_import_no_zip(spark: Any) -> None:
    """The session of the tests is one of `smalti.spark.session`, whose workers import compiled modules."""

    def look(_: object) -> str:
        import pyspark

        return str(pyspark.__file__)

    import pyspark

    assert spark.sparkContext.parallelize([0], 1).map(look).collect() == [pyspark.__file__]


def test_a_home_of_links_has_all_but_python(tmp_path: Path) -> None:
    home = tmp_path / "pyspark"
    for name in ("bin", "jars", "python"):
        (home / name).mkdir(parents=True)
    links = linked_home(home, tmp_path / "cache")
    assert linked_home(home, tmp_path / "cache") == links
    assert {link.name: link.resolve() for link in links.iterdir()} == {"bin": home / "bin", "jars": home / "jars"}


@pytest.mark.parametrize(
    ("environment", "home", "expected"),
    [
        ({}, PACKAGES / "pyspark", True),
        ({"PYSPARK_PYTHON": sys.executable}, PACKAGES / "pyspark", True),
        ({"PYSPARK_PYTHON": "/other/python"}, PACKAGES / "pyspark", False),
        ({}, Path("/elsewhere/pyspark"), False),
        ({"PYTHONPATH": "/a:/elsewhere"}, Path("/elsewhere/pyspark"), True),
    ],
)
def test_only_where_workers_find_pyspark(environment: dict[str, str], home: Path, expected: bool) -> None:
    assert has_installed_pyspark(environment, home) is expected


def test_a_home_that_was_chosen_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/chosen")
    with installed_pyspark(tmp_path):
        assert os.environ["SPARK_HOME"] == "/chosen"
    assert os.environ["SPARK_HOME"] == "/chosen"
    assert not list(tmp_path.iterdir())
