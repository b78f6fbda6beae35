"""From a plan to a committed result: what `convert` and `compact` share once they know their splits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from smalti.errors import MosaicError
from smalti.jobs.copying import CopySettings, copy_split
from smalti.jobs.engine import Executor
from smalti.jobs.events import Meter, Progress
from smalti.jobs.planning import Split
from smalti.jobs.staging import committable_files
from smalti.jobs.summary import JobError, JobSummary, SplitResult, WrittenFile


@dataclass(frozen=True)
class CopyJob:
    """A job that writes files, planned.

    Attributes
    ----------
    settings : CopySettings
        What all tasks have in common.
    replaces : mapping of str to str
        The files that the result replaces: their paths, and their names relative to the root. Those that turn out to
        be unreadable sources of the job stay.
    """

    name: str
    source: str
    target: str
    splits: Sequence[Split]
    settings: CopySettings
    replaces: Mapping[str, str]


def run_copy(job: CopyJob, executor: Executor, progress: Callable[[Progress], None] | None) -> JobSummary:
    """Run the splits that an earlier run has not finished, then commit."""
    began = time.monotonic()
    staging = job.settings.staging
    results = {
        index: result
        for index, result in staging.finished_splits().items()
        # Files that an earlier run skipped are tried again, unless they may be skipped again.
        if index < len(job.splits) and (job.settings.skip_errors or not result.skipped)
    }
    resumed = len(results)
    waiting = [split for split in job.splits if split.index not in results]
    meter = Meter(job.name, len(job.splits), sum(split.num_bytes for split in job.splits), progress)
    if resumed:
        meter.add(0, sum(split.num_bytes for split in job.splits if split.index in results), resumed)
    staging.log.check_links({output.stem.rpartition("/")[0] for split in waiting for output in split.outputs})
    failure: MosaicError | None = None
    for index, result in executor.run(partial(copy_split, job.settings), waiting, meter):
        if isinstance(result, MosaicError):
            failure = result
            break  # Leaving the loop ends the executor, which waits for the tasks that are running.
        results[waiting[index].index] = result
    if failure is not None:
        if not results and not staging.finished_splits():
            staging.discard()
        raise JobError((failure,))
    return _commit(job, executor.name, [results[split.index] for split in job.splits], resumed, began)


def _commit(job: CopyJob, engine: str, results: list[SplitResult], resumed: int, began: float) -> JobSummary:
    files, skipped = committable_files(results)
    for name, count in Counter(file.path for file in files).items():
        if count > 1:
            raise MosaicError("several outputs would have the same name", path=job.target, found=name)
    unread = {item.path for item in skipped}
    pieces = [piece for split in job.splits for output in split.outputs for piece in output.pieces]
    read = [piece for piece in pieces if piece.file.path not in unread]
    summary = JobSummary(
        job=job.name,
        engine=engine,
        source=job.source,
        target=job.target,
        num_rows=sum(file.num_rows for file in files),
        source_files=len({piece.file.path for piece in read}),
        source_bytes=sum(piece.num_bytes for piece in read),
        files=tuple(
            WrittenFile(file.path, file.num_rows, file.num_bytes) for file in sorted(files, key=attrgetter("path"))
        ),
        splits=len(job.splits),
        resumed_splits=resumed,
        skipped=skipped,
        seconds=time.monotonic() - began,
        peak_memory=max((result.peak_memory for result in results), default=0),
    )
    if not job.splits:
        return summary
    removals = [relative for path, relative in job.replaces.items() if path not in unread]
    if removals and not files:
        raise MosaicError("nothing could be read, so nothing is replaced", path=job.target, found=skipped[0].path)
    job.settings.staging.commit(files, removals, summary)
    return summary
