"""`convert`: files of one format to files of another, a file or a directory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, Location, chosen, locate
from smalti.io.sinks import follow_links
from smalti.jobs.copy_job import run_copy
from smalti.jobs.copy_task import CopySettings
from smalti.jobs.engine import AnySession, check_on_error, check_positive, choose_executor, options_for
from smalti.jobs.formats.registry import FORMATS, Format, format_of_source, format_of_target
from smalti.jobs.formats.request import ReadRequest
from smalti.jobs.formats.text import with_agreed_types
from smalti.jobs.planning import Split, plan_convert, stems
from smalti.jobs.source_files import AnySource, fingerprint, is_one_file, list_sources, source_files
from smalti.jobs.staging import Staging, job_digest
from smalti.jobs.summary import JobSummary
from smalti.jobs.target import Target
from smalti.options import WriterOptions
from smalti.progress import Listener
from smalti.sizes import FILE_BYTES, SPLIT_BYTES
from smalti.table.listing import Listing
from smalti.table.opening import source_name
from smalti.table.splits import fit_split_bytes

_USUAL = vars(WriterOptions())


def convert(
    source: AnySource,
    target: AnyPath,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    engine: str = "local",
    spark: AnySession = None,
    options: WriterOptions | None = None,
    columns: Sequence[str] | None = None,
    types: pa.Schema | None = None,
    where: str | None = None,
    overwrite: bool = False,
    keep: float | None = None,
    resume: bool = True,
    on_error: str = "raise",
    target_file_bytes: int | None = FILE_BYTES,
    split_bytes: int = SPLIT_BYTES,
    batch_size: int | None = None,
    workers: int | None = None,
    progress: Listener | None = None,
    filesystem: AnyFileSystem = None,
    storage_options: AnyStorageOptions = None,
    plain: bool = False,
) -> JobSummary:
    """Convert files between Mosaic, Parquet, ORC, Arrow IPC, CSV, JSON lines and Kudu CFile, in bounded memory.

    One file becomes one file if the target has a suffix. A directory becomes a directory with the same structure,
    including hive partitions. Large files of formats with row groups become several files. All files become visible at
    the target at once. If the job is interrupted, run it again: it does only the rest. From Mosaic to Mosaic, row
    groups are copied without decoding them, all columns or some, unless `options` are given.

    Parameters
    ----------
    source : path, URI, glob or list of them
    target : path or URI
        A path without a suffix, or with a slash at its end, becomes a directory of Mosaic files. An unknown suffix is
        an error. So is the name of a file if the source is not a single file.
    source_format, target_format : {"mosaic", "parquet", "orc", "arrow", "arrows", "csv", "json", "cfile"}, optional
        By default the suffixes decide.
    engine : {"local", "spark"}
    spark : pyspark.sql.SparkSession, optional
        The session of engine "spark"; by default the active one, or a new local one.
    options : WriterOptions, optional
        How Mosaic files are written.
    columns : sequence of str, optional
        Columns to keep, in this order.
    types : pyarrow.Schema, optional
        Types of columns of CSV and JSON files; the types of other columns are guessed.
    where : str, optional
        Only rows that match this condition, such as ``"a > 5 and b like 'x%'"``.
    overwrite : bool
        Whether to replace the files at the target. They stay in place until the new files are complete.
    keep : float, optional
        For how many hours replaced Mosaic files are kept where only smalti finds them, so that whoever has listed the
        table before can read on.
    resume : bool
        Whether to keep what an earlier, interrupted run of the same job has finished.
    on_error : {"raise", "skip", "skip-columns"}
        What to do about files that cannot be read: raise an error with path and reason, or leave them out and list them
        in the summary. With "skip-columns" only those columns of Mosaic files are left out of which something cannot
        be read; to find them, files are read twice.
    target_file_bytes : int, optional
        In a directory, begin a new file when one has reached about this size; None for no limit.
    split_bytes : int
        About how many bytes of the source each task reads; less if cores would be idle.
    batch_size : int, optional
        Rows in memory at once; by default as many as 64 MiB hold.
    workers : int, optional
        Tasks at once, with engine "local"; by default one for each core.
    progress : callable or bool, optional
        Called with a `Progress` whenever the job has made progress, by one thread at a time. True draws a bar on
        stderr, as the command line does; if that is no terminal, it prints one line at the end.
    filesystem : pyarrow.fs.FileSystem, fsspec file system or obstore store, optional
        Where source and target are looked up.
    storage_options : mapping, optional
        Credentials and endpoint for URIs; see `smalti.open`.
    plain : bool
        Whether to read a Paimon table at the source as the files in its directory; see `smalti.dataset`.

    Raises
    ------
    FileExistsError
        If there are files at the target and `overwrite` is not set.
    JobError
        If a file cannot be read, or cannot be written in the target's format.

    Examples
    --------
    >>> from smalti import jobs
    >>> jobs.convert("readings.csv", "readings.mosaic").num_rows
    3
    """
    filesystem = chosen(filesystem, storage_options)
    check_on_error(on_error, "skip-columns")
    check_positive(target_file_bytes=target_file_bytes, split_bytes=split_bytes, batch_size=batch_size, keep=keep)
    # What is read, and where it goes.
    listing = list_sources(source, filesystem, plain=plain)
    formats = format_of_source([file.path for file in listing.files], source_format)
    location = locate(target, filesystem).absolute()
    is_directory = str(target).endswith("/") or location.is_directory()
    format_, suffix, names_file = format_of_target(location.path, target_format, is_directory=is_directory)
    is_file = names_file and not is_directory
    if is_file and not is_one_file(source, filesystem, listing):
        raise MosaicError(
            "a directory, a pattern or several files become a directory, and this name is that of a file",
            path=location.path,
            expected=f"{location.path}/ if a directory shall have this name",
        )
    if is_file and location.is_local:
        location = Location(location.filesystem, str(follow_links(location.path)))
    goal = Target(location, format_, suffix, is_file)
    _refuse_unused(goal, formats, options=options, types=types, keep=keep)
    goal.refuse_overlap(listing)
    # The same work has the same id on every machine, by which it finds what an earlier run has finished.
    work = {
        "job": "convert",
        "files": fingerprint(listing),
        "formats": [found.name for found, _ in formats],
        "target": [location.path, format_.name, is_file],
        "options": [options, columns, types, target_file_bytes, split_bytes, batch_size, where],
        "salvages": on_error == "skip-columns",
    }
    staging = Staging(goal.root, job_digest(work))
    change = goal.prepare(staging.job_id, overwrite=overwrite, resume=resume, keep=keep)
    if isinstance(change, JobSummary):
        return change
    # Which task writes which files, and how.
    executor = choose_executor(engine, spark, workers)
    fitting = fit_split_bytes(sum(file.size for file in listing.files), executor.slots, split_bytes)
    finished = staging.finished_splits()
    split_bytes = max(finished, key=lambda size: len(finished[size]), default=fitting)
    staging = replace(staging, split_bytes=split_bytes)
    splits = _plan(listing, formats, goal, split_bytes)
    request = ReadRequest(
        columns=None if columns is None else tuple(columns),
        batch_size=batch_size,
        types=types,
        threads=executor.task_threads is None,
        where=where,
        salvage=on_error == "skip-columns",
    )
    settings = CopySettings(
        listing.filesystem,
        staging,
        goal,
        options_for(executor, options),
        with_agreed_types(request, listing, formats),
        None if goal.is_file else target_file_bytes,
        skip_errors=on_error == "skip",
        copies=options is None,
    )
    job = JobSummary("convert", executor.name, source_name(source), location.path)
    return run_copy(job, splits, finished.get(split_bytes, {}), settings, change, executor, progress)


def _refuse_unused(
    goal: Target,
    formats: Sequence[tuple[Format, str]],
    *,
    options: WriterOptions | None,
    types: pa.Schema | None,
    keep: float | None,
) -> None:
    """Refuse arguments that have no effect for the formats of these sources and this target."""
    asked = {} if options is None else {name: value for name, value in vars(options).items() if value != _USUAL[name]}
    if asked and goal.format is not FORMATS["mosaic"]:
        reason = f"{', '.join(asked)}: options say how Mosaic is written, and the target has another format"
        raise MosaicError(reason, path=goal.location.path, found=goal.format.title, expected="Mosaic")
    if types is not None and not any(found.is_text for found, _ in formats):
        raise MosaicError("types apply to CSV and JSON lines only", found=formats[0][0].title)
    goal.refuse_for_file(keep=keep)


def _plan(listing: Listing, formats: Sequence[tuple[Format, str]], goal: Target, split_bytes: int) -> list[Split]:
    facts = source_files(listing, formats, lambda file: not goal.is_file and file.size > split_bytes)
    names = stems(facts, [suffix for _, suffix in formats])
    if goal.is_file:  # It is not cut, because its row groups were not counted.
        name = goal.location.name
        names = [name[: -len(goal.suffix)] if name.lower().endswith(goal.suffix) else name]
    return plan_convert(facts, names, split_bytes=split_bytes)
