"""How many files become visible at once: staged out of sight, one record that decides, then plain renames.

A job writes below ``_mosaic_jobs/<job>/``, which no reader lists. Its commit is one small file,
``_mosaic_jobs/<job>/commit.json``, that appears whole or not at all and names every file to add and every file to
remove. From that moment the job has happened: `smalti.table.listing` lists the files as the record says, and whoever
finds the record may carry it out; doing so twice is harmless. Once it is carried out, the record is deleted and the
table is a plain directory of files again. The Spark data source and `smalti.jobs` write this way; nothing here knows
either.

This module decides, purely; `smalti.table.commit_log` acts on it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from smalti.errors import MosaicError
from smalti.spec import FILE_SUFFIX
from smalti.table.partitions import parse_partition

#: Where jobs stage their files and leave their records; the name starts with an underscore, so listings pass over it.
JOBS = "_mosaic_jobs"

Mode = Literal["append", "overwrite", "dynamic"]


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
        Tells this commit from a later one of the same job.
    """

    job: str
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()
    stream: str | None = None
    batch: int | None = None
    note: dict[str, Any] | None = None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def to_json(self) -> bytes:
        return json.dumps({"version": 1, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str, job: str) -> Commit:
        """Parse the record of `job` that was found at `where`.

        Raises
        ------
        MosaicError
            If it is not a record, or names paths outside its table: whoever finds a record carries it out.
        """
        try:
            found = json.loads(data)
            if found.pop("version") != 1 or found["job"] != job or not found["token"]:
                raise ValueError("of another version, or another job")
            add = tuple((staged, final) for staged, final in found.pop("add"))
            commit = cls(add=add, remove=tuple(found.pop("remove")), **found)
            texts = [*commit.remove, *(path for pair in add for path in pair), commit.token, commit.stream or ""]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("not text")
            if not isinstance(commit.batch, int | None) or not isinstance(commit.note, dict | None):
                raise TypeError("not a number, not an object")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise MosaicError("not a commit record of this version", path=where, found=data[:200]) from None
        check_inside(commit, where)
        return commit


def check_inside(commit: Commit, where: str) -> None:
    """Refuse a commit whose files are not all staged by a job, or that touches what is not the table's."""
    for staged, final in commit.add:
        if PurePosixPath(staged).parts[:1] != (JOBS,) or ".." in PurePosixPath(staged).parts:
            raise MosaicError("a commit adds a file that no job has staged", path=where, found=staged)
        if PurePosixPath(final).parts[:1] == (JOBS,):
            raise MosaicError("a commit adds a file where jobs stage theirs", path=where, found=final)
    for path in (*commit.remove, *(final for _, final in commit.add), commit.stream or "none"):
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise MosaicError("a commit names a path outside its table", path=where, found=path)


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


def plan_commit(
    job: str,
    staged: Iterable[str],
    existing: Iterable[str],
    mode: Mode,
    *,
    stream: str | None = None,
    batch: int | None = None,
) -> Commit:
    """Decide what a job changes.

    Parameters
    ----------
    job : str
    staged : iterable of str
        Files of the task attempts that count, as staged.
    existing : iterable of str
        Files of the table as it is.
    mode : {"append", "overwrite", "dynamic"}
        Overwriting replaces everything; dynamic, only the partitions that get new files, however they are spelled.

    Examples
    --------
    >>> plan_commit("j", ["_mosaic_jobs/j/t/p=1/b"], ["p=1/a", "p=2/a"], "dynamic").remove
    ('p=1/a',)
    """
    add = tuple((path, final_path(path)) for path in sorted(staged))
    if mode == "append":
        remove: tuple[str, ...] = ()
    elif mode == "overwrite":
        remove = tuple(sorted(existing))
    else:
        touched = {_partition(final) for _, final in add}
        remove = tuple(sorted(path for path in existing if _partition(path) in touched))
    return Commit(job, add, remove, stream, batch)


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
    """Whether a listing could see a commit in part: one change is seen or not, of several only some may be seen.

    Only tables of Mosaic files are marked, because other tools that read what was converted for them should find no
    files of ours. `smalti.table.listing` lists other files twice instead.
    """
    changed = [*(final for _, final in commit.add), *commit.remove]
    return len(changed) > 1 and any(path.endswith(FILE_SUFFIX) for path in changed)
