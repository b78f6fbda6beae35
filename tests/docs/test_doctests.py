"""The examples of docstrings, run in an empty directory, module by module."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.test_imports import module_of

MODULES = [
    module_of(path)
    for path in sorted((ROOT / "src" / "smalti").rglob("*.py"))
    if path.name != "__main__.py" and ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("smalti.spark"):
        pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted
    assert result.failed == 0
