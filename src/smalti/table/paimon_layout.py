"""Recognising Paimon tables, so that none is ever read or written as a plain directory of files.

The snapshots of a Paimon table decide which rows it has. Its directories also hold old versions of rows, deleted rows
and files of writers that never committed. So reading all files gives wrong rows, and a commit of ours among them
destroys the table. A Paimon table has a file `schema/schema-0` (or with a later number). Paimon's "format tables" have
one too, but they have no snapshots: they are plain directories, and their schema says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from smalti.errors import PaimonTableError
from smalti.io.locations import Location

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: Directories of every Paimon table.
SCHEMAS, SNAPSHOTS = "schema", "snapshot"
_SCHEMA_FILE = re.compile(r"schema-(\d+)")
_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")
_READING = (
    "a Paimon table: its snapshots decide which rows there are, and its directory also holds old versions of rows, "
    "deleted rows and files of writers that never committed. Read it with smalti.paimon.dataset (pip install "
    "'smalti[paimon]', also for Spark and for commands), or ask for the files as they are with plain=True (--plain of "
    "convert, verify and profile)"
)
_WRITING = (
    "a Paimon table: only its own commits may change it. Files written beside its snapshots are in no snapshot, and "
    "files moved or removed destroy it. Write with smalti.paimon.write"
)


# --- names (pure) --------------------------------------------------------------------------------------------------


def table_of_schema_file(path: str) -> str | None:
    """Return the directory that may be a Paimon table because it has this schema file; None for any other file.

    Examples
    --------
    >>> table_of_schema_file("lake/t/schema/schema-0"), table_of_schema_file("lake/t/schema/readme")
    ('lake/t', None)
    """
    file = PurePosixPath(path)
    is_schema = file.parent.name == SCHEMAS and _SCHEMA_FILE.fullmatch(file.name)
    return str(file.parent.parent) if is_schema else None


def paimon_tables_above(directory: str) -> list[str]:
    """Return the directories that may be the Paimon table around a directory called like a partition or bucket.

    There are two, because a table may keep its data in a directory between the table and its partitions.

    Examples
    --------
    >>> paimon_tables_above("lake/t/day=3/bucket-0"), paimon_tables_above("lake/t")
    (['lake/t', 'lake'], [])
    """
    table = PurePosixPath(directory)
    while "=" in table.name or is_bucket(table.name):
        table = table.parent
    return [] if table == PurePosixPath(directory) else [str(table), *(str(above) for above in list(table.parents)[:1])]


def is_bucket(name: str) -> bool:
    """Return whether a directory has the name of a bucket: every data file of a Paimon table lies in one."""
    return _BUCKET.fullmatch(name) is not None


# --- checks --------------------------------------------------------------------------------------------------------


def is_paimon_table(location: Location) -> bool:
    """Return whether a directory is a Paimon table, even one that has no snapshot yet."""
    schemas = location.child(SCHEMAS)
    if location.is_local and not schemas.is_directory():
        return False  # A look at a local directory is cheaper than a listing. A store is asked once, by the listing.
    infos = [info for info in schemas.entries() if _SCHEMA_FILE.fullmatch(info.name)]
    if not infos or location.child(SNAPSHOTS).is_directory():
        return bool(infos)
    newest = max(infos, key=lambda info: int(info.name.partition("-")[2]))
    try:
        schema = json.loads(Location(location.filesystem, newest.path).read_bytes())
        return bool(schema["fields"]) and schema["options"].get("type", "table") != "format-table"
    except (ValueError, KeyError, TypeError, AttributeError):
        return False  # There are no snapshots, and the schema file is not one of Paimon.


def refuse_reading(filesystem: FileSystem, suspects: Iterable[str]) -> None:
    """Raise if one of these directories is a Paimon table, because reading all of its files gives wrong rows."""
    for path in sorted(suspects):
        if is_paimon_table(Location(filesystem, path)):
            raise PaimonTableError(_READING, path=path)


def refuse_writing_inside(location: Location) -> None:
    """Raise if a directory, which need not exist, lies in a Paimon table.

    On a local disk all directories above are checked, which costs next to nothing. Elsewhere only those are checked
    that `paimon_tables_above` finds by names.
    """
    path = PurePosixPath(location.absolute().path)
    for above in map(str, path.parents) if location.is_local else paimon_tables_above(str(path)):
        if is_paimon_table(Location(location.filesystem, above)):
            raise writing_error(above)


@contextmanager
def listed_to_write(location: Location) -> Iterator[None]:
    """Like `refuse_writing`, but reuses a listing that the caller makes anyway, in the `with` block."""
    refuse_writing_inside(location)
    try:
        yield
    except PaimonTableError as error:
        raise writing_error(error.place["path"]) from None


def refuse_writing(location: Location) -> None:
    """Raise if a directory, which need not exist, is a Paimon table or lies in one.

    On object stores this costs a listing. A caller that lists the directory anyway uses `listed_to_write`.
    """
    if is_paimon_table(location):
        raise writing_error(location.path)
    refuse_writing_inside(location)


def writing_error(path: str) -> PaimonTableError:
    return PaimonTableError(_WRITING, path=path)
