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
from smalti.jobs.formats.columnar import MosaicReader
from smalti.jobs.planning import copied_share, plan_row_groups
from smalti.logical.adapt import adapt_batch
from smalti.progress import Report
from smalti.table.splits import Piece


@dataclass(frozen=True)
class StoredGroup:
    """A row group of a piece, and the bytes of the columns that are wanted."""

    piece: Piece
    number: int
    num_bytes: int


def stored_groups(piece: Piece, reader: MosaicReader) -> list[StoredGroup] | None:
    """The row groups of a piece; None if a field of a struct is wanted, which cannot be copied without the others."""
    file, names = reader.file, reader.schema.names
    if not set(names) <= set(file.columns.names):
        return None
    groups = range(file.num_row_groups) if piece.row_groups is None else piece.row_groups
    return [StoredGroup(piece, group, file.row_group(group).stored_bytes(names)) for group in groups]


class RowGroupCopy:
    """The row groups of pieces, as the files that they become.

    Parameters
    ----------
    groups : sequence of StoredGroup
    schema : pyarrow.Schema
        Of the new files: all columns of the pieces, with types that hold the values of all.
    opened : callable
        Returns the reader of a piece.
    merges : bool
        Whether neighbours that are small become one row group.
    roll_bytes : int, optional
        A new file begins when the row groups of one have this many bytes.
    """

    def __init__(
        self,
        groups: Sequence[StoredGroup],
        schema: pa.Schema,
        opened: Callable[[Piece], MosaicReader],
        *,
        merges: bool,
        roll_bytes: int | None,
    ) -> None:
        self._schema = schema
        self._opened = opened
        self._groups = groups
        sizes = [group.num_bytes for group in groups]
        self._files = plan_row_groups(sizes, merges=merges, roll_bytes=roll_bytes)
        #: Whether enough is copied, so that the layout of the old files is worth keeping.
        self.is_worthwhile = copied_share(sizes, self._files) >= 0.5

    def files(self, report: Report) -> Iterator[Iterator[GroupSource]]:
        """The row groups of each new file."""
        for runs in self._files or [[]]:
            yield self._sources(runs, report)

    def _sources(self, runs: Sequence[Sequence[int]], report: Report) -> Iterator[GroupSource]:
        for run in runs:
            groups = [self._groups[index] for index in run]
            if len(groups) == 1:
                source = self._copied(groups[0])
                yield source
                assert source.file is not None
                report(source.file.row_group(source.group).num_rows, groups[0].num_bytes)
            else:
                tables = [self._read(group, self._schema) for group in groups]
                yield GroupSource(None, fresh=pa.concat_tables(tables))
                report(sum(table.num_rows for table in tables), sum(group.num_bytes for group in groups))
                del tables

    def _copied(self, group: StoredGroup) -> GroupSource:
        """A row group whose columns are copied, except for those that the schema has with another type."""
        reader = self._opened(group.piece)
        there = reader.schema
        if there.equals(self._schema):
            return GroupSource(reader.file, group.number)
        names = set(there.names)
        copied = {
            field.name: field.name
            for field in self._schema
            if field.name in names and _is_same(there.field(field.name), field)
        }
        others = pa.schema([field for field in self._schema if field.name not in copied])
        fresh = self._read(group, others) if len(others) else None
        return GroupSource(reader.file, group.number, copied, fresh)

    def _read(self, group: StoredGroup, schema: pa.Schema) -> pa.Table:
        """Columns of a row group in the types of a schema; a column that the file lacks is null."""
        reader = self._opened(group.piece)
        names = set(reader.schema.names)
        wanted = [name for name in schema.names if name in names]
        batches = reader.file.iter_batches(columns=wanted, row_groups=[group.number])
        return pa.Table.from_batches((adapt_batch(batch, schema) for batch in batches), schema)


def _is_same(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether a column can be copied: a struct that cannot be null is stored in another way than one that can."""
    return found.type == wanted.type and (found.nullable == wanted.nullable or not pa.types.is_nested(found.type))
