"""Results as SVG charts that can be read on a light and on a dark page.

Colours are fixed per peer, ours in the accent. Every chart starts from the measurements; a chart whose figures are not
there is not drawn.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.measure import Measurement
from benchmarks.report import seconds, size

PAPER, INK, FAINT = "#ffffff", "#1f2328", "#d1d9e0"
NIGHT = {PAPER: "#0d1117", INK: "#e6edf3", FAINT: "#3d444d"}
ACCENT = "#d9480f"
COLOURS = {
    "smalti": ACCENT,
    "reference": "#1c7ed6",
    "parquet": "#2b8a3e",
    "parquet-file": "#74b816",
    "orc": "#9c36b5",
    "feather": "#0c8599",
    "vortex": "#868e96",
    "lance": "#c2255c",
}
# Files of ours that a curve shows, in our colour, each with a line of its own.
OURS = {"smalti": "-", "smalti-small": "--", "smalti-fast": "-.", "smalti-100": ":", "smalti-1000": (0, (1, 4))}
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "smalti",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
Value = Callable[[Measurement], float | None]


def draw(document: dict[str, Any], out: Path) -> dict[str, str]:
    """Write every chart the results allow into ``out``; the names of the files and what each shows."""
    results = [Measurement.from_json(record) for record in document["results"] if not record["error"]]
    labels = {name: peer["label"] for name, peer in document["environment"]["peers"].items()}
    curved = [name for name in document["datasets"] if len(columns_asked(results, name)) >= 4]
    wide = [result for result in results if result.dataset == "wide-500" and not curved]
    reads = [work for work in dict.fromkeys(result.work for result in wide) if work.startswith("read-")]
    with mpl.rc_context(STYLE):
        figures = {
            ("read", "Time to read columns of a wide table"): bars(
                wide, labels, [(f"{work.replace('-', ' ')}: time", work, best, seconds) for work in reads]
            ),
            ("bytes", "Bytes read for those columns"): bars(
                wide, labels, [(f"{work.replace('-', ' ')}: bytes", work, bytes_read, size) for work in reads]
            ),
            ("write", "Time to write a wide table, size of the file, peak memory"): bars(
                wide,
                labels,
                [
                    ("write: time", "write", best, seconds),
                    ("file size", "write", file_bytes, size),
                    ("write: peak memory", "write", peak_bytes, size),
                    ("read all: peak memory", "read-all", peak_bytes, size),
                ],
            ),
            ("growth", "Cost against the number of columns"): growth(results, labels, document["datasets"]),
            **{
                (name, f"Time and bytes read against the number of columns asked for, {name}"): curve(
                    [result for result in results if result.dataset == name], labels
                )
                for name in curved
            },
        }
        drawn = {}
        for (name, alt), figure in figures.items():
            if figure is not None:
                path = out / f"{document['profile']}-{name}.svg"
                save(figure, path)
                drawn[path.name] = alt
    return drawn


best = attrgetter("best")
bytes_read = attrgetter("bytes_read")
file_bytes = attrgetter("file_bytes")
peak_bytes = attrgetter("peak_bytes")


def bars(
    results: list[Measurement], labels: dict[str, str], panels: list[tuple[str, str, Value, Callable[[Any], str]]]
) -> Figure | None:
    """A panel for each (title, work, value, how to show it), a bar for each peer, the shortest on top, from zero."""
    filled = []
    for title, work, value, show in panels:
        found = {result.peer: value(result) for result in results if result.work == work}
        pairs = sorted(((amount, peer) for peer, amount in found.items() if amount), reverse=True)
        if pairs:
            filled.append((title, pairs, show))
    if not filled:
        return None
    figure = Figure(figsize=(9, sum(0.27 * len(pairs) + 0.45 for _, pairs, _ in filled)), layout="constrained")
    heights = [len(pairs) + 1 for _, pairs, _ in filled]
    axes = figure.subplots(len(filled), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (title, pairs, show) in zip(axes, filled, strict=True):
        amounts = [amount for amount, _ in pairs]
        axis.barh([labels[peer] for _, peer in pairs], amounts, color=[COLOURS[peer] for _, peer in pairs], height=0.7)
        for row, amount in enumerate(amounts):
            axis.text(amount + amounts[0] * 0.01, row, show(amount), va="center")
        axis.set_xlim(0, amounts[0] * 1.15)
        axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axis.tick_params(axis="both", length=0)
        axis.set_xticks([])
        axis.spines["bottom"].set_visible(False)
    return figure


def growth(results: list[Measurement], labels: dict[str, str], datasets: dict[str, dict[str, int]]) -> Figure | None:
    """Opening and reading one column, its memory, and writing, against the number of columns: slope one is linear."""
    grown = [result for result in results if result.dataset.startswith("growth-")]
    if not grown:
        return None
    panels: tuple[tuple[str, str, Value], ...] = (
        ("open and read 1 column, ms", "read-1", lambda r: r.best and r.best * 1e3),
        ("write, s", "write", best),
        ("peak memory of reading 1, MB", "read-1", lambda r: r.peak_bytes and r.peak_bytes / 1e6),
    )
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axis, (title, work, value) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for peer, label in labels.items():
            of_peer = [result for result in grown if (result.peer, result.work) == (peer, work) and value(result)]
            points = sorted((datasets[result.dataset]["columns"], value(result)) for result in of_peer)
            if points:
                width = 2.4 if peer == "smalti" else 1.4
                axis.plot(*zip(*points, strict=True), marker="o", ms=4, lw=width, color=COLOURS[peer], label=label)
        finish_panel(axis, title, "columns")
    add_legend(figure, 4)
    return figure


def finish_panel(axis: Any, title: str, columns: str) -> None:
    """Both scales of a panel are logarithmic: a cost that is proportional to the columns is a straight line."""
    axis.set(xscale="log", yscale="log", xlabel=columns)
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axis.grid(True, alpha=0.6)


def add_legend(figure: Figure, columns: int) -> None:
    """One legend below all panels, which have the same lines."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)


def columns_asked(results: list[Measurement], dataset: str) -> dict[str, int]:
    """The works of a data set that read a given number of columns, and the number."""
    works = dict.fromkeys(result.work for result in results if result.dataset == dataset)
    return {work: int(count) for work in works if (count := work.removeprefix("read-")).isdigit()}


def curve(results: list[Measurement], labels: dict[str, str]) -> Figure:
    """Time and bytes of a read against the number of columns asked for: files of ours, and the others."""
    asked = columns_asked(results, results[0].dataset)
    names = same_files(results, [peer for peer in labels if peer in OURS])
    names |= {peer: [peer] for peer in labels if peer in COLOURS and peer not in OURS}
    panels: tuple[tuple[str, Value], ...] = (
        ("read, ms", lambda r: r.best and r.best * 1e3),
        ("bytes read, MB", lambda r: r.bytes_read and r.bytes_read / 1e6),
    )
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    for axis, (title, value) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for peer, alike in names.items():
            points = sorted(
                (asked[r.work], value(r)) for r in results if r.peer == peer and r.work in asked and value(r)
            )
            if points:
                colour, line, width = (ACCENT, OURS[peer], 2.2) if peer in OURS else (COLOURS[peer], "-", 1.4)
                label = labels[peer]
                if peer in OURS:
                    kinds = (labels[each].removeprefix("smalti").removeprefix(", ") or "balanced" for each in alike)
                    label = f"smalti: {' = '.join(kinds)}"
                axis.plot(*zip(*points, strict=True), marker="o", ms=3, lw=width, ls=line, color=colour, label=label)
        finish_panel(axis, title, "columns asked for")
    add_legend(figure, 3)
    return figure


def same_files(results: list[Measurement], peers: list[str]) -> dict[str, list[str]]:
    """The first of the peers whose files and reads have the same bytes, with all of them: one line is enough."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for peer in peers:
        figures = tuple((r.work, r.file_bytes, r.bytes_read) for r in results if r.peer == peer)
        groups.setdefault(figures, []).append(peer)
    return {alike[0]: alike for alike in groups.values()}


def save(figure: Figure, path: Path) -> None:
    """The figure as SVG, its neutral colours swapped by the browser on a dark page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    rules = [
        f'[style*="{kind}: {day}"]{{{kind}:{night} !important}}'
        for day, night in NIGHT.items()
        for kind in ("fill", "stroke")
    ]
    style = f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"
    head, tag, rest = text.getvalue().partition("<defs>")
    path.write_text(head + style + tag + rest)
