"""Code blocks of Markdown pages, and running them.

Blocks of ``python`` and ``bash`` run from top to bottom of a page, in one directory; Python blocks share their names.
A comment line right above a block changes that:

    <!-- output -->           the block is what the one before it prints; `...` stands for anything
    <!-- output, numbers may differ -->   likewise, but sizes and times need not be the same
    <!-- needs: spark -->     runs where it can: "spark", "s3", "paimon"; for the whole page if it stands at its top
    <!-- raises: Error -->    the block ends in this error
    <!-- skip: reason -->     does not run, and says why
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\{[\w-]+\}|[\w+-]*)[^\n]*\n(?P<code>.*?)^```$", re.M | re.S
)
_PAGE_NEEDS = re.compile(r"\A<!-- needs: (\w+) -->\n")


OUTPUT, ABOUT = "output", "output, numbers may differ"


def numberless(text: str) -> str:
    """Text without its numbers and units, and without the padding that follows from their widths.

    Examples
    --------
    >>> numberless("size   10.3 KiB (10,585 bytes)\\n────  ─────") == numberless("size 9 MB (1 bytes)\\n─  ─")
    True
    """
    text = re.sub(r"\d[\d.,]*( ?(B|[kKMG]i?B|ms|s|x|%)\b|x|%)?", "#", text)
    return re.sub(r" +", " ", re.sub(r"─+", "─", text)).replace("\n ", "\n").strip()


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    mark: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Everything a reader may paste from."""
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts]
    return [path for path in top if path.exists()] + found


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start("code")), found["language"], found["code"], found["mark"] or "")
        for found in _BLOCK.finditer(text)
    ]


def needs(page: Path) -> set[str]:
    """What the page and its blocks need."""
    found = _PAGE_NEEDS.match(page.read_text())
    marks = {block.mark.removeprefix("needs: ") for block in blocks_of(page) if block.mark.startswith("needs: ")}
    return marks | ({found[1]} if found else set())


def page_needs(page: Path) -> str | None:
    found = _PAGE_NEEDS.match(page.read_text())
    return found[1] if found else None


class Runner:
    """Runs the blocks of one page in the current directory."""

    def __init__(self, missing: set[str]) -> None:
        self._missing = missing
        self._names: dict[str, Any] = {"__name__": "__docs__"}
        self._printed: str | None = None
        self.ran = 0

    def run(self, block: Block) -> None:
        if block.mark in (OUTPUT, ABOUT):
            self._compare(block)
            return
        if block.language not in ("python", "bash") or block.mark.startswith("skip: "):
            return
        if block.mark.startswith("needs: ") and block.mark.removeprefix("needs: ") in self._missing:
            self._printed = None
            return
        raises = block.mark.removeprefix("raises: ") if block.mark.startswith("raises: ") else None
        self.ran += 1
        self._printed = self._python(block, raises) if block.language == "python" else self._bash(block, raises)

    def _python(self, block: Block, raises: str | None) -> str:
        out = io.StringIO()
        code = compile("\n" * block.line + block.code, str(block.page), "exec")
        try:
            with contextlib.redirect_stdout(out):
                exec(code, self._names)
        except Exception as error:
            if raises is None or type(error).__name__ != raises:
                raise
            return f"{out.getvalue()}{type(error).__name__}: {error}\n"
        assert raises is None, f"{block.place}: expected {raises}"
        return out.getvalue()

    def _bash(self, block: Block, raises: str | None) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code],
            env={**os.environ, "PATH": path, "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if raises else subprocess.PIPE,
            text=True,
            check=False,
            timeout=600,
        )
        assert (done.returncode == 0) is (raises is None), (
            f"{block.place}: {done.returncode}: {done.stdout}{done.stderr}"
        )
        return done.stdout

    def _compare(self, block: Block) -> None:
        if self._printed is None:
            return
        said, printed = block.code.strip(), self._printed.strip()
        if block.mark == ABOUT:
            said, printed = numberless(said), numberless(printed)
        parts = [re.escape(part) for part in said.split("...")]
        assert re.fullmatch("(.*)".join(parts), printed, re.S), (
            f"{block.place} says\n{block.code}\nbut it prints\n{self._printed}"
        )
