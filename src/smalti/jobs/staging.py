"""How a job stages its splits, so that an interrupted run can be resumed. Commits are those of `smalti.table.records`.

In the directory that `smalti.table.records` gives it, a job has::

    _mosaic_jobs/<id>/<split>-<attempt>/...            the files of one attempt; no attempt touches another's files
    _mosaic_jobs/<id>/done/<split bytes>-<split>.json  written last, and whole: the split is finished, with these files

The id of a job is a digest of its work: sources with their sizes and times, target and options. So the same work finds
what an earlier run has staged, and different work does not. What was committed is never taken for the work of another
run that is asked for the same: `update(n = n + 1)` twice adds 2. Only a caller can tell that it is the same run, by a
name for it (`smalti.table.records.Run`). How many bytes a split has depends on the cores of the
machine, so it is not part of the id but of the names of records: a run on another machine goes on with the splits that
it finds, and two runs at once that have planned different splits do not mix them up.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pickle
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io import Location, locate, write_whole
from smalti.io.locations import AnyFileSystem, AnyPath, AnyStorageOptions, chosen
from smalti.jobs.summary import JobSummary, Skipped, SplitResult, StagedFile
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, new_token, staging_directory
from smalti.table.records import Commit

#: Longest name of a run, in characters: every checkpoint has the last names.
_LONGEST_RUN_ID = 200


def job_digest(work: object) -> str:
    """An id of some work: equal descriptions give equal ids.

    What JSON has no form for is pickled. Text would not do: Arrow and numpy leave out the middle of long lists. Work
    that cannot be serialised is never the same.
    """

    def digest(value: object) -> str:
        return describe(value) or new_token()

    return hashlib.sha256(json.dumps(work, sort_keys=True, default=digest).encode()).hexdigest()[:16]


def describe(request: object) -> str | None:
    """A digest of a request; None if it cannot be serialised, as is true of some functions."""
    try:
        return hashlib.sha256(_pickled(request)).hexdigest()
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, pa.ArrowException):
        return None


def _pickled(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles equal requests alike: in any order of sets, and whether or not equal parts are one object."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=4)
        self.fast = True  # no references to objects that were pickled before

    def persistent_id(self, value: object) -> list[bytes] | None:
        return sorted(map(_pickled, value)) if isinstance(value, (set, frozenset)) else None


def check_run_id(run_id: object) -> str:
    """Return the name of a run, which must be a short text."""
    if not isinstance(run_id, str) or not 0 < len(run_id) <= _LONGEST_RUN_ID:
        expected = f"text of at most {_LONGEST_RUN_ID} characters, such as '2026-11-19 nightly'"
        raise MosaicError("run_id is not a name for a run", found=repr(run_id)[:100], expected=expected)
    return run_id


@dataclass(frozen=True)
class Staging:
    """The staged files of one job below `root`, the directory that its files will be in. It is pickled with tasks."""

    root: Location
    job_id: str
    split_bytes: int = 0

    @property
    def log(self) -> CommitLog:
        return CommitLog(self.root)

    @property
    def directory(self) -> Location:
        """Where the job stages its files."""
        return self.root.child(f"{JOBS}/{self.job_id}")

    @property
    def _done(self) -> Location:
        return self.directory.child("done")

    # --- in tasks -------------------------------------------------------------------------------------------------

    def attempt_directory(self, split: int) -> str:
        """A new directory for one attempt at a split, relative to the root."""
        return staging_directory(self.job_id, f"{split:06d}-{uuid.uuid4().hex[:12]}")

    def mark_done(self, split: int, result: SplitResult) -> None:
        """Record that a split is finished. If two attempts finish, both are right, and the later record counts."""
        write_whole(self._done.child(f"{self.split_bytes}-{split:06d}.json"), json.dumps(asdict(result)).encode())

    # --- in the driver --------------------------------------------------------------------------------------------

    def finished_splits(self) -> dict[int, dict[int, SplitResult]]:
        """The splits that earlier runs have finished and whose files are still complete, by the size of splits."""
        found: dict[int, dict[int, SplitResult]] = {}
        for info in self._done.entries():
            # A record that is damaged, not ours, or cleaned meanwhile, means that the split is done again.
            with contextlib.suppress(ValueError, KeyError, TypeError, FileNotFoundError):
                split_bytes, number = map(int, info.name.removesuffix(".json").split("-"))
                result = SplitResult.from_dict(json.loads(self._done.child(info.name).read_bytes()))
                infos = self.root.infos([self.root.child(file.staged).path for file in result.files])
                if all(info.size == file.num_bytes for info, file in zip(infos, result.files, strict=True)):
                    found.setdefault(split_bytes, {})[number] = result
        return found

    def discard(self) -> dict[str, OSError]:
        """Remove what the job has staged, so that it starts from the beginning. Return what stays, and why."""
        return self.log.discard([f"{JOBS}/{self.job_id}"])


def recover(
    directory: AnyPath, *, filesystem: AnyFileSystem = None, storage_options: AnyStorageOptions = None
) -> list[JobSummary]:
    """Finish commits that were interrupted in a directory, and return the summaries of the jobs they belong to.

    Every job that writes does this to its target before anything else. A commit is left to its own process for two
    seconds, and then finished here.
    """
    filesystem = chosen(filesystem, storage_options)
    return list(job_summaries(CommitLog(locate(directory, filesystem).absolute()).finish_pending()[1]).values())


def job_summaries(commits: Iterable[Commit]) -> dict[str, JobSummary]:
    """The summaries that jobs have left in their commits, by job id."""
    summaries = {}
    for commit in commits:
        with contextlib.suppress(KeyError, TypeError):  # The note of another kind of job has other fields.
            summaries[commit.job] = JobSummary.from_dict(commit.note or {})
    return summaries


def committable_files(results: Sequence[SplitResult]) -> tuple[list[StagedFile], tuple[Skipped, ...]]:
    """The files to commit, and the sources that were skipped.

    A file is not committed if any of its sources was skipped, since another part of that source may be missing.
    """
    skipped = {item.path: item for result in results for item in result.skipped}
    files = [file for result in results for file in result.files if not skipped.keys() & set(file.sources)]
    return files, tuple(skipped[path] for path in sorted(skipped))
