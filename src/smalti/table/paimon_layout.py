"""How a directory of a Paimon table is recognised, so that it is never taken for a plain directory of files.

The rows of a Paimon table are decided by its snapshots. Old versions of rows, deleted rows and files of writers that
never committed lie in the same directories as the current ones, so reading all files gives wrong rows, and a commit of
ours in their place destroys the table. What tells a table is `schema/schema-0` (or a later number). Paimon's "format
tables" have that file too, but no snapshots: they are plain directories, and the schema says so.
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


# --- names, purely --------------------------------------------------------------------------------------------------


def table_of_schema_file(path: str) -> str | None:
    """The directory that a schema file makes a suspect of being a Paimon table.

    Examples
    --------
    >>> table_of_schema_file("lake/t/schema/schema-0"), table_of_schema_file("lake/t/schema/readme")
    ('lake/t', None)
    """
    file = PurePosixPath(path)
    is_schema = file.parent.name == SCHEMAS and _SCHEMA_FILE.fullmatch(file.name)
    return str(file.parent.parent) if is_schema else None


def tables_above(directory: str) -> list[str]:
    """The directories that may be the Paimon table of a directory, by the names of partitions and buckets.

    A table may keep its data in a directory of its own, which lies between the partitions and the table.

    Examples
    --------
    >>> tables_above("lake/t/day=3/bucket-0"), tables_above("lake/t/day=3"), tables_above("lake/t")
    (['lake/t', 'lake'], ['lake/t', 'lake'], [])
    """
    table = PurePosixPath(directory)
    while _is_below_table(table.name):
        table = table.parent
    return [] if table == PurePosixPath(directory) else [str(table), *(str(above) for above in list(table.parents)[:1])]


def _is_below_table(name: str) -> bool:
    return "=" in name or is_bucket(name)


def is_bucket(name: str) -> bool:
    """Whether a directory is called as those that hold the data files of Paimon tables, of every one of them."""
    return _BUCKET.fullmatch(name) is not None


# --- looking --------------------------------------------------------------------------------------------------------


def is_paimon_table(location: Location) -> bool:
    """Whether a directory is a Paimon table, even one that has no snapshot yet."""
    schemas = location.child(SCHEMAS)
    if location.is_local and not schemas.is_directory():
        return False  # On a disk that is no listing. A store is asked once, for what is in the directory.
    infos = [info for info in schemas.entries() if _SCHEMA_FILE.fullmatch(info.name)]
    if not infos or location.child(SNAPSHOTS).is_directory():
        return bool(infos)
    newest = max(infos, key=lambda info: int(info.name.partition("-")[2]))
    try:
        schema = json.loads(Location(location.filesystem, newest.path).read_bytes())
        return bool(schema["fields"]) and schema["options"].get("type", "table") != "format-table"
    except (ValueError, KeyError, TypeError, AttributeError):
        return False  # It has no snapshots, and no schema of Paimon's either.


def refuse_reading(filesystem: FileSystem, suspects: Iterable[str]) -> None:
    """Raise if one of these directories is a Paimon table, because its files are not its rows."""
    for path in sorted(suspects):
        if is_paimon_table(Location(filesystem, path)):
            raise PaimonTableError(_READING, path=path)


def refuse_writing_inside(location: Location) -> None:
    """Raise if a directory, which need not exist, lies in a Paimon table.

    On this machine all directories above are looked at, which costs next to nothing. Elsewhere it is those that the
    names of partitions and buckets lead to.
    """
    path = PurePosixPath(location.absolute().path)
    for above in map(str, path.parents) if location.is_local else tables_above(str(path)):
        if is_paimon_table(Location(location.filesystem, above)):
            raise writing_error(above)


@contextmanager
def listed_to_write(location: Location) -> Iterator[None]:
    """Raise as `refuse_writing` does, for who lists all files of a directory in this block, which shows a table."""
    refuse_writing_inside(location)
    try:
        yield
    except PaimonTableError as error:
        raise writing_error(error.place["path"]) from None


def refuse_writing(location: Location) -> None:
    """Raise if a directory, which need not exist, is a Paimon table or lies in one.

    It costs a listing on object stores: `listed_to_write` is for those who list the directory anyway.
    """
    if is_paimon_table(location):
        raise writing_error(location.path)
    refuse_writing_inside(location)


def writing_error(path: str) -> PaimonTableError:
    return PaimonTableError(_WRITING, path=path)
