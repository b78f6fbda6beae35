"""Removing what killed jobs and killed writers left behind in a table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from smalti.errors import MosaicError
from smalti.io.locations import TEMPORARY_SUFFIX, AnyFileSystem, AnyPath, Location, locate
from smalti.io.sinks import is_object_store
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, KEPT, STREAMS, new_token
from smalti.table.paimon_layout import SCHEMAS, is_paimon_table, refuse_writing, table_of_schema_file, writing_error
from smalti.table.records import MAX_NUMBER, Commit


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
        Credentials and endpoints for a URI; see `smalti.io.locations.locate`.
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
    location = locate(directory, filesystem, storage).absolute()
    refuse_writing(location)
    leftovers = list(_leftovers(location, datetime.now(UTC) - older_than))
    removed = [name for name in leftovers if _delete(location, name)]
    return clean_log(CommitLog(location), older_than) + removed


def clean_log(log: CommitLog, older_than: timedelta) -> list[str]:
    """Finish interrupted commits, and drop jobs that never committed and wrote nothing since; return their ids.

    A record that cannot be read blocks everybody else, so it is given up at once and its name returned. One that
    can be read and not carried out is given up once it is old. Until then the error is raised, after the rest of
    the work is done.
    """
    log.check_links([JOBS])
    limit = (datetime.now(UTC) - older_than).timestamp() * 10**9
    dropped, failures = [], []
    in_use: set[str] = set()
    records = log.records()
    last = max((number for number, _ in records), default=0)
    for number, entry in records:
        if number not in (0, last):
            continue
        try:
            commit = log.read_record(entry, number)
            is_end = number == MAX_NUMBER and not isinstance(commit, Commit)  # Nobody could go on from there.
        except MosaicError:
            is_end = True
        if is_end:
            log.end(Commit("none", token=entry.name[len("add-") : -len(".json")], number=number))
            dropped.append(entry.name)
            continue
        if not isinstance(commit, Commit):
            continue
        log.refuse_pending()
        log.wait_for([commit])
        try:
            log.carry_out(commit)
        except MosaicError as error:
            if entry.modified <= limit:
                log.end(commit)
                dropped.append(entry.name)
            else:
                in_use |= set(commit.jobs)
                failures.append(error)
    dropped += _drop_jobs(log, limit, in_use)
    log.forget_kept()
    if failures:
        raise failures[0]
    return sorted(dropped)


def _drop_jobs(log: CommitLog, limit: float, in_use: set[str]) -> list[str]:
    """Remove what jobs have staged before `limit` and never committed.

    A record says so first: a job that was about to commit finds its number taken, looks again, and finds its files
    gone before it has promised them to readers.
    """
    old = []
    for entry in log.entries():
        if entry.is_directory and entry.name not in {STREAMS, KEPT, *in_use}:
            # Object stores know times of files only, not of directories.
            times = [each.modified for each in (entry, *log.entries(entry.name, recursive=True))]
            if max(times) <= limit:
                old.append(entry.name)
    if old and in_use:  # A commit is pending that nobody can finish, so nobody commits.
        for job in old:
            log.discard(job)
    elif old:
        while True:
            state, _ = log.settle()
            commit = log.publish(Commit(new_token(), discard=tuple(old), time=state.time, number=state.number + 1))
            if commit is not None:
                log.carry_out(commit)
                break
    return old


def _leftovers(location: Location, limit: datetime) -> Iterator[str]:
    """The temporary files of writers that were killed. Those that a job has staged go with the other files of the job.

    Object stores have none: an upload that is not completed leaves no object.
    """
    if location.is_local:
        for directory, below, names in os.walk(location.path):  # Links to other directories are not followed.
            if Path(directory).name == JOBS:
                below.clear()
            if SCHEMAS in below and is_paimon_table(Location(location.filesystem, directory)):
                raise writing_error(directory)
            for path in (Path(directory, name) for name in names if _is_temporary(name)):
                with contextlib.suppress(FileNotFoundError):  # Its writer has finished meanwhile.
                    if datetime.fromtimestamp(path.lstat().st_mtime, UTC) <= limit:
                        yield str(path.relative_to(location.path))
    elif not is_object_store(location.filesystem):
        for entry in location.entries(recursive=True):
            table = table_of_schema_file(entry.path)
            if table is not None and is_paimon_table(Location(location.filesystem, table)):
                raise writing_error(table)
            inside = entry.path.partition(f"/{JOBS}/")[2]
            if _is_temporary(entry.name) and "/" not in inside and entry.modified <= limit.timestamp() * 10**9:
                yield entry.path.removeprefix(location.path).lstrip("/")


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def _delete(location: Location, name: str) -> bool:
    """Delete a file, unless another process that cleans was faster."""
    try:
        location.filesystem.delete_file(location.child(name).path)
    except FileNotFoundError:
        return False
    return True
