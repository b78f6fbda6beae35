"""What a read of a store asks for: how many rounds and requests, and how many bytes stay in memory."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.io.connection import Connection, Cost
from smalti.io.ranges import SPARE
from smalti.mosaic.scan import ROUND_BYTES, plan_rounds
from tests.support.files import written
from tests.support.rounds import Store

#: A byte takes no time, or a request takes none.
SLOW_REQUESTS = Cost(latency=0.05, request=0.01, byte=1e-9)
SLOW_BYTES = Cost(latency=0.05, request=1e-9, byte=1e-5)
MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ([], 100, []),
        ([(10, 50)], 20, [(0, 1)]),  # a row group that is too large by itself is read by itself
        ([(10, 50)] * 4, 100, [(0, 2), (2, 4)]),
        ([(10, 50)] * 4, 1000, [(0, 4)]),
        ([(ROUND_BYTES, ROUND_BYTES)] * 3, 100 * ROUND_BYTES, [(0, 1), (1, 2), (2, 3)]),
        ([(ROUND_BYTES // 2, 50)] * 5, 1000, [(0, 2), (2, 4), (4, 5)]),
        ([(0, 0)] * 3, 0, [(0, 3)]),
    ],
)
def test_row_groups_that_are_read_together(
    sizes: list[tuple[int, int]], most: int, expected: list[tuple[int, int]]
) -> None:
    assert plan_rounds(sizes, most) == [range(*run) for run in expected]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random(11)
    return pa.table({f"c{i:03d}": [rng.randbytes(400) for _ in range(40)] for i in range(200)})


@pytest.mark.parametrize(
    ("options", "rounds"),
    [
        ({"page_size_threshold": 1 << 30}, [40]),  # The last bucket touches the first of the next row group.
        # Directories and slots at once, where the file says where slots are; otherwise one after the other.
        ({"page_size_threshold": 0}, [120]),
        ({"page_size_threshold": 0, "companion": False}, [60, 60]),
    ],
    ids=["monolithic", "paged", "paged, without sizes of slots"],
)
def test_row_groups_are_fetched_together(table: pa.Table, options: dict[str, Any], rounds: list[int]) -> None:
    """Of twenty row groups, one column in each of three buckets; the last ones come with the end of the file."""
    data = written(table, num_buckets=10, row_group_max_rows=2, **options)
    columns = ["c003", "c077", "c198"]
    store = Store(data, SLOW_BYTES)
    with store.opened() as file:
        assert file.read(columns).equals(table.select(columns))
    assert [len(ranges) for ranges in store.rounds[:1]] == [1]
    for ranges, expected in zip(store.rounds[1:], rounds, strict=True):
        assert 0.9 * expected <= len(ranges) <= expected
    store = Store(data, SLOW_REQUESTS)
    with store.opened() as file:
        assert file.read(columns).equals(table.select(columns))
        assert pa.Table.from_batches(list(file.iter_batches(columns=columns))).equals(table.select(columns))
    assert [len(ranges) for ranges in store.rounds] == [1, 1, 1]


def test_bytes_between_the_wanted_ones_are_bounded() -> None:
    """However slow requests are, no more is read for nothing than `SPARE`, a limit of memory, or what is wanted."""
    wide = pa.table({f"c{i:03d}": [bytes([i]) + random.Random(i).randbytes(400_000)] for i in range(100)})
    data = written(wide, num_buckets=100)
    columns = wide.column_names[::3]
    wanted = 34 * 400_000
    for limit in (None, 64 * MIB):
        store = Store(data, SLOW_REQUESTS)
        with store.opened(memory_limit=limit) as file:
            assert file.read(columns).equals(wide.select(columns))
        spare = max(wanted, SPARE) if limit is None else max(wanted, limit // 16)
        assert store.num_bytes <= wanted + spare + 300_000


def test_bytes_that_are_not_wanted_are_released(table: pa.Table) -> None:
    data = written(table, num_buckets=10, page_size_threshold=0, row_group_max_rows=2, companion=False)
    store = Store(data, SLOW_REQUESTS)
    with store.opened() as file:
        reads = file._project(["c003"]).stored.buckets
        tracemalloc.start()
        fetched = [file._scanner.buckets.fetch(group, reads) for group in range(15)]
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    wanted = [bucket.entry.size for (bucket,) in fetched]
    assert [sum(size for _, size in ranges) for ranges in store.rounds[1:]] == wanted  # Buckets were read whole,
    assert held < sum(wanted) / 3  # and only the slot that was wanted is kept.


def test_an_error_ends_all_requests(table: pa.Table) -> None:
    data = written(table, num_buckets=10, page_size_threshold=0, row_group_max_rows=2)
    reads = []

    def read_at(offset: int, size: int) -> bytes:
        reads.append(offset)
        if len(reads) > 5:
            raise ConnectionError("the network is gone")
        return data[offset : offset + size]

    source = smalti.ReadAt(read_at, len(data), is_remote=True, connection=Connection(SLOW_BYTES))
    with smalti.open(source) as file, pytest.raises(ConnectionError, match="the network is gone"):
        file.read(["c003", "c077", "c198"])
