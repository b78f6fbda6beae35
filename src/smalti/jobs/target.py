"""Where `convert` and `compact` write, and what is there already."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from smalti.errors import ConflictError, MosaicError
from smalti.io.places import Place
from smalti.jobs.formats.registry import Format, format_of_path
from smalti.jobs.staging import Staging, job_summaries
from smalti.jobs.summary import JobSummary, StagedFile
from smalti.spec import FILE_SUFFIX
from smalti.table.commit_log import CommitLog
from smalti.table.commits import JOBS, Commit, Identity, Mode, plan_commit
from smalti.table.listing import Listing, list_table
from smalti.table.paimon_layout import refuse_writing


@dataclass(frozen=True)
class Target:
    """A directory of files to write, or one file if `is_file` is set."""

    place: Place
    format: Format
    suffix: str
    is_file: bool = False

    @property
    def root(self) -> Place:
        """The directory that the files will be in; the job stages and commits them there."""
        return self.place.parent if self.is_file else self.place

    def refuse_overlap(self, sources: Listing) -> None:
        """Raise if the job would replace what it reads: when resumed, it would read what it has replaced."""
        if not sources.filesystem.equals(self.place.filesystem):
            return
        real = os.path.realpath if self.place.is_local else str
        target = PurePosixPath(real(self.place.path))
        for file in sources.files:
            path = PurePosixPath(real(file.path))
            if path == target or (not self.is_file and path.is_relative_to(target)):
                raise MosaicError("source and target overlap", path=self.place.path, found=file.path)

    def refuse_same(self, sources: Listing) -> None:
        """Raise if two paths lead to one file: its rows would be written twice in the place of both."""
        if not self.place.is_local:
            return
        seen: dict[str, str] = {}
        for file in sources.files:
            other = seen.setdefault(os.path.realpath(file.path), file.path)
            if other != file.path:
                raise MosaicError(
                    "two paths lead to the same file, through a symbolic link", path=file.path, found=other
                )

    def prepare(self, job_id: str, *, overwrite: bool, resume: bool) -> JobSummary | Change:
        """Finish interrupted commits, and find out what the job will change.

        Returns the summary of the job instead, if it was interrupted in its own commit, so that nothing is left to do.
        """
        if self.is_file:
            refuse_writing(self.root)
            finished = job_summaries(CommitLog(self.root).recover())
            is_there = self.place.is_file()
            # A file that takes the name of another is no change of the table around it: whoever reads it, sees one of
            # the two.
            change = Change(self, "create", Look(0, {}))
        else:
            listing = self._list()
            finished = job_summaries(listing.finished)
            look = self._look(listing)
            is_there = bool(look.files)
            change = Change(self, "overwrite" if overwrite else "create", look)
        if job_id in finished:
            return finished[job_id]
        if is_there and not overwrite:
            raise FileExistsError(17, "Exists; set overwrite to replace it", self.place.path)
        if not resume:
            Staging(self.root, job_id).discard()
        if self.is_file and is_there and self.place.is_local:
            self._stage_as_private_as_the_old_file(job_id)
        return change

    def _stage_as_private_as_the_old_file(self, job_id: str) -> None:
        """Who may not read the file that will be replaced may not read what is staged for it either."""
        if not Path(self.place.path).stat().st_mode & 0o077:
            directory = Path(self.root.path) / JOBS / job_id
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)

    def look(self) -> Look:
        """The files of the target's format, as they are now."""
        return self._look(self._list())

    def _list(self) -> Listing:
        return list_table(self.place, FILE_SUFFIX if self.suffix == FILE_SUFFIX else "")

    def _look(self, listing: Listing) -> Look:
        kinds = {name: format_of_path(name) for name in listing.identities}
        ours = {name for name, kind in kinds.items() if kind is not None and kind[0] is self.format}
        return Look(listing.number, {name: found for name, found in listing.identities.items() if name in ours})


class Look(NamedTuple):
    """The files of a target, and the number of the last record that has changed them."""

    number: int
    files: Mapping[str, Identity]


@dataclass(frozen=True)
class Change:
    """What becomes of the files at the target when a job commits, and what was there when the job began.

    Attributes
    ----------
    mode : {"create", "overwrite", "replace"}
        See `smalti.table.commits.Mode`.
    began : Look
    read : mapping of str to str
        For "replace": the paths of the files that the job reads, and their names.
    """

    target: Target
    mode: Mode
    began: Look
    read: Mapping[str, str] = field(default_factory=dict)

    def commit(
        self, staging: Staging, files: Iterable[StagedFile], summary: JobSummary, unread: Container[str]
    ) -> None:
        """Make the files of a job visible, and remove those that they replace; then the job is over.

        Parameters
        ----------
        unread : container of str
            The paths of files that could not be read, and therefore stay.
        """
        # A single file has the very name that was asked for, whatever its ending: a link may have led to it.
        name = self.target.place.name if self.target.is_file else None
        staged = {file.staged: name or file.path for file in files}
        read = self._identities(name for path, name in self.read.items() if path not in unread)
        looks = iter([self._first_look(read)])

        def plan() -> Commit:
            number, existing = next(looks, None) or self._look_again(staging)
            since = staging.log.commits_since(self.began.number) if number > self.began.number else ()
            note = summary.to_dict()
            return plan_commit(
                staging.job_id, staged, existing, self.mode, after=number, read=read, since=since, note=note
            )

        try:
            staging.log.commit_as_planned(plan)
        except ConflictError as error:
            raise error.locate(path=self.target.place.path) from None

    def refuse_conflict(self, staging: Staging, cause: BaseException) -> None:
        """Raise a conflict, if what went wrong is that another job has committed while this one was running."""
        if not self.target.is_file:
            try:
                _, existing = self._look_again(staging)
                read = self._identities(self.read.values())
                since = staging.log.commits_since(self.began.number)
                plan_commit(staging.job_id, {}, existing, self.mode, read=read, since=since)
            except ConflictError as error:
                raise error.locate(path=self.target.place.path) from cause

    def _identities(self, names: Iterable[str]) -> dict[str, Identity]:
        return {name: self.began.files[name] for name in names}

    def _first_look(self, read: Mapping[str, Identity]) -> Look:
        """What the job has found at its beginning is right if no other has committed since: its number is still free.

        Files that the job has read are looked at again, because not every tool that changes files leaves a record.
        """
        place = self.target.place
        if not read:
            return self.began
        if not place.is_local:
            return self.target.look()
        infos = place.filesystem.get_file_info([f"{place.path}/{name}" for name in read])
        found = zip(read, infos, strict=True)
        return Look(self.began.number, {name: (info.size, info.mtime_ns or 0) for name, info in found if info.is_file})

    def _look_again(self, staging: Staging) -> Look:
        # Runs of the same job share what they have staged. So only one of them may commit.
        if any(commit.job == staging.job_id for commit in staging.log.commits_since(self.began.number)):
            raise ConflictError("another run of the same job has committed meanwhile; this one has changed nothing")
        return self.target.look()
