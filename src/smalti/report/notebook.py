"""What notebooks show for a file or a layout: a title, facts and a short table as HTML. Knows nothing of the format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_summary(
    title: str,
    facts: Iterable[tuple[str, str]],
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    hidden: int = 0,
) -> str:
    """An HTML fragment without script or colours, so that it follows the notebook's own light or dark theme.

    `hidden` is the number of rows that were left out of `rows`.

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
    return f'<div class="smalti"><strong>{escape(title)}</strong><table>{lines}</table>{table}{more}</div>'


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    side = "right" if isinstance(value, int) else "left"
    return f'<td style="text-align:{side}">{escape(text)}</td>'
