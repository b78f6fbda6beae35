"""Filters that Spark offers, as trees that partition values and statistics decide.

Nothing here decides about rows. Spark applies every filter again, so the only rule is never to drop what Spark would
keep: a filter that means something else to Arrow, or is about values that Spark does not see as stored, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import datasource as ds

from smalti.predicate.tree import And, Compare, IsIn, IsNull, MatchText, Not, Tree
from smalti.spark.types import is_exact
from smalti.table.partitions import partition_value

#: Filters of a column and a value, and Arrow's names for what they ask.
_OPERATORS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "equal",
    ds.LessThan: "less",
    ds.LessThanOrEqual: "less_equal",
    ds.GreaterThan: "greater",
    ds.GreaterThanOrEqual: "greater_equal",
    ds.StringStartsWith: "starts_with",
    ds.StringEndsWith: "ends_with",
    ds.StringContains: "match_substring",
}


def filter_tree(filters: Sequence[ds.Filter], types: Mapping[str, pa.DataType]) -> Tree | None:
    """The tree of a conjunction of filters, as far as it can be decided; None if nothing of it can.

    Parameters
    ----------
    filters : sequence of Filter
    types : mapping of column name to pyarrow.DataType
        The columns that can be asked, with the types in which their values are compared.

    Examples
    --------
    >>> filter_tree([ds.EqualTo(("day",), 3), ds.EqualTo(("other",), 4)], {"day": pa.int32()})
    Compare(column='day', op='equal', value=<pyarrow.Int64Scalar: 3>)
    """
    trees = [tree for filter_ in filters if (tree := _tree(filter_, types)) is not None]
    return reduce(And, trees) if trees else None


def _tree(filter_: ds.Filter, types: Mapping[str, pa.DataType]) -> Tree | None:
    if isinstance(filter_, ds.Not):
        child = _tree(filter_.child, types)
        return None if child is None else Not(child)
    column, *nested = getattr(filter_, "attribute", ("",))
    type_ = types.get(column)
    if nested or type_ is None or pt.is_nested(type_) or not is_exact(type_):
        return None
    try:
        return _condition(filter_, column, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # the value cannot be compared with the column here: Spark knows better


def _condition(filter_: ds.Filter, column: str, type_: pa.DataType) -> Tree | None:
    match filter_:
        case ds.IsNull() | ds.EqualNullSafe(value=None):
            return IsNull(column)
        case ds.IsNotNull():
            return Not(IsNull(column))
        case ds.EqualNullSafe(value=value):
            return And(Compare(column, "equal", _values([value], type_)[0]), Not(IsNull(column)))
        case ds.In(value=values):
            # A list with nulls says null, not false, of values it does not have. Taken as false, they are dropped
            # all the same, and `not` keeps them where Spark does not.
            return IsIn(column, _values([value for value in values if value is not None], type_))
        case ds.StringStartsWith(value=text) | ds.StringEndsWith(value=text) | ds.StringContains(value=text):
            return MatchText(column, _OPERATORS[type(filter_)], text) if pt.is_string(type_) else None
        case ds.GreaterThan() | ds.GreaterThanOrEqual() if pt.is_floating(type_):
            return None  # to Spark NaN is greater than anything, and bounds do not tell whether the column has it
    op = _OPERATORS.get(type(filter_))
    return None if op is None else Compare(column, op, _values([filter_.value], type_)[0])  # type: ignore[attr-defined]


def _values(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """Values of Spark's as they compare with a column; raises an error if they do not.

    Statistics do not know of NaN, and Spark does not push comparisons with null: neither is decided here.
    """
    if any(value is None or value != value for value in values):
        raise ValueError
    if pt.is_decimal(type_):
        return pa.array(values)
    if isinstance(type_, pa.TimestampType):
        type_ = pa.timestamp("us", type_.tz)
    wide = pa.int64() if pt.is_integer(type_) else pa.float64() if pt.is_floating(type_) else type_
    return pa.array(values, wide)


def comparable_values(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Partition values that filters can be decided on.

    Whole numbers, text, dates and booleans compare the same way in Arrow and in Spark; other types are left out.
    """
    fields = [schema.field(name) for name in partition if schema.get_field_index(name) >= 0]
    kinds = (pt.is_integer, pt.is_string, pt.is_date, pt.is_boolean)
    comparable = [field for field in fields if any(is_kind(field.type) for is_kind in kinds)]
    return {field.name: partition_value(partition, field) for field in comparable}
