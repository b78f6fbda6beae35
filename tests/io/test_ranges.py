"""Which ranges are read in one request, and which buckets whole: tables of cases."""

from __future__ import annotations

import contextlib

import pytest

from smalti.io.connection import START, Connection, Cost, cost_of
from smalti.io.ranges import MAX_WHOLE, Parts, Range, Request, plan_requests, plan_whole, split


@pytest.mark.parametrize(
    ("ranges", "max_gap", "max_request", "spare", "expected"),
    [
        ([], 0, 100, 0, []),
        ([(5, 0)], 0, 100, 0, []),
        ([(10, 5), (15, 5)], 0, 100, 0, [(10, 10, (0, 1))]),
        ([(15, 5), (10, 5)], 0, 100, 0, [(10, 10, (1, 0))]),
        ([(10, 50), (61, 50)], 0, 200, 0, [(10, 50, (0,)), (61, 50, (1,))]),
        ([(10, 50), (61, 50)], 1, 200, 0, [(10, 101, (0, 1))]),
        ([(10, 5), (16, 5)], 1, 100, 0, [(10, 11, (0, 1))]),
        # A gap of more bytes than a request is worth stays.
        ([(0, 10), (12, 5), (20, 5)], 2, 100, 0, [(0, 17, (0, 1)), (20, 5, (2,))]),
        # No more is read for nothing than is wanted: the smallest gaps are closed first, and those of a size together.
        ([(0, 2), (6, 1), (8, 1), (16, 1)], 9, 100, 0, [(0, 9, (0, 1, 2)), (16, 1, (3,))]),
        ([(0, 1), (4, 1), (8, 1)], 9, 100, 0, [(0, 1, (0,)), (4, 1, (1,)), (8, 1, (2,))]),
        # But a few bytes are read whatever is wanted.
        ([(0, 1), (4, 1), (8, 1)], 9, 100, 6, [(0, 9, (0, 1, 2))]),
        ([(0, 1), (4, 1), (9, 1)], 9, 100, 6, [(0, 5, (0, 1)), (9, 1, (2,))]),
        ([(0, 10), (2, 3)], 0, 100, 0, [(0, 10, (0, 1))]),  # one inside the other
        ([(0, 60), (60, 60)], 0, 100, 0, [(0, 60, (0,)), (60, 60, (1,))]),
        ([(0, 500)], 0, 100, 0, [(0, 500, (0,))]),  # `split` cuts it
    ],
)
def test_requests(
    ranges: list[tuple[int, int]],
    max_gap: int,
    max_request: int,
    spare: int,
    expected: list[tuple[int, int, tuple[int, ...]]],
) -> None:
    planned = plan_requests([Range(*r) for r in ranges], max_gap, max_request, spare)
    assert planned == [Request(*e) for e in expected]


#: 100 MB/s: a request is worth 40 kB, a round trip 5 MB.
NETWORK = Cost(latency=0.05, request=0.0004, byte=1e-8)


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ([], []),
        # One bucket of 1 MB takes less time than a round trip.
        ([Parts(1_000_000, 400, 0.01, 1)], [True]),
        # Forty take more, and then only the smallest is worth a request less.
        ([Parts(1_000_000, 400, 0.01, 1)] * 40 + [Parts(30_000, 400, 0.01, 1)], [False] * 40 + [True]),
        # If much of a bucket is wanted in many pieces, requests cost more than the rest of its bytes.
        ([Parts(300_000, 400, 0.5, 50)] * 40, [True] * 40),
        # But not more of them than may be in memory.
        ([Parts(1_000_000, 400, 0.5, 50)] * 40, [False] * 40),
        # A large one is never read whole.
        ([Parts(MAX_WHOLE + 1, 400, 0.9, 90)], [False]),
    ],
)
def test_whole_buckets(buckets: list[Parts], expected: list[bool]) -> None:
    assert plan_whole(buckets, NETWORK) == expected


@pytest.mark.parametrize(
    ("size", "longest", "pieces"),
    [(10, 10, [(7, 10)]), (11, 10, [(7, 6), (13, 5)]), (3, 1, [(7, 1), (8, 1), (9, 1)])],
)
def test_long_requests_are_cut(size: int, longest: int, pieces: list[tuple[int, int]]) -> None:
    assert split(Request(7, size, (0,)), longest) == pieces


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which only the test moves."""
    now = [0.0]
    monkeypatch.setattr("smalti.io.connection.time.perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize(
    "true",
    [
        Cost(latency=0.02, request=0.003, byte=1e-8),
        Cost(latency=0.1, request=0.0004, byte=2e-9),
        Cost(latency=0.005, request=0.0001, byte=1e-9),
    ],
)
def test_a_connection_measures_what_reads_take(true: Cost, clock: list[float]) -> None:
    connection = Connection()
    assert connection.cost == START
    reads = [(1, 250_000), (5, 4_000), (150, 120_000), (2, 10_000_000), (30, 3_000_000)] * 4
    for requests, num_bytes in reads:
        with connection.timed(requests, num_bytes):
            clock[0] += true.seconds(requests, num_bytes)
    found = connection.cost
    for requests, num_bytes in reads:
        assert found.seconds(requests, num_bytes) == pytest.approx(true.seconds(requests, num_bytes), rel=0.3)
    assert found.gap == pytest.approx(true.gap, rel=0.5)


def test_reads_at_the_same_time_or_with_an_error_are_not_measured(clock: list[float]) -> None:
    connection = Connection()
    with connection.timed(1, 10), connection.timed(1, 10):
        clock[0] += 9
    with contextlib.suppress(OSError), connection.timed(1, 10):
        clock[0] += 9
        raise OSError("refused")
    assert connection.cost == START


def test_numbers_that_are_given_are_not_measured(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMALTI_LATENCY", "0.1")
    monkeypatch.setenv("SMALTI_BANDWIDTH", "50e6")
    connection = Connection()
    with connection.timed(1, 10):
        clock[0] += 9
    assert connection.cost == cost_of(0.1, 0.0, 2e-8)
    assert connection.cost.parallel == 512
    monkeypatch.setenv("SMALTI_LATENCY", "soon")
    with pytest.raises(ValueError, match=r"SMALTI_LATENCY is a number above 0, not 'soon'"):
        Connection()
