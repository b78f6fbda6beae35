"""Mosaic to Mosaic: row groups that stay as they are, all columns or some, are copied without decoding them.

`convert` and `compact` use it where nobody asks for another layout. Row groups that are small become one with their
neighbours, if the job wants that; these are read and written again, and so are columns that other files have with
another type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from smalti.file.rewriting import GroupSource
from smalti.jobs.formats.columnar import MosaicFileReader
from smalti.logical.adapt import adapt_batch
from smalti.progress import Report
from smalti.table.splits import Piece


@dataclass(frozen=True)
class StoredGroup:
    """A row group of a piece, and the bytes of the columns that are wanted."""

    piece: Piece
    number: int
    num_bytes: int


def stored_groups(piece: Piece, reader: MosaicFileReader) -> list[StoredGroup] | None:
    """The row groups of a piece; None if a field of a struct is wanted, which cannot be copied without the others."""
    file, names = reader.file, reader.schema.names
    if not set(names) <= set(file.columns.names):
        return None
    groups = range(file.num_row_groups) if piece.row_groups is None else piece.row_groups
    return [StoredGroup(piece, group, file.row_group(group).stored_bytes(names)) for group in groups]


@dataclass(frozen=True)
class RowGroupCopy:
    """The row groups of pieces, as the files that they become.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the new files: all columns of the pieces, with types that hold the values of all.
    opened : callable
        Returns the reader of a piece.
    files : sequence of runs of runs of StoredGroup
        For each file its row groups; several that are small become one.
    """

    schema: pa.Schema
    opened: Callable[[Piece], MosaicFileReader]
    files: Sequence[Sequence[Sequence[StoredGroup]]]

    def sources(self, file: Sequence[Sequence[StoredGroup]], report: Report) -> Iterator[GroupSource]:
        """The row groups of a new file."""
        for groups in file:
            if len(groups) == 1:
                source = self._copied(groups[0])
                yield source
                assert source.file is not None
                report(source.file.row_group(source.group).num_rows, groups[0].num_bytes)
            else:
                tables = [self._read(group, self.schema) for group in groups]
                yield GroupSource(None, fresh=pa.concat_tables(tables))
                report(sum(table.num_rows for table in tables), sum(group.num_bytes for group in groups))
                del tables

    def _copied(self, group: StoredGroup) -> GroupSource:
        """A row group whose columns are copied, except for those that the schema has with another type."""
        reader = self.opened(group.piece)
        there = reader.schema
        if there.equals(self.schema):
            return GroupSource(reader.file, group.number)
        names = set(there.names)
        copied = {
            field.name: field.name
            for field in self.schema
            if field.name in names and _is_same(there.field(field.name), field)
        }
        others = pa.schema([field for field in self.schema if field.name not in copied])
        fresh = self._read(group, others) if len(others) else None
        return GroupSource(reader.file, group.number, copied, fresh)

    def _read(self, group: StoredGroup, schema: pa.Schema) -> pa.Table:
        """Columns of a row group in the types of a schema; a column that the file lacks is null."""
        reader = self.opened(group.piece)
        names = set(reader.schema.names)
        wanted = [name for name in schema.names if name in names]
        batches = reader.file.iter_batches(columns=wanted, row_groups=[group.number])
        return pa.Table.from_batches((adapt_batch(batch, schema) for batch in batches), schema)


def _is_same(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether a column can be copied: a struct that cannot be null is stored in another way than one that can."""
    return found.type == wanted.type and (found.nullable == wanted.nullable or not pa.types.is_nested(found.type))
