"""What queries have read, as Spark's SQL tab shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class ScanFigures:
    """One scan of a query that has run: what it asked for, and what its tasks say they have read."""

    schema: str
    files: int
    row_groups: int
    bytes: float

    @property
    def columns(self) -> list[str]:
        """The names of the columns, sorted; nested types are left out."""
        flat = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "", self.schema.removeprefix("struct<").removesuffix(">"))
        return sorted(column.partition(":")[0] for column in flat.split(",") if column)


@pytest.fixture
def touched(spark: Any) -> Callable[[], list[ScanFigures]]:
    """The scans of Mosaic tables that have run since the last call."""
    store = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsCount()

    def collect() -> list[ScanFigures]:
        nonlocal last
        spark._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        first, last = last, store.executionsCount()
        executions = store.executionsList(first, max(1, last - first))  # Spark refuses to list none.
        ids = [executions.apply(number).executionId() for number in range(executions.size())]
        return [figures for execution in ids for figures in _scans(store, execution)]

    return collect


def _scans(store: Any, execution: int) -> Iterator[ScanFigures]:
    shown = store.executionMetrics(execution)
    nodes = store.planGraph(execution).allNodes()
    for node in map(nodes.apply, range(nodes.size())):
        schema = re.search(r"ReadSchema: (struct<.*?>)(, RowGroups:| RuntimeFilters:|$)", node.desc())
        if not node.desc().startswith("BatchScan mosaic") or schema is None:
            continue
        figures = {}
        for metric in map(node.metrics().apply, range(node.metrics().size())):
            value = shown.get(metric.accumulatorId())
            figures[metric.name()] = value.get() if value.isDefined() else "0"
        number, _, unit = figures["bytes read from Mosaic files"].partition(" ")
        yield ScanFigures(
            schema[1],
            int(figures["Mosaic files read"].replace(",", "")),
            int(figures["row groups read"].replace(",", "")),
            float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit or "B"),
        )
