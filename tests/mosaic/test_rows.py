"""Rows by their number: what may be asked for, and which row groups hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.errors import MosaicError, NoSuchRowError
from smalti.mosaic.rows import Taken, parse_indices, parse_rows, split_rows
from tests.support.strategies import examples


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([], []),
        (range(0), []),
        (range(9, -1, -3), [9, 6, 3, 0]),
        (np.array([1, -10], np.int8), [1, 0]),
        (np.array([3.0]), [3]),
        (pa.chunked_array([[1], [2, 2]]), [1, 2, 2]),
        (pa.array([9], pa.uint64()), [9]),
        ((-1, 0), [9, 0]),
    ],
)
def test_indices_of_any_kind(indices: Any, expected: list[int]) -> None:
    assert parse_indices(indices, 10).to_pylist() == expected


@pytest.mark.parametrize(
    ("indices", "found"),
    [
        ([10], "found 10, expected -10 to 9"),
        ([-11], "found -11, expected -10 to 9"),
        (range(5, 12), "found 11, expected -10 to 9"),
        ([1 << 70], "more than 64 bits"),
        (pa.array([1 << 63], pa.uint64()), "found 9223372036854775808"),
        ([float("inf")], "found inf"),
    ],
)
def test_rows_that_do_not_exist(indices: Any, found: str) -> None:
    with pytest.raises(NoSuchRowError, match="there is no such row") as raised:
        parse_indices(indices, 10)
    assert found in str(raised.value)
    assert isinstance(raised.value, IndexError)


@pytest.mark.parametrize(
    ("indices", "found"),
    [
        ([1.5], "1.5"),
        ([float("nan")], "nan"),
        (["1"], "string values"),
        ([True], "bool values"),
        ([0, None], "a null"),
        ([[1]], "list<"),
        (3, "3"),
        ("12", "12"),
        ({1: 2}, "{1: 2}"),
        ([1, "a"], "str"),
    ],
)
def test_what_is_no_number(indices: Any, found: str) -> None:
    with pytest.raises(MosaicError, match="rows are chosen by their numbers: found") as raised:
        parse_indices(indices, 10)
    assert found in str(raised.value)
    assert "expected whole numbers" in str(raised.value)


def test_no_rows() -> None:
    assert parse_indices([], 0).to_pylist() == []
    with pytest.raises(NoSuchRowError, match="expected none, because there are no rows"):
        parse_indices([0], 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (slice(None), range(10)),
        (slice(-3, None), range(7, 10)),
        (slice(8, 99), range(8, 10)),
        (slice(5, 2), range(0)),
        (slice(1, 9, 4), range(1, 9, 4)),
        (range(2, 5), range(2, 5)),
        (range(-3, 0), range(7, 10)),
        (range(99, 99), range(0)),
    ],
)
def test_spans(rows: Any, expected: range) -> None:
    assert parse_rows(rows, 10) == expected


@pytest.mark.parametrize("rows", [range(5, 11), range(-3, 2), range(-11, -9), range(10, 11)])
def test_spans_outside(rows: range) -> None:
    with pytest.raises(NoSuchRowError, match="there is no such row"):
        parse_rows(rows, 10)


@pytest.mark.parametrize("rows", [slice(None, None, -1), range(5, 2, -1), [1, 2], 3, slice("a", "b")])
def test_what_is_no_span(rows: Any) -> None:
    with pytest.raises(MosaicError, match="rows are"):
        parse_rows(rows, 10)


@examples(60)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    picks=st.lists(st.integers(0, 10**6), max_size=30),
    span=st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 4)),
)
def test_every_row_is_found_once(sizes: list[int], picks: list[int], span: tuple[int, int, int]) -> None:
    """Rows are read in ascending order, each once, by parts; the order of the take puts them where they belong."""
    starts = [sum(sizes[:place]) for place in range(len(sizes) + 1)]
    numbers = [pick % starts[-1] for pick in picks] if starts[-1] else []
    taken = Taken(pa.array(numbers, pa.int64()))
    read = split_rows(taken.among(starts[-1]), starts)
    found = [starts[part] + row for part, rows in read for row in pa.array(rows).to_pylist()]
    assert found == sorted(set(numbers))
    assert (found if taken.order is None else [found[place] for place in taken.order.to_pylist()]) == numbers
    rows = parse_rows(slice(*span), starts[-1])
    parts = list(split_rows(rows, starts))
    assert [starts[part] + int(str(row)) for part, rows in parts for row in rows] == list(rows)
    assert len({part for part, _ in parts}) == len(parts)
