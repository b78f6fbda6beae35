"""The commits of one table, read, decided and carried out: the acting half of `smalti.table.commits`."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from smalti.errors import ConflictError, MosaicError, UnsupportedFeatureError
from smalti.io import Place, open_sink, write_whole
from smalti.io.places import sync_directory
from smalti.io.replacing import keep_access
from smalti.table.commits import (
    JOBS,
    MAX_NUMBER,
    STREAMS,
    Commit,
    State,
    check_inside,
    record_name,
    record_number,
    staging_job,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

#: Renames and deletions under way at once.
_PARALLEL = 8
#: A commit that others were faster than is planned again; more often than this and the table is too busy.
_MAX_ATTEMPTS = 100
#: The longest wait before that, in seconds.
_LONGEST_WAIT = 0.5
#: A record that has gone before it is read is looked for again; more often than this and something else is wrong.
_MAX_LOOKS = 100
#: How long the process that has written a record is given to carry it out by itself, in seconds.
PATIENCE = 0.2
#: Numbered records that are kept, and how often older ones are removed. Only the last one counts; the others say which
#: jobs have committed of late, and tell a process that was slow that its number is taken.
_RECORDS_KEPT = 16
#: Batches of a stream that are remembered one by one. Older batches are implied by the newest number.
_BATCHES_KEPT = 10
_COPY_BYTES = 8 << 20
#: Errors that stay however often a commit is tried: it adds a file below a file, or to a path that is too long.
_HOPELESS = {errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENOTEMPTY}


class CommitLog:
    """The jobs that write to one table.

    Parameters
    ----------
    root : Place
        The table's directory.
    """

    def __init__(self, root: Place) -> None:
        self._root = Place(root.filesystem, root.path.rstrip("/"))
        #: Records that were read, by name. A record never changes.
        self._read_records: dict[str, Commit] = {}

    def path(self, relative: str) -> str:
        return f"{self._root.path}/{relative}"

    # --- looking ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """The number of the last record, and the commits that are pending.

        Two equal answers before and after a listing mean that no commit was decided or carried out during the listing.
        """
        for _ in range(_MAX_LOOKS):
            infos = self.records()
            number, last = max(((number, info) for number, info in infos if number), default=(0, None), key=_first)
            found = [] if last is None or not last.size else [(number, last)]
            found += sorted(((0, info) for number, info in infos if not number), key=lambda item: item[1].base_name)
            commits = [self.read_record(info.base_name, number) for number, info in found]
            if commits and found[0][0] and commits[0] is None:
                continue  # Others have come after this record, and it was removed.
            return State(number, tuple(commit for commit in commits if commit is not None))
        raise MosaicError("the records of commits keep changing", path=self.path(JOBS))

    def commits_since(self, number: int) -> list[Commit]:
        """The commits after record `number`, as far as records are kept."""
        later = [(found, info) for found, info in self.records() if found > number and info.size]
        commits = [self.read_record(info.base_name, found) for found, info in later]
        return [commit for commit in commits if commit is not None]

    def records(self) -> list[tuple[int, FileInfo]]:
        """All records with their numbers; 0 for those that have none."""
        return list(_records_among(self._place(JOBS).entries()))

    def read_record(self, name: str, number: int) -> Commit | None:
        """What a record says; None if there is no such record."""
        if name not in self._read_records:
            data = self._read(f"{JOBS}/{name}")
            if data is None:
                return None
            self._read_records[name] = Commit.from_json(data, self.path(f"{JOBS}/{name}"), number)
        return self._read_records[name]

    # --- deciding ---------------------------------------------------------------------------------------------------

    def commit_as_planned(self, plan: Callable[[], Commit | None]) -> None:
        """Publish a commit and carry it out; if another commit comes first, plan again.

        Parameters
        ----------
        plan : callable
            Looks at the table, as pending commits leave it, and returns what to change, or None if nothing is left to
            do. It is called again when that is no longer how the table is.
        """
        for attempt in range(_MAX_ATTEMPTS):
            commit = plan()
            published = None if commit is None else self.publish(commit)
            if published is not None:
                self.carry_out(published)
            if commit is None or published is not None:
                return
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.005 * 2**attempt)))
        raise ConflictError(
            "other jobs have committed first each time; nothing was changed. Run this job again when fewer are running",
            path=self._root.path,
            found=f"{_MAX_ATTEMPTS} attempts",
        )

    def commit(self, commit: Commit) -> None:
        """Publish a commit that is right whatever else has happened to the table, and carry it out."""
        self.commit_as_planned(lambda: replace(commit, number=self.settle() + 1))

    def publish(self, commit: Commit) -> Commit | None:
        """Write the record of a commit: from this moment the job has happened.

        Returns the commit with its number, or None if its number is taken: then others have changed the table since
        the commit was planned. A commit that could never be carried out is refused.
        """
        if commit.number is None:
            commit = replace(commit, number=self.settle() + 1)
        record = self._place(f"{JOBS}/{commit.record}")
        if commit.number is not None and commit.number > MAX_NUMBER:
            raise MosaicError("there is a record of the last number; clean the table", path=self.path(JOBS))
        check_inside(commit, record.path)
        self.check_links(_directories(commit))
        staged = [self.path(staged) for staged, _ in commit.add]
        for path, info in zip(staged, self._root.filesystem.get_file_info(staged), strict=True):
            if info.type.name != "File":
                raise ConflictError(
                    "a staged file has gone: the table was cleaned meanwhile, or another run of the same job has "
                    "committed. Nothing was changed; run this job again",
                    path=path,
                )
        self._sync(_parent(staged) for staged, _ in commit.add)
        if not commit.number:
            write_whole(record, commit.to_json())
            return commit
        if not self._create(record, commit.to_json()):
            return None
        if self._is_late(commit):
            self._delete(f"{JOBS}/{commit.record}")
            return None
        if commit.number > _RECORDS_KEPT and commit.number % _RECORDS_KEPT in (0, 1):
            self._forget_records(commit.number - _RECORDS_KEPT)
        return commit

    def _create(self, record: Place, data: bytes) -> bool:
        record.parent.make_directory()
        try:
            return record.create_exclusively(data)
        except UnsupportedFeatureError:  # Here only one process may write at a time, as the docs say.
            if record.exists():
                return False
            write_whole(record, data)
            return True
        except FileNotFoundError:
            return False  # Another job has removed the record, or the empty directory, in this moment.

    def _is_late(self, commit: Commit) -> bool:
        """Whether a number was free only because its record had been removed: so much has happened since the plan.

        The first record is never removed, and the others in their order. So if the one before is there, none of this
        number was removed yet. If later records are there, either somebody has carried out this commit already, or
        nobody ever will.
        """
        assert commit.number is not None
        if commit.number == 1:
            return False
        if commit.number > 2 and self._place(f"{JOBS}/{record_name(commit.number - 1)}").is_file():
            return False
        if max((number for number, _ in self.records()), default=0) <= commit.number:
            return False
        paths = [staged for staged, _ in commit.add] or list(commit.remove)
        infos = self._root.filesystem.get_file_info([self.path(path) for path in paths])
        return any(info.type.name == "File" for info in infos)

    def _forget_records(self, last: int) -> None:
        """Remove old records, up to `last`. The order matters, and the first one is kept: see `_is_late`."""
        for number in sorted(number for number, _ in self.records() if 1 < number <= last):
            self._delete(f"{JOBS}/{record_name(number)}")

    @property
    def is_exclusive(self) -> bool:
        """Whether several processes may write at the same time, because the file system can tell who was first."""
        return self._root.is_local or self._root.stores is not None

    def refuse_pending(self) -> None:
        """Raise if a commit is pending and the file system cannot tell whether its process is still at work on it."""
        if not self.is_exclusive and (pending := self.state().pending):
            raise ConflictError(
                "a commit is pending, and on this file system only one process may write at a time. If no other job is "
                "running, finish the commit with smalti.jobs.recover",
                path=self.path(f"{JOBS}/{pending[0].record}"),
            )

    # --- carrying out -----------------------------------------------------------------------------------------------

    def carry_out(self, commit: Commit) -> None:
        """Move files into place and delete the replaced ones; then the commit is over.

        Several processes may do so at once. A process that was slow stops when it finds that the commit is over,
        because later commits may have put other files at the same paths.

        Raises
        ------
        MosaicError
            If it can never be carried out. Other errors, such as a disk that is full, may be gone the next time.
        """
        try:
            self._carry_out(commit)
        except OSError as error:
            if error.errno not in _HOPELESS:
                raise
            raise MosaicError(
                "a commit cannot be carried out", path=self.path(f"{JOBS}/{commit.record}"), found=str(error)
            ) from error

    def _carry_out(self, commit: Commit) -> None:
        if not self._is_current(commit):
            return
        self.check_links(_directories(commit))
        with ThreadPoolExecutor(_PARALLEL) as pool:
            finals = {_parent(final) for _, final in commit.add}
            for directory in sorted(finals):
                self._root.filesystem.create_dir(self.path(directory), recursive=True)
            list(pool.map(lambda pair: self._move(commit, *pair), commit.add))
            for start in range(0, len(commit.remove), _PARALLEL):
                if not self._is_current(commit):
                    return
                list(pool.map(self._delete, commit.remove[start : start + _PARALLEL]))
        # The next record, or the end of this one, must not reach the disk before the renames have.
        self._sync({*finals, *map(_parent, commit.remove)})
        if commit.stream is not None and commit.batch is not None:
            self._remember(commit.stream, commit.batch)
        # The tasks of a Spark stream stage below another job than the one that commits for them. What a later run of
        # the same job stages is not among these entries: as long as this commit is current, there is none.
        jobs = sorted({commit.job, *(staging_job(staged) for staged, _ in commit.add)})
        entries = [(job, self._place(f"{JOBS}/{job}").entries()) for job in jobs]
        if not self._is_current(commit):
            return
        for job, infos in entries:
            self._delete_entries(job, infos)
        self.end(commit.number or 0, commit.record)
        self._delete_if_empty(JOBS)

    def recover(self, patience: float = 0.0) -> tuple[Commit, ...]:
        """Finish interrupted commits and return them, after `patience` seconds in which others may do so."""
        pending = self.state().pending
        end = time.monotonic() + patience
        while pending and time.monotonic() < end:
            time.sleep(0.01)
            pending = self.state().pending
        for commit in pending:
            self.carry_out(commit)
        return pending

    def settle(self) -> int:
        """Finish interrupted commits, and return the number of the last record when none is pending."""
        for _ in range(_MAX_LOOKS):
            state = self.state()
            if not state.pending:
                return state.number
            self.recover(PATIENCE)
        raise ConflictError("commits keep coming; run this job again when fewer are running", path=self._root.path)

    def abort(self, job: str) -> None:
        """Drop what a job staged. If its record is there the job has happened, and the commit is finished instead."""
        for commit in self.state().pending:
            if commit.job == job:
                self.carry_out(commit)
        self.discard(job)

    def discard(self, job: str) -> None:
        """Remove everything a job staged."""
        self.check_links([JOBS])
        self._delete_entries(job, self._place(f"{JOBS}/{job}").entries())
        self._delete_if_empty(JOBS)

    def discard_staged(self, staged: Iterable[str]) -> None:
        """Remove the directories of task attempts, and the directories of jobs that are empty then."""
        attempts = {"/".join(path.split("/")[:3]) for path in staged}
        for attempt in attempts:
            self._delete_directory(attempt)
        for job in {_parent(attempt) for attempt in attempts}:
            if not self._place(job).entries():
                self._delete_directory(job)
        self._delete_if_empty(JOBS)

    def has_batch(self, stream: str, batch: int) -> bool:
        """Whether a batch of a streaming query was committed. Batches are committed in order."""
        pending = any(commit.stream == stream and commit.batch == batch for commit in self.state().pending)
        return pending or batch <= max(self._batches(stream), default=-1)

    def end(self, number: int, name: str) -> None:
        """Say that nothing is left to do for a record. The one of the last number there is has no other after it."""
        if 0 < number < MAX_NUMBER:
            self._create(self._place(f"{JOBS}/{record_name(number + 1)}"), b"")
        else:
            self._delete(f"{JOBS}/{name}")

    def check_links(self, directories: Iterable[str]) -> None:
        """Raise if a symbolic link would lead a commit to these directories out of its table."""
        if not self._root.is_local:
            return
        root = os.path.realpath(self._root.path or "/")
        for directory in sorted(directories):
            if not PurePosixPath(os.path.realpath(self.path(directory))).is_relative_to(root):
                raise MosaicError("a commit leads out of its table, through a symbolic link", path=self.path(directory))

    # --- one step each ----------------------------------------------------------------------------------------------

    def _is_current(self, commit: Commit) -> bool:
        """Whether a commit is pending: its record is there, and no other follows it. The record need not be read."""
        names = [commit.record, *([record_name(commit.number + 1)] if commit.number else [])]
        record, *later = self._root.filesystem.get_file_info([self.path(f"{JOBS}/{name}") for name in names])
        return bool(record.type.name == "File") and all(info.type.name == "NotFound" for info in later)

    def _move(self, commit: Commit, staged: str, final: str) -> None:
        try:
            self._rename(staged, final)
        except OSError:  # Object stores do not say which kind of error it is.
            if self._place(staged).is_file():
                if self._root.is_local:
                    raise
                self._copy(staged, final)  # A store may refuse to copy a large object in one request.
                self._delete(staged)
            elif not self._place(final).is_file() and self._is_current(commit):
                raise MosaicError(
                    "a committed file has gone; to give the commit up, delete its record",
                    path=self.path(staged),
                    found=self.path(f"{JOBS}/{commit.record}"),
                ) from None

    def _rename(self, staged: str, final: str) -> None:
        if self._root.is_local:
            keep_access(Path(self.path(staged)), Path(self.path(final)))
        self._root.filesystem.move(self.path(staged), self.path(final))

    def _copy(self, staged: str, final: str) -> None:
        """Copy through this machine; a copy that fails half way leaves what was there."""
        sink = open_sink(self.path(final), self._root.filesystem)
        try:
            with self._root.filesystem.open_input_stream(self.path(staged), compression=None) as source:
                while data := source.read(_COPY_BYTES):
                    sink.write(data)
            sink.commit()
        except BaseException:
            sink.abort()
            raise

    def _remember(self, stream: str, batch: int) -> None:
        """Remember a batch by a file of its own, so that an older batch that is written late changes nothing."""
        write_whole(self._place(f"{JOBS}/{STREAMS}/{stream}/{batch}"), b"")
        for old in self._batches(stream):
            if old < batch - _BATCHES_KEPT:
                self._delete(f"{JOBS}/{STREAMS}/{stream}/{old}")

    def _batches(self, stream: str) -> list[int]:
        names = [info.base_name for info in self._place(f"{JOBS}/{STREAMS}/{stream}").entries()]
        return [int(name) for name in names if name.isdecimal()]

    # --- the file system --------------------------------------------------------------------------------------------

    def entries(self, relative: str, *, recursive: bool = False) -> Sequence[FileInfo]:
        """What is in a directory of the table."""
        return self._place(relative).entries(recursive=recursive)

    def _place(self, relative: str) -> Place:
        return Place(self._root.filesystem, self.path(relative))

    def _read(self, relative: str) -> bytes | None:
        place = self._place(relative)
        try:
            return place.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:  # Object stores do not say which kind of error it is.
            if place.is_file():
                raise
            return None

    def _sync(self, directories: Iterable[str]) -> None:
        """Flush the names in these directories to disk, and the names of the directories that lead to them."""
        if self._root.is_local:
            paths = [PurePosixPath(path) for path in directories]
            for directory in sorted({above for path in paths for above in (path, *path.parents)}, reverse=True):
                sync_directory(Path(self.path(str(directory))))

    def _delete(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # Another process that carries out the same record was faster.
            self._root.filesystem.delete_file(self.path(relative))

    def _delete_entries(self, job: str, infos: Sequence[FileInfo]) -> None:
        """Remove what was found in the directory of a job, and the directory if it is empty then."""
        directory = Path(self.path(f"{JOBS}/{job}"))
        if self._root.is_local and directory.is_symlink():
            directory.unlink()  # Only the link, not what is in the directory that it leads to.
            return
        for info in infos:
            if info.type.name == "Directory":
                self._delete_directory(f"{JOBS}/{job}/{info.base_name}")
            else:
                self._delete(f"{JOBS}/{job}/{info.base_name}")
        if self.is_exclusive:  # A later run of the same job may be staging there; nothing of it is removed.
            self._delete_if_empty(f"{JOBS}/{job}")
        else:
            self._delete_directory(f"{JOBS}/{job}")

    def _delete_directory(self, relative: str) -> None:
        # A task that outlives its job may still be writing there. What stays is invisible, and `clean` removes it.
        with contextlib.suppress(OSError):
            local = Path(self.path(relative))
            if self._root.is_local and local.is_symlink():
                local.unlink()  # Only the link, not the directory that it leads to.
            else:
                self._root.filesystem.delete_dir(self.path(relative))

    def _delete_if_empty(self, relative: str) -> None:
        if self._root.is_local:  # Object stores have no directories.
            with contextlib.suppress(OSError):
                Path(self.path(relative)).rmdir()


def _records_among(infos: Iterable[FileInfo]) -> Iterator[tuple[int, FileInfo]]:
    for info in infos:
        if info.type.name == "File":
            number = record_number(info.base_name)
            if number is not None:
                yield number, info
            elif info.base_name.startswith("add-") and info.base_name.endswith(".json"):
                yield 0, info


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


def _directories(commit: Commit) -> set[str]:
    """The directories that a commit changes."""
    streams = set() if commit.stream is None else {f"{JOBS}/{STREAMS}/{commit.stream}"}
    paths = (*commit.remove, *(path for pair in commit.add for path in pair))
    return {JOBS, *streams, *map(_parent, paths)}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
