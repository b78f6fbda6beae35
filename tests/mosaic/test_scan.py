"""Which row groups a scan reads: a table of cases."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import smalti
from smalti._core.allowance import Allowance
from smalti.mosaic.bucket import BucketReader
from smalti.mosaic.columns import Projection
from smalti.mosaic.scan import GroupRead, plan_scan
from tests.support.compare import assert_same
from tests.support.files import written


class Outcomes:
    """A filter of which is known what its statistics say: no row of a group matches, some do, all do."""

    def __init__(self, outcomes: str) -> None:
        self._outcomes = outcomes.split()

    def rules_out(self, group: int) -> bool:
        return self._outcomes[group] == "none"

    def takes_all(self, group: int) -> bool:
        return self._outcomes[group] == "all"


OUTPUT = Projection(pa.schema([("a", pa.int32())]), [])


@pytest.mark.parametrize(
    ("row_groups", "outcomes", "expected"),
    [
        ([], None, []),
        ([2, 0, 2], None, [(2, False), (0, False), (2, False)]),
        ([0, 1], "none none", []),
        ([0, 1, 2], "none some all", [(1, True), (2, False)]),
        ([2, 1], "none some all", [(2, False), (1, True)]),
    ],
)
def test_a_scan_reads_what_the_filter_leaves(
    row_groups: list[int], outcomes: str | None, expected: list[tuple[int, bool]]
) -> None:
    plan = plan_scan(OUTPUT, row_groups, None if outcomes is None else Outcomes(outcomes))
    assert plan.output == OUTPUT
    assert plan.groups == tuple(GroupRead(*read) for read in expected)


def tall(rows: int) -> pa.Table:
    """A column of each encoding, with and without nulls, of short and long values, and a list."""
    random = np.random.RandomState(2)
    numbers, mask = random.randint(0, 1 << 40, rows), random.random_sample(rows) < 0.3
    texts = [f"{number:x}" * (1 + number % 9) for number in numbers.tolist()]
    return pa.table(
        {
            "plain": numbers,
            "plain_nulls": pa.array(numbers, mask=mask),
            "dict": pa.array(numbers % 100),
            "dict_nulls": pa.array([f"w{number % 50}" for number in numbers.tolist()], mask=mask),
            "const": pa.array([7] * rows),
            "const_nulls": pa.array([7] * rows, mask=mask),
            "none": pa.nulls(rows, pa.int16()),
            "text": texts,
            "text_nulls": pa.array(texts, mask=mask),
            "huge": ["x" * 3000] * 40 + texts[40:],
            "decimal": pa.array([Decimal(number) for number in numbers.tolist()], pa.decimal128(30, 0)),
            "flag": pa.array(numbers % 3 == 0),
            "list": [[number] for number in numbers.tolist()],
        }
    )


@pytest.mark.parametrize("page_size_threshold", [0, 1 << 30])
def test_the_first_rows_of_a_tall_file_are_those_of_the_table(page_size_threshold: int) -> None:
    table = tall(60_000)
    data = written(table, num_buckets=table.num_columns, page_size_threshold=page_size_threshold)
    with smalti.open(data) as file:
        for count in (0, 1, 7, 8, 9, 41, 1000, 20_000, 60_000, 70_000):
            assert_same(file.head(count), table.slice(0, count))
            assert_same(file.head(count, ["text", "dict"]), table.select(["text", "dict"]).slice(0, count))
        matching = table.filter(pc.field("flag")).select(["plain"])
        assert_same(file.head(3, ["plain"], [("flag", "==", True)]), matching.slice(0, 3))


def test_the_first_rows_are_inflated_without_the_others() -> None:
    """A row group of another writer may have all rows of a file."""
    table = pa.table({"id": np.arange(2_000_000) * 7919, "x": np.random.RandomState(1).random_sample(2_000_000)})
    data = written(table, num_buckets=2, page_size_threshold=1 << 30)
    with smalti.open(data, memory_limit=4 << 20) as file:
        assert_same(file.head(10), table.slice(0, 10))
        with pytest.raises(smalti.MemoryLimitError):
            file.read(row_groups=[0])


def test_damage_behind_the_first_rows_is_found_by_those_who_read_it() -> None:
    table = pa.table({"x": np.random.RandomState(1).random_sample(200_000)})
    data = bytearray(written(table, num_buckets=1, page_size_threshold=1 << 30))
    data[1_000_000:1_000_100] = bytes(100)
    with smalti.open(bytes(data)) as file:
        assert_same(file.head(10), table.slice(0, 10))
        with pytest.raises(smalti.CorruptFileError):
            file.read()
    data[1000:1100] = bytes(100)
    data[20:30] = bytes(10)
    with smalti.open(bytes(data)) as file, pytest.raises(smalti.CorruptFileError):
        file.head(10_000)


@pytest.mark.parametrize("page_size_threshold", [0, 1 << 30], ids=["paged", "monolithic"])
@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("readahead", [0, 2])
def test_reads_of_cached_buckets_that_decode_them_more_than_once(
    page_size_threshold: int, *, is_remote: bool, readahead: int
) -> None:
    """Row groups that are repeated, and those that take more memory than was estimated, are decoded from one fetch."""
    n = 20_000
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string()), ("c", pa.string())])
    columns = [range(n), ["x" * 2000] * n, [f"y{i}" if i % 3 else None for i in range(n)]]
    table = pa.table([pa.array(*each) for each in zip(columns, schema.types, strict=True)], schema=schema)
    options = {"num_buckets": 3, "page_size_threshold": page_size_threshold, "row_group_max_rows": n // 2}
    data = written(table, **options)
    source = smalti.ReadAt(lambda offset, size: data[offset : offset + size], len(data), is_remote=is_remote)
    groups = [0, 0, 1, 0]
    expected = pa.concat_tables([table.slice(group * n // 2, n // 2) for group in groups])
    with smalti.open(source, readahead=readahead) as file:
        file.read(["a", "c"])  # into the cache
        assert_same(pa.Table.from_batches(file.iter_batches()), table)
        for _ in range(2):
            assert_same(file.read(["a", "c"], row_groups=groups), expected.select(["a", "c"]))
            assert_same(file.read(["c"], [("a", ">=", 0)], row_groups=groups), expected.select(["c"]))
            batches = file.iter_batches(3000, ["c", "a"], row_groups=groups)
            assert_same(pa.Table.from_batches(batches), expected.select(["c", "a"]))


def test_a_bucket_that_was_released_is_not_decoded() -> None:
    with smalti.open(written(pa.table({"a": range(10)}))) as file:
        columns, scanner = file.columns.stored.every, file._scanner
        file.read()
        for reader in (scanner.buckets, BucketReader(file._source, file._tail)):
            buckets = reader.fetch(0, columns.buckets)
            assert scanner.decode(0, columns, buckets, Allowance(10_000)).column(0).to_pylist() == list(range(10))
            with pytest.raises(RuntimeError, match="released"):
                scanner.decode(0, columns, buckets, Allowance(10_000))
