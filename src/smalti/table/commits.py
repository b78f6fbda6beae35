"""How many files become visible at once: staged out of sight, one record that decides, then plain renames.

A job writes below ``_mosaic_jobs/<job>/``, which no reader lists. Its commit is one small file that appears whole or
not at all and names every file to add and every file to remove::

    _mosaic_jobs/commit-0000000000000012.json    the twelfth record; nobody can create a second one of that number
    _mosaic_jobs/add-<token>.json                a commit that only adds files, and that nobody can conflict with

A numbered record is created exclusively: who plans a commit looks at the table as record 11 has left it, and the commit
happens only if record 12 is not there yet. Otherwise somebody else was faster, and the job looks again. Of all numbered
records only the last can be pending: `smalti.table.listing` lists the files as that record says, and whoever finds it
may carry it out; doing so twice is harmless. Nobody writes the next record before that is done, and an empty record
says only that it is. Records are never changed, and one that is not the last counts for nothing. Afterwards the
table is a plain directory of files for every reader. The Spark data source and `smalti.jobs` write this way; nothing
here knows either.

This module decides, purely; `smalti.table.commit_log` acts on it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from smalti.errors import ConflictError, MosaicError
from smalti.spec import FILE_SUFFIX
from smalti.table.partitions import parse_partition

#: Where jobs stage their files and leave their records; the name starts with an underscore, so listings pass over it.
JOBS = "_mosaic_jobs"
#: In there, the directory that remembers the batches of streaming queries. No job may have this name.
STREAMS = "streams"

#: "append" adds, "overwrite" replaces all files and "dynamic" those of the partitions that get new ones. "create" wants
#: a table without files. "replace" takes the place of the files that the job has read, and of no others.
Mode = Literal["append", "overwrite", "dynamic", "create", "replace"]

#: Size and time of modification of a file: tells a file from another one that has taken its name.
Identity = tuple[int, int]

_VERSION = 2
#: File systems take names of up to 255 bytes.
_MAX_NAME = 255
#: Of a record; its name has sixteen digits.
MAX_NUMBER = 10**16 - 1


class State(NamedTuple):
    """What the records of a table say.

    Attributes
    ----------
    number : int
        The number of the last record, 0 if there is none.
    pending : tuple of Commit
        The commits that are not known to be carried out.
    """

    number: int
    pending: tuple[Commit, ...]


@dataclass(frozen=True)
class Commit:
    """What a job changes. Paths are relative to the table.

    Attributes
    ----------
    add : tuple of (str, str)
        For each file, where it was staged and where it goes; it replaces a file that is there.
    remove : tuple of str
    stream, batch : str and int, optional
        Which batch of which streaming query this is.
    note : dict, optional
        What the job wants to be told when somebody else finishes its commit.
    token : str
        Tells this commit from every other.
    number : int, optional
        Of its record; 0 if it needs none, None if it is not decided yet.
    """

    job: str
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()
    stream: str | None = None
    batch: int | None = None
    note: dict[str, Any] | None = None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    number: int | None = field(default=None, compare=False)

    @property
    def record(self) -> str:
        """The name of its record."""
        return record_name(self.number) if self.number else f"add-{self.token}.json"

    def to_json(self) -> bytes:
        values = asdict(self)
        del values["number"]  # The name of the record says it.
        return json.dumps({"version": _VERSION, **values}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str, number: int) -> Commit:
        """Parse the record that was found at `where`.

        Raises
        ------
        MosaicError
            If it is not a record, or names paths outside its table: whoever finds a record carries it out.
        """
        try:
            found = json.loads(data)
            if found.pop("version") != _VERSION or not found["token"]:
                raise ValueError("of another version, or without its token")
            add = tuple((staged, final) for staged, final in found.pop("add"))
            commit = cls(add=add, remove=tuple(found.pop("remove")), number=number, **found)
            texts = [*commit.remove, *(path for pair in add for path in pair), commit.job, commit.token]
            if not all(isinstance(text, str) for text in texts) or not isinstance(commit.stream, str | None):
                raise TypeError("not text")
            if not isinstance(commit.batch, int | None) or not isinstance(commit.note, dict | None):
                raise TypeError("not a number, not an object")
            if commit.batch is not None and not 0 <= commit.batch < 1 << 63:
                raise ValueError("not the number of a batch")
            if number == 0 and PurePosixPath(where).name != commit.record:
                raise ValueError("under the name of another record")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise MosaicError("not a commit record of this version", path=where, found=data[:200]) from None
        check_inside(commit, where)
        return commit


def check_inside(commit: Commit, where: str) -> None:
    """Refuse a commit whose files are not all staged by a job, or that touches what is not the table's."""
    for staged, final in commit.add:
        if PurePosixPath(staged).parts[:1] != (JOBS,) or len(PurePosixPath(staged).parts) < 4:
            raise MosaicError("a commit adds a file that no job has staged", path=where, found=staged)
        if PurePosixPath(final).parts[:1] == (JOBS,):
            raise MosaicError("a commit adds a file where jobs stage theirs", path=where, found=final)
    for name in (commit.job, commit.token, "none" if commit.stream is None else commit.stream):
        if len(PurePosixPath(name).parts) != 1 or name == STREAMS:
            raise MosaicError("a commit names a path outside its table", path=where, found=name)
    paths = (*commit.remove, *(path for pair in commit.add for path in pair))
    for path in (*paths, commit.job, commit.token, commit.stream or "none"):
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise MosaicError("a commit names a path outside its table", path=where, found=path)
        if "\0" in path or not all(map(_is_name, parts)):
            raise MosaicError("a commit names a path that no file system takes", path=where, found=ascii(path))


def _is_name(part: str) -> bool:
    try:
        return len(part.encode()) <= _MAX_NAME
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


def staging_directory(job: str, task: str) -> str:
    """Where one attempt of one task of a job writes, relative to the table."""
    return f"{JOBS}/{job}/{task}"


def staging_job(staged: str) -> str:
    """The job that staged a file."""
    return staged.split("/", 2)[1]


def final_path(staged: str) -> str:
    """Where a staged file goes.

    Examples
    --------
    >>> final_path("_mosaic_jobs/j1/t7/day=3/part-0.mosaic")
    'day=3/part-0.mosaic'
    """
    return staged.split("/", 3)[3]


# --- decisions ------------------------------------------------------------------------------------------------------


def plan_commit(
    job: str,
    staged: Iterable[str] | Mapping[str, str],
    existing: Iterable[str] | Mapping[str, Identity],
    mode: Mode,
    *,
    after: int | None = None,
    read: Mapping[str, Identity] | None = None,
    since: Iterable[Commit] = (),
    stream: str | None = None,
    batch: int | None = None,
    note: dict[str, Any] | None = None,
) -> Commit:
    """Decide what a job changes in a table, as the table is now.

    Parameters
    ----------
    job : str
    staged : iterable or mapping of str
        Files of the task attempts that count, as staged; a mapping also says where each of them goes.
    existing : iterable of str, or mapping of str to Identity
        Files of the table as it is; "replace" needs to know which files they are.
    mode : Mode
        What becomes of the existing files. Partitions are the same however they are spelled.
    after : int, optional
        The number of the table's last record when `existing` was listed: the commit happens only if there is no other.
    read : mapping of str to Identity, optional
        For "replace": the files that the job has read, as they were then.
    since : iterable of Commit
        For "replace": what others have committed since then. Object stores tell times in seconds, so that a file and
        another one of the same size that has taken its name can look the same.

    Raises
    ------
    ConflictError
        If files that the job has read are no longer there, or a table that should be empty is not.

    Examples
    --------
    >>> plan_commit("j", ["_mosaic_jobs/j/t/p=1/b"], ["p=1/a", "p=2/a"], "dynamic", after=4).remove
    ('p=1/a',)
    """
    pairs = staged.items() if isinstance(staged, Mapping) else ((path, final_path(path)) for path in staged)
    add = tuple(sorted(pairs))
    finals = {final for _, final in add}
    identities = existing if isinstance(existing, Mapping) else dict.fromkeys(existing, (0, 0))
    replaced: Iterable[str] = ()
    if mode == "create" and identities:
        raise ConflictError(
            "another job has written to the target meanwhile; nothing was changed. "
            "Run this job again with overwrite to replace those files, or with another target",
            found=min(identities),
        )
    if mode == "overwrite":
        replaced = identities
    elif mode == "dynamic":
        touched = {_partition(final) for final in finals}
        replaced = [path for path in identities if _partition(path) in touched]
    elif mode == "replace":
        committed = {path for commit in since for path in (*commit.remove, *(final for _, final in commit.add))}
        changed = [path for path, found in (read or {}).items() if identities.get(path) != found or path in committed]
        if changed:
            raise ConflictError(
                "another job has replaced or removed files that this one has read; nothing was changed. Run it again",
                found=f"{len(changed)} files, such as {min(changed)}",
            )
        replaced = read or {}
    remove = tuple(sorted(path for path in replaced if path not in finals))
    commit = Commit(job, add, remove, stream, batch, note)
    if mode == "create" and not needs_mark(commit):
        return replace(commit, number=0)
    return commit if after is None else replace(commit, number=after + 1)


def _partition(path: str) -> tuple[tuple[str, str | None], ...]:
    return tuple(parse_partition(path.split("/")[:-1]).items())


def visible_files(listed: Iterable[str], pending: Iterable[Commit]) -> dict[str, str]:
    """The files of a table while commits may be half carried out: where each will be, and where it was last seen.

    A staged file hides a file that has its final name already, because that one is about to be replaced.

    Examples
    --------
    >>> visible_files(["old", "b"], [Commit("j", (("s/a", "a"), ("s/b", "b")), ("old",))])
    {'b': 's/b', 'a': 's/a'}
    """
    files = {path: path for path in listed}
    for commit in pending:
        for path in commit.remove:
            files.pop(path, None)
        for staged, final in commit.add:
            files[final] = staged
    return files


def needs_mark(commit: Commit) -> bool:
    """Whether a commit that only adds files must take a number all the same, because a listing could see it in part.

    Of one change, a listing sees all or nothing. Files other than Mosaic are listed twice instead, because the tools
    that read what was converted for them should find no files of ours.
    """
    return len(commit.add) > 1 and any(final.endswith(FILE_SUFFIX) for _, final in commit.add)
