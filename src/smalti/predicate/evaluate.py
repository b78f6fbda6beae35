"""Filters applied to rows: a tree as the pyarrow expression that decides about each row."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import cached_property
from math import floor, inf, isnan, nan, nextafter
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti.predicate import tree as t


@dataclass(frozen=True)
class Filter:
    """A filter ready to use: `tree` decides about files and row groups, `expression` about rows.

    `nested` are the names in it that can only mean fields of structs.
    """

    tree: t.Tree
    expression: pc.Expression
    nested: frozenset[str] = frozenset()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that have to be read to apply the filter."""
        return tuple(dict.fromkeys(t.columns_of(self.tree)))

    def with_tree(self, tree: t.Tree) -> Filter:
        """The same filter by another tree; as it is, if only the whole expression says what a part of it means."""
        if tree == self.tree:
            return self
        try:
            return replace(self, tree=tree, expression=to_expression(tree))
        except TypeError:
            return self


def fit_values(filter_: Filter, types: Mapping[str, pa.DataType]) -> Filter:
    """The filter with values in the types that columns are compared as, by name, where they are written in others.

    Columns are compared as they are stored, mostly, and people write values of the types that they know: Arrow cannot
    compare a decimal with a whole number, or a text with a view of one, and a null of another type makes it crash.
    Where whole numbers meet floating-point ones, it refuses those that the narrower type may not hold exactly. Up to
    version 19 its expressions compare decimals without a look at their points.
    """

    def fit(tree: t.Tree) -> t.Tree:
        match tree:
            case t.And(left, right):
                return t.And(fit(left), fit(right))
            case t.Or(left, right):
                return t.Or(fit(left), fit(right))
            case t.Not(operand):
                return t.Not(fit(operand))
            case t.Compare(column, op, wrapped) if column in types and wrapped.type != types[column]:
                type_, value = types[column], _unwrapped(wrapped)
                tree = t.Compare(column, op, value)
                if pt.is_decimal(type_) and value.is_valid and (pt.is_integer(value.type) or pt.is_decimal(value.type)):
                    return _fit_decimal(tree, Decimal(value.as_py()), type_.scale)
                if pt.is_integer(type_) and pt.is_floating(value.type) and value.is_valid:
                    return _fit_to_integers(tree, value.as_py(), type_)
                if pt.is_floating(type_) and pt.is_integer(value.type) and value.is_valid:
                    return _fit_to_floats(tree, value.as_py())
                return t.Compare(column, op, _fit_value(value, type_))
            case t.IsIn(column, values) if column in types and values.type != types[column]:
                return t.IsIn(column, _fit_set(_unwrapped_set(values), types[column]))
        return tree

    return filter_.with_tree(fit(filter_.tree))


def _unwrapped(value: Any) -> pa.Scalar:
    """A value of an extension type or a dictionary as what it holds: columns are compared as they are stored."""
    while isinstance(value, (pa.ExtensionScalar, pa.DictionaryScalar)) and value.is_valid:
        value = value.value
    plain: pa.Scalar = value
    return plain


def _unwrapped_set(values: Any) -> pa.Array:
    while isinstance(values, (pa.ExtensionArray, pa.DictionaryArray)):
        values = values.storage if isinstance(values, pa.ExtensionArray) else values.dictionary_decode()
    plain: pa.Array = values
    return plain


def _fit_value(value: pa.Scalar, type_: pa.DataType) -> pa.Scalar:
    if not value.is_valid:
        return pa.scalar(None, type_)
    zones = [each.tz for each in (value.type, type_) if isinstance(each, pa.TimestampType)]
    if len(zones) == 2 and None not in zones:  # A moment is the same in every zone, but Arrow compares no two of them.
        return value.cast(pa.timestamp(value.type.unit, zones[1]))
    return value.cast(type_) if _is_another_layout(value.type, type_) else value


def _fit_set(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Values to look for among those of a type. One that the type cannot hold is none of them."""
    if pt.is_null(values.type) or not len(values):
        return pa.array([], type_)
    if pt.is_decimal(type_) and (pt.is_integer(values.type) or pt.is_decimal(values.type)):
        fitting = []
        for value in cast("list[int | Decimal | None]", values.to_pylist()):
            with suppress(pa.ArrowInvalid):
                fitting.append(pa.scalar(None if value is None else Decimal(value), type_))
        return pa.array(fitting, type_)
    if pt.is_integer(type_) and pt.is_floating(values.type):
        least, most = _limits(type_)
        numbers = cast("list[float]", values.to_pylist())
        return pa.array([int(each) for each in numbers if least <= each <= most and each == floor(each)], type_)
    if pt.is_floating(type_) and pt.is_integer(values.type):
        whole = cast("list[int]", values.to_pylist())
        rounded = pa.array(map(float, whole), pa.float64()).cast(type_).cast(pa.float64()).to_pylist()
        held = [number for number, each in zip(rounded, whole, strict=True) if number == each]
        return pa.array([*held, *([-0.0] if 0 in held else ())], pa.float64())  # which equals 0, though not to Arrow
    return values.cast(type_) if _is_another_layout(values.type, type_) else values


def _is_another_layout(given: pa.DataType, type_: pa.DataType) -> bool:
    """Whether values of one type are values of the other that are held in another way; half floats are held by all."""
    if pt.is_float16(given) and pt.is_floating(type_):
        return True
    return _family(given) is not None and _family(given) == _family(type_)


def _family(type_: pa.DataType) -> str | None:
    """Types that hold the same values in other layouts."""
    if pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_):
        return "text"
    if pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_):
        return "bytes"
    return None


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
    return t.Compare(tree.column, tree.op, number) if below == value else _fit_between(tree, number)


def _fit_between(tree: t.Compare, number: pa.Scalar) -> t.Tree:
    """A comparison with a value that no value of the column equals: `number` is less, and the next one greater."""
    at_most, more = (t.Compare(tree.column, op, number) for op in ("less_equal", "greater"))
    match tree.op:
        case "equal":
            return t.And(at_most, more)  # of no value, and null of null
        case "not_equal":
            return t.Or(at_most, more)
    return at_most if tree.op.startswith("less") else more


def _fit_to_integers(tree: t.Compare, value: float, type_: pa.DataType) -> t.Tree:
    """The same comparison of whole numbers with a whole number.

    Examples
    --------
    >>> _fit_to_integers(t.Compare("i", "greater", pa.scalar(2.5)), 2.5, pa.int8())
    Compare(column='i', op='greater', value=<pyarrow.Int8Scalar: 2>)
    >>> _fit_to_integers(t.Compare("i", "less", pa.scalar(1e9)), 1e9, pa.int8())
    Compare(column='i', op='less_equal', value=<pyarrow.Int8Scalar: 127>)
    """
    least, most = _limits(type_)
    if isnan(value) and tree.op != "not_equal":
        tree = replace(tree, op="equal")  # NaN is neither less nor greater, and equals nothing
    if isnan(value):
        return _fit_between(tree, pa.scalar(0, type_))
    if value < least:
        # Everything is greater, which is said by its opposite, because there is no number below the least.
        swapped = {"less": "greater", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less_equal"}
        return _fit_between(replace(tree, op=swapped.get(tree.op, tree.op)), pa.scalar(most, type_))
    if value > most or value != floor(value):
        return _fit_between(tree, pa.scalar(floor(min(value, most)), type_))
    return t.Compare(tree.column, tree.op, pa.scalar(int(value), type_))


def _fit_to_floats(tree: t.Compare, value: int) -> t.Tree:
    """The same comparison of floating-point numbers with one of them."""
    nearest = float(value)
    if nearest == value:
        return t.Compare(tree.column, tree.op, pa.scalar(nearest))
    if tree.op in ("equal", "not_equal"):
        return t.Compare(tree.column, tree.op, pa.scalar(nan))  # which equals no number either, nor itself
    return _fit_between(tree, pa.scalar(nearest if nearest < value else nextafter(nearest, -inf)))


def _limits(type_: pa.DataType) -> tuple[int, int]:
    """The least and the most that an integer type holds."""
    if pt.is_signed_integer(type_):
        return -(1 << type_.bit_width - 1), (1 << type_.bit_width - 1) - 1
    return 0, (1 << type_.bit_width) - 1


def filter_batch(batch: pa.RecordBatch, filter_: Filter) -> pa.RecordBatch:
    """The rows of a batch that match."""
    types = {field.name: field.type for field in batch.schema if field.name in filter_.columns}
    return batch.filter(match_mask(batch, fit_values(filter_, types)))


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
