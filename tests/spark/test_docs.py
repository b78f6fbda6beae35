"""Every Python snippet of docs/spark.md, in order, in one directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from smalti.spark.options import _READ, _WRITE, _WRITER, camel_case

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_snippets_run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.S | re.M)
    assert len(snippets) > 8
    monkeypatch.chdir(tmp_path)
    # Spark's driver keeps the directory it was started in: relative paths are made absolute, as they are for readers.
    names = "events|by_day|checkpoint|selected"
    shared: dict[str, Any] = {}
    for snippet in snippets:
        exec(re.sub(rf"(['\"`])({names})\1", rf"\1{tmp_path}/\2\1", snippet), shared)
    assert shared["spark"] is not None
    assert spark.sparkContext is shared["spark"].sparkContext


@pytest.mark.parametrize("name", sorted({*_READ, *_WRITE, *_WRITER}))
def test_every_option_is_in_the_guide(name: str) -> None:
    assert f"`{camel_case(name)}`" in GUIDE.read_text()
