"""The order of an epoch: a function of seed and epoch, and every row once over all shares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.loading.order import Order, Segment, Window, num_batches, share_rows
from tests.support.strategies import examples

A, B, C = Segment(0, 0, 3), Segment(1, 0, 4), Segment(3, 0, 5)


@pytest.mark.parametrize(
    ("share", "window_bytes", "expected"),
    [
        ((0, 1), 1000, [(A, B, C)]),
        ((0, 1), 70, [(A, B), (C,)]),
        ((0, 1), 1, [(A,), (B,), (C,)]),
        ((0, 2), 1000, [(A, Segment(1, 0, 3))]),
        ((1, 2), 59, [(Segment(1, 3, 4),), (C,)]),
        ((11, 12), 1000, [(Segment(3, 4, 5),)]),
    ],
)
def test_in_order(share: tuple[int, int], window_bytes: int, expected: list[tuple[Segment, ...]]) -> None:
    windows = Order(0, False, window_bytes).windows(0, [3, 4, 0, 5], [30, 40, 0, 50], share)
    assert windows == [Window(number, segments) for number, segments in enumerate(expected)]


@examples(60)
@given(
    counts=st.lists(st.integers(0, 20), max_size=8),
    seed=st.integers(0, 1 << 64),
    epoch=st.integers(0, 5),
    shares=st.integers(1, 7),
    shuffle=st.booleans(),
    window_bytes=st.integers(1, 500),
)
def test_shares_are_all_rows(
    counts: list[int], seed: int, epoch: int, shares: int, shuffle: bool, window_bytes: int
) -> None:
    order, sizes = Order(seed, shuffle, window_bytes), [10 * count for count in counts]
    starts = np.cumsum([0, *counts])
    found, lengths = [], []
    for index in range(shares):
        rows: list[int] = []
        for window in order.windows(epoch, counts, sizes, (index, shares)):
            inside = [starts[s.block] + row for s in window.segments for row in range(s.start, s.stop)]
            mixed = order.rows(epoch, window, (index, shares))
            rows += inside if mixed is None else [inside[place] for place in mixed]
            assert len(window.segments) == 1 or 10 * len(inside) <= window_bytes
        assert len(rows) == share_rows(sum(counts), (index, shares))
        lengths.append(len(rows))
        found += rows
    assert sorted(found) == list(range(sum(counts)))
    assert max(lengths) - min(lengths) <= 1
    if not shuffle:
        assert all(a < b for a, b in pairwise(found))


def test_the_order_never_changes() -> None:
    """A run that is resumed with another version of NumPy or smalti goes on with the same rows."""
    order = Order(7, True, 100)
    windows = order.windows(3, [10] * 6, [50] * 6)
    assert [[segment.block for segment in window.segments] for window in windows] == [[1, 5], [4, 0], [3, 2]]
    assert order.rows(3, windows[1], (0, 1)).tolist()[:8] == [5, 1, 12, 13, 6, 19, 9, 14]


@pytest.mark.parametrize(("rows", "drop", "expected"), [(10, False, 4), (10, True, 3), (9, False, 3), (0, False, 0)])
def test_batches(rows: int, drop: bool, expected: int) -> None:
    assert num_batches(rows, 3, drop_last=drop) == expected
