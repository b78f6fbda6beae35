"""How many files become visible at once: staged out of sight, one record that decides, then plain renames.

A job writes below ``_mosaic_jobs/<job>/``, which no reader lists. Its commit is one small file,
``_mosaic_jobs/<job>/commit.json``, that appears whole or not at all and names every file to add and every file to
remove. From then on the job has happened: whoever finds the record may carry it out, and doing so twice is harmless.
Once carried out, the record goes and the table is a plain directory of files again. `smalti.spark` and the jobs share
this; nothing here knows Spark or the format.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from smalti.errors import MosaicError
from smalti.io import open_sink

#: Where jobs stage their files and leave their records; the name starts with an underscore, so listings pass over it.
JOBS = "_mosaic_jobs"
_RECORD = "commit.json"
_LAST = "last"
_STREAMS = "streams"
#: Renames and deletions under way at once.
_PARALLEL = 8

Mode = Literal["append", "overwrite", "dynamic"]


@dataclass(frozen=True)
class Commit:
    """What a job changes. Paths are relative to the table.

    `add` pairs the place a file was staged at with the place it goes to. `stream` and `batch` say which batch of
    which streaming query it is, if any.
    """

    job: str
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()
    stream: str | None = None
    batch: int | None = None

    def to_json(self) -> bytes:
        return json.dumps({"version": 1, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Commit:
        try:
            found = json.loads(data)
            if found.pop("version") != 1:
                raise ValueError("version")
            add = tuple((str(staged), str(final)) for staged, final in found.pop("add"))
            return cls(add=add, remove=tuple(found.pop("remove")), **found)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise MosaicError("not a commit record of this version", path=where, found=data) from None


# --- decisions ------------------------------------------------------------------------------------------------------


def staging_directory(job: str, task: str) -> str:
    """Where one attempt of one task of a job writes, relative to the table."""
    return f"{JOBS}/{job}/{task}"


def final_path(staged: str) -> str:
    """Where a staged file goes.

    Examples
    --------
    >>> final_path("_mosaic_jobs/j1/t7/day=3/part-0.mosaic")
    'day=3/part-0.mosaic'
    """
    return staged.split("/", 3)[3]


def plan_commit(
    job: str,
    staged: Iterable[str],
    existing: Iterable[str],
    mode: Mode,
    *,
    stream: str | None = None,
    batch: int | None = None,
) -> Commit:
    """Decide what a job changes.

    Parameters
    ----------
    job : str
    staged : iterable of str
        Files of the task attempts that count, as staged.
    existing : iterable of str
        Files of the table as it is.
    mode : {"append", "overwrite", "dynamic"}
        Overwriting replaces everything; dynamic, only the partitions that get new files.

    Examples
    --------
    >>> plan_commit("j", ["_mosaic_jobs/j/t/p=1/b"], ["p=1/a", "p=2/a"], "dynamic").remove
    ('p=1/a',)
    """
    add = tuple((path, final_path(path)) for path in sorted(staged))
    if mode == "append":
        remove: tuple[str, ...] = ()
    elif mode == "overwrite":
        remove = tuple(sorted(existing))
    else:
        touched = {_parent(final) for _, final in add}
        remove = tuple(sorted(path for path in existing if _parent(path) in touched))
    return Commit(job, add, remove, stream, batch)


def visible_files(listed: Iterable[str], pending: Iterable[Commit]) -> dict[str, str]:
    """The files of a table while commits may be half carried out: final path to the path it is at now.

    Examples
    --------
    >>> visible_files(["old", "b"], [Commit("j", (("s/a", "a"), ("s/b", "b")), ("old",))])
    {'b': 'b', 'a': 's/a'}
    """
    files = {path: path for path in listed}
    for commit in pending:
        for staged, final in commit.add:
            files.setdefault(final, staged)
        for path in commit.remove:
            files.pop(path, None)
    return files


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


# --- acting on them -------------------------------------------------------------------------------------------------


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

    def path(self, relative: str) -> str:
        return f"{self._root}/{relative}"

    def state(self) -> tuple[str, tuple[Commit, ...]]:
        """The last job that was carried out, and the committed ones that are not, oldest first.

        Two equal answers before and after a listing mean that the listing was not taken in the middle of a commit.
        """
        last = self._read(f"{JOBS}/{_LAST}") or b""
        records = []
        for info in self._list(JOBS):
            if info.type.name != "Directory" or info.base_name == _STREAMS:
                continue
            data = self._read(f"{JOBS}/{info.base_name}/{_RECORD}")
            if data is not None:
                where = self.path(f"{JOBS}/{info.base_name}/{_RECORD}")
                records.append((self._modified(where), Commit.from_json(data, where)))
        return last.decode(), tuple(commit for _, commit in sorted(records, key=lambda pair: pair[0]))

    def publish(self, commit: Commit) -> None:
        """The moment a job happens: its record appears."""
        self._write(f"{JOBS}/{commit.job}/{_RECORD}", commit.to_json())

    def carry_out(self, commit: Commit) -> None:
        """Put files in place, remove the ones replaced, then the record. Any number of processes may do it at once."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for directory in sorted({_parent(final) for _, final in commit.add}):
                self._filesystem.create_dir(self.path(directory), recursive=True)
            list(pool.map(lambda pair: self._move(commit.job, *pair), commit.add))
            list(pool.map(self._delete, commit.remove))
        if commit.stream is not None and commit.batch is not None:
            self._write(f"{JOBS}/{_STREAMS}/{commit.stream}", str(max(commit.batch, self._batch(commit))).encode())
        self._write(f"{JOBS}/{_LAST}", commit.job.encode())
        self.discard(commit.job)
        self.discard_staged([staged for staged, _ in commit.add])

    def recover(self) -> None:
        """Carry out what was committed by processes that died before they could."""
        for commit in self.state()[1]:
            self.carry_out(commit)

    def commit(self, commit: Commit) -> None:
        """Publish and carry out."""
        self.publish(commit)
        self.carry_out(commit)

    def abort(self, job: str) -> None:
        """Drop what a job staged; if its record is there it has happened, and is carried out instead."""
        record = f"{JOBS}/{job}/{_RECORD}"
        data = self._read(record)
        if data is None:
            self.discard(job)
        else:
            self.carry_out(Commit.from_json(data, self.path(record)))

    def discard(self, job: str) -> None:
        """Remove a job's record, then everything it staged."""
        self._delete(f"{JOBS}/{job}/{_RECORD}")
        self._delete_directory(f"{JOBS}/{job}")

    def discard_staged(self, staged: Iterable[str]) -> None:
        """Remove the directories of task attempts, and of jobs that have nothing else."""
        attempts = {"/".join(path.split("/")[:3]) for path in staged}
        for attempt in attempts:
            self._delete_directory(attempt)
        for job in {_parent(attempt) for attempt in attempts}:
            if not self._list(job):
                self._delete_directory(job)

    def has_batch(self, stream: str, batch: int) -> bool:
        """Whether a batch of a streaming query was committed."""
        pending = any(commit.stream == stream and commit.batch == batch for commit in self.state()[1])
        return pending or batch <= self._batch(Commit("", stream=stream))

    def clean(self, older_than: timedelta) -> list[str]:
        """Carry out committed jobs, and drop what uncommitted ones staged before so long ago. Returns the dropped."""
        self.recover()
        limit = datetime.now(timezone.utc) - older_than
        dropped = []
        for info in self._list(JOBS):
            if info.type.name == "Directory" and info.base_name != _STREAMS:
                newest = max(
                    (entry.mtime for entry in [info, *self._list(f"{JOBS}/{info.base_name}", True)]), default=limit
                )
                if newest <= limit:
                    self.discard(info.base_name)
                    dropped.append(info.base_name)
        return sorted(dropped)

    # --- the file system --------------------------------------------------------------------------------------------

    def _batch(self, commit: Commit) -> int:
        data = self._read(f"{JOBS}/{_STREAMS}/{commit.stream}")
        return int(data) if data else -1

    def _list(self, directory: str, recursive: bool = False) -> Sequence[Any]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.path(directory), recursive=recursive, allow_not_found=True)
        found: Sequence[Any] = self._filesystem.get_file_info(selector)
        return found

    def _modified(self, path: str) -> tuple[int, str]:
        return (self._filesystem.get_file_info(path).mtime_ns or 0, path)

    def _read(self, relative: str) -> bytes | None:
        try:
            with self._filesystem.open_input_stream(self.path(relative)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def _write(self, relative: str, data: bytes) -> None:
        path = self.path(relative)
        self._filesystem.create_dir(_parent(path), recursive=True)
        sink = open_sink(path, self._filesystem)
        sink.write(data)
        sink.commit()

    def _move(self, job: str, staged: str, final: str) -> None:
        try:
            self._filesystem.move(self.path(staged), self.path(final))
        except FileNotFoundError:
            # Another process carries out the same record; if the record is gone too, later jobs may have followed.
            moved = self._filesystem.get_file_info(self.path(final)).type.name == "File"
            if not moved and self._read(f"{JOBS}/{job}/{_RECORD}") is not None:
                raise MosaicError("a committed file has gone", path=self.path(staged)) from None

    def _delete(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # whoever else carries out the same record was faster
            self._filesystem.delete_file(self.path(relative))

    def _delete_directory(self, relative: str) -> None:
        # A task that outlives its job may be writing there still. What stays is invisible, and `clean` takes it later.
        with contextlib.suppress(OSError):
            self._filesystem.delete_dir(self.path(relative))
