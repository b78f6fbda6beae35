"""Results as Markdown: one table for the goals, then one for each data set and kind of figure.

Pure functions from the JSON document of a run to text. Says nothing the results do not hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.announced import beside
from benchmarks.datasets import DATASETS
from benchmarks.measure import Measurement

Row = list[str]
#: The share of the processors above which other work beforehand makes times doubtful.
BUSY = 0.15


def page(document: dict[str, Any], charts: dict[str, str]) -> str:
    """The whole page of a run; ``charts`` maps a file name to what it shows."""
    results = [Measurement.from_json(record) for record in document["results"]]
    parts = [
        f"# Benchmark: {document['profile']} run",
        f"Written by `{document['command']}`; do not edit. How to read it: [README](README.md).",
        warning(document["environment"]),
        goals(document["goals"]),
        *(f"![{alt}]({name})" for name, alt in charts.items()),
        announcement(document, results),
        *(section(dataset, document, results) for dataset in dict.fromkeys(result.dataset for result in results)),
        setting(document),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def warning(where: dict[str, Any]) -> str:
    """A word to the reader when other work had the machine before this run began."""
    busy = where.get("busy_at_start")
    if busy is None or busy <= BUSY:
        return ""
    return (
        f"**The machine was busy** (others had {busy:.0%} of its {where['cores']} cores beforehand): "
        "sizes, bytes and memory hold, times and their ratios are not to be quoted."
    )


def goals(records: list[dict[str, Any]]) -> str:
    """Goal, measured, reached: computed, including the ones not reached."""
    if not records:
        return ""
    rows = []
    for record in records:
        rows.append(
            [
                record["title"],
                record["peer"],
                wanted(record["figure"], record["factor"]),
                "not measured" if record["measured"] is None else f"{record['measured']:.3g} x",
                "" if record["of_medians"] is None else f"{record['of_medians']:.3g} x",
                {True: "yes", False: "**no**", None: ""}[record["reached"]],
            ]
        )
    header = ["work", "against", "goal", "measured (best)", "(median)", "reached"]
    return "## Goals\n\n" + markdown(header, rows)


def wanted(figure: str, factor: float) -> str:
    """What a goal asks for, in words."""
    if figure != "seconds":
        return f"at most {factor:g} x"
    if factor > 1:
        return f"{factor:g} x faster"
    return "not slower" if factor == 1 else f"at least {factor:.3g} x as fast"


def announcement(document: dict[str, Any], results: list[Measurement]) -> str:
    """The published figures beside those of this run; nothing for a run on tiny tables, or without those tables."""
    lines = beside(results) if document["profile"] in ("headline", "full") else []
    if not lines:
        return ""
    rows = []
    for line, figures in lines:
        show = size if line.is_size else seconds
        what = "file size" if line.is_size else f"read {line.work.removeprefix('read-')} of 10,000"
        rows.append([f"{line.dataset.removeprefix('wide-')} rows: {what}"])
        rows[-1] += [show(figure) for figure in (line.parquet, line.orc, line.mosaic)]
        rows[-1] += ["not measured" if figure is None else show(figure) for figure in figures]
    header = ["", "published: Parquet", "ORC", "Mosaic", "here: Parquet", "ORC", "reference", "smalti"]
    return (
        "## Beside the announcement\n\n"
        "Its figures are of another machine, other values and Java's Parquet and ORC: compare ratios within a side. "
        "The headline run leaves ORC out at 4,500 rows, where one write takes 9 GB of memory; the full run has it.\n\n"
        + markdown(header, rows)
    )


def section(dataset: str, document: dict[str, Any], results: list[Measurement]) -> str:
    """The tables of one data set."""
    here = [result for result in results if result.dataset == dataset]
    labels = {name: peer["label"] for name, peer in document["environment"]["peers"].items()}
    shape = document["datasets"][dataset]
    tables = [
        table("time, best (median)", here, labels, times),
        table("file size", here, labels, lambda result: size(result.file_bytes)),
        table("bytes read / requests", here, labels, traffic),
        table("peak memory", here, labels, lambda result: size(result.peak_bytes)),
    ]
    failures = [f"- {labels[r.peer]}, {r.work}: failed: {r.error}" for r in here if r.error]
    title = f"## {dataset}: {shape['columns']:,} columns x {shape['rows']:,} rows"
    about = DATASETS[dataset].about
    remarks = "\n".join(f"- {labels[r.peer]}: {r.remark}." for r in here if r.remark)
    return "\n\n".join([title, f"{about[0].upper()}{about[1:]}.", *filter(None, [*tables, remarks]), *failures])


def table(what: str, results: list[Measurement], labels: dict[str, str], show: Callable[[Measurement], str]) -> str:
    """Peers down, works across; empty when there is no such figure here, and without the works that have none."""
    cells = {(result.peer, result.work): show(result) for result in results if not result.error}
    works = [work for work in dict.fromkeys(r.work for r in results) if any(cells.get((p, work)) for p in labels)]
    rows = [[label, *(cells.get((peer, work), "") for work in works)] for peer, label in labels.items()]
    rows = [row for row in rows if any(row[1:])]
    return markdown([what, *works], rows) if works else ""


def setting(document: dict[str, Any]) -> str:
    """Machine, versions, settings, effort."""
    where = document["environment"]
    effort = document["effort"]
    rows = [[p["label"], f"{p['package']} {p['version']}", p["settings"]] for p in where["peers"].values()]
    missing = "".join(f"\n\nNot measured: {name} ({why})." for name, why in document["missing"].items())
    return (
        "## Setting\n\n"
        f"{where['date']}, commit {where['commit']}. {where['processor']}, {where['cores']} cores, "
        f"{where['memory_bytes'] / 2**30:.0f} GiB, {where['system']}; load average "
        f"{where['load_at_start']:.1f} at the start, {document['load_at_end']:.1f} at the end, "
        f"{document['minutes']:g} minutes later. "
        f"Python {where['python']}, pyarrow {where['pyarrow']}, numpy {where['numpy']}. "
        f"Up to {effort['rounds']} rounds of turns, a peer leaving the round after {effort['budget']:g} s of work."
        f"\n\n{markdown(['peer', 'version', 'settings'], rows)}{missing}"
    )


def markdown(header: Row, rows: list[Row]) -> str:
    """A Markdown table, the first column to the left and the others to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(value: float | None) -> str:
    """A duration with three digits that matter."""
    if value is None:
        return ""
    return f"{value:#.3g} s" if value >= 1 else f"{value * 1000:#.3g} ms".replace(". ", " ")


def size(value: int | None) -> str:
    """Bytes in the unit that suits them."""
    if value is None:
        return ""
    return f"{value / 1e6:,.2f} MB" if value >= 1_000_000 else f"{value / 1e3:,.1f} KB"


def times(result: Measurement) -> str:
    return f"{seconds(result.best)} ({seconds(result.median)})" if result.seconds else ""


def traffic(result: Measurement) -> str:
    return "" if result.requests is None else f"{size(result.bytes_read)} / {result.requests:,}"


def publish(out: Path, name: str, document: dict[str, Any], text: str) -> None:
    """Write the results of a run and their page, and print the page."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    (out / f"{name}.md").write_text(text)
    print(text)
