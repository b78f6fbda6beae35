"""Where a command prints: a terminal with a width and a pager, or a pipe that gets everything."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from smalti.cli.render.table import Head, markdown_table, table
from smalti.cli.render.text import painted, printable, visible

#: Pagers to try when $PAGER names none. less: quit if the text fits, keep colours, do not wrap long lines.
PAGERS = (["less", "-FRSX"], ["more"])


class Screen:
    """Standard output and error of one command.

    With `pager`, output that is longer than the terminal goes through a pager; with `markdown`, tables are printed as
    Markdown, as wide as their content; with `as_json`, what `show` is given is printed as JSON.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        pager: bool = True,
        markdown: bool = False,
        as_json: bool = False,
    ) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.is_terminal = self.out.isatty()
        size = shutil.get_terminal_size((100, 40))
        #: Characters that fit a line of the terminal, or of a table that is printed elsewhere.
        self.width = max(40, size.columns)
        self.markdown = markdown
        self.as_json = as_json
        #: `width` on a terminal; None in a pipe, where tables are as wide as their content.
        self.room = self.width if self.is_terminal and not markdown else None
        self.colour = wants_colour(self.is_terminal) and not markdown
        self._height = size.lines
        self._pager = pager and self.is_terminal

    def table(self, heads: Sequence[Head], rows: Iterable[Sequence[str]], room: int | None = None) -> Iterator[str]:
        """The lines of a table, cut to `room`, by default that of a terminal; as Markdown if that was asked for."""
        if self.markdown:
            return markdown_table(heads, rows)
        return table(heads, rows, self.room if room is None else room, colour=self.colour)

    def painted(self, text: str, code: str) -> str:
        """Text in a colour, if the terminal wants colours."""
        return painted(text, code) if self.colour else text

    def show(self, document: Any, lines: Iterable[str]) -> None:
        """Print what was found: as one JSON document if that was asked for, otherwise as lines, which may be lazy."""
        if self.as_json:
            self.json(document)
        else:
            self.lines(lines)

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines, paged if they do not fit a terminal."""
        if not self._pager:
            self._write(lines)
            return
        waiting = iter(lines)
        first = list(itertools.islice(waiting, self._height))
        pager = self._start_pager() if len(first) == self._height else None
        if pager is None or pager.stdin is None:
            self._write(itertools.chain(first, waiting))
            return
        try:
            with contextlib.suppress(BrokenPipeError):
                pager.stdin.writelines(line + "\n" for line in itertools.chain(first, waiting))
        finally:
            with contextlib.suppress(BrokenPipeError):
                pager.stdin.close()
            pager.wait()

    def data(self, lines: Iterable[str]) -> None:
        """Print lines of CSV or JSON: exactly as they are in a pipe, and without control characters on a terminal."""
        self.lines(map(visible, lines) if self.is_terminal else lines)

    def json(self, document: Any) -> None:
        """One JSON document, indented for a terminal, on one line for a pipe."""
        text = json.dumps(document, ensure_ascii=False, indent=2 if self.is_terminal else None, default=_plain)
        self._write(map(visible, text.split("\n")) if self.is_terminal else [text])

    def note(self, text: str) -> None:
        """Print a remark to standard error, apart from the output."""
        print(printable(text), file=self.err, flush=True)

    def _write(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.out.write(line + "\n")
        self.out.flush()

    def _start_pager(self) -> subprocess.Popen[str] | None:
        named = os.environ.get("PAGER")
        for command in [shlex.split(named)] if named else PAGERS:
            if command and shutil.which(command[0]):
                return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8")
        return None


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def wants_colour(is_terminal: bool) -> bool:
    """Whether to use colours, as https://no-color.org and https://force-color.org have it."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"
