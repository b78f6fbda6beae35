"""Filters that Spark offers, as trees that partition values and statistics decide.

Nothing here decides about rows. Spark applies every filter again, so the only rule is never to drop what Spark would
keep. A filter is left out if it means something else to Arrow, or if Spark sees other values than the stored ones, such
as microseconds for nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from smalti.errors import SchemaError
from smalti.predicate.evaluate import Filter, fit_values, match_mask
from smalti.predicate.tree import And, Compare, IsIn, IsNull, MatchString, Not, Or, Tree, check_depth, join
from smalti.spark.types import is_exact, parse_value, plain_type
from smalti.table.partitions import partition_value

#: A filter: Spark's name of it, then its column and values, or its children. `jvm/Filters.java` writes them.
SparkFilter = tuple[Any, ...]
#: Filters of a column and a value, and Arrow's names for what they ask.
_OPERATORS = {
    "=": "equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "STARTS_WITH": "starts_with",
    "ENDS_WITH": "ends_with",
    "CONTAINS": "match_substring",
}
#: Filters of filters.
_CONNECTIVES = ("AND", "OR", "NOT")


def parse_filters(written: Sequence[Any]) -> tuple[SparkFilter, ...]:
    """The filters that the provider has written.

    Examples
    --------
    >>> parse_filters([["<>", "price", {"decimal": "1.50"}]])
    (('NOT', ('=', 'price', Decimal('1.50'))),)
    >>> parse_filters([["OR", ["OR", ["IS_NULL", "a"], ["IS_NULL", "b"]], ["IS_NULL", "c"]]])
    (('OR', ('IS_NULL', 'a'), ('IS_NULL', 'b'), ('IS_NULL', 'c')),)
    """
    return tuple(_parse(filter_) for filter_ in written)


def _parse(filter_: Sequence[Any]) -> SparkFilter:
    name, *rest = filter_
    if name in ("AND", "OR"):  # Programs make chains of hundreds, each around the one before.
        parts, waiting = [], rest[::-1]
        while waiting:
            part = waiting.pop()
            if part[0] == name:
                waiting += part[:0:-1]
            else:
                parts.append(_parse(part))
        return (name, *parts)
    if name == "NOT":
        return (name, *map(_parse, rest))
    if name == "<>":
        return ("NOT", _parse(["=", *rest]))
    return (name, rest[0], *map(parse_value, rest[1:]))


def rename_in_filters(filters: Sequence[SparkFilter], names: Mapping[str, str]) -> list[SparkFilter]:
    """Filters on the columns of a file, whose names may be spelled otherwise.

    Examples
    --------
    >>> rename_in_filters([("NOT", ("=", "ID", 3))], {"ID": "id"})
    [('NOT', ('=', 'id', 3))]
    """
    return [
        (name, *rename_in_filters(rest, names))
        if name in _CONNECTIVES
        else (name, names.get(rest[0], rest[0]), *rest[1:])
        for name, *rest in filters
    ]


def without_not_null(filters: Sequence[SparkFilter]) -> list[SparkFilter]:
    """The filters that are worth applying to rows.

    Spark asks of every key of a join that it is not null, which rules out too few rows to be worth a filter.
    """
    return [each for each in filters if each[0] != "IS_NOT_NULL"]


def columns_of(filters: Sequence[SparkFilter]) -> set[str]:
    """The columns that filters are about.

    Examples
    --------
    >>> sorted(columns_of([("OR", ("IS_NULL", "a"), ("=", "b", 3))]))
    ['a', 'b']
    """
    found: set[str] = set()
    for name, *rest in filters:
        found |= columns_of(rest) if name in _CONNECTIVES else {rest[0]}
    return found


def filter_tree(filters: Sequence[SparkFilter], types: Mapping[str, pa.DataType]) -> Tree | None:
    """The tree of a conjunction of filters, as far as it can be decided; None if nothing of it can.

    `types` has the columns that can be asked, with the types in which their values are compared.

    Examples
    --------
    >>> filter_tree([("=", "day", 3), ("=", "other", 4)], {"day": pa.int32()})
    Compare(column='day', op='equal', value=<pyarrow.Int64Scalar: 3>)
    """
    trees = [tree for filter_ in filters if (tree := _tree(filter_, types)) is not None]
    try:
        return check_depth(join(And, trees)) if trees else None
    except SchemaError:
        return None


def _tree(filter_: SparkFilter, types: Mapping[str, pa.DataType], *, whole: bool = False) -> Tree | None:
    """The tree of one filter. Of an `And`, a part that cannot be decided is left out, unless it must be `whole`."""
    name, *rest = filter_
    if name == "NOT":  # The negation of a part of an And would drop matching rows, so the child has to be whole.
        child = _tree(rest[0], types, whole=True)
        return None if child is None else Not(child)
    if name in ("AND", "OR"):
        trees = [_tree(child, types, whole=whole) for child in rest]
        decided = [tree for tree in trees if tree is not None]
        if len(decided) < len(trees) and (name == "OR" or whole):
            return None
        return join(And if name == "AND" else Or, decided) if decided else None
    column = rest[0]
    type_ = None if column not in types else plain_type(types[column])
    if type_ is None or pt.is_nested(type_) or not is_exact(type_):
        return None
    try:
        condition = _condition(name, column, rest[1:], type_)
        if condition is not None:
            fit_values(Filter(condition), {column: type_})  # which raises an error if they cannot be compared
        return condition
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # the value cannot be compared with the column here: Spark knows better


def _condition(name: str, column: str, values: Sequence[Any], type_: pa.DataType) -> Tree | None:
    if name == "IS_NULL" or (name == "<=>" and values[0] is None):
        return IsNull(column)
    if name == "IS_NOT_NULL":
        return Not(IsNull(column))
    if name == "<=>":
        return And((Compare(column, "equal", _values(values, type_)[0]), Not(IsNull(column))))
    if name == "IN":
        # `x in (1, null)` is null, not false, for other values of x. Without the null it is false, and drops the same
        # rows. Below a `not` it keeps rows that Spark drops, which Spark does afterwards.
        given = _values([item for item in values if item is not None], type_)
        # To Spark 0.0 and -0.0 are equal, and to Arrow's "is in" they are not.
        has_zero = pt.is_floating(type_) and 0 in values
        return IsIn(column, pa.concat_arrays([given, pa.array([0.0, -0.0], given.type)]) if has_zero else given)
    if name in ("STARTS_WITH", "ENDS_WITH", "CONTAINS"):
        return MatchString(column, _OPERATORS[name], values[0]) if pt.is_string(type_) else None
    if name in (">", ">=") and pt.is_floating(type_):
        return None  # to Spark NaN is greater than anything, and bounds do not tell whether the column has it
    op = _OPERATORS.get(name)
    return None if op is None else Compare(column, op, _values(values, type_)[0])


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


def matching_partitions(
    partitions: Sequence[Mapping[str, str | None]], schema: pa.Schema, filters: Sequence[SparkFilter]
) -> list[bool] | None:
    """Whether filters let each partition through, as Spark would decide it of every row; None if that is not certain.

    Examples
    --------
    >>> days = [{"day": "1"}, {"day": "2"}, {"day": None}]
    >>> matching_partitions(days, pa.schema([("day", pa.int32())]), [("NOT", ("=", "day", 2))])
    [True, False, False]
    >>> matching_partitions(days, pa.schema([("day", pa.int32())]), [("=", "id", 2)]) is None
    True
    """
    names = columns_of(filters)
    if not names <= set(schema.names) or any(map(_has_null, filters)):
        return None
    fields = pa.schema([schema.field(name) for name in sorted(names)])
    trees = [_tree(filter_, {field.name: field.type for field in fields}, whole=True) for filter_ in filters]
    whole = [tree for tree in trees if tree is not None]
    values = [comparable_values(partition, fields) for partition in partitions]
    if len(whole) < len(trees) or any(set(each) != names for each in values):
        return None
    rows = [pa.array([each[field.name].as_py() for each in values], field.type) for field in fields]
    try:
        filter_ = fit_values(Filter(join(And, whole)), {field.name: field.type for field in fields})
        mask = match_mask(pa.record_batch(rows, schema=fields), filter_)
    except (pa.ArrowException, SchemaError, TypeError):  # Arrow cannot compare all that Spark can.
        return None
    return [bool(matches) for matches in mask.to_pylist()]


def _has_null(filter_: SparkFilter) -> bool:
    """Whether a filter has a list with nulls, which `_condition` takes for a list without."""
    name, *rest = filter_
    return any(map(_has_null, rest)) if name in _CONNECTIVES else name == "IN" and None in rest


def comparable_values(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Partition values that filters can be decided on.

    Whole numbers, text, dates, moments and booleans compare the same way in Arrow and in Spark; other types are left
    out.
    """
    fields = [schema.field(name) for name in partition if schema.get_field_index(name) >= 0]
    kinds = (pt.is_integer, pt.is_string, pt.is_date, pt.is_timestamp, pt.is_boolean)
    comparable = [field for field in fields if any(is_kind(field.type) for is_kind in kinds)]
    return {field.name: partition_value(partition, field) for field in comparable if _says_zone(partition, field)}


def _says_zone(partition: Mapping[str, str | None], field: pa.Field) -> bool:
    """Whether a moment can be told from the text; `fit_partitions` adds the zone of the session where it is missing."""
    text = partition[field.name]
    return not pt.is_timestamp(field.type) or field.type.tz is None or text is None or text.endswith("Z")
