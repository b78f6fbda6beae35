"""Filters Spark offers, as far as files can answer them: partition values exactly, row groups by statistics.

Nothing here decides about rows. Spark applies every filter again, so the only rule is never to drop what Spark would
keep. Spark and Arrow disagree about NaN (in Spark it is the largest value and equals itself), so floating-point
columns are asked less.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import datasource as ds

from smalti.spark.types import is_exact

#: Filters of one column and one value, and the comparison each stands for.
_COMPARISONS: dict[type[ds.Filter], Callable[[Any, Any], Any]] = {
    ds.EqualTo: operator.eq,
    ds.EqualNullSafe: operator.eq,
    ds.LessThan: operator.lt,
    ds.LessThanOrEqual: operator.le,
    ds.GreaterThan: operator.gt,
    ds.GreaterThanOrEqual: operator.ge,
}
_TEXT: dict[type[ds.Filter], Callable[[str, str], bool]] = {
    ds.StringStartsWith: str.startswith,
    ds.StringEndsWith: str.endswith,
    ds.StringContains: operator.contains,
}


def column_of(filter_: ds.Filter) -> str | None:
    """The top-level column a filter is about; None if there is no single one."""
    if isinstance(filter_, ds.Not):
        return column_of(filter_.child)
    attribute: tuple[str, ...] = getattr(filter_, "attribute", ())
    return attribute[0] if len(attribute) == 1 else None


# --- partition values -----------------------------------------------------------------------------------------------


def may_match(filters: Sequence[ds.Filter], partition: Mapping[str, Any]) -> bool:
    """Whether files of a partition can have rows that pass all filters; values as Python has them, None for null.

    Examples
    --------
    >>> may_match([ds.EqualTo(("day",), 3)], {"day": 4})
    False
    """
    return all(_may_be_true(filter_, partition) for filter_ in filters)


class _NoAnswer(Exception):
    """The partition's values do not decide it."""


def _may_be_true(filter_: ds.Filter, partition: Mapping[str, Any]) -> bool:
    try:
        return _truth(filter_, partition) is True
    except _NoAnswer:
        return True


def _truth(filter_: ds.Filter, partition: Mapping[str, Any]) -> bool | None:
    """What SQL says of a filter: true, false or null (None)."""
    if isinstance(filter_, ds.Not):
        inner = _truth(filter_.child, partition)
        return None if inner is None else not inner
    column = column_of(filter_)
    if column is None or column not in partition:
        raise _NoAnswer
    value = partition[column]
    if isinstance(filter_, ds.IsNull):
        return value is None
    if isinstance(filter_, ds.IsNotNull):
        return value is not None
    if isinstance(filter_, ds.EqualNullSafe):
        return bool(value == filter_.value)
    if value is None:
        return None
    if isinstance(filter_, ds.In):
        return value in filter_.value
    compare = _COMPARISONS.get(type(filter_)) or _TEXT.get(type(filter_))
    if compare is None:
        raise _NoAnswer
    try:
        return bool(compare(value, filter_.value))  # type: ignore[attr-defined]
    except TypeError:
        raise _NoAnswer from None  # values of different kinds: Spark knows better


# --- statistics -----------------------------------------------------------------------------------------------------


def statistics_filter(filters: Sequence[ds.Filter], stored: Mapping[str, pa.DataType]) -> Any:
    """The part of a conjunction that a file's statistics can answer, as a pyarrow expression; None if there is none.

    Parameters
    ----------
    filters : sequence of Filter
    stored : mapping of column name to pyarrow.DataType
        Columns of the file, as stored.
    """
    parts = [part for filter_ in filters if (part := _expression(filter_, stored)) is not None]
    return reduce(operator.and_, parts) if parts else None


def _expression(filter_: ds.Filter, stored: Mapping[str, pa.DataType]) -> Any:
    import pyarrow.compute as pc

    column = column_of(filter_)
    type_ = stored.get(column) if column is not None else None
    if type_ is None or pt.is_nested(type_) or not is_exact(type_):
        return None
    reference = pc.field(column)
    if isinstance(filter_, ds.IsNull):
        return reference.is_null()
    if isinstance(filter_, ds.IsNotNull):
        return reference.is_valid()
    if isinstance(filter_, ds.Not):
        inner = filter_.child
        if pt.is_floating(type_) or isinstance(inner, (ds.Not, ds.EqualNullSafe)):
            return None
        negated = _expression(inner, stored)
        return None if negated is None else ~negated
    if isinstance(filter_, ds.In):
        values = [_literal(value, type_) for value in filter_.value if value is not None]
        if not values or any(value is None for value in values):
            return None
        return reduce(operator.or_, [reference == value for value in values])
    if type(filter_) not in _COMPARISONS:
        return None
    if pt.is_floating(type_) and isinstance(filter_, (ds.GreaterThan, ds.GreaterThanOrEqual)):
        return None  # NaN passes these in Spark, and minimum and maximum do not show it
    literal = _literal(filter_.value, type_)  # type: ignore[attr-defined]
    return None if literal is None else _COMPARISONS[type(filter_)](reference, literal)


def _literal(value: Any, stored: pa.DataType) -> pa.Scalar | None:
    """A value of Spark's as a scalar that compares with the column; None if it does not."""
    if value is None or value != value:
        return None
    try:
        if pt.is_integer(stored):
            return pa.scalar(value, pa.int64())
        if pt.is_floating(stored):
            return pa.scalar(value, pa.float64())
        if pt.is_timestamp(stored):
            return pa.scalar(value, pa.timestamp("us", stored.tz))
        if pt.is_decimal(stored):
            return pa.scalar(value)
        return pa.scalar(value, stored)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
        return None
