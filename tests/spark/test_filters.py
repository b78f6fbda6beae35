"""Filters that Spark offers: nothing that Spark would keep may be skipped. No session needed."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smalti
from smalti.predicate import prune_partitions
from smalti.spark.filters import SparkFilter, filter_tree, parse_filters
from tests.support.files import written

NAN = float("nan")

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
    pa.timestamp("ms", "UTC"): [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
    pa.timestamp("ns"): [dt.datetime(2024, 1, 1, 0, 0, 0, 1)],
}
#: Partition values of these types are decided.
DECIDED = (pa.int8(), pa.int64(), pa.string(), pa.bool_(), pa.date32())
COMPARISONS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXT: dict[str, Callable[[str, str], bool]] = {
    "STARTS_WITH": str.startswith,
    "ENDS_WITH": str.endswith,
    "CONTAINS": operator.contains,
}


def ordered(value: Any) -> Any:
    """A value by which Spark compares: NaN equals itself and is greater than anything."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def spark_says(filter_: SparkFilter, value: Any) -> bool | None:
    kind, *rest = filter_
    if kind in ("AND", "OR", "NOT"):
        said = [spark_says(child, value) for child in rest]
        if kind == "NOT":
            return None if said[0] is None else not said[0]
        decisive = kind == "OR"
        return decisive if decisive in said else None if None in said else not decisive
    if kind in ("IS_NULL", "IS_NOT_NULL"):
        return (value is None) is (kind == "IS_NULL")
    asked_for = rest[1:] if kind == "IN" else rest[1]
    if kind == "<=>":
        return bool(ordered(value) == ordered(asked_for))
    if value is None:
        return None
    if kind == "IN":
        found = ordered(value) in [ordered(each) for each in asked_for]
        return found or (None if None in asked_for else False)
    if kind in TEXT:
        return TEXT[kind](value, asked_for)
    return bool(COMPARISONS[kind](ordered(value), ordered(asked_for)))


@st.composite
def condition(draw: st.DrawFn, type_: pa.DataType) -> SparkFilter:
    literals = st.sampled_from(POOLS[type_])
    kinds = [*COMPARISONS, "<=>", "IN", "IS_NULL", "IS_NOT_NULL"]
    kind = draw(st.sampled_from([*kinds, *(TEXT if type_ == pa.string() else ())]))
    if kind in ("IS_NULL", "IS_NOT_NULL"):
        return (kind, "a")
    if kind == "IN":
        return (kind, "a", *draw(st.lists(st.none() | literals, max_size=3)))
    return (kind, "a", draw(st.none() | literals if kind == "<=>" else literals))


def asked(type_: pa.DataType) -> st.SearchStrategy[SparkFilter]:
    """Conditions, and what `And`, `Or` and `Not` make of them."""
    return st.recursive(
        condition(type_),
        lambda children: (
            st.tuples(st.just("NOT"), children) | st.tuples(st.sampled_from(["AND", "OR"]), children, children)
        ),
        max_leaves=4,
    )


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[SparkFilter]]:
    type_ = draw(st.sampled_from(list(POOLS)))
    values = draw(st.lists(st.none() | st.sampled_from(POOLS[type_]), max_size=10))
    return type_, values, draw(st.lists(asked(type_), min_size=1, max_size=2))


@settings(max_examples=400)
@given(columns(), st.integers(1, 4))
def test_row_groups_that_spark_needs_are_kept(
    case: tuple[pa.DataType, list[Any], list[SparkFilter]], group: int
) -> None:
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
def test_rows_that_spark_needs_are_kept(case: tuple[pa.DataType, list[Any], list[SparkFilter]]) -> None:
    """Tasks leave out rows that filters rule out, by Arrow's comparisons; Spark's must not want them."""
    type_, values, filters = case
    tree = filter_tree(filters, {"a": type_})
    if tree is None:
        return
    table = pa.table({"a": pa.array(values, type_), "n": pa.array(range(len(values)), pa.int32())})
    with smalti.open(written(table)) as file:
        kept = set(file.read(columns=["n"], filters=tree)["n"].to_pylist())
    assert {at for at, value in enumerate(values) if all(spark_says(f, value) for f in filters)} <= kept


@settings(max_examples=400)
@given(columns())
def test_partitions_are_decided(case: tuple[pa.DataType, list[Any], list[SparkFilter]]) -> None:
    """Exactly, but for lists with nulls, of which more may be kept."""
    type_, values, filters = case
    if type_ not in DECIDED:
        return
    tree = filter_tree(filters, {"a": type_})
    assert tree is not None
    kept = prune_partitions(tree, [{"a": pa.scalar(value, type_)} for value in values])
    wanted = [all(spark_says(f, value) for f in filters) for value in values]
    if "None" in repr([f for f in filters if "'IN'" in repr(f)]):
        assert [may and want for may, want in zip(kept, wanted, strict=True)] == wanted
    else:
        assert kept == wanted


def test_what_cannot_be_decided_is_left_out() -> None:
    """A filter of a column that is not there: dropped from an `And`, but not below a `Not`, nor from an `Or`."""
    known, other = ("=", "a", 1), ("=", "b", 2)
    types = {"a": pa.int64()}
    assert filter_tree([("AND", known, other)], types) == filter_tree([known], types)
    assert filter_tree([("OR", known, other)], types) is None
    assert filter_tree([("NOT", ("AND", known, other))], types) is None
    assert filter_tree([("NOT", ("OR", known, other))], types) is None


def test_values_that_json_has_no_place_for() -> None:
    ((_, _, *values),) = parse_filters(
        [["IN", "a", {"decimal": "1.50"}, {"binary": "AA=="}, {"double": "-Infinity"}, None]]
    )
    assert values == [Decimal("1.50"), b"\0", -math.inf, None]


@pytest.mark.parametrize("days", [-2_545_738, -719_529, 2_932_897, 13_890_172])
def test_days_and_moments_that_python_cannot_hold(days: int) -> None:
    """The years -5000, 0, 10000 and 40000: row groups and rows are chosen as for any other year."""
    for type_, ticks in ((pa.date32(), 1), (pa.timestamp("us", "UTC"), 86_400_000_000)):
        given = pa.array([(days + i) * ticks for i in range(4)]).cast(pa.int32() if ticks == 1 else pa.int64())
        blob = written(pa.table({"a": given.cast(type_)}), row_group_max_rows=2)
        tree = filter_tree(parse_filters([[">", "a", (days + 1) * ticks]]), {"a": type_})
        with smalti.open(blob) as file:
            assert tree is not None
            assert list(file.matching_row_groups(tree)) == [1]
            assert file.read(filters=tree)["a"].chunk(0).equals(given.cast(type_)[2:])


def test_hundreds_of_alternatives() -> None:
    """Each is around the one before, deeper than a tree may be; of one column they are a list."""
    written_: list[Any] = ["=", "a", 0]
    for i in range(600):
        written_ = ["OR", written_, ["<" if i % 2 else "=", "a", -i]]
    tree = filter_tree(parse_filters([written_]), {"a": pa.int32()})
    assert tree is not None
    with smalti.open(written(pa.table({"a": pa.array([1, 0, -2, -700], pa.int32())}))) as file:
        assert file.read(filters=tree)["a"].to_pylist() == [0, -2, -700]
