"""`verify`: whether files are what they claim to be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

from smalti.errors import MosaicError
from smalti.io.places import Place
from smalti.jobs.checking import CheckTask, FileReport, Problem, check
from smalti.jobs.engine import choose_executor
from smalti.jobs.events import Meter, Progress
from smalti.jobs.formats.columnar import group_bytes
from smalti.jobs.formats.reading import reading
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.splits import SPLIT_BYTES, cut_groups, fit_split_bytes
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import SourceFile, list_sources

__all__ = ["FileReport", "Problem", "VerifyReport", "verify"]


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
    base, files = list_sources(sources, filesystem, FILE_SUFFIX)
    executor = choose_executor(engine, spark, workers)
    split_bytes = fit_split_bytes(sum(file.num_bytes for file in files), executor.slots, split_bytes)
    tasks = [task for file in files for task in _plan(base.filesystem, file, split_bytes)]
    meter = Meter("verify", len(tasks), sum(task.num_bytes for task in tasks), progress)
    results = dict(executor.run(check, tasks, meter))
    found: dict[str, list[FileReport]] = {file.path: [] for file in files}
    for index in sorted(results):
        found[tasks[index].path].append(results[index])
    return VerifyReport(tuple(reduce(add, parts) for parts in found.values()), executor.name, time.monotonic() - began)


def _plan(filesystem: Any, file: SourceFile, split_bytes: int) -> list[CheckTask]:
    """The tasks of one file: several for a large file. A file that cannot be opened is one task, which says why."""
    try:
        with reading(file.path, "Mosaic"):
            sizes = group_bytes(Place(filesystem, file.path), FORMATS["mosaic"].reader)
    except MosaicError:
        sizes = ()
    size = file.num_bytes
    return [
        CheckTask(filesystem, file.path, size, sum(sizes[i] for i in part) or size, part, first=number == 0)
        for number, part in enumerate(cut_groups(sizes, split_bytes) or [()])
    ]
