"""Faults of pypaimon 2.1, and the ways around them. Only `smalti.paimon`, which needs pypaimon, imports this module.

`tests/compat/test_paimon.py` fails for an entry that is no longer needed with the installed version.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import pyarrow as pa
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon.table.file_store_table import FileStoreTable


class KeptFields(PyarrowFieldParser):  # type: ignore[misc]
    """The parser of fields, which keeps the Arrow fields of the last table.

    pypaimon 2.1 builds the Arrow fields of all columns of the table again for each file, which takes longer than
    reading ten columns of 5,000 from it. Fields are told apart by identity; known ones are referenced, so that no other
    object can get their id.
    """

    known: dict[int, tuple[Any, pa.Field]] = {}  # noqa: RUF012 (one for the process, emptied by `smalti.paimon.engine`)

    @classmethod
    def from_paimon_schema(cls, fields: Any) -> list[pa.Field]:
        """The Arrow fields, as a list, which the one caller iterates: iterating a schema makes new ones."""
        known = cls.known
        if any(id(field) not in known for field in fields):
            known = cls.known = {id(field): (field, PyarrowFieldParser.from_paimon_field(field)) for field in fields}
        return [known[id(field)][1] for field in fields]


def with_exclusive_commits(table: FileStoreTable, create: Callable[[str, str], bool]) -> FileStoreTable:
    """The table, with snapshots written by `create`, which takes path and content, and fails if the file exists.

    pypaimon 2.1 checks whether a snapshot of the next number exists, and then renames its own to that number: of two
    processes at the same moment both succeed, and the snapshot of one is lost.
    """
    file_io = copy(table.file_io)  # The caller's own stays unchanged.
    file_io.try_to_write_atomic = create
    return FileStoreTable(file_io, table.identifier, table.table_path, table.table_schema, table.catalog_environment)
