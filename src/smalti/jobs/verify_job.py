"""`verify`: whether files are what they claim to be."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

from smalti.io.locations import AnyFileSystem, AnyStorageOptions, chosen
from smalti.jobs.engine import AnySession, choose_executor
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.source_files import AnySource, list_sources, pieces_of
from smalti.jobs.verify_task import CheckTask, FileReport, Problem, check
from smalti.progress import Listener, Meter
from smalti.sizes import SPLIT_BYTES
from smalti.spec import FILE_SUFFIX
from smalti.table.splits import fit_split_bytes

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
    sources: AnySource,
    *,
    engine: str = "local",
    spark: AnySession = None,
    split_bytes: int = SPLIT_BYTES,
    workers: int | None = None,
    progress: Listener | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    plain: bool = False,
) -> VerifyReport:
    """Check Mosaic files: every checksum, every value, every statistic, and the rules of the format.

    Problems with the content of files are not raised: the report lists them, each with its place.

    Parameters
    ----------
    sources : path, URI, glob or list of them
        Files with any name, and directories, in which the ``.mosaic`` files are checked.
    engine, spark, split_bytes, workers, progress, filesystem, storage_options, plain
        As for `convert`.

    Examples
    --------
    >>> from smalti import jobs
    >>> report = jobs.verify("readings")
    >>> report.ok, len(report.files)
    (True, 3)
    """
    filesystem = chosen(filesystem, storage_options)
    began = time.monotonic()
    listing = list_sources(sources, filesystem, FILE_SUFFIX, plain=plain)
    files = listing.files
    executor = choose_executor(engine, spark, workers)
    split_bytes = fit_split_bytes(sum(file.size for file in files), executor.slots, split_bytes)
    tasks = [
        CheckTask(listing.filesystem, piece, first=not at)
        for pieces in pieces_of(listing, [(FORMATS["mosaic"], FILE_SUFFIX)] * len(files), split_bytes)
        for at, piece in enumerate(pieces)
    ]
    meter = Meter("verify", len(tasks), sum(task.piece.num_bytes for task in tasks), progress)
    with closing(executor.run(check, tasks, meter)) as checked:
        results = dict(checked)
    found: dict[str, list[FileReport]] = {file.path: [] for file in files}
    for index in sorted(results):
        found[tasks[index].piece.file.path].append(results[index])
    return VerifyReport(tuple(reduce(add, parts) for parts in found.values()), executor.name, time.monotonic() - began)
