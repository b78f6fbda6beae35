"""`verify`: whether files are what they claim to be."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smalti.errors import MosaicError
from smalti.io.places import Place
from smalti.jobs.checking import CheckResult, CheckTask, Problem, check
from smalti.jobs.engine import choose_executor
from smalti.jobs.events import Meter, Progress
from smalti.jobs.formats.columnar import group_bytes
from smalti.jobs.formats.reading import content_errors
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.sources import list_sources
from smalti.report.units import show_bytes
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import FoundFile
from smalti.table.splits import SPLIT_BYTES, fit_split_bytes, pack

__all__ = ["FileReport", "Problem", "VerifyReport", "verify"]


@dataclass(frozen=True)
class FileReport:
    """What was found in one file.

    Attributes
    ----------
    frames, checksums : int
        zstd frames that were decoded, and those of them that carried a checksum to compare with.
    statistics : int
        Records of statistics that were compared with the values.
    """

    path: str
    num_bytes: int
    num_rows: int
    num_columns: int
    num_row_groups: int
    frames: int
    checksums: int
    statistics: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(str(problem) for problem in self.problems)
        return (
            f"{self.path}: ok: {self.num_rows:,} rows, {self.num_columns:,} columns, {show_bytes(self.num_bytes)}, "
            f"{self.frames:,} frames ({self.checksums:,} with checksum), {self.statistics:,} statistics"
        )


@dataclass(frozen=True)
class VerifyReport:
    """One report per file; `str` has a line per sound file and a line per problem."""

    files: tuple[FileReport, ...]
    engine: str
    seconds: float

    @property
    def ok(self) -> bool:
        return all(file.ok for file in self.files)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for file in self.files for problem in file.problems)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        return "\n".join(str(file) for file in self.files)


def verify(
    sources: Any,
    *,
    engine: str = "local",
    spark: Any = None,
    split_bytes: int = SPLIT_BYTES,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    filesystem: Any = None,
) -> VerifyReport:
    """Check Mosaic files: every checksum, every value, every statistic, and the rules of the format.

    Nothing is raised about the content of files; what is wrong is in the report, with its place.

    Parameters
    ----------
    sources : path, URI, glob or list of them
        Files, whatever their names, and directories, of which the ``.mosaic`` files are checked.
    engine, spark, split_bytes, workers, progress, filesystem
        As for `convert`.

    Examples
    --------
    >>> from smalti import jobs
    >>> report = jobs.verify("readings")
    >>> report.ok, len(report.files)
    (True, 3)
    """
    began = time.monotonic()
    listing = list_sources(sources, filesystem, FILE_SUFFIX)
    files = listing.files
    executor = choose_executor(engine, spark, workers)
    split_bytes = fit_split_bytes(sum(file.size for file in files), executor.slots, split_bytes)
    tasks = [task for file in files for task in _plan(listing.filesystem, file, split_bytes)]
    meter = Meter("verify", len(tasks), sum(task.num_bytes for task in tasks), progress)
    results: dict[int, CheckResult] = dict(executor.run(check, tasks, meter))
    found: dict[str, list[CheckResult]] = {file.path: [] for file in files}
    for index in sorted(results):
        found[tasks[index].path].append(results[index])
    reports = tuple(_gather(file, found[file.path]) for file in files)
    return VerifyReport(reports, executor.name, time.monotonic() - began)


def _plan(filesystem: Any, file: FoundFile, split_bytes: int) -> list[CheckTask]:
    """Row groups of a large file in several tasks. A file that cannot be opened is one task, which says why."""
    try:
        with content_errors(file.path, "Mosaic"):
            sizes = group_bytes(Place(filesystem, file.path), FORMATS["mosaic"].reader)
    except MosaicError:
        sizes = ()
    parts = pack(sizes, split_bytes) or [()]
    return [
        CheckTask(filesystem, file.path, sum(sizes[i] for i in part) or file.size, part, first=number == 0)
        for number, part in enumerate(parts)
    ]


def _gather(file: FoundFile, parts: Sequence[CheckResult]) -> FileReport:
    return FileReport(
        path=file.path,
        num_bytes=file.size,
        num_rows=sum(part.num_rows for part in parts),
        num_columns=max(part.num_columns for part in parts),
        num_row_groups=sum(part.num_row_groups for part in parts),
        frames=sum(part.frames for part in parts),
        checksums=sum(part.checksums for part in parts),
        statistics=sum(part.statistics for part in parts),
        problems=tuple(dict.fromkeys(problem for part in parts for problem in part.problems)),
    )
