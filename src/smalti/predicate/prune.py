"""What statistics and partition values prove about a filter, for all row groups or files at once.

For every condition three questions are answered: may it be true, may it be false, may it be null for some row?
"Unknown" is yes to all. Values are compared by Arrow's own kernels, the ones that later filter the rows, so that the
two cannot disagree. NaN hides from minimum and maximum: in floating-point columns every comparison may be false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from smalti.predicate import tree as t

#: One side of a comparison: a bound for each row group, or a value that is the same for all.
_Bound: TypeAlias = "pa.Array | pa.Scalar"


class Outcome(Enum):
    """What is known about the rows of a row group."""

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


@dataclass(frozen=True)
class _Answer:
    """For each row group: may the condition be true, false, null for some row? Arrays of booleans without nulls."""

    true: pa.Array
    false: pa.Array
    null: pa.Array


def prune(tree: t.Tree, statistics: Mapping[str, GroupStatistics], num_rows: list[int]) -> list[Outcome]:
    """Decide about every row group.

    Parameters
    ----------
    tree : Tree
    statistics : mapping of column name to GroupStatistics
        Columns without statistics are left out.
    num_rows : list of int
        Rows of each row group.
    """
    answer = _Pruner(statistics, num_rows).ask(tree)
    may_match = pc.and_(answer.true, pc.greater(pa.array(num_rows, pa.int64()), 0)).to_pylist()
    may_differ = pc.or_(answer.false, answer.null).to_pylist()
    return [
        Outcome.NONE if not matches else Outcome.SOME if differs else Outcome.ALL
        for matches, differs in zip(may_match, may_differ, strict=True)
    ]


def prune_partitions(tree: t.Tree, partitions: Sequence[Mapping[str, pa.Scalar]]) -> list[bool]:
    """Tell for each file whether it may have rows that match.

    To a filter, a partition value is a column that has this value in every row; a column left out is unknown.

    Examples
    --------
    >>> prune_partitions(t.Compare("day", "less", pa.scalar(3)), [{"day": pa.scalar(2)}, {"day": pa.scalar(4)}, {}])
    [True, False, True]
    """
    statistics = {}
    for name, type_ in {name: value.type for partition in partitions for name, value in partition.items()}.items():
        column = [partition.get(name) for partition in partitions]
        nulls = pa.array([None if value is None else int(not value.is_valid) for value in column], pa.int64())
        values = pa.array(column, type_)
        statistics[name] = GroupStatistics(nulls, values, values)
    return [outcome is not Outcome.NONE for outcome in prune(tree, statistics, [1] * len(partitions))]


class _Pruner:
    def __init__(self, statistics: Mapping[str, GroupStatistics], num_rows: list[int]) -> None:
        self.statistics = statistics
        self.num_rows = pa.array(num_rows, pa.int64())
        self.never, self.always = (pa.array([maybe] * len(num_rows), pa.bool_()) for maybe in (False, True))
        self.unknown = _Answer(self.always, self.always, self.always)

    def ask(self, tree: t.Tree) -> _Answer:
        match tree:
            case t.And(left, right):
                a, b = self.ask(left), self.ask(right)
                return _Answer(pc.and_(a.true, b.true), pc.or_(a.false, b.false), pc.or_(a.null, b.null))
            case t.Or(left, right):
                a, b = self.ask(left), self.ask(right)
                return _Answer(pc.or_(a.true, b.true), pc.and_(a.false, b.false), pc.or_(a.null, b.null))
            case t.Not(operand):
                a = self.ask(operand)
                return _Answer(a.false, a.true, a.null)
            case t.Compare(op="not_equal") | t.CompareColumns(op="not_equal"):
                return self.ask(t.Not(replace(tree, op="equal")))
        names = list(t.columns_of(tree))
        if isinstance(tree, t.Opaque) or not self.statistics.keys() >= set(names):
            return self.unknown
        try:
            return self._ask_condition(tree, [self.statistics[name] for name in names])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return self.unknown  # what cannot be compared is for the row filter to report

    def _ask_condition(self, tree: t.Condition, columns: list[GroupStatistics]) -> _Answer:
        """The answer for a condition on columns that all have statistics."""
        may_null, may_value = self.never, self.always
        for each in columns:
            may_null = pc.or_(may_null, _may(pc.greater(each.null_count, 0)))
            may_value = pc.and_(may_value, _may(pc.less(each.null_count, self.num_rows)))
        column, *others = columns
        floating = any(pa.types.is_floating(each.min.type) for each in columns)
        match tree:
            case t.IsNull(_, nan_is_null):
                return _Answer(self.always if nan_is_null and floating else may_null, may_value, self.never)
            case t.Compare(_, _, value) if not value.is_valid:
                return _Answer(self.never, self.never, self.always)
            case t.Compare(_, op, value):
                true, false = self._compare(op, column, value)
            case t.CompareColumns(_, op):
                true, false = _compare(op, column.min, column.max, others[0].min, others[0].max)
            case t.IsIn(_, values):
                true, false = self.never, self.always
                for value in values:
                    equal, unequal = self._compare("equal", column, value)
                    true, false = pc.or_(true, equal), pc.and_(false, unequal)
            case t.MatchText(_, op, text):
                # The bounds of a partition value are the same, and decide; others say nothing about texts in between.
                matches, differ = getattr(pc, op)(column.min, text), pc.not_equal(column.min, column.max)
                true, false = _may(pc.or_(matches, differ)), _may(pc.or_(pc.invert(matches), differ))
        if floating:
            false = self.always  # some value may be NaN
        return _Answer(pc.and_(true, may_value), pc.and_(false, may_value), may_null)

    def _compare(self, op: str, column: GroupStatistics, value: pa.Scalar) -> tuple[pa.Array, pa.Array]:
        if pa.types.is_floating(value.type) and value.as_py() != value.as_py():
            return self.always, self.always  # the bounds do not say whether the column holds NaN
        return _compare(op, column.min, column.max, value, value)


def _compare(op: str, low: _Bound, high: _Bound, other_low: _Bound, other_high: _Bound) -> tuple[pa.Array, pa.Array]:
    """May `left op right` be true, may it be false, for some values between the bounds of the two sides?"""
    if op in ("greater", "greater_equal"):
        return _compare(t.SWAPPED[op], other_low, other_high, low, high)
    if op == "less":
        return _may(pc.less(low, other_high)), _may(pc.greater_equal(high, other_low))
    if op == "less_equal":
        return _may(pc.less_equal(low, other_high)), _may(pc.greater(high, other_low))
    overlap = pc.and_(pc.less_equal(low, other_high), pc.greater_equal(high, other_low))
    all_equal = pc.and_(pc.equal(low, other_high), pc.equal(high, other_low))
    return _may(overlap), _may(pc.invert(all_equal))


def _may(answers: pa.Array) -> pa.Array:
    """Arrow's comparison is null where statistics are unknown, and there everything is possible."""
    return answers.fill_null(True)
