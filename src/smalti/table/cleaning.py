"""Cleaning a table: interrupted commits are finished, and files of killed jobs and writers removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from smalti.errors import MosaicError
from smalti.io.locations import TEMPORARY_SUFFIX, AnyFileSystem, AnyPath, AnyStorageOptions, Location, locate
from smalti.io.sinks import is_object_store
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, KEPT, STREAMS, new_token
from smalti.table.paimon_layout import SCHEMAS, is_paimon_table, refuse_writing, table_of_schema_file, writing_error
from smalti.table.records import Commit, State


def clean(
    directory: AnyPath,
    older_than: timedelta = timedelta(days=1),
    storage_options: AnyStorageOptions = None,
    *,
    filesystem: AnyFileSystem = None,
) -> list[str]:
    """Finish commits that were interrupted, and remove the files of jobs that never committed.

    This works for jobs and for Spark's writers, and readers see the same rows before and after. It also removes
    temporary files of writers that were killed, and gives up records that cannot be read, which block everybody.

    Parameters
    ----------
    directory : path or URI
    older_than : timedelta
        Jobs and writers that have written something more recently are left alone, because they may still be running.
    storage_options, filesystem
        As in `smalti.open`.

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
        If a commit cannot be carried out and is not old enough to be given up. Everything else is cleaned before.

    Examples
    --------
    >>> from smalti import jobs
    >>> jobs.clean("readings")
    []
    """
    location = locate(directory, filesystem, storage_options).absolute()
    refuse_writing(location)
    limit = (datetime.now(UTC) - older_than).timestamp() * 10**9
    leftovers = list(_leftovers(location, limit))
    for error in location.delete_files([location.child(name).path for name in leftovers]).values():
        raise error
    log = CommitLog(location)
    log.check_links([JOBS])
    given_up, failures = _finish_commits(log, limit)
    dropped = _drop_jobs(log, limit, {job for commit, _ in failures for job in commit.jobs})
    log.delete_expired()
    if failures:
        raise failures[0][1]
    return sorted(given_up + dropped) + leftovers


def _finish_commits(log: CommitLog, limit: float) -> tuple[list[str], list[tuple[Commit, MosaicError]]]:
    """Finish interrupted commits. Return the records that were given up, and the commits that are still pending.

    A record that cannot be read blocks everybody, so it is given up at once. A commit that can be read but not carried
    out is given up once it is old.
    """
    given_up: list[str] = []
    failures: list[tuple[Commit, MosaicError]] = []
    records = log.records()
    for number, entry in [each for each in records if each[0] in (0, records[-1][0])]:
        try:
            commit = log.read_record(entry, number)
        except MosaicError:
            given_up.append(entry.name)
            continue
        if isinstance(commit, Commit):
            log.refuse_pending()
            log.wait_for(State(number, (commit,), time=entry.modified // 10**9))
            try:
                log.carry_out(commit)
            except MosaicError as error:
                if entry.modified <= limit:
                    given_up.append(entry.name)
                else:
                    failures.append((commit, error))
    for name in given_up:
        log.give_up(name)
    return given_up, failures


def _drop_jobs(log: CommitLog, limit: float, in_use: set[str]) -> list[str]:
    """Remove files that jobs have staged before `limit` and never committed. Return the ids of these jobs.

    A commit that names the jobs comes first. A dropped job that was about to commit finds its number taken, plans
    again, and finds that its staged files are gone, so that it never promises them to readers.
    """
    old = []
    for entry in log.entries(JOBS):
        if entry.is_directory and entry.name not in {STREAMS, KEPT, *in_use}:
            # Object stores know times of files only, not of directories.
            times = [each.modified for each in (entry, *log.entries(f"{JOBS}/{entry.name}", recursive=True))]
            if max(times) <= limit:
                old.append(entry.name)
    if old and in_use:  # A commit is pending that cannot be carried out, so no job can commit.
        log.discard(f"{JOBS}/{job}" for job in old)
    elif old:
        is_published = False
        while not is_published:
            state, _ = log.finish_pending()
            commit = Commit(new_token(), discard=tuple(old), time=state.time, number=state.number + 1)
            is_published = log.publish(commit)
        log.carry_out(commit)
    return old


def _leftovers(location: Location, limit: float) -> Iterator[str]:
    """Find temporary files of writers that were killed, except those that are staged and removed with their job.

    Object stores have none: an upload that is not completed leaves no object.
    """
    if location.is_local:
        for directory, below, names in os.walk(location.path):  # Links to other directories are not followed.
            if Path(directory).name == JOBS:
                below.clear()
            if SCHEMAS in below and is_paimon_table(Location(location.filesystem, directory)):
                raise writing_error(directory)
            for path in (Path(directory, name) for name in names if _is_temporary(name)):
                with contextlib.suppress(FileNotFoundError):  # The writer has finished meanwhile.
                    if path.lstat().st_mtime_ns <= limit:
                        yield str(path.relative_to(location.path))
    elif not is_object_store(location.filesystem):
        for entry in location.entries(recursive=True):
            table = table_of_schema_file(entry.path)
            if table is not None and is_paimon_table(Location(location.filesystem, table)):
                raise writing_error(table)
            inside = entry.path.partition(f"/{JOBS}/")[2]
            if _is_temporary(entry.name) and "/" not in inside and entry.modified <= limit:
                yield entry.path.removeprefix(location.path).lstrip("/")


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)
