"""From a plan to a committed result: what `convert` and `compact` share once they know their splits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from smalti.errors import ConflictError, MosaicError
from smalti.jobs.copy_task import CopySettings, copy_split
from smalti.jobs.engine import Executor, run_tasks
from smalti.jobs.planning import Split
from smalti.jobs.staging import committable_files
from smalti.jobs.summary import JobError, JobSummary, SplitResult
from smalti.progress import Listener, Meter
from smalti.table.committing import Change
from smalti.table.names import new_token, unique_names
from smalti.table.staging import WrittenFile


def run_copy(
    job: JobSummary,
    splits: Sequence[Split],
    finished: Mapping[int, SplitResult],
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
    finished : mapping of int to SplitResult
        The splits that an earlier run has finished.
    change : Change
        What the result replaces. A file stays if it turns out to be a source that cannot be read.
    """
    began = time.monotonic()
    finished = {
        index: result
        for index, result in finished.items()
        # Files that an earlier run skipped are tried again, unless they may be skipped again.
        if index < len(splits) and (settings.skip_errors or not result.skipped)
    }
    meter = Meter(job.job, len(splits), sum(split.num_bytes for split in splits), progress)
    if finished:
        meter.add(0, sum(splits[index].num_bytes for index in finished), len(finished))
    target = settings.target
    settings.staging.log.check_links({output.stem.rpartition("/")[0] for split in splits for output in split.outputs})
    try:
        if target.is_file and target.has_files():
            target.restrict_staging(settings.staging.job_id, [target.location.path])
        results = run_tasks(executor, partial(copy_split, settings), splits, meter, finished)
    except (OSError, MosaicError) as error:
        if isinstance(error, MosaicError) and not settings.staging.finished_splits():
            settings.staging.discard()
        target.explain(error, settings.staging, change)
        if isinstance(error, MosaicError):
            raise JobError((error,)) from None
        raise
    files, skipped = committable_files(results)
    token = new_token()
    names = {file.staged: file.path for file in files}
    if target.is_table:
        names = unique_names(names, token)
    for name, count in Counter(names.values()).items():
        if count > 1:
            raise MosaicError("several outputs would have the same name", path=job.target, found=name)
    unread = {item.path for item in skipped}
    pieces = [piece for split in splits for output in split.outputs for piece in output.pieces]
    read = [piece for piece in pieces if piece.file.path not in unread]
    written = [WrittenFile(names[file.staged], file.num_rows, file.num_bytes) for file in files]
    summary = replace(
        job,
        num_rows=sum(file.num_rows for file in files),
        source_files=len({piece.file.path for piece in read}),
        source_bytes=sum(piece.num_bytes for piece in read),
        files=tuple(sorted(written, key=lambda file: file.path)),
        splits=len(splits),
        resumed_splits=len(finished),
        skipped=skipped,
        lost=tuple(dict.fromkeys(item for result in results for item in result.lost)),
        seconds=time.monotonic() - began,
        peak_memory=max((result.peak_memory for result in results), default=0),
    )
    if change.read is not None:  # What could not be read stays.
        stays = {piece.file.name for piece in pieces if piece.file.path in unread}
        kept_ids = {name: id_ for name, id_ in change.read.items() if change.root.child(name).path not in stays}
        change = replace(change, read=kept_ids)
        target.keep_access(files, ())
    if not files:
        if splits and (change.read or (change.mode == "overwrite" and target.has_files())):
            raise MosaicError("nothing could be read, so nothing is replaced", path=job.target, found=skipped[0].path)
        settings.staging.discard()
        return summary
    try:
        if target.is_file:
            target.put_file(settings.staging, files[0].staged, change.mode)
        else:
            change.commit(settings.staging.job_id, names, token, note=summary.to_dict())
    except ConflictError as error:
        raise error.locate(path=job.target) from None
    return summary
