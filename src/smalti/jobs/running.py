"""From a plan to a committed result: what `convert` and `compact` share once they know their splits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from smalti.errors import MosaicError
from smalti.jobs.copying import CopyTask, copy_split
from smalti.jobs.engine import Executor
from smalti.jobs.events import Meter, Progress
from smalti.jobs.planning import Split
from smalti.jobs.staging import Staging, finish_commits, log_of, settle, written
from smalti.jobs.summary import JobError, JobSummary, SplitResult


@dataclass(frozen=True)
class CopyJob:
    """A job that writes files, planned.

    Attributes
    ----------
    task : CopyTask
        The task of every split, but for its split.
    removals : callable
        From the source paths that went into the result to the files, relative to the root, that it replaces.
    """

    name: str
    source: str
    target: str
    splits: Sequence[Split]
    task: CopyTask
    removals: Callable[[set[str]], Iterable[str]]


def earlier(staging: Staging, *, resume: bool) -> JobSummary | None:
    """Finish commits that were interrupted; the summary, if it was this very job's. Without `resume`, start afresh."""
    summary = finish_commits(staging.root).get(staging.job_id)
    if summary is None and not resume:
        staging.discard()
    return summary


def run_copy(job: CopyJob, executor: Executor, *, progress: Callable[[Progress], None] | None) -> JobSummary:
    """Run the splits that are not done yet, then commit."""
    began = time.monotonic()
    staging = job.task.staging
    results = {
        index: result
        for index, result in staging.finished().items()
        # What an earlier run skipped is tried again, unless it may be skipped again.
        if index < len(job.splits) and (job.task.skip_errors or not result.skipped)
    }
    resumed = len(results)
    waiting = [split for split in job.splits if split.index not in results]
    meter = Meter(job.name, len(job.splits), sum(split.num_bytes for split in job.splits), progress)
    if resumed:
        meter.add(0, sum(split.num_bytes for split in job.splits if split.index in results))
        meter.finish(resumed)
    log_of(staging.root).check_links({output.stem.rpartition("/")[0] for s in waiting for output in s.outputs})
    failures: list[MosaicError] = []
    tasks = [replace(job.task, split=split) for split in waiting]
    for index, result in executor.run(copy_split, tasks, meter):
        if result.failure is not None:
            failures.append(result.failure)
            break
        results[waiting[index].index] = result
    if failures:
        if not results and not staging.finished():
            staging.discard()
        raise JobError(tuple(failures))
    return _commit(job, executor.name, [results[split.index] for split in job.splits], resumed, began)


def _commit(job: CopyJob, engine: str, results: list[SplitResult], resumed: int, began: float) -> JobSummary:
    files, skipped = settle(results)
    names = Counter(file.path for file in files)
    for name, count in names.items():
        if count > 1:
            raise MosaicError("several outputs would have the same name", path=job.target, found=name)
    missed = {item.path for item in skipped}
    sizes: dict[str, int] = {}
    for split in job.splits:
        for output in split.outputs:
            for piece in output.pieces:
                if piece.file.path not in missed:
                    sizes[piece.file.path] = sizes.get(piece.file.path, 0) + piece.num_bytes
    summary = JobSummary(
        job=job.name,
        engine=engine,
        source=job.source,
        target=job.target,
        num_rows=sum(file.num_rows for file in files),
        source_files=len(sizes),
        source_bytes=sum(sizes.values()),
        files=written(files),
        splits=len(job.splits),
        resumed_splits=resumed,
        skipped=skipped,
        seconds=time.monotonic() - began,
        peak_memory=max((result.peak_memory for result in results), default=0),
    )
    if not job.splits:
        return summary
    removals = list(job.removals(set(sizes)))
    if removals and not files:
        raise MosaicError("nothing could be read, so nothing is replaced", path=job.target, found=skipped[0].path)
    job.task.staging.commit(files, removals, summary)
    return summary
