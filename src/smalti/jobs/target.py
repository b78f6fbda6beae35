"""Where jobs write, and what is there already."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from smalti.errors import ConflictError, LeftoverWarning, MosaicError
from smalti.io.locations import NO_LINKS, Location, sync_directory
from smalti.io.sinks import is_object_store, keep_access, replacing, restrict_directory
from smalti.jobs.formats.registry import FORMATS, Format, format_of_path
from smalti.jobs.staging import Staging, job_summaries
from smalti.jobs.summary import JobSummary, StagedFile
from smalti.spec import FILE_SUFFIX
from smalti.table.committing import Change
from smalti.table.listing import Listing, list_files, list_table, no_files_error
from smalti.table.log import CommitLog, file_id, staged_error, staging_below
from smalti.table.names import JOBS
from smalti.table.paimon_layout import listed_to_write, refuse_writing
from smalti.table.records import FileId, Mode, plan_changes


@dataclass(frozen=True)
class Target:
    """A directory of files to write, or one file if `is_file` is set."""

    location: Location
    format: Format
    suffix: str
    is_file: bool = False

    @property
    def root(self) -> Location:
        """The directory that the files will be in; the job stages and commits them there."""
        return self.location.parent if self.is_file else self.location

    def refuse_overlap(self, sources: Listing) -> None:
        """Raise if the job would replace what it reads: when resumed, it would read what it has replaced."""
        if not sources.filesystem.equals(self.location.filesystem):
            return
        real = os.path.realpath if self.location.is_local else str
        target = PurePosixPath(real(self.location.path))
        for file in sources.files:
            path = PurePosixPath(real(file.path))
            if path == target or (not self.is_file and path.is_relative_to(target)):
                raise MosaicError("source and target overlap", path=self.location.path, found=file.path)

    def refuse_same(self, sources: Listing) -> None:
        """Raise if two paths lead to one file: its rows would be written twice in the place of both."""
        if not self.location.is_local:
            return
        seen: dict[str, str] = {}
        for file in sources.files:
            other = seen.setdefault(os.path.realpath(file.path), file.path)
            if other != file.path:
                raise MosaicError(
                    "two paths lead to the same file, through a symbolic link", path=file.path, found=other
                )

    @property
    def is_table(self) -> bool:
        """Whether it is a directory of Mosaic files, whose names are never used again."""
        return not self.is_file and self.suffix == FILE_SUFFIX

    def prepare(self, job_id: str, *, overwrite: bool, resume: bool, keep: float | None = None) -> JobSummary | Change:
        """Finish interrupted commits, and find out what the job will change.

        Returns the summary of the job instead, if it was interrupted in its own commit, so that nothing is left to do.
        """
        change = self.change("overwrite" if overwrite else "create", keep=keep)
        if self.is_file:
            refuse_writing(self.root)
            is_there = self.location.is_file()
        else:
            listing = list_table(self.location, change.suffix)
            # The same sources give the same files, so whoever has begun this commit has done the work of this run.
            finished = job_summaries(listing.finished).get(job_id)
            if finished is not None:
                return finished
            is_there = bool(self.files(listing))
        if is_there and not overwrite:
            raise FileExistsError(17, "Exists already; set overwrite to replace it", self.location.path)
        if not resume:
            Staging(self.root, job_id).discard()
        return change

    def refuse_for_file(self, **options: object) -> None:
        """Refuse options that need the records of a table if the target is a single file."""
        for name, value in options.items():
            if self.is_file and value is not None:
                raise MosaicError(
                    f"{name} is for tables, and a single file has no place for it: leave it out, or put the file into "
                    "a directory and name that",
                    path=self.location.path,
                    found=f"{name}={value!r}",
                )

    def change(self, mode: Mode, read: Mapping[str, FileId] | None = None, keep: float | None = None) -> Change:
        """How a job changes the target. Other formats may have several suffixes, so all files are listed for them."""
        return Change(self.location, mode, self._listed_suffix, self.files, read, keep)

    @property
    def _listed_suffix(self) -> str:
        return FILE_SUFFIX if self.suffix == FILE_SUFFIX else ""

    def files(self, listing: Listing) -> dict[str, FileId]:
        """The files of the target's format."""
        kinds = {name: format_of_path(name) for name in listing.ids} if listing.files else {}
        return {name: listing.ids[name] for name, kind in kinds.items() if kind is not None and kind[0] is self.format}

    def has_files(self) -> bool:
        """Whether there is anything to overwrite."""
        return (
            self.location.is_file()
            if self.is_file
            else bool(self.files(list_table(self.location, self._listed_suffix)))
        )

    def explain(
        self, error: OSError | MosaicError, staging: Staging, change: Change, *, is_resumable: bool = True
    ) -> None:
        """Raise an error that says more than the one that a job has failed with, if it is known why."""
        if not self.is_file:
            try:  # Perhaps another job has changed the table.
                change.refuse_conflict()
            except ConflictError as conflict:
                raise conflict.locate(path=self.location.path) from error
            except (OSError, MosaicError):
                pass  # The first error says more.
        staged = staging.directory.path
        if isinstance(error, FileNotFoundError) and staged in str(error):
            raise staged_error(error.filename or staged) from error
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            kept = f", and what is finished stays in {staged} for the next run, or until the table is cleaned"
            reason = f"{error.strerror}; nothing was changed{kept if is_resumable else ''}"
            raise OSError(error.errno, reason, error.filename or self.location.path) from error

    def restrict_staging(self, job_id: str, files: Iterable[str]) -> None:
        """Restrict the staging directory to users who may read the files that will be replaced."""
        if self.location.is_local:
            restrict_directory(Path(self.root.path) / JOBS / job_id, map(Path, files))

    def keep_access(self, files: Iterable[StagedFile], table: Iterable[str]) -> None:
        """Give staged files the access rights of the files that their rows are from; new rows, those of all files."""
        if not self.location.is_local:
            return
        with staging_below(self.root.child(JOBS).path):
            for file in files:
                keep_access(Path(self.root.child(file.staged).path), *map(Path, file.sources or table))

    def put_file(self, staging: Staging, staged: str, mode: Mode, old: FileId | None = None) -> None:
        """Give a single file the name that was asked for, in one step. It needs no record: readers see it or not.

        Raises
        ------
        ConflictError
            If it is to be created, or to replace the `old` file, and another job has been faster.
        """
        source = self.root.child(staged)
        try:
            if mode == "overwrite":
                if not self._replace_by(source, old):
                    raise ConflictError(
                        "the file was replaced while it was changed; nothing was changed. Run this job again",
                        path=self.location.path,
                    )
            elif not self._create_from(source):
                plan_changes((), {self.location.name: FileId(0)}, mode)
        except FileNotFoundError:
            if source.is_file():
                raise
            raise staged_error(source.path) from None
        if self.location.is_local:
            sync_directory(Path(self.root.path))
        try:
            failed = staging.discard()
        except (OSError, MosaicError) as error:
            failed = {source.path: OSError(str(error))}
        if failed:
            reason = next(iter(failed.values()))
            text = f"{self.location.path}: the file is there; staged files stay, which clean removes: {reason}"
            warnings.warn(text, LeftoverWarning, stacklevel=2)

    def _replace_by(self, source: Location, old: FileId | None) -> bool:
        """Move a file to the target; return False if that has to be the `old` file, and is not."""
        if self.location.stores is not None:
            if old is not None:
                return self.location.stores.replace(source.path, self.location.path, old.mark)
            self.location.stores.copy_file(source.path, self.location.path)
            return True
        path = Path(self.location.path)
        with replacing(path) if self.location.is_local else nullcontext(True) as is_free:
            if old is not None and (not is_free or old.is_other(file_id(self.location.info()))):
                return False
            if self.location.is_local:
                keep_access(Path(source.path), path)
            elif self.location.is_file() and not is_object_store(self.location.filesystem):
                self.location.filesystem.delete_file(self.location.path)  # HDFS does not rename over a file.
            self.location.filesystem.move(source.path, self.location.path)
        return True

    def _create_from(self, source: Location) -> bool:
        """Move a file to the target unless there is one; return whether it was moved."""
        if self.location.stores is not None:
            return self.location.stores.copy_new(source.path, self.location.path)
        if self.location.is_local:
            try:
                os.link(source.path, self.location.path)
                return True
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
        if self.location.exists():  # Here only one process may write at a time, as the docs say.
            return False
        self.location.filesystem.move(source.path, self.location.path)
        return True


def find_table(root: Location, *, is_dry: bool = False) -> tuple[Target, Listing]:
    """The directory of Mosaic files that a job changes in place, and its files.

    A dry run changes nothing, so it sees pending commits as a reader does, and finishes none.
    """
    if not is_dry:
        CommitLog(root).refuse_pending()
    if not root.exists():
        raise FileNotFoundError(2, "No such file or directory", root.path)
    if is_dry:
        with listed_to_write(root):
            listing = list_files(root, globs=False)
    else:
        listing = list_table(root)
    if not listing.files:
        raise no_files_error([root])
    target = Target(root, FORMATS["mosaic"], FILE_SUFFIX)
    target.refuse_same(listing)
    return target, listing
