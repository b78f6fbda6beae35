"""What statistics prove about a filter, for all row groups at once.

For every condition two questions are answered: may it be true for some row, may it be false for some row. "Unknown"
is yes to both. Values are compared by Arrow's own kernels, the ones that later filter the rows, so that the two
cannot disagree. NaN hides from minimum and maximum: in floating-point columns every comparison may be false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from smalti.predicate.tree import And, Compare, IsIn, IsNull, Not, Opaque, Or, Tree


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
    """Per row group: may the condition be true, false, null for some row."""

    true: list[bool]
    false: list[bool]
    null: list[bool]


def prune(tree: Tree, statistics: Mapping[str, GroupStatistics], num_rows: list[int]) -> list[Outcome]:
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
    outcomes = []
    for i, rows in enumerate(num_rows):
        if rows == 0 or not answer.true[i]:
            outcomes.append(Outcome.NONE)
        elif answer.false[i] or answer.null[i]:
            outcomes.append(Outcome.SOME)
        else:
            outcomes.append(Outcome.ALL)
    return outcomes


class _Pruner:
    def __init__(self, statistics: Mapping[str, GroupStatistics], num_rows: list[int]) -> None:
        self.statistics = statistics
        self.num_rows = num_rows
        everything = [True] * len(num_rows)
        self.unknown = _Answer(everything, everything, everything)

    def ask(self, tree: Tree) -> _Answer:
        if isinstance(tree, And):
            a, b = self.ask(tree.left), self.ask(tree.right)
            return _Answer(_both(a.true, b.true), _either(a.false, b.false), _either(a.null, b.null))
        if isinstance(tree, Or):
            a, b = self.ask(tree.left), self.ask(tree.right)
            return _Answer(_either(a.true, b.true), _both(a.false, b.false), _either(a.null, b.null))
        if isinstance(tree, Not):
            a = self.ask(tree.operand)
            return _Answer(a.false, a.true, a.null)
        if isinstance(tree, Opaque) or tree.column not in self.statistics:
            return self.unknown
        column = self.statistics[tree.column]
        try:
            if isinstance(tree, Compare):
                return self._compare(tree, column)
            if isinstance(tree, IsIn):
                return self._is_in(tree, column)
            return self._is_null(tree, column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return self.unknown  # what cannot be compared is for the row filter to report

    def _nulls(self, column: GroupStatistics) -> tuple[list[bool], list[bool]]:
        """May a value be null; may a value be something else."""
        counts = column.null_count.to_pylist()
        return (
            [count is None or count > 0 for count in counts],
            [count is None or count < rows for count, rows in zip(counts, self.num_rows, strict=True)],
        )

    def _compare(self, tree: Compare, column: GroupStatistics) -> _Answer:
        may_null, may_value = self._nulls(column)
        if not tree.value.is_valid:
            nothing = [False] * len(self.num_rows)
            return _Answer(nothing, nothing, [True] * len(self.num_rows))
        low, high, value = column.min, column.max, tree.value
        if pa.types.is_floating(value.type) and value.as_py() != value.as_py():
            return self.unknown  # NaN compares with nothing, whatever the column holds
        match tree.op:
            case "equal" | "not_equal":
                equal = _known(pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value)))
                unequal = _known(pc.invert(pc.and_(pc.equal(low, value), pc.equal(high, value))))
                true, false = (equal, unequal) if tree.op == "equal" else (unequal, equal)
            case "less":
                true, false = _known(pc.less(low, value)), _known(pc.greater_equal(high, value))
            case "less_equal":
                true, false = _known(pc.less_equal(low, value)), _known(pc.greater(high, value))
            case "greater":
                true, false = _known(pc.greater(high, value)), _known(pc.less_equal(low, value))
            case _:
                true, false = _known(pc.greater_equal(high, value)), _known(pc.less(low, value))
        if pa.types.is_floating(low.type):
            if tree.op == "not_equal":
                true = [True] * len(true)  # NaN differs from everything
            else:
                false = [True] * len(false)
        return _Answer(_both(true, may_value), _both(false, may_value), may_null)

    def _is_in(self, tree: IsIn, column: GroupStatistics) -> _Answer:
        """Never null: a null is in the set or it is not."""
        may_null, may_value = self._nulls(column)
        floating = pa.types.is_floating(column.min.type)
        true = [False] * len(self.num_rows)
        for value in tree.values:
            inside = _known(pc.and_(pc.less_equal(column.min, value), pc.greater_equal(column.max, value)))
            true = _either(true, inside)
        if floating and any(value.as_py() != value.as_py() for value in tree.values):
            true = [True] * len(true)
        false = [True] * len(self.num_rows)
        if not floating:
            single = _known(pc.invert(pc.equal(column.min, column.max)))
            for value in tree.values:
                outside = _either(single, _known(pc.invert(pc.equal(column.min, value))))
                false = _both(false, outside)
        true, false = _both(true, may_value), _both(false, may_value)
        if tree.match_null:
            return _Answer(_either(true, may_null), false, [False] * len(true))
        return _Answer(true, _either(false, may_null), [False] * len(true))

    def _is_null(self, tree: IsNull, column: GroupStatistics) -> _Answer:
        may_null, may_value = self._nulls(column)
        if tree.nan_is_null and pa.types.is_floating(column.min.type):
            may_null = [True] * len(may_null)
        return _Answer(may_null, may_value, [False] * len(may_null))


def _known(answers: pa.Array) -> list[bool]:
    """Where statistics are unknown, Arrow's comparison is null and everything is possible."""
    return [answer is not False for answer in answers.to_pylist()]


def _both(a: list[bool], b: list[bool]) -> list[bool]:
    return [x and y for x, y in zip(a, b, strict=True)]


def _either(a: list[bool], b: list[bool]) -> list[bool]:
    return [x or y for x, y in zip(a, b, strict=True)]
