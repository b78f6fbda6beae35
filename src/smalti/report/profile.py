"""The page of a profile: one file, no network, 10,000 columns that scroll and search at once."""

from __future__ import annotations

import html
import json
from collections import Counter
from typing import TYPE_CHECKING

from smalti.report.units import show_bytes

if TYPE_CHECKING:
    from smalti.jobs.profiling import Profile

_STYLE = """
:root { --ink: #1d2733; --soft: #66727f; --line: #e3e7ec; --back: #fff; --tint: #f5f7f9; --mark: #2f6f9f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa5b1; --line: #2c343d; --back: #14181d; --tint: #1b2127; --mark: #7db7e0; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 2rem; font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); }
h1 { font-size: 1.3rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
.facts { color: var(--soft); margin: 0 0 1.2rem; }
.encodings { display: flex; height: 10px; border-radius: 5px; overflow: hidden; max-width: 40rem; }
.legend { color: var(--soft); font-size: 12px; margin: .3rem 0 1.2rem; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 .3rem 0 .8rem; }
.legend i:first-child { margin-left: 0; }
input { font: inherit; padding: .4rem .6rem; width: 20rem; max-width: 100%; color: inherit; background: var(--tint);
  border: 1px solid var(--line); border-radius: 6px; }
#count { color: var(--soft); margin-left: .8rem; }
#scroll { height: 65vh; overflow: auto; margin-top: .8rem; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; min-width: 900px; table-layout: fixed; }
th { position: sticky; top: 0; background: var(--tint); text-align: left; cursor: pointer; user-select: none; }
th, td { padding: 0 .6rem; height: 28px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis;
  border-bottom: 1px solid var(--line); }
th:focus-visible, input:focus-visible { outline: 2px solid var(--mark); outline-offset: -2px; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
.gap td { padding: 0; border: 0; height: auto; }
"""

_SCRIPT = """
const data = JSON.parse(document.getElementById('data').textContent);
const numeric = data.numeric, rowHeight = 28, body = document.getElementById('rows');
const scroll = document.getElementById('scroll'), find = document.getElementById('find');
let shown = data.rows, sorted = -1, down = false;
const group = new Intl.NumberFormat('en-US');
function cell(value, i) {
  const td = document.createElement('td');
  if (numeric[i]) td.className = 'n';
  td.textContent = value === null ? '–' : numeric[i] ? group.format(value) : value;
  td.title = td.textContent;
  return td;
}
function gap(rows) {
  const tr = document.createElement('tr'), td = document.createElement('td');
  tr.className = 'gap'; td.colSpan = numeric.length; td.style.height = rows * rowHeight + 'px';
  tr.append(td);
  return tr;
}
function draw() {
  const first = Math.max(0, Math.floor(scroll.scrollTop / rowHeight) - 10);
  const last = Math.min(shown.length, first + Math.ceil(scroll.clientHeight / rowHeight) + 20);
  const rows = shown.slice(first, last).map(row => {
    const tr = document.createElement('tr');
    tr.append(...row.map(cell));
    return tr;
  });
  body.replaceChildren(gap(first), ...rows, gap(shown.length - last));
  document.getElementById('count').textContent = group.format(shown.length) + ' of ' + group.format(data.rows.length);
}
function select() {
  const text = find.value.toLowerCase();
  shown = data.rows.filter(row => row[0].toLowerCase().includes(text) || row[1].includes(text));
  if (sorted >= 0) {
    const sign = down ? -1 : 1, i = sorted;
    shown.sort((a, b) => a[i] === b[i] ? 0 : a[i] === null ? 1 : b[i] === null ? -1 : (a[i] < b[i] ? -sign : sign));
  }
  scroll.scrollTop = 0;
  draw();
}
document.querySelectorAll('th').forEach((th, i) => {
  const sort = () => { down = sorted === i ? !down : !!numeric[i]; sorted = i; select();
    document.querySelectorAll('th').forEach((other, j) =>
      other.setAttribute('aria-sort', j !== i ? 'none' : down ? 'descending' : 'ascending')); };
  th.tabIndex = 0;
  th.addEventListener('click', sort);
  th.addEventListener('keydown', event => { if (event.key === 'Enter') sort(); });
});
find.addEventListener('input', select);
scroll.addEventListener('scroll', draw);
draw();
"""

_COLOURS = {"PLAIN": "#2f6f9f", "DICT": "#3f9d78", "CONST": "#d69b2d", "ALL_NULL": "#a0a8b0"}
_HEADS = ["column", "type", "nulls", "distinct", "min", "max", "encodings", "stored bytes", "raw bytes"]
_NUMERIC = [0, 0, 1, 1, 0, 0, 0, 1, 1]
_WIDTHS = [18, 9, 8, 8, 12, 12, 13, 10, 10]


def profile_page(profile: Profile) -> str:
    """The whole page."""
    facts = (
        f"{profile.num_rows:,} rows · {profile.num_columns:,} columns · {profile.num_files:,} files · "
        f"{show_bytes(profile.num_bytes)}"
    )
    if profile.skipped:
        facts += f" · {len(profile.skipped):,} files skipped"
    names = [name.replace(" ", "_") for name in _HEADS]
    columns = [profile.table.column(name).to_pylist() for name in names]
    rows = [list(row) for row in zip(*columns, strict=True)]
    data = json.dumps({"rows": rows, "numeric": _NUMERIC}, ensure_ascii=False).replace("<", "\\u003c")
    widths = "".join(f'<col style="width:{width}%">' for width in _WIDTHS)
    heads = "".join(
        f"<th{' class=n' if number else ''}>{html.escape(head)}</th>"
        for head, number in zip(_HEADS, _NUMERIC, strict=True)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Profile of {html.escape(profile.source)}</title><style>{_STYLE}</style></head><body>
<h1>{html.escape(profile.source)}</h1><p class="facts">{facts}</p>
{_encodings(profile)}
<input id="find" type="search" placeholder="Search columns or types" aria-label="Search columns or types">
<span id="count" aria-live="polite"></span>
<div id="scroll"><table><colgroup>{widths}</colgroup>
<thead><tr>{heads}</tr></thead><tbody id="rows"></tbody></table></div>
<script type="application/json" id="data">{data}</script><script>{_SCRIPT}</script></body></html>
"""


def _encodings(profile: Profile) -> str:
    """How columns are encoded, over all row groups, as one bar."""
    counts: Counter[str] = Counter()
    for text in profile.table.column("encodings").to_pylist():
        for part in (text or "").split(", "):
            if part:
                name, count = part.rsplit(" ", 1)
                counts[name] += int(count)
    if not counts:
        return ""
    whole = sum(counts.values())
    parts = [(name, count, _COLOURS.get(name, "#888")) for name, count in counts.most_common()]
    bar = "".join(
        f'<span style="width:{100 * count / whole:.2f}%;background:{colour}"></span>' for _, count, colour in parts
    )
    legend = "".join(
        f'<i style="background:{colour}"></i>{name} {100 * count / whole:.0f} %' for name, count, colour in parts
    )
    return f'<div class="encodings">{bar}</div><p class="legend">{legend}</p>'
