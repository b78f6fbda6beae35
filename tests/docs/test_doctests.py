"""The examples of docstrings, run in an empty directory, module by module."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pyarrow as pa
import pytest

import smalti
from tests.docs.blocks import ROOT
from tests.docs.test_imports import module_of

MODULES = [
    module_of(path)
    for path in sorted((ROOT / "src" / "smalti").rglob("*.py"))
    if path.name != "__main__.py" and ">>>" in path.read_text()
]


def make_readings() -> None:
    """What the examples of jobs work on: a directory of three files, and a CSV file of three lines."""
    Path("readings").mkdir()
    for i in range(3):
        smalti.write_table(pa.table({"id": [i], "value": [i / 2]}), f"readings/{i}.mosaic", stats_columns=["id"])
    Path("readings.csv").write_text("id,value\n0,0.0\n1,0.5\n2,1.0\n")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("smalti.spark"):
        pytest.importorskip("pyspark")
    if name.startswith("smalti.paimon"):
        pytest.importorskip("pypaimon")
    monkeypatch.chdir(tmp_path)
    if name.startswith("smalti.jobs"):
        make_readings()
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted
    assert result.failed == 0
