"""Options of Polars' and DuckDB's own readers, and types of theirs that Arrow lacks."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import smalti
import smalti.duckdb
import smalti.polars
from tests.support.s3 import s3_by_uri

TABLE = pa.table({"id": range(6), "day": [1, 1, 2, 2, 3, 3]})


@pytest.fixture(autouse=True)
def _table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    smalti.write_dataset(TABLE, "t", partition_by="day")


def one_file() -> str:
    return smalti.dataset("t").files[0]


class TestPolars:
    def test_file_paths(self) -> None:
        frame = smalti.polars.scan_mosaic("t", include_file_paths="path")
        assert frame.collect_schema().names() == ["id", "day", "path"]
        found = frame.select("id", "path").collect()
        assert found["path"].n_unique() == 3
        assert set(found["path"]) == set(smalti.dataset("t").files)
        assert frame.filter(pl.col("path").str.contains("day=2")).select("id").collect()["id"].to_list() == [2, 3]
        assert frame.filter(pl.col("path") == one_file()).select("id").collect()["id"].to_list() == [0, 1]
        assert smalti.polars.scan_mosaic(one_file(), include_file_paths="path").collect().columns == ["id", "path"]
        with pytest.raises(smalti.SchemaError, match="the files have a column of this name"):
            smalti.polars.scan_mosaic("t", include_file_paths="id")
        with pytest.raises(smalti.MosaicError, match="opened by its path"):
            smalti.polars.scan_mosaic(Path(one_file()).read_bytes(), include_file_paths="path")

    def test_paths_rule_out_files(self) -> None:
        table = smalti.dataset("t", include_file_paths="path")
        Path(table.files[2]).write_bytes(b"no Mosaic file")
        assert table.to_table(["id"], [("path", "=", table.files[1])])["id"].to_pylist() == [2, 3]

    def test_paths_on_a_store_are_uris(self) -> None:
        with s3_by_uri("paths"):
            smalti.write_dataset(TABLE, "s3://paths/t")
            frame = smalti.polars.scan_mosaic("s3://paths/t", include_file_paths="path").collect()
            assert smalti.read_table(frame["path"][0]).num_rows == 6

    def test_hive_partitioning_and_rows(self) -> None:
        assert smalti.polars.scan_mosaic("t", hive_partitioning=False).collect().columns == ["id"]
        assert smalti.polars.scan_mosaic(one_file(), hive_partitioning=True).collect()["day"].to_list() == [1, 1]
        assert smalti.polars.scan_mosaic(one_file()).collect().columns == ["id"]
        lazy = smalti.polars.scan_mosaic("t", n_rows=3, row_index_name="row")
        assert lazy.collect().rows() == [(0, 0, 1), (1, 1, 1), (2, 2, 2)]
        assert lazy.filter(pl.col("id") > 1).collect().height == 1

    def test_integers_of_128_bits(self) -> None:
        values = [0, -(10**37), 10**37, None]
        frame = pl.DataFrame({"a": pl.Series(values, dtype=pl.Int128), "b": [1, 2, 3, 4]})
        smalti.write_table(frame, "wide.mosaic")
        assert smalti.read_table("wide.mosaic")["a"].to_pylist() == values
        assert (
            smalti.polars.scan_mosaic("wide.mosaic").collect().with_columns(pl.col("a").cast(pl.Int128)).equals(frame)
        )
        with pytest.raises(smalti.SchemaError, match="an integer has more digits than a decimal"):
            smalti.write_table(pl.DataFrame({"a": pl.Series([2**127 - 1], dtype=pl.Int128)}), io.BytesIO())


class TestDuckDB:
    def test_filename(self) -> None:
        found = smalti.duckdb.query("SELECT filename, sum(id) s FROM 't/' GROUP BY filename ORDER BY s")
        assert found is not None
        assert found.fetchall() == list(zip(smalti.dataset("t").files, [1, 5, 9], strict=True))
        relation = smalti.duckdb.scan("t", ["id"], filename=True)
        assert relation.columns == ["id", "filename"]
        last = smalti.dataset("t").files[2]
        assert relation.filter("filename LIKE '%day=3%'").fetchall() == [(4, last), (5, last)]
        named = smalti.duckdb.query("SELECT count(DISTINCT filename) FROM t", t=smalti.dataset("t"))
        assert named is not None
        assert named.fetchall() == [(3,)]

    def test_a_column_called_filename_stays(self) -> None:
        smalti.write_table(pa.table({"filename": ["mine"]}), "own.mosaic")
        found = smalti.duckdb.query("SELECT filename FROM 'own.mosaic'")
        assert found is not None
        assert found.fetchall() == [("mine",)]

    @pytest.mark.parametrize(
        ("sql", "params"),
        [
            ("SELECT id FROM 't/' WHERE id > ? AND day = ? ORDER BY id", [2, 2]),
            ("SELECT id FROM 't/' WHERE id > $1 AND day = $2 ORDER BY id", [2, 2]),
            ("SELECT id FROM 't/' WHERE id > $low AND day = $day ORDER BY id", {"low": 2, "day": 2}),
        ],
    )
    def test_parameters(self, sql: str, params: Any) -> None:
        with duckdb.connect() as connection:
            found = smalti.duckdb.query(sql, connection=connection, params=params)
            assert found is not None
            assert found.fetchall() == [(3,)]

    def test_types_that_arrow_lacks(self) -> None:
        """As docs/howto/engines.md says: exact by DuckDB's lossless conversion, else by their nearest type."""
        sql = (
            "SELECT uuid '12345678-1234-1234-1234-123456789abc' u, '{\"a\":1}'::JSON j, '12:00:00+02'::TIMETZ t, "
            "170141183460469231731687303715884105727::HUGEINT h, 7::HUGEINT small"
        )
        with duckdb.connect() as connection:
            smalti.write_table(connection.sql(f"SELECT u, j, t, small FROM ({sql})"), "near.mosaic")
            near = smalti.read_table("near.mosaic")
            assert near.schema.types == [pa.string(), pa.string(), pa.time64("us"), pa.decimal128(38, 0)]
            connection.execute("SET arrow_lossless_conversion = true")
            smalti.write_table(connection.sql(sql), "exact.mosaic")
            back = smalti.duckdb.scan("exact.mosaic", connection=connection)
            assert [str(kind) for kind in back.types] == ["UUID", "JSON", "TIME WITH TIME ZONE", "HUGEINT", "HUGEINT"]
            assert back.fetchall() == connection.sql(sql).fetchall()
        assert back is not None
        assert smalti.read_table("exact.mosaic", ["u"])["u"][0].as_py() == uuid.UUID(
            "12345678-1234-1234-1234-123456789abc"
        )


def test_one_dictionary_for_a_partition_column() -> None:
    """The batches of all files can go into one Arrow stream, whose dictionaries may not differ."""
    smalti.write_dataset(pa.table({"v": [1, 2, 3, 4], "k": ["b", "a", None, "c"]}), "d", partition_by="k")
    schema = pa.schema([("v", pa.int64()), ("k", pa.dictionary(pa.int8(), pa.string()))])
    table = smalti.dataset("d", schema=schema)
    batches = list(table.to_batches())
    assert [batch["k"].dictionary.to_pylist() for batch in batches] == [["a", "b", "c"]] * 4
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    found = pa.ipc.open_file(sink.getvalue()).read_all()
    assert sorted(map(str, found["k"].to_pylist())) == ["None", "a", "b", "c"]
    assert table.to_table(filters="k = 'a'")["v"].to_pylist() == [2]


def test_directories_that_are_values_alone() -> None:
    for year, month in (("2025", "01"), ("2026", "02")):
        Path("plain", year, month).mkdir(parents=True)
        smalti.write_table(pa.table({"v": [int(year)]}), f"plain/{year}/{month}/a.mosaic")
    smalti.write_table(pa.table({"v": [0]}), "plain/2027.mosaic")
    table = smalti.dataset("plain", partitioning=["year", "month"])
    assert table.to_table().to_pylist() == [
        {"v": 2025, "year": 2025, "month": "01"},
        {"v": 2026, "year": 2026, "month": "02"},
        {"v": 0, "year": None, "month": None},
    ]
    assert table.count_rows("year = 2026 and month = '02'") == 1
    with pytest.raises(ValueError, match="partitioning is \"hive\", a list of names or None, not 'directory'"):
        smalti.dataset("plain", partitioning="directory")
