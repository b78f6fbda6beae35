"""Changes of rows, file by file: rows that match a condition go or get values, rows are matched with others by keys.

A condition has three answers, and a row is changed where it is true. Rows for which it is null are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import SchemaError
from smalti.jobs.change_columns import find_rows
from smalti.jobs.change_data import Chunk, KeyedRows, replaced_rows
from smalti.jobs.change_plan import Action, ColumnPlan, plan_columns, plan_delete, plan_update
from smalti.jobs.change_task import FilePlan, TableFile, one_batch
from smalti.logical.adapt import adapt_batch, widen_array
from smalti.logical.arrays import as_compared, filter_rows
from smalti.predicate import Filter, Outcome, match_mask, prune_partitions, undecided
from smalti.predicate.tree import And, Compare, Constant
from smalti.table.planning import has_types, leaf_of

#: Returns the new values of columns of a row group, for the rows that match.
Compute = Callable[[int, Sequence[pa.Field], "Matches"], list[Any]]


class Matches(NamedTuple):
    """The rows of a row group that a condition is true for; `mask` is None if it was not computed."""

    outcome: Outcome
    mask: Any = None
    #: Rows for which the condition is null.
    unknown: int = 0

    def count(self, rows: int) -> int:
        if self.outcome is Outcome.SOME:
            return int(self.mask.true_count)
        return rows if self.outcome is Outcome.ALL else 0


@dataclass(frozen=True)
class Condition:
    """A condition on columns of the table. `filter_` has its values in the types of the table."""

    filter_: Filter
    #: The columns that are read for it: those that have the fields that it names.
    columns: tuple[str, ...]

    def matches(self, file: TableFile) -> list[Matches]:
        """The rows of each row group that match. Nothing is read where partition values or statistics decide."""
        decided = self._decided(file)
        if isinstance(decided, Outcome):
            return [Matches(decided if file.num_rows(group) else Outcome.NONE) for group in file.groups]
        names, plan = list(decided.columns), None
        opened, owners = file.opened, self.owners(names)
        if file.names.issuperset(owners):
            needed = pa.schema([file.schema.field(name) for name in owners])
            if has_types(opened.schema_of(names), names, needed):
                plan = opened.filter_plan(decided)
        found = []
        for group in file.groups:
            outcome = Outcome.SOME if plan is None else plan.outcome(group)
            unknown = None if plan is None or outcome is Outcome.SOME else plan.null_rows(group)
            found.append(self._read(file, group) if unknown is None else Matches(outcome, None, unknown))
        return found

    def owners(self, names: Sequence[str]) -> list[str]:
        """The columns that are named, or of whose fields one is named."""
        wanted = (name if name in self.columns else _owner(name, self.columns) for name in names)
        return list(dict.fromkeys(wanted))

    def _decided(self, file: TableFile) -> Outcome | Filter:
        """What the partition values of a file leave of the condition, or the answer for all of its rows.

        A null partition value may make the answer null, which has to be counted.
        """
        values = {name: file.constant(name) for name in self.filter_.columns}
        known = {name: value for name, value in values.items() if value is not None and value.is_valid}
        if not known:
            return self.filter_
        if not prune_partitions(self.filter_.tree, [known])[0]:
            return Outcome.NONE
        left = undecided(self.filter_.tree, [known])
        return Outcome.ALL if left is None else self.filter_.with_tree(left)

    def _read(self, file: TableFile, group: int) -> Matches:
        batch = file.read(self.columns, group)
        if not batch.num_rows:
            return Matches(Outcome.NONE)
        names = list(self.filter_.columns)
        compared = [as_compared(leaf_of(batch, name)) for name in names]
        by_itself = pa.RecordBatch.from_arrays(compared, names=names) if names else batch
        mask: Any = match_mask(by_itself, self.filter_)
        count, unknown = mask.true_count, mask.null_count
        outcome = Outcome.NONE if not count else Outcome.ALL if count == len(mask) else Outcome.SOME
        return Matches(outcome, mask.fill_null(False), unknown)


def _owner(path: str, columns: Sequence[str]) -> str:
    return next(name for name in columns if path.startswith(f"{name}."))


def all_rows(file: TableFile) -> list[Matches]:
    return [Matches(Outcome.ALL if file.num_rows(group) else Outcome.NONE) for group in file.groups]


def _counts(file: TableFile, matches: Sequence[Matches]) -> dict[str, int]:
    rows = sum(each.count(file.num_rows(group)) for group, each in enumerate(matches))
    return {"rows": rows, "unknown": sum(each.unknown for each in matches)}


@dataclass(frozen=True)
class DeletedRows:
    """Rows that match a condition go."""

    condition: Condition
    follows_additions: bool = True
    changes_columns: bool = False

    def plan(self, file: TableFile) -> FilePlan:
        matches = self.condition.matches(file)
        actions = plan_delete([each.outcome for each in matches])

        def fresh(group: int) -> pa.RecordBatch:
            whole = one_batch(file.opened.row_group(group).read())
            return filter_rows(whole, pc.invert(matches[group].mask))

        columns = plan_columns(file.opened.schema)
        is_same = all(action is Action.COPY for action in actions)
        return FilePlan(columns, actions, fresh, counts=_counts(file, matches), is_unchanged=is_same)


class Assignment(NamedTuple):
    """A column, and the value or expression that it gets."""

    field: pa.Field
    value: Any
    #: The columns that the expression reads; None if it is a value.
    columns: tuple[str, ...] | None = None

    def compute(self, batch: pa.RecordBatch) -> Any:
        """The values for the rows of a batch of `columns`."""
        if self.columns is None:
            return pa.repeat(self.value, batch.num_rows)
        return widen_array(evaluate(self.value, batch), self.field)


def evaluate(expression: pc.Expression, batch: pa.RecordBatch) -> Any:
    """The values of an expression for the rows of a batch."""
    from pyarrow import acero

    table = pa.Table.from_batches([batch])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]))
    try:
        found = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f"Arrow cannot compute an expression ({error})", found=str(expression)[:200]) from None
    return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)


@dataclass(frozen=True)
class UpdatedRows:
    """Columns of rows that match a condition get other values. Without a condition all rows match."""

    assignments: tuple[Assignment, ...]
    condition: Condition | None = None
    follows_additions: bool = True
    changes_columns: bool = False

    @cached_property
    def _fields(self) -> dict[str, Assignment]:
        return {each.field.name: each for each in self.assignments}

    def plan(self, file: TableFile) -> FilePlan:
        matches = all_rows(file) if self.condition is None else self.condition.matches(file)
        columns = columns_to_fit(file, [each.field for each in self.assignments])
        actions = plan_update([each.outcome for each in matches], columns)
        is_same = all(each.outcome is Outcome.NONE for each in matches)

        def fresh(group: int) -> pa.Table:
            found = matches[group]
            names = columns.encoded if found.outcome is Outcome.NONE else tuple(self._fields)
            return fresh_columns(file, group, columns, names, found, partial(self._compute, file))

        count = len(self.assignments)
        return FilePlan(columns, actions, fresh, (), _counts(file, matches), None, is_same, count)

    def _compute(self, file: TableFile, group: int, fields: Sequence[pa.Field], found: Matches) -> list[Any]:
        values = []
        for field in fields:
            assignment = self._fields[field.name]
            inputs = file.read(assignment.columns or (), group)
            if found.outcome is Outcome.SOME:
                count = found.mask.true_count
                inputs = filter_rows(inputs, found.mask) if inputs.num_columns else inputs.slice(0, count)
            values.append(assignment.compute(inputs))
        return values


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
_COLUMNS_AT_A_TIME = 256


def fresh_columns(
    file: TableFile, group: int, columns: ColumnPlan, names: Sequence[str], found: Matches, compute: Compute
) -> pa.Table:
    """Columns of a row group with new values in the rows that match, and their old ones in the others."""
    schema = pa.schema([columns.schema.field(name) for name in names])
    arrays: list[Any] = []
    for start in range(0, len(schema), _COLUMNS_AT_A_TIME):
        fields = list(schema)[start : start + _COLUMNS_AT_A_TIME]
        wanted = [field.name for field in fields]
        if found.outcome is Outcome.NONE:
            arrays += file.read(wanted, group).columns
            continue
        new = compute(group, fields, found)
        if found.outcome is Outcome.SOME:
            new = replaced_rows(file.read(wanted, group).columns, found.mask, new, fields)
        arrays += new
    return pa.table(arrays, schema=schema)


@dataclass(frozen=True)
class MergedRows:
    """Rows that are found by keys get the values of the data, and rows of the data that are not found are added.

    Attributes
    ----------
    rows : KeyedRows
    fields : tuple of pyarrow.Field
        The columns that matching rows get from the data; none if they stay as they are.
    inserts : bool
        Whether rows of the data that no row of the table matches are added.
    is_single : bool
        Whether they are added to the same file, which is the whole table.
    """

    rows: KeyedRows
    fields: tuple[pa.Field, ...]
    inserts: bool
    is_single: bool = False
    follows_additions: bool = True
    changes_columns: bool = False

    @cached_property
    def _bounds(self) -> Filter | None:
        """The condition that keys are within the bounds of those of the data, which rules out row groups."""
        return key_bounds(self.rows)

    def plan(self, file: TableFile) -> FilePlan:
        numbers = find_rows(file, self.rows, self._may_match(file))
        matches = []
        for found in numbers:
            mask = found.is_valid()
            count = mask.true_count
            outcome = Outcome.NONE if not count else Outcome.ALL if count == len(mask) else Outcome.SOME
            matches.append(Matches(outcome, mask))
        is_same = not self.fields or all(each.outcome is Outcome.NONE for each in matches)
        columns = columns_to_fit(file, () if is_same else self.fields)
        actions = [Action.COPY for _ in file.groups]
        if not is_same:
            actions = plan_update([each.outcome for each in matches], columns)
        names = tuple(field.name for field in self.fields)

        def compute(group: int, fields: Sequence[pa.Field], found: Matches) -> list[Any]:
            return self.rows.gather(numbers[group].filter(found.mask), fields)

        def fresh(group: int) -> pa.Table:
            found = matches[group]
            wanted = columns.encoded if found.outcome is Outcome.NONE else names
            return fresh_columns(file, group, columns, wanted, found, compute)

        updated = 0 if is_same else sum(each.mask.true_count for each in matches)
        counts = {"rows": updated, "updated": updated}
        matched = pa.chunked_array([each.drop_null() for each in numbers], pa.int64()).unique()
        if not self.is_single:
            return FilePlan(columns, actions, fresh, (), counts, matched, is_same, len(names))
        left = self.rows.num_rows - len(matched)
        if not self.inserts:
            return FilePlan(columns, actions, fresh, (), {**counts, "unmatched": left}, None, is_same, len(names))
        counts = {"rows": updated + left, "updated": updated, "inserted": left, "unmatched": left}
        return FilePlan(
            columns, actions, fresh, self._added(matched, columns.schema), counts, None, is_same and not left
        )

    def _may_match(self, file: TableFile) -> list[bool]:
        if self._bounds is None or not file.names.issuperset(self._bounds.columns):
            return [True for _ in file.groups]
        try:
            plan = file.opened.filter_plan(self._bounds)
        except SchemaError:
            return [True for _ in file.groups]
        return [plan.outcome(group) is not Outcome.NONE for group in file.groups]

    def _added(self, matched: Any, schema: pa.Schema) -> Iterable[pa.Table]:
        for chunk in self.rows.chunks:
            rows = unmatched_rows(chunk, matched)
            if rows.num_rows:
                yield pa.Table.from_batches([adapt_batch(one_batch(rows), schema)])


def unmatched_rows(chunk: Chunk, matched: Any) -> pa.Table:
    """The rows of a chunk of which no row of the table has the key."""
    rows = chunk.read()
    numbers = pc.add(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), chunk.num_rows)), chunk.start - 1)
    mask = pc.invert(pc.is_in(numbers, value_set=matched))
    left, start = [], 0
    for batch in rows.to_batches():
        left.append(filter_rows(batch, mask.slice(start, batch.num_rows)))
        start += batch.num_rows
    return pa.Table.from_batches(left, rows.schema)


def key_bounds(rows: KeyedRows) -> Filter | None:
    """The condition that a row may have a key of the data; None for types whose bounds do not tell.

    Statistics do not count NaN, so bounds of floating-point numbers would rule out too much.
    """
    name = rows.keys.names[0]
    lows, highs = [], []
    for chunk in rows.chunks:
        column = chunk.read([name]).column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_date(column.type)):
            return None
        ends = pc.min_max(column)
        if ends["min"].is_valid:
            lows.append(ends["min"])
            highs.append(ends["max"])
    if not lows:
        return Filter(Constant(False))
    low, high = (pc.min_max(pa.array(ends, lows[0].type)) for ends in (lows, highs))
    return Filter(And((Compare(name, "greater_equal", low["min"]), Compare(name, "less_equal", high["max"]))))
