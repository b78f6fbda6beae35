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

from smalti._core.allowance import Allowance
from smalti.file.reader import MosaicFile
from smalti.logical.adapt import adapt_batch
from smalti.logical.mapping import PROCESS_SCHEMAS
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
from smalti.table.reading import FileRead, choose_columns, numbered, plan_file, read_pieces
from smalti.table.splits import Piece

#: Types whose values pypaimon changes when it reads them, or keeps in files of their own.
_SPECIAL_TYPES = ("BLOB", "VARIANT", "VECTOR")


@dataclass(frozen=True, kw_only=True)
class RawFile(Piece):
    """A file of a raw split."""

    split: DataSplit
    meta: DataFileMeta
    #: Where pypaimon finds which rows are deleted; None if none are.
    deletions: Any


def _files_of(split: DataSplit) -> list[RawFile]:
    files = zip(split.files, split.data_deletion_files or [None] * len(split.files), strict=True)
    return [
        RawFile(
            FoundFile(str(meta.physical_path()), meta.file_size),
            meta.file_size,
            split=split,
            meta=meta,
            deletions=deletions,
        )
        for meta, deletions in files
    ]


@dataclass(frozen=True)
class NumberedParts:
    """The rows of splits in parts: a file of a raw split, or a split; and the number of the first row of each part."""

    parts: Sequence[RawFile | Split]
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

    def _without_filter(self, output: pa.Schema) -> SplitReader:
        return SplitReader(self._table, output, None, self._readahead, self._memory_limit)

    def batches(
        self, splits: Sequence[Split], progress: Listener | None = None, held: Allowance | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of splits in their order, in batches of the output. For `held` see `read_pieces`."""
        for is_raw, group in groupby(splits, self.is_raw):
            if is_raw:
                yield from self._read_files([file for split in group for file in _files_of(split)], progress, held)
            else:
                yield from self._merged(list(group))

    def count(self, splits: Sequence[Split]) -> NumberedParts:
        """All rows of splits, in parts whose number of rows is known: files of raw splits, and splits to be merged.

        Where pypaimon does not know how many rows are left of a split, it is read without columns.
        """
        columnless = self._without_filter(pa.schema([]))
        parts: list[RawFile | Split] = []
        counts: list[int] = []
        for split in splits:
            if self.is_raw(split) and not any(split.data_deletion_files or ()):
                parts += _files_of(split)
                counts += [int(file.row_count) for file in split.files]
                continue
            rows = split.merged_row_count()
            parts.append(split)
            counts.append(sum(batch.num_rows for batch in columnless.batches([split])) if rows is None else int(rows))
        return NumberedParts(parts, [0, *accumulate(counts)])

    def numbered(
        self,
        numbered_parts: NumberedParts,
        rows: Rows | None = None,
        progress: Listener | None = None,
        held: Allowance | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows with some numbers, or all, in their order. Files and splits that have none of them are not read."""
        starts, name = numbered_parts.starts, self._plan.row_index
        found = split_rows(range(starts[-1]) if rows is None else rows, starts)
        wanted = ((numbered_parts.parts[index], part_rows, starts[index]) for index, part_rows in found)
        for is_file, group in groupby(wanted, lambda part: isinstance(part[0], RawFile)):
            if is_file:
                files = [replace(file, rows=part_rows, first_row=start) for file, part_rows, start in group]
                yield from self._read_files(files, progress, held)
                continue
            for split, part_rows, start in group:
                index = None if name is None else RowIndex(name, start)
                options: dict[str, Any] = {"filter_": self._plan.filter_, "row_index": index, "rows": part_rows}
                every = self._without_filter(self._stored).batches([split], None, held)
                yield from numbered(every, self._plan.output, **options)

    def _read_files(
        self, files: Sequence[RawFile], progress: Listener | None, held: Allowance | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of files, with files and row groups read ahead."""

        def open_piece(piece: Piece) -> MosaicFile:
            return MosaicFile(self._table.open(piece.file.path), PROCESS_SCHEMAS, memory_limit=self._memory_limit)

        limits = self._readahead, self._memory_limit
        unit_bytes = sum(file.num_bytes for file in files) // max(1, len(files))
        budget = Budget.choose(*limits, is_remote=self._table.is_remote, unit_bytes=unit_bytes)
        with closing(read_pieces(files, open_piece, self._plan_file, budget, progress, held=held)) as reading:
            for _, batch in reading:
                yield batch
                del batch

    def _plan_file(self, file: Piece, opened: MosaicFile) -> FileRead:
        assert isinstance(file, RawFile)
        plan, names = self._plan, self._stored_names(file.meta.schema_id)
        assert names is not None
        partition = zip(self._table.table.partition_keys, file.split.partition.values, strict=True)
        constants = {name: pa.scalar(value, self._keys[name]) for name, value in partition if name in self._keys}
        if plan.filter_ is not None:
            # Without the conditions that the partition meets, the file can apply the others by itself.
            left = undecided(plan.filter_.tree, [constants])
            plan = replace(plan, filter_=None if left is None else plan.filter_.with_tree(left))

        def find(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
            present = set(opened.columns.present([names[name] for name in wanted if name in names]))
            found = [name for name in wanted if names.get(name) in present]
            return [names[name] for name in found], found

        file_io, deletions = self._table.table.file_io, file.deletions
        deleted = None if deletions is None else sorted(DeletionVector.read(file_io, deletions).bit_map())
        chosen = choose_columns(plan, opened.columns, find)
        return plan_file(plan, chosen, lambda field: constants.get(field.name), deleted, file.first_row)

    def _merged(self, splits: list[Split]) -> Iterator[pa.RecordBatch]:
        """The rows of splits that pypaimon reads and merges."""
        plan, table = self._plan, self._table.table
        names = plan.needed.names or table.field_names[:1]  # pypaimon takes no column for all columns.
        read = table.new_read_builder().with_projection(names).new_read()
        with engine():
            batches = (adapt_batch(batch, plan.needed) for batch in read.to_arrow_batch_reader(splits))
            yield from numbered(batches, plan.output, filter_=plan.filter_)


def _is_whole(file: DataFileMeta) -> bool:
    """Whether a file is Mosaic and has all columns of its schema."""
    return str(file.physical_path()).endswith(FILE_SUFFIX) and not file.write_cols


def _is_special(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.type.upper().startswith(_SPECIAL_TYPES)
