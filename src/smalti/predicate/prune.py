"""Prune row groups by their statistics and files by their partition values: decide which cannot have matching rows.

For every condition three questions are answered: may it be true, may it be false, may it be null for some row?
"Unknown" is yes to all. The answers for all row groups are the binary digits of an integer. Values are brought to the
type of the bounds and compared by Arrow's kernels, as they are when rows are filtered, so that the two cannot disagree.
NaN is in neither minimum nor maximum: in floating-point columns every comparison may be false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import SchemaError
from smalti.predicate import tree as t
from smalti.predicate.evaluate import compare_arrays
from smalti.predicate.fitting import fit_condition

#: Up to this many values of an `IsIn` are compared one by one with all row groups; more are compared all at once, with
#: one row group after the other.
MANY_VALUES = 64
_NEGATED = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}


class Outcome(Enum):
    """How many rows of a row group, or of a file, can match."""

    NONE = "cannot match"
    SOME = "might match"
    ALL = "all match"


@dataclass(frozen=True)
class GroupStatistics:
    """Statistics of one column over all row groups: arrays of equal length.

    `null_count` is null where there are no statistics; `min` and `max` also where they are unknown.
    """

    null_count: pa.Array
    min: pa.Array
    max: pa.Array


class _Answer(NamedTuple):
    """May the condition be true, false, null for some row? The first row group is the most significant digit."""

    true: int
    false: int
    null: int


def prune(tree: t.Tree, statistics: Mapping[str, GroupStatistics], num_rows: list[int]) -> list[Outcome]:
    """Decide about every row group, from `statistics` of the columns that have any and the rows of each row group."""
    answers = [f"{digits:0{len(num_rows)}b}" for digits in _Pruner(statistics, num_rows).ask(tree)]
    return [
        Outcome.NONE if not rows or true == "0" else Outcome.ALL if false == null == "0" else Outcome.SOME
        for rows, true, false, null in zip(num_rows, *answers, strict=False)
    ]


def prune_partitions(tree: t.Tree, partitions: Sequence[Mapping[str, pa.Scalar]]) -> list[bool]:
    """Decide for each file whether it may have rows that match.

    To a filter, a partition value is a column that has this value in every row; a column left out is unknown.

    Examples
    --------
    >>> prune_partitions(t.Compare("day", "less", pa.scalar(3)), [{"day": pa.scalar(2)}, {"day": pa.scalar(4)}, {}])
    [True, False, True]
    """
    outcomes = prune(tree, _partition_statistics(partitions), [1] * len(partitions))
    return [outcome is not Outcome.NONE for outcome in outcomes]


def undecided(tree: t.Tree, partitions: Sequence[Mapping[str, pa.Scalar]]) -> t.Tree | None:
    """Return the conditions that partition values do not decide for all files; None if they decide everything.

    Examples
    --------
    >>> tree = t.And((t.Compare("day", "less", pa.scalar(3)), t.IsNull("x")))
    >>> undecided(tree, [{"day": pa.scalar(1)}, {"day": pa.scalar(2)}])
    IsNull(column='x', nan_is_null=False)
    """
    statistics, rows = _partition_statistics(partitions), [1] * len(partitions)
    parts = tree.parts if isinstance(tree, t.And) else (tree,)
    left = [part for part in parts if set(prune(part, statistics, rows)) - {Outcome.ALL}]
    return t.join(t.And, left) if left else None


def _partition_statistics(partitions: Sequence[Mapping[str, pa.Scalar]]) -> dict[str, GroupStatistics]:
    """Partition values as statistics of files of one row."""
    statistics = {}
    for name, type_ in {name: value.type for partition in partitions for name, value in partition.items()}.items():
        column = [partition.get(name) for partition in partitions]
        nulls = pa.array([None if value is None else int(not value.is_valid) for value in column], pa.int64())
        values = pa.array(column, type_)
        statistics[name] = GroupStatistics(nulls, values, values)
    return statistics


class _Pruner:
    def __init__(self, statistics: Mapping[str, GroupStatistics], num_rows: list[int]) -> None:
        self.statistics = statistics
        self.num_rows = num_rows
        self.never, self.always = 0, (1 << len(num_rows)) - 1
        self.unknown = _Answer(self.always, self.always, self.always)

    def ask(self, tree: t.Tree) -> _Answer:
        match tree:
            case t.And(parts) | t.Or(parts):
                true, false, null = zip(*map(self.ask, parts), strict=True)
                for_true, for_false = (and_, or_) if isinstance(tree, t.And) else (or_, and_)
                return _Answer(reduce(for_true, true), reduce(for_false, false), reduce(or_, null))
            case t.Not(operand):
                answer = self.ask(operand)
                return _Answer(answer.false, answer.true, answer.null)
            case t.Compare(op="not_equal") | t.CompareColumns(op="not_equal"):
                return self.ask(t.Not(replace(tree, op="equal")))
            case t.Constant(value):
                return _Answer(*(self.always if value is each else self.never for each in (True, False, None)))
        names = list(t.columns_of(tree))
        if isinstance(tree, t.Opaque) or not self.statistics.keys() >= set(names):
            return self.unknown
        columns = [self.statistics[name] for name in names]
        try:
            fitted = fit_condition(tree, {name: each.min.type for name, each in zip(names, columns, strict=True)})
            return self._ask_condition(fitted, columns)
        except (SchemaError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return self.unknown  # Filtering the rows will raise the error.

    def _ask_condition(self, tree: t.Tree, columns: list[GroupStatistics]) -> _Answer:
        """The answer for a condition on columns that all have statistics."""
        may_null, may_value = self.never, self.always
        for each in columns:
            counts = each.null_count.to_pylist()
            may_null |= _digits(count is None or count > 0 for count in counts)
            may_value &= _digits(
                count is None or count < rows for count, rows in zip(counts, self.num_rows, strict=True)
            )
        column, *others = columns
        floating = any(pa.types.is_floating(each.min.type) for each in columns)
        match tree:
            case t.IsNull(_, nan_is_null):
                return _Answer(self.always if nan_is_null and floating else may_null, may_value, self.never)
            case t.Compare(_, _, pa.Scalar(is_valid=False)):
                return _Answer(self.never, self.never, self.always)
            case t.Compare(_, op, pa.Scalar() as value):
                is_nan = floating and value.as_py() != value.as_py()
                true, false = (self.never, self.always) if is_nan else _compare_bounds(op, column, value, value)
            case t.CompareColumns(_, op):
                true, false = _compare_bounds(op, column, others[0].min, others[0].max)
            case t.IsIn(_, pa.Array() as values):
                true, false = self._is_in(values, column)
            case t.MatchString(_, "starts_with", prefix):
                true, false = _compare_prefix(column.min, column.max, prefix)
            case t.MatchString(_, op, substring):
                # The bounds of a partition value are the same, and decide; others say nothing about strings in between.
                matches, differ = getattr(pc, op)(column.min, substring), _may(pc.not_equal(column.min, column.max))
                true, false = _may(matches) | differ, _may(pc.invert(matches)) | differ
        if floating:
            false = self.always  # Some value may be NaN, and 0.0 is not -0.0 in an `IsIn`.
        return _Answer(true & may_value, false & may_value, may_null)

    def _is_in(self, values: pa.Array, column: GroupStatistics) -> tuple[int, int]:
        """May the column be among the values, may it be something else?"""
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return self.always, self.always  # The bounds do not say whether the column has NaN.
        if len(values) <= MANY_VALUES:
            found = [_compare_bounds("equal", column, value, value) for value in values]
            equal, unequal = [true for true, _ in found], [false for _, false in found]
            return reduce(or_, equal, self.never), reduce(and_, unequal, self.always)
        hits = [_between(values, low, high) for low, high in zip(column.min, column.max, strict=True)]
        return _digits(hit for hit, _ in hits), _digits(not is_only for _, is_only in hits)


def _compare_bounds(op: str, column: GroupStatistics, low: Any, high: Any) -> tuple[int, int]:
    """May `column op other` be true, may it be false, for other values from `low` to `high`?"""
    compare = compare_arrays if isinstance(low, pa.Array) else lambda op, *sides: getattr(pc, op)(*sides)
    least, greatest = (column.min, high), (column.max, low)
    if op == "equal":
        overlap = pc.and_(compare("less_equal", *least), compare("greater_equal", *greatest))
        return _may(overlap), _may(pc.or_(compare("not_equal", *least), compare("not_equal", *greatest)))
    for_true, for_false = (least, greatest) if op.startswith("less") else (greatest, least)
    return _may(compare(op, *for_true)), _may(compare(_NEGATED[op], *for_false))


def _between(values: pa.Array, low: pa.Scalar, high: pa.Scalar) -> tuple[bool, bool]:
    """Whether one of the values may lie from `low` to `high`, and whether no other value can."""
    if not (low.is_valid and high.is_valid):
        return True, False
    hit = bool(pc.any(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))).as_py())
    return hit, hit and bool(pc.equal(low, high).as_py())


def _compare_prefix(low: pa.Array, high: pa.Array, prefix: str) -> tuple[int, int]:
    """May strings from `low` to `high` begin with a prefix, may they not?

    Strings that do are neighbours in sorted order, from the prefix itself on. Some may be in range if `high` is not
    before the prefix and `low` is not behind all of them; all strings do if both bounds do.
    """
    first = pa.scalar(prefix)
    low_begins, high_begins = pc.starts_with(low, prefix), pc.starts_with(high, prefix)
    reached = pc.and_(pc.greater_equal(high, first), pc.or_(pc.less(low, first), low_begins))
    return _may(reached), _may(pc.invert(pc.and_(low_begins, high_begins)))


def _may(answers: Any) -> int:
    """Whether each answer may be true: Arrow's comparison is null where statistics are unknown."""
    return _digits(answers.to_pylist())


def _digits(flags: Iterable[bool | None]) -> int:
    return int("0" + "".join(["0" if flag is False else "1" for flag in flags]), 2)
