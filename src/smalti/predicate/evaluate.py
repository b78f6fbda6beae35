"""Apply filters to rows: compute the mask of a tree for a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from smalti._compat.arrow import as_comparable
from smalti.errors import SchemaError
from smalti.predicate import tree as t
from smalti.predicate.comparing import compare_arrays
from smalti.predicate.fitting import fit_condition


@dataclass(frozen=True)
class Filter:
    """A parsed filter; `nested` are the names in it that can only mean fields of structs."""

    tree: t.Tree
    nested: frozenset[str] = frozenset()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that have to be read to apply the filter."""
        return tuple(dict.fromkeys(t.columns_of(self.tree)))

    def with_tree(self, tree: t.Tree) -> Filter:
        """The same filter by another tree."""
        return replace(self, tree=tree)


def fit_values(filter_: Filter, types: Mapping[str, pa.DataType]) -> Filter:
    """The filter with each value in the type that its column is compared in; `types` are those types by column name.

    Columns are mostly compared as they are stored, and people write values of the types that they were given in. Arrow
    would round values, refuse some, and crash if a null has another type.

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
            case t.Constant():
                return tree
            case t.Opaque():
                _check_computed(tree, tree.names, types)
                return tree
            case t.CompareColumns(left_name, _, right_name):
                _check_computed(fit_condition(tree, types), (left_name, right_name), types)
                return tree
        return fit_condition(tree, types)

    return filter_.with_tree(fit(filter_.tree))


def _check_computed(tree: t.Tree, names: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
    """Raise if Arrow cannot compute the tree for columns of these types."""
    names = list(dict.fromkeys(names))
    if not types.keys() >= set(names):
        return
    try:
        _mask(tree, pa.RecordBatch.from_pylist([], pa.schema([(name, types[name]) for name in names])))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        shown = ", ".join(f"{name} {types[name]}" for name in names)
        reason = f"a filter asks what Arrow cannot tell of columns of these types ({error})"
        raise SchemaError(reason, column=names[0] if names else None, found=shown) from None


def filter_batch(batch: pa.RecordBatch, filter_: Filter) -> pa.RecordBatch:
    """The rows of a batch that match."""
    types = {field.name: field.type for field in batch.schema if field.name in filter_.columns}
    return batch.filter(match_mask(batch, fit_values(filter_, types)))


def match_mask(batch: pa.RecordBatch, filter_: Filter) -> pa.BooleanArray:
    """Whether each row of a batch matches; null, as false, means that it does not. Values must have been fitted."""
    return cast("pa.BooleanArray", _mask(filter_.tree, batch))


def _mask(tree: t.Tree, batch: pa.RecordBatch) -> Any:
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
            return compare_arrays(op, batch.column(left_name), batch.column(right_name))
        case t.IsIn(column, values):
            array = as_comparable(batch.column(column))
            found = pc.is_in(array, value_set=as_comparable(values))
            # Arrow's `is_in` is false for a null, and SQL's is null.
            return pc.if_else(array.is_valid(), found, pa.scalar(None, pa.bool_())) if array.null_count else found
        case t.IsNull(column, nan_is_null):
            return pc.is_null(batch.column(column), nan_is_null=nan_is_null)
        case t.Opaque():
            return _evaluate_opaque(tree.expression, batch)


def _evaluate_opaque(expression: pc.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["matches"]))
    mask = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0).combine_chunks()
    if not pt.is_boolean(mask.type):  # the error of `pyarrow.Table.filter`
        found = f"{str(expression)[:200]} evaluates to {mask.type}"
        raise pa.ArrowTypeError(f"Filter expression must evaluate to bool, but {found}")
    return cast("pa.BooleanArray", mask)
