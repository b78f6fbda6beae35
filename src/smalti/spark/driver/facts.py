"""What the index of each file tells about a table before a row is read: how many rows there are, and their bounds.

Filters rule out row groups of all files in one step, and `count`, `min` and `max` are answered without a task.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt

from smalti.spark.filters import SparkFilter, columns_of, comparable_values, filter_tree
from smalti.spark.types import is_exact
from smalti.table import planning
from smalti.table.listing import FoundFile
from smalti.table.partitions import partition_value
from smalti.table.snapshot import FileFacts

#: The types whose least and greatest values are the bounds in the index.
_BOUNDED = (pt.is_integer, pt.is_string, pt.is_date, pt.is_timestamp, pt.is_boolean, pt.is_decimal)


def sorted_columns(facts: Sequence[FileFacts]) -> set[str]:
    """The columns whose bounds do not overlap in any two of several row groups, so that a value is in few of them."""
    groups = [group for known in facts for group in known.statistics]
    names = set.intersection(*(set(group) for group in groups)) if len(groups) > 1 else set()
    return {name for name in names if _are_apart([(group[name].min, group[name].max) for group in groups])}


def _are_apart(bounds: Sequence[tuple[Any, Any]]) -> bool:
    if any(least is None or most is None for least, most in bounds):
        return False
    try:
        ordered = sorted(bounds)
    except TypeError:
        return False
    return all(before[1] <= after[0] for before, after in pairwise(ordered))


def matching_row_groups(
    files: Sequence[FoundFile], facts: Mapping[str, FileFacts], schema: pa.Schema, filters: Sequence[SparkFilter]
) -> dict[str, list[int] | None]:
    """`smalti.table.planning.matching_row_groups` for Spark's filters, in the types of the schema that it asks for."""
    types = {}
    for name in columns_of(filters) & set(schema.names):
        type_ = schema.field(name).type
        is_stored_exactly = all(is_exact(known.types[name]) for known in facts.values() if name in known.types)
        kinds = (pt.is_date, pt.is_primitive, pt.is_string, pt.is_decimal)
        if is_stored_exactly and any(is_kind(type_) for is_kind in kinds):
            types[name] = type_
    values = {file.path: comparable_values(file.partition, schema) for file in files}
    return planning.matching_row_groups(files, facts, values, types, partial(filter_tree, filters))


# --- aggregates -----------------------------------------------------------------------------------------------------


def aggregate(
    files: Sequence[FoundFile],
    facts: Mapping[str, FileFacts],
    schema: pa.Schema,
    functions: Sequence[Sequence[str]],
    groups: Sequence[str] = (),
) -> list[list[object]] | None:
    """The values of `["count"]`, `["count", column]`, `["min", column]` and `["max", column]`.

    There is one row, or one for each combination of values of the partition columns `groups` that has rows, with these
    values first. None if the index does not answer one of the functions. It does not answer least and greatest values
    of floating-point columns, because bounds leave NaN out.
    """
    if any(file.path not in facts for file in files):
        return None
    members: dict[tuple[Any, ...], list[FoundFile]] = {} if groups else {(): list(files)}
    for file in files if groups else ():
        if any(facts[file.path].rows):
            key = tuple(partition_value(file.partition, schema.field(name)).as_py() for name in groups)
            if any(value != value for value in key):
                return None  # NaN equals itself to Spark, and not to Python
            members.setdefault(key, []).append(file)
    answered = []
    for key, group in members.items():
        values = [_aggregate(group, facts, schema, *function) for function in functions]
        if None in values:
            return None
        answered.append([*key, *(value[0] for value in values if value is not None)])
    return answered


def _aggregate(
    files: Sequence[FoundFile], facts: Mapping[str, FileFacts], schema: pa.Schema, function: str, column: str = ""
) -> tuple[object] | None:
    """The value of one function; None if the index does not tell."""
    if not column:
        return (sum(sum(facts[file.path].rows) for file in files),)
    field = schema.field(column)
    if function != "count" and not any(is_kind(field.type) for is_kind in _BOUNDED):
        return None
    count, bounds = 0, []
    for file in files:
        known = facts[file.path]
        for rows, statistics in zip(known.rows, known.statistics, strict=True):
            if column in file.partition:
                value = partition_value(file.partition, field).as_py()
                nulls, low, high = (rows if value is None else 0), value, value
            else:
                found = statistics.get(column)
                if found is None and not rows:
                    continue
                if found is None or known.types[column] != field.type:
                    return None
                nulls, low, high = found.null_count, found.min, found.max
            count += rows - nulls
            if rows > nulls:
                if function != "count" and low is None:
                    return None
                bounds.append(low if function == "min" else high)
    if function == "count":
        return (count,)
    return ((min(bounds) if function == "min" else max(bounds)) if bounds else None,)


def column_statistics(
    files: Sequence[FoundFile], facts: Mapping[str, FileFacts], schema: pa.Schema
) -> dict[str, dict[str, object]]:
    """Nulls, bounds and an estimate of how many values are distinct, for columns of which the index has all.

    The optimizer uses them only together. Whole numbers and days are assumed to be spread evenly between their bounds;
    the values of a partition column are counted.
    """
    found = {}
    for field in schema:
        functions = [["count"], ["count", field.name], ["min", field.name], ["max", field.name]]
        rows = aggregate(files, facts, schema, functions)
        if rows is None:
            continue
        total, count, least, most = cast("list[Any]", rows[0])
        statistics: dict[str, object] = {"nulls": total - count, "min": to_json(least), "max": to_json(most)}
        if files and field.name in files[0].partition:
            statistics["distinct"] = len({file.partition[field.name] for file in files} - {None})
        elif pt.is_integer(field.type) or pt.is_date(field.type):
            width = most - least if count else 0
            statistics["distinct"] = min(count, getattr(width, "days", width) + 1)
        found[field.name] = statistics
    return found


def to_json(value: Any) -> object:
    """A value as JSON has it. Days, moments, decimals, NaN and infinities become texts that Spark's casts read."""
    if isinstance(value, dt.date):  # or a moment
        return value.isoformat()
    is_text = isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if is_text else value
