"""Where `convert` and `compact` write, and what is there already."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath

from smalti.errors import MosaicError
from smalti.io.places import Place
from smalti.jobs.formats.registry import Format, format_of_path
from smalti.jobs.staging import Staging, job_summaries
from smalti.jobs.summary import JobSummary
from smalti.spec import FILE_SUFFIX
from smalti.table.commit_log import CommitLog
from smalti.table.listing import Listing, list_files


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

    def prepare(self, job_id: str, *, overwrite: bool, resume: bool) -> JobSummary | dict[str, str]:
        """Finish interrupted commits, and find the files that a job will replace.

        Returns the paths of these files with their names relative to the root; or the summary of the job, if it was
        interrupted in its own commit, so that nothing is left to do.
        """
        finished, files = self._existing()
        if job_id in finished:
            return finished[job_id]
        if files and not overwrite:
            raise FileExistsError(17, "Exists; set overwrite to replace it", self.place.path)
        if not resume:
            Staging(self.root, job_id).discard()
        return files

    def _existing(self) -> tuple[dict[str, JobSummary], dict[str, str]]:
        if self.is_file:
            finished = job_summaries(CommitLog(self.root).recover())
            return finished, {self.place.path: self.place.name} if self.place.is_file() else {}
        suffix = FILE_SUFFIX if self.suffix == FILE_SUFFIX else ""
        try:
            listing = list_files(self.place, suffix=suffix, globs=False, settled=True)
        except FileNotFoundError:
            return {}, {}
        if listing.directory is None:
            raise FileExistsError(17, "A file, where a directory is to be written", self.place.path)
        kinds = [(file, format_of_path(file.path)) for file in listing.files]
        files = {file.path: listing.relative(file) for file, kind in kinds if kind and kind[0] is self.format}
        return job_summaries(listing.finished), files
