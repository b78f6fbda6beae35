"""What the Java provider adds: one list of files for all scans, figures for the planner, answers from the index."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.errors import MosaicError
from smalti.spark.setup import jar
from smalti.spark.setup.java import ensure_java


def load(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("mosaic").options(**options).load(str(path))


def plan(frame: Any, mode: str = "simple") -> str:
    explain = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    return str(frame._jdf.queryExecution().explainString(explain.fromString(mode)))


class TestSnapshot:
    def test_all_scans_of_a_frame_read_the_same_files(self, spark: Any, tmp_path: Path) -> None:
        smalti.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.mosaic")
        frame = load(spark, tmp_path)
        assert len(frame.collect()) == 2
        smalti.write_table(pa.table({"x": [3]}), tmp_path / "b.mosaic")
        assert frame.alias("l").join(frame.alias("r"), "x").count() == 2
        assert frame.count() == 2
        assert load(spark, tmp_path).count() == 3

    def test_dropped_columns_are_not_nulls(self, spark: Any, tmp_path: Path) -> None:
        spark.range(3).selectExpr("id", "id AS gone").write.format("mosaic").save(str(tmp_path / "t"))
        frame = load(spark, tmp_path / "t")
        spark.range(2).write.format("mosaic").mode("overwrite").save(str(tmp_path / "t"))
        with pytest.raises(Exception, match="RemovedError"):
            frame.select("gone").collect()

    def test_a_table_is_listed_again_for_each_query(self, spark: Any, tmp_path: Path) -> None:
        spark.sql(f"CREATE TABLE listed (x BIGINT) USING mosaic LOCATION '{tmp_path}/t'")
        try:
            assert spark.table("listed").collect() == []
            spark.sql("INSERT INTO listed VALUES (1), (2)")
            assert spark.sql("SELECT count(*) FROM listed l JOIN listed r ON l.x = r.x").first()[0] == 2
        finally:
            spark.sql("DROP TABLE listed")
        assert len(list((tmp_path / "t").glob("*.mosaic"))) > 0, "the table is external"


def test_partitions_are_shown_and_dropped(spark: Any, tmp_path: Path) -> None:
    spark.sql(
        "CREATE TABLE parts (x BIGINT, day DATE, c STRING) USING mosaic PARTITIONED BY (day, c) "
        f"LOCATION '{tmp_path}/t'"
    )
    try:
        spark.sql("INSERT INTO parts VALUES (1, DATE'2024-02-29', 'a'), (2, DATE'2024-02-29', 'b'), (3, NULL, 'a')")
        shown = sorted(row[0] for row in spark.sql("SHOW PARTITIONS parts").collect())
        assert shown == ["day=2024-02-29/c=a", "day=2024-02-29/c=b", "day=null/c=a"]
        assert spark.sql("SHOW PARTITIONS parts PARTITION (c = 'b')").count() == 1
        spark.sql("ALTER TABLE parts DROP PARTITION (day = DATE'2024-02-29', c = 'a')")
        assert sorted(row.x for row in spark.table("parts").collect()) == [2, 3]
        spark.sql("INSERT OVERWRITE parts PARTITION (day = DATE'2024-02-29') SELECT 9, 'b'")
        assert sorted(row.x for row in spark.table("parts").collect()) == [3, 9]
        spark.sql("TRUNCATE TABLE parts")
        assert spark.table("parts").collect() == spark.sql("SHOW PARTITIONS parts").collect() == []
    finally:
        spark.sql("DROP TABLE parts")


def test_a_table_without_partitions_is_one(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE whole (id BIGINT) USING mosaic LOCATION '{tmp_path}/t'")
    try:
        spark.sql("INSERT INTO whole VALUES (1), (2)")
        spark.range(3, 4).writeTo("whole").overwritePartitions()
        assert spark.table("whole").collect() == [(3,)]
    finally:
        spark.sql("DROP TABLE whole")


KEPT = [("id", "bigint"), ("x", "int"), ("day", "int")]


@pytest.fixture(scope="module")
def kept(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of a table with a row and properties. What is refused leaves both as they are."""
    path = str(tmp_path_factory.mktemp("kept") / "t")
    spark.sql(f"CREATE TABLE kept (id BIGINT, x INT, day INT) USING mosaic PARTITIONED BY (day) LOCATION '{path}'")
    spark.sql("INSERT INTO kept VALUES (1, 2, 3)")
    spark.sql("ALTER TABLE kept SET TBLPROPERTIES ('a' = 'b')")
    yield path
    assert spark.table("kept").collect() == [(1, 2, 3)]
    spark.sql("DROP TABLE kept")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "RENAME COLUMN x TO y",
            r"RENAME COLUMN: files keep the name.*jobs\.rename_columns\(\".*/t\", \{\"x\": \"y\"\}\)",
        ),
        ("ALTER COLUMN x TYPE STRING", r"to column x STRING: files have int32. Run smalti\.jobs\.replace_columns"),
        ("REPLACE COLUMNS (id BIGINT, x DATE, day INT)", "to column x DATE: files have int32"),
        ("CLUSTER BY (x)", "CLUSTER BY: files are not written in that order"),
        ("ADD COLUMN y INT NOT NULL", "rows that are there already have nulls"),
        ("ADD COLUMN y INT AFTER day", "to columns id, x, day, y: Spark wants the partition columns, day, at the end"),
        ("ALTER COLUMN day FIRST", "to columns day, id, x:"),
        ("DROP COLUMN day", "to columns id, x:"),
        ("DROP COLUMNS (id, x)", "to columns day:"),
        ("REPLACE COLUMNS (y INT)", "to columns y:"),
        ("ADD PARTITION (day = 2)", "there as soon as it has rows"),
    ],
)
def test_alterations_that_files_cannot_follow(spark: Any, kept: str, statement: str, reason: str) -> None:
    """They are refused by name, and the table is as it was: neither nulls, nor errors inside Spark."""
    with pytest.raises(Exception, match=reason) as refused:
        spark.sql(f"ALTER TABLE kept {statement}")
    assert kept in str(refused.value) or "PARTITION" in statement
    assert spark.table("kept").dtypes == KEPT


def renamed_field(array: pa.Array) -> pa.Array:
    """A struct with its only field called y."""
    return pa.StructArray.from_arrays(array.flatten(), ["y"], mask=array.is_null())


def test_the_catalog_follows_the_files(spark: Any, tmp_path: Path) -> None:
    """Names and types that the files have, or are read as, are taken up. In between, a warning names the statement."""
    spark.sql(f"CREATE TABLE followed (a INT, b INT DEFAULT 7) USING mosaic LOCATION '{tmp_path}/t'")
    logged = spark._jvm.java.io.StringWriter()
    log4j = spark._jvm.org.apache.logging.log4j
    logger = log4j.LogManager.getLogger("smalti.spark")
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, logged, "kept", False, True)
    appender.start()
    try:
        spark.sql("INSERT INTO followed VALUES (1, 2)")
        spark.sql("ALTER TABLE followed ALTER COLUMN b TYPE BIGINT")
        spark.sql("ALTER TABLE followed ADD COLUMNS (more STRING, most INT DEFAULT 5)")  # beside a DEFAULT
        assert spark.table("followed").first() == (1, 2, None, 5)
        jobs.rename_columns(tmp_path / "t", {"a": "c"})
        log4j.core.config.Configurator.setLevel("smalti.spark", log4j.Level.WARN)
        logger.addAppender(appender)
        assert spark.table("followed").first() == (None, 2, None, 5)
        assert "files without a, more, read as null, and with c, which the catalog does not know" in logged.toString()
        assert logged.toString().count("RENAME COLUMN") == 1
        spark.sql("ALTER TABLE followed RENAME COLUMN a TO c")
        assert spark.table("followed").select("c", "b").first() == (1, 2)
        spark.sql("ALTER TABLE followed ADD COLUMN s STRUCT<x: INT>")
        spark.sql("INSERT INTO followed (c, s) VALUES (3, named_struct('x', 4))")
        with pytest.raises(Exception, match="RENAME COLUMN: files keep the name"):
            spark.sql("ALTER TABLE followed RENAME COLUMN s.x TO y")
        jobs.replace_columns(tmp_path / "t", lambda rows: {"s": renamed_field(rows["s"])}, columns=["s"])
        spark.sql("ALTER TABLE followed RENAME COLUMN s.x TO y")
        assert spark.table("followed").where("c = 3").select("s.y", "b").first() == (4, 7)
    finally:
        logger.removeAppender(appender)
        log4j.core.config.Configurator.setLevel("smalti.spark", log4j.Level.OFF)
        spark.sql("DROP TABLE followed")


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("DELETE FROM {t} WHERE id = 1", r'DELETE .. WHERE, .*jobs\.delete\("{path}", where\)'),
        ("UPDATE {t} SET id = 1", r'UPDATE, .*jobs\.update\("{path}", '),
        (
            "MERGE INTO {t} USING (SELECT 1L AS id) s ON s.id = {t}.id WHEN MATCHED THEN DELETE",
            r'MERGE INTO, .*jobs\.merge\("{path}", ',
        ),
    ],
)
def test_changes_of_rows_name_their_job(spark: Any, kept: str, statement: str, call: str) -> None:
    with pytest.raises(Exception, match=call.replace("{path}", kept)):
        spark.sql(statement.format(t="kept"))


class TestReplaceWhere:
    """Whole files are replaced, so only conditions on partition columns can be."""

    @pytest.fixture
    def table(self, spark: Any, tmp_path: Path) -> Iterator[str]:
        spark.sql(
            "CREATE TABLE replaced (id BIGINT, `event-day` INT) USING mosaic PARTITIONED BY (`event-day`) "
            f"LOCATION '{tmp_path}/t'"
        )
        spark.sql("INSERT INTO replaced VALUES (1, 1), (2, 2), (3, NULL)")
        yield "replaced"
        spark.sql("DROP TABLE replaced")

    @pytest.mark.parametrize(
        "condition", ["id = 1", "id <=> NULL", "id = 1 AND `event-day` = 1", "`event-day` = 1 AND `event-day` = 2"]
    )
    def test_other_conditions_are_refused(self, spark: Any, table: str, condition: str) -> None:
        with pytest.raises(Exception, match=r"(?i)overwrite"):
            spark.sql(f"INSERT INTO {table} REPLACE WHERE {condition} SELECT 9, 1")
        assert sorted(row.id for row in spark.table(table).collect()) == [1, 2, 3]

    def test_conditions_on_partitions(self, spark: Any, table: str) -> None:
        spark.sql(f"INSERT INTO {table} REPLACE WHERE `event-day` = 1 SELECT 9, 1")
        assert sorted(row.id for row in spark.table(table).collect()) == [2, 3, 9]
        spark.sql(f"INSERT OVERWRITE {table} PARTITION (`event-day` = 2) SELECT 8")
        assert sorted(row.id for row in spark.table(table).collect()) == [3, 8, 9]
        spark.sql(f"INSERT OVERWRITE {table} PARTITION (`event-day` = NULL) SELECT 7")
        assert sorted(row.id for row in spark.table(table).collect()) == [7, 8, 9]

    def test_partitions_of_every_type(self, spark: Any, tmp_path: Path) -> None:
        """Spark says `b` for `b <=> true`, and that it is not null, and `x IS NULL` for `x <=> NULL`."""
        spark.sql(
            "CREATE TABLE typed (i INT, b BOOLEAN, n DECIMAL(6, 2), d DATE) USING mosaic PARTITIONED BY (b, n, d) "
            f"LOCATION '{tmp_path}/typed'"
        )
        try:
            spark.sql(
                "INSERT INTO typed VALUES (1, true, 1.5, DATE'2024-02-29'), (2, false, NULL, NULL), (3, NULL, 0, NULL)"
            )
            spark.sql("INSERT OVERWRITE typed PARTITION (b = true, n = 1.5, d = '2024-02-29') SELECT 9")
            assert sorted(row.i for row in spark.table("typed").collect()) == [2, 3, 9]
            spark.sql("INSERT OVERWRITE typed PARTITION (b = false) SELECT 8, 1.5, DATE'2024-02-29'")
            assert sorted(row.i for row in spark.table("typed").collect()) == [3, 8, 9]
            spark.sql("INSERT OVERWRITE typed PARTITION (b = NULL) SELECT 7, 1.5, DATE'2024-02-29'")
            assert sorted(row.i for row in spark.table("typed").collect()) == [7, 8, 9]
        finally:
            spark.sql("DROP TABLE typed")

    def test_directories_that_are_spelled_otherwise(self, spark: Any, table: str, tmp_path: Path) -> None:
        (tmp_path / "t/event-day=2").rename(tmp_path / "t/Event-Day=2")
        with pytest.raises(Exception, match="partitioned in another way"):
            spark.sql(f"INSERT OVERWRITE {table} PARTITION (`event-day` = 2) SELECT 8")


def test_collations_are_not_known_to_the_index(spark: Any, tmp_path: Path) -> None:
    """Texts that differ in case are equal there, and their order is another than that of their bytes."""
    text = "STRING COLLATE UTF8_LCASE"
    spark.sql(
        f"CREATE TABLE collated (s {text}, p {text}) USING mosaic PARTITIONED BY (p) LOCATION '{tmp_path}/t' "
        "TBLPROPERTIES ('statsColumns' = 'all')"
    )
    try:
        spark.sql("INSERT INTO collated VALUES ('a', 'x'), ('B', 'X')")
        assert tuple(spark.sql("SELECT min(s), max(s), count(s) FROM collated").first()) == ("a", "B", 2)
        assert [row[0] for row in spark.sql("SELECT count(*) FROM collated GROUP BY p").collect()] == [2]
        assert spark.sql("SELECT s FROM collated WHERE s = 'b'").collect() == [("B",)]
        assert spark.sql("SELECT s FROM collated WHERE p = 'x'").count() == 2
    finally:
        spark.sql("DROP TABLE collated")


def test_partitions_of_nan(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE nans (i INT, x DOUBLE) USING mosaic PARTITIONED BY (x) LOCATION '{tmp_path}/t'")
    try:
        for _ in range(2):
            spark.sql("INSERT INTO nans SELECT 1, double('NaN') UNION ALL SELECT 2, double('Infinity')")
        counted = {str(row[0]): row[1] for row in spark.sql("SELECT x, count(*) FROM nans GROUP BY x").collect()}
        assert counted == {"nan": 2, "inf": 2}
        assert spark.sql("SHOW PARTITIONS nans").count() == 2
    finally:
        spark.sql("DROP TABLE nans")


class TestIndex:
    """count, min and max without a task, where the index tells; in any other case by reading."""

    VALUES: dict[str, pa.Array] = {  # noqa: RUF012
        "i": pa.array([3, None, -7, 5], pa.int32()),
        "s": pa.array(["b", "ä", None, "a"]),
        "d": pa.array([dt.date(1969, 12, 31), dt.date(2024, 2, 29), None, None]),
        "t": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, None, dt.datetime(2024, 1, 1)]),
        "m": pa.array([Decimal("1.50"), Decimal("-2.25"), None, None], pa.decimal128(9, 2)),
        "b": pa.array([True, False, None, None]),
        "n": pa.array([None, None, None, None], pa.int64()),
        "f": pa.array([1.0, float("nan"), None, -1.0]),
        "e": pa.array([2, None, -1, 5], pa.duration("us")),
    }
    #: Columns whose least and greatest values the index does not tell.
    READ = ("f", "e")

    @pytest.fixture
    def frame(self, spark: Any, tmp_path: Path) -> Any:
        table = pa.table(self.VALUES)
        for part in (0, 1):
            path = tmp_path / f"t/p={part}/x.mosaic"
            path.parent.mkdir(parents=True)
            smalti.write_table(table.slice(2 * part, 2), path, stats_columns="all", row_group_max_rows=1)
        return load(spark, tmp_path / "t")

    def test_equal_to_reading(self, frame: Any) -> None:
        names = [*self.VALUES, "p"]
        aggregates = ["count(*)", *(f"{function}({name})" for name in names for function in ("count", "min", "max"))]
        told = [text for text in aggregates if text[4:-1] not in self.READ]
        answered = frame.selectExpr(*told)
        assert "LocalTableScan" in plan(answered)
        read = frame.where("abs(p) < 5").selectExpr(*told)  # such a filter is left to tasks
        assert "LocalTableScan" not in plan(read)
        assert repr(answered.collect()) == repr(read.collect())
        assert repr(frame.selectExpr("max(f)").collect()) == "[Row(max(f)=nan)]"
        assert frame.selectExpr("max(e)").first()[0] == dt.timedelta(microseconds=5)
        assert [tuple(row) for row in frame.groupBy("p").count().orderBy("p").collect()] == [(0, 2), (1, 2)]
        assert frame.selectExpr("count(DISTINCT s)").first()[0] == 3

    @pytest.mark.parametrize(
        ("where", "by"),
        [
            ("p = 1", ()),
            ("p IS NULL OR q > 'b'", ()),
            ("q <> 'b'", ("p",)),
            ("NOT (q <=> 'b')", ("q", "p")),
            ("NOT p IN (1, 7)", ("q",)),
            ("q LIKE 'a%' AND p < 2", ("p",)),
            ("p = 99", ()),
            ("p = 99", ("q",)),
        ],
    )
    def test_partitions_decide(self, spark: Any, tmp_path: Path, where: str, by: tuple[str, ...]) -> None:
        """Filters and groups of partition columns, also where they are null: as Spark finds them by reading."""
        for number, (part, text) in enumerate(
            [("1", "a"), ("1", "b"), ("2", "a%2Fb"), ("2", self.NULL), (self.NULL, "c")]
        ):
            path = tmp_path / f"t/p={part}/q={text}/x.mosaic"
            path.parent.mkdir(parents=True)
            smalti.write_table(pa.table({"i": [number, number + 10]}), path, stats_columns="all", row_group_max_rows=1)
        frame = load(spark, tmp_path / "t")
        aggregates = [
            f"{function} AS {name}" for name, function in zip("abc", ["count(*)", "min(i)", "max(q)"], strict=True)
        ]

        def found(rows: Any) -> Any:
            grouped = rows.groupBy(*by) if by else rows.groupBy()
            from pyspark.sql.functions import expr

            return grouped.agg(*map(expr, aggregates))

        read_all = frame.repartition(1)  # filters do not pass a shuffle by number, so tasks read all rows
        answered, read = found(frame.where(where)), found(read_all.where(where))
        assert "LocalTableScan" in plan(answered)
        assert "LocalTableScan" not in plan(read)
        assert sorted(map(repr, answered.collect())) == sorted(map(repr, read.collect()))
        kept = frame.where(where)
        assert "Filter" not in plan(kept).replace("PushedFilters", "").replace("RuntimeFilters", "")
        assert sorted(map(repr, kept.collect())) == sorted(map(repr, read_all.where(where).collect()))

    NULL = "__HIVE_DEFAULT_PARTITION__"

    def test_partition_columns_that_a_file_stores_decide_nothing(self, spark: Any, tmp_path: Path) -> None:
        for part, stored in ((1, {}), (2, {"p": [1, 2]})):
            path = tmp_path / f"t/p={part}/x.mosaic"
            path.parent.mkdir(parents=True)
            smalti.write_table(pa.table({"i": [part, part + 10], **stored}), path, stats_columns="all")
        frame = load(spark, tmp_path / "t")
        assert sorted(row.i for row in frame.where("p = 1").collect()) == [1, 2, 11]
        assert frame.where("p = 1").count() == 3

    def test_column_statistics(self, spark: Any, frame: Any) -> None:
        """For the cost-based optimizer, which has a filter on `i` leave a part of the rows."""
        spark.conf.set("spark.sql.cbo.enabled", "true")
        try:
            stats = frame.select("i", "p", "s", "f")._jdf.queryExecution().optimizedPlan().stats().attributeStats()
            told = {
                str(pair._1()).partition("#")[0]: pair._2()
                for pair in (stats.toSeq().apply(i) for i in range(stats.size()))
            }
            assert {name: (str(stat.nullCount()), str(stat.min()), str(stat.max())) for name, stat in told.items()} == {
                "i": ("Some(1)", "Some(-7)", "Some(5)"),
                "p": ("Some(0)", "Some(0)", "Some(1)"),
                "s": ("Some(1)", "Some(a)", "Some(ä)"),
            }
            assert [str(told[name].distinctCount()) for name in "ips"] == ["Some(3)", "Some(2)", "None"]
            rows = frame.where("i < 4").select("i")._jdf.queryExecution().optimizedPlan().stats().rowCount()
            assert 0 < int(str(rows.get())) < 4
        finally:
            spark.conf.unset("spark.sql.cbo.enabled")

    def test_a_file_without_statistics(self, spark: Any, frame: Any, tmp_path: Path) -> None:
        smalti.write_table(pa.table({"i": [99]}), tmp_path / "t/p=1/y.mosaic", stats_columns=[])
        frame = load(spark, tmp_path / "t")
        assert frame.selectExpr("max(i)", "count(s)", "count(*)").first()[:] == (99, 3, 5)
        assert "LocalTableScan" in plan(frame.selectExpr("count(*)"))

    def test_empty(self, spark: Any, tmp_path: Path) -> None:
        smalti.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "e.mosaic", stats_columns="all")
        assert load(spark, tmp_path).selectExpr("count(*)", "max(x)").first()[:] == (0, None)


class TestLess:
    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        """Four partitions with 100 rows each, in row groups of 50; ids are in order."""
        for part in range(4):
            path = tmp_path / f"t/p={part}/x.mosaic"
            path.parent.mkdir(parents=True)
            ids = list(range(part * 100, part * 100 + 100))
            rows = pa.table({"id": ids, "s": [f"{i * 7 % 100:03d}" if i % 9 else None for i in ids]})
            smalti.write_table(rows, path, stats_columns="all", row_group_max_rows=50)
        return tmp_path / "t"

    def test_explain_and_figures(self, spark: Any, table: Path) -> None:
        frame = load(spark, table)
        narrow = frame.where("id >= 130 AND id < 140 AND p = 1").select("s")
        text = plan(narrow, "formatted")
        for shown in (f"Location: {table}", "RowGroups: 1 of 8", "Files: 1 of 4", "id >= 130"):
            assert shown in text
        assert "ReadSchema: struct<id:bigint,s:string>" in text  # which rows are of p = 1, the directories tell
        assert "RowGroups: 0 of 8" in plan(frame.where("id = 1000"), "formatted")
        assert frame.where("id = 1000").collect() == []

        def size(of: Any) -> int:
            return int(str(of._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))

        whole = sum(path.stat().st_size for path in table.rglob("*.mosaic"))
        assert size(frame) == whole
        assert size(frame.where("p = 1")) < whole / 3
        assert size(frame.select("id")) < whole
        rows = frame._jdf.queryExecution().optimizedPlan().stats().rowCount()
        assert not rows.isDefined() or rows.get() == 400  # Spark 4.3 passes it on to its cost-based optimizer only

    def test_metrics(self, spark: Any, table: Path) -> None:
        load(spark, table).where("id < 75").select("s").write.format("noop").mode("overwrite").save()
        store = spark._jsparkSession.sharedState().statusStore()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        last = store.executionsList().apply(store.executionsList().size() - 1)
        values = store.executionMetrics(last.executionId())
        metrics = [last.metrics().apply(place) for place in range(last.metrics().size())]
        found = {
            metric.name(): values.get(metric.accumulatorId()).get()
            for metric in metrics
            if values.get(metric.accumulatorId()).isDefined()
        }
        assert found["Mosaic files read"] == "1"
        assert found["row groups read"] == "2"
        assert found["row groups skipped"] == "6"
        assert found["bytes read from Mosaic files"].endswith("B")
        assert "milliseconds in Python" in found

    def test_metrics_of_a_task_that_a_limit_ends(self, spark: Any, table: Path) -> None:
        few = load(spark, table, batchSize=10).where("length(s) > id % 2").limit(1)
        assert len(few.collect()) == 1
        scan = few._jdf.queryExecution().executedPlan()
        while scan.children().size():
            scan = scan.children().apply(0)
        assert scan.metrics().apply("files").value() >= 1
        assert scan.metrics().apply("bytes").value() > 0

    def test_limit(self, spark: Any, table: Path, touched: Any) -> None:
        frame = load(spark, table)
        few = frame.limit(60)
        assert "Files: 1 of 4" in plan(few)
        assert few.count() == 60
        assert sum(scan.files for scan in touched()) <= 1

    def test_first_in_order(self, spark: Any, table: Path) -> None:
        frame = load(spark, table)
        rows = sorted(frame.collect(), key=lambda row: (row.s is not None, row.s or "", -row.id))
        first = frame.orderBy("s", frame.id.desc()).limit(50)
        assert "PushedOrder" in plan(first)
        assert [row.id for row in first.collect()] == [row.id for row in rows[:50]]
        last = frame.orderBy(frame.s.desc_nulls_last(), frame.id.asc_nulls_last()).limit(7)
        expected = sorted((row for row in rows if row.s), key=lambda row: (row.s, -row.id), reverse=True)
        assert [row.id for row in last.collect()] == [row.id for row in expected[:7]]

    def test_joins_read_the_partitions_they_need(self, spark: Any, table: Path) -> None:
        """The others are damaged, after their tails were read."""
        frame = load(spark, table)
        for part in (0, 1, 3):
            path = table / f"p={part}/x.mosaic"
            data = bytearray(path.read_bytes())
            data[10] ^= 0xFF
            times = path.stat()
            path.write_bytes(data)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        days = spark.createDataFrame([(2, "wanted"), (3, "other")], "p int, name string").where("name = 'wanted'")
        days.write.format("noop").mode("overwrite").save()
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1MB")
        try:
            joined = frame.hint("merge").join(days.hint("broadcast"), "p").select("s")
            assert "dynamicpruning" in plan(joined)
            assert len(joined.collect()) == 100
        finally:
            spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")

    def test_hidden_column(self, spark: Any, table: Path) -> None:
        frame = load(spark, table)
        assert frame.columns == ["id", "s", "p"]
        row = frame.select("id", "_metadata.*").where("id = 260").first()
        path = table / "p=2/x.mosaic"
        assert (row.file_path, row.file_name, row.row_group) == (f"file://{path}", "x.mosaic", 1)
        assert row.row_index == 60
        assert row.file_size == row.file_block_length == path.stat().st_size
        assert abs(row.file_modification_time.timestamp() - path.stat().st_mtime) < 1
        assert frame.where("_metadata.row_group = 0").count() == 200
        assert frame.where("_metadata.row_index = 7").count() == 4
        assert frame.select("_metadata.row_index").distinct().count() == 100

    def test_row_numbers_are_those_of_parquet(self, spark: Any, tmp_path: Path) -> None:
        rows = spark.range(1000).selectExpr("id * 3 AS id", "id % 7 AS n").coalesce(1)
        rows.write.format("mosaic").option("rowGroupMaxRows", 90).save(str(tmp_path / "mosaic"))
        rows.write.parquet(str(tmp_path / "parquet"))
        found, expected = load(spark, tmp_path / "mosaic"), spark.read.parquet(str(tmp_path / "parquet"))
        for query in ("n = 3", "_metadata.row_index BETWEEN 88 AND 92", "id > 1500 AND _metadata.row_index % 2 = 0"):
            shown = [
                frame.where(query).select("_metadata.row_index", "id").orderBy("id").collect()
                for frame in (found, expected)
            ]
            assert shown[0] == shown[1]
            assert shown[0]


def test_an_option_comes_before_the_setting_of_the_session(spark: Any, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id", "1 AS day").write.format("mosaic").partitionBy("day").save(str(tmp_path / "t"))
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    try:
        assert dict(load(spark, tmp_path / "t").dtypes)["day"] == "string"
        assert dict(load(spark, tmp_path / "t", inferPartitionTypes="true").dtypes)["day"] == "int"
    finally:
        spark.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")


class TestJar:
    def test_other_versions(self, tmp_path: Path) -> None:
        with pytest.raises(MosaicError, match="jars are not there"):
            jar.provider_jar(tmp_path)
        (tmp_path / "spark-sql_2.13-3.5.1.jar").touch()
        with pytest.raises(MosaicError, match=r"Spark 3\.5\.1 was not tested, 4\.1\.x, 4\.2\.x, 4\.3\.x was"):
            jar.provider_jar(tmp_path)

    def test_java_accepts_the_classes(self) -> None:
        """Java checks what Janino has compiled when it loads a class, which sessions of our tests tell it not to."""
        path, jars = jar.provider_jar(), jar.spark_jars()
        with zipfile.ZipFile(path) as packed:
            names = [name.removesuffix(".class").replace("/", ".") for name in packed.namelist() if "jvm/" in name]
        assert "smalti.spark.jvm.MosaicScan" in names
        script = "".join(f'Class.forName("{name}");' for name in names)
        command = [ensure_java(), "-cp", os.pathsep.join([str(path), f"{jars}/*"])]
        command += ["org.codehaus.commons.compiler.samples.ScriptDemo", "-te", "java.lang.Exception", script]
        environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    def test_text_that_does_not_compile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv("JDK_JAVA_OPTIONS")  # Java says first that it has found them.
        monkeypatch.setattr(jar, "_sources", lambda: {"Bad.java": "class Bad { int x = nothing; }"})
        with pytest.raises(MosaicError, match=r"did not compile.*Bad\.java.*Line 1"):
            jar.provider_jar()
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
