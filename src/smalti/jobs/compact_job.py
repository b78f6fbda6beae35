"""`compact`: many small Mosaic files into few, with new row groups, buckets, statistics and order of rows."""

from __future__ import annotations

from collections.abc import Sequence

from smalti.errors import MosaicError
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, chosen, locate
from smalti.jobs.copy_job import run_copy
from smalti.jobs.copy_task import CopySettings
from smalti.jobs.engine import AnySession, check_on_error, check_positive, choose_executor, options_for
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.formats.request import ReadRequest
from smalti.jobs.planning import SourceFile, files_alone, plan_compact
from smalti.jobs.sorting import parse_sort
from smalti.jobs.source_files import fingerprint, list_sources, source_files
from smalti.jobs.staging import Staging, job_digest
from smalti.jobs.summary import JobSummary
from smalti.jobs.target import Target, find_table
from smalti.options import WriterOptions
from smalti.progress import Listener
from smalti.sizes import FILE_BYTES
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import Listing, read_again


def compact(
    source: AnyPath,
    target: AnyPath | None = None,
    *,
    target_file_bytes: int = FILE_BYTES,
    sort_by: str | Sequence[str | tuple[str, str]] | None = None,
    options: WriterOptions | None = None,
    engine: str = "local",
    spark: AnySession = None,
    overwrite: bool = False,
    keep: float | None = None,
    resume: bool = True,
    on_error: str = "raise",
    batch_size: int | None = None,
    workers: int | None = None,
    progress: Listener | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    plain: bool = False,
) -> JobSummary:
    """Rewrite the small Mosaic files of each directory as few files of about one size.

    If columns differ between files, the new files have all of them, with types widened where no value changes. Files
    of a hive partition stay in that partition. Row groups that are large enough are copied without decoding them, in
    the layout that they have, unless `options` or `sort_by` are given; small neighbours become one.

    Parameters
    ----------
    source : path or URI of a directory
    target : path or URI of a directory, optional
        By default the source itself: the new files replace the old ones in one commit. Files that are large enough
        already stay, unless `options` or `sort_by` ask for something else.
    target_file_bytes : int
        About the size of the files to write.
    sort_by : str, or sequence of str or (str, "ascending" | "descending"), optional
        Order of the rows of each new file, nulls last. Without `options`, these columns get statistics, even in tables
        that are too wide to have them by default.
    options : WriterOptions, optional
        Buckets, row groups, statistics and compression of the new files. Without them, columns that have statistics in
        the old files keep them.
    keep : float, optional
        For how many hours the replaced files are kept where only smalti finds them, so that whoever has listed the
        table before can read on.
    engine, spark, overwrite, resume, on_error, batch_size, workers, progress, filesystem, storage_options, plain
        As for `convert`.

    Examples
    --------
    >>> from smalti import jobs
    >>> summary = jobs.compact("readings", sort_by="id")
    >>> summary.source_files, len(summary.files)
    (3, 1)
    """
    filesystem = chosen(filesystem, storage_options)
    check_on_error(on_error)
    check_positive(target_file_bytes=target_file_bytes, batch_size=batch_size, keep=keep)
    keys = parse_sort(sort_by)
    in_place = target is None
    if in_place and overwrite:
        raise MosaicError("overwrite is for a target; compaction in place replaces the files of the source")
    # What is read, and where it goes.
    root = locate(source, filesystem).absolute()
    if root.is_file():
        raise NotADirectoryError(20, "compact takes a directory", root.path)

    def find() -> tuple[Target, Listing]:
        if target is None:
            return find_table(root)
        listing = list_sources(source, filesystem, FILE_SUFFIX, globs=False, plain=plain)
        location = locate(target, filesystem).absolute()
        if f"{location.path}/".startswith(root.path.rstrip("/") + "/"):
            raise MosaicError("target lies in the source; leave it out to compact in place", path=location.path)
        goal = Target(location, FORMATS["mosaic"], FILE_SUFFIX)
        goal.refuse_overlap(listing)
        return goal, listing

    found = find()

    def find_again() -> None:
        nonlocal found
        found = find()

    rewrite_all = not in_place or options is not None or bool(keys)

    def count_groups() -> list[SourceFile]:
        goal, listing = found
        formats = [(goal.format, goal.suffix)] * len(listing.files)
        facts = source_files(listing, formats, lambda _: False)
        alone = [] if rewrite_all else files_alone(facts, target_bytes=target_file_bytes)
        opened = {file.file.path for file in alone}
        return source_files(listing, formats, lambda file: file.path in opened) if opened else facts

    facts = read_again(count_groups, find_again)  # Other jobs may replace files before they are opened.
    (goal, listing), location = found, found[0].location
    # The first half of the id says what is asked for, the second half of which files.
    request = job_digest(["compact", location.path, options, keys, target_file_bytes, batch_size])[:8]
    staging = Staging(location, request + job_digest(fingerprint(listing))[:8])
    change = None if in_place else goal.prepare(staging.job_id, overwrite=overwrite, resume=resume, keep=keep)
    if isinstance(change, JobSummary):
        return change
    if in_place and not resume:
        staging.discard()
    # Which task writes which files, and how.
    executor = choose_executor(engine, spark, workers)
    splits, read = plan_compact(facts, target_bytes=target_file_bytes, rewrite_all=rewrite_all)
    if change is None:
        change = goal.change("replace", {file.relative: file.file.id for file in read}, keep)
        if splits:
            goal.restrict_staging(staging.job_id, [file.file.path for file in read])
    settings = CopySettings(
        listing.filesystem,
        staging,
        goal,
        options_for(executor, options),
        ReadRequest(batch_size=batch_size, threads=executor.task_threads is None),
        target_file_bytes,
        sort_by=keys,
        keeps_statistics=options is None,
        skip_errors=on_error == "skip",
        copies=options is None,
        merges=True,
    )
    job = JobSummary("compact", executor.name, root.path, location.path)
    return run_copy(job, splits, staging.finished_splits().get(0, {}), settings, change, executor, progress)
