"""The log of one table: its records are read, published and carried out here, as `smalti.table.records` decides."""

from __future__ import annotations

import contextlib
import errno
import re
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from posixpath import dirname

from smalti.errors import ConflictError, LeftoverWarning, MosaicError, UnsupportedFeatureError
from smalti.io import Location, write_whole
from smalti.io.locations import Entry
from smalti.io.sinks import keep_access
from smalti.table.names import JOBS, KEPT, STREAMS, is_ours, new_token
from smalti.table.records import (
    Addition,
    Checkpoint,
    Commit,
    FileId,
    State,
    checkpoint_after,
    parse_record,
    record_name,
    record_number,
)
from smalti.table.steps import TableDirectory

#: How many files are moved or copied at once: on a disk, and on an object store, where each is a request.
_PARALLEL, _PARALLEL_COPIES = 8, 64
#: How often the log is read again because a record was removed, or another commit came, in between.
_MAX_READS = 100
#: How old a record is before other writers carry it out, in seconds. Its own process is doing so already, and waiting
#: only saves the others this work: any number of processes may carry out a commit, however slow they are.
PATIENCE = 2.0
#: How many numbered records are kept. Only the last two count; older ones show a slow process that its number is taken.
_RECORDS_KEPT = 16
#: Errors that repeat however often a commit is tried: it adds a file below a file, or its path is too long.
_HOPELESS = {errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENOTEMPTY}


def file_id(entry: Entry) -> FileId:
    """Return what tells a listed file from another one of the same name."""
    return FileId.of(entry.size, entry.etag, entry.modified)


def staged_error(path: str) -> ConflictError:
    """Return the error of a job whose staged file has gone before it has committed."""
    return ConflictError(
        "a staged file has gone: the table was cleaned meanwhile, or another run of the same job has committed. "
        "Nothing was changed; run this job again",
        path=path,
    )


@contextlib.contextmanager
def staging_below(directory: str) -> Iterator[None]:
    """Raise `staged_error` if something that was staged below a directory has gone."""
    try:
        yield
    except FileNotFoundError as error:
        if directory in str(error):  # Errors of pyarrow have the path in their text only.
            raise staged_error(error.filename or directory) from error
        raise


class CommitLog(TableDirectory):
    """The records of the table whose directory is `root`. Paths are relative to that directory."""

    def __init__(self, root: Location) -> None:
        super().__init__(root)
        #: All records that were read. A record never changes, but after a transient one its name may be used again.
        self._records: dict[Entry, Commit | Checkpoint] = {}
        #: The directory of jobs when it was last listed, by name.
        self._listed: dict[str, Entry] | None = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Read what the records say. If it is the same before and after a listing, no commit fell into the listing."""
        for _ in range(_MAX_READS):
            records = self.records()
            numbered = {number: entry for number, entry in records if number}
            number = max(numbered, default=0)
            last = self.read_record(numbered.get(number), number)
            checkpoint = self.read_record(numbered.get(number - 1), number - 1) if isinstance(last, Commit) else last
            if last is None or checkpoint is None:
                continue  # Other records have come after this one, and it was removed.
            # Several records of an earlier version, without a number, may be pending.
            old = [self.read_record(entry, 0) for number, entry in records if not number]
            pending = tuple(each for each in (last, *old) if isinstance(each, Commit))
            checkpoint = self._with_old_batches(checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint())
            return State(number, pending, checkpoint, numbered[number].modified // 10**9 if numbered else 0)
        raise MosaicError("the records of commits keep changing", path=self.path(JOBS))

    def records(self) -> list[tuple[int, Entry]]:
        """List all records with their numbers, in their order; first those of an earlier version, with number 0."""
        self._listed = {entry.name: entry for entry in self.entries(JOBS)}
        numbers = [(record_number(entry.name), entry) for entry in self._listed.values() if entry.is_file]
        return sorted((number, entry) for number, entry in numbers if number is not None)

    def _find(self, name: str) -> Entry | None:
        """Return an entry of the directory of jobs, as this log has last listed it."""
        if self._listed is None:
            self.records()
        return (self._listed or {}).get(name)

    def read_record(self, entry: Entry | None, number: int) -> Commit | Checkpoint | None:
        """Read a record; None if it was removed since it was listed. Without an entry there is nothing to remember."""
        if entry is None:
            return Checkpoint()
        if entry not in self._records:
            location = self._location(f"{JOBS}/{entry.name}")
            try:
                data = location.read_bytes() if entry.size else b""
            except OSError:  # Not all file systems raise FileNotFoundError for a missing file.
                if location.is_file():
                    raise
                return None
            self._records[entry] = parse_record(data, location.path, number)
        return self._records[entry]

    def _with_old_batches(self, checkpoint: Checkpoint) -> Checkpoint:
        """Add the batches of streams that an earlier version remembered: by an empty file for each batch."""
        if self._find(STREAMS) is None:
            return checkpoint
        streams = dict(checkpoint.streams)
        for entry in self.entries(f"{JOBS}/{STREAMS}", recursive=True):
            if entry.is_file and entry.name.isdecimal() and len(entry.name) < 19:
                stream = PurePosixPath(entry.path).parent.name
                streams[stream] = max(int(entry.name), streams.get(stream, -1))
        return replace(checkpoint, streams=streams)

    def refuse_pending(self) -> None:
        """Raise if a commit is pending and the file system cannot tell whether its process is still at work on it."""
        if not self.is_exclusive and (pending := self.state().pending):
            raise ConflictError(
                "a commit is pending, and on this file system only one process may write at a time. If no other job is "
                "running, finish the commit with smalti.jobs.recover",
                path=self.path(f"{JOBS}/{pending[0].record}"),
            )

    # --- publishing -------------------------------------------------------------------------------------------------

    def publish(self, commit: Commit) -> bool:
        """Write the record of a commit: from this moment the commit has happened.

        Returns False if the number of the record is taken, because others have changed the table since the commit was
        planned. A commit that could never be read or carried out raises an error, and so does a directory that cannot
        be written to; then nothing has happened.
        """
        data, record = commit.to_json(), self._location(f"{JOBS}/{commit.record}")
        parse_record(data, record.path, commit.number)
        self.check_links(commit.directories)
        self._make_directories({dirname(each.final) for each in commit.add})
        self._sync(dirname(each.staged) for each in commit.add)
        try:
            is_created = self._create(record, data)
        except OSError:
            # A store may have created the record without an answer, or may still do so. A record of the same number
            # that changes nothing prevents the latter; the next writer finishes it.
            nothing = Commit(new_token(), time=commit.time, number=commit.number)
            if self._create(record, nothing.to_json()) or record.read_bytes() != data:
                raise
            is_created = True
        if not is_created:
            return False
        if self._is_late(commit):
            self._delete([f"{JOBS}/{commit.record}"])
            return False
        with contextlib.suppress(OSError):  # The commit has happened, so nothing is an error any more.
            if commit.number > _RECORDS_KEPT and commit.number % _RECORDS_KEPT in (0, 1):
                self._remove_old_records(commit.number - _RECORDS_KEPT - 1)
        return True

    def _create(self, record: Location, data: bytes) -> bool:
        record.parent.make_directory()
        try:
            return record.create_exclusively(data)
        except UnsupportedFeatureError:  # On such a file system only one process may write at a time.
            if record.exists():
                return False
            write_whole(record, data)
            return True
        except FileNotFoundError:
            return False  # Another job has removed the record, or the empty directory, in this moment.

    def _is_late(self, commit: Commit) -> bool:
        """Return whether the number of a new record was used before, by a record that has been removed since.

        If later records are there, either other processes have carried out this commit and gone on, or it is late and
        no process ever will. Old records are removed in their order, except the first, which stays. So a record without
        the next one, its checkpoint, is late, and if the commit before is there, no record of this number was removed.
        Checkpoints prove less: a slow process may have written one again. In the end the files decide.

        Raise `ConflictError` if they do not, and `OSError` if the store fails twice: then this process must not apply
        the record; if it counts, the next writer does.
        """
        for is_last in (False, True):
            try:
                return commit.number > 1 and self._is_overtaken(commit) and not self._is_applied(commit)
            except OSError as error:
                if is_last:
                    reason = "the commit may have happened: see whether the table has its rows before you run it again"
                    raise OSError(error.errno or errno.EIO, f"{reason} ({error})", self.path(JOBS)) from error
        raise AssertionError

    def _is_overtaken(self, commit: Commit) -> bool:
        return max((number for number, _ in self.records()), default=0) > commit.number

    def _is_applied(self, commit: Commit) -> bool:
        """Return whether other processes have applied a commit that has later records."""
        if not self._has_record(commit.number + 1) and self._has_record(commit.number):
            return False
        if commit.number > 2 and self._has_record(max(2, commit.number - 2)):
            return True
        if self.files([each.final for each in commit.add if is_ours(each.final)]):
            return True
        if not (commit.add or commit.remove) or self.files(
            [each.staged for each in commit.add] or [each.path for each in commit.remove]
        ):
            return False
        raise ConflictError(
            "many other commits were made while this one was written, and its files have gone: it was cleaned away, "
            "or it has happened and they were replaced. See whether the table has its rows before you run it again",
            path=self.path(f"{JOBS}/{commit.record}"),
        )

    def _has_record(self, number: int) -> bool:
        return self._location(f"{JOBS}/{record_name(number)}").is_file()

    def _remove_old_records(self, last: int) -> None:
        """Remove records up to `last`, one after the other: `_is_late` relies on the order, and on the first record.

        `last` is the number of a checkpoint: a late record with a number up to that is left without the next one.
        """
        for number, entry in self.records():
            if 1 < number <= last and self._delete([f"{JOBS}/{entry.name}"]):
                return

    # --- carrying out -----------------------------------------------------------------------------------------------

    def finish_pending(self) -> tuple[State, tuple[Commit, ...]]:
        """Finish pending commits. Return the state without any, and the commits that were finished here.

        Raise `ConflictError` if a commit of another job cannot be finished.
        """
        finished: tuple[Commit, ...] = ()
        for _ in range(_MAX_READS):
            state = self.state()
            if not state.pending:
                return state, finished
            self.wait_for(state)
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

    def wait_for(self, state: State) -> None:
        """Wait until the pending commits are finished by their own processes, or the last record is `PATIENCE` old."""
        age = time.time() - state.time - 1  # The state has whole seconds.
        end, pause = time.monotonic() + min(PATIENCE, PATIENCE - age), 0.005
        while time.monotonic() < end and any(map(self._is_pending, state.pending)):
            time.sleep(pause)
            pause = min(2 * pause, 0.1)

    def finish(self, commit: Commit) -> None:
        """Carry out a commit that was just published. It has happened, so an error is only a warning now."""
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
        """Move the files of a commit into place, delete the replaced ones, and mark the commit finished.

        Several processes may do so at once, however slow each is. Files that cannot be deleted are hidden by the
        checkpoint. Returns False if the commit was finished before. Raise `MosaicError` if it can never be carried out;
        other errors, such as a full disk, may be gone the next time.
        """
        try:
            is_pending = self._is_pending(commit)
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
        self.check_links(commit.directories)
        self._make_directories({dirname(each.final) for each in commit.add})
        with ThreadPoolExecutor(_PARALLEL if self._root.is_local else _PARALLEL_COPIES) as pool:
            list(pool.map(lambda addition: self._add(commit, addition), commit.add))
            failed = self._remove(commit, pool)
        # The names must be on disk before the checkpoint says that they are.
        self._sync({dirname(each.final) for each in commit.add} | {dirname(each.path) for each in commit.remove})
        # A later run of the same job stages files only when this commit is finished. So if it is still pending after
        # the listing, the listed files are of this commit.
        directories = [f"{JOBS}/{job}" for job in commit.jobs]
        staged = [(directory, self._staged_entries(directory)) for directory in directories]
        if not self._is_pending(commit):
            return
        stuck = {path: error for found in staged for path, error in self._delete_staged(*found).items()}
        checkpoint = checkpoint_after(self._checkpoint(commit.number - 1), commit, failed)
        self._end(commit.record, checkpoint, is_transient=commit.is_transient)
        if failed or stuck:
            counts = [f"{len(failed)} removed files, which stay hidden"] if failed else []
            counts += [f"{len(stuck)} staged files, which clean removes"] if stuck else []
            reason = next(iter({**failed, **stuck}.values()))
            warnings.warn(
                f"{self._root.path}: the commit has happened; the store keeps {' and '.join(counts)}: {reason}",
                LeftoverWarning,
                stacklevel=4,
            )

    def give_up(self, record: str, *, is_transient: bool = False) -> None:
        """Mark a record finished that cannot be read, or whose commit is not carried out. The table's files stay."""
        self._end(record, self._checkpoint((record_number(record) or 0) - 1), is_transient=is_transient)

    def _end(self, record: str, checkpoint: Checkpoint, *, is_transient: bool) -> None:
        """Write the checkpoint that follows a record. A transient record, or one without a number, is deleted."""
        number = record_number(record)
        is_left = (number and not is_transient) or self._delete([f"{JOBS}/{record}"])
        if number and is_left:
            self._create(self._location(f"{JOBS}/{record_name(number + 1)}"), checkpoint.to_json())
            if self._find(STREAMS) is not None:  # The checkpoint has taken over what an earlier version left there.
                self._delete_staged(f"{JOBS}/{STREAMS}")
        self.delete_expired()
        self._delete_if_empty(JOBS)

    def _checkpoint(self, number: int) -> Checkpoint:
        """Return the checkpoint of a number; an empty one if it is missing, or broken, which only `clean` tolerates."""
        name = record_name(number)
        if number > 0 and self._find(name) is None:
            self.records()
        with contextlib.suppress(MosaicError):
            found = self.read_record(self._find(name), number)
            if isinstance(found, Checkpoint):
                return self._with_old_batches(found)
        return self._with_old_batches(Checkpoint())

    def delete_expired(self) -> None:
        """Delete removed files that were kept for long enough, which the names of their directories say."""
        if self._find(KEPT) is not None and not self._is_link(f"{JOBS}/{KEPT}"):
            for entry in self.entries(f"{JOBS}/{KEPT}"):
                until = re.fullmatch(r"([0-9]{1,19})-[0-9]+", entry.name)
                if until is not None and int(until[1]) < time.time():
                    self._delete_staged(f"{JOBS}/{KEPT}/{entry.name}")
            self._delete_if_empty(f"{JOBS}/{KEPT}")

    def discard(self, directories: Iterable[str], *, unless_pending: bool = False) -> dict[str, OSError]:
        """Remove directories in which jobs or task attempts have staged files. Return the files that stay, and why.

        With `unless_pending`, directories with files of a pending commit stay. This is for a process that does not
        know whether its record was written.
        """
        self.check_links([JOBS])
        commits = self.state().pending if unless_pending else ()
        pending = [each.staged for commit in commits for each in commit.add]
        failed: dict[str, OSError] = {}
        for directory in directories:
            if not any(path.startswith(f"{directory}/") for path in pending):
                failed |= self._delete_staged(directory)
                self._delete_if_empty(dirname(directory))
        self._delete_if_empty(JOBS)
        return failed

    # --- parts of a commit --------------------------------------------------------------------------------------------

    def _is_pending(self, commit: Commit) -> bool:
        """Return whether the record of a commit is there and no other follows it; the record is not read for this."""
        names = [commit.record, *([record_name(commit.number + 1)] if commit.number else [])]
        record, *later = self._root.infos([self.path(f"{JOBS}/{name}") for name in names])
        return record.is_file and not any(entry.is_file for entry in later)

    def _add(self, commit: Commit, addition: Addition) -> None:
        """Bring a staged file to its final path. On an object store the staged copy stays until all files are there."""
        staged, final = addition.staged, addition.final
        try:
            if self._root.is_local:
                keep_access(Path(self.path(staged)), Path(self.path(final)))
            self._move(staged, final)
        except OSError:  # Not all file systems raise FileNotFoundError for a missing file.
            if self._location(staged).is_file():
                if self._root.is_local:  # A slow process may have removed the directory, which was empty, just now.
                    self._make_directories({dirname(final)})
                    self._move(staged, final)
                    return
                if self.is_exclusive:
                    raise
                self._copy(staged, final)  # A file system that is passed may refuse to move a large object.
                self._delete([staged])
            elif not self._location(final).is_file() and self._is_pending(commit):
                raise MosaicError(
                    "a committed file has gone; to give the commit up, delete its record",
                    path=self.path(staged),
                    found=self.path(f"{JOBS}/{commit.record}"),
                ) from None

    def _remove(self, commit: Commit, pool: ThreadPoolExecutor) -> dict[str, OSError]:
        """Delete the files that a commit removes, or move them to where they are kept. Return those that stay."""
        found = self.files([each.path for each in commit.remove if each.id is not None])
        ids = {path: file_id(entry) for path, entry in found.items()}
        paths = [each.path for each in commit.remove if each.is_at(ids.get(each.path))]
        failed: dict[str, OSError] = {}
        if commit.kept is not None:
            self._make_directories({f"{commit.kept}/{dirname(path)}".rstrip("/") for path in paths})
            errors = pool.map(lambda path: self._keep(path, f"{commit.kept}/{path}"), paths)
            failed = {path: error for path, error in zip(paths, errors, strict=True) if error is not None}
            paths = [path for path in paths if path not in failed] if self._root.stores is not None else []
        failed |= self._delete(paths)
        self._delete_empty({dirname(path) for path in paths} - {dirname(each.final) for each in commit.add})
        return failed

    def _keep(self, path: str, kept: str) -> OSError | None:
        """Move a file to where it is kept. Return the error if the file stays."""
        try:
            self._move(path, kept)
        except OSError as error:
            # If the file has gone, another process that carries out the same commit was faster.
            return error if self._location(path).is_file() else None
        return None
