"""Rows by number, row numbers and samples of files, tables and S3: the same as Arrow's `take` on the whole table."""

from __future__ import annotations

import collections
import itertools
import mmap
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smalti
from smalti._compat.arrow import concat_batches
from smalti.errors import MemoryLimitError, MosaicError, NoSuchRowError, SchemaError
from smalti.logical.rows import take_chunks
from tests.support.any_arrow import any_table, meanings
from tests.support.long import long_only, repeated
from tests.support.s3 import s3_by_uri
from tests.support.strategies import examples, options_for, tables


def wide(num_rows: int = 1000, num_columns: int = 30) -> pa.Table:
    columns = {f"c{n:02d}": [float(row * n % 97) for row in range(num_rows)] for n in range(num_columns)}
    return pa.table({"id": range(num_rows), "s": [f"row {row}" for row in range(num_rows)], **columns})


@pytest.fixture
def table(tmp_path: Path) -> tuple[pa.Table, Path]:
    """A table of three files, one without rows, in partitions, and its rows."""
    whole, cuts = wide(), [0, 310, 310, 1000]
    for place, (start, end) in enumerate(itertools.pairwise(cuts)):
        (tmp_path / f"part={place}").mkdir()
        path = tmp_path / f"part={place}/rows.mosaic"
        smalti.write_table(whole.slice(start, end - start), path, row_group_max_rows=70, stats_columns=["id"])
    part = pa.array([0] * 310 + [2] * 690)
    return whole.append_column("part", part), tmp_path


@examples(60)
@given(data=st.data())
def test_take_equals_arrow(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """For every type, nesting, layout, statistics and cut of row groups."""
    table = data.draw(tables(max_rows=30))
    options = data.draw(options_for(table)) | {"row_group_max_rows": data.draw(st.sampled_from([1, 3, 7, 100]))}
    path = tmp_path_factory.mktemp("take") / "t.mosaic"
    smalti.write_table(table, path, **options)
    count = table.num_rows
    rows = st.lists(st.integers(-count, count - 1), max_size=40) if count else st.just([])
    indices = data.draw(rows)
    columns = data.draw(st.one_of(st.none(), st.permutations(table.column_names)))
    with smalti.open(path, cache_bytes=data.draw(st.sampled_from([0, 1 << 20]))) as file:
        for _ in range(2):  # the second time from what is cached
            taken = file.take(indices, columns)
            chosen = table if columns is None else table.select(columns)
            if not chosen.num_columns:
                assert taken.num_rows == len(indices)
                continue
            expected = chosen.take(pa.array([index % max(1, count) for index in indices], pa.int64()))
            assert taken.equals(expected) or meanings_of(taken) == meanings_of(expected)  # NaN differs from itself
        start, stop = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
        step = data.draw(st.sampled_from([1, 1, 2, 5]))
        read = file.read(columns, rows=slice(start, stop, step), with_row_index="row number")
        assert read.column(0).to_pylist() == list(range(start, stop, step))
        assert meanings_of(read.select(read.column_names[1:])) == meanings_of(
            file.take(range(start, stop, step), columns)
        )


def meanings_of(table: pa.Table) -> Any:
    return table.schema, [meanings(column) for column in table.columns], table.num_rows


@pytest.mark.parametrize("seed", range(repeated(120)))
def test_take_of_every_arrow_type(seed: int, tmp_path: Path) -> None:
    """Runs, views, dictionaries, extensions, structs in lists: what Arrow itself cannot take included."""
    choose = random.Random(seed)
    table = any_table(choose, choose.choice([1, 2, 3]))
    smalti.write_table(table, tmp_path / "t.mosaic", row_group_max_rows=choose.choice([2, 5, 50]))
    with smalti.open(tmp_path / "t.mosaic") as file:
        read, count = file.read(), table.num_rows
        indices = [choose.randrange(-count, count) for _ in range(choose.choice([0, 3, 30]))] if count else []
        taken = file.take(indices)
        taken.validate(full=True)
        assert taken.schema == read.schema
        for name in read.column_names:
            whole = meanings(read[name])
            assert meanings(taken[name]) == [whole[index] for index in indices]


def test_tables_are_counted_in_the_order_of_their_files(table: tuple[pa.Table, Path]) -> None:
    whole, path = table
    dataset = smalti.dataset(path)
    indices = [999, 0, 309, 310, -1, 0, 5]
    expected = whole.take(pa.array([index % 1000 for index in indices]))
    assert dataset.take(indices).equals(expected)
    assert dataset.take(indices, ["s", "part", "s"]).equals(expected.select(["s", "part", "s"]))
    assert dataset[308:312].equals(whole.slice(308, 4))
    assert dataset[311:307:-2]["id"].to_pylist() == [311, 309]
    with pytest.raises(NoSuchRowError, match="found 1000, expected -1000 to 999"):
        dataset.take([1000])


def test_row_numbers_count_what_is_left_out(table: tuple[pa.Table, Path]) -> None:
    path = table[1]
    dataset, numbers = smalti.dataset(path), list(range(1000))
    assert dataset.to_table([], with_row_index="i")["i"].to_pylist() == numbers
    found = dataset.to_table(["s"], [("part", "=", 2), ("c01", "<", 5)], with_row_index="i")
    expected = [row for row in numbers[310:] if row % 97 < 5]
    assert found["i"].to_pylist() == expected
    assert found["s"].to_pylist() == [f"row {row}" for row in expected]
    batches = list(dataset.to_batches(["id"], batch_size=40, rows=range(280, 400), with_row_index="i"))
    assert all(batch.column(0).equals(batch.column(1)) for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 120
    assert smalti.read_table(path, ["id"], [("part", "=", 2)], with_row_index="i").slice(0, 2).to_pydict() == {
        "i": [310, 311],
        "id": [310, 311],
    }
    assert smalti.scan(path, ["id"], [("i", ">=", 998)], with_row_index="i").to_table()["id"].to_pylist() == [998, 999]
    cast = smalti.scan(path, schema=pa.schema([("id", pa.int32())]), rows=slice(2), with_row_index="i").to_table()
    assert (cast.schema.names, cast["id"].type) == (["i", "id"], pa.int32())
    assert dataset.scan(rows=range(5)).count_rows() == 5


def test_a_filter_on_row_numbers_reads_only_their_row_groups(table: tuple[pa.Table, Path]) -> None:
    with smalti.open(table[1] / "part=2/rows.mosaic", cache_bytes=0) as file:
        groups: list[int] = []
        fetch = file._scanner.buckets.fetch
        file._scanner.buckets.fetch = lambda group, *rest: groups.append(group) or fetch(group, *rest)  # type: ignore
        read = file.read(["c05"], [("i", ">=", 139), ("i", "<", 142)], with_row_index="i")
        assert (read["i"].to_pylist(), set(groups)) == ([139, 140, 141], {1, 2})
        groups.clear()
        file.take([70, 139, 71, 70], ["c05"])
        assert set(groups) == {1}


@pytest.mark.parametrize("name", ["id", "part"])
def test_row_numbers_need_a_free_name(table: tuple[pa.Table, Path], name: str) -> None:
    with pytest.raises(SchemaError, match=f"the row index needs a name that no column has: found {name}"):
        smalti.dataset(table[1]).to_table(with_row_index=name)


def test_a_take_is_counted_against_the_memory_limit(tmp_path: Path) -> None:
    smalti.write_table(wide(5000), tmp_path / "t.mosaic", row_group_max_rows=500)
    with smalti.open(tmp_path / "t.mosaic", memory_limit=400_000) as file:
        assert file.take([4999, 0], ["c01"]).num_rows == 2
        with pytest.raises(MemoryLimitError):
            file.take(list(range(5000)) * 3, [f"c{n:02d}" for n in range(30)])


def test_millions_of_rows(tmp_path: Path) -> None:
    smalti.write_table(pa.table({"a": range(1000)}), tmp_path / "t.mosaic", row_group_max_rows=100)
    with smalti.open(tmp_path / "t.mosaic") as file:
        indices = pa.array(range(1000), pa.int16()).take(pa.array([7, 3, 999, 0] * 500_000))
        assert file.take(indices)["a"].combine_chunks().equals(indices.cast(pa.int64()))


def test_samples(table: tuple[pa.Table, Path]) -> None:
    dataset = smalti.dataset(table[1])
    first = dataset.sample(20, ["id"], seed=4)["id"].to_pylist()
    assert first == dataset.sample(20, ["id"], seed=4)["id"].to_pylist() == sorted(set(first))
    assert len(first) == 20
    assert dataset.sample(5000, ["id"])["id"].to_pylist() == list(range(1000))
    drawn = collections.Counter(
        row for seed in range(200) for row in dataset.sample(5, ["id"], [("id", "<", 10)], seed=seed)["id"].to_pylist()
    )
    assert set(drawn) == set(range(10))
    assert all(60 <= count <= 140 for count in drawn.values())  # each row has the chance 1/2
    for wrong in (-1, 1.5, True, "3"):
        with pytest.raises(MosaicError, match="a sample has a whole number of rows"):
            dataset.sample(wrong)  # type: ignore[arg-type]


class TestTooLargeForOneArray:
    """Rows come in several arrays where one cannot hold them; a batch of exactly so many rows is refused."""

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> tuple[smalti.MosaicDataset, list[str]]:
        """Two files whose dictionaries have more values together than the indices of the table count."""
        values = [f"{file}-{row}" for file in range(2) for row in range(100)]
        for file in range(2):
            entries = pa.array(values[100 * file : 100 * (file + 1)])
            column = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), entries)
            smalti.write_table(pa.table({"n": range(100), "d": column}), tmp_path / f"{file}.mosaic")
        return smalti.dataset(tmp_path), values

    def test_dictionaries(self, dataset: tuple[smalti.MosaicDataset, list[str]]) -> None:
        table, values = dataset
        backwards = table[::-1]
        backwards.validate(full=True)
        assert backwards["d"].to_pylist() == values[::-1]
        assert backwards["d"].num_chunks == 2
        mixed = [150, 3, 199, 3, 0, 100] * 5
        taken = table.take(mixed, ["d", "n"])
        assert taken.to_pydict() == {"d": [values[row] for row in mixed], "n": [row % 100 for row in mixed]}
        with pytest.raises(SchemaError, match=r"column 'd': one array cannot hold the rows .* expected fewer rows"):
            list(table.to_batches(batch_size=150, exact=True))
        assert [batch.num_rows for batch in table.to_batches(batch_size=50, exact=True)] == [50] * 4
        batches = smalti.loader(table, columns=["d"], batch_size=150, shuffle=True, seed=1)
        assert sorted(value for batch in batches for value in batch["d"]) == sorted(values)

    @pytest.mark.parametrize("wrap", ["string", "struct", "list"])
    def test_rows_that_are_not_wanted(self, wrap: str) -> None:
        """Of each chunk one long row, whose memory is never touched, and a short one."""
        data = pa.py_buffer(mmap.mmap(-1, (1 << 30) + 4096))
        offsets = pa.array([0, 1 << 30, (1 << 30) + 3], pa.int32()).buffers()[1]
        texts: Any = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
        if wrap == "struct":
            texts = pa.StructArray.from_arrays([texts], ["x"])
        if wrap == "list":
            texts = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts)
        with pytest.raises(SchemaError, match="column 'c': one array cannot hold the rows of a batch"):
            concat_batches([pa.record_batch([texts], ["c"])] * 2)
        (found,) = take_chunks([texts, texts], pa.array([3, None, 1]))
        short = texts[1].as_py()
        assert repr("\0\0\0") in repr(short)
        assert found.to_pylist() == [short, None, short]

    @long_only
    def test_strings(self, tmp_path: Path) -> None:
        """A column of one value takes 8 kB in the file, and more than 2 GiB in memory."""
        text, rows = "x" * (1 << 20), 2200
        schema = pa.schema({"s": pa.string(), "l": pa.list_(pa.string())})
        with smalti.MosaicWriter(tmp_path / "t.mosaic", schema) as writer:
            for _ in range(rows // 100):
                strings = pa.repeat(text, 100)
                lists = pa.ListArray.from_arrays(pa.array(range(101), pa.int32()), strings)
                writer.write(pa.record_batch([strings, lists], schema=schema))
        assert (tmp_path / "t.mosaic").stat().st_size < 1 << 20
        with smalti.open(tmp_path / "t.mosaic") as file:
            for column, indices in (("s", [0] * rows), ("s", range(rows)[::-1]), ("l", [0] * rows)):
                chunks = file.take(indices, [column])[column].chunks
                assert len(chunks) == 2
                assert sum(map(len, chunks)) == rows
                sizes = [pc.binary_length(chunk.values if column == "l" else chunk) for chunk in chunks]
                assert pa.chunked_array(sizes).unique().to_pylist() == [1 << 20]
                del chunks
            with pytest.raises(SchemaError, match="column 's': one array cannot hold the rows of a batch"):
                list(file.iter_batches(rows, ["s"], exact=True))
            assert sum(batch.num_rows for batch in file.iter_batches(1000, ["s"], exact=True)) == rows


def test_requests_of_a_take() -> None:
    """Of other row groups nothing is read; the slots of all wanted columns of a row group are read once."""
    layout = {"row_group_max_rows": 500, "num_buckets": 10, "page_size_threshold": 0}
    with s3_by_uri("takes") as server:
        smalti.write_table(wide(4000, 200), "s3://takes/t.mosaic", **layout)
        with smalti.open("s3://takes/t.mosaic") as file:
            groups = [file.layout(buckets=()).row_groups[group] for group in (2, 6)]
            spans = [(group.buckets[0].offset, group.buckets[-1].offset + group.buckets[-1].size) for group in groups]
            server.reset()
            assert file.take([3100, 1001, 3499, 1001], ["c07", "c150"])["c07"].to_pylist() == [
                float(row * 7 % 97) for row in (3100, 1001, 3499, 1001)
            ]
            requests = server.requests()
            for request in requests:
                start, end = map(int, request.span.removeprefix("bytes=").split("-"))
                assert any(low <= start and end < high for low, high in spans)
            assert len(requests) <= 4
            assert sum(request.sent for request in requests) < sum(high - low for low, high in spans)
            server.reset()
            file.take([3101, 1499], ["c07", "c150"])
            assert server.requests() == []  # the buckets are cached
