"""What notebooks show for a file, its layout, a table or a write: facts, a small map and a short table, as HTML.

Each class has a method `_repr_html_`, which notebooks call, and which imports this module when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import pyarrow as pa

from smalti.file.reader import MosaicFile
from smalti.file.scans import Scan
from smalti.file.writer import WriteSummary
from smalti.logical.patterns import families
from smalti.mosaic.layout import FileLayout
from smalti.spec import Encoding
from smalti.table.listing import FoundFile
from smalti.units import show_bytes, show_count

#: Columns or row groups shown in a table.
MAX_ROWS = 20


def view_file(file: MosaicFile, path: str | None) -> str:
    """The file as a whole, a small map of row groups and buckets, and the first columns."""
    layout = file.layout(())
    bands = [(f"row group {group.index}", [bucket.size for bucket in group.buckets]) for group in layout.row_groups]
    facts = {"file": path or "in memory", **dict(layout.facts)}
    if file.num_columns != layout.num_columns:  # Structs are stored as a column for each field.
        facts["columns"] = f"{file.num_columns:,}, stored as {layout.num_columns:,}"
    return html_summary("Mosaic file", list(facts.items()), *_columns(file.schema), bands=bands)


def view_scan(scan: Scan) -> str:
    """What is read of which file or table, and the columns."""
    schema = scan.schema
    facts = [("of", repr(scan.origin)), ("columns", f"{len(schema):,}")]
    if scan.filters is not None:
        facts.append(("filters", str(scan.filters)[:200]))
    return html_summary("Scan", facts, *_columns(schema))


def _columns(schema: pa.Schema) -> tuple[list[str], list[Sequence[object]]]:
    """Titles and rows of a table of columns; many columns are shown by prefix."""
    if len(schema) <= MAX_ROWS:
        return ["column", "type", ""], [
            [each.name, str(each.type), "" if each.nullable else "not null"] for each in schema
        ]
    return ["columns", "", "type"], [*families(schema.names, schema.types)]


def view_layout(layout: FileLayout) -> str:
    """The file as a whole, and for each row group how many bytes are in which encoding."""
    rows = [
        [group.index, group.num_rows, sum(bucket.size for bucket in group.buckets), *group.bytes_by_encoding().values()]
        for group in layout.row_groups
    ]
    header = ["row group", "rows", "bytes", *(encoding.name for encoding in Encoding)]
    return html_summary("Layout of a Mosaic file", layout.facts, header, rows)


def view_summary(summary: WriteSummary) -> str:
    """How much was written, in which layout, and the columns that are stored as other types."""
    facts = [
        ("rows", f"{summary.num_rows:,} in {show_count(summary.num_row_groups, 'row group')}"),
        ("size", show_bytes(summary.num_bytes)),
        ("layout", summary.layout.reason),
        ("with statistics", show_count(len(summary.statistics[0]) if summary.statistics else 0, "column")),
    ]
    changed = summary.stored_as.items()
    rows = [[name, ", ".join(f"{part.name}: {part.type}" for part in parts)] for name, parts in changed]
    return html_summary("Written Mosaic file", facts, ["column", "stored as"], rows)


def view_dataset(
    facts: list[tuple[str, str]], partition_columns: Sequence[str], files: Sequence[FoundFile], schema: pa.Schema | None
) -> str:
    """How many files and bytes, the partition columns, the columns, and the sizes of the files as a small map."""
    if partition_columns:
        facts.append(("partition columns", ", ".join(partition_columns)))
    bands = [(file.name.rpartition("/")[2], [file.size]) for file in files]
    return html_summary("Mosaic table", facts, *([], []) if schema is None else _columns(schema), bands=bands)


def html_summary(
    title: str,
    facts: Iterable[tuple[str, str]],
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    bands: Sequence[tuple[str, Sequence[int]]] = (),
) -> str:
    """An HTML fragment without script or colours, so that it follows the notebook's own light or dark theme.

    Rows after the first ones are counted; `bands` are drawn by `small_map`.

    Examples
    --------
    >>> html_summary("T", [("a", "1")], ["x"], [["<b>"]])[:60]
    '<div class="smalti"><strong>T</strong><table><tr><th style="'
    """
    left = ' style="text-align:left"'
    lines = "".join(f"<tr><th{left}>{escape(name)}</th><td{left}>{escape(value)}</td></tr>" for name, value in facts)
    titles = "".join(f"<th{left}>{escape(text)}</th>" for text in header)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows[:MAX_ROWS])
    more = f"<p>… and {len(rows) - MAX_ROWS:,} more</p>" if len(rows) > MAX_ROWS else ""
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
