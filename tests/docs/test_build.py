"""`make docs`, in short: Sphinx builds every page without a single warning, and charts follow the theme."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

pytest.importorskip("sphinx", reason="the documentation's generator: pip install 'smalti[docs]'")


def test_no_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(tmp_path / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "suppress_warnings" not in (ROOT / "docs" / "conf.py").read_text()
    home = (tmp_path / "html" / "index.html").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert name == "index.html" or f'href="{name}"' in home, f"{name} cannot be reached from the first page"


@pytest.mark.parametrize("chart", sorted((ROOT / "docs" / "benchmarks").glob("*.svg")), ids=lambda chart: chart.stem)
def test_charts_have_colours_for_the_night(chart: Path) -> None:
    text = chart.read_text()
    assert "@media (prefers-color-scheme: dark)" in text
    # What is white or black by day is named in the rules for the night.
    rules = text[text.index("@media (prefers-color-scheme: dark)") :].partition("</style>")[0]
    for neutral in set(re.findall(r'style="[^"]*(?:fill|stroke): (#f{6}|#1f2328|#d1d9e0)', text)):
        assert neutral in rules
