"""Removing what killed jobs and killed writers left behind in a table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from smalti.errors import MosaicError
from smalti.io.places import TEMPORARY_SUFFIX, AnyFileSystem, AnyPath, Place, locate
from smalti.io.sinks import is_object_store
from smalti.table.commit_log import CommitLog
from smalti.table.commits import JOBS, MAX_NUMBER, STREAMS, staging_job
from smalti.table.paimon_layout import SCHEMAS, is_paimon_table, refuse_writing, table_of_schema_file, writing_error


def clean(
    directory: AnyPath,
    older_than: timedelta = timedelta(days=1),
    storage: Mapping[str, str] | None = None,
    *,
    filesystem: AnyFileSystem = None,
) -> list[str]:
    """Finish commits that were interrupted, and remove the files of jobs that never committed.

    This works for jobs and for Spark's writers, and readers see the same rows before and after. It also removes
    temporary files of writers that were killed, and records of commits that cannot be read.

    Parameters
    ----------
    directory : path or URI
    older_than : timedelta
        Jobs and writers that have written something more recently are left alone, because they may still be running.
    storage : mapping, optional
        Credentials and endpoints for a URI; see `smalti.io.places.locate`.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional

    Returns
    -------
    list of str
        The ids of the jobs whose files were removed, then the names of records and temporary files.

    Raises
    ------
    ConflictError
        If a commit is pending on a file system where only one process may write at a time.
    PaimonTableError
        If there is a Paimon table in the directory or above it.
    MosaicError
        If a commit cannot be carried out and its record is not old. Everything else is cleaned all the same.

    Examples
    --------
    >>> from smalti import jobs
    >>> jobs.clean("readings")
    []
    """
    place = locate(directory, filesystem, storage).absolute()
    refuse_writing(place)
    leftovers = list(_leftovers(place, datetime.now(timezone.utc) - older_than))
    removed = [name for name in leftovers if _delete(place, name)]
    return clean_log(CommitLog(place), older_than) + removed


def clean_log(log: CommitLog, older_than: timedelta) -> list[str]:
    """Finish interrupted commits, and drop jobs that never committed and wrote nothing since; return their ids.

    A record that cannot be read blocks everybody else, so it is given up at once and its name returned. One that
    can be read and not carried out is given up once it is old. Until then the error is raised, after the rest of
    the work is done.
    """
    log.check_links([JOBS])
    limit = datetime.now(timezone.utc) - older_than
    dropped, failures = [], []
    in_use: set[str] = set()
    infos = log.records()
    last = max((number for number, _ in infos), default=0)
    for number, info in infos:
        if not info.size and number == MAX_NUMBER:  # Nobody has come so far, and nobody could go on from here.
            log.end(number, info.base_name)
            dropped.append(info.base_name)
        if not info.size or number not in (0, last):
            continue
        try:
            commit = log.read_record(info.base_name, number)
        except MosaicError:
            log.end(number, info.base_name)
            dropped.append(info.base_name)
            continue
        if commit is None:
            continue
        log.refuse_pending()
        try:
            log.carry_out(commit)
        except MosaicError as error:
            if info.mtime is not None and info.mtime <= limit:
                log.end(number, info.base_name)
                dropped.append(info.base_name)
            else:
                in_use |= {commit.job, *(staging_job(staged) for staged, _ in commit.add)}
                failures.append(error)
    for info in log.entries(JOBS):
        if info.type.name == "Directory" and info.base_name not in {STREAMS, *in_use}:
            entries = [info, *log.entries(f"{JOBS}/{info.base_name}", recursive=True)]
            # Object stores know times of files only, not of directories.
            times = [entry.mtime for entry in entries if entry.mtime is not None]
            if not times or max(times) <= limit:
                log.discard(info.base_name)
                dropped.append(info.base_name)
    if failures:
        raise failures[0]
    return sorted(dropped)


def _leftovers(place: Place, limit: datetime) -> Iterator[str]:
    """The temporary files of writers that were killed. Those that a job has staged go with the other files of the job.

    Object stores have none: an upload that is not completed leaves no object.
    """
    if place.is_local:
        for directory, below, names in os.walk(place.path):  # Links to other directories are not followed.
            if Path(directory).name == JOBS:
                below.clear()
            if SCHEMAS in below and is_paimon_table(Place(place.filesystem, directory)):
                raise writing_error(directory)
            for path in (Path(directory, name) for name in names if _is_temporary(name)):
                with contextlib.suppress(FileNotFoundError):  # Its writer has finished meanwhile.
                    if datetime.fromtimestamp(path.lstat().st_mtime, timezone.utc) <= limit:
                        yield str(path.relative_to(place.path))
    elif not is_object_store(place.filesystem):
        for info in place.entries(recursive=True):
            table = table_of_schema_file(info.path)
            if table is not None and is_paimon_table(Place(place.filesystem, table)):
                raise writing_error(table)
            inside = info.path.partition(f"/{JOBS}/")[2]
            if _is_temporary(info.base_name) and "/" not in inside and info.mtime is not None and info.mtime <= limit:
                yield info.path.removeprefix(place.path).lstrip("/")


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def _delete(place: Place, name: str) -> bool:
    """Delete a file, unless another process that cleans was faster."""
    try:
        place.filesystem.delete_file(place.child(name).path)
    except FileNotFoundError:
        return False
    return True
