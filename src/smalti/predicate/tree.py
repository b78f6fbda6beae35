"""What a filter says, as far as statistics can answer: a small tree of conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

#: Comparison operators by Arrow's names for them, and what each becomes when its sides are swapped.
SWAPPED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


@dataclass(frozen=True)
class Compare:
    """column `op` value."""

    column: str
    op: str
    value: pa.Scalar


@dataclass(frozen=True)
class IsIn:
    """column is among values; `match_null` when the set holds null and a null column value counts as a match."""

    column: str
    values: pa.Array
    match_null: bool


@dataclass(frozen=True)
class IsNull:
    """column is null; `nan_is_null` counts NaN among them."""

    column: str
    nan_is_null: bool = False


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
    """Anything statistics have no answer to; `names` are the columns it reads."""

    names: tuple[str, ...]


Tree = Compare | IsIn | IsNull | And | Or | Not | Opaque


def columns_of(tree: Tree) -> Iterator[str]:
    """Every column the tree reads, in order, repeats included."""
    if isinstance(tree, (Compare, IsIn, IsNull)):
        yield tree.column
    elif isinstance(tree, (And, Or)):
        yield from columns_of(tree.left)
        yield from columns_of(tree.right)
    elif isinstance(tree, Not):
        yield from columns_of(tree.operand)
    else:
        yield from tree.names
