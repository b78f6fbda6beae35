"""The data that users give to jobs that change a table: Arrow data in memory, a reader, or a path of any format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.io.locations import chosen
from smalti.jobs.change_data import Chunk, KeyedRows, Spool
from smalti.jobs.change_job import OpenTable, RunValues
from smalti.jobs.formats.registry import format_of_source
from smalti.jobs.formats.tables import FormatTable
from smalti.jobs.keys import check_keys
from smalti.jobs.source_files import fingerprint, list_sources
from smalti.logical.intake import arrow_batches, arrow_reader, refuse_repeated
from smalti.logical.patterns import check_columns, match_names


@dataclass(frozen=True)
class GivenData:
    """Columns of some data, which is read once.

    Attributes
    ----------
    schema : pyarrow.Schema
    source : Table, RecordBatch, RecordBatchReader or FormatTable
    identity : object, optional
        What identifies files, so that an interrupted job can be resumed; None for data in memory.
    """

    schema: pa.Schema
    source: Any
    identity: object | None = None

    @classmethod
    def of(cls, data: Any, run: RunValues, columns: Sequence[str] | None = None, on: Sequence[str] = ()) -> GivenData:
        """The data that a user has given, or only some columns, and those to join by."""
        identity: object | None = None
        source: Any
        if isinstance(data, (str, os.PathLike)):
            listing = list_sources(data, chosen(run.get("filesystem"), run.get("storage_options")))
            source = FormatTable(listing, format_of_source([file.path for file in listing.files], None))
            identity = fingerprint(listing)
        else:
            source = arrow_reader(data)
            refuse_repeated(source.schema.names)
        schema, asked = source.schema, check_columns(columns)
        if asked is not None:
            names = dict.fromkeys([*on, *match_names(schema.names, asked)])
            schema = pa.schema([schema.field(name) for name in names])
        return cls(schema, source, identity)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        names = self.schema.names
        if isinstance(self.source, FormatTable):
            return self.source.scan(names).to_batches()
        return (batch.select(names) for batch in arrow_batches(self.source))

    def _spool(self, table: OpenTable) -> Spool:
        """Makes chunks for the tasks. Tasks on other machines read staged chunks."""
        is_in_memory = isinstance(self.source, (pa.Table, pa.RecordBatch))
        limit = 0 if table.executor.name != "local" else sys.maxsize if is_in_memory else None
        return Spool(table.data, self.schema, limit)

    def by_files(self, table: OpenTable) -> tuple[Chunk, ...]:
        """A chunk for each file of a table, if there are as many rows."""
        rows = [table.snapshot.counts[file.path] for file in table.snapshot.files]
        return self._spool(table).gather_by_files(self._batches(), rows)

    def by_keys(self, table: OpenTable, on: Sequence[str]) -> tuple[KeyedRows, int]:
        """The rows, to be found by key columns, and how many of them have a null key."""
        keys = check_keys(on, table.schema, self.schema)
        rows = KeyedRows(self._spool(table).gather(self._batches()), keys)
        return rows, rows.check()


def key_names(on: str | Sequence[str]) -> list[str]:
    """The key columns that a user has named."""
    names = [on] if isinstance(on, str) else list(on)
    if not names:
        raise SchemaError("no key column is named", found=names, expected="at least one")
    return names
