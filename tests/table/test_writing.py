"""`smalti.write_dataset`, as a person types it."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import smalti
from smalti.table.names import HIVE_NULL
from smalti.table.partitions import by_directory
from smalti.table.staging import WrittenFile
from tests.support.children import ROOT
from tests.support.s3 import s3_by_uri

SALES = pa.table({"year": [2025, 2025, 2026, None], "item": ["a", "b", "c", None], "price": [0.5, 1.5, None, 2.5]})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(path: str = "shop", **options: Any) -> list[dict[str, Any]]:
    table = smalti.dataset(path, **options).to_table()
    return sorted(table.select(sorted(table.column_names)).to_pylist(), key=repr)


def given(*tables: pa.Table) -> list[dict[str, Any]]:
    return sorted((row for t in tables for row in t.select(sorted(t.column_names)).to_pylist()), key=repr)


class TestModes:
    def test_partitions_and_appends(self) -> None:
        summary = smalti.write_dataset(SALES, "shop", partition_by=["year"])
        assert summary.partitions == ["year=2025", "year=2026", "year=__HIVE_DEFAULT_PARTITION__"]
        assert repr(summary).startswith("DatasetSummary: 4 rows to 3 files in 3 partitions, ")
        assert (summary.num_rows, summary.num_files) == (4, 3)
        assert {Path("shop", file.path).stat().st_size for file in summary.files} == {
            f.num_bytes for f in summary.files
        }
        assert rows() == given(SALES)
        smalti.write_dataset(SALES.slice(2), "shop", partition_by="year", mode="append")
        assert rows() == given(SALES, SALES.slice(2))

    def test_overwrites_all_or_some_partitions(self) -> None:
        smalti.write_dataset(SALES, "shop", partition_by=["year"])
        new = pa.table({"year": [2026], "item": ["z"], "price": [9.0]})
        smalti.write_dataset(new, "shop", partition_by=["year"], mode="overwrite_partitions")
        assert rows() == given(SALES.take([0, 1, 3]), new)
        smalti.write_dataset(new, "shop", partition_by=["year"], mode="overwrite")
        assert rows() == given(new)
        # A table may be written over by what is read from it, and in another order of partitions.
        smalti.write_dataset(smalti.scan("shop"), "shop", partition_by=["item"], mode="overwrite")
        assert rows() == given(new)

    def test_says_what_is_wrong_and_changes_nothing(self) -> None:
        smalti.write_dataset(SALES, "shop", partition_by=["year"])
        Path("a.mosaic").touch()
        mistakes: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (FileExistsError, r'mode="append" adds to them, mode="overwrite" replaces them', {}),
            (smalti.MosaicError, "unknown mode: found ignore, expected 'error' or 'append'", {"mode": "ignore"}),
            (smalti.SchemaError, r"partitioned in another way: found \[\], expected \['year'\]", {"mode": "append"}),
            (smalti.SchemaError, "no column 'yaer' to partition by; did you mean 'year'", {"partition_by": "yaer"}),
            (smalti.MosaicError, "needs columns to partition by", {"mode": "overwrite_partitions"}),
            (TypeError, "unknown writer option 'compresion'; did you mean 'compression'", {"compresion": "none"}),
            (TypeError, "did you mean 'partition_by'", {"partitioning": ["year"]}),
            (FileExistsError, "A file, where a directory is to be written", {"path": "a.mosaic"}),
        ]
        for kind, message, options in mistakes:
            with pytest.raises(kind, match=message):
                smalti.write_dataset(SALES, **{"path": "shop", **options})
        other = pa.table({"year": [2025], "item": [[1]]})
        with pytest.raises(smalti.SchemaError, match="item"):
            smalti.write_dataset(other, "shop", partition_by="year", mode="append")
        assert rows() == given(SALES)

    def test_a_failure_leaves_nothing(self) -> None:
        def broken() -> Iterator[pa.RecordBatch]:
            yield from SALES.to_batches()
            raise RuntimeError("no more rows")

        with pytest.raises(RuntimeError, match="no more rows"):
            smalti.write_dataset(broken(), "shop", partition_by="year")
        assert not [path for path in Path("shop").rglob("*") if path.is_file()]

    def test_an_empty_table_keeps_its_schema(self) -> None:
        assert smalti.write_dataset(SALES.slice(0, 0), "shop", partition_by="year").num_rows == 0
        assert smalti.dataset("shop").schema.names == ["item", "price", "year"]
        smalti.write_dataset(SALES.slice(0, 0), "shop", partition_by="year", mode="append")
        assert len(smalti.dataset("shop").files) == 1


class TestData:
    @pytest.mark.parametrize(
        "data",
        [
            SALES,
            SALES.to_reader(max_chunksize=1),
            SALES.to_batches(max_chunksize=1),
            (batch for batch in SALES.to_batches(max_chunksize=2)),
            pl.DataFrame(SALES),
            pl.DataFrame(SALES).lazy(),
            SALES.to_pandas().astype({"year": "Int64"}),
        ],
        ids=["table", "reader", "list of batches", "generator", "polars", "lazy polars", "pandas"],
    )
    def test_any_arrow_data(self, data: Any) -> None:
        smalti.write_dataset(data, "shop", partition_by=["year"], compression_level=3)
        assert rows() == given(SALES)

    def test_iterables_have_one_schema(self) -> None:
        smalti.write_dataset(iter(()), "shop", schema=SALES.schema)
        assert smalti.dataset("shop").schema == SALES.schema
        with pytest.raises(smalti.SchemaError, match="no batch, and no schema either"):
            smalti.write_dataset([], "none")
        with pytest.raises(smalti.SchemaError, match=r"a batch has other columns than the schema: found \['price'\]"):
            smalti.write_dataset([SALES, SALES.drop(["price"])], "none")
        with pytest.raises(TypeError, match=r"expected a Table.*, got dict; pyarrow.table makes a table of it"):
            smalti.write_dataset({"a": [1]}, "none")
        with pytest.raises(TypeError, match=r"expected a Table.*, got str; smalti.jobs.convert reads files"):
            smalti.write_dataset("a.csv", "none")

    def test_a_pandas_index_comes_back(self) -> None:
        frame = pd.DataFrame({"day": ["mo", "tu"], "x": [1, 2]}, index=pd.Index([7, 8], name="key"))
        smalti.write_dataset(frame, "shop", partition_by="day")
        assert smalti.dataset("shop").to_pandas().index.tolist() == [7, 8]

    def test_partition_values_of_any_type(self) -> None:
        when = datetime.date(2026, 1, 31)
        table = pa.table(
            {
                "date": [when] * 3,
                "number": [1.0, 2.5, None],
                "view": pa.array(["a/b", "", None], pa.string_view()),
                "runs": pa.RunEndEncodedArray.from_arrays([3], [True]),
                "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
                "v": pa.RunEndEncodedArray.from_arrays([2, 3], [5, 6]),
            }
        )
        keys = ["date", "number", "view", "runs", "kind"]
        summary = smalti.write_dataset(table, "shop", partition_by=keys)
        assert summary.partitions == [
            "date=2026-01-31/number=1.0/view=a%2Fb/runs=true/kind=x",
            "date=2026-01-31/number=2.5/view=/runs=true/kind=y",
            f"date=2026-01-31/number={HIVE_NULL}/view={HIVE_NULL}/runs=true/kind=x",
        ]
        assert sorted(smalti.dataset("shop").to_table(["v"])["v"].to_pylist()) == [5, 5, 6]

    @pytest.mark.parametrize("days", [-719_163, 2_932_897, 13_890_172])
    def test_partition_values_of_years_that_cannot_be_read_back(self, days: int) -> None:
        """The last day of the year 0, the first of 10000, and a day of 40000, which Arrow writes as "out of range"."""
        day = pa.array([days], pa.int32()).cast(pa.date32())
        for values in (day, day.cast(pa.timestamp("us")), day.dictionary_encode()):
            with pytest.raises(smalti.SchemaError, match=r"'d': .* cannot be a partition value.*the years 1 to 9999"):
                smalti.write_dataset(pa.table({"d": values, "x": [1]}), "far", partition_by="d")
        assert not list(Path("far").rglob("*.mosaic"))


class TestSizes:
    def test_rows_of_many_partitions_in_turn_stay_in_order(self) -> None:
        table = pa.table({"p": [number % 37 for number in range(5000)], "n": range(5000)})
        (batch,) = table.to_batches()
        assert [directory for directory, _ in by_directory(batch.slice(40, 37), ["p"])][:2] == ["p=3", "p=4"]
        smalti.write_dataset(table.to_batches(max_chunksize=1000), "shop", partition_by="p")
        read = smalti.dataset("shop")
        assert len(read.files) == 37
        for number in (0, 36):
            found = read.to_table(["n"], [("p", "=", number)])["n"].to_pylist()
            assert found == list(range(number, 5000, 37))

    def test_files_end_by_size_and_rows(self) -> None:
        table = pa.table({"n": range(1000)})
        files = smalti.write_dataset(table, "shop", max_file_rows=300).files
        assert [file.num_rows for file in files] == [300, 300, 300, 100]
        assert isinstance(files[0], WrittenFile)
        many = smalti.write_dataset(table, "small", max_file_bytes=1500, compression="none")
        assert many.num_files > 2
        assert smalti.read_table("small").num_rows == 1000

    def test_columns_that_share_memory_count_each(self) -> None:
        values = pa.array(np.random.default_rng(1).integers(0, 1 << 62, 20_000))
        written = smalti.write_dataset(pa.table({f"x{n}": values for n in range(20)}), "shop", max_file_bytes=1 << 20)
        assert max(file.num_bytes for file in written.files) < 2 << 20

    def test_more_partitions_than_open_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("smalti.table.writing.most_open_files", lambda _: 4)
        table = pa.table({"p": [number % 10 for number in range(100)], "n": range(100)})
        smalti.write_dataset(table.to_batches(max_chunksize=50), "shop", partition_by="p")
        assert rows() == given(table)

    def test_memory_is_bounded(self) -> None:
        """Five times as many rows as may wait in memory, each batch with rows of every partition."""
        code = """
import resource, pyarrow as pa, smalti, smalti.table.staging as staging, sys
import numpy as np
limit = staging.ROW_GROUP_BYTES = 8 << 20
def batches():
    for number in range(40):
        values = np.random.default_rng(number).integers(0, 1 << 60, 16 << 10)
        yield pa.record_batch({"p": np.arange(16 << 10) % 20, **{f"x{i}": values + i for i in range(8)}})
smalti.write_dataset((b for _, b in zip(range(2), batches())), "first", partition_by="p")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
summary = smalti.write_dataset(batches(), "shop", partition_by="p")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
assert summary.num_rows == 40 * (16 << 10) and summary.num_files == 20
assert after - before < 5 * limit, (after - before) / limit
"""
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def test_an_append_fits_every_file(tmp_path: Path) -> None:
    """Columns that the first file lacks are looked up in others; otherwise the table could not be read any more."""
    for columns in ({"a": [1]}, {"a": [2], "b": [0.5]}, {"a": [3]}):
        smalti.write_dataset(pa.table(columns), tmp_path / "t", mode="append")
    with pytest.raises(smalti.SchemaError, match="files disagree on the type of a column"):
        smalti.write_dataset(pa.table({"a": [4], "b": ["x"]}), tmp_path / "t", mode="append")
    smalti.write_dataset(pa.table({"a": [4], "c": ["x"]}), tmp_path / "t", mode="append")
    assert sorted(smalti.read_table(tmp_path / "t")["a"].to_pylist()) == [1, 2, 3, 4]


WRITER = """
import sys, pyarrow as pa, smalti
path, number = sys.argv[1], int(sys.argv[2])
for turn in range(3):
    table = pa.table({"writer": [number] * 5, "turn": [turn] * 5, "n": range(5)})
    smalti.write_dataset(table, path, partition_by="turn", mode="append")
"""


@pytest.mark.parametrize("place", ["local", "s3"])
def test_processes_that_append_at_once_lose_nothing(place: str, tmp_path: Path) -> None:
    with s3_by_uri("together") as _:
        path = str(tmp_path / "shared") if place == "local" else "s3://together/shared"
        command = [sys.executable, "-c", WRITER, path]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        running = [subprocess.Popen([*command, str(number)], env=environment) for number in range(2)]
        assert [process.wait() for process in running] == [0, 0]
        found = Counter(tuple(row.values()) for row in smalti.read_table(path, ["writer", "turn", "n"]).to_pylist())
    assert found == Counter((writer, turn, n) for writer in range(2) for turn in range(3) for n in range(5))


def test_on_s3_as_on_disk() -> None:
    with s3_by_uri("shop"):
        for mode in ("error", "append", "overwrite", "overwrite_partitions"):
            for path in ("s3://shop/t", "t"):
                smalti.write_dataset(SALES, path, partition_by=["year"], mode=mode)
            assert rows("s3://shop/t") == rows("t")
        assert pc.sum(smalti.read_table("s3://shop/t", ["price"])["price"]).as_py() == 4.5
