"""Pages that come from code are fresh, links lead somewhere, and the annotated file is explained to the last byte."""

from __future__ import annotations

import importlib.util
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import smalti
from tests.docs.blocks import ROOT, pages

DOCS = ROOT / "docs"
#: Written by other commands, or by runs that take long: they may not be there yet.
MADE_LATER = re.compile(r"(^|/)(headline|full|layouts)[\w-]*\.(md|svg)$")


def script(name: str) -> Any:
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DOCS))


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_generated_parts_are_fresh(page: Path) -> None:
    assert script("generate").refreshed(page.read_text()) == page.read_text(), "run python docs/generate.py"


def test_the_annotated_file_is_the_one_of_the_page() -> None:
    annotate = script("annotate")
    data = annotate.tiny_file()
    fields = [field for field in annotate.annotate(data) if field.size]
    assert fields[0].offset == 0
    assert all(b.offset == a.offset + a.size for a, b in pairwise(fields))
    assert fields[-1].offset + fields[-1].size == len(data)
    texts = " ".join(field.text for field in fields)
    with smalti.open(data) as file:
        table = file.read()
        bounds = file.row_group(0).statistics["id"]
        layout = file.layout()
    for value in table["id"].to_pylist():
        assert f"value, big-endian: {value}" in texts
    assert f'minimum of "id": {bounds.min}' in texts
    assert f'maximum of "id": {bounds.max}' in texts
    assert f"index at {layout.index.offset:#04x}" in texts
    assert "row 1 is null" in texts


def test_every_target_of_make_is_explained() -> None:
    found = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    explained = set(re.findall(r"^\| `make ([\w-]+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert set(found[1].split()) - {"help", "browser"} == explained


def test_the_two_commands_come_first() -> None:
    """README says near its top how to see the main job and run the tests; times are those of CONTRIBUTING."""
    top = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert re.findall(r"^make (\w+) ", top, re.MULTILINE) == ["demo", "test"]
    rows = {
        row[1]: row[2]
        for row in re.finditer(r"^\| `make (\w+)` \|(?:.*\|)? ([^|]*) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    }
    for target in ("demo", "test"):
        needs, time, shows = re.findall(rf"^\| `make {target}` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|", top, re.MULTILINE)[
            0
        ]
        assert time == rows[target]
        assert len(needs) > 10
        assert len(shows) > 50


def test_every_command_is_in_the_docs() -> None:
    from smalti.cli.commands import COMMANDS

    text = (DOCS / "cli.md").read_text()
    assert [name for name in COMMANDS if f"`smalti {name}`" not in text] == []


def test_every_type_of_the_format_is_in_the_table() -> None:
    from smalti.spec import TypeId

    text = (DOCS / "types.md").read_text()
    assert [kind.name for kind in TypeId if kind.name not in text] == []


def test_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "api.md").read_text()
    assert [name for name in smalti.__all__ if name not in text] == []


@pytest.mark.parametrize("page", [*pages(), ROOT / "CHANGELOG.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    targets = re.findall(r"\]\(([^)\s#]+)", text)
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    planned = {"jobs.md"}
    missing = [
        target
        for target in local
        if not (page.parent / target).exists() and not MADE_LATER.search(target) and Path(target).name not in planned
    ]
    assert missing == []


def test_limits_are_those_of_the_code() -> None:
    from smalti import spec

    listed = {name for name, _ in script("generate").LIMITS}
    assert {name for name in vars(spec) if name.startswith("MAX_")} - listed <= {
        "MAX_BPE_RULES",
        "MAX_COMPACT_PRECISION",
    }
