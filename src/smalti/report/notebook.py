"""What notebooks show for a file, a table or a writer's summary: a title, facts, a small map and a short table as HTML.

Knows nothing of the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from smalti.report.units import show_bytes


def html_summary(
    title: str,
    facts: Iterable[tuple[str, str]],
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    hidden: int = 0,
    bands: Sequence[tuple[str, Sequence[int]]] = (),
) -> str:
    """An HTML fragment without script or colours, so that it follows the notebook's own light or dark theme.

    `hidden` is the number of rows that were left out of `rows`; `bands` are drawn by `small_map`.

    Examples
    --------
    >>> html_summary("T", [("a", "1")], ["x"], [["<b>"]])[:60]
    '<div class="smalti"><strong>T</strong><table><tr><th style="'
    """
    left = ' style="text-align:left"'
    lines = "".join(f"<tr><th{left}>{escape(name)}</th><td{left}>{escape(value)}</td></tr>" for name, value in facts)
    titles = "".join(f"<th{left}>{escape(text)}</th>" for text in header)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    more = f"<p>… and {hidden:,} more</p>" if hidden > 0 else ""
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    head = f"<strong>{escape(title)}</strong><table>{lines}</table>{small_map(bands)}"
    return f'<div class="smalti">{head}{table}{more}</div>'


#: Bands and blocks of a small map.
MAX_BANDS, MAX_BLOCKS = 12, 50


def small_map(bands: Sequence[tuple[str, Sequence[int]]]) -> str:
    """A bar for each band, as long as its bytes, with a block for each part. Bands have a name and sizes of parts.

    Blocks are shades of the text's own colour, which fits every theme. Neighbours share a block where there are many.

    Examples
    --------
    >>> small_map([("row group 0", [100, 300])]).count("<i ")
    2
    """
    largest = max((sum(sizes) for _, sizes in bands), default=0)
    lines = []
    for name, sizes in bands[:MAX_BANDS] if largest else ():
        step = -(-len(sizes) // MAX_BLOCKS)
        blocks = [sum(sizes[at : at + step]) for at in range(0, len(sizes), step or 1)]
        parts = "".join(
            f'<i title="{show_bytes(size)}" style="flex:{size} 0 0;height:12px;background:currentColor;'
            f'opacity:{0.35 if at % 2 else 0.6}"></i>'
            for at, size in enumerate(blocks)
            if size
        )
        width = 100 * sum(sizes) / largest
        bar = f'<div style="display:flex;width:{width:.1f}%;min-width:2px">{parts}</div>'
        label = f'<td style="text-align:left">{escape(name)}</td><td>{show_bytes(sum(sizes))}</td>'
        lines.append(f'<tr>{label}<td style="width:24em;text-align:left">{bar}</td></tr>')
    more = f"<p>… and {len(bands) - MAX_BANDS:,} more</p>" if lines and len(bands) > MAX_BANDS else ""
    return f'<table class="map">{"".join(lines)}</table>{more}' if lines else ""


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    side = "right" if isinstance(value, int) else "left"
    return f'<td style="text-align:{side}">{escape(text)}</td>'
