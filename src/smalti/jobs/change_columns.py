"""Changes of columns, file by file: columns go, get other names or another order, or new values for all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.jobs.change_data import Chunk, ColumnFunction, KeyedRows, call_function
from smalti.jobs.change_plan import Action, KnownPlans, plan_columns
from smalti.jobs.change_task import FilePlan, TableFile, one_batch
from smalti.jobs.keys import comparable
from smalti.logical.adapt import adapt_batch
from smalti.logical.types import compared_type


@dataclass(frozen=True)
class ArrangedColumns:
    """Columns are dropped, renamed or put in another order. No value is read."""

    drop: frozenset[str] = frozenset()
    rename: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    follows_additions: bool = True
    known: KnownPlans = field(default_factory=KnownPlans, repr=False, compare=False)

    @property
    def changes_columns(self) -> bool:
        return bool(self.drop or self.rename)

    def plan(self, file: TableFile) -> FilePlan:
        make = partial(plan_columns, drop=self.drop, rename=self.rename, first=self.first)
        columns = self.known.plan(file.opened.schema, make)
        is_same = columns.is_same(file.opened.schema)
        actions = [Action.COPY for _ in file.groups]
        return FilePlan(columns, actions, counts={"rows": 0 if is_same else file.opened.num_rows}, is_unchanged=is_same)


class ValueSource(Protocol):
    """Where the values of new columns come from."""

    @property
    def follows_additions(self) -> bool:
        """Whether they can be had for files that were added since the plan."""

    def of_file(self, file: TableFile) -> ValuesOfFile:
        """What is known before the row groups of a file are written."""


class ValuesOfFile(Protocol):
    """The values of new columns in one file."""

    @property
    def unmatched(self) -> int:
        """How many rows have no row of the data."""

    def of_group(self, group: int, schema: pa.Schema) -> pa.Table | pa.RecordBatch:
        """The new columns of a row group."""


@dataclass(frozen=True)
class NewColumns:
    """Columns get values for all rows: new columns, or columns that exist, with a new type if it differs."""

    fields: tuple[pa.Field, ...]
    values: ValueSource
    changes_columns: bool = False
    known: KnownPlans = field(default_factory=KnownPlans, repr=False, compare=False)

    @property
    def follows_additions(self) -> bool:
        return self.values.follows_additions

    def plan(self, file: TableFile) -> FilePlan:
        columns = self.known.plan(file.opened.schema, partial(plan_columns, fields=self.fields))
        of_file = self.values.of_file(file)
        schema = pa.schema(self.fields)
        return FilePlan(
            columns,
            [Action.ENCODE for _ in file.groups],
            lambda group: of_file.of_group(group, schema),
            counts={"rows": file.opened.num_rows, "unmatched": of_file.unmatched},
        )


@dataclass(frozen=True)
class AlignedValues:
    """Rows of the data in the order of the table's rows: one chunk for each file."""

    chunks: tuple[Chunk, ...]
    follows_additions: bool = False

    def of_file(self, file: TableFile) -> ValuesOfFile:
        starts = [0, *accumulate(file.num_rows(group) for group in file.groups)]
        return _AlignedFile(self.chunks[file.index], starts)


@dataclass(frozen=True)
class _AlignedFile:
    chunk: Chunk
    starts: Sequence[int]
    unmatched: int = 0

    def of_group(self, group: int, schema: pa.Schema) -> pa.Table:
        start, end = self.starts[group], self.starts[group + 1]
        rows = self.chunk.read(schema.names).slice(start, end - start)
        return pa.Table.from_batches([adapt_batch(batch, schema) for batch in rows.to_batches()], schema)


@dataclass(frozen=True)
class JoinedValues:
    """Rows of the data that have the keys of the table's rows; nulls for keys that the data lacks."""

    rows: KeyedRows
    follows_additions: bool = True

    def of_file(self, file: TableFile) -> ValuesOfFile:
        found = find_rows(file, self.rows, [True for _ in file.groups])
        return _JoinedFile(self.rows, found, sum(each.null_count for each in found))


@dataclass(frozen=True)
class _JoinedFile:
    rows: KeyedRows
    found: Sequence[Any]
    unmatched: int

    def of_group(self, group: int, schema: pa.Schema) -> pa.Table:
        return pa.table(self.rows.gather(self.found[group], list(schema)), schema=schema)


def find_rows(file: TableFile, rows: KeyedRows, is_asked: Sequence[bool]) -> list[Any]:
    """For each row group, the numbers of the rows of the data that have the keys of its rows.

    The keys of all row groups that are asked for are looked up at once, because making an index takes time.
    """
    names, parts = rows.keys.names, []
    types = [compared_type(each.type) for each in rows.keys]
    for group in file.groups:
        if is_asked[group]:
            batch = file.read(names, group)
            parts.append(pa.record_batch([comparable(column) for column in batch.columns], names=names))
    keys = pa.Table.from_batches(parts, pa.schema(list(zip(names, types, strict=True))))
    numbers, start, found = rows.find(keys), 0, []
    for group in file.groups:
        count = file.num_rows(group)
        found.append(numbers.slice(start, count) if is_asked[group] else pa.nulls(count, pa.int64()))
        start += count if is_asked[group] else 0
    return found


@dataclass(frozen=True)
class ComputedValues:
    """What a function of the user's makes of some columns, a row group at a time."""

    function: ColumnFunction
    columns: tuple[str, ...]
    follows_additions: bool = True

    def of_file(self, file: TableFile) -> ValuesOfFile:
        return _ComputedFile(self, file)


@dataclass(frozen=True)
class _ComputedFile:
    values: ComputedValues
    file: TableFile
    unmatched: int = 0

    def of_group(self, group: int, schema: pa.Schema) -> pa.RecordBatch:
        made = call_function(self.values.function, self.file.read(self.values.columns, group))
        if set(made.column_names) != set(schema.names):
            raise SchemaError(
                "the function has returned other columns than for the first rows",
                found=sorted(made.column_names),
                expected=sorted(schema.names),
            )
        return adapt_batch(one_batch(made), schema)
