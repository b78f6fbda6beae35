"""The records of commits, and what follows from them. Pure: `smalti.table.log` writes records and carries them out.

A job stages its files below ``_mosaic_jobs/<job>/``, where no listing shows them. Then it writes one small record that
names all files to add and to remove. A record appears whole or not at all, and from that moment the commit has
happened: readers show the table as the record says. Afterwards the commit is carried out, which means that its files
are moved into place and the replaced ones deleted. When its files are in place, a record with the next number, the
checkpoint, marks it finished::

    _mosaic_jobs/commit-0000000000000011.json    a commit: the files that it adds and removes
    _mosaic_jobs/commit-0000000000000012.json    its checkpoint: the commit is finished

A record is created exclusively. A job plans its commit for the table that checkpoint 12 has left, and the commit
happens only if there is no record 13 yet. Otherwise another job was faster, and this job plans again. Only the last
record counts. If it is a commit, the commit is pending, and every writer that finds it carries it out. Several
processes may do so at once, because repeating a step is harmless.

No other file ever gets the name of an added Mosaic file (`unique_names`). So nothing that a slow process still does to
such a name can do harm, even long after the commit: a late deletion finds no file, and a file that a late copy has
brought back is recognised by its name. For this purpose a checkpoint remembers the names that were removed lately. It
also remembers the last batch of each stream, and the runs that callers have named. If there is nothing to remember, the
checkpoint is an empty file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from smalti.errors import ConflictError, MosaicError
from smalti.table.names import JOBS, KEPT, MAX_NAME, STREAMS, is_ours, new_token, parse_partition, staging_job

#: "append" adds files, "overwrite" replaces all files, "dynamic" replaces those of the partitions that get new files,
#: "create" needs a table without files, "replace" replaces exactly the files that the job has read, and "change" does
#: the same for a job that must have seen every file of the table.
Mode = Literal["append", "overwrite", "dynamic", "create", "replace", "change"]

_VERSION = 3
#: How long a copy may be under way, in seconds. For this long a checkpoint remembers the name of a removed file, unless
#: the file had been there for longer: then the copy that made it is over.
REMEMBERED_SECONDS = 24 * 3600
#: How many names a checkpoint remembers besides those of its own commit. The oldest names are forgotten first.
MAX_REMEMBERED = 20_000
#: Most named runs in a checkpoint. The oldest are dropped first.
MAX_RUNS = 100


class FilesAddedError(ConflictError):
    """Files were added since a job that changes every file has listed the table. It may change them too, and retry."""


class FileId(NamedTuple):
    """Tells a file from another one of the same name: its size, and as mark its ETag or time of modification."""

    size: int
    mark: str = ""
    #: In nanoseconds, 0 if unknown. It is not compared.
    modified: int = 0

    @classmethod
    def of(cls, size: int, etag: str, modified: int) -> FileId:
        return cls(size, etag or str(modified or ""), modified)

    def is_other(self, found: FileId | None) -> bool:
        """Return whether there is another file at the name now, or none, as far as both marks are known."""
        return found is None or self.size != found.size or bool(self.mark and found.mark and self.mark != found.mark)


class Addition(NamedTuple):
    """A file to add: its staged and its final path, and its size, which is -1 in records of an earlier version."""

    staged: str
    final: str
    size: int = -1


class Removal(NamedTuple):
    """A file to remove."""

    path: str
    #: For a file whose name is not ours: it is removed only if it is still the same file.
    id: FileId | None = None
    #: Whether a copy may still be under way that brings the file back, so that the checkpoint remembers its name.
    is_recent: bool = False

    def is_at(self, found: FileId | None) -> bool:
        """Return whether the file that was found at the path is the one to remove."""
        return self.id is None or not self.id.is_other(found)

    def to_value(self) -> Any:
        if self.id is not None:
            return [self.path, self.id.size, self.id.mark]
        return [self.path] if self.is_recent else self.path


class Hidden(NamedTuple):
    """A removed file that may come back: the time of its removal, and its id if its name is not ours."""

    time: int
    id: FileId | None = None


class Run(NamedTuple):
    """A run of a job that its caller has named, so that it is committed once."""

    id: str
    #: A digest of what was asked; empty if the data was in memory.
    request: str = ""


class FinishedRun(NamedTuple):
    """A named run that was committed: its request as in `Run`, and its report."""

    request: str
    note: dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """The record that marks a commit finished, with everything that has to be remembered."""

    #: Files that were removed lately. If a listing still shows them, or shows them again, they count as removed.
    hidden: Mapping[str, Hidden] = field(default_factory=dict)
    #: The last batch of each streaming query.
    streams: Mapping[str, int] = field(default_factory=dict)
    #: The named runs that were committed last, by id, the oldest first.
    runs: Mapping[str, FinishedRun] = field(default_factory=dict)
    #: The number of the last commit that has put rows of the table into other files, 0 if there was none.
    rewritten: int = 0
    #: The number of the last commit that has removed a column, or has changed its name or type; 0 if there was none.
    columns_changed: int = 0

    def to_json(self) -> bytes:
        if self == Checkpoint():
            return b""
        hidden = [[path, time, *(id_[:2] if id_ else ())] for path, (time, id_) in self.hidden.items()]
        numbers = {"rewritten": self.rewritten, "columns_changed": self.columns_changed}
        runs = [[id_, *run] for id_, run in self.runs.items()]
        others = {"runs": runs, **numbers}
        values = {"hidden": hidden, "streams": self.streams, **{key: each for key, each in others.items() if each}}
        return json.dumps({"version": _VERSION, "checkpoint": values}).encode()

    def hides(self, path: str, found: FileId) -> bool:
        """Return whether a listed file counts as removed."""
        hidden = self.hidden.get(path)
        return hidden is not None and (hidden.id is None or not hidden.id.is_other(found))


@dataclass(frozen=True)
class Commit:
    """What a job changes. Paths are relative to the table."""

    job: str
    add: tuple[Addition, ...] = ()
    remove: tuple[Removal, ...] = ()
    #: Jobs that never committed and whose staged files are removed. They can no longer commit.
    discard: tuple[str, ...] = ()
    #: When the commit was planned, in seconds by the store's clock: the latest time of its staged files and records.
    time: int = 0
    #: Whether the table was listed for the plan. Then `remove` has all hidden files that were still there.
    is_listed: bool = False
    #: Until when removed files are kept, in seconds since 1970.
    keep: int | None = None
    #: Whether the record is deleted at the end, because the table has files of another format than Mosaic.
    is_transient: bool = False
    #: Whether rows of the table are in other files afterwards, which a stream would take for new rows.
    rewrites: bool = False
    #: Whether a column has gone afterwards, or has another name or type, so that older files do not fit any more.
    changes_columns: bool = False
    #: The streaming query that commits, and the number of its batch.
    stream: str | None = None
    batch: int | None = None
    #: The report of the job, for a later run that finds the commit pending, or finished under the name of its run.
    note: dict[str, Any] | None = None
    run: Run | None = None
    #: Tells this commit from every other.
    token: str = field(default_factory=new_token)
    #: The number of the record; 0 for records of an earlier version, which have none.
    number: int = field(default=0, compare=False)

    @property
    def record(self) -> str:
        """The name of the record."""
        return record_name(self.number) if self.number else f"add-{self.token}.json"

    @property
    def jobs(self) -> list[str]:
        """The jobs whose staged files are removed at the end. Tasks of a stream stage files as a job of their own."""
        return sorted({self.job, *self.discard, *(staging_job(each.staged) for each in self.add)})

    @property
    def kept(self) -> str | None:
        """The directory in which removed files are kept."""
        return None if self.keep is None else f"{JOBS}/{KEPT}/{self.keep}-{self.number}"

    @property
    def directories(self) -> set[str]:
        """All directories that the commit changes."""
        paths = (*(each.path for each in self.remove), *(path for each in self.add for path in each[:2]))
        return {self.kept or JOBS, JOBS, *(path.rpartition("/")[0] for path in paths)}

    def to_json(self) -> bytes:
        left_out = {
            "number",
            "remove",
            *(name for name in ("rewrites", "changes_columns", "run") if not getattr(self, name)),
        }
        values = {name: value for name, value in vars(self).items() if name not in left_out}
        return json.dumps({"version": _VERSION, **values, "remove": [each.to_value() for each in self.remove]}).encode()


class State(NamedTuple):
    """What the records of a table say."""

    #: The number of the last record, 0 if there is none.
    number: int = 0
    #: The commits that are not finished: one at most, and records of an earlier version.
    pending: tuple[Commit, ...] = ()
    #: The last checkpoint.
    checkpoint: Checkpoint = Checkpoint()
    #: When the last record was written, in seconds by the store's clock.
    time: int = 0

    def last_batch(self, stream: str) -> int:
        """Return the number of the last committed batch of a streaming query, -1 if there is none."""
        pending = [commit.batch for commit in self.pending if commit.stream == stream and commit.batch is not None]
        return max([*pending, self.checkpoint.streams.get(stream, -1)])

    @property
    def rewritten(self) -> int:
        """The number of the last commit, finished or not, that has put rows of the table into other files."""
        return max([self.checkpoint.rewritten, *(commit.number for commit in self.pending if commit.rewrites)])


# --- reading records ------------------------------------------------------------------------------------------------


def record_name(number: int) -> str:
    return f"commit-{number:016d}.json"


def record_number(name: str) -> int | None:
    """Return the number in the name of a record: 0 for a record of an earlier version, None for other files.

    Examples
    --------
    >>> record_number("commit-0000000000000012.json"), record_number("add-3f.json"), record_number("3.json")
    (12, 0, None)
    """
    found = re.fullmatch(r"add-.*\.json|commit-([0-9]{16}|[1-9][0-9]{16,})\.json", name)
    return int(found[1] or 0) if found else None


def parse_record(data: bytes, path: str, number: int) -> Commit | Checkpoint:
    """Parse the record at `path`.

    Raise `MosaicError` if it is not a record, or if it names paths outside its table, because writers move and delete
    the files that a record names.
    """
    if not data:
        return Checkpoint()
    try:
        value = json.loads(data)
        if value.pop("version") not in (2, _VERSION):
            raise ValueError("another version")
        if "checkpoint" in value:
            return _parse_checkpoint(**value["checkpoint"])
        commit = _parse_commit(number, **value)
        if number == 0 and PurePosixPath(path).name != commit.record:
            raise ValueError("the name of another record")
        return commit
    except MosaicError as error:
        raise error.locate(path=path) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MosaicError("not a commit record of this version", path=path, found=data[:200]) from None


def _parse_checkpoint(
    hidden: list[Any], streams: dict[str, int], runs: Sequence[Any] = (), **numbers: int
) -> Checkpoint:
    hidden_files = {path: Hidden(time, _parse_id(id_)) for path, time, *id_ in hidden}
    finished = {id_: FinishedRun(request, note) for id_, request, note in runs}
    checkpoint = Checkpoint(hidden_files, dict(streams), finished, **numbers)
    _check_types(str, [*checkpoint.hidden, *finished, *(run.request for run in finished.values())])
    _check_types(dict, [run.note for run in finished.values()])
    _check_types(int, [*streams.values(), *(each.time for each in checkpoint.hidden.values()), *numbers.values()])
    return checkpoint


def _parse_commit(number: int, *, token: str, add: list[Any], remove: list[Any], **others: Any) -> Commit:
    _check_types(list, [add, remove, others.setdefault("discard", [])])
    others["discard"] = tuple(others["discard"])
    if others.get("run") is not None:
        others["run"] = Run(*others["run"])
        _check_types(str, others["run"])
    additions = tuple(Addition(*each) for each in add)
    commit = Commit(**others, token=token, add=additions, remove=tuple(map(_parse_removal, remove)), number=number)
    _check_types(bool, [commit.is_listed, commit.is_transient, commit.rewrites, commit.changes_columns])
    _check_types(int, [commit.time, *(each.size for each in additions)])
    _check_types(int, [each for each in (commit.batch, commit.keep) if each is not None])
    _check_types(dict, [] if commit.note is None else [commit.note])
    _check_paths(commit)
    return commit


def _parse_removal(value: Any) -> Removal:
    """Parse ``path``, or ``[path]`` for a recent file, or ``[path, size, mark]`` for a file whose name is not ours."""
    path, *id_ = [value] if isinstance(value, str) else value
    return Removal(path, _parse_id(id_), is_recent=not isinstance(value, str) and not id_)


def _parse_id(values: list[Any]) -> FileId | None:
    if not values:
        return None
    size, mark = values
    _check_types(int, [size])
    _check_types(str, [mark])
    return FileId(size, mark)


def _check_types(type_: type, values: Iterable[Any]) -> None:
    for value in values:
        if type(value) is not type_ or (isinstance(value, int) and not -1 <= value < 1 << 63):
            raise TypeError(f"not of type {type_.__name__}, or too large")


def _check_paths(commit: Commit) -> None:
    """Refuse a commit that names paths outside its table, or files to add that no job has staged."""
    names = [commit.job, commit.token, *commit.discard, *([] if commit.stream is None else [commit.stream])]
    staged = [each.staged for each in commit.add]
    final = [*(each.final for each in commit.add), *(each.path for each in commit.remove)]
    _check_types(str, [*names, *staged, *final])
    for path in (*names, *staged, *final):
        parts = path.split("/")
        if not {"", ".", ".."}.isdisjoint(parts):
            raise MosaicError("a commit names a path outside its table", found=path)
        if "\0" in path or max(len(part.encode()) for part in parts) > MAX_NAME:
            raise MosaicError("a commit names a path that no file system takes", found=ascii(path))
    for path in final:
        if path.split("/")[0] == JOBS:
            raise MosaicError("a commit changes a file in the directory of jobs", found=path)
    for path in staged:
        if not path.startswith(f"{JOBS}/") or path.count("/") < 3:
            raise MosaicError("a commit adds a file that no job has staged", found=path)
    for name in names:
        if "/" in name or name in (STREAMS, KEPT):
            raise MosaicError("a commit names a path outside its table", found=name)


# --- decisions ------------------------------------------------------------------------------------------------------


def plan_changes(
    names: Collection[str],
    existing: Mapping[str, FileId],
    mode: Mode,
    read: Mapping[str, FileId] | None = None,
    seen: Mapping[str, FileId] | None = None,
) -> list[str]:
    """Return the existing files that a job removes from the table as it is now.

    `names` are the files that the job adds, `existing` those of the table that it may replace. For "replace" and
    "change", `read` are the files that the job replaces, with their ids from the time it has read them; for "change",
    `seen` are all files that the job has looked at. Those that it does not replace may be gone.

    Raises
    ------
    ConflictError
        If files that the job has read are no longer there, or a table that should be empty is not.
    FilesAddedError
        If there are files that a job with mode "change" has not seen.

    Examples
    --------
    >>> plan_changes(["p=1/b"], {"p=1/a": FileId(1), "p=2/a": FileId(1)}, "dynamic")
    ['p=1/a']
    """
    replaced: Iterable[str] = ()
    if mode == "create" and existing:
        raise ConflictError(
            "another job has written to the target meanwhile; nothing was changed. "
            "Run this job again with overwrite to replace those files, or with another target",
            found=min(existing),
        )
    if mode == "overwrite":
        replaced = existing
    elif mode == "dynamic":
        touched = {_partition(name) for name in names}
        replaced = [path for path in existing if _partition(path) in touched]
    elif mode in ("replace", "change"):
        replaced = read or {}
        changed = [path for path, found in (read or {}).items() if found.is_other(existing.get(path))]
        if changed:
            raise ConflictError(
                "another job has replaced or removed files that this one has read; nothing was changed. Run it again",
                found=f"{len(changed)} files, such as {min(changed)}",
            )
        known = seen or {}
        added = [path for path, id_ in existing.items() if path not in known or known[path].is_other(id_)]
        if mode == "change" and added:
            raise FilesAddedError(
                "another job has added files while this one has changed the others; nothing was changed. Run it again",
                found=f"{len(added)} files, such as {min(added)}",
            )
    return sorted(set(replaced) - set(names))


def refuse_old_columns(checkpoint: Checkpoint, since: int) -> None:
    """Raise if columns were removed, renamed or given other types after the record with the number `since`.

    An append that has begun before that has columns and types of the table as it was, and would bring them back.
    """
    if checkpoint.columns_changed > since:
        raise ConflictError(
            "columns of the table were removed, renamed or given another type while these rows were written; nothing "
            "was changed. Write them again with the columns that the table has now",
            found=f"a change in record {checkpoint.columns_changed}",
            expected=f"none after record {since}",
        )


def refuse_finished(checkpoint: Checkpoint, run: Run) -> None:
    """Raise if another process has committed a run of this name since this one began."""
    if run.id in checkpoint.runs:
        raise ConflictError(
            "another process has committed this run meanwhile; nothing was changed. Run it again to get its report",
            found=f"run_id={run.id!r}",
        )


def _partition(path: str) -> tuple[tuple[str, str | None], ...]:
    """Return the partition of a file, which is the same however its directories are escaped."""
    return tuple(parse_partition(path.split("/")[:-1]).items())


def plan_removals(files: Mapping[str, FileId], time: int, *, copies: bool) -> tuple[Removal, ...]:
    """Decide how files are removed at a `time`; `copies` says whether commits copy files to their final paths.

    Examples
    --------
    >>> day = 86_400 * 10**9
    >>> name = "a-0123456789abcdef-00000.mosaic"
    >>> [each.is_recent for each in plan_removals({name: FileId(1, "", 5 * day)}, 7 * 86_400, copies=True)]
    [False]
    """
    removals = []
    for path, found in sorted(files.items()):
        if is_ours(path):
            is_recent = copies and (not found.modified or found.modified // 10**9 > time - REMEMBERED_SECONDS)
            removals.append(Removal(path, None, is_recent))
        else:
            removals.append(Removal(path, FileId(found.size, found.mark)))
    return tuple(removals)


def checkpoint_after(before: Checkpoint, commit: Commit, failed: Collection[str] = ()) -> Checkpoint:
    """Return the checkpoint of a commit that follows the checkpoint `before`; `failed` are files that were not removed.

    A name is forgotten after `REMEMBERED_SECONDS`, but only by a commit for which the table was listed: if the file was
    still there, that commit removes it again. So no file that is still there is ever forgotten.
    """
    changed = {each.path for each in commit.remove} | {each.final for each in commit.add}
    oldest = commit.time - REMEMBERED_SECONDS if commit.is_listed else -1
    remembered = [(path, each) for path, each in before.hidden.items() if path not in changed and each.time > oldest]
    if commit.is_listed:
        remembered = sorted(remembered, key=lambda item: item[1].time)[-MAX_REMEMBERED:]
    removed = [each for each in commit.remove if each.is_recent or each.path in failed]
    hidden = dict(remembered) | {each.path: Hidden(commit.time, each.id) for each in removed}
    streams = dict(before.streams)
    if commit.stream is not None and commit.batch is not None:
        streams[commit.stream] = max(commit.batch, streams.get(commit.stream, -1))
    runs = dict(before.runs)
    if commit.run is not None:
        runs[commit.run.id] = FinishedRun(commit.run.request, commit.note or {})
    rewritten = commit.number if commit.rewrites else before.rewritten
    columns_changed = commit.number if commit.changes_columns else before.columns_changed
    return Checkpoint(hidden, streams, dict(list(runs.items())[-MAX_RUNS:]), rewritten, columns_changed)


def visible_files(
    listed: Mapping[str, FileId], pending: Iterable[Commit], checkpoint: Checkpoint = Checkpoint()
) -> dict[str, Addition | None]:
    """Return the files of a table with pending commits, each with the addition that brings it there, if there is one.

    Examples
    --------
    >>> commit = Commit("j", (Addition("s/a", "a"), Addition("s/b", "b")), (Removal("old"),))
    >>> found = visible_files(dict.fromkeys(["old", "b"], FileId(1)), [commit])
    >>> {path: addition and addition.staged for path, addition in found.items()}
    {'b': 's/b', 'a': 's/a'}
    """
    files: dict[str, Addition | None] = {
        path: None for path, found in listed.items() if not checkpoint.hides(path, found)
    }
    for commit in pending:
        for removal in commit.remove:
            if removal.is_at(listed.get(removal.path)):
                files.pop(removal.path, None)
        files |= {addition.final: addition for addition in commit.add}
    return files
