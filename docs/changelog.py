"""Moves the entries of `changes/` into CHANGELOG.md, under a release of today: ``python docs/changelog.py 0.2.0``."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
UNRELEASED = "## Unreleased\n\nNew entries are in [changes](changes/README.md), one file for each change.\n"


def fragments(changes: Path) -> list[Path]:
    """The files of `changes/` that hold entries."""
    return sorted(path for path in changes.glob("*.md") if path.name != "README.md")


def released(changelog: str, entries: list[str], version: str, date: str) -> str:
    """The changelog with all entries under a release, and nothing under "Unreleased"."""
    before, found, after = changelog.partition(UNRELEASED)
    if not found:
        raise ValueError("CHANGELOG.md has no section 'Unreleased' that points to changes/")
    section = "\n".join(entry.strip() for entry in entries)
    # The items that were collected before there were files stand right below the section, without a heading.
    collected, heading, older = after.partition("\n## ")
    items = "\n".join(filter(None, (section, collected.strip())))
    return f"{before}{UNRELEASED}\n## {version} ({date})\n\n{items}\n{heading}{older}"


def main(version: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"not a version: {version!r}; expected one like 0.2.0")
    found = fragments(ROOT / "changes")
    page = ROOT / "CHANGELOG.md"
    date = datetime.now(UTC).date().isoformat()
    page.write_text(released(page.read_text(), [path.read_text() for path in found], version, date))
    for path in found:
        path.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
