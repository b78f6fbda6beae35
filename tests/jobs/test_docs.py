"""Every Python block of the guide runs, top to bottom, in an empty directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import ROOT


def test_guide(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/jobs.md").read_text()
    blocks = [(match.start(), match.group(1)) for match in re.finditer(r"```python\n(.*?)```", text, re.S)]
    assert len(blocks) > 8
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smalti.spark.session", lambda *_, **__: spark, raising=False)
    names: dict[str, Any] = {}
    for start, block in blocks:
        line = text[:start].count("\n") + 1
        exec(compile("\n" * line + block, "docs/jobs.md", "exec"), names)
