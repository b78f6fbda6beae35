"""Mosaic to Mosaic: row groups that stay as they are, all columns or some, are copied without decoding them.

`convert` and `compact` use it where nobody asks for another layout. Row groups that are small become one with their
neighbours, if the job wants that; these are read and written again, and so are columns that other files have with
another type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from smalti.file.reader import MosaicFile
from smalti.file.rewriting import GroupSource
from smalti.jobs.planning import copied_share, plan_row_groups
from smalti.logical.adapt import adapt_batch
from smalti.progress import Report
from smalti.table.splits import Piece


@dataclass(frozen=True)
class OpenPiece:
    """A piece of a Mosaic file that is open, and the names of the columns that are wanted of it."""

    piece: Piece
    file: MosaicFile
    names: tuple[str, ...]

    @property
    def row_groups(self) -> Sequence[int]:
        every = range(self.file.num_row_groups)
        return every if self.piece.row_groups is None else self.piece.row_groups

    @property
    def is_whole(self) -> bool:
        """Whether every name is a column, and none a field of a struct, which cannot be copied alone."""
        return set(self.names) <= set(self.file.columns.names)


@dataclass(frozen=True)
class _Group:
    opened: OpenPiece
    number: int
    num_bytes: int


class RowGroupCopy:
    """The row groups of open pieces, as the files that they become.

    Parameters
    ----------
    pieces : sequence of OpenPiece
    schema : pyarrow.Schema
        Of the new files: all columns of the pieces, with types that hold the values of all.
    merges : bool
        Whether neighbours that are small become one row group.
    roll_bytes : int, optional
        A new file begins when the row groups of one have this many bytes.
    """

    def __init__(self, pieces: Sequence[OpenPiece], schema: pa.Schema, *, merges: bool, roll_bytes: int | None) -> None:
        self._schema = schema
        self._groups = [
            _Group(opened, number, opened.file.row_group(number).stored_bytes(opened.names))
            for opened in pieces
            for number in opened.row_groups
        ]
        sizes = [group.num_bytes for group in self._groups]
        self._files = plan_row_groups(sizes, merges=merges, roll_bytes=roll_bytes)
        #: Whether enough is copied, so that the layout of the old files is worth keeping.
        self.is_worthwhile = copied_share(sizes, self._files) >= 0.5 and all(piece.is_whole for piece in pieces)
        #: The piece that is being read.
        self.current = pieces[0].piece

    def files(self, report: Report) -> Iterator[Iterator[GroupSource]]:
        """The row groups of each new file."""
        for runs in self._files or [[]]:
            yield self._sources(runs, report)

    def _sources(self, runs: Sequence[Sequence[int]], report: Report) -> Iterator[GroupSource]:
        for run in runs:
            groups = [self._groups[index] for index in run]
            if len(groups) == 1:
                self.current = groups[0].opened.piece
                yield self._copied(groups[0])
            else:
                tables = [self._read(group, self._schema) for group in groups]
                yield GroupSource(None, fresh=pa.concat_tables(tables))
                del tables
            for group in groups:
                report(group.opened.file.row_group(group.number).num_rows, group.num_bytes)

    def _copied(self, group: _Group) -> GroupSource:
        """A row group whose columns are copied, except for those that the schema has with another type."""
        file = group.opened.file
        names = set(group.opened.names)
        there = file.schema_of([name for name in self._schema.names if name in names])
        if there.equals(self._schema):
            return GroupSource(file, group.number)
        copied = {field.name: field.name for field in there if _is_same(field, self._schema.field(field.name))}
        others = pa.schema([field for field in self._schema if field.name not in copied])
        fresh = self._read(group, others) if len(others) else None
        return GroupSource(file, group.number, copied, fresh)

    def _read(self, group: _Group, schema: pa.Schema) -> pa.Table:
        """Columns of a row group in the types of a schema; a column that the file lacks is null."""
        self.current = group.opened.piece
        file, names = group.opened.file, set(group.opened.names)
        wanted = [name for name in schema.names if name in names]
        batches = file.iter_batches(columns=wanted, row_groups=[group.number])
        return pa.Table.from_batches((adapt_batch(batch, schema) for batch in batches), schema)


def _is_same(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether a column can be copied: a struct that cannot be null is stored in another way than one that can."""
    return found.type == wanted.type and (found.nullable == wanted.nullable or not pa.types.is_nested(found.type))
