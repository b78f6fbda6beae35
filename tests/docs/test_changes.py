"""The entries of the next release, one file for each change: their form, and how they get into the changelog."""

from __future__ import annotations

import re

import smalti
from tests.docs.blocks import ROOT
from tests.docs.test_pages import script

CHANGELOG = script("changelog")
#: An item of a list with its subject in bold; its further lines are indented.
ITEM = re.compile(r"- \*\*[^*\n]+\*\*.*(\n  \S.*)*")


def test_only_entries_are_in_changes() -> None:
    assert [path.name for path in (ROOT / "changes").iterdir() if path.suffix != ".md"] == []


def test_an_entry_is_items_of_a_list() -> None:
    for path in CHANGELOG.fragments(ROOT / "changes"):
        text = path.read_text()
        assert re.fullmatch(r"[a-z0-9-]+", path.stem), f"{path}: expected small letters, with hyphens between words"
        assert re.fullmatch(rf"({ITEM.pattern}\n)+", text), f"{path}: expected '- **Subject**', further lines indented"
        assert max(map(len, text.splitlines())) <= 140, path
        targets = [target for target in re.findall(r"\]\(([^)\s#]+)", text) if "://" not in target]
        missing = [target for target in targets if not (ROOT / target).exists()]
        assert missing == [], f"{path}: links are relative to the top of the project"


def test_a_release_takes_all_entries() -> None:
    unreleased = CHANGELOG.UNRELEASED
    before = f"# Changelog\n\n{unreleased}\n- **Old**: x.\n\n## 0.1.0 (2026-01-01)\n\n- **First**.\n"
    after = CHANGELOG.released(before, ["- **New**: y.\n"], "0.2.0", "2026-02-02")
    assert after == (
        f"# Changelog\n\n{unreleased}\n## 0.2.0 (2026-02-02)\n\n- **New**: y.\n- **Old**: x.\n\n"
        "## 0.1.0 (2026-01-01)\n\n- **First**.\n"
    )
    again = CHANGELOG.released(after, ["- **Newer**.\n  More.\n"], "0.2.1", "2026-03-03")
    assert f"{unreleased}\n## 0.2.1 (2026-03-03)\n\n- **Newer**.\n  More.\n\n## 0.2.0 (2026-02-02)\n" in again


def test_the_changelog_can_be_released() -> None:
    page = (ROOT / "CHANGELOG.md").read_text()
    assert "\n## 9.9.9 (2026-01-01)\n" in CHANGELOG.released(page, [], "9.9.9", "2026-01-01")


def test_only_releases_have_a_date() -> None:
    """A development version is in neither the changelog nor, with a date, in the citation."""
    changelog, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    assert f"version: {smalti.__version__}\n" in citation
    is_release = ".dev" not in smalti.__version__
    assert is_release == ("date-released:" in citation)
    version = smalti.__version__.partition(".dev")[0]
    assert is_release == bool(re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.M))
