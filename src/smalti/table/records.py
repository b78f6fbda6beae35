"""How many files become visible at once: staged out of sight, one record that decides, then plain moves.

A job writes below ``_mosaic_jobs/<job>/``, which no reader lists. Its commit is one small file that appears whole or
not at all and names every file to add and every file to remove. Records have numbers, and alternate::

    _mosaic_jobs/commit-0000000000000011.json    a commit: what is added and removed
    _mosaic_jobs/commit-0000000000000012.json    its checkpoint: it is carried out, and what is to be remembered

A record is created exclusively: a job plans its commit for the table as checkpoint 12 has left it, and the commit
happens only if there is no record 13 yet. Otherwise another job was faster, and this one plans again. Only the last
record counts. If it is a commit, the commit is pending: `smalti.table.listing` shows the files as the record says, and
every writer that finds it carries it out; doing so twice is harmless.

The name of an added Mosaic file is never used again (`unique_names`). So whatever a slow process still does to that
name, long after the commit is over, it does to a file that is gone or that holds the same rows: a late deletion hits
nothing, and a file that a late copy has brought back is known by its name. The checkpoint remembers the names that were
removed lately for that purpose, and the last batch of each stream. It is empty if there is nothing to remember.

This module decides, purely; `smalti.table.log` acts on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from smalti.errors import ConflictError, MosaicError
from smalti.table.names import JOBS, KEPT, MAX_NAME, STREAMS, is_ours, new_token, parse_partition, staging_job

#: "append" adds, "overwrite" replaces all files and "dynamic" those of the partitions that get new ones. "create" wants
#: a table without files. "replace" takes the place of the files that the job has read, and of no others.
Mode = Literal["append", "overwrite", "dynamic", "create", "replace"]

_VERSION = 3
#: Of a record; its name has sixteen digits.
MAX_NUMBER = 10**16 - 1
#: How long a copy or a process may be under way, in seconds: the names that a store could bring back for so long are
#: remembered, and the names of files that were there for longer before they were removed are not.
MEMORY = 24 * 3600
#: Names that a checkpoint remembers besides those of its own commit. The oldest ones are forgotten first.
MAX_REMEMBERED = 20_000


class FileId(NamedTuple):
    """What tells a file from another one that has taken its name: its size, and its ETag or time of modification."""

    size: int
    mark: str = ""
    #: In nanoseconds, 0 if it is not known. It is not compared.
    modified: int = 0

    @classmethod
    def of(cls, size: int, etag: str, modified: int) -> FileId:
        return cls(size, etag or str(modified or ""), modified)

    def is_other(self, found: FileId | None) -> bool:
        """Whether another file was found at the name, or none; as far as the marks of both are known."""
        return found is None or self.size != found.size or bool(self.mark and found.mark and self.mark != found.mark)


class Addition(NamedTuple):
    """A file to add: where it was staged, where it goes, and its size, -1 if an earlier version has not said it."""

    staged: str
    final: str
    size: int = -1


class Removal(NamedTuple):
    """A file to remove.

    Attributes
    ----------
    path : str
    id : FileId, optional
        Of a file that somebody else has put there: it is removed only if it is still that one.
    is_recent : bool
        Whether a copy that brings the file back may be under way, so that its name has to be remembered.
    """

    path: str
    id: FileId | None = None
    is_recent: bool = False

    def to_value(self) -> Any:
        if self.id is not None:
            return [self.path, self.id.size, self.id.mark]
        return [self.path] if self.is_recent else self.path

    @classmethod
    def from_value(cls, value: Any) -> Removal:
        if isinstance(value, str):
            return cls(value)
        path, *of = value
        return cls(path, FileId(int(of[0]), str(of[1])) if of else None, not of)


class Hidden(NamedTuple):
    """When a file was removed, by the store's clock, and which file, unless its name says it."""

    time: int
    id: FileId | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What is to be remembered when a commit is carried out.

    Attributes
    ----------
    hidden : mapping of str to Hidden
        Files that were removed lately: if they are listed, they count as removed all the same.
    streams : mapping of str to int
        The last batch of each streaming query.
    """

    hidden: Mapping[str, Hidden] = field(default_factory=dict)
    streams: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Its record; an empty one if there is nothing to remember."""
        if not self.hidden and not self.streams:
            return b""
        hidden = [[path, time, *(id_[:2] if id_ else ())] for path, (time, id_) in self.hidden.items()]
        return json.dumps({"version": _VERSION, "checkpoint": {"hidden": hidden, "streams": self.streams}}).encode()

    @classmethod
    def from_value(cls, value: Any) -> Checkpoint:
        hidden = {}
        for path, time, *of in value["hidden"]:  # They matter only where files of these names are listed.
            if not isinstance(path, str):
                raise TypeError("not a path")
            hidden[path] = Hidden(int(time), FileId(int(of[0]), str(of[1])) if of else None)
        if not all(isinstance(stream, str) and isinstance(batch, int) for stream, batch in value["streams"].items()):
            raise TypeError("not batches by stream")
        return cls(hidden, dict(value["streams"]))

    def hides(self, path: str, found: FileId) -> bool:
        """Whether a file that is listed has been removed."""
        hidden = self.hidden.get(path)
        return hidden is not None and (hidden.id is None or not hidden.id.is_other(found))


class State(NamedTuple):
    """What the records of a table say.

    Attributes
    ----------
    number : int
        The number of the last record, 0 if there is none.
    pending : tuple of Commit
        The commits that are not known to be carried out.
    memory : Checkpoint
        What the last checkpoint remembers.
    time : int
        When the last record was written, in seconds and by the clock of the store.
    """

    number: int = 0
    pending: tuple[Commit, ...] = ()
    memory: Checkpoint = Checkpoint()
    time: int = 0


@dataclass(frozen=True)
class Commit:
    """What a job changes. Paths are relative to the table.

    Attributes
    ----------
    add : tuple of Addition
    remove : tuple of Removal
    discard : tuple of str
        Jobs that never committed, and whose files are removed: whoever commits for one of them is too late.
    time : int
        When it was planned, in seconds and by the clock of the store: the latest time that its files tell.
    is_listed : bool
        Whether the table was listed for it, so that what is hidden and was listed is among `remove`.
    keep : int, optional
        Until when removed files are kept, in seconds since 1970.
    is_transient : bool
        Whether the record goes when it is carried out, because it is in a directory of other files than Mosaic.
    stream, batch : str and int, optional
        Which batch of which streaming query this is.
    note : dict, optional
        What the job wants to be told when somebody else finishes its commit.
    token : str
        Tells this commit from every other.
    number : int, optional
        Of its record; 0 if it is one of an earlier version that has none.
    """

    job: str
    add: tuple[Addition, ...] = ()
    remove: tuple[Removal, ...] = ()
    discard: tuple[str, ...] = ()
    time: int = 0
    is_listed: bool = False
    keep: int | None = None
    is_transient: bool = False
    stream: str | None = None
    batch: int | None = None
    note: dict[str, Any] | None = None
    token: str = field(default_factory=lambda: new_token())
    number: int = field(default=0, compare=False)

    @property
    def record(self) -> str:
        """The name of its record."""
        return record_name(self.number) if self.number else f"add-{self.token}.json"

    @property
    def jobs(self) -> list[str]:
        """The jobs whose staged files go when it is carried out: tasks of a stream stage below a job of their own."""
        return sorted({self.job, *self.discard, *(staging_job(each.staged) for each in self.add)})

    @property
    def kept(self) -> str | None:
        """Where its removed files are kept."""
        return None if self.keep is None else f"{JOBS}/{KEPT}/{self.keep}-{self.number}"

    def to_json(self) -> bytes:
        values = {name: value for name, value in vars(self).items() if name not in ("number", "remove")}
        return json.dumps({"version": _VERSION, **values, "remove": [each.to_value() for each in self.remove]}).encode()


def parse_record(data: bytes, where: str, number: int) -> Commit | Checkpoint:
    """Parse the record that was found at `where`.

    Raises
    ------
    MosaicError
        If it is not a record, or names paths outside its table: writers that find a record carry it out.
    """
    if not data:
        return Checkpoint()
    try:
        found = json.loads(data)
        if found.pop("version") not in (2, _VERSION):
            raise ValueError("of another version")
        if "checkpoint" in found:
            return Checkpoint.from_value(found["checkpoint"])
        found["add"] = tuple(Addition(*addition) for addition in _list(found["add"]))
        found["remove"] = tuple(map(Removal.from_value, _list(found["remove"])))
        found["discard"] = tuple(_list(found.get("discard", [])))
        if not found["token"] or "number" in found:
            raise ValueError("without its token, or with a number of its own")
        commit = Commit(**found, number=number)
        _check_types(commit)
        if number == 0 and PurePosixPath(where).name != commit.record:
            raise ValueError("under the name of another record")
    except MosaicError as error:
        raise error.locate(path=where) from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError):
        raise MosaicError("not a commit record of this version", path=where, found=data[:200]) from None
    check_inside(commit, where)
    return commit


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _check_types(commit: Commit) -> None:
    texts = [commit.job, commit.token, *commit.discard, *(each.path for each in commit.remove)]
    texts += [path for each in commit.add for path in (each.staged, each.final)]
    numbers = [commit.time, *(each.size for each in commit.add), *(each.id.size for each in commit.remove if each.id)]
    numbers += [number for number in (commit.batch, commit.keep) if number is not None]
    if not all(isinstance(text, str) for text in texts) or not isinstance(commit.stream, str | None):
        raise TypeError("not text")
    if not all(type(number) is int and -1 <= number < 1 << 63 for number in numbers):
        raise TypeError("not a number")
    if not isinstance(commit.note, dict | None) or {type(commit.is_listed), type(commit.is_transient)} != {bool}:
        raise TypeError("not an object, not a truth value")


def check_inside(commit: Commit, where: str) -> None:
    """Refuse a commit whose files are not all staged by a job, or that touches what is not the table's."""
    try:
        for staged, final, _ in commit.add:
            if PurePosixPath(staged).parts[:1] != (JOBS,) or len(PurePosixPath(staged).parts) < 4:
                raise MosaicError("a commit adds a file that no job has staged", found=staged)
            if PurePosixPath(final).parts[:1] == (JOBS,):
                raise MosaicError("a commit adds a file where jobs stage theirs", found=final)
        for name in (commit.job, commit.token, *commit.discard, commit.stream or "none"):
            if len(PurePosixPath(name).parts) != 1 or name in (STREAMS, KEPT):
                raise MosaicError("a commit names a path outside its table", found=name)
            _check_path(name)
        for path in (*(each.path for each in commit.remove), *(path for each in commit.add for path in each[:2])):
            _check_path(path)
    except MosaicError as error:
        raise error.locate(path=where) from None


def _check_path(path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise MosaicError("a commit names a path outside its table", found=path)
    if "\0" in path or not all(map(_is_name, parts)):
        raise MosaicError("a commit names a path that no file system takes", found=ascii(path))


def _is_name(part: str) -> bool:
    try:
        return len(part.encode()) <= MAX_NAME
    except UnicodeEncodeError:  # Half of a character, which JSON can hold.
        return False


# --- names ----------------------------------------------------------------------------------------------------------


def record_name(number: int) -> str:
    """
    Examples
    --------
    >>> record_name(12), record_number("commit-0000000000000012.json"), record_number("add-3f.json")
    ('commit-0000000000000012.json', 12, None)
    """
    return f"commit-{number:016d}.json"


def record_number(name: str) -> int | None:
    """The number in the name of a record; None if it is another file."""
    found = re.fullmatch(r"commit-([0-9]{16})\.json", name)
    return int(found[1]) if found else None


# --- decisions ------------------------------------------------------------------------------------------------------


def plan_changes(
    names: Collection[str],
    existing: Mapping[str, FileId],
    mode: Mode,
    read: Mapping[str, FileId] | None = None,
) -> list[str]:
    """The existing files that a job removes, as the table is now. Partitions are the same however they are spelled.

    Parameters
    ----------
    names : collection of str
        The files that the job adds.
    existing : mapping of str to FileId
        The files of the table that the job may replace.
    mode : Mode
    read : mapping of str to FileId, optional
        For "replace": the files that the job has read, as they were then.

    Raises
    ------
    ConflictError
        If files that the job has read are no longer there, or a table that should be empty is not.

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
    elif mode == "replace":
        replaced = read or {}
        changed = [path for path, found in (read or {}).items() if found.is_other(existing.get(path))]
        if changed:
            raise ConflictError(
                "another job has replaced or removed files that this one has read; nothing was changed. Run it again",
                found=f"{len(changed)} files, such as {min(changed)}",
            )
    return sorted(set(replaced) - set(names))


def _partition(path: str) -> tuple[tuple[str, str | None], ...]:
    return tuple(parse_partition(path.split("/")[:-1]).items())


def plan_removals(files: Mapping[str, FileId], time: int, *, copies: bool) -> tuple[Removal, ...]:
    """How files are removed at some `time`; `copies` says whether files are moved into the table by copies.

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
            is_recent = copies and (not found.modified or found.modified // 10**9 > time - MEMORY)
            removals.append(Removal(path, None, is_recent))
        else:
            removals.append(Removal(path, FileId(found.size, found.mark)))
    return tuple(removals)


def checkpoint_after(before: Checkpoint, commit: Commit, failed: Collection[str] = ()) -> Checkpoint:
    """What is to be remembered after a commit.

    Names of `before` are forgotten after `MEMORY`, but only by a commit for which the table was listed: what was
    listed then, it removes again. So nothing that is still there is ever forgotten.

    Parameters
    ----------
    before : Checkpoint
    commit : Commit
    failed : collection of str
        Files that could not be removed.
    """
    gone = {each.path for each in commit.remove} | {each.final for each in commit.add}
    oldest = commit.time - MEMORY if commit.is_listed else -1
    kept = [(path, each) for path, each in before.hidden.items() if path not in gone and each.time > oldest]
    if commit.is_listed:
        kept = sorted(kept, key=lambda item: item[1].time)[-MAX_REMEMBERED:]
    hidden = dict(kept)
    for path, id_, is_recent in commit.remove:
        if is_recent or path in failed:
            hidden[path] = Hidden(commit.time, id_)
    streams = dict(before.streams)
    if commit.stream is not None and commit.batch is not None:
        streams[commit.stream] = max(commit.batch, streams.get(commit.stream, -1))
    return Checkpoint(hidden, streams)


def visible_files(
    listed: Mapping[str, FileId], pending: Iterable[Commit], memory: Checkpoint = Checkpoint()
) -> dict[str, Addition | None]:
    """The files of a table while commits may be half carried out, with the addition that a file is of, if any.

    Examples
    --------
    >>> commit = Commit("j", (Addition("s/a", "a"), Addition("s/b", "b")), (Removal("old"),))
    >>> found = visible_files(dict.fromkeys(["old", "b"], FileId(1)), [commit])
    >>> {path: addition and addition.staged for path, addition in found.items()}
    {'b': 's/b', 'a': 's/a'}
    """
    files: dict[str, Addition | None] = {path: None for path, found in listed.items() if not memory.hides(path, found)}
    for commit in pending:
        for path, id_, _ in commit.remove:
            if path in files and (id_ is None or path not in listed or not id_.is_other(listed[path])):
                del files[path]
        files |= {addition.final: addition for addition in commit.add}
    return files
