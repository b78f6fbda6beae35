"""Filters that compare two columns, or compute with one: the rows that exact arithmetic, or Arrow itself, keeps."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti.logical.types import storage_kind
from smalti.predicate.tree import OPERATORS
from tests.predicate.test_exact_filters import DURATIONS, MOMENTS, NUMBERS, TIMES, ZONED, cell, says
from tests.support.files import read, written
from tests.support.older_arrow import array_of
from tests.support.strategies import examples

FAMILIES = [[type_ for type_ in family if not pt.is_run_end_encoded(type_)] for family in (NUMBERS, MOMENTS, ZONED)]
FAMILIES += [[type_ for type_ in family if not pt.is_run_end_encoded(type_)] for family in (TIMES, DURATIONS)]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[tuple[Any, Any]]], int]:
    """Two types that compare, cells of both, and rows of a row group."""
    family = draw(st.sampled_from(FAMILIES))
    types = [draw(st.sampled_from(family)) for _ in range(2)]
    rows = draw(st.integers(1, 6))
    cells = [[draw(cell(storage_kind(type_))) for _ in range(rows)] for type_ in types]
    return types, cells, draw(st.sampled_from([1, 100]))


@examples(150)
@given(pairs())
def test_two_columns_of_any_types(case: tuple[list[pa.DataType], list[list[tuple[Any, Any]]], int]) -> None:
    types, cells, group = case
    columns = [array_of([value for value, _ in each], type_) for each, type_ in zip(cells, types, strict=True)]
    table = pa.table({"a": columns[0], "b": columns[1], "row": range(len(columns[0]))})
    for stats in ("all", ()):
        with smalti.open(written(table, row_group_max_rows=group, stats_columns=stats)) as file:
            for op, name in OPERATORS.items():
                try:
                    found = file.read(["row"], getattr(pc, name)(pc.field("a"), pc.field("b")))["row"].to_pylist()
                except smalti.SchemaError:
                    if any(pt.is_decimal(storage_kind(type_)) for type_ in types):
                        continue  # Arrow has no decimals that hold both, and says so before anything is read.
                    raise
                answers = [says(op.replace("==", "="), one, [two]) for (_, one), (_, two) in zip(*cells, strict=True)]
                assert found == [row for row, answer in enumerate(answers) if answer], (op, stats)


def computed(column: pc.Expression) -> dict[str, Callable[[], pc.Expression]]:
    """Computations whose results depend on the type of a column, not only on what its values mean."""
    return {
        "int64": lambda: column.cast(pa.int64()) < pc.scalar(100),
        "int32": lambda: column.cast(pa.int32()) < pc.scalar(100),
        "text": lambda: pc.utf8_length(column.cast(pa.string())) <= pc.scalar(8),
        "short text": lambda: pc.utf8_length(column.cast(pa.string())) <= pc.scalar(19),
        "not": lambda: pc.bit_wise_not(column) > pc.scalar(100),
        "half": lambda: pc.divide(column, pc.scalar(2)) == pc.scalar(1),
        "odd": lambda: pc.bit_wise_and(column, pc.scalar(1)) == pc.scalar(1),
        "more": lambda: pc.add_checked(column, pc.scalar(1)) > pc.scalar(4),
        "chosen": lambda: pc.if_else(pc.field("row") > pc.scalar(0), column, pc.scalar(0)) > pc.scalar(2),
        "left": lambda: pc.shift_left(column, pc.scalar(7)) < pc.scalar(200),
    }


COMPUTED_TYPES: list[Any] = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
    *(pa.time64("ns"), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.timestamp("s", "UTC")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]


@pytest.mark.parametrize("type_", COMPUTED_TYPES, ids=str)
@pytest.mark.parametrize("wrap", ["plain", "dictionary", "struct"])
def test_computing_with_a_column_is_computing_with_its_own_type(type_: Any, wrap: str) -> None:
    """A column of `timestamp[s]` is stored in milliseconds: as a number it must still be one of seconds."""
    ticks = [2, 3, 5000] if not pt.is_integer(type_) or type_.bit_width > 8 else [2, 3, 5]
    ticks = [day * 86_400_000 for day in ticks] if pt.is_date64(type_) else ticks
    plain = pa.array(ticks, pa.int32() if type_.bit_width == 32 and pt.is_temporal(type_) else pa.int64()).cast(type_)
    column, path = plain, pc.field("x")
    if wrap == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), plain)  # type: ignore[assignment]
    elif wrap == "struct":
        column, path = pa.StructArray.from_arrays([plain], ["y"]), pc.field("x", "y")  # type: ignore[assignment]
    flat = pa.table({"x": plain, "row": range(3)})
    data = written(pa.table({"x": column, "row": range(3)}))
    tried = 0
    for name, say in computed(path).items():
        try:
            expected = flat.filter(computed(pc.field("x"))[name]())["row"].to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        with smalti.open(data) as file:
            assert file.read(["row"], say())["row"].to_pylist() == expected, name
        tried += 1
    assert tried


def test_a_computation_that_has_no_answer_is_an_error_of_smalti() -> None:
    """Arrow casts the column to the unit of the literal, in which its values are out of range. Comparisons are ours."""
    ticks: Any = pa.array([-(1 << 63), (1 << 63) - 1, 5], pa.int64()).view(pa.duration("s"))
    data, four = written(pa.table({"x": ticks})), datetime.timedelta(seconds=4)
    assert read(data, filters=pc.field("x") > four)["x"].cast(pa.int64()).to_pylist() == [(1 << 63) - 1, 5]
    with pytest.raises(smalti.SchemaError, match=r"cannot compute a filter on 'x' .* out of bounds"):
        read(data, filters=pc.negate(pc.field("x")) > four)


_TAGS = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))
LISTS: Any = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "tags": pa.array([[None], [{"x": 1, "y": "a"}], [{"x": None, "y": "b"}], [], None], _TAGS),
        "bytes": pa.array([[255], [0, 1], [None], [], None], pa.list_(pa.uint8())),
        "times": pa.array([[2000], [1000, 1], [None], [], None], pa.list_(pa.duration("ms"))),
        "user": pa.array(
            [{"tags": [{"x": 1, "y": "a"}]}, {"tags": [None]}, {"tags": None}, None, {"tags": []}],
            pa.struct([("tags", _TAGS)]),
        ),
        "map": pa.array(
            [[("k", {"x": 1})], [("k", None)], [], None, [("l", {"x": 2})]],
            pa.map_(pa.string(), pa.struct([("x", pa.int64())])),
        ),
    }
)


@pytest.mark.parametrize(
    "expression",
    [
        pc.list_value_length(pc.field("tags")) == 1,
        pc.field("tags").is_null(),
        pc.list_element(pc.field("tags"), 0).is_null(),
        (pc.bit_wise_not(pc.list_element(pc.field("bytes"), 0)) == 0),
        pc.list_element(pc.field("times"), 0) > pa.scalar(1500, pa.duration("ms")),
        pc.field("user", "tags").is_null(),
        pc.list_value_length(pc.field("user", "tags")) == 1,
        pc.field("map").is_valid(),
    ],
    ids=str,
)
def test_expressions_over_lists_see_the_values_that_were_given(expression: pc.Expression, tmp_path: Path) -> None:
    """A list of structs is stored as several columns, and a list of other types as one of another type."""
    safe = LISTS.slice(0, 3) if "list_element" in str(expression) else LISTS  # Arrow refuses lists that are too short.
    expected = safe.filter(expression)["id"].to_pylist()
    smalti.write_table(safe, tmp_path / "a.mosaic")
    with smalti.open(tmp_path / "a.mosaic") as file:
        assert file.read(["id"], filters=expression)["id"].to_pylist() == expected
        assert file.read(filters=expression).equals(safe.filter(expression))
    assert smalti.dataset(tmp_path).to_table(["id"], expression)["id"].to_pylist() == expected
