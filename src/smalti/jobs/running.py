"""From a plan to a committed result: what `convert` and `compact` share once they know their splits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from smalti.errors import MosaicError
from smalti.jobs.copying import CopySettings, copy_split
from smalti.jobs.engine import Executor
from smalti.jobs.planning import Split
from smalti.jobs.staging import committable_files
from smalti.jobs.summary import JobError, JobSummary, SplitResult, WrittenFile
from smalti.jobs.target import Change
from smalti.progress import Listener, Meter


def run_copy(
    job: JobSummary,
    splits: Sequence[Split],
    settings: CopySettings,
    change: Change,
    executor: Executor,
    progress: Listener | None,
) -> JobSummary:
    """Run the splits that an earlier run has not finished, then commit.

    Parameters
    ----------
    job : JobSummary
        Says which job this is; what was done is filled in.
    change : Change
        What the result replaces. A file stays if it turns out to be a source that cannot be read.
    """
    began = time.monotonic()
    finished = {
        index: result
        for index, result in settings.staging.finished_splits().items()
        # Files that an earlier run skipped are tried again, unless they may be skipped again.
        if index < len(splits) and (settings.skip_errors or not result.skipped)
    }
    meter = Meter(job.job, len(splits), sum(split.num_bytes for split in splits), progress)
    try:
        results = _run_splits(splits, finished, settings, executor, meter)
    except (OSError, MosaicError) as error:
        change.refuse_conflict(settings.staging, error)
        raise
    files, skipped = committable_files([results[split.index] for split in splits])
    for name, count in Counter(file.path for file in files).items():
        if count > 1:
            raise MosaicError("several outputs would have the same name", path=job.target, found=name)
    unread = {item.path for item in skipped}
    pieces = [piece for split in splits for output in split.outputs for piece in output.pieces]
    read = [piece for piece in pieces if piece.file.path not in unread]
    written = [WrittenFile(file.path, file.num_rows, file.num_bytes) for file in files]
    summary = replace(
        job,
        num_rows=sum(file.num_rows for file in files),
        source_files=len({piece.file.path for piece in read}),
        source_bytes=sum(piece.num_bytes for piece in read),
        files=tuple(sorted(written, key=lambda file: file.path)),
        splits=len(splits),
        resumed_splits=len(finished),
        skipped=skipped,
        seconds=time.monotonic() - began,
        peak_memory=max((result.peak_memory for result in results.values()), default=0),
    )
    replaces = change.began.files if change.mode == "overwrite" else change.read.keys() - unread
    if replaces and not files and splits:
        raise MosaicError("nothing could be read, so nothing is replaced", path=job.target, found=skipped[0].path)
    if splits:
        change.commit(settings.staging, files, summary, unread)
    return summary


def _run_splits(
    splits: Sequence[Split],
    finished: Mapping[int, SplitResult],
    settings: CopySettings,
    executor: Executor,
    meter: Meter,
) -> dict[int, SplitResult]:
    """Run the splits that are not finished, and return the results of all."""
    results = dict(finished)
    waiting = [split for split in splits if split.index not in finished]
    if finished:
        meter.add(0, sum(split.num_bytes for split in splits if split.index in finished), len(finished))
    settings.staging.log.check_links({output.stem.rpartition("/")[0] for split in waiting for output in split.outputs})
    for index, result in executor.run(partial(copy_split, settings), waiting, meter):
        if isinstance(result, MosaicError):
            failure = result
            break  # Leaving the loop ends the executor, which waits for the tasks that are running.
        results[waiting[index].index] = result
    else:
        return results
    if not results and not settings.staging.finished_splits():
        settings.staging.discard()
    raise JobError((failure,))
