"""`compact`: many small Mosaic files into few, with row groups, buckets, statistics and order made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smalti.errors import MosaicError
from smalti.io.places import locate
from smalti.jobs.converting import (
    ON_ERROR,
    described,
    existing,
    file_facts,
    list_sources,
    refuse_overlap,
    with_threads,
)
from smalti.jobs.copying import CopyTask
from smalti.jobs.engine import choose_executor
from smalti.jobs.events import Progress
from smalti.jobs.formats.reading import ReadRequest
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.planning import Split, plan_compact
from smalti.jobs.running import CopyJob, earlier, run_copy
from smalti.jobs.sorting import parse_sort
from smalti.jobs.staging import Staging, finish_commits, job_digest
from smalti.jobs.summary import JobSummary
from smalti.options import WriterOptions
from smalti.spec import FILE_SUFFIX

#: The size of a file worth opening, and still small enough to be moved about.
TARGET_FILE_BYTES = 256 << 20


def compact(
    source: Any,
    target: Any = None,
    *,
    target_file_bytes: int = TARGET_FILE_BYTES,
    sort_by: str | Sequence[str | tuple[str, str]] | None = None,
    options: WriterOptions | None = None,
    engine: str = "local",
    spark: Any = None,
    overwrite: bool = False,
    resume: bool = True,
    on_error: str = "raise",
    batch_rows: int | None = None,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    filesystem: Any = None,
) -> JobSummary:
    """Gather the Mosaic files of each directory into files of about one size.

    Columns that differ between files become the union of their schemas, widened where no value changes. Files of one
    hive partition stay in it.

    Parameters
    ----------
    source : path or URI of a directory
    target : path or URI of a directory, optional
        By default the source itself: the new files appear first, then the old ones go. Files that are large enough
        already stay, unless `options` or `sort_by` ask for something else.
    target_file_bytes : int
        Size of the files to write, about.
    sort_by : str, or sequence of str or (str, "ascending" | "descending"), optional
        Order of the rows of each file, nulls last. Without `options`, these columns also get statistics.
    options : WriterOptions, optional
        Buckets, row groups, statistics and compression of the new files.
    engine, spark, overwrite, resume, on_error, batch_rows, workers, progress, filesystem
        As for `convert`.

    Examples
    --------
    >>> from smalti import jobs
    >>> summary = jobs.compact("readings", sort_by="id")
    >>> summary.source_files, len(summary.files)
    (3, 1)
    """
    if target_file_bytes < 1:
        raise MosaicError("target_file_bytes out of range", found=target_file_bytes, expected="1 at least")
    if on_error not in ON_ERROR:
        raise MosaicError("unknown on_error", found=on_error, expected=" or ".join(ON_ERROR))
    keys = parse_sort(sort_by)
    origin = locate(source, filesystem).absolute()
    in_place = target is None
    goal = origin if in_place else locate(target, filesystem).absolute()
    if origin.is_file():
        raise NotADirectoryError(20, "compact takes a directory", origin.path)
    request = job_digest(["compact", goal.path, repr((options, keys, target_file_bytes, batch_rows))])[:8]
    if in_place:
        # What was listed before an interrupted commit is not what is there now: finish it, and know it by the request.
        for job_id, finished in finish_commits(origin).items():
            if job_id.startswith(request):
                return finished
    listing = list_sources(origin, suffix=FILE_SUFFIX, globs=False)
    if not in_place and (goal.path + "/").startswith(listing.base.path.rstrip("/") + "/"):
        raise MosaicError("target lies in the source; leave it out to compact in place", path=goal.path)
    if not in_place:
        refuse_overlap(listing, goal, single=False)
    job_id = request + job_digest(described(listing))[:8]
    staging = Staging(goal, job_id)
    done = earlier(staging, resume=resume)
    if done is not None:
        return done
    mosaic = FORMATS["mosaic"]
    old = [] if in_place else existing(goal, mosaic, single=False)
    if old and not overwrite:
        raise FileExistsError(17, "Exists; set overwrite to replace it", goal.path)
    executor = choose_executor(engine, spark, workers)
    facts = [file_facts(listing, file, mosaic, count_groups=True) for file in listing.files]
    rewrite_all = not in_place or options is not None or bool(keys)
    splits, read = plan_compact(facts, target_bytes=target_file_bytes, label=job_id[8:], rewrite_all=rewrite_all)
    relative = {file.file.path: file.relative for file in read}

    def removals(used: set[str]) -> list[str]:
        return [relative[path] for path in sorted(used)] if in_place else old

    task = CopyTask(
        listing.filesystem,
        staging,
        Split(0, ()),
        "mosaic",
        FILE_SUFFIX,
        with_threads(options, executor, len(splits)),
        ReadRequest(batch_rows=batch_rows, threads=executor.task_threads is None),
        sort_by=keys,
        keep_key_statistics=options is None,
        skip_errors=on_error == "skip",
    )
    return run_copy(CopyJob("compact", origin.path, goal.path, splits, task, removals), executor, progress=progress)
