"""Columns and row groups that are not needed are not read; rows are right with pruning and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.spark.setup import jar, provider
from tests.spark.conftest import ScanFigures

Touched = Callable[[], list[ScanFigures]]
COLUMNS = 200
ROWS = 4_000


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 columns of numbers that do not compress, ids 0 to 3,999 in row groups of 1,000, a bucket per column."""
    root = tmp_path_factory.mktemp("wide")
    columns = {f"c{i}": [(r * 2_654_435_761 + i * 40_503) % (1 << 62) for r in range(ROWS)] for i in range(COLUMNS)}
    smalti.write_table(
        pa.table({"id": list(range(ROWS)), "half": [r / 2 for r in range(ROWS)], **columns}),
        root / "wide.mosaic",
        num_buckets=COLUMNS + 2,
        row_group_max_rows=1000,
        stats_columns=["id", "half"],
    )
    return root


@pytest.fixture
def frame(spark: Any, wide: Path) -> Any:
    return spark.read.format("mosaic").load(str(wide))


def columns(scans: list[ScanFigures]) -> list[list[str]]:
    """The sets of columns that were read."""
    return sorted(scan.columns for scan in scans)


def row_groups(scans: list[ScanFigures]) -> int:
    return sum(scan.row_groups for scan in scans)


class TestColumns:
    """What tasks say they read: columns, and bytes as counted where the file is read."""

    def test_select(self, frame: Any, wide: Path, touched: Touched) -> None:
        frame.select("c7", "c11").toArrow()
        (scan,) = touched()
        assert scan.columns == ["c11", "c7"]
        size = (wide / "wide.mosaic").stat().st_size
        tails = scan.row_groups * (64 << 10)  # a task reads the end of the file, and at least one row group
        assert scan.bytes < tails + size * 4 / COLUMNS

    def test_full_width_reads_it_all(self, frame: Any, wide: Path, touched: Touched) -> None:
        frame.toArrow()
        assert sum(scan.bytes for scan in touched()) > (wide / "wide.mosaic").stat().st_size * 0.9

    def test_fields_of_structs(self, spark: Any, tmp_path: Path, touched: Touched) -> None:
        """Of a struct only the fields that a query needs, below lists too."""
        point = pa.struct([("x", pa.int8()), ("y", pa.int8())])
        user = pa.struct([("age", pa.int32()), ("name", pa.string()), ("seen", pa.list_(point))])
        cells = [None, {"age": 7, "name": "n", "seen": [{"x": 1, "y": 2}, None]}]
        (tmp_path / "t").mkdir()
        smalti.write_table(pa.table({"user": pa.array(cells, user)}), tmp_path / "t" / "a.mosaic", num_buckets=10)
        table = spark.read.format("mosaic").load(str(tmp_path / "t"))
        found = table.selectExpr("user.age", "user.seen.x", "user is null").collect()
        assert sorted(map(tuple, found), key=repr) == [(7, [1, None], False), (None, None, True)]
        assert [scan.schema for scan in touched()] == ["struct<user:struct<age:int,seen:array<struct<x:tinyint>>>>"]

    def test_count(self, frame: Any, touched: Touched) -> None:
        assert frame.count() == ROWS
        assert touched() == [], "the index tells"
        assert frame.where("half < 10 OR half > 1990").count() == 20 + 19
        assert columns(touched()) == [["half"]]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("SELECT c1 FROM wide WHERE c2 > 0", [["c1", "c2"]]),
            ("SELECT sum(c3) FROM wide GROUP BY id % 2", [["c3", "id"]]),
            ("SELECT a.c1 FROM wide a JOIN wide b ON a.id = b.id", [["c1", "id"], ["id"]]),
            ("SELECT c4 FROM wide UNION ALL SELECT c5 FROM wide", [["c4"], ["c5"]]),
            ("SELECT c6 FROM narrow", [["c6"]]),
            ("SELECT count(*) FROM wide WHERE c8 IS NOT NULL", [["c8"]]),
            ("SELECT * FROM (SELECT c1, c2 FROM wide) ORDER BY c1 LIMIT 3", [["c1", "c2"]]),
        ],
    )
    def test_sql(self, spark: Any, frame: Any, touched: Touched, query: str, expected: list[list[str]]) -> None:
        frame.createOrReplaceTempView("wide")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW narrow AS SELECT id, c6, c9 FROM wide")
        spark.sql(query).collect()
        for view in ("narrow", "wide"):
            spark.catalog.dropTempView(view)
        assert columns(touched()) == expected


class TestFilters:
    def test_row_groups_are_skipped(self, frame: Any, touched: Touched) -> None:
        assert frame.where("id >= 1500 AND id < 1600").select("c1").count() == 100
        assert row_groups(touched()) == 1
        assert frame.where("id IN (5, 3005)").count() == 2
        assert row_groups(touched()) == 2
        assert frame.where("id > 10000 OR id IS NULL").count() == 0

    def test_partitions_are_skipped(self, spark: Any, tmp_path: Path, touched: Touched) -> None:
        for day in range(4):
            path = tmp_path / f"t/day={day}/x.mosaic"
            path.parent.mkdir(parents=True)
            smalti.write_table(pa.table({"x": [day]}), path)
        days = spark.read.format("mosaic").load(str(tmp_path / "t"))
        assert [row.x for row in days.where("day = 2 OR day = 7").collect()] == [2]
        touched()
        assert [row.x for row in days.where("day > 2").collect()] == [3]
        assert [scan.files for scan in touched()] == [1]

    def test_nothing_is_lost_to_nan(self, spark: Any, tmp_path: Path) -> None:
        """To Spark NaN is greater than anything; statistics do not know of it."""
        nan = float("nan")
        smalti.write_table(pa.table({"x": [1.0, nan, None, -0.0]}), tmp_path / "t.mosaic", stats_columns="all")
        frame = spark.read.format("mosaic").load(str(tmp_path / "t.mosaic"))
        assert frame.where("x > 5").count() == 1
        assert frame.where("x >= 5").count() == 1
        assert frame.where("x = double('NaN')").count() == 1
        assert frame.where("NOT (x < 5)").count() == 1
        assert frame.where("x = 0").count() == 1
        assert frame.where("x IN (7, double('NaN'))").count() == 1

    def test_nothing_is_lost_to_rounding(self, spark: Any, tmp_path: Path) -> None:
        """Nanoseconds are rounded down for Spark; statistics have them whole."""
        column = pa.array([1_500], pa.timestamp("ns"))
        smalti.write_table(pa.table({"t": column}), tmp_path / "t.mosaic", stats_columns="all")
        frame = spark.read.format("mosaic").load(str(tmp_path / "t.mosaic"))
        assert frame.where("t = timestamp_ntz'1970-01-01 00:00:00.000001'").count() == 1


class TestWrongRows:
    """All scans of a DataFrame share one table; filters must not meet in it."""

    @pytest.fixture
    def table(self, spark: Any, tmp_path: Path) -> Any:
        for p in (1, 2, 3):
            path = tmp_path / f"t/p={p}/x.mosaic"
            path.parent.mkdir(parents=True)
            smalti.write_table(pa.table({"x": [10 * p, 10 * p + 1]}), path, stats_columns="all")
        return spark.read.format("mosaic").load(str(tmp_path / "t"))

    def test_self_union(self, table: Any) -> None:
        both = table.filter("p = 1").union(table.filter("p = 2")).select("x")
        assert sorted(row.x for row in both.collect()) == [10, 11, 20, 21]

    def test_self_join(self, table: Any) -> None:
        one, two = table.filter("x = 10").alias("a"), table.filter("x = 21").alias("b")
        assert [tuple(row) for row in one.crossJoin(two).select("a.x", "b.x").collect()] == [(10, 21)]
        joined = table.alias("a").join(table.alias("b"), "x").where("a.p = 1 AND b.p = 1")
        assert joined.count() == 2

    def test_plan_then_plan_then_collect(self, table: Any) -> None:
        a, b = table.filter("p = 1"), table.filter("p = 3")
        a.explain()
        b.explain()
        assert sorted(row.x for row in a.collect()) == [10, 11]
        assert sorted(row.x for row in b.collect()) == [30, 31]
        assert sorted(row.x for row in a.collect()) == [10, 11]

    def test_cached(self, table: Any) -> None:
        cached = table.filter("p < 3").cache()
        try:
            assert cached.filter("p = 2").count() == 2
            assert table.filter("p = 3").count() == 2
            assert cached.count() == 4
            assert table.filter("p < 3").filter("x = 11").count() == 1
            assert table.count() == 6
        finally:
            cached.unpersist()


class TestEnabling:
    def test_other_version(self, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(provider, "_has_provider", lambda _: False)
        monkeypatch.setattr(jar, "TESTED_VERSIONS", ("9.9.",))
        with pytest.raises(smalti.MosaicError, match=r"Spark 4\.\d\.\d was not tested, 9\.9\.x was"):
            provider.enable(spark)

    def test_enabling_twice_is_harmless(self, spark: Any, wide: Path) -> None:
        provider.enable(spark)
        provider.enable(spark)
        assert spark.read.format("mosaic").load(str(wide)).count() == ROWS


def test_smalti_does_not_import_pyspark() -> None:
    script = "import sys, smalti, smalti.spark, smalti.table.records; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
