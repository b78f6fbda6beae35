"""The commits of one table, read, written and carried out: the acting half of `smalti.table.commits`."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePosixPath

from smalti.errors import MosaicError
from smalti.io import Place, write_whole
from smalti.table.commits import JOBS, Commit, check_inside, needs_mark, staging_job

_RECORD = "commit.json"
_LAST = "last"
_STREAMS = "streams"
#: Renames and deletions under way at once.
_PARALLEL = 8
#: Batches of a stream that are remembered one by one. Older batches are implied by the newest number.
_BATCHES_KEPT = 10
_COPY_BYTES = 8 << 20

#: When a record was written and how long it is: tells whether a record is still the same without reading it.
_Stamp = tuple[int, int]


class CommitLog:
    """The jobs that write to one table.

    Parameters
    ----------
    root : Place
        The table's directory.
    """

    def __init__(self, root: Place) -> None:
        self._root = Place(root.filesystem, root.path.rstrip("/"))

    def path(self, relative: str) -> str:
        return f"{self._root.path}/{relative}"

    def state(self) -> tuple[str, tuple[Commit, ...]]:
        """The mark of the last commit that was carried out, and the commits that are still pending, oldest first.

        Two equal answers before and after a listing mean that no commit was carried out during the listing. The mark
        is read last, because a commit leaves its mark before its record is deleted.
        """
        entries = self._place(JOBS).entries()
        jobs = [info.base_name for info in entries if info.type.name == "Directory" and info.base_name != _STREAMS]
        commits = [commit for job in jobs if (commit := self._record(job)) is not None]
        commits.sort(key=lambda commit: (self._stamp(commit.job), commit.job))
        mark = self._read(f"{JOBS}/{_LAST}") if entries else None
        return (mark or b"").decode(), tuple(commits)

    def publish(self, commit: Commit) -> None:
        """Write the record of a commit: from this moment the job has happened.

        A commit that could never be carried out is refused.
        """
        check_inside(commit, self.path(self._record_path(commit.job)))
        self.check_links(_directories(commit))
        staged = [self.path(staged) for staged, _ in commit.add]
        for path, info in zip(staged, self._root.filesystem.get_file_info(staged), strict=True):
            if info.type.name != "File":
                raise MosaicError("a staged file has gone; was the table cleaned meanwhile?", path=path)
        write_whole(self._place(self._record_path(commit.job)), commit.to_json())

    def carry_out(self, commit: Commit) -> None:
        """Move files into place, delete the replaced ones, then the record. Several processes may do so at once."""
        self.check_links(_directories(commit))
        stamp = self._stamp(commit.job)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for directory in sorted({_parent(final) for _, final in commit.add}):
                self._root.filesystem.create_dir(self.path(directory), recursive=True)
            list(pool.map(lambda pair: self._move(commit, *pair), commit.add))
            if commit.remove and self._is_current(commit):
                list(pool.map(lambda path: self._remove(commit, stamp, path), commit.remove))
        if commit.stream is not None and commit.batch is not None:
            self._remember(commit.stream, commit.batch)
        if needs_mark(commit):
            write_whole(self._place(f"{JOBS}/{_LAST}"), uuid.uuid4().hex.encode())
        if self._is_current(commit):
            self.discard(commit.job)
        # The tasks of a Spark stream stage below another job than the one that commits for them.
        for job in {staging_job(staged) for staged, _ in commit.add} - {commit.job}:
            if self._record(job) is None:
                self.discard(job)

    def recover(self) -> tuple[Commit, ...]:
        """Finish interrupted commits and return them."""
        pending = self.state()[1]
        for commit in pending:
            self.carry_out(commit)
        return pending

    def commit(self, commit: Commit) -> None:
        """Publish a commit and carry it out."""
        self.publish(commit)
        self.carry_out(commit)

    def abort(self, job: str) -> None:
        """Drop what a job staged. If its record is there the job has happened, and the commit is finished instead."""
        commit = self._record(job)
        if commit is None:
            self.discard(job)
        else:
            self.carry_out(commit)

    def discard(self, job: str) -> None:
        """Remove everything a job staged. Delete the record last, so that an interrupted discard can be resumed."""
        for info in self._place(f"{JOBS}/{job}").entries():
            if info.type.name == "Directory":
                self._delete_directory(f"{JOBS}/{job}/{info.base_name}")
        self._delete(self._record_path(job))
        self._delete_directory(f"{JOBS}/{job}")
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
        pending = any(commit.stream == stream and commit.batch == batch for commit in self.state()[1])
        return pending or batch <= max(self._batches(stream), default=-1)

    def clean(self, older_than: timedelta) -> list[str]:
        """Finish interrupted commits, and drop jobs that never committed and wrote nothing since; return their ids."""
        self.recover()
        limit = datetime.now(timezone.utc) - older_than
        dropped = []
        for info in self._place(JOBS).entries():
            if info.type.name == "Directory" and info.base_name != _STREAMS:
                entries = [info, *self._place(f"{JOBS}/{info.base_name}").entries(recursive=True)]
                # Object stores know times of files only, not of directories.
                times = [entry.mtime for entry in entries if entry.mtime is not None]
                if not times or max(times) <= limit:
                    self.abort(info.base_name)
                    dropped.append(info.base_name)
        return sorted(dropped)

    def check_links(self, directories: Iterable[str]) -> None:
        """Raise if a symbolic link would lead a commit to these directories out of its table."""
        if not self._root.is_local:
            return
        root = os.path.realpath(self._root.path or "/")
        for directory in sorted(directories):
            if not PurePosixPath(os.path.realpath(self.path(directory))).is_relative_to(root):
                raise MosaicError("a commit leads out of its table, through a symbolic link", path=self.path(directory))

    # --- records ----------------------------------------------------------------------------------------------------

    def _record_path(self, job: str) -> str:
        return f"{JOBS}/{job}/{_RECORD}"

    def _record(self, job: str) -> Commit | None:
        data = self._read(self._record_path(job))
        return None if data is None else Commit.from_json(data, self.path(self._record_path(job)), job)

    def _stamp(self, job: str) -> _Stamp:
        info = self._place(self._record_path(job)).info()
        return info.mtime_ns or 0, info.size or 0

    def _is_current(self, commit: Commit) -> bool:
        """Whether a commit is still pending: another process may have finished it, and the same job may follow."""
        found = self._record(commit.job)
        return found is not None and found.token == commit.token

    # --- one step each ----------------------------------------------------------------------------------------------

    def _move(self, commit: Commit, staged: str, final: str) -> None:
        try:
            self._root.filesystem.move(self.path(staged), self.path(final))
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
                    found=self.path(self._record_path(commit.job)),
                ) from None

    def _copy(self, staged: str, final: str) -> None:
        filesystem = self._root.filesystem
        with (
            filesystem.open_input_stream(self.path(staged), compression=None) as source,
            filesystem.open_output_stream(self.path(final), compression=None) as target,
        ):
            while data := source.read(_COPY_BYTES):
                target.write(data)

    def _remove(self, commit: Commit, stamp: _Stamp, path: str) -> None:
        """Delete a replaced file, unless the record has gone or changed meanwhile.

        In that case another process has finished the commit, and a later one may have put a new file at this path. The
        stamp is looked at and not the record itself, because a record is as long as its list of files.
        """
        if self._stamp(commit.job) == stamp:
            self._delete(path)

    def _remember(self, stream: str, batch: int) -> None:
        """Remember a batch by a file of its own, so that an older batch that is written late changes nothing."""
        write_whole(self._place(f"{JOBS}/{_STREAMS}/{stream}/{batch}"), b"")
        for old in self._batches(stream):
            if old < batch - _BATCHES_KEPT:
                self._delete(f"{JOBS}/{_STREAMS}/{stream}/{old}")

    def _batches(self, stream: str) -> list[int]:
        names = [info.base_name for info in self._place(f"{JOBS}/{_STREAMS}/{stream}").entries()]
        return [int(name) for name in names if name.isdecimal()]

    # --- the file system --------------------------------------------------------------------------------------------

    def _place(self, relative: str) -> Place:
        return Place(self._root.filesystem, self.path(relative))

    def _read(self, relative: str) -> bytes | None:
        try:
            return self._place(relative).read_bytes()
        except FileNotFoundError:
            return None

    def _delete(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # Another process that carries out the same record was faster.
            self._root.filesystem.delete_file(self.path(relative))

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


def _directories(commit: Commit) -> set[str]:
    return {_parent(path) for path in (*commit.remove, *(path for pair in commit.add for path in pair))}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
