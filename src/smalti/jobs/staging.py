"""The commit protocol: nothing is seen before everything is there, and a crash at any moment can be picked up.

A job works in one hidden directory, `.smalti-<job id>`, beside what it will write::

    .smalti-<id>/data/<split>/<attempt>/...   files of one attempt at one split; an attempt never touches another's
    .smalti-<id>/done/<split>.json            written last, whole: the split is finished, and these are its files
    .smalti-<id>/commit.json                  written once all are done: from here on the job can only go forward

Committing writes `commit.json`, moves the files to their names, deletes what they replace, and removes the directory.
Whoever finds a `commit.json` repeats those steps, each of which may have been done already. The job id is a digest of
the work (sources with size and time, target, options), so the same work finds its earlier attempt and other work does
not.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smalti.jobs.places import Place
from smalti.jobs.summary import JobSummary, Skipped, SplitResult, StagedFile, WrittenFile

PREFIX = ".smalti-"


def job_digest(work: Any) -> str:
    """A name for some work, the same whenever it is described the same way."""
    return hashlib.sha256(json.dumps(work, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Staging:
    """The hidden directory of one job below `root`, the directory its files will be in. Travels to tasks."""

    root: Place
    job_id: str

    @property
    def place(self) -> Place:
        return self.root.child(PREFIX + self.job_id)

    # --- in tasks -------------------------------------------------------------------------------------------------

    def attempt(self, split: int) -> str:
        """A directory of its own for one attempt at a split, relative to the staging directory."""
        return f"data/{split:06d}/{uuid.uuid4().hex[:12]}"

    def mark(self, split: int, result: SplitResult) -> None:
        """Say that a split is finished. Two attempts that both finish are both right; the last one counts."""
        self._marker(split).write_bytes(json.dumps(_to_json(result)).encode())

    def _marker(self, split: int) -> Place:
        return self.place.child(f"done/{split:06d}.json")

    # --- in the driver --------------------------------------------------------------------------------------------

    def finished(self) -> dict[int, SplitResult]:
        """Splits an earlier run finished and whose files are still there in full."""
        found = {}
        for name in self.place.child("done").names():
            if name.startswith(".") or not name.endswith(".json"):
                continue
            result = _from_json(json.loads(self.place.child(f"done/{name}").read_bytes()))
            if all(self.place.child(file.staged).info().size == file.num_bytes for file in result.files):
                found[int(name[: -len(".json")])] = result
        return found

    def commit(self, files: Iterable[StagedFile], removals: Iterable[str], summary: JobSummary) -> None:
        """Make the files appear and delete `removals` (relative to the root), after which the job is over."""
        moves = [[file.staged, file.path] for file in files]
        names = {path for _, path in moves}
        log = {
            "moves": moves,
            "removals": sorted(path for path in removals if path not in names),
            "summary": summary.to_dict(),
        }
        self.place.child("commit.json").write_bytes(json.dumps(log).encode())
        self.roll_forward()

    def roll_forward(self) -> JobSummary | None:
        """Carry out `commit.json`, if there is one, from wherever it was left."""
        log_place = self.place.child("commit.json")
        if not log_place.is_file():
            return None
        log = json.loads(log_place.read_bytes())
        for staged, path in log["moves"]:
            if self.place.child(staged).is_file():
                self.place.child(staged).move_to(self.root.child(path))
        for path in log["removals"]:
            self.root.child(path).delete()
        # The log goes last but for what is no use without it.
        self.place.child("done").delete()
        self.place.child("data").delete()
        self.discard()
        return JobSummary.from_dict(log["summary"])

    def discard(self) -> None:
        """Forget everything that is not committed."""
        self.place.delete()


def recover(root: Place) -> dict[str, JobSummary]:
    """Finish the commits that were interrupted below a directory; {job id: summary}."""
    finished = {}
    for job_id in _ids(root):
        summary = Staging(root, job_id).roll_forward()
        if summary is not None:
            finished[job_id] = summary
    return finished


def clean(root: Place) -> list[str]:
    """Finish interrupted commits, then remove what jobs that were never finished left behind; their ids."""
    recover(root)
    left = _ids(root)
    for job_id in left:
        Staging(root, job_id).discard()
    return left


def _ids(root: Place) -> list[str]:
    return [name[len(PREFIX) :] for name in root.names() if name.startswith(PREFIX)]


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
