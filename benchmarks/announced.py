"""The figures that Mosaic's announcement published, as data, and the table that puts ours beside them.

They were taken on another machine, with other values in the table and, for Parquet and ORC, by other (Java) libraries:
the ratios within a row can be compared, and the figures themselves cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.measure import Measurement


@dataclass(frozen=True)
class Published:
    """A line of the announcement: seconds of a read, or bytes of a file, for the three formats it compares."""

    dataset: str
    work: str
    parquet: float
    orc: float
    mosaic: float

    @property
    def is_size(self) -> bool:
        return self.work == "write"


PUBLISHED = (
    Published("wide-10", "write", 9_696e3, 6_377e3, 654e3),
    Published("wide-500", "write", 57.4e6, 95.4e6, 11.5e6),
    Published("wide-500", "read-10", 53_170e-6, 72_729e-6, 25_081e-6),
    Published("wide-500", "read-1", 50_919e-6, 70_712e-6, 2_374e-6),
    Published("wide-4500", "write", 458.4e6, 827.9e6, 100.2e6),
    Published("wide-4500", "read-10", 369_627e-6, 89_344e-6, 67_314e-6),
    Published("wide-4500", "read-1", 360_458e-6, 81_934e-6, 26_924e-6),
)

# Whose figures stand beside the published ones, in this order.
HERE = ("parquet", "orc", "reference", "smalti")


def beside(results: Iterable[Measurement]) -> list[tuple[Published, list[float | None]]]:
    """The published lines that this run measured too, each with the figures of ``HERE``: best times, sizes."""
    known = {(result.dataset, result.work, result.peer): result for result in results}
    lines = []
    for line in PUBLISHED:
        found = [known.get((line.dataset, line.work, peer)) for peer in HERE]
        figures = [result and (result.file_bytes if line.is_size else result.best) for result in found]
        if any(figures):
            lines.append((line, figures))
    return lines
