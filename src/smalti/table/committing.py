"""Committing staged files: list the table, decide what changes, publish it; again if another job was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any

from smalti.errors import ConflictError
from smalti.io.locations import Location
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import FoundFile, Listing, list_table
from smalti.table.log import CommitLog, staged_error
from smalti.table.names import Selection, attempt_directory
from smalti.table.records import (
    Addition,
    Commit,
    FileId,
    Mode,
    Run,
    plan_changes,
    plan_removals,
    refuse_finished,
    refuse_old_columns,
)

#: How often a commit is planned again because other jobs were faster, before the table counts as too busy.
_MAX_ATTEMPTS = 100
#: The longest wait before that, in seconds.
_LONGEST_WAIT = 0.5


@dataclass(frozen=True)
class Change:
    """How a job changes a table."""

    #: The directory of the table.
    root: Location
    mode: Mode
    #: The suffix of the table's files.
    suffix: str = FILE_SUFFIX
    #: Chooses the files of a listing that the job may replace.
    replaceable: Callable[[Listing], Mapping[str, FileId]] = attrgetter("ids")
    #: For "replace" and "change": the files that the job replaces, with their ids from the time it has read them.
    read: Mapping[str, FileId] | None = None
    #: For how many hours removed files are kept.
    keep: float | None = None
    #: For "change": all files that the job has looked at.
    seen: Mapping[str, FileId] | None = None
    #: Whether columns are removed, renamed or given other types.
    changes_columns: bool = False
    #: For "append": the number of the last record when the job has begun, if it is known.
    since: int | None = None
    #: The named run, which is committed once.
    run: Run | None = None

    def refuse_conflict(self) -> None:
        """Raise `ConflictError` if another job has changed the table so that this job can no longer be committed."""
        plan_changes((), self.replaceable(list_table(self.root, self.suffix)), self.mode, self.read, self.seen)

    def commit(
        self,
        job: str,
        names: Mapping[str, str],
        token: str,
        *,
        note: dict[str, Any] | None = None,
        stream: str | None = None,
        batch: int | None = None,
    ) -> bool:
        """Make the files of a job visible, and remove the files that they replace.

        `names` has the staged path of each file, and its final path; `note`, `stream` and `batch` are as in `Commit`.
        Returns False if the batch of the stream was committed before. Raises `ConflictError` if other jobs have changed
        the table so that this job does not fit it; then nothing is changed.
        """
        log = CommitLog(self.root)
        for attempt in range(_MAX_ATTEMPTS):
            # The state is read first. If another job commits after that, the number of this commit is taken.
            listing = None if self.mode == "append" else list_table(self.root, self.suffix)
            state = log.finish_pending()[0] if listing is None else listing.state
            if listing is None and state.checkpoint.hidden:
                listing = list_table(self.root, self.suffix)
                state = listing.state
            if stream is not None and batch is not None and batch <= state.last_batch(stream):
                log.discard(set(map(attempt_directory, names)))
                return False
            if self.run is not None:
                refuse_finished(state.checkpoint, self.run)
            staged = log.files(list(names))
            if missing := names.keys() - staged.keys():
                raise staged_error(log.path(min(missing)))
            existing = {} if listing is None or self.mode == "append" else dict(self.replaceable(listing))
            removed = plan_changes(names.values(), existing, self.mode, self.read, self.seen)
            if self.since is not None:
                refuse_old_columns(state.checkpoint, self.since)
            files = {path: existing[path] for path in removed} | (listing.leftovers if listing else {})
            now = max([state.time, *(staged[path].modified // 10**9 for path in names)])
            commit = Commit(
                job,
                tuple(Addition(path, final, staged[path].size) for path, final in names.items()),
                plan_removals(files, now, copies=log.copies),
                time=now,
                is_listed=listing is not None,
                keep=None if self.keep is None else int(time.time() + self.keep * 3600),
                is_transient=self.mode == "create" and self.suffix != FILE_SUFFIX and not state.number,
                rewrites=self.mode in ("replace", "change"),
                changes_columns=self.changes_columns,
                stream=stream,
                batch=batch,
                note=note,
                run=self.run,
                token=token,
                number=state.number + 1,
            )
            if log.publish(commit):
                if commit.is_transient:
                    self._refuse_late(log, commit)
                log.finish(commit)
                return True
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.005 * 2**attempt)))
        raise ConflictError(
            "other jobs have committed first each time; nothing was changed. Run this job again when fewer are running",
            path=self.root.path,
            found=f"{_MAX_ATTEMPTS} attempts",
        )

    def _refuse_late(self, log: CommitLog, commit: Commit) -> None:
        """Withdraw a transient commit if a faster job has created files, whose own record is deleted by now."""
        sizes = {entry.path: entry.size for entry in self.root.entries(recursive=True) if entry.is_file}
        selection = Selection(str(PurePosixPath(self.root.path)), (), self.suffix)
        files = [FoundFile(path, sizes[path]) for path in sorted(selection.chosen(sizes))]
        existing = self.replaceable(Listing(self.root.filesystem, files, self.root.path)) if files else {}
        if existing:
            log.give_up(commit.record, is_transient=True)
            plan_changes((), existing, self.mode)
