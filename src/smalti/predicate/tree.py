"""The one form of a filter: a small tree of conditions, in whichever language the filter was written.

Conditions have SQL's three answers, true, false and null: every condition but `IsNull` is null where a column it reads
is null, and a row is kept where the whole tree is true. Other modules parse into the tree (`python`, `text` and
`smalti.spark.filters`), bring its values to the types of the columns (`fitting`), prune by it (`prune`) and apply it to
rows (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
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
#: The sign of each comparison, for messages.
SIGNS = {name: sign for sign, name in reversed(OPERATORS.items())}
#: Comparisons that change when their sides are swapped, each with its replacement.
SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
#: Arrow's functions that search a substring at the beginning, at the end, anywhere.
STRING_MATCHES = ("starts_with", "ends_with", "match_substring")
#: The most alternatives that `join` leaves as they are written.
MAX_SEPARATE = 4
#: Levels of a tree, which is walked by recursion: far more than anyone writes, and far below Python's own limit.
MAX_DEPTH = 200


@dataclass(frozen=True)
class Exact:
    """A value that Arrow may have no type for, such as a number of 100 digits or a third.

    `kind` is a result of `fitting.kind_of`. Times and moments are in seconds. A float is infinite or NaN.
    """

    kind: str
    amount: Fraction | float


#: The value that a column is compared with. `fitting` turns it into a scalar of the column's own type.
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

    In an array of the column's own type 0.0 is not -0.0, as in Arrow's `is_in`; values of other types are compared.
    """

    column: str
    values: pa.Array | tuple[Value, ...]


@dataclass(frozen=True)
class MatchString:
    """column is a string with `substring` at its beginning, at its end or anywhere; `op` is one of `STRING_MATCHES`."""

    column: str
    op: str
    substring: str


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
    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Not:
    operand: Tree


@dataclass(frozen=True)
class Opaque:
    """A part of a pyarrow expression that has no form in the tree; `names` are the columns it reads."""

    names: tuple[str, ...]
    expression: pc.Expression = field(compare=False, kw_only=True)


Tree = Compare | CompareColumns | IsIn | MatchString | IsNull | And | Or | Not | Opaque | Constant


def match_like(column: str, pattern: str) -> Tree | None:
    """Return the condition that a LIKE of SQL means, which statistics can decide; None if a wildcard is inside.

    Examples
    --------
    >>> match_like("a", "sensor%")
    MatchString(column='a', op='starts_with', substring='sensor')
    >>> match_like("a", "x"), match_like("a", "x_z")
    (Compare(column='a', op='equal', value=<pyarrow.StringScalar: 'x'>), None)
    """
    inside = pattern.strip("%")
    if any(char in inside for char in "%_\\"):
        return None
    if inside == pattern:
        return Compare(column, "equal", pa.scalar(pattern))
    is_open_left, is_open_right = pattern.startswith("%"), pattern.endswith("%")
    op = "match_substring" if is_open_left and is_open_right else "ends_with" if is_open_left else "starts_with"
    return MatchString(column, op, inside)


def join(kind: type[And] | type[Or], parts: Sequence[Tree]) -> Tree:
    """Join all parts by `And` or `Or`; a part of the same kind is replaced by its own parts.

    Examples
    --------
    >>> join(Or, [IsNull("a"), Or((IsNull("b"), IsNull("c")))])
    Or(parts=(IsNull(column='a', ...), IsNull(column='b', ...), IsNull(column='c', ...)))
    """
    joined = [inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))]
    if kind is Or and len(joined) > MAX_SEPARATE:
        joined = _gathered(joined)
    return kind(tuple(joined)) if len(joined) > 1 else joined[0]


def _gathered(alternatives: Sequence[Tree]) -> list[Tree]:
    """Replace all alternatives `column = value` of a column by one `IsIn`."""
    values: dict[str, list[Value]] = {}
    others: list[Tree] = []
    for each in alternatives:
        # A null makes the answer null, and NaN equals nothing, except in an `IsIn`.
        if isinstance(each, Compare) and each.op == "equal" and _equals_itself(each.value):
            values.setdefault(each.column, []).append(each.value)
        else:
            others.append(each)
    return [*(IsIn(column, tuple(found)) for column, found in values.items()), *others]


def _equals_itself(value: Value) -> bool:
    if isinstance(value, Exact):
        return value.amount == value.amount
    return value.is_valid and not (pa.types.is_floating(value.type) and value.as_py() != value.as_py())


def too_deep() -> SchemaError:
    return SchemaError("a filter is nested too deep", expected=f"{MAX_DEPTH} levels at most")


def check_depth(tree: Tree) -> Tree:
    """Return the tree itself, or raise if it is nested too deep for functions that walk it by recursion."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep()
        level = [operand for each in level for operand in _operands(each)]
    return tree


def _operands(tree: Tree) -> tuple[Tree, ...]:
    if isinstance(tree, (And, Or)):
        return tree.parts
    return (tree.operand,) if isinstance(tree, Not) else ()


def is_null_only_where_columns_are(tree: Tree) -> bool:
    """Return whether the answer for a row is null only if a column that the tree reads is null there."""
    if isinstance(tree, Compare):
        return not isinstance(tree.value, pa.Scalar) or tree.value.is_valid
    if isinstance(tree, Constant):
        return tree.answer is not None
    return not isinstance(tree, Opaque) and all(map(is_null_only_where_columns_are, _operands(tree)))


def computed_columns(tree: Tree) -> Iterator[str]:
    """Yield every column that a part of a pyarrow expression computes with, so that all of its values count."""
    for operand in _operands(tree):
        yield from computed_columns(operand)
    if isinstance(tree, Opaque):
        yield from tree.names


def compared_columns(tree: Tree) -> Iterator[str]:
    """Yield every column that is compared with another column."""
    for operand in _operands(tree):
        yield from compared_columns(operand)
    if isinstance(tree, CompareColumns):
        yield from (tree.left, tree.right)


def columns_of(tree: Tree) -> Iterator[str]:
    """Yield every column that the tree reads, in the order of the tree, as often as the tree names it."""
    for operand in _operands(tree):
        yield from columns_of(operand)
    match tree:
        case CompareColumns(left, _, right):
            yield from (left, right)
        case Opaque(names):
            yield from names
        case Compare(column) | IsIn(column) | MatchString(column) | IsNull(column):
            yield column
