"""The rows of the splits that pypaimon has planned, in batches of one schema.

A split is *raw* if nothing has to be merged: every row of its files is a row of the table, except those that a deletion
vector names. smalti reads raw splits with the reader of plain tables. It finds columns by their field ids, because they
may have been renamed, moved, added or dropped since a file was written, and their types may have been widened. All
other splits are read and merged by pypaimon, with smalti's reader of files inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby
from typing import Any

import pyarrow as pa
from pypaimon.deletionvectors.deletion_vector import DeletionVector
from pypaimon.manifest.schema.data_file_meta import DataFileMeta
from pypaimon.read.split import DataSplit, Split
from pypaimon.schema.data_types import AtomicType, DataField, PyarrowFieldParser

from smalti.file.reader import MosaicFile
from smalti.logical.adapt import adapt_batch
from smalti.logical.mapping import SharedSchemas
from smalti.logical.widen import widen
from smalti.mosaic.rows import RowIndex, Rows, split_rows
from smalti.paimon.engine import engine
from smalti.paimon.tables import PaimonTable
from smalti.predicate import Filter, undecided
from smalti.progress import Listener
from smalti.readahead import Budget
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import FoundFile
from smalti.table.planning import ReadPlan, fit_filter
from smalti.table.reading import FileRead, choose_columns, filtered, numbered, plan_file, read_pieces
from smalti.table.splits import Piece

#: Types whose values pypaimon changes when it reads them, or keeps in files of their own.
_SPECIAL_TYPES = ("BLOB", "VARIANT", "VECTOR")


@dataclass(frozen=True)
class NumberedParts:
    """The rows of splits in parts: a file of a raw split, or a split; and the number of the first row of each part."""

    parts: Sequence[tuple[Split, DataFileMeta | None]]
    #: At the end, the number of all rows.
    starts: Sequence[int]

    @property
    def num_rows(self) -> int:
        return self.starts[-1]


class SplitReader:
    """Reads splits of one table to batches of one schema.

    Parameters
    ----------
    table : PaimonTable
    output : pyarrow.Schema
        Columns of the table, in the order of the batches.
    filter_ : Filter, optional
        Which rows to keep. Its columns need not be among those of `output`.
    readahead, memory_limit : int, optional
        As in `smalti.paimon.dataset`.
    row_index : str, optional
        A column of row numbers that `numbered` adds in front of the output.
    """

    def __init__(
        self,
        table: PaimonTable,
        output: pa.Schema,
        filter_: Filter | None = None,
        readahead: int | None = None,
        memory_limit: int | None = None,
        row_index: str | None = None,
    ) -> None:
        self._table = table
        self._readahead, self._memory_limit = readahead, memory_limit
        self._shared = SharedSchemas()
        compared = () if filter_ is None else tuple(name for name in filter_.columns if name != row_index)
        #: The columns that are read of files, and of pypaimon.
        self._stored = table.schema_of([*output.names, *compared])
        needed = self._stored
        if row_index is not None:
            index = RowIndex(row_index)
            if row_index in table.table.field_dict:
                raise index.taken_name()
            needed, output = index.add_to(needed), index.add_to(output)
        filter_ = None if filter_ is None else fit_filter(filter_, needed)
        self._plan = ReadPlan((), output, output.names, needed, filter_, row_index)
        self._fields: list[DataField] = [table.table.field_dict[name] for name in self._stored.names]
        #: The types of the partition columns that are needed.
        self._keys = {field.name: field.type for field in needed if field.name in table.table.partition_keys}
        self._has_special = any(map(_is_special, self._fields))
        self._stored_names = cache(self._find_stored_names)

    def is_raw(self, split: Split) -> bool:
        """Whether smalti reads a split itself: its files are Mosaic, and their rows are rows of the table."""
        table = self._table.table
        return (
            type(split) is DataSplit
            and split.raw_convertible
            and not (split.is_streaming and table.is_primary_key_table)  # Such rows are changes, each with its kind.
            and not table.options.data_evolution_enabled()
            and not self._has_special
            and all(_is_whole(file) and self._stored_names(file.schema_id) is not None for file in split.files)
        )

    def _find_stored_names(self, schema_id: int) -> dict[str, str] | None:
        """The columns that files of a schema store: their names in the table, each with its name in these files.

        None if the type of a column has changed in a way that only pypaimon can follow.
        """
        table, names = self._table.table, {}
        is_current = schema_id == table.table_schema.id
        schema = table.table_schema if is_current else table.schema_manager.get_schema(schema_id)
        by_id = {field.id: field for field in schema.fields}
        for field, target in zip(self._fields, self._stored, strict=True):
            stored = by_id.get(field.id)
            if stored is None or field.name in self._keys:
                continue
            if stored.type != field.type:
                type_ = PyarrowFieldParser.from_paimon_type(stored.type)
                if widen(type_, target.type) != target.type:
                    return None
            names[field.name] = stored.name
        return names

    def batches(self, splits: Sequence[Split], progress: Listener | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of splits in their order, in batches of the output."""
        for is_raw, group in groupby(splits, self.is_raw):
            found = list(group)
            yield from self._raw(found, progress) if is_raw else self._merged(found)

    def count(self, splits: Sequence[Split]) -> NumberedParts:
        """All rows of splits, in parts whose number of rows is known: files of raw splits, and splits to be merged.

        Where pypaimon does not know how many rows are left of a split, it is read without columns.
        """
        columnless = SplitReader(self._table, pa.schema([]), None, self._readahead, self._memory_limit)
        parts: list[tuple[Split, DataFileMeta | None]] = []
        counts: list[int] = []
        for split in splits:
            if self.is_raw(split) and not any(split.data_deletion_files or ()):
                parts += [(split, file) for file in split.files]
                counts += [int(file.row_count) for file in split.files]
                continue
            rows = split.merged_row_count()
            parts.append((split, None))
            counts.append(sum(batch.num_rows for batch in columnless.batches([split])) if rows is None else int(rows))
        return NumberedParts(parts, [0, *accumulate(counts)])

    def numbered(
        self, numbered_parts: NumberedParts, rows: Rows | None = None, progress: Listener | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows with some numbers, or all, in their order. Files and splits that have none of them are not read."""
        parts, starts = numbered_parts.parts, numbered_parts.starts
        every = range(starts[-1]) if rows is None else rows
        wanted = list(split_rows(every, starts)) if len(every) else []
        for is_file, group in groupby(wanted, lambda found: parts[found[0]][1] is not None):
            found = list(group)
            if is_file:
                files = [(*parts[part], part_rows, starts[part]) for part, part_rows in found]
                yield from self._pieces([(s, f, None, r, start) for s, f, r, start in files if f is not None], progress)
                continue
            for part, part_rows in found:
                index = None if self._plan.row_index is None else RowIndex(self._plan.row_index, starts[part])
                options: dict[str, Any] = {"filter_": self._plan.filter_, "row_index": index, "rows": part_rows}
                unfiltered = SplitReader(self._table, self._stored, None, self._readahead, self._memory_limit)
                yield from numbered(unfiltered.batches([parts[part][0]]), self._plan.output, **options)

    def _raw(self, splits: list[Split], progress: Listener | None) -> Iterator[pa.RecordBatch]:
        """The rows of raw splits, with files and row groups read ahead."""
        files = (
            (split, file, deletions, None, 0)
            for split in splits
            for file, deletions in zip(split.files, split.data_deletion_files or [None] * len(split.files), strict=True)
        )
        return self._pieces(list(files), progress)

    def _pieces(
        self, files: Sequence[tuple[DataSplit, DataFileMeta, Any, Rows | None, int]], progress: Listener | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of files: each with its split, its deletions, the rows that are wanted, the number of the first."""
        reads = {str(read[1].physical_path()): read for read in files}

        def open_piece(piece: Piece) -> MosaicFile:
            return MosaicFile(self._table.open(piece.file.path), self._shared, memory_limit=self._memory_limit)

        def plan_piece(piece: Piece, opened: MosaicFile) -> FileRead:
            split, file, deletions, _, first_row = reads[piece.file.path]
            return self._plan_file(opened, split, file, deletions, first_row)

        pieces = [
            Piece(FoundFile(path, file.file_size), file.file_size, rows=rows, first_row=first_row)
            for path, (_, file, _, rows, first_row) in reads.items()
        ]
        unit_bytes = sum(piece.num_bytes for piece in pieces) // max(1, len(pieces))
        limits = self._readahead, self._memory_limit
        budget = Budget.choose(*limits, is_remote=self._table.is_remote, unit_bytes=unit_bytes)
        with closing(read_pieces(pieces, open_piece, plan_piece, budget, progress)) as reading:
            for _, batch in reading:
                yield batch
                del batch

    def _plan_file(
        self, opened: MosaicFile, split: DataSplit, file: DataFileMeta, deletions: Any, first_row: int
    ) -> FileRead:
        plan, names = self._plan, self._stored_names(file.schema_id)
        assert names is not None
        partition = zip(self._table.table.partition_keys, split.partition.values, strict=True)
        constants = {name: pa.scalar(value, self._keys[name]) for name, value in partition if name in self._keys}
        if plan.filter_ is not None:
            # Without the conditions that the partition meets, the file can apply the others by itself.
            left = undecided(plan.filter_.tree, [constants])
            plan = replace(plan, filter_=None if left is None else plan.filter_.with_tree(left))

        def find(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
            present = set(opened.columns.present([names[name] for name in wanted if name in names]))
            found = [name for name in dict.fromkeys(wanted) if names.get(name) in present]
            return [names[name] for name in found], found

        file_io = self._table.table.file_io
        deleted = None if deletions is None else sorted(DeletionVector.read(file_io, deletions).bit_map())
        chosen = choose_columns(plan, opened, find)
        return plan_file(plan, chosen, lambda field: constants.get(field.name), deleted, first_row)

    def _merged(self, splits: list[Split]) -> Iterator[pa.RecordBatch]:
        """The rows of splits that pypaimon reads and merges."""
        plan, table = self._plan, self._table.table
        names = plan.needed.names or table.field_names[:1]  # pypaimon takes no column for all columns.
        read = table.new_read_builder().with_projection(names).new_read()
        with engine():
            for batch in read.to_arrow_batch_reader(splits):
                needed = adapt_batch(batch, plan.needed)
                found = needed if plan.filter_ is None else filtered(needed, plan.filter_, plan.output)
                if found.num_rows:
                    yield adapt_batch(found, plan.output)


def _is_whole(file: DataFileMeta) -> bool:
    """Whether a file is Mosaic and has all columns of its schema."""
    return str(file.physical_path()).endswith(FILE_SUFFIX) and not file.write_cols


def _is_special(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.type.upper().startswith(_SPECIAL_TYPES)
