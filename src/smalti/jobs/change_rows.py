"""Changes of rows, file by file: rows that match a condition are deleted or get values, or rows are matched by keys.

A condition has three answers, and a row is changed where it is true. Rows for which it is null are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import SchemaError
from smalti.jobs.change_columns import COLUMNS_AT_A_TIME, FileValues, Matches, counts_of, find_rows
from smalti.jobs.change_data import Chunk, KeyedRows
from smalti.jobs.change_plan import plan_columns, plan_delete
from smalti.jobs.change_task import FilePlan, TableFile
from smalti.logical.adapt import countable, countable_schema, fit_array, fit_batch
from smalti.logical.arrays import take_rows
from smalti.logical.rows import chunks_of, concat_rows, filter_rows, filter_table
from smalti.mosaic.rows import row_numbers
from smalti.predicate import Filter, Outcome, prune_partitions, undecided
from smalti.predicate.python import AnyFilter
from smalti.predicate.tree import And, Compare, Constant
from smalti.table.partitions import partition_texts
from smalti.table.planning import fit_filter, has_types, owners_of, parse_filter
from smalti.table.reading import match_rows


@dataclass(frozen=True)
class Condition:
    """A condition on columns of the table. `filter_` has its values in the types of the table."""

    filter_: Filter
    #: The columns that the condition names, or of which it names a field.
    columns: tuple[str, ...]

    @classmethod
    def of(cls, where: AnyFilter | str, schema: pa.Schema) -> Condition:
        """A condition as a user has written it, on columns of this schema."""
        filter_ = parse_filter(where, schema)
        assert filter_ is not None
        fitted = fit_filter(filter_, schema)
        return cls(fitted, tuple(owners_of(fitted.columns, schema.names)))

    def matches(self, file: TableFile) -> list[Matches]:
        """The rows of each row group that match. Nothing is read where partition values or statistics decide."""
        decided = self._decided(file)
        names, plan = list(decided.columns), None
        opened, owners = file.opened, owners_of(names, self.columns)
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

    def _decided(self, file: TableFile) -> Filter:
        """The condition for the rows of a file, in which partition values have decided what they can.

        Null partition values decide nothing here: they may make the answer null, and such rows are counted.
        """
        values = {name: file.constant(name) for name in self.filter_.columns}
        known = {name: value for name, value in values.items() if value is not None and value.is_valid}
        if not known:
            return self.filter_
        if not prune_partitions(self.filter_.tree, [known])[0]:
            return Filter(Constant(False))
        left = undecided(self.filter_.tree, [known])
        return self.filter_.with_tree(Constant(True) if left is None else left)

    def _read(self, file: TableFile, group: int) -> Matches:
        return Matches.of(match_rows(file.read(self.columns, group), self.filter_))


def delete_rows(condition: Condition, file: TableFile) -> FilePlan:
    """Leave out rows that match a condition."""
    matches = condition.matches(file)

    def fresh(group: int) -> pa.Table:
        return filter_table(file.opened.row_group(group).read(), pc.invert(matches[group].mask))

    actions = plan_delete([each.outcome for each in matches])
    return FilePlan(plan_columns(file.opened.schema), actions, fresh, counts=counts_of(file, matches))


class Assignment(NamedTuple):
    """A column, as `countable` makes it, and the expression that it gets, or an array of one value."""

    field: pa.Field
    value: Any
    #: The columns that the expression reads; None if it is a value.
    columns: tuple[str, ...] | None = None

    def compute(self, batch: pa.RecordBatch) -> Any:
        """The values for the rows of a batch of `columns`."""
        if self.columns is None:
            return take_rows(self.value, pa.repeat(pa.scalar(0), batch.num_rows))
        return fit_array(evaluate(self.value, batch), self.field)


def evaluate(expression: pc.Expression, batch: pa.RecordBatch) -> Any:
    """The values of an expression for the rows of a batch."""
    from pyarrow import acero

    table = pa.Table.from_batches([batch])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]))
    try:
        found = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0)
        return concat_rows(chunks_of(found))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f"Arrow cannot compute an expression ({error})", found=str(expression)[:200]) from None


def assigned_values(assignments: Sequence[Assignment], condition: Condition | None, file: TableFile) -> FileValues:
    """Values and expressions for the rows that match a condition. Without a condition all rows match."""
    by_name = {each.field.name: each for each in assignments}

    def compute(group: int, fields: Sequence[pa.Field], found: Matches) -> list[Any]:
        values = []
        for field in fields:
            assignment = by_name[field.name]
            inputs = file.read(assignment.columns or (), group)
            if found.outcome is Outcome.SOME:
                count = found.mask.true_count
                inputs = filter_rows(inputs, found.mask) if inputs.num_columns else inputs.slice(0, count)
            values.append(assignment.compute(inputs))
        return values

    return FileValues(compute, None if condition is None else condition.matches(file))


def merged_values(
    rows: KeyedRows,
    bounds: Filter | None,
    fields: Sequence[pa.Field],
    inserts: bool | None,
    partitions: Sequence[pa.Field],
    file: TableFile,
) -> FileValues:
    """Values of the data for rows that are found by keys; rows of the data that are not found are added.

    Parameters
    ----------
    rows : KeyedRows
    bounds : Filter, optional
        The condition that keys are within the bounds of those of the data, which rules out row groups.
    fields : sequence of pyarrow.Field
        The columns in which rows that are found get values.
    inserts : bool
        Whether rows of the data that no row of the table matches are added to the file, which is the whole table; None
        if the job adds them to other files.
    partitions : sequence of pyarrow.Field
        Partition columns of the data. Rows that are found and have another value leave the file.
    file : TableFile
    """
    numbers = find_rows(file, rows, _may_match(bounds, file))
    masks = ((group, _leaving(rows, numbers[group], partitions, file, group)) for group in file.groups)
    leaving = {group: mask for group, mask in masks if mask is not None}
    if fields:
        matches = [Matches.of(each.is_valid()) for each in numbers]
    else:
        matches = [Matches.of(leaving[group]) if group in leaving else Matches(Outcome.NONE) for group in file.groups]

    def compute(group: int, fields: Sequence[pa.Field], found: Matches) -> list[Any]:
        wanted, step = numbers[group].filter(found.mask), COLUMNS_AT_A_TIME
        parts = (fields[start : start + step] for start in range(0, len(fields), step))
        return [column for some in parts for column in rows.gather(wanted, some)]

    def moved(group: int, mask: Any) -> pa.RecordBatch:
        batch = filter_rows(file.read(file.schema.names, group), mask)
        wanted = [countable(field) for field in (*fields, *partitions)]
        found = [concat_rows(chunks_of(each)) for each in rows.gather(numbers[group].filter(mask), wanted)]
        new = dict(zip([field.name for field in wanted], found, strict=True))
        return pa.record_batch({name: new.get(name, batch.column(name)) for name in batch.schema.names})

    matched = pa.chunked_array([each.drop_null() for each in numbers], pa.int64()).unique()
    counts = {"rows_updated": counts_of(file, matches)["rows"]}
    if inserts is None:
        return FileValues(compute, matches, counts, matched, leaving=leaving, moved=moved if leaving else None)
    counts["rows_unmatched"] = left = rows.num_rows - len(matched)
    if not inserts or not left:
        return FileValues(compute, matches, counts)

    def added(schema: pa.Schema) -> Iterable[pa.Table]:
        schema = countable_schema(schema)
        for chunk in rows.chunks:
            some = unmatched_rows(chunk, matched)
            if some.num_rows:
                yield pa.Table.from_batches([fit_batch(batch, schema) for batch in some.to_batches()])

    return FileValues(compute, matches, counts | {"rows_inserted": left}, added=added)


def _leaving(rows: KeyedRows, numbers: Any, partitions: Sequence[pa.Field], file: TableFile, group: int) -> Any:
    """The rows of a row group whose rows of the data have another partition value; None if there are none."""
    is_found = numbers.is_valid()
    if not partitions or not is_found.true_count:
        return None
    is_other: Any = pa.scalar(False)
    old = file.read([field.name for field in partitions], group).columns
    for before, after in zip(old, rows.gather(numbers, partitions), strict=True):
        one, other = map(partition_texts, (before, concat_rows(chunks_of(after))))
        is_same = pc.coalesce(pc.equal(one, other), pc.and_(one.is_null(), other.is_null()))
        is_other = pc.or_(is_other, pc.invert(is_same))
    is_other = pc.and_(is_found, is_other)
    return is_other if is_other.true_count else None


def _may_match(bounds: Filter | None, file: TableFile) -> list[bool]:
    """Whether row groups may have rows within bounds, by their statistics."""
    plan = None
    if bounds is not None and file.names.issuperset(bounds.columns):
        with suppress(SchemaError):
            plan = file.opened.filter_plan(bounds)
    return [plan is None or plan.outcome(group) is not Outcome.NONE for group in file.groups]


def unmatched_rows(chunk: Chunk, matched: Any) -> pa.Table:
    """The rows of a chunk of which no row of the table has the key."""
    is_matched = pc.is_in(row_numbers(chunk.start, chunk.num_rows), value_set=matched)
    return filter_table(chunk.read(), pc.invert(is_matched))


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
