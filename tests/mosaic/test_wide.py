"""The format's reason to exist: very many columns, many reads, bounded memory."""

from __future__ import annotations

import gc
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

import smalti
from tests.support import reference
from tests.support.compare import assert_same
from tests.support.files import layout, read, written, written_as_reference
from tests.support.golden import golden_bytes, golden_path
from tests.support.long import repeated
from tests.support.tables import matrix

COLUMNS = 30_000


def wide_table() -> pa.Table:
    kinds = [pa.int32(), pa.string(), pa.float64(), pa.list_(pa.int16())]
    values = {
        kinds[0]: lambda at: [at, None, at + 1],
        kinds[1]: lambda at: [f"v{at}", "", None],
        kinds[2]: lambda at: [at / 3, -0.0, None],
        kinds[3]: lambda at: [[at % 100], None, []],
    }
    arrays, names = [], []
    for at in range(COLUMNS):
        kind = kinds[at % 4]
        arrays.append(pa.array(values[kind](at), kind))
        names.append(f"sensor_{at * 7919 % COLUMNS:05d}_reading")
    return pa.Table.from_arrays(arrays, names)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return wide_table()


@pytest.fixture(scope="module")
def data(table: pa.Table) -> bytes:
    return written_as_reference(table)


class TestThirtyThousandColumns:
    def test_round_trip(self, table: pa.Table, data: bytes) -> None:
        found = read(data)
        assert found.schema.equals(table.schema)
        assert found.column_names == table.column_names
        assert all(found.column(at).equals(table.column(at)) for at in range(COLUMNS))

    def test_the_reference_writes_the_same_bytes_and_reads_them(self, table: pa.Table, data: bytes) -> None:
        assert data == reference.write(table)
        columns = table.column_names[:: COLUMNS // 10]
        assert_same(reference.read(data, columns), table.select(columns))

    def test_some_columns(self, table: pa.Table, data: bytes) -> None:
        for columns in (table.column_names[-1:], table.column_names[::1000], table.column_names[1000::-100]):
            assert_same(read(data, columns=columns), table.select(columns))

    def test_layout(self, data: bytes) -> None:
        found = layout(data)
        assert (found.num_columns, found.num_buckets) == (COLUMNS, 100)
        assert sum(len(bucket.columns) for bucket in found.row_groups[0].buckets) == COLUMNS + COLUMNS // 4

    def test_one_bucket_for_all(self, table: pa.Table) -> None:
        """Nothing may be quadratic in the columns of a bucket."""
        blob = written(table, num_buckets=1)
        columns = table.column_names[::3000]
        assert_same(read(blob, columns=columns), table.select(columns))

    def test_a_bucket_each(self, table: pa.Table) -> None:
        columns = repeated(COLUMNS)
        table = table.select(range(columns))
        blob = written(table, num_buckets=columns)
        assert layout(blob).num_buckets == columns
        assert_same(read(blob).select([0, columns - 1]), table.select([0, columns - 1]))


def rss() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def growth(action: object, times: int, warm_up: int) -> int:
    """Bytes the process grew by over many repetitions, after the first ones; a leak is far more than is allowed."""
    for _ in range(repeated(warm_up)):
        action()  # type: ignore[operator]
    before = rss()
    for _ in range(repeated(times)):
        action()  # type: ignore[operator]
    return rss() - before


ALLOWED = 6 << 20


@pytest.mark.parametrize("name", ["matrix_mono", "matrix_paged", "nested_mono", "nested_paged", "names_bpe"])
def test_memory_is_flat_over_thousands_of_reads(name: str) -> None:
    path = golden_path(name)
    assert growth(lambda: smalti.read_table(path), 1500, 200) < ALLOWED


def test_memory_is_flat_over_projections_batches_and_filters() -> None:
    data = written(matrix(50, 90), row_group_max_rows=30, num_buckets=4, stats_columns=["i32_P", "str_P"])

    def use() -> None:
        with smalti.open(data) as file:
            file.read(columns=["i32_P", "l_str_Pn", "dec38_P"])
            file.read(columns=["str_P"], filters=[("i32_P", ">", 0)])
            for batch in file.iter_batches(batch_size=7, columns=["m_i32_l_Dn"]):
                assert batch.num_rows
            assert file.row_group(0).statistics

    assert growth(use, 700, 100) < ALLOWED


def test_memory_is_flat_over_failing_reads() -> None:
    good = golden_bytes("matrix_paged")
    bad = [good[: at * 997 % len(good)] for at in range(1, 9)]
    flipped = [good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :] for at in range(100, 12_000, 1487)]

    def fail() -> None:
        for blob in (*bad, *flipped):
            try:
                read(blob)
            except smalti.MosaicError:
                continue

    assert growth(fail, 150, 30) < ALLOWED


def test_memory_is_flat_over_writes(tmp_path: Path) -> None:
    table = matrix(51, 40)
    path = tmp_path / "t.mosaic"
    assert growth(lambda: smalti.write_table(table, path, stats_columns="all"), 250, 50) < ALLOWED


def test_memory_is_flat_over_writes_that_fail(tmp_path: Path) -> None:
    table = matrix(52, 40)
    wrong = table.drop_columns([table.column_names[5]])

    def fail() -> None:
        writer = smalti.MosaicWriter(tmp_path / "t.mosaic", table.schema)
        writer.write(table)
        with pytest.raises(smalti.SchemaError):
            writer.write(wrong)

    assert growth(fail, 200, 120) < ALLOWED
    assert list(tmp_path.iterdir()) == []


class TestRowGroupBounds:
    def test_a_large_batch_is_split_by_bytes(self) -> None:
        """The reference writes one row group whatever its limit; ours is a bound."""
        table = pa.table({"i": pa.array(range(100_000), pa.int64()), "s": [f"{at:08d}" for at in range(100_000)]})
        data = written(table, row_group_max_bytes=100_000, num_buckets=2)
        groups = layout(data).row_groups
        # 8 bytes and 9 bytes a row, and a little for the bitmaps.
        assert 17 <= len(groups) <= 40
        assert all(sum(column.size for b in group.buckets for column in b.columns) <= 100_000 for group in groups)
        assert_same(read(data), table)

    def test_small_batches_are_gathered(self, tmp_path: Path) -> None:
        schema = pa.schema([("i", pa.int64())])
        path = tmp_path / "t.mosaic"
        with smalti.MosaicWriter(path, schema, options=smalti.WriterOptions(row_group_max_bytes=8000)) as writer:
            for start in range(0, 10_000, 10):
                writer.write(pa.table({"i": pa.array(range(start, start + 10), pa.int64())}))
        with smalti.open(path) as file:
            assert 10 <= file.num_row_groups <= 40
            assert file.read()["i"].to_pylist() == list(range(10_000))

    def test_a_row_larger_than_the_bound_is_a_row_group_of_its_own(self) -> None:
        table = pa.table({"s": ["x" * 5000, "y" * 5000, "z"]})
        data = written(table, row_group_max_bytes=1000)
        assert [group.num_rows for group in layout(data).row_groups] == [1, 1, 1]
        assert_same(read(data), table)

    @pytest.mark.parametrize(("limit", "rows"), [(1, [1] * 10), (3, [3, 3, 3, 1]), (5, [5, 5]), (10, [10]), (11, [10])])
    def test_rows(self, limit: int, rows: list[int]) -> None:
        table = pa.table({"i": list(range(10))})
        data = written(table, row_group_max_rows=limit)
        assert [group.num_rows for group in layout(data).row_groups] == rows
        assert_same(read(data), table)

    def test_an_all_null_stream_of_10_000_columns_flushes(self, tmp_path: Path) -> None:
        """Values alone would count for nothing; the bitmaps take 1,250 bytes a row."""
        schema = pa.schema([(f"c{at:04d}", pa.string()) for at in range(10_000)])
        batch = pa.RecordBatch.from_arrays([pa.nulls(100, pa.string())] * 10_000, schema=schema)
        path = tmp_path / "t.mosaic"
        with smalti.MosaicWriter(path, schema, options=smalti.WriterOptions(row_group_max_bytes=500_000)) as writer:
            for _ in range(20):
                writer.write(batch)
        with smalti.open(path) as file:
            assert file.num_rows == 2000
            assert 5 <= file.num_row_groups <= 20
            assert file.read(columns=["c4321"])["c4321"].null_count == 2000

    def test_limits_hold_with_containers(self) -> None:
        table = pa.table({"l": pa.array([list(range(at % 50)) for at in range(2000)], pa.list_(pa.int64()))})
        data = written(table, row_group_max_bytes=20_000)
        groups = layout(data).row_groups
        assert len(groups) >= 2000 * 24.5 * 8 / 20_000
        assert all(sum(column.size for b in group.buckets for column in b.columns) <= 20_000 for group in groups)
        assert_same(read(data), table)


class TestEstimatedSize:
    def write(self, path: Path, compression: str) -> tuple[list[int], int]:
        """Estimates after each of 20 batches, and the size of the file."""
        options = smalti.WriterOptions(compression=compression, row_group_max_rows=2000, num_buckets=1)
        estimates = []
        with smalti.MosaicWriter(path, pa.schema([("s", pa.string())]), options=options) as writer:
            for number in range(20):
                texts = [f"the same words again and again {number * 500 + at}" for at in range(500)]
                writer.write(pa.table({"s": texts}))
                estimates.append(writer.estimated_size)
        return estimates, path.stat().st_size

    @pytest.mark.parametrize("compression", ["none", "zstd"])
    def test_it_grows_to_the_size_of_the_file(self, compression: str, tmp_path: Path) -> None:
        estimates, size = self.write(tmp_path / "t.mosaic", compression)
        assert all(later > earlier for earlier, later in pairwise(estimates[4:]))
        assert abs(estimates[-1] - size) < size * 0.1

    def test_it_follows_the_compression_seen(self, tmp_path: Path) -> None:
        """Between flushes the buffered part counts at the ratio seen so far, not at its raw size."""
        plain, _ = self.write(tmp_path / "n.mosaic", "none")
        packed, size = self.write(tmp_path / "z.mosaic", "zstd")
        assert plain[-1] > 3 * packed[-1]
        # Half a row group later than a flush: an estimate at raw size would be far off.
        assert abs(packed[9] - size * 10 / 20) < size * 0.1
