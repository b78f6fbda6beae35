"""The commits of one table, read, written and carried out: the acting half of `smalti.table.commits`."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import Any

from smalti.errors import MosaicError
from smalti.io import is_local
from smalti.io.places import list_directory, write_whole
from smalti.table.commits import JOBS, Commit, check_inside, needs_mark, staging_job

_RECORD = "commit.json"
_LAST = "last"
_STREAMS = "streams"
#: Renames and deletions under way at once.
_PARALLEL = 8
#: Batches of a stream that are remembered one by one; of those before, that they were.
_BATCHES_KEPT = 10
_COPY_BYTES = 8 << 20


class CommitLog:
    """The jobs of one table.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
    root : str
        The table's directory within it.
    """

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._is_local = is_local(filesystem)

    def path(self, relative: str) -> str:
        return f"{self._root}/{relative}"

    def state(self) -> tuple[str, tuple[Commit, ...]]:
        """The mark of the last commit that was carried out, and the commits that are not yet, oldest first.

        Two equal answers before and after a listing mean that the listing was not taken in the middle of a commit. The
        mark is read last, because a commit leaves its mark before its record goes.
        """
        entries = self._list(JOBS)
        records = []
        for info in entries:
            if info.type.name == "Directory" and info.base_name != _STREAMS:
                commit = self._record(info.base_name)
                if commit is not None:
                    records.append((self._modified(self._record_path(commit.job)), commit))
        mark = self._read(f"{JOBS}/{_LAST}") if entries else None
        return (mark or b"").decode(), tuple(commit for _, commit in sorted(records, key=lambda pair: pair[0]))

    def publish(self, commit: Commit) -> None:
        """The moment a job happens: its record appears. What can never be carried out is not published."""
        where = self.path(self._record_path(commit.job))
        check_inside(commit, where)
        self.check_links(_directories(commit))
        staged = [staged for staged, _ in commit.add]
        for path, info in zip(
            staged, self._filesystem.get_file_info([self.path(path) for path in staged]), strict=True
        ):
            if info.type.name != "File":
                raise MosaicError("a staged file has gone; was the table cleaned meanwhile?", path=self.path(path))
        self._write(self._record_path(commit.job), commit.to_json())

    def carry_out(self, commit: Commit) -> None:
        """Put files in place, remove the ones replaced, then the record. Any number of processes may do it at once."""
        self.check_links(_directories(commit))
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for directory in sorted({_parent(final) for _, final in commit.add}):
                self._filesystem.create_dir(self.path(directory), recursive=True)
            list(pool.map(lambda pair: self._move(commit, *pair), commit.add))
            list(pool.map(lambda path: self._remove(commit, path), commit.remove))
        if commit.stream is not None and commit.batch is not None:
            self._remember(commit.stream, commit.batch)
        if needs_mark(commit):
            self._write(f"{JOBS}/{_LAST}", uuid.uuid4().hex.encode())
        if self._stands(commit):
            self.discard(commit.job)
        # Spark's streaming tasks stage under another name than the one that commits for them.
        for job in {staging_job(staged) for staged, _ in commit.add} - {commit.job}:
            if self._record(job) is None:
                self.discard(job)

    def recover(self) -> tuple[Commit, ...]:
        """Carry out what was committed by processes that died before they could; what that was."""
        pending = self.state()[1]
        for commit in pending:
            self.carry_out(commit)
        return pending

    def commit(self, commit: Commit) -> None:
        """Publish and carry out."""
        self.publish(commit)
        self.carry_out(commit)

    def abort(self, job: str) -> None:
        """Drop what a job staged; if its record is there it has happened, and is carried out instead."""
        commit = self._record(job)
        if commit is None:
            self.discard(job)
        else:
            self.carry_out(commit)

    def discard(self, job: str) -> None:
        """Remove everything a job staged, then its record: found again, the record still has its say."""
        for info in self._list(f"{JOBS}/{job}"):
            if info.type.name == "Directory":
                self._delete_directory(f"{JOBS}/{job}/{info.base_name}")
        self._delete(self._record_path(job))
        self._delete_directory(f"{JOBS}/{job}")
        self._delete_if_empty(JOBS)

    def discard_staged(self, staged: Iterable[str]) -> None:
        """Remove the directories of task attempts, and of jobs that have nothing else."""
        attempts = {"/".join(path.split("/")[:3]) for path in staged}
        for attempt in attempts:
            self._delete_directory(attempt)
        for job in {_parent(attempt) for attempt in attempts}:
            if not self._list(job):
                self._delete_directory(job)
        self._delete_if_empty(JOBS)

    def has_batch(self, stream: str, batch: int) -> bool:
        """Whether a batch of a streaming query was committed. Batches are committed in order."""
        pending = any(commit.stream == stream and commit.batch == batch for commit in self.state()[1])
        return pending or batch <= max(self._batches(stream), default=-1)

    def clean(self, older_than: timedelta) -> list[str]:
        """Carry out committed jobs, and drop what uncommitted ones staged before so long ago. Returns the dropped."""
        self.recover()
        limit = datetime.now(timezone.utc) - older_than
        dropped = []
        for info in self._list(JOBS):
            if info.type.name == "Directory" and info.base_name != _STREAMS:
                entries = [info, *self._list(f"{JOBS}/{info.base_name}", True)]
                times = [entry.mtime for entry in entries if entry.mtime is not None]  # object stores: of files alone
                if not times or max(times) <= limit:
                    self.abort(info.base_name)
                    dropped.append(info.base_name)
        return sorted(dropped)

    # --- one step each ----------------------------------------------------------------------------------------------

    def _record_path(self, job: str) -> str:
        return f"{JOBS}/{job}/{_RECORD}"

    def _record(self, job: str) -> Commit | None:
        data = self._read(self._record_path(job))
        return None if data is None else Commit.from_json(data, self.path(self._record_path(job)), job)

    def _stands(self, commit: Commit) -> bool:
        """Whether a commit is still to be carried out: another process may have, and later jobs may have followed."""
        found = self._record(commit.job)
        return found is not None and found.token == commit.token

    def _move(self, commit: Commit, staged: str, final: str) -> None:
        try:
            self._filesystem.move(self.path(staged), self.path(final))
        except OSError:  # of which kind, object stores do not say
            if self._is_file(staged):
                if self._is_local:
                    raise
                self._copy(staged, final)  # a store may refuse to copy a large object in one go
                self._delete(staged)
            elif not self._is_file(final) and self._stands(commit):
                raise MosaicError(
                    "a committed file has gone; to give the commit up, delete its record",
                    path=self.path(staged),
                    found=self.path(self._record_path(commit.job)),
                ) from None

    def _copy(self, staged: str, final: str) -> None:
        with (
            self._filesystem.open_input_stream(self.path(staged), compression=None) as source,
            self._filesystem.open_output_stream(self.path(final), compression=None) as target,
        ):
            while data := source.read(_COPY_BYTES):
                target.write(data)

    def _remove(self, commit: Commit, path: str) -> None:
        if self._stands(commit):
            self._delete(path)

    def _remember(self, stream: str, batch: int) -> None:
        """A file for each batch: one that is written late takes nothing back."""
        self._write(f"{JOBS}/{_STREAMS}/{stream}/{batch}", b"")
        for old in self._batches(stream):
            if old < batch - _BATCHES_KEPT:
                self._delete(f"{JOBS}/{_STREAMS}/{stream}/{old}")

    def _batches(self, stream: str) -> list[int]:
        names = [info.base_name for info in self._list(f"{JOBS}/{_STREAMS}/{stream}")]
        return [int(name) for name in names if name.isdecimal()]

    def check_links(self, directories: Iterable[str]) -> None:
        """Raise if a symbolic link would lead a commit to these directories out of its table."""
        if not self._is_local:
            return
        root = os.path.realpath(self._root or "/")
        for directory in sorted(directories):
            if not PurePosixPath(os.path.realpath(self.path(directory))).is_relative_to(root):
                raise MosaicError("a commit leads out of its table, through a symbolic link", path=self.path(directory))

    # --- the file system --------------------------------------------------------------------------------------------

    def _list(self, directory: str, recursive: bool = False) -> Sequence[Any]:
        return list_directory(self._filesystem, self.path(directory), recursive=recursive)

    def _modified(self, relative: str) -> tuple[int, str]:
        return (self._filesystem.get_file_info(self.path(relative)).mtime_ns or 0, relative)

    def _is_file(self, relative: str) -> bool:
        return bool(self._filesystem.get_file_info(self.path(relative)).type.name == "File")

    def _read(self, relative: str) -> bytes | None:
        try:
            with self._filesystem.open_input_stream(self.path(relative)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def _write(self, relative: str, data: bytes) -> None:
        write_whole(self._filesystem, self.path(relative), data)

    def _delete(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # whoever else carries out the same record was faster
            self._filesystem.delete_file(self.path(relative))

    def _delete_directory(self, relative: str) -> None:
        # A task that outlives its job may be writing there still. What stays is invisible, and `clean` takes it later.
        with contextlib.suppress(OSError):
            if self._is_local and Path(self.path(relative)).is_symlink():
                Path(self.path(relative)).unlink()  # and not what it leads to
            else:
                self._filesystem.delete_dir(self.path(relative))

    def _delete_if_empty(self, relative: str) -> None:
        if self._is_local:  # object stores have no directories
            with contextlib.suppress(OSError):
                Path(self.path(relative)).rmdir()


def _directories(commit: Commit) -> set[str]:
    return {_parent(path) for path in (*commit.remove, *(path for pair in commit.add for path in pair))}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
