"""Tables of text with a few columns and any number of rows, laid out for the width of a terminal."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from smalti.cli.render.text import BOLD, DIM, Null, cutter, fit, painted, width

GAP = 2
#: How many of the first rows decide the widths, so that a long table needs little memory. Columns grow if a later
#: row has something longer that may not be cut.
SAMPLE = 10_000
#: A number, which is never cut: what would be left of it is another number.
_NUMBER = re.compile(r"[~+-]?[\d,]{1,24}(\.\d{1,20})?(e[+-]?\d{1,4})?( ([KMGTPE]i)?B)?", re.ASCII)


@dataclass(frozen=True)
class Head:
    """A column of a table: its title, whether it is aligned to the right, and how narrow it may be cut."""

    title: str
    right: bool = False
    least: int = 6


def heads(titles: str) -> list[Head]:
    """Columns by their titles: `>` in front aligns a column to the right, `:20` behind says how narrow it may be cut.

    Examples
    --------
    >>> heads(">rows | name:20")
    [Head(title='rows', right=True, least=6), Head(title='name', right=False, least=20)]
    """
    parts = [(column, *column.removeprefix(">").partition(":")) for column in titles.split(" | ")]
    return [Head(title, column.startswith(">"), int(least or Head.least)) for column, title, _, least in parts]


def table(
    heads: Sequence[Head], rows: Iterable[Sequence[str]], room: int | None, *, colour: bool = False
) -> Iterator[str]:
    """The lines of a table that fits into `room` characters, or is as wide as its content where `room` is None.

    The widest columns of text are cut first, down to their `least`, so that different texts stay different. Numbers are
    never cut, wherever they stand, so that a table may end up wider than `room`. With `colour`, titles are bold and
    nulls are dim.
    """
    waiting = iter(rows)
    sample = list(itertools.islice(waiting, SAMPLE))
    widths = [max([width(head.title), *(width(row[i]) for row in sample)], default=0) for i, head in enumerate(heads)]
    if room is not None:
        floors = [
            max(
                [head.least, *(len(row[i]) for row in sample if len(row[i]) > head.least and _NUMBER.fullmatch(row[i]))]
            )
            for i, head in enumerate(heads)
        ]
        _shrink(widths, heads, floors, room)
    cut = [cutter({row[i] for row in sample}, widths[i]) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        cells = []
        for i, head in enumerate(heads):
            text = row[i]
            if width(text) > widths[i]:
                if room is None or head.right or _NUMBER.fullmatch(text):
                    widths[i] = width(text)
                else:
                    text = cut[i](text)
            cells.append(fit(text, widths[i], right=head.right))
        if colour:
            cells = [painted(shown, DIM) if isinstance(row[i], Null) else shown for i, shown in enumerate(cells)]
        return (" " * GAP).join(cells).rstrip()

    title = (" " * GAP).join(fit(head.title, widths[i], right=head.right) for i, head in enumerate(heads)).rstrip()
    yield painted(title, BOLD) if colour else title
    yield (" " * GAP).join("─" * size for size in widths)
    yield from map(line, itertools.chain(sample, waiting))


def markdown_table(heads: Sequence[Head], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown, uncut.

    Examples
    --------
    >>> print(*markdown_table([Head("name|id"), Head("n", right=True)], [["a|b", "1"]]), sep="\\n")
    | name\\|id | n |
    | --- | ---: |
    | a\\|b | 1 |
    """

    def line(cells: Iterable[str]) -> str:
        escaped = (cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(escaped)} |"

    yield line(head.title for head in heads)
    yield line("---:" if head.right else "---" for head in heads)
    yield from map(line, rows)


def _shrink(widths: list[int], heads: Sequence[Head], floors: Sequence[int], room: int) -> None:
    while sum(widths) + GAP * (len(widths) - 1) > room:
        soft = [i for i, head in enumerate(heads) if widths[i] > floors[i] and not head.right]
        if not soft:
            return
        widest = max(soft, key=lambda i: widths[i])
        others = max((widths[i] for i in soft if i != widest), default=0)
        over = sum(widths) + GAP * (len(widths) - 1) - room
        floor = max(floors[widest], others - 1 if others < widths[widest] else 0)
        widths[widest] = max(floor, widths[widest] - over, floors[widest])


def facts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Lines of `name  value`, values aligned."""
    listed = list(pairs)
    room = max((width(name) for name, _ in listed), default=0)
    for name, value in listed:
        yield f"{fit(name, room)}  {value}".rstrip()
