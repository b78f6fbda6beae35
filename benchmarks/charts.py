"""Results as SVG charts that can be read on a light and on a dark page.

Colours are fixed per peer, ours in the accent. Every chart starts from the measurements; a chart whose figures are not
there is not drawn.
"""

from __future__ import annotations

import io
from collections.abc import Callable
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
    prefix = document["profile"]
    drawn: dict[str, str] = {}

    def keep(name: str, alt: str, figure: Figure | None) -> None:
        if figure is not None:
            save(figure, out / f"{prefix}-{name}.svg")
            drawn[f"{prefix}-{name}.svg"] = alt

    with mpl.rc_context(STYLE):
        wide = [result for result in results if result.dataset == "wide-500"]
        reads = [work for work in dict.fromkeys(r.work for r in wide) if work.startswith("read-")]
        keep("read", "Time to read columns of a wide table", bars(wide, labels, reads, best, seconds))
        keep("bytes", "Bytes read for those columns", bars(wide, labels, reads, lambda r: r.bytes_read, size))
        keep("write", "Time to write a wide table", bars(wide, labels, ["write"], best, seconds))
        keep("size", "Size of the file", bars(wide, labels, ["write"], lambda r: r.file_bytes, size))
        keep("growth", "Cost against the number of columns", growth(results, labels, document["datasets"]))
    return drawn


def best(result: Measurement) -> float | None:
    return result.best


def bars(
    results: list[Measurement], labels: dict[str, str], works: list[str], value: Value, show: Callable[[Any], str]
) -> Figure | None:
    """A panel for each work, a bar for each peer, shortest on top; logarithmic, since peers differ by powers of ten."""
    panels = {}
    for work in works:
        found = {result.peer: value(result) for result in results if result.work == work}
        panels[work] = sorted(((v, peer) for peer, v in found.items() if v), reverse=True)
    panels = {work: pairs for work, pairs in panels.items() if pairs}
    if not panels:
        return None
    figure = Figure(figsize=(9, 0.5 + sum(0.3 * len(pairs) + 0.5 for pairs in panels.values())), layout="constrained")
    heights = [len(pairs) + 1 for pairs in panels.values()]
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    top = max(pairs[0][0] for pairs in panels.values())
    for axis, (work, pairs) in zip(axes, panels.items(), strict=True):
        values = [pair[0] for pair in pairs]
        axis.barh([labels[peer] for _, peer in pairs], values, color=[COLOURS[peer] for _, peer in pairs], height=0.7)
        for row, (amount, _) in enumerate(pairs):
            axis.text(amount * 1.08, row, show(amount), va="center")
        axis.set_xscale("log")
        axis.set_xlim(right=top * 4)
        axis.set_title(work, loc="left", fontsize=10, fontweight="bold")
        axis.tick_params(axis="both", length=0)
        axis.tick_params(axis="x", which="both", labelbottom=False, length=0)
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
        axis.set(xscale="log", yscale="log", xlabel="columns")
        axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axis.grid(True, alpha=0.6)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return figure


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
