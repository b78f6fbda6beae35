"""What a change makes of one file, by tables of cases; and rows that are found by keys, beside a dict."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.jobs.change_plan import (
    Action,
    check_new_names,
    check_renaming,
    plan_columns,
    plan_delete,
    plan_update,
)
from smalti.jobs.change_task import one_batch
from smalti.jobs.keys import KeyIndex, fit_keys
from smalti.predicate import Outcome
from tests.support.long import repeated

OLD = pa.schema([("a", pa.int8()), ("b", pa.string()), ("c", pa.int8())])
NONE, SOME, ALL = Outcome.NONE, Outcome.SOME, Outcome.ALL


@pytest.mark.parametrize(
    ("change", "names", "copied", "encoded"),
    [
        ({}, "abc", {"a": "a", "b": "b", "c": "c"}, ()),
        ({"drop": ["b"]}, "ac", {"a": "a", "c": "c"}, ()),
        ({"drop": ["x"]}, "abc", {"a": "a", "b": "b", "c": "c"}, ()),  # the file never had it
        ({"rename": {"a": "x"}}, "xbc", {"x": "a", "b": "b", "c": "c"}, ()),
        ({"rename": {"a": "b", "b": "a"}}, "bac", {"b": "a", "a": "b", "c": "c"}, ()),
        ({"first": ["c", "x", "a"]}, "cab", {"c": "c", "a": "a", "b": "b"}, ()),
        ({"fields": [pa.field("n", pa.int8())]}, "abcn", {"a": "a", "b": "b", "c": "c"}, ("n",)),
        (
            {"fields": [pa.field("b", pa.int8())]},
            "abc",
            {"a": "a", "c": "c"},
            ("b",),
        ),  # with another type, in its place
    ],
)
def test_columns(change: dict[str, Any], names: str, copied: dict[str, str], encoded: tuple[str, ...]) -> None:
    plan = plan_columns(OLD, **change)
    assert (plan.schema.names, plan.copied, plan.encoded) == (list(names), copied, encoded)
    assert list(plan.copied) == [name for name in names if name not in encoded]
    assert plan.is_same(OLD) is (names == "abc" and not encoded and list(copied.values()) == list("abc"))
    for new, old in copied.items():
        assert plan.schema.field(new).type == OLD.field(old).type


def test_a_file_keeps_a_column() -> None:
    with pytest.raises(smalti.MosaicError, match="all of its columns would go"):
        plan_columns(OLD, drop=["a", "b", "c"])


@pytest.mark.parametrize(
    ("renamed", "is_right"),
    [
        ({"a": "x"}, True),
        ({"a": "b", "b": "a"}, True),
        ({"a": "b", "b": "c", "c": "a"}, True),
        ({"a": "b"}, False),
        ({"a": "x", "b": "x"}, False),
    ],
)
def test_new_names(renamed: dict[str, str], is_right: bool) -> None:
    if is_right:
        check_renaming(renamed, OLD.names)
    else:
        with pytest.raises(smalti.MosaicError, match="same name"):
            check_renaming(renamed, OLD.names)


def test_names_of_new_columns() -> None:
    check_new_names(["x", "y"], OLD.names, ["p"])
    for names, message in ((["a"], "replace=True"), (["x", "x"], "same name"), (["p"], "partition column")):
        with pytest.raises(smalti.MosaicError, match=message):
            check_new_names(names, OLD.names, ["p"])


@pytest.mark.parametrize(
    ("outcomes", "deleted", "updated", "retyped"),
    [
        ([], [], [], []),
        ([NONE], [Action.COPY], [Action.COPY], [Action.ENCODE]),
        ([SOME], [Action.FILTER], [Action.ENCODE], [Action.ENCODE]),
        ([ALL], [Action.DROP], [Action.ENCODE], [Action.ENCODE]),
    ],
)
def test_row_groups(
    outcomes: list[Outcome], deleted: list[Action], updated: list[Action], retyped: list[Action]
) -> None:
    assert plan_delete(outcomes) == deleted
    assert plan_update(outcomes, plan_columns(OLD)) == updated
    assert plan_update(outcomes, plan_columns(OLD, fields=[pa.field("b", pa.int8())])) == retyped


@pytest.mark.parametrize("seed", range(repeated(40)))
def test_rows_are_found_by_keys(seed: int) -> None:
    choose = random.Random(seed)
    kinds = [(pa.int64(), range(5)), (pa.string(), ["a", "b", "", "é"]), (pa.float64(), [0.0, -0.0, 1.5])]
    columns = choose.sample(kinds, choose.randrange(1, 4))
    schema = pa.schema([(f"k{place}", type_) for place, (type_, _) in enumerate(columns)])

    def keys(count: int) -> list[tuple[Any, ...]]:
        return [
            tuple(None if choose.random() < 0.1 else choose.choice(list(values)) for _, values in columns)
            for _ in range(count)
        ]

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        by_column = [[row[place] for row in rows] for place in range(len(columns))]
        arrays = [pa.array(values, field.type) for values, field in zip(by_column, schema, strict=True)]
        return fit_keys(pa.table(arrays, schema=schema), schema)

    right = [row for row in dict.fromkeys(keys(12)) if None in row or row]
    rows = {row: number for number, row in enumerate(right) if None not in row}
    left = keys(40)
    index = KeyIndex(table(right))
    index.refuse_duplicate()
    assert index.find(table(left)).to_pylist() == [None if None in row else rows.get(row) for row in left]
    assert index.null_keys == len(right) - len(rows)
    if rows:
        with pytest.raises(smalti.MosaicError, match="several rows with the same key"):
            KeyIndex(table([*right, next(iter(rows))])).refuse_duplicate()


def test_rows_of_a_table_without_rows_are_one_batch() -> None:
    table = pa.table({"a": pa.array([], pa.int8()), "b": pa.array([], pa.string())})
    assert one_batch(table) == pa.RecordBatch.from_pylist([], table.schema)
