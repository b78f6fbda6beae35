"""Filters as predicates of pypaimon, by which it leaves out partitions, buckets and files without matching rows.

A predicate may match more rows than the filter, and never fewer, because smalti filters the rows afterwards. Conditions
that pypaimon cannot express are left out.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pypaimon.common.predicate import Predicate
from pypaimon.common.predicate_builder import PredicateBuilder

from smalti.predicate import tree as t

_COMPARISONS = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "less_than",
    "less_equal": "less_or_equal",
    "greater": "greater_than",
    "greater_equal": "greater_or_equal",
}
_TEXT_MATCHES = {"starts_with": "startswith", "ends_with": "endswith", "match_substring": "contains"}
#: A longer list of values is not worth comparing with the bounds of every file.
_MOST_VALUES = 1000


def to_predicate(tree: t.Tree, builder: PredicateBuilder, types: pa.Schema) -> Predicate | None:
    """A predicate that every matching row satisfies; None if pypaimon can express no condition of the filter.

    Parameters
    ----------
    tree : Tree
        Of a filter whose values fit `types`.
    builder : PredicateBuilder
        Of the table.
    types : pyarrow.Schema
        The columns of the filter, in the types of the table.
    """
    match tree:
        case t.And(parts) | t.Or(parts):
            predicates = [to_predicate(part, builder, types) for part in parts]
            if isinstance(tree, t.And):
                return builder.and_predicates([each for each in predicates if each is not None])
            return None if None in predicates else builder.or_predicates(predicates)
        case t.Compare(column, op, pa.Scalar() as value):
            (literal,) = _literals(column, pa.array([value], value.type), types) or [None]
            return None if literal is None else getattr(builder, _COMPARISONS[op])(column, literal)
        case t.IsIn(column, pa.Array() as values):
            literals = _literals(column, values, types)
            return builder.is_in(column, literals) if literals else None
        case t.MatchString(column, op, text):
            is_text = column in types.names and pt.is_string(types.field(column).type)
            return getattr(builder, _TEXT_MATCHES[op])(column, text) if is_text else None
        case t.IsNull(column, False):
            return builder.is_null(column) if column in types.names else None
        case t.Not(t.IsNull(column, False)):
            return builder.is_not_null(column) if column in types.names else None
    return None


def _literals(column: str, values: pa.Array, types: pa.Schema) -> list[Any] | None:
    """Values as Python objects, in the type of the column; None if comparing them could give another result."""
    if column not in types.names or not 0 < len(values) <= _MOST_VALUES or values.null_count:
        return None
    type_ = types.field(column).type
    if not (pt.is_integer(type_) or pt.is_string(type_) or pt.is_date32(type_) or pt.is_decimal(type_)):
        return None  # Floating-point numbers have NaN and two zeros, times have zones. They skip row groups only.
    try:
        literals = values.cast(type_)
        return literals.to_pylist() if literals.cast(values.type).equals(values) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):  # such as of a date beyond those of Python
        return None
