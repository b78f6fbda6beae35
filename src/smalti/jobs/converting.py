"""`convert`: files of one format to files of another, a file or a directory at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io.places import AnyFileSystem, AnyPath, Place, locate
from smalti.jobs.copying import CopyTask
from smalti.jobs.engine import Executor, choose_executor
from smalti.jobs.events import Progress
from smalti.jobs.formats.columnar import group_bytes
from smalti.jobs.formats.reading import ReadRequest, reading
from smalti.jobs.formats.registry import Format, format_of_path, format_of_source, format_of_target
from smalti.jobs.formats.sampling import agree_on_types
from smalti.jobs.planning import FileFacts, Split, plan_convert, stems
from smalti.jobs.running import CopyJob, earlier, run_copy
from smalti.jobs.staging import Staging, job_digest
from smalti.jobs.summary import JobSummary
from smalti.options import WriterOptions
from smalti.table.listing import FoundFile, Listing, list_files
from smalti.table.splits import SPLIT_BYTES, fit_split_bytes

ON_ERROR = ("raise", "skip")


def convert(
    source: Any,
    target: Any,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    engine: str = "local",
    spark: Any = None,
    options: WriterOptions | None = None,
    columns: Sequence[str] | None = None,
    types: pa.Schema | None = None,
    overwrite: bool = False,
    resume: bool = True,
    on_error: str = "raise",
    target_file_bytes: int | None = None,
    split_bytes: int = SPLIT_BYTES,
    batch_rows: int | None = None,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    filesystem: Any = None,
) -> JobSummary:
    """Convert files between Parquet, ORC, CSV, JSON lines, Arrow IPC and Mosaic, in bounded memory.

    One file to a path with a suffix stays one file. A directory becomes a directory with the same structure, hive
    partitions included; large files of formats with row groups become several, small ones share a task. Nothing is
    visible at the target before all of it is, and an interrupted job, run again, does only what is missing.

    Parameters
    ----------
    source : path, URI, glob or list of them
    target : path or URI
        Without a suffix, a directory of Mosaic files.
    source_format, target_format : {"mosaic", "parquet", "orc", "arrow", "arrows", "csv", "json"}, optional
        By default what the names say.
    engine : {"local", "spark"}
    spark : pyspark.sql.SparkSession, optional
        The session of engine "spark"; by default the active one, or a new local one.
    options : WriterOptions, optional
        How Mosaic files are written.
    columns : sequence of str, optional
        Columns to keep, in this order.
    types : pyarrow.Schema, optional
        Types of columns of CSV and JSON files that should not be guessed.
    overwrite : bool
        Whether to replace what is at the target; it stays in place until the new data is complete.
    resume : bool
        Whether to keep what an earlier, interrupted run of the same job has finished.
    on_error : {"raise", "skip"}
        What to do about files that cannot be read: fail with path and reason, or list them in the summary.
    target_file_bytes : int, optional
        Begin a new file when one has reached about this size.
    split_bytes : int
        Bytes of the source a task reads, about; less where cores would be idle.
    batch_rows : int, optional
        Rows held at once; by default what 32 MiB hold.
    workers : int, optional
        Tasks at once, with engine "local"; by default one per core.
    progress : callable, optional
        Called with a `Progress` as the job goes, one call at a time.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        Where source and target are looked up.

    Raises
    ------
    FileExistsError
        If there is something at the target and `overwrite` is not set.
    JobError
        If a file cannot be read, or written as the target's format.

    Examples
    --------
    >>> from smalti import jobs
    >>> jobs.convert("readings.csv", "readings.mosaic").num_rows
    3
    """
    if on_error not in ON_ERROR:
        raise MosaicError("unknown on_error", found=on_error, expected=" or ".join(ON_ERROR))
    for name, value in [
        ("target_file_bytes", target_file_bytes),
        ("split_bytes", split_bytes),
        ("batch_rows", batch_rows),
    ]:
        if value is not None and value < 1:
            raise MosaicError(f"{name} out of range", found=value, expected="1 at least")
    listing = list_sources(source, filesystem)
    files = listing.files
    formats = format_of_source([file.path for file in files], source_format)
    goal = locate(target, filesystem).absolute()
    format_, suffix, names_file = format_of_target(goal.path, target_format)
    single = names_file and _is_one_file(source, filesystem) and not goal.is_directory()
    root = goal.parent if single else goal
    refuse_overlap(listing, goal, single=single)
    executor = choose_executor(engine, spark, workers)
    split_bytes = fit_split_bytes(sum(file.size for file in files), executor.slots, split_bytes)
    work = {
        "job": "convert",
        "files": described(listing),
        "formats": [found.name for found, _ in formats],
        "target": [goal.path, format_.name, single],
        "options": repr((options, columns, types, target_file_bytes, split_bytes, batch_rows)),
    }
    staging = Staging(root, job_digest(work))
    done = earlier(staging, resume=resume)
    if done is not None:
        return done
    old = existing(goal, format_, single=single)
    if old and not overwrite:
        raise FileExistsError(17, "Exists; set overwrite to replace it", goal.path)
    request = ReadRequest(
        columns=None if columns is None else tuple(columns), batch_rows=batch_rows, types=types, threads=True
    )
    request = replace(request, types=agree_on_types(listing, formats, request))
    splits = _plan(listing, formats, goal, suffix, single=single, split_bytes=split_bytes, roll=target_file_bytes)
    task = CopyTask(
        listing.filesystem,
        staging,
        Split(0, ()),
        format_.name,
        suffix,
        with_threads(options, executor, len(splits)),
        replace(request, threads=executor.task_threads is None),
        skip_errors=on_error == "skip",
    )
    job = CopyJob("convert", _show(source), goal.path, splits, task, _replacing(old))
    return run_copy(job, executor, progress=progress)


def _plan(
    listing: Listing,
    formats: Sequence[tuple[Format, str]],
    goal: Place,
    suffix: str,
    *,
    single: bool,
    split_bytes: int,
    roll: int | None,
) -> list[Split]:
    facts = [
        file_facts(listing, file, found, count_groups=not single and file.size > split_bytes)
        for file, (found, _) in zip(listing.files, formats, strict=True)
    ]
    if single:
        name = goal.name[: -len(suffix)] if goal.name.lower().endswith(suffix) else goal.name
        return plan_convert(facts, [name], split_bytes=split_bytes, roll_bytes=None, cut_files=False)
    names = stems(facts, [found for _, found in formats])
    return plan_convert(facts, names, split_bytes=split_bytes, roll_bytes=roll)


def list_sources(
    source: AnyPath | Place | Sequence[AnyPath],
    filesystem: AnyFileSystem = None,
    suffix: str = "",
    *,
    globs: bool = True,
) -> Listing:
    """The visible files of a path, glob or list of them, all of them where they will stay.

    Raises
    ------
    FileNotFoundError
        If there is nothing there, or nothing visible.
    """
    sources = [source] if isinstance(source, (str, os.PathLike, Place)) else list(source)
    places = [item if isinstance(item, Place) else locate(item, filesystem).absolute() for item in sources]
    listing = list_files(places, suffix=suffix, globs=globs, settled=True)
    if not listing.files:
        raise FileNotFoundError(2, f"No {suffix or 'visible'} files", places[0].path)
    return listing


def described(listing: Listing) -> list[tuple[str, str, int, int]]:
    """What tells the sources of a job from others: if any of it changes, an interrupted job is not resumed."""
    return [(file.path, listing.relative(file), file.size, file.modified) for file in listing.files]


def file_facts(listing: Listing, file: FoundFile, format_: Format, *, count_groups: bool) -> FileFacts:
    """What planning needs to know of a file; its row groups only where they matter. A broken file fails in its task."""
    sizes: tuple[int, ...] = ()
    if count_groups and format_.grouped:
        try:
            with reading(file.path, format_.title):
                sizes = group_bytes(Place(listing.filesystem, file.path), format_.reader)
        except MosaicError:
            sizes = ()
    return FileFacts(file, listing.relative(file), format_.name, sizes)


def with_threads(options: WriterOptions | None, executor: Executor, splits: int) -> WriterOptions:
    """Options whose threads suit the engine: tasks beside each other share the cores."""
    options = options or WriterOptions()
    if options.threads is not None or executor.task_threads is None or splits == 0:
        return options
    return replace(options, threads=executor.task_threads)


def existing(goal: Place, format_: Format, *, single: bool) -> list[str]:
    """What a job would replace, relative to its root: the file, or the files of the format in the directory."""
    if single:
        return [goal.name] if goal.is_file() else []
    if goal.is_file():
        raise FileExistsError(17, "A file, where a directory is to be written", goal.path)
    try:
        listing = list_sources(goal, globs=False)
    except FileNotFoundError:
        return []
    kinds = [(file, format_of_path(file.path)) for file in listing.files]
    return [listing.relative(file) for file, kind in kinds if kind is not None and kind[0] is format_]


def _replacing(old: list[str]) -> Callable[[set[str]], Iterable[str]]:
    """Overwriting removes the files of the format that were there, and nothing else."""
    return lambda _: old


def _is_one_file(source: Any, filesystem: Any) -> bool:
    try:
        return locate(source, filesystem).is_file()
    except TypeError:
        return False


def refuse_overlap(listing: Listing, goal: Place, *, single: bool) -> None:
    """A job that replaces what it reads would read what it has replaced when it is resumed."""
    if not listing.filesystem.equals(goal.filesystem):
        return
    real = os.path.realpath if goal.is_local else str
    target = PurePosixPath(real(goal.path))
    for file in listing.files:
        path = PurePosixPath(real(file.path))
        if path == target or (not single and path.is_relative_to(target)):
            raise MosaicError("source and target overlap", path=goal.path, found=file.path)


def _show(source: Any) -> str:
    return str(source) if not isinstance(source, (list, tuple)) else ", ".join(str(item) for item in source)
