"""Which ranges are read in one request: tables of cases."""

from __future__ import annotations

import pytest

from smalti.io.ranges import Range, Request, plan_requests, split


@pytest.mark.parametrize(
    ("ranges", "max_gap", "max_request", "expected"),
    [
        ([], 0, 100, []),
        ([(5, 0)], 0, 100, []),
        ([(10, 5), (15, 5)], 0, 100, [(10, 10, (0, 1))]),
        ([(15, 5), (10, 5)], 0, 100, [(10, 10, (1, 0))]),
        ([(10, 50), (61, 50)], 0, 200, [(10, 50, (0,)), (61, 50, (1,))]),
        ([(10, 50), (61, 50)], 1, 200, [(10, 101, (0, 1))]),
        ([(10, 5), (16, 5)], 1, 100, [(10, 5, (0,)), (16, 5, (1,))]),  # one byte is more than a twentieth of ten
        # Of two gaps of the same size, only one is small enough.
        ([(0, 10), (11, 5), (17, 5)], 9, 100, [(0, 16, (0, 1)), (17, 5, (2,))]),
        # The smallest gap is closed first.
        ([(0, 10), (12, 5), (18, 5)], 9, 100, [(0, 10, (0,)), (12, 11, (1, 2))]),
        # More than four would not be under way at the same time: the smallest gaps are closed until there are four.
        (
            [(0, 1), (9, 1), (15, 1), (26, 1), (40, 1), (50, 1)],
            9,
            100,
            [(0, 16, (0, 1, 2)), *((o, 1, (p,)) for o, p in [(26, 3), (40, 4), (50, 5)])],
        ),
        # But gaps beyond `max_gap` stay.
        ([(0, 1), (9, 1), (18, 1), (27, 1), (36, 1), (45, 1)], 7, 100, [(9 * p, 1, (p,)) for p in range(6)]),
        ([(0, 10), (2, 3)], 0, 100, [(0, 10, (0, 1))]),  # one inside the other
        ([(0, 60), (60, 60)], 0, 100, [(0, 60, (0,)), (60, 60, (1,))]),
        ([(0, 500)], 0, 100, [(0, 500, (0,))]),  # `split` cuts it
    ],
)
def test_requests(
    ranges: list[tuple[int, int]], max_gap: int, max_request: int, expected: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    planned = plan_requests([Range(*r) for r in ranges], max_gap, max_request, max_requests=4)
    assert planned == [Request(*e) for e in expected]


@pytest.mark.parametrize(
    ("size", "longest", "pieces"),
    [(10, 10, [(7, 10)]), (11, 10, [(7, 6), (13, 5)]), (3, 1, [(7, 1), (8, 1), (9, 1)])],
)
def test_long_requests_are_cut(size: int, longest: int, pieces: list[tuple[int, int]]) -> None:
    assert split(Request(7, size, (0,)), longest) == pieces
