"""The commits of one table, read, published and carried out: the acting half of `smalti.table.records`."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from smalti.errors import ConflictError, LeftoverWarning, MosaicError, UnsupportedFeatureError
from smalti.io import Location, open_sink, write_whole
from smalti.io.locations import Entry, sync_directory
from smalti.io.sinks import keep_access
from smalti.table.names import JOBS, KEPT, STREAMS, new_token
from smalti.table.records import (
    MAX_NUMBER,
    Addition,
    Checkpoint,
    Commit,
    FileId,
    State,
    check_inside,
    checkpoint_after,
    parse_record,
    record_name,
    record_number,
)

#: Files that are moved or copied at once: on a disk, and on an object store, where each is a request.
_PARALLEL, _PARALLEL_COPIES = 8, 64
#: Records that have gone before they are read are looked for again; more often than this and something else is wrong.
_MAX_LOOKS = 100
#: How old a record is before other writers carry it out, in seconds. It only saves them work that its own process is
#: doing already: nothing goes wrong if several processes carry out a commit, however slow they are.
PATIENCE = 2.0
#: Numbered records that are kept, and how often older ones are removed. Only the last ones count; the others tell a
#: process that was slow that its number is taken.
_RECORDS_KEPT = 16
_COPY_BYTES = 8 << 20
#: Errors that stay however often a commit is tried: it adds a file below a file, or to a path that is too long.
_HOPELESS = {errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENOTEMPTY}


def file_id(entry: Entry) -> FileId:
    """What tells a file that was listed from another one of its name."""
    return FileId.of(entry.size, entry.etag, entry.modified)


def staged_error(path: str) -> ConflictError:
    """The error of a job that finds a staged file gone before it has committed."""
    return ConflictError(
        "a staged file has gone: the table was cleaned meanwhile, or another run of the same job has committed. "
        "Nothing was changed; run this job again",
        path=path,
    )


class CommitLog:
    """The records of one table, whose directory is `root`."""

    def __init__(self, root: Location) -> None:
        self._root = Location(root.filesystem, root.path.rstrip("/"))
        #: Records that were read. A record never changes, but one that is transient may make room for another.
        self._read_records: dict[Entry, Commit | Checkpoint] = {}
        #: The directories beside the records, when these were last listed.
        self._directories: set[str] | None = None
        #: The records, when they were last listed.
        self._known: dict[str, Entry] = {}

    def path(self, relative: str) -> str:
        return f"{self._root.path}/{relative}"

    def _location(self, relative: str) -> Location:
        return Location(self._root.filesystem, self.path(relative))

    # --- looking ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """What the records say. Two equal answers before and after a listing mean that no commit fell into it."""
        for _ in range(_MAX_LOOKS):
            records = self.records()
            numbered = {number: entry for number, entry in records if number}
            number = max(numbered, default=0)
            last = self.read_record(numbered[number], number) if numbered else Checkpoint()
            memory = last
            if isinstance(last, Commit):
                before = numbered.get(number - 1)
                memory = Checkpoint() if before is None else self.read_record(before, number - 1)
            if last is None or memory is None:
                continue  # Others have come after this record, and it was removed.
            # Of records without a number, which an earlier version has written, several may be pending.
            old = [self.read_record(entry, 0) for number, entry in records if not number]
            pending = tuple(each for each in (last, *old) if isinstance(each, Commit))
            memory = memory if isinstance(memory, Checkpoint) else Checkpoint()
            return State(number, pending, memory, numbered[number].modified // 10**9 if numbered else 0)
        raise MosaicError("the records of commits keep changing", path=self.path(JOBS))

    def entries(self, relative: str = "", *, recursive: bool = False) -> Sequence[Entry]:
        """What is in the directory of jobs, or in one below it."""
        return self._location(f"{JOBS}/{relative}".rstrip("/")).entries(recursive=recursive)

    def _has(self, directory: str) -> bool:
        """Whether there is a directory beside the records."""
        if self._directories is None:
            self.records()
        return directory in (self._directories or ())

    def records(self) -> list[tuple[int, Entry]]:
        """All records in their order, with their numbers; 0 for those that have none."""
        entries = self.entries()
        self._directories = {entry.name for entry in entries if entry.is_directory}
        numbers = [(record_number(entry.name), entry) for entry in entries if entry.is_file]
        found = [(number, entry) for number, entry in numbers if number is not None]
        found += [(0, entry) for _, entry in numbers if entry.name.startswith("add-") and entry.name.endswith(".json")]
        self._known = {entry.name: entry for _, entry in found}
        return sorted(found, key=lambda pair: (pair[0], pair[1].name))

    def read_record(self, entry: Entry, number: int) -> Commit | Checkpoint | None:
        """What a record says; None if it has gone."""
        if entry not in self._read_records:
            data = self._read(f"{JOBS}/{entry.name}") if entry.size else b""
            if data is None:
                return None
            self._read_records[entry] = parse_record(data, self.path(f"{JOBS}/{entry.name}"), number)
        return self._read_records[entry]

    def staged(self, paths: Sequence[str]) -> dict[str, Entry]:
        """The files that a job has staged; on a store, one listing finds them all.

        Raises
        ------
        ConflictError
            If one has gone.
        """
        if self._root.stores is None:
            entries: Iterable[Entry] = self._root.infos([self.path(path) for path in paths])
        else:
            jobs = sorted({"/".join(path.split("/")[:2]) for path in paths})
            entries = [entry for job in jobs for entry in self._location(job).entries(recursive=True)]
        found = {entry.path: entry for entry in entries if entry.is_file}
        for path in paths:
            if self.path(path) not in found:
                raise staged_error(self.path(path))
        return {path: found[self.path(path)] for path in paths}

    def last_batch(self, state: State, stream: str) -> int:
        """The number of the last batch of a streaming query that was committed, -1 if there is none."""
        pending = [commit.batch for commit in state.pending if commit.stream == stream and commit.batch is not None]
        return max([*pending, state.memory.streams.get(stream, -1), self._old_batches().get(stream, -1)])

    def _old_batches(self) -> dict[str, int]:
        """The last batch of each stream where an earlier version remembers it: in a file for each batch."""
        found: dict[str, int] = {}
        for entry in self.entries(STREAMS, recursive=True) if self._has(STREAMS) else ():
            if entry.is_file and entry.name.isdecimal() and len(entry.name) < 19:
                stream = PurePosixPath(entry.path).parent.name
                found[stream] = max(int(entry.name), found.get(stream, -1))
        return found

    # --- deciding ---------------------------------------------------------------------------------------------------

    def publish(self, commit: Commit) -> Commit | None:
        """Write the record of a commit: from this moment the job has happened.

        Returns None if its number is taken: then others have changed the table since the commit was planned. A commit
        that could never be carried out is refused, and so is one to a directory that cannot be written.
        """
        record = self._location(f"{JOBS}/{commit.record}")
        if not 0 < commit.number <= MAX_NUMBER:
            raise MosaicError("there is a record of the last number; clean the table", path=self.path(JOBS))
        check_inside(commit, record.path)
        self.check_links(_directories(commit))
        self._make_directories({_parent(each.final) for each in commit.add})
        self._sync(_parent(each.staged) for each in commit.add)
        if not self._create_or_find_out(record, commit):
            return None
        if self._is_late(commit):
            self._delete([f"{JOBS}/{commit.record}"])
            return None
        if commit.number > _RECORDS_KEPT and commit.number % _RECORDS_KEPT in (0, 1):
            self._forget_records(commit.number - _RECORDS_KEPT)
        return commit

    def _create_or_find_out(self, record: Location, commit: Commit) -> bool:
        data = commit.to_json()
        try:
            return self._create(record, data)
        except OSError:
            # A store may carry out a request that it has not answered, and even do so later. A record of the same
            # number that changes nothing makes sure that it does not.
            nothing = Commit(new_token(), time=commit.time, number=commit.number)
            if self._create(record, nothing.to_json()):
                self.carry_out(nothing)
                raise
            if record.read_bytes() != data:
                raise
            return True

    def _create(self, record: Location, data: bytes) -> bool:
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
        if commit.number == 1:
            return False
        if commit.number > 2 and self._location(f"{JOBS}/{record_name(commit.number - 1)}").is_file():
            return False
        if max((number for number, _ in self.records()), default=0) <= commit.number:
            return False
        paths = [each.staged for each in commit.add] or [each.path for each in commit.remove]
        return any(entry.is_file for entry in self._root.infos([self.path(path) for path in paths]))

    def _forget_records(self, last: int) -> None:
        """Remove old records, up to `last`. The order matters, and the first one is kept: see `_is_late`."""
        for number, entry in self.records():
            if 1 < number <= last:
                self._delete([f"{JOBS}/{entry.name}"])

    @property
    def moves_by_copying(self) -> bool:
        """Whether files are moved by copies, which may still be under way when everybody else is done."""
        return not self._root.is_local

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

    def settle(self) -> tuple[State, tuple[Commit, ...]]:
        """Finish interrupted commits. Return the state in which none is pending, and the commits that were finished.

        Raises
        ------
        ConflictError
            If a commit of another job cannot be finished.
        """
        finished: tuple[Commit, ...] = ()
        for _ in range(_MAX_LOOKS):
            state = self.state()
            if not state.pending:
                return state, finished
            self.wait_for(state.pending)
            for commit in state.pending:
                try:
                    finished += (commit,) if self.carry_out(commit) else ()
                except OSError as error:
                    raise ConflictError(
                        "a commit of another job is pending and cannot be finished",
                        path=self.path(f"{JOBS}/{commit.record}"),
                        found=str(error),
                    ) from error
        raise ConflictError("commits keep coming; run this job again when fewer are running", path=self._root.path)

    def wait_for(self, pending: Iterable[Commit]) -> None:
        """Wait until commits are carried out by their own processes, or are older than `PATIENCE`."""
        for commit in pending:
            entry = self._known.get(commit.record)
            age = PATIENCE if entry is None else time.time() - entry.modified / 10**9
            end, pause = time.monotonic() + min(PATIENCE, max(0.0, PATIENCE - age)), 0.005
            while time.monotonic() < end and self._is_current(commit):
                time.sleep(pause)
                pause = min(2 * pause, 0.1)

    def finish(self, commit: Commit) -> None:
        """Carry out a commit that was just published. It has happened, so what goes wrong now is a warning."""
        try:
            self.carry_out(commit)
        except (OSError, MosaicError) as error:
            warnings.warn(
                f"{self._root.path}: the commit has happened, and all smalti readers see its rows; but it could not be "
                f"carried out yet ({error}). The next job that writes to the table tries again",
                LeftoverWarning,
                stacklevel=2,
            )

    def carry_out(self, commit: Commit) -> bool:
        """Move files into place and delete the replaced ones; then the commit is over. Return False if it was before.

        Several processes may do so at once, and each may be as slow as it likes. Files that cannot be deleted are
        remembered by the checkpoint, which hides them.

        Raises
        ------
        MosaicError
            If it can never be carried out. Other errors, such as a disk that is full, may be gone the next time.
        """
        try:
            is_pending = self._is_current(commit)
            if is_pending:
                self._carry_out(commit)
            return is_pending
        except OSError as error:
            if error.errno not in _HOPELESS:
                raise
            raise MosaicError(
                "a commit cannot be carried out", path=self.path(f"{JOBS}/{commit.record}"), found=str(error)
            ) from error

    def _carry_out(self, commit: Commit) -> None:
        self.check_links(_directories(commit))
        self._make_directories({_parent(each.final) for each in commit.add})
        with ThreadPoolExecutor(_PARALLEL if self._root.is_local else _PARALLEL_COPIES) as pool:
            list(pool.map(lambda addition: self._add(commit, addition), commit.add))
            failed = self._remove(commit, pool)
        # The next record must not reach the disk before the moves have.
        self._sync({_parent(each.final) for each in commit.add} | {_parent(each.path) for each in commit.remove})
        # What a later run of the same job stages is not among these: while the commit is pending, there is none.
        entries = [entry for job in commit.jobs for entry in self._staged_entries(job)]
        if not self._is_current(commit):
            return
        stuck = self._delete_entries(entries, commit.jobs)
        self.end(commit, failed)
        if failed or stuck:
            kinds = [
                (len(failed), "removed files, which stay hidden"),
                (len(stuck), "staged files, which clean removes"),
            ]
            counts = " and ".join(f"{count} {kind}" for count, kind in kinds if count)
            reason = next(iter({**failed, **stuck}.values()))
            warnings.warn(
                f"{self._root.path}: the commit has happened; the store keeps {counts}: {reason}",
                LeftoverWarning,
                stacklevel=4,
            )

    def end(self, commit: Commit, failed: Iterable[str] = ()) -> None:
        """Write the checkpoint of a commit; nothing is left to do for it."""
        has_next = 0 < commit.number < MAX_NUMBER
        is_left = not commit.is_transient
        if commit.is_transient or not has_next:
            is_left = bool(self._delete([f"{JOBS}/{commit.record}"]))
        if is_left and has_next:
            before = self._checkpoint(commit.number - 1)
            old = self._old_batches()
            before = Checkpoint(before.hidden, {**old, **before.streams})
            checkpoint = checkpoint_after(before, commit, set(failed))
            self._create(self._location(f"{JOBS}/{record_name(commit.number + 1)}"), checkpoint.to_json())
            if self._has(STREAMS):  # The checkpoint has taken over what an earlier version has left there.
                self._delete_entries(self._staged_entries(STREAMS), [STREAMS])
        self.forget_kept()
        self._delete_if_empty(JOBS)

    def forget_kept(self) -> None:
        """Remove the files that were kept for long enough."""
        if self._has(KEPT) and not self._is_link(KEPT):
            over = [f"{KEPT}/{entry.name}" for entry in self.entries(KEPT) if _is_over(entry.name)]
            self._delete_entries([entry for name in over for entry in self._staged_entries(name)], over)
            self._delete_if_empty(f"{JOBS}/{KEPT}")

    def _checkpoint(self, number: int) -> Checkpoint:
        """What record `number` remembers, if it is a checkpoint that can be read: only `clean` goes past another."""
        name = record_name(number)
        with contextlib.suppress(MosaicError):
            entry = self._known.get(name)
            data = None if entry is not None or number < 1 else self._read(f"{JOBS}/{name}")
            found = parse_record(data or b"", name, number) if entry is None else self.read_record(entry, number)
            if isinstance(found, Checkpoint):
                return found
        return Checkpoint()

    def abort(self, job: str) -> None:
        """Drop what a job staged. If its record is there the job has happened, and the commit is finished instead."""
        for commit in self.state().pending:
            if commit.job == job:
                self.carry_out(commit)
        self.discard(job)

    def discard(self, job: str) -> dict[str, OSError]:
        """Remove everything a job staged; nobody may commit for it. Return what stays, and why."""
        self.check_links([JOBS])
        failed = self._delete_entries(self._staged_entries(job), [job])
        self._delete_if_empty(JOBS)
        return failed

    def discard_staged(self, staged: Iterable[str]) -> None:
        """Remove the directories of task attempts, and the directories of jobs that are empty then.

        What a commit has promised stays: its process may not know that its record was written.
        """
        promised = {each.staged for commit in self.state().pending for each in commit.add}
        attempts = {tuple(path.split("/")[1:3]) for path in staged if path not in promised}
        for job, attempt in attempts:
            self._delete_entries(self._staged_entries(f"{job}/{attempt}"), [f"{job}/{attempt}"])
            self._delete_if_empty(f"{JOBS}/{job}")
        self._delete_if_empty(JOBS)

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
        record, *later = self._root.infos([self.path(f"{JOBS}/{name}") for name in names])
        return record.is_file and not any(entry.is_file for entry in later)

    def _add(self, commit: Commit, addition: Addition) -> None:
        """Bring a staged file into place; on a store the staged copy stays until all are there."""
        staged, final = self.path(addition.staged), self.path(addition.final)
        try:
            if self._root.stores is not None:
                self._root.stores.copy_file(staged, final)
                return
            if self._root.is_local:
                keep_access(Path(staged), Path(final))
            self._root.filesystem.move(staged, final)
        except OSError:  # Object stores do not say which kind of error it is.
            if self._location(addition.staged).is_file():
                if self.is_exclusive:
                    raise
                self._copy(staged, final)  # A file system that is passed may refuse to move a large object.
                self._delete([addition.staged])
            elif not self._location(addition.final).is_file() and self._is_current(commit):
                raise MosaicError(
                    "a committed file has gone; to give the commit up, delete its record",
                    path=staged,
                    found=self.path(f"{JOBS}/{commit.record}"),
                ) from None

    def _copy(self, staged: str, final: str) -> None:
        """Copy through this machine; a copy that fails half way leaves what was there."""
        sink = open_sink(final, self._root.filesystem)
        try:
            with self._root.filesystem.open_input_stream(staged, compression=None) as source:
                while data := source.read(_COPY_BYTES):
                    sink.write(data)
            sink.commit()
        except BaseException:
            sink.abort()
            raise

    def _remove(self, commit: Commit, pool: ThreadPoolExecutor) -> dict[str, OSError]:
        """Remove the files that a commit replaces, or move them to where they are kept; return those that stay."""
        ids = {each.path: each.id for each in commit.remove if each.id is not None}
        found = self._ids(list(ids))
        paths = [each.path for each in commit.remove if each.id is None or not each.id.is_other(found.get(each.path))]
        failed: dict[str, OSError] = {}
        if commit.kept is not None:
            self._make_directories({f"{commit.kept}/{_parent(path)}".rstrip("/") for path in paths})
            errors = pool.map(lambda path: self._keep(path, f"{commit.kept}/{path}"), paths)
            failed = {path: error for path, error in zip(paths, errors, strict=True) if error is not None}
            paths = [path for path in paths if path not in failed] if self._root.stores is not None else []
        return failed | self._delete(paths)

    def _ids(self, paths: list[str]) -> dict[str, FileId]:
        """Which files are at some paths now; on a store one listing finds many."""
        if self._root.stores is not None and len(paths) > _PARALLEL:
            entries: Iterable[Entry] = self._root.entries(recursive=True)
        else:
            entries = self._root.infos([self.path(path) for path in paths])
        start = len(self.path(""))
        return {entry.path[start:]: file_id(entry) for entry in entries if entry.is_file}

    def _keep(self, path: str, kept: str) -> OSError | None:
        """Bring a file to where it is kept, on a store by a copy; return what is in the way."""
        try:
            if self._root.stores is None:
                self._root.filesystem.move(self.path(path), self.path(kept))
            else:
                self._root.stores.copy_file(self.path(path), self.path(kept))
        except OSError as error:
            # Perhaps another process that carries out the same record was faster.
            return error if self._location(path).is_file() else None
        return None

    # --- the file system --------------------------------------------------------------------------------------------

    def _read(self, relative: str) -> bytes | None:
        location = self._location(relative)
        try:
            return location.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:  # Object stores do not say which kind of error it is.
            if location.is_file():
                raise
            return None

    def _make_directories(self, directories: Iterable[str]) -> None:
        """Make directories on a disk, and raise if nothing can be put there."""
        if self._root.stores is not None:
            return
        for directory in sorted(directories):
            self._root.filesystem.create_dir(self.path(directory), recursive=True)
            if self._root.is_local and not os.access(self.path(directory), os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "Permission denied", self.path(directory))

    def _sync(self, directories: Iterable[str]) -> None:
        """Flush the names in these directories to disk, and the names of the directories that lead to them."""
        if self._root.is_local:
            paths = [PurePosixPath(path) for path in directories]
            for directory in sorted({above for path in paths for above in (path, *path.parents)}, reverse=True):
                sync_directory(Path(self.path(str(directory))))

    def _delete(self, relatives: Sequence[str]) -> dict[str, OSError]:
        failed = self._root.delete_files([self.path(relative) for relative in relatives])
        start = len(self.path(""))
        return {path[start:]: error for path, error in failed.items()}

    def _staged_entries(self, directory: str) -> Sequence[Entry]:
        if self._is_link(directory):
            return []  # What it leads to is not ours to remove.
        return self.entries(directory, recursive=not self._root.is_local)

    def _is_link(self, directory: str) -> bool:
        return self._root.is_local and Path(self.path(f"{JOBS}/{directory}")).is_symlink()

    def _delete_entries(self, entries: Iterable[Entry], jobs: Sequence[str]) -> dict[str, OSError]:
        """Remove what was found in the directories of jobs, and the directories if they are empty then.

        Only links are removed, not what they lead to. What a task that outlives its job still writes there stays
        invisible, and `clean` removes it.
        """
        failed = self._root.delete_files([entry.path for entry in entries if not entry.is_directory])
        for entry in entries if self._root.stores is None else ():
            with contextlib.suppress(OSError):
                local = Path(entry.path)
                if self._root.is_local and local.is_symlink():
                    local.unlink()
                elif entry.is_directory:
                    self._root.filesystem.delete_dir(entry.path)
        for job in jobs:
            self._delete_if_empty(f"{JOBS}/{job}")
        return failed

    def _delete_if_empty(self, relative: str) -> None:
        if self._root.is_local:
            local = Path(self.path(relative))
            with contextlib.suppress(OSError):
                local.unlink() if local.is_symlink() else local.rmdir()
        elif self._root.stores is None and not self._location(relative).entries():
            with contextlib.suppress(OSError):
                self._root.filesystem.delete_dir(self.path(relative))


def _is_over(kept: str) -> bool:
    """Whether files need no longer be kept, by the name of their directory."""
    found = re.fullmatch(r"([0-9]{1,19})-[0-9]+", kept)
    return found is not None and int(found[1]) < time.time()


def _directories(commit: Commit) -> set[str]:
    """The directories that a commit changes."""
    paths = (*(each.path for each in commit.remove), *(path for each in commit.add for path in each[:2]))
    return {commit.kept or JOBS, JOBS, *map(_parent, paths)}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
