"""Filters applied to rows: a tree as the pyarrow expression that decides about each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import cached_property
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from smalti.predicate import tree as t


@dataclass(frozen=True)
class Filter:
    """A filter ready to use: `tree` decides about files and row groups, `expression` about rows."""

    tree: t.Tree
    expression: pc.Expression

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that have to be read to apply the filter."""
        return tuple(dict.fromkeys(t.columns_of(self.tree)))


def fit_numbers(filter_: Filter, decimals: Mapping[str, int]) -> Filter:
    """The filter with numbers that are compared with decimals made decimals of as many digits after the point.

    Arrow fails to compare whole numbers with decimals, and up to 19 its expressions compare decimals without a look at
    their points. `decimals` has the digits of the columns.
    """

    def fit(tree: t.Tree) -> t.Tree:
        match tree:
            case t.And(left, right):
                return t.And(fit(left), fit(right))
            case t.Or(left, right):
                return t.Or(fit(left), fit(right))
            case t.Not(operand):
                return t.Not(fit(operand))
            case t.Compare(column, _, value) if column in decimals and value.is_valid:
                if pa.types.is_integer(value.type) or pa.types.is_decimal(value.type):
                    return _fit_decimal(tree, Decimal(value.as_py()), decimals[column])
        return tree

    fitted = fit(filter_.tree) if decimals else filter_.tree
    if fitted == filter_.tree:
        return filter_
    try:
        return Filter(fitted, to_expression(fitted))
    except TypeError:  # There is a part that only the whole expression says.
        return filter_


def _fit_decimal(tree: t.Compare, value: Decimal, digits: int) -> t.Tree:
    """The same comparison with a number of so many digits after the point: between two such, it is less or greater.

    Examples
    --------
    >>> _fit_decimal(t.Compare("x", "less", pa.scalar(Decimal("2.501"))), Decimal("2.501"), 2)
    Compare(column='x', op='less_equal', value=<pyarrow.Decimal128Scalar: Decimal('2.50')>)
    """
    with localcontext() as context:
        context.prec = 100
        below = value.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)
    try:
        number = pa.scalar(below)
    except pa.ArrowInvalid:
        return tree  # No decimal has so many digits.
    if below == value:
        return t.Compare(tree.column, tree.op, number)
    at_most, more = (t.Compare(tree.column, op, number) for op in ("less_equal", "greater"))
    match tree.op:
        case "equal":
            return t.And(at_most, more)  # of no value, and null of null
        case "not_equal":
            return t.Or(at_most, more)
    return at_most if tree.op.startswith("less") else more


def filter_batch(batch: pa.RecordBatch, filter_: Filter) -> pa.RecordBatch:
    """The rows of a batch that match."""
    decimals = {field.name: field.type.scale for field in batch.schema if pa.types.is_decimal(field.type)}
    return batch.filter(match_mask(batch, fit_numbers(filter_, decimals)))


def match_mask(batch: pa.RecordBatch, filter_: Filter) -> pa.BooleanArray:
    """Whether each row of a batch matches; null, as false, means that it does not."""
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = acero.Declaration("project", acero.ProjectNodeOptions([filter_.expression], ["matches"]))
    mask = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0).combine_chunks()
    if not pa.types.is_boolean(mask.type):  # the error of `pyarrow.Table.filter`
        found = f"{filter_.expression} evaluates to {mask.type}"
        raise pa.ArrowTypeError(f"Filter expression must evaluate to bool, but {found}")
    return cast("pa.BooleanArray", mask)


def to_expression(tree: t.Tree, *, negated: bool = False) -> pc.Expression:
    """The expression that is true for exactly the rows for which the tree, or its negation, is.

    `not` is pushed down to single conditions, because Arrow's "is in" says false of a null, where SQL says null.

    Examples
    --------
    >>> print(to_expression(t.Not(t.Or(t.Compare("id", "less", pa.scalar(5)), t.IsNull("name")))))
    (invert((id < 5)) and invert(is_null(name, {nan_is_null=false})))
    """
    expression: pc.Expression
    match tree:
        case t.And(left, right) | t.Or(left, right):
            one, other = to_expression(left, negated=negated), to_expression(right, negated=negated)
            return one & other if isinstance(tree, t.And) is not negated else one | other
        case t.Not(operand):
            return to_expression(operand, negated=not negated)
        case t.Compare(column, op, value) | t.MatchText(column, op, value):
            expression = getattr(pc, op)(pc.field(column), value)
        case t.CompareColumns(left_name, op, right_name):
            expression = getattr(pc, op)(pc.field(left_name), pc.field(right_name))
        case t.IsIn(column, values):
            # The type of an empty list is often unknown, and then Arrow cannot look for a column's values in it.
            expression = pc.field(column).isin(values) if len(values) else pc.scalar(False)
            return ~expression & pc.field(column).is_valid() if negated else expression
        case t.IsNull(column, nan_is_null):
            expression = pc.field(column).is_null(nan_is_null=nan_is_null)
        case t.Opaque(expression=pc.Expression() as expression):
            pass
        case t.Opaque():
            raise TypeError("only the expression that a tree was parsed from says what its opaque parts mean")
    return ~expression if negated else expression
