"""What `make docs` relies on: every page can be reached from the first one, and charts follow the theme.

Sphinx itself runs in `make docs`, where every warning is an error.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"


def test_every_page_can_be_reached_from_the_first() -> None:
    listed = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.S)
    entries = {line.split("<")[-1].rstrip(">").removesuffix(".md") for block in listed for line in block.splitlines()}
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md") if "_build" not in path.parts
    }
    assert pages - entries == {"index"}


def test_no_warning_is_suppressed() -> None:
    assert "suppress_warnings" not in (DOCS / "conf.py").read_text()


@pytest.mark.parametrize("chart", sorted((ROOT / "docs" / "benchmarks").glob("*.svg")), ids=lambda chart: chart.stem)
def test_charts_have_colours_for_the_night(chart: Path) -> None:
    text = chart.read_text()
    assert "@media (prefers-color-scheme: dark)" in text
    # What is white or black by day is named in the rules for the night.
    rules = text[text.index("@media (prefers-color-scheme: dark)") :].partition("</style>")[0]
    for neutral in set(re.findall(r'style="[^"]*(?:fill|stroke): (#f{6}|#1f2328|#d1d9e0)', text)):
        assert neutral in rules
