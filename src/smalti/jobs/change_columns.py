"""Changes of columns, file by file: dropped, renamed, put in another order, or given values in all rows or some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, starmap
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import SchemaError
from smalti.jobs.change_data import Chunk, ColumnFunction, KeyedRows, call_function, replaced_rows
from smalti.jobs.change_plan import Action, ColumnPlan, KnownPlans, plan_columns, plan_update
from smalti.jobs.change_task import FilePlan, TableFile
from smalti.jobs.keys import comparable
from smalti.logical.adapt import adapt_batch, countable, fit_batch
from smalti.logical.rows import filter_table
from smalti.logical.types import compared_type
from smalti.predicate import Outcome


def arrange_columns(plans: KnownPlans, file: TableFile) -> FilePlan:
    """Drop and rename columns, and put them in another order. No value is read."""
    columns = plans.of(file.opened.schema)
    rows = 0 if columns.is_same(file.opened.schema) else file.opened.num_rows
    return FilePlan(columns, [Action.COPY for _ in file.groups], counts={"rows": rows})


class Matches(NamedTuple):
    """The rows of a row group that get values, or are deleted; `mask` is None if these are all rows, or none."""

    outcome: Outcome
    mask: Any = None
    #: Rows for which the condition is null.
    unknown: int = 0

    @classmethod
    def of(cls, mask: Any) -> Matches:
        """The rows for which a mask is true."""
        count = mask.true_count
        outcome = Outcome.NONE if not count else Outcome.ALL if count == len(mask) else Outcome.SOME
        return cls(outcome, mask.fill_null(False), mask.null_count)

    def count(self, rows: int) -> int:
        if self.outcome is Outcome.SOME:
            return int(self.mask.true_count)
        return rows if self.outcome is Outcome.ALL else 0


def counts_of(file: TableFile, matches: Sequence[Matches]) -> dict[str, int]:
    """The counts of matching rows, under the names that the report has for them."""
    rows = sum(each.count(file.num_rows(group)) for group, each in enumerate(matches))
    return {"rows": rows, "rows_unknown": sum(each.unknown for each in matches)}


#: Returns the new values of columns of a row group, in the types of the fields, for the rows that match.
Compute = Callable[[int, Sequence[pa.Field], Matches], Sequence[Any]]


@dataclass(frozen=True)
class FileValues:
    """New values in one file; they are computed when their row group has its turn.

    Attributes
    ----------
    compute : callable
    matches : sequence of Matches, optional
        The rows of each row group that get values, by default all.
    counts : mapping of str to int
    matched : pyarrow.Array, optional
        As in `FilePlan`.
    added : callable, optional
        Returns rows that become further row groups, in the schema of the file.
    leaving : mapping of int to pyarrow.BooleanArray
        The rows that leave the file, by row group.
    moved : callable, optional
        Returns the rows that leave the file, with their new values, by row group and mask.
    """

    compute: Compute
    matches: Sequence[Matches] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    matched: Any = None
    added: Callable[[pa.Schema], Iterable[pa.Table]] | None = None
    leaving: Mapping[int, Any] = field(default_factory=dict)
    moved: Callable[[int, Any], pa.RecordBatch] | None = None


#: Finds out which rows of a file get values.
ValueSource = Callable[[TableFile], FileValues]


def change_values(
    fields: Sequence[pa.Field], values: ValueSource, plans: KnownPlans | None, file: TableFile
) -> FilePlan:
    """Give columns values, in all rows or in those that the source of the values finds.

    With `plans`, the columns become these fields in every file, because they are new or get another type. Without, a
    file in which no row gets a value stays as it is.
    """
    found = values(file)
    matches = found.matches
    if matches is None:
        is_wanted = [plans is not None or file.num_rows(group) for group in file.groups]
        matches = [Matches(Outcome.ALL if each else Outcome.NONE) for each in is_wanted]
    outcomes = [each.outcome for each in matches]
    if plans is not None:
        columns = plans.of(file.opened.schema)
    else:
        columns = columns_to_fit(file, fields if {*outcomes} - {Outcome.NONE} else ())

    def fresh(group: int) -> pa.Table:
        is_found = outcomes[group] is not Outcome.NONE
        names = [each.name for each in fields] if is_found else columns.encoded
        some = [countable(columns.schema.field(name)) for name in names]
        made = fresh_columns(file, group, some, matches[group], found.compute)
        leaving = found.leaving.get(group)
        return made if leaving is None else staying_rows(file, group, columns, made, leaving)

    counts = {**counts_of(file, matches), **found.counts}
    counts["rows"] += counts.get("rows_inserted", 0)
    added = None if found.added is None else found.added(columns.schema)
    actions = plan_update(outcomes, columns)
    for group, mask in found.leaving.items():
        actions[group] = Action.DROP if mask.true_count == len(mask) else Action.FILTER
    moved = None if found.moved is None else starmap(found.moved, found.leaving.items())
    return FilePlan(columns, actions, fresh, added, counts, found.matched, len(fields), moved)


def columns_to_fit(file: TableFile, fields: Sequence[pa.Field]) -> ColumnPlan:
    """The columns of a file in which some columns get values: those that it lacks, or has in another type, are new."""
    schema, known = file.opened.schema, {field.name: field for field in file.opened.schema}
    pairs = [(each, known.get(each.name)) for each in fields]
    # A column may be null in other files, and so it may get nulls in this one.
    loose = {each.name for each, old in pairs if each.nullable and old is not None and not old.nullable}
    if loose:
        kept = [field.with_nullable(True) if field.name in loose else field for field in schema]
        schema = pa.schema(kept).with_metadata(schema.metadata or {})
    return plan_columns(schema, fields=[each for each, old in pairs if old is None or old.type != each.type])


#: How many columns are read and computed at a time, so that old and new values of few of them are in memory together.
COLUMNS_AT_A_TIME = 256


def fresh_columns(
    file: TableFile, group: int, fields: Sequence[pa.Field], found: Matches, compute: Compute
) -> pa.Table:
    """Columns of a row group with new values in the rows that match, and their old ones in the others."""
    if found.outcome is Outcome.ALL:
        return pa.table(list(compute(group, fields, found)), schema=pa.schema(fields))
    arrays: list[Any] = []
    for start in range(0, len(fields), COLUMNS_AT_A_TIME):
        some = fields[start : start + COLUMNS_AT_A_TIME]
        old = adapt_batch(file.read([each.name for each in some], group), pa.schema(some)).columns
        is_same = found.outcome is Outcome.NONE
        arrays += old if is_same else replaced_rows(old, found.mask, compute(group, some, found))
    return pa.table(arrays, schema=pa.schema(fields))


def staying_rows(file: TableFile, group: int, columns: ColumnPlan, made: pa.Table, leaving: Any) -> pa.Table:
    """All columns of a row group, some with new values, without the rows that leave the file."""
    copied = {new: old for new, old in columns.copied.items() if new not in made.schema.names}
    table = made
    if copied:
        stored = file.opened.row_group(group).read(list(copied.values()))
        for name, old in copied.items():
            table = table.append_column(stored.schema.field(old).with_name(name), stored.column(old))
    return filter_table(table.select(columns.schema.names), pc.invert(leaving))


# --- where values come from -----------------------------------------------------------------------------------------


def aligned_values(chunks: Sequence[Chunk], file: TableFile) -> FileValues:
    """Rows of the data in the order of the table's rows: one chunk for each file."""
    starts = list(accumulate((file.num_rows(group) for group in file.groups), initial=0))

    def compute(group: int, fields: Sequence[pa.Field], _: Matches) -> Sequence[Any]:
        schema = pa.schema(fields)
        rows = chunks[file.index].read(schema.names).slice(starts[group], file.num_rows(group))
        return pa.Table.from_batches([fit_batch(batch, schema) for batch in rows.to_batches()], schema).columns

    return FileValues(compute)


def joined_values(rows: KeyedRows, file: TableFile) -> FileValues:
    """Rows of the data that have the keys of the table's rows; nulls for keys that the data lacks."""
    numbers = find_rows(file, rows, [True for _ in file.groups])

    def compute(group: int, fields: Sequence[pa.Field], _: Matches) -> Sequence[Any]:
        return rows.gather(numbers[group], fields)

    return FileValues(compute, counts={"rows_unmatched": sum(each.null_count for each in numbers)})


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


def computed_values(function: ColumnFunction, columns: Sequence[str], file: TableFile) -> FileValues:
    """What a function of the user's makes of some columns, a row group at a time."""

    def compute(group: int, fields: Sequence[pa.Field], _: Matches) -> Sequence[Any]:
        schema, made = pa.schema(fields), call_function(function, file.read(columns, group))
        if set(made.column_names) != set(schema.names):
            raise SchemaError(
                "the function has returned other columns than for the first rows",
                found=sorted(made.column_names),
                expected=sorted(schema.names),
            )
        return pa.Table.from_batches([fit_batch(batch, schema) for batch in made.to_batches()], schema).columns

    return FileValues(compute)
