"""The rows of splits that pypaimon has planned: read by smalti where a file's rows are the table's, else by pypaimon.

A split is raw if nothing has to be merged: every row of its files is a row of the table, but for those that a deletion
vector names. Columns are found by field id, because they may have been renamed, moved, added or dropped since a file
was written, and their types widened. Everything else goes through pypaimon's merging reader, with smalti's reader of
files inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pypaimon.deletionvectors.deletion_vector import DeletionVector
from pypaimon.manifest.schema.data_file_meta import DataFileMeta
from pypaimon.read.split import DataSplit, Split
from pypaimon.schema.data_types import AtomicType, DataField, PyarrowFieldParser

from smalti._compat.arrow import columnless_batch
from smalti.file.reader import MosaicFile
from smalti.logical.adapt import adapt_batch, widen_array
from smalti.logical.mapping import SharedSchemas
from smalti.logical.widen import widen
from smalti.paimon.engine import engine
from smalti.paimon.tables import PaimonTable
from smalti.predicate import Filter, filter_batch
from smalti.progress import Listener
from smalti.readahead import Budget
from smalti.spec import FILE_SUFFIX
from smalti.table.listing import FoundFile
from smalti.table.scanning import FileRead, read_files

#: Types whose values pypaimon changes on the way from the file, or keeps in files of their own.
_SPECIAL_TYPES = ("BLOB", "VARIANT", "VECTOR")


@dataclass(frozen=True)
class Column:
    """Where a column of the output comes from: a column of the file, a value that all rows have, or nowhere."""

    field: pa.Field
    stored: str | None = None
    value: pa.Scalar | None = None


@dataclass(frozen=True)
class _RawFile:
    """A file of a raw split, with the partition of its split and its deletion vector."""

    meta: DataFileMeta
    split: DataSplit
    deletions: Any = None

    @property
    def path(self) -> str:
        return str(self.meta.physical_path())


class SplitReader:
    """Reads splits of one table to batches of one schema.

    Parameters
    ----------
    table : PaimonTable
    output : pyarrow.Schema
        Columns of the table, in the order that is asked for.
    filter_ : Filter, optional
        Rows to keep.
    memory_limit : int, optional
        Bytes that reading a file may hold at a time; see `smalti.open`.
    """

    def __init__(
        self,
        table: PaimonTable,
        output: pa.Schema,
        filter_: Filter | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self._table = table
        self._output = output
        self._filter = filter_
        self._memory_limit = memory_limit
        self._shared = SharedSchemas()
        names = dict.fromkeys([*output.names, *(() if filter_ is None else filter_.columns)])
        self._fields: list[DataField] = [table.table.field_dict[name] for name in names]
        self._needed: pa.Schema = PyarrowFieldParser.from_paimon_schema(self._fields)

    # --- who reads what ---------------------------------------------------------------------------------------------

    def is_raw(self, split: Split) -> bool:
        """Whether smalti reads a split: its files are Mosaic, and their rows are the table's."""
        options = self._table.table.options
        return (
            type(split) is DataSplit
            and split.raw_convertible
            and not (split.is_streaming and self._table.table.is_primary_key_table)  # where rows say what they change
            and not options.data_evolution_enabled()
            and not any(_is_special(field) for field in self._fields)
            and all(_is_plain_file(file) and self._columns(file, split) is not None for file in split.files)
        )

    def _columns(self, file: DataFileMeta, split: DataSplit) -> list[Column] | None:
        """Where the columns needed come from; None if a type has changed in a way that only pypaimon follows."""
        partition = dict(zip(self._table.table.partition_keys, split.partition.values, strict=True))
        stored = self._stored_fields(file.schema_id)
        columns = []
        for field, target in zip(self._fields, self._needed, strict=True):
            if field.name in partition:
                columns.append(Column(target, value=pa.scalar(partition[field.name], target.type)))
                continue
            found = stored.get(field.id)
            if found is not None and found.type != field.type:
                type_ = PyarrowFieldParser.from_paimon_type(found.type)
                if widen(type_, target.type) != target.type:
                    return None
            columns.append(Column(target, None if found is None else found.name))
        return columns

    def _stored_fields(self, schema_id: int) -> dict[int, DataField]:
        """The fields of a schema of the table, by id."""
        if schema_id not in self._schemas:
            table = self._table.table
            current = schema_id == table.table_schema.id
            schema = table.table_schema if current else table.schema_manager.get_schema(schema_id)
            self._schemas[schema_id] = {field.id: field for field in schema.fields}
        return self._schemas[schema_id]

    @cached_property
    def _schemas(self) -> dict[int, dict[int, DataField]]:
        return {}

    # --- reading ----------------------------------------------------------------------------------------------------

    def batches(
        self, splits: Sequence[Split], budget: Budget, progress: Listener | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of splits in their order, in batches of the output."""
        for raw, group in groupby(splits, self.is_raw):
            if not raw:
                yield from self._merged(list(group))
                continue
            for has_deletions, files in groupby(self._raw_files(group), lambda file: file.deletions is not None):
                if has_deletions:
                    for file in files:
                        yield from self._undeleted(file)
                else:
                    yield from self._whole(list(files), budget, progress)

    def _raw_files(self, splits: Iterator[Split]) -> Iterator[_RawFile]:
        for split in splits:
            vectors = split.data_deletion_files or [None] * len(split.files)
            for file, vector in zip(split.files, vectors, strict=True):
                yield _RawFile(file, split, vector)

    def _open(self, path: str) -> MosaicFile:
        return MosaicFile(self._table.open(path), self._shared, memory_limit=self._memory_limit)

    def _whole(self, files: Sequence[_RawFile], budget: Budget, progress: Listener | None) -> Iterator[pa.RecordBatch]:
        """The rows of files, with files and row groups read ahead."""
        raw = {file.path: file for file in files}

        def plan(found: FoundFile, opened: MosaicFile) -> FileRead:
            file = raw[found.path]
            columns = self._columns(file.meta, file.split)
            assert columns is not None
            pushed = self._filter if self._is_pushable(opened, columns) else None
            wanted = [column for column in columns if pushed is None or column.field.name in self._output.names]
            return FileRead(
                self._present(opened, wanted),
                pushed,
                lambda batch, _: self._finish(batch, wanted, filtered=pushed is not None),
            )

        found = [FoundFile(file.path, file.meta.file_size) for file in files]
        for _, batch in read_files(found, lambda file: self._open(file.path), plan, budget, progress):
            if batch.num_rows:
                yield batch

    def _undeleted(self, file: _RawFile) -> Iterator[pa.RecordBatch]:
        """The rows of a file that its deletion vector leaves. It counts rows from the beginning of the file."""
        columns = self._columns(file.meta, file.split)
        assert columns is not None
        deleted = np.array(sorted(DeletionVector.read(self._table.table.file_io, file.deletions).bit_map()), np.int64)
        with self._open(file.path) as opened:
            present = self._present(opened, columns)
            groups = range(opened.num_row_groups)
            matching = opened.matching_row_groups(self._filter) if self._is_pushable(opened, columns) else groups
            starts = [0, *accumulate(opened.row_group(group).num_rows for group in groups)]
            for group in matching:
                start = starts[group]
                # A large row group comes in several batches.
                for batch in opened.iter_batches(columns=present, row_groups=[group]):
                    keep = _undeleted_rows(deleted, start, batch.num_rows)
                    start += batch.num_rows
                    kept = batch.filter(keep) if batch.num_columns else columnless_batch(keep.true_count)
                    finished = self._finish(kept, columns, filtered=False)
                    if finished.num_rows:
                        yield finished

    @staticmethod
    def _present(opened: MosaicFile, columns: Sequence[Column]) -> list[str]:
        return opened.columns.present([column.stored for column in columns if column.stored is not None])

    def _is_pushable(self, opened: MosaicFile, columns: Sequence[Column]) -> bool:
        """Whether the file can apply the filter: it has its columns under the same names and in the same types."""
        if self._filter is None:
            return False
        places = {column.field.name: column for column in columns}
        needed = [places[name] for name in self._filter.columns]
        names = [column.field.name for column in needed if column.stored == column.field.name]
        if len(names) < len(needed) or opened.columns.present(names) != names:
            return False
        return list(opened.schema_of(names).types) == [column.field.type for column in needed]

    def _finish(self, batch: pa.RecordBatch, columns: Sequence[Column], *, filtered: bool) -> pa.RecordBatch:
        """A batch of a file as a batch of the output; columns that the file lacks are null."""
        rows, stored = batch.num_rows, batch.schema.names
        arrays = []
        for column in columns:
            if column.value is not None:
                arrays.append(pa.repeat(column.value, rows))  # type: ignore[call-overload]
            elif column.stored in stored:
                arrays.append(widen_array(batch.column(stored.index(column.stored)), column.field))
            else:
                arrays.append(pa.nulls(rows, column.field.type))
        if not columns:
            return columnless_batch(rows)
        adapted = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.field for column in columns]))
        return self._to_output(adapted if filtered or self._filter is None else filter_batch(adapted, self._filter))

    def _to_output(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return adapt_batch(batch, self._output) if len(self._output) else columnless_batch(batch.num_rows)

    def _merged(self, splits: list[Split]) -> Iterator[pa.RecordBatch]:
        """The rows of splits that pypaimon reads and merges, with smalti's reader of files inside."""
        names = self._needed.names or [self._table.table.field_names[0]]
        read = self._table.table.new_read_builder().with_projection(names).new_read()
        with engine():
            for batch in read.to_arrow_batch_reader(splits):
                kept = batch if self._filter is None else filter_batch(adapt_batch(batch, self._needed), self._filter)
                if kept.num_rows:
                    yield self._to_output(kept)


def _undeleted_rows(deleted: Any, start: int, rows: int) -> pa.BooleanArray:
    """Which of some rows of a file are not among the sorted positions of deleted ones."""
    keep = np.ones(rows, bool)
    first, last = np.searchsorted(deleted, (start, start + rows))
    keep[deleted[first:last] - start] = False
    return pa.array(keep)


def _is_plain_file(file: DataFileMeta) -> bool:
    """Whether a file is Mosaic and has all columns of its schema."""
    return str(file.physical_path()).endswith(FILE_SUFFIX) and not file.write_cols


def _is_special(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.type.upper().startswith(_SPECIAL_TYPES)
