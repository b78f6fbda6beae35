"""Types of Polars and DuckDB through Arrow: into a file and back, by the engines' own roads."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import polars.testing
import pyarrow as pa
import pytest

import smalti
import smalti.duckdb
import smalti.polars
from smalti.file.streams import Scannable

DAY = dt.datetime(2026, 11, 16, 9, 30)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    columns: dict[str, tuple[Any, Any]] = {
        "enum": (["a", "b"], pl.Enum(["b", "a", "unused"])),
        "categorical": (["x", "y"], pl.Categorical),
        "uint8": ([1, 255], pl.UInt8),
        "uint64": ([1, 2**64 - 1], pl.UInt64),
        "float32": ([1.5, float("inf")], pl.Float32),
        "decimal": ([Decimal("1.50"), Decimal("-2.25")], pl.Decimal(20, 2)),
        "duration": ([dt.timedelta(1), dt.timedelta(microseconds=1)], pl.Duration("us")),
        "duration of ms": ([dt.timedelta(1), dt.timedelta(milliseconds=1)], pl.Duration("ms")),
        "time": ([dt.time(1, 2, 3, 4), dt.time(0)], pl.Time),
        "date": ([dt.date(2026, 11, 16), dt.date(1, 1, 1)], pl.Date),
        "moment": ([DAY, dt.datetime(1, 1, 1)], pl.Datetime("us")),
        "moment with zone": ([DAY, DAY], pl.Datetime("ns", "Europe/Berlin")),
        "list": ([[1], []], pl.List(pl.UInt16)),
        "list of enum": ([["a"], []], pl.List(pl.Enum(["b", "a"]))),
        "array": ([[1.0, 2.0], [3.0, None]], pl.Array(pl.Float32, 2)),
        "struct": ([{"a": 1, "b": "x"}, {"a": None, "b": "y"}], pl.Struct({"a": pl.UInt8, "b": pl.String})),
        "nested": (
            [[{"a": {"c": "x"}}], [{"a": None}]],
            pl.List(pl.Struct({"a": pl.Struct({"c": pl.Enum(["y", "x"])})})),
        ),
        "binary": ([b"a", b""], pl.Binary),
        "null": ([None, None], pl.Null),
        "boolean": ([True, False], pl.Boolean),
    }
    return pl.DataFrame({name: pl.Series([*values, None], dtype=dtype) for name, (values, dtype) in columns.items()})


def test_polars(tmp_path: Path, frame: pl.DataFrame) -> None:
    path = tmp_path / "x.mosaic"
    smalti.write_table(frame, path)
    with smalti.open(path) as file:
        polars.testing.assert_frame_equal(file.to_polars(), frame)
    lazy = smalti.polars.scan_mosaic(path)
    polars.testing.assert_frame_equal(lazy.collect(), frame)
    assert {**lazy.collect_schema()} == {
        **frame.schema,
        # Entries in lists are known when values are read.
        "list of enum": lazy.collect_schema()["list of enum"],
        "nested": lazy.collect_schema()["nested"],
    }
    rows = lazy.filter(pl.col("struct").struct.field("a") == 1).select(pl.col("struct").struct.field("b"), "enum")
    assert rows.collect().rows() == [("x", "a")]
    assert lazy.filter(pl.col("uint64") > 2**63).select("uint8").collect().rows() == [(255,)]
    assert lazy.filter(pl.col("duration") < dt.timedelta(1)).select("time").collect().rows() == [(dt.time(0),)]


LOSSLESS = {
    "UUID": ("uuid '00000000-0000-0000-0000-000000000007'", "binary"),
    "HUGEINT": ("170141183460469231731687303715884105727::HUGEINT", "binary"),
    "BIT": ("'101'::BIT", "binary"),
    "JSON": ("'{}'::JSON", "string"),
    "TIME WITH TIME ZONE": ("TIMETZ '01:02:03+02'", "binary"),
    "BOOLEAN": ("true", "int8"),
    "UBIGINT": ("18446744073709551615::UBIGINT", "decimal128(20, 0)"),
    "UTINYINT": ("3::UTINYINT", "int16"),
    "TIME": ("TIME '01:02:03.000004'", "int64"),
    "TIMESTAMP_S": ("TIMESTAMP_S '2020-01-01'", "timestamp[ms]"),
    "DECIMAL(38,2)": ("1.5::DECIMAL(38,2)", "decimal128(38, 2)"),
    "FLOAT[2]": ("[1, 2]::FLOAT[2]", "list<: float>"),
    "MAP(VARCHAR, INTEGER)": ("MAP {'a': 1}", "map<string, int32>"),
    "STRUCT(a INTEGER, b VARCHAR)": ("{'a': 1, 'b': 'x'}", "bool"),
    "STRUCT(a INTEGER)[]": ("[{'a': 1}]", "list<l: bool not null>"),
}


@pytest.mark.parametrize("type_", LOSSLESS)
def test_duckdb(tmp_path: Path, type_: str) -> None:
    """DuckDB names its own types in Arrow's extension types, if it is asked to, and knows them again."""
    expression, stored = LOSSLESS[type_]
    path = tmp_path / "x.mosaic"
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        relation = connection.sql(f"SELECT {expression} AS x UNION ALL SELECT NULL")
        smalti.write_table(relation, path)
        found = smalti.duckdb.query(f"SELECT x FROM '{path}'", connection=connection)
        assert found is not None
        assert [str(each) for each in found.types] == [type_]
        assert found.fetchall() == relation.fetchall()
    assert str(smalti.read_table(path, logical=False).schema.field(0).type) == stored


def test_duckdb_refused(tmp_path: Path) -> None:
    """What Parquet has no place for either; an enum becomes a dictionary, which DuckDB reads as text."""
    with duckdb.connect() as connection:
        for expression in ("INTERVAL 3 DAY", "union_value(k := 1)"):
            with pytest.raises(smalti.SchemaError, match="no place in Mosaic"):
                smalti.write_table(connection.sql(f"SELECT {expression} AS x"), tmp_path / "x.mosaic")
        connection.execute("CREATE TYPE mood AS ENUM ('b', 'a')")
        smalti.write_table(connection.sql("SELECT 'a'::mood AS x"), tmp_path / "x.mosaic")
    with smalti.open(tmp_path / "x.mosaic") as file:
        assert file.read()["x"].combine_chunks().dictionary.to_pylist() == ["b", "a"]


def test_duckdb_passes_filters_on_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are named as a whole by DuckDB, so all of a struct is read; its filters name the field."""
    users = pa.array([{"age": i % 100, "name": f"n{i}"} for i in range(1000)])
    smalti.write_table(pa.table({"id": range(1000), "user": users}), tmp_path / "x.mosaic", row_group_max_rows=100)
    asked: list[Any] = []
    scan = Scannable.scan
    monkeypatch.setattr(
        Scannable, "scan", lambda self, *given, **more: asked.append(given) or scan(self, *given, **more)
    )
    found = smalti.duckdb.query(f"SELECT user.name FROM '{tmp_path / 'x.mosaic'}' WHERE user.age > 98 AND id < 200")
    assert found is not None
    assert found.fetchall() == [("n99",), ("n199",)]
    assert "age" in str(asked[-1][1])
