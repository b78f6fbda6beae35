"""Apply filters to rows: compute the mask of a tree for a batch.

Two columns are compared exactly, also where Arrow would round one of them, or refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti._compat.arrow import as_comparable
from smalti.errors import SchemaError
from smalti.predicate import tree as t
from smalti.predicate.fitting import exact_number, fit_condition, step_of

#: Decimals are rounded by less than this share of themselves when Arrow makes floating-point numbers of them.
_ROUNDED = 1e-12


@dataclass(frozen=True)
class Filter:
    """A parsed filter; `nested` are the names in it that can only mean fields of structs."""

    tree: t.Tree
    nested: frozenset[str] = frozenset()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that have to be read to apply the filter."""
        return tuple(dict.fromkeys(t.columns_of(self.tree)))

    @cached_property
    def computed(self) -> frozenset[str]:
        """The columns that expressions compute with."""
        return frozenset(t.computed_columns(self.tree))

    def with_tree(self, tree: t.Tree) -> Filter:
        """Return the same filter with another tree."""
        return replace(self, tree=tree)


def fit_values(filter_: Filter, types: Mapping[str, pa.DataType]) -> Filter:
    """Return the filter with each value in the type that its column is compared in; `types` has types by column name.

    Columns are mostly compared as they are stored, while the values of a filter have the types of the written table.
    Arrow would round values, refuse some, and crash if a null has another type.

    Raises
    ------
    SchemaError
        If a column of its type cannot be compared as the filter says.
    """

    def fit(tree: t.Tree) -> t.Tree:
        match tree:
            case t.And(parts) | t.Or(parts):
                return type(tree)(tuple(map(fit, parts)))
            case t.Not(operand):
                return t.Not(fit(operand))
        fitted = fit_condition(tree, types)
        if isinstance(fitted, (t.Opaque, t.CompareColumns)):
            _check_computed(fitted, types)
        return fitted

    return filter_.with_tree(fit(filter_.tree))


def _check_computed(tree: t.Tree, types: Mapping[str, pa.DataType]) -> None:
    """Raise if Arrow cannot compute the tree for columns of these types."""
    names = list(dict.fromkeys(t.columns_of(tree)))
    if not types.keys() >= set(names):
        return
    try:
        _mask(tree, pa.RecordBatch.from_pylist([], pa.schema([(name, types[name]) for name in names])))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        shown = ", ".join(f"{name} {types[name]}" for name in names)
        reason = f"Arrow cannot compute a filter for columns of these types ({error})"
        raise SchemaError(reason, column=names[0] if names else None, found=shown) from None


def filter_batch(batch: pa.RecordBatch, filter_: Filter) -> pa.RecordBatch:
    """Return the rows of a batch that match."""
    types = {field.name: field.type for field in batch.schema if field.name in filter_.columns}
    return batch.filter(match_mask(batch, fit_values(filter_, types)))


def match_mask(batch: pa.RecordBatch, filter_: Filter) -> pa.BooleanArray:
    """Compute whether each row of a batch matches; null means no, like false. Values must have been fitted.

    Raise SchemaError if Arrow cannot compute an expression for the values, such as a quotient with a divisor of 0.
    """
    try:
        return cast("pa.BooleanArray", _mask(filter_.tree, batch))
    except pa.ArrowInvalid as error:
        names = ", ".join(map(repr, filter_.columns))
        raise SchemaError(f"Arrow cannot compute a filter on {names} for the values of a row ({error})") from None


def _mask(tree: t.Tree, batch: pa.RecordBatch) -> Any:
    if isinstance(tree, (t.Compare, t.MatchString, t.IsIn)):
        array: Any = batch.column(tree.column)
        if pt.is_dictionary(array.type):  # its few values are compared, and the answers go to the rows by their indices
            dictionary = pa.RecordBatch.from_arrays([array.dictionary], names=[tree.column])
            return _mask(tree, dictionary).take(array.indices)
    match tree:
        case t.And(parts):
            return reduce(pc.and_kleene, (_mask(part, batch) for part in parts))
        case t.Or(parts):
            return reduce(pc.or_kleene, (_mask(part, batch) for part in parts))
        case t.Not(operand):
            return pc.invert(_mask(operand, batch))
        case t.Constant(answer):
            return pa.array([answer], pa.bool_()).take(pa.repeat(pa.scalar(0), batch.num_rows))
        case t.Compare(_, _, value) if isinstance(value, pa.Scalar) and not value.is_valid:
            return pa.nulls(batch.num_rows, pa.bool_())
        case t.Compare(column, op, value):
            return getattr(pc, op)(as_comparable(batch.column(column)), as_comparable(value))
        case t.MatchString(column, op, substring):
            array = batch.column(column)
            return pa.nulls(len(array), pa.bool_()) if pt.is_null(array.type) else getattr(pc, op)(array, substring)
        case t.CompareColumns(left_name, op, right_name):
            return compare_arrays(op, *(_expanded(batch.column(name)) for name in (left_name, right_name)))
        case t.IsIn(column, values):
            array = as_comparable(batch.column(column))
            found = pc.is_in(array, value_set=as_comparable(values))
            # Arrow's `is_in` is false for a null, and SQL's is null.
            return pc.if_else(array.is_valid(), found, pa.scalar(None, pa.bool_())) if array.null_count else found
        case t.IsNull(column, nan_is_null):
            return pc.is_null(batch.column(column), nan_is_null=nan_is_null)
        case t.Opaque():
            return _evaluate_opaque(tree.expression, batch)


def _expanded(array: Any) -> Any:
    return array.dictionary_decode() if pt.is_dictionary(array.type) else array


def _evaluate_opaque(expression: pc.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["matches"]))
    mask = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0).combine_chunks()
    if not pt.is_boolean(mask.type):  # the error of `pyarrow.Table.filter`
        found = f"{str(expression)[:200]} evaluates to {mask.type}"
        raise pa.ArrowTypeError(f"Filter expression must evaluate to bool, but {found}")
    return cast("pa.BooleanArray", mask)


def compare_arrays(op: str, left: Any, right: Any) -> Any:
    """Compare two columns row by row; null where one of the values is null.

    Examples
    --------
    >>> seconds, nanos = pa.array([1 << 40, 5], pa.timestamp("s")), pa.array([0, 5_000_000_001], pa.timestamp("ns"))
    >>> compare_arrays("less", seconds, nanos).to_pylist()
    [False, True]
    """
    if pt.is_null(left.type) or pt.is_null(right.type):
        return pa.nulls(len(left), pa.bool_())
    if left.type == right.type:
        return getattr(pc, op)(as_comparable(left), as_comparable(right))
    left, right = _with_sign(left), _with_sign(right)
    if pt.is_temporal(left.type) and pt.is_temporal(right.type):
        return _compare_units(op, left, right)
    if pt.is_floating(left.type) and not pt.is_floating(right.type):
        return compare_arrays(t.SWAPPED.get(op, op), right, left)
    if pt.is_integer(left.type) and pt.is_floating(right.type):
        return _compare_integers(op, left, right)
    if pt.is_decimal(left.type) and pt.is_floating(right.type):
        return _compare_decimals(op, left, right)
    return getattr(pc, op)(left, right)


def _with_sign(array: Any) -> Any:
    """Cast uint64 to decimals: Arrow would compare them with other types as signed integers."""
    return array.cast(pa.decimal128(20, 0)) if pt.is_uint64(array.type) else array


def _compare_units(op: str, left: Any, right: Any) -> Any:
    """Compare moments, times or durations of two units. Values of the coarse unit can be out of range in the fine one.

    So fine values are rounded to the coarse unit: down, or up for operators that are decided by the next coarse value.
    """
    ratio = step_of(left.type) / step_of(right.type)
    if ratio < 1:
        return _compare_units(t.SWAPPED.get(op, op), right, left)
    coarse, fine = _ticks(left), _ticks(right)
    zero, steps = pa.scalar(0, pa.int64()), pa.scalar(int(ratio), pa.int64())
    quotient = pc.divide(fine, steps)  # which truncates
    rest = pc.subtract(fine, pc.multiply(quotient, steps))
    compare = getattr(pc, op)
    if op in ("equal", "not_equal"):
        return (pc.and_ if op == "equal" else pc.or_)(compare(coarse, quotient), compare(rest, zero))
    if op in ("less_equal", "greater"):
        return compare(coarse, pc.subtract(quotient, pc.less(rest, zero).cast(pa.int64())))
    return compare(coarse, pc.add(quotient, pc.greater(rest, zero).cast(pa.int64())))


def _ticks(array: Any) -> Any:
    return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(pa.int64())


def _compare_integers(op: str, whole: Any, floating: Any) -> Any:
    """Compare integers with floating-point numbers, where Arrow refuses integers of more than 53 bits.

    Rounding an integer to a floating-point number keeps its order among them, unless the two become equal. Then the
    floating-point number is whole, and is compared as an integer, or it is 2^63, which is above all integers.
    """
    compare = getattr(pc, op)
    rounded, floating = whole.cast(pa.float64(), safe=False), floating.cast(pa.float64())
    is_tie, is_held = pc.equal(rounded, floating), pc.less(floating, pa.scalar(2.0**63))
    exact = compare(whole, pc.if_else(pc.and_(is_tie, is_held), floating, pa.scalar(0.0)).cast(pa.int64()))
    is_below = pa.scalar(op in ("less", "less_equal", "not_equal"))
    return pc.if_else(is_tie, pc.if_else(is_held, exact, is_below), compare(rounded, floating))


def _compare_decimals(op: str, decimals: Any, floating: Any) -> Any:
    """Compare decimals with floating-point numbers: rounded where they are far from each other, exactly elsewhere."""
    rounded, floating = decimals.cast(pa.float64()), floating.cast(pa.float64())
    is_near = pc.less_equal(pc.abs(pc.subtract(rounded, floating)), pc.multiply(pc.abs(floating), _ROUNDED))
    is_near = is_near.fill_null(False)
    pairs = zip(decimals.filter(is_near).to_pylist(), floating.filter(is_near).to_pylist(), strict=True)
    numbers = [(exact_number(one), exact_number(other)) for one, other in pairs]
    signs = pa.array([(one > other) - (one < other) for one, other in numbers], pa.int8())
    compare = getattr(pc, op)
    return pc.replace_with_mask(compare(rounded, floating), is_near, compare(signs, pa.scalar(0, pa.int8())))
