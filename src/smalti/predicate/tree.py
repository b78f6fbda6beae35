"""The one form of a filter: a small tree of conditions, whatever language the filter was written in.

Conditions have SQL's three answers, true, false and null: every condition but `IsNull` is null where a column it reads
is null, and a row is kept where the whole tree is true. Other modules parse into the tree (`python`, `text` and
`smalti.spark.filters`), bring its values to the types of the columns (`fitting`), prune by it (`prune`) and apply it to
rows (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from smalti.errors import SchemaError

#: Comparison operators as people write them, and Arrow's names for them.
OPERATORS = {
    "=": "equal",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    ">": "greater",
    "<=": "less_equal",
    ">=": "greater_equal",
}
COMPARISONS = frozenset(OPERATORS.values())
#: Comparisons that change when their sides are swapped, and what they become.
SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
#: Arrow's names for what it is to have a text at the beginning, at the end, anywhere.
TEXT_MATCHES = ("starts_with", "ends_with", "match_substring")
#: So many conditions are joined one after the other, as they are written.
MAX_IN_A_ROW = 4
#: Levels of a tree, which is walked by recursion: far beyond what anyone writes, and far below Python's own limit.
MAX_DEPTH = 200


@dataclass(frozen=True)
class Exact:
    """A value that Arrow may have no type for, such as a number of 100 digits or of a third.

    `kind` is one of those that `fitting.kind_of` tells of types. Times and moments are in seconds. A number that is no
    fraction is infinite or NaN.
    """

    kind: str
    amount: Fraction | float


#: What a column is compared with. `fitting` makes scalars of the column's own type of all of them.
Value: TypeAlias = "pa.Scalar | Exact"


@dataclass(frozen=True)
class Compare:
    """column `op` value, where `op` is one of `COMPARISONS`. Comparing with a null value is always null."""

    column: str
    op: str
    value: Value


@dataclass(frozen=True)
class CompareColumns:
    """left `op` right, both columns."""

    left: str
    op: str
    right: str


@dataclass(frozen=True)
class IsIn:
    """column is among `values`, which has no nulls, and where NaN equals NaN.

    In an array of the column's own type 0.0 is not -0.0, as Arrow has it here; values of other types are equal or not.
    """

    column: str
    values: pa.Array | tuple[Value, ...]


@dataclass(frozen=True)
class MatchText:
    """column is text that has `text` where `op`, one of `TEXT_MATCHES`, says."""

    column: str
    op: str
    text: str


@dataclass(frozen=True)
class IsNull:
    """column is null; with `nan_is_null`, or it is NaN."""

    column: str
    nan_is_null: bool = False


@dataclass(frozen=True)
class Constant:
    """The same answer for every row."""

    answer: bool | None


@dataclass(frozen=True)
class And:
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Or:
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Not:
    operand: Tree


@dataclass(frozen=True)
class Opaque:
    """A part of a pyarrow expression that the tree cannot say; `names` are the columns it reads."""

    names: tuple[str, ...]
    expression: pc.Expression = field(compare=False, kw_only=True)


Condition = Compare | CompareColumns | IsIn | MatchText | IsNull
Tree = Condition | And | Or | Not | Opaque | Constant


def join(kind: type[And] | type[Or], parts: Sequence[Tree]) -> Tree:
    """All parts under one `And` or `Or`. Many become a tree of little depth, because trees are walked by recursion.

    Examples
    --------
    >>> join(Or, [IsNull("a"), IsNull("b"), IsNull("c")])
    Or(left=Or(left=IsNull(column='a', ...), right=IsNull(column='b', ...)), right=IsNull(column='c', ...))
    """
    return _balanced(kind, _gathered(parts) if kind is Or and len(parts) > MAX_IN_A_ROW else parts)


def _balanced(kind: type[And] | type[Or], parts: Sequence[Tree]) -> Tree:
    if len(parts) <= MAX_IN_A_ROW:
        return reduce(kind, parts)
    middle = len(parts) // 2
    return kind(_balanced(kind, parts[:middle]), _balanced(kind, parts[middle:]))


def _gathered(alternatives: Sequence[Tree]) -> list[Tree]:
    """Alternatives that ask whether one column equals this or that value, as one that asks whether it is among them."""
    values: dict[str, list[Value]] = {}
    others: list[Tree] = []
    for each in alternatives:
        # A null makes the answer null, and NaN equals nothing, unless it is looked for in a list.
        if isinstance(each, Compare) and each.op == "equal" and _equals_itself(each.value):
            values.setdefault(each.column, []).append(each.value)
        else:
            others.append(each)
    return [*(IsIn(column, tuple(found)) for column, found in values.items()), *others]  # in any order


def _equals_itself(value: Value) -> bool:
    if isinstance(value, Exact):
        return value.amount == value.amount
    return value.is_valid and not (pa.types.is_floating(value.type) and value.as_py() != value.as_py())


def too_deep() -> SchemaError:
    return SchemaError("a filter is nested too deep", expected=f"{MAX_DEPTH} levels at most")


def check_depth(tree: Tree) -> Tree:
    """The tree itself, if it is not nested deeper than the functions that walk it may call each other."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep()
        below: list[Tree] = []
        for each in level:
            match each:
                case And(left, right) | Or(left, right):
                    below += (left, right)
                case Not(operand):
                    below.append(operand)
        level = below
    return tree


def conjuncts(tree: Tree) -> Iterator[Tree]:
    """The conditions that are joined by AND at the top of the tree."""
    if isinstance(tree, And):
        yield from conjuncts(tree.left)
        yield from conjuncts(tree.right)
    else:
        yield tree


def columns_of(tree: Tree) -> Iterator[str]:
    """Every column the tree reads, in the order of the tree and as often as it is named there."""
    match tree:
        case And(left, right) | Or(left, right):
            yield from columns_of(left)
            yield from columns_of(right)
        case Not(operand):
            yield from columns_of(operand)
        case CompareColumns(left_name, _, right_name):
            yield from (left_name, right_name)
        case Opaque(names):
            yield from names
        case Constant():
            return
        case _:
            yield tree.column
