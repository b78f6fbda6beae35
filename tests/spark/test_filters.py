"""Filters that Spark offers: nothing that Spark would keep may be skipped. No session needed."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as ds

import smalti
from smalti.predicate import prune_partitions
from smalti.spark.filters import filter_tree
from tests.files import written

NAN = float("nan")
A = ("a",)

#: Types of columns, and values that Spark sees in them.
POOLS: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 1, 5],
    pa.int64(): [-(2**63), 0, 1, 2**63 - 1],
    pa.float32(): [NAN, -0.0, 0.0, 1.5, math.inf],
    pa.float64(): [NAN, -math.inf, -0.0, 0.0, 0.1],
    pa.string(): ["", "a", "ab", "ba", "é", "😀"],
    pa.binary(): [b"", b"a", b"ab"],
    pa.bool_(): [True, False],
    pa.date32(): [dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    pa.decimal128(5, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")],
    pa.timestamp("us"): [dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 1, 1, 0, 0, 0, 1)],
    pa.timestamp("ms", "UTC"): [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)],
    pa.timestamp("ns"): [dt.datetime(2024, 1, 1, 0, 0, 0, 1)],
}
#: Partition values of these types are decided.
DECIDED = (pa.int8(), pa.int64(), pa.string(), pa.bool_(), pa.date32())
COMPARISONS = {
    ds.EqualTo: operator.eq,
    ds.LessThan: operator.lt,
    ds.LessThanOrEqual: operator.le,
    ds.GreaterThan: operator.gt,
    ds.GreaterThanOrEqual: operator.ge,
}
TEXT: dict[Any, Callable[[str, str], bool]] = {
    ds.StringStartsWith: str.startswith,
    ds.StringEndsWith: str.endswith,
    ds.StringContains: operator.contains,
}


def ordered(value: Any) -> Any:
    """A value by which Spark compares: NaN equals itself and is greater than anything."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def spark_says(filter_: Any, value: Any) -> bool | None:
    if isinstance(filter_, ds.Not):
        inner = spark_says(filter_.child, value)
        return None if inner is None else not inner
    if isinstance(filter_, (ds.IsNull, ds.IsNotNull)):
        return (value is None) is isinstance(filter_, ds.IsNull)
    if isinstance(filter_, ds.EqualNullSafe):
        return bool(ordered(value) == ordered(filter_.value))
    if value is None:
        return None
    if isinstance(filter_, ds.In):
        found = ordered(value) in [ordered(each) for each in filter_.value]
        return found or (None if None in filter_.value else False)
    if type(filter_) in TEXT:
        return TEXT[type(filter_)](value, filter_.value)
    return bool(COMPARISONS[type(filter_)](ordered(value), ordered(filter_.value)))


@st.composite
def asked(draw: st.DrawFn, type_: pa.DataType) -> ds.Filter:
    literals = st.sampled_from(POOLS[type_])
    kinds: list[Any] = [*COMPARISONS, ds.EqualNullSafe, ds.In, ds.IsNull, ds.IsNotNull]
    kind = draw(st.sampled_from([*kinds, *(TEXT if type_ == pa.string() else ())]))
    filter_: ds.Filter
    if kind in (ds.IsNull, ds.IsNotNull):
        filter_ = kind(A)
    elif kind is ds.In:
        filter_ = ds.In(A, tuple(draw(st.lists(st.none() | literals, max_size=3))))
    else:
        filter_ = kind(A, draw(st.none() | literals if kind is ds.EqualNullSafe else literals))
    for _ in range(draw(st.integers(0, 2))):
        filter_ = ds.Not(filter_)
    return filter_


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[ds.Filter]]:
    type_ = draw(st.sampled_from(list(POOLS)))
    values = draw(st.lists(st.none() | st.sampled_from(POOLS[type_]), max_size=10))
    return type_, values, draw(st.lists(asked(type_), min_size=1, max_size=2))


@settings(max_examples=400)
@given(columns(), st.integers(1, 4))
def test_row_groups_that_spark_needs_are_kept(case: tuple[pa.DataType, list[Any], list[ds.Filter]], group: int) -> None:
    type_, values, filters = case
    tree = filter_tree(filters, {"a": type_})
    if tree is None:
        return
    wanted = {at // group for at, value in enumerate(values) if all(spark_says(f, value) for f in filters)}
    stats: Any = [] if type_ == pa.binary() else ["a"]
    blob = written(pa.table({"a": pa.array(values, type_)}), row_group_max_rows=group, stats_columns=stats)
    with smalti.open(blob) as file:
        assert wanted <= set(file.matching_row_groups(tree))


@settings(max_examples=400)
@given(columns())
def test_partitions_are_decided(case: tuple[pa.DataType, list[Any], list[ds.Filter]]) -> None:
    """Exactly, but for lists with nulls, of which more may be kept."""
    type_, values, filters = case
    if type_ not in DECIDED:
        return
    tree = filter_tree(filters, {"a": type_})
    assert tree is not None
    kept = prune_partitions(tree, [{"a": pa.scalar(value, type_)} for value in values])
    wanted = [all(spark_says(f, value) for f in filters) for value in values]
    if "None" in repr([f for f in filters if "In(" in repr(f)]):
        assert [may and want for may, want in zip(kept, wanted, strict=True)] == wanted
    else:
        assert kept == wanted
