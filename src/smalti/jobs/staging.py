"""How a job stages its splits, so that an interrupted run can be resumed. `smalti.table.commits` has the commits.

Below the place of staged files of `smalti.table.commits`, a job has::

    _mosaic_jobs/<id>/<split>-<attempt>/...   files of one attempt at one split; an attempt never touches another's
    _mosaic_jobs/<id>/done/<split>.json       written last, whole: the split is finished, and these are its files

The job id is a digest of the work (sources with size and time, target, options), so the same work finds its earlier
attempt and other work does not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smalti.io import Place, locate, write_whole
from smalti.io.places import AnyFileSystem, AnyPath
from smalti.jobs.summary import JobSummary, Skipped, SplitResult, StagedFile, WrittenFile
from smalti.table.commit_log import CommitLog
from smalti.table.commits import Commit, staging_directory

_DONE = "done"


def job_digest(work: Any) -> str:
    """A name for some work, the same whenever it is described the same way."""
    return hashlib.sha256(json.dumps(work, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Staging:
    """What one job stages below `root`, the directory its files will be in. Travels to tasks."""

    root: Place
    job_id: str

    # --- in tasks -------------------------------------------------------------------------------------------------

    def attempt(self, split: int) -> str:
        """A directory of its own for one attempt at a split, relative to the root."""
        return staging_directory(self.job_id, f"{split:06d}-{uuid.uuid4().hex[:12]}")

    def mark(self, split: int, result: SplitResult) -> None:
        """Say that a split is finished. Two attempts that both finish are both right; the last one counts."""
        write_whole(self._done.child(f"{split:06d}.json"), json.dumps(_to_json(result)).encode())

    @property
    def _done(self) -> Place:
        return self.root.child(staging_directory(self.job_id, _DONE))

    # --- in the driver --------------------------------------------------------------------------------------------

    def finished(self) -> dict[int, SplitResult]:
        """Splits an earlier run finished and whose files are still there in full."""
        found = {}
        for name in sorted(info.base_name for info in self._done.entries()):
            if name.startswith(".") or not name.endswith(".json"):
                continue
            try:
                result = _from_json(json.loads(self._done.child(name).read_bytes()))
            except (ValueError, KeyError, TypeError):
                continue  # not ours; the split is done again
            if all(self.root.child(file.staged).info().size == file.num_bytes for file in result.files):
                found[int(name[: -len(".json")])] = result
        return found

    def commit(self, files: Iterable[StagedFile], removals: Iterable[str], summary: JobSummary) -> None:
        """Make the files appear and delete `removals` (relative to the root), after which the job is over."""
        add = tuple((file.staged, file.path) for file in files)
        names = {final for _, final in add}
        remove = tuple(sorted(path for path in removals if path not in names))
        log_of(self.root).commit(Commit(self.job_id, add, remove, note=summary.to_dict()))

    def discard(self) -> None:
        """Forget everything that is not committed."""
        log_of(self.root).discard(self.job_id)


def log_of(root: Place) -> CommitLog:
    return CommitLog(root)


def recover(directory: AnyPath, *, filesystem: AnyFileSystem = None) -> list[JobSummary]:
    """Finish commits that were interrupted in a directory. Every job does this to its target before anything else."""
    return list(finish_commits(locate(directory, filesystem).absolute()).values())


def finish_commits(root: Place) -> dict[str, JobSummary]:
    """Finish the commits that were interrupted in a directory, and return the summaries of those that were jobs."""
    summaries = {}
    for commit in log_of(root).recover():
        with contextlib.suppress(KeyError, TypeError):  # The note of another kind of job has other fields.
            summaries[commit.job] = JobSummary.from_dict(commit.note or {})
    return summaries


def _to_json(result: SplitResult) -> dict[str, Any]:
    return {
        "files": [[file.staged, file.path, file.num_rows, file.num_bytes, file.sources] for file in result.files],
        "skipped": [[item.path, item.reason] for item in result.skipped],
        "num_rows": result.num_rows,
        "peak_memory": result.peak_memory,
    }


def _from_json(values: dict[str, Any]) -> SplitResult:
    return SplitResult(
        files=tuple(
            StagedFile(staged, path, rows, size, tuple(sources))
            for staged, path, rows, size, sources in values["files"]
        ),
        skipped=tuple(Skipped(*item) for item in values["skipped"]),
        num_rows=values["num_rows"],
        peak_memory=values["peak_memory"],
    )


def settle(results: Sequence[SplitResult]) -> tuple[list[StagedFile], tuple[Skipped, ...]]:
    """The files to commit: none of those made from a source of which another part could not be read."""
    skipped = {item.path: item for result in results for item in result.skipped}
    files = [file for result in results for file in result.files if not skipped.keys() & set(file.sources)]
    return files, tuple(skipped[path] for path in sorted(skipped))


def written(files: Iterable[StagedFile]) -> tuple[WrittenFile, ...]:
    """As the summary has them."""
    return tuple(WrittenFile(file.path, file.num_rows, file.num_bytes) for file in sorted(files, key=lambda f: f.path))
