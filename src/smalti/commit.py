"""How many files become visible at once: staged out of sight, one record that decides, then plain renames.

A job writes below ``_mosaic_jobs/<job>/``, which no reader lists. Its commit is one small file,
``_mosaic_jobs/<job>/commit.json``, that appears whole or not at all and names every file to add and every file to
remove. From then on the job has happened: `smalti.discovery` lists the files as the record says, whoever finds the
record may carry it out, and doing so twice is harmless. Once carried out, the record goes and the table is a plain
directory of files again. The Spark data source and `smalti.jobs` write this way; nothing here knows either.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from smalti.errors import MosaicError
from smalti.io import open_sink
from smalti.spec import FILE_SUFFIX

#: Where jobs stage their files and leave their records; the name starts with an underscore, so listings pass over it.
JOBS = "_mosaic_jobs"
_RECORD = "commit.json"
_LAST = "last"
_STREAMS = "streams"
#: Renames and deletions under way at once.
_PARALLEL = 8
#: Another job may remove the directory of jobs, empty, just before this one makes its own in it.
_MAKE_ATTEMPTS = 5

Mode = Literal["append", "overwrite", "dynamic"]


@dataclass(frozen=True)
class Commit:
    """What a job changes. Paths are relative to the table.

    `add` pairs the place a file was staged at with the place it goes to, where it replaces what is there. `stream` and
    `batch` say which batch of which streaming query it is, if any. `note` is the job's own, for whoever finishes it.
    """

    job: str
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()
    stream: str | None = None
    batch: int | None = None
    note: dict[str, Any] | None = None

    def to_json(self) -> bytes:
        return json.dumps({"version": 1, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str, job: str) -> Commit:
        """A record found at `where`, the place of `job`'s."""
        try:
            found = json.loads(data)
            if found.pop("version") != 1 or found["job"] != job:
                raise ValueError("of another version, or another job")
            add = tuple((str(staged), str(final)) for staged, final in found.pop("add"))
            remove = tuple(map(str, found.pop("remove")))
            batch = found.pop("batch", None)
            commit = cls(add=add, remove=remove, batch=None if batch is None else int(batch), **found)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise MosaicError("not a commit record of this version", path=where, found=data[:200]) from None
        for path in (*commit.remove, *(path for pair in add for path in pair), commit.stream or "none"):
            _check_inside(path, where)
        return commit


# --- decisions ------------------------------------------------------------------------------------------------------


def staging_directory(job: str, task: str) -> str:
    """Where one attempt of one task of a job writes, relative to the table."""
    return f"{JOBS}/{job}/{task}"


def table_of(staged: str) -> str:
    """The table that a staged file, given by its whole path, is on its way to.

    Examples
    --------
    >>> table_of("lake/sales/_mosaic_jobs/j1/t7/day=3/part-0.mosaic")
    'lake/sales'
    """
    return staged.rpartition(f"/{JOBS}/")[0]


def _check_inside(path: str, where: str) -> None:
    """A record is carried out by whoever finds it: it must not reach beyond its table."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise MosaicError("a commit record names a path outside its table", path=where, found=path)


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
    """The files of a table while commits may be half carried out: final path to the path it is at, or was a moment ago.

    What is staged comes before what has the same name already: that one is about to be replaced.

    Examples
    --------
    >>> visible_files(["old", "b"], [Commit("j", (("s/a", "a"), ("s/b", "b")), ("old",))])
    {'b': 's/b', 'a': 's/a'}
    """
    files = {path: path for path in listed}
    for commit in pending:
        for path in commit.remove:
            files.pop(path, None)
        for staged, final in commit.add:
            files[final] = staged
    return files


def needs_mark(commit: Commit) -> bool:
    """Whether a listing can fall into the middle of a commit: one change is seen or not, several may be seen in part.

    Only listings of Mosaic files follow commits; other tools, reading what was converted for them, should find nothing
    that is not theirs.
    """
    changed = [*(final for _, final in commit.add), *commit.remove]
    return len(changed) > 1 and any(path.endswith(FILE_SUFFIX) for path in changed)


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
        """The mark of the last commit that was carried out, and the commits that are not yet, oldest first.

        Two equal answers before and after a listing mean that the listing was not taken in the middle of a commit. The
        mark is read last, because a commit leaves its mark before its record goes.
        """
        entries = self._list(JOBS)
        records = []
        for info in entries:
            if info.type.name != "Directory" or info.base_name == _STREAMS:
                continue
            data = self._read(f"{JOBS}/{info.base_name}/{_RECORD}")
            if data is not None:
                where = self.path(f"{JOBS}/{info.base_name}/{_RECORD}")
                records.append((self._modified(where), Commit.from_json(data, where, info.base_name)))
        mark = self._read(f"{JOBS}/{_LAST}") if entries else None
        return (mark or b"").decode(), tuple(commit for _, commit in sorted(records, key=lambda pair: pair[0]))

    def publish(self, commit: Commit) -> None:
        """The moment a job happens: its record appears."""
        self._write(f"{JOBS}/{commit.job}/{_RECORD}", commit.to_json())

    def carry_out(self, commit: Commit) -> None:
        """Put files in place, remove the ones replaced, then the record. Any number of processes may do it at once."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for directory in sorted({_parent(final) for _, final in commit.add}):
                self._filesystem.create_dir(self.path(directory), recursive=True)
            list(pool.map(lambda pair: self._move(commit.job, *pair), commit.add))
            # Where another process was faster, later jobs may have written files of the same names since.
            if commit.remove and self._read(f"{JOBS}/{commit.job}/{_RECORD}") is not None:
                list(pool.map(self._delete, commit.remove))
        if commit.stream is not None and commit.batch is not None:
            self._write(f"{JOBS}/{_STREAMS}/{commit.stream}", str(max(commit.batch, self._batch(commit))).encode())
        if needs_mark(commit):
            self._write(f"{JOBS}/{_LAST}", uuid.uuid4().hex.encode())
        self.discard(commit.job)

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
        record = f"{JOBS}/{job}/{_RECORD}"
        data = self._read(record)
        if data is None:
            self.discard(job)
        else:
            self.carry_out(Commit.from_json(data, self.path(record), job))

    def discard(self, job: str) -> None:
        """Remove everything a job staged, then its record: found again, the record still has its say."""
        for info in self._list(f"{JOBS}/{job}"):
            if info.type.name == "Directory":
                self._delete_directory(f"{JOBS}/{job}/{info.base_name}")
        self._delete(f"{JOBS}/{job}/{_RECORD}")
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
        path = self.path(relative)
        make_directory(self._filesystem, _parent(path))
        sink = open_sink(path, self._filesystem)
        sink.write(data)
        sink.commit()

    def _move(self, job: str, staged: str, final: str) -> None:
        try:
            self._filesystem.move(self.path(staged), self.path(final))
        except OSError:  # object stores have no FileNotFoundError here
            if self._is_file(staged):
                raise
            # Another process carries out the same record; if the record is gone too, later jobs may have followed.
            if not self._is_file(final) and self._read(f"{JOBS}/{job}/{_RECORD}") is not None:
                raise MosaicError("a committed file has gone", path=self.path(staged)) from None

    def _delete(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # whoever else carries out the same record was faster
            self._filesystem.delete_file(self.path(relative))

    def _delete_directory(self, relative: str) -> None:
        # A task that outlives its job may be writing there still. What stays is invisible, and `clean` takes it later.
        with contextlib.suppress(OSError):
            self._filesystem.delete_dir(self.path(relative))

    def _delete_if_empty(self, relative: str) -> None:
        if self._filesystem.type_name == "local":  # object stores have no directories
            with contextlib.suppress(OSError):
                Path(self.path(relative)).rmdir()


def make_directory(filesystem: Any, path: str) -> None:
    """Make a directory for staged files, and those above it."""
    for attempt in range(_MAKE_ATTEMPTS):
        try:
            filesystem.create_dir(path, recursive=True)
            return
        except FileNotFoundError:
            if attempt == _MAKE_ATTEMPTS - 1:
                raise
