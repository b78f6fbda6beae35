"""Plans that use a scan again, each compared with Parquet: a scan must give the same rows every time it is run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from tests.support.long import LONG

FORMATS = ("parquet", "mosaic")
RECURSIVE = """
    WITH RECURSIVE t(id, depth) AS (
        VALUES (1, 0) UNION ALL SELECT tree.id, depth + 1 FROM tree JOIN t ON tree.parent_id = t.id
    ) SELECT * FROM t
"""
QUERIES = {
    "recursion": RECURSIVE,
    "recursion over partitions": """
        WITH RECURSIVE t(x, day) AS (
            SELECT 0L, 0
            UNION ALL SELECT sales.id, t.day + 1 FROM sales JOIN t ON sales.day = t.day WHERE sales.id % 7 = 0
        ) SELECT day, count(*), sum(x) FROM t GROUP BY day
    """,
    "common table": "WITH c AS (SELECT day, sum(id) s FROM sales GROUP BY day) SELECT * FROM c x JOIN c y ON x.s < y.s",
    "self join": "SELECT l.id, r.id FROM sales l JOIN sales r ON l.id = r.id + 1 WHERE l.day = 1",
    "self join by runs": "SELECT count(*), sum(l.id) FROM sales l JOIN days d USING (day) JOIN sales r ON l.id = r.id",
    "filters of two joins": """
        SELECT 'a', count(*), sum(id) FROM sales JOIN days USING (day) WHERE name = 'a'
        UNION ALL SELECT 'b', count(*), sum(id) FROM sales JOIN days USING (day) WHERE name = 'b'
        UNION ALL SELECT 'all', count(*), sum(id) FROM sales
    """,
    "one of two is filtered": """
        SELECT s.day, s.n, f.n FROM (SELECT day, count(*) n FROM sales GROUP BY day) s
        LEFT JOIN (SELECT day, count(*) n FROM sales JOIN days USING (day) WHERE name = 'a' GROUP BY day) f USING (day)
    """,
    "sorted column": "SELECT count(*), sum(s.id) FROM sales s JOIN keys USING (id) WHERE keys.name = 'x'",
    "subqueries": """
        SELECT (SELECT max(id) FROM sales), (SELECT count(*) FROM sales WHERE day = 1), (SELECT avg(x) FROM sales),
               (SELECT count(*) FROM sales), (SELECT sum(x) FROM sales WHERE day = 1)
    """,
    "correlated": "SELECT id FROM sales o WHERE id = (SELECT max(id) FROM sales i WHERE i.day = o.day)",
    "in and exists": """
        SELECT id FROM sales WHERE day IN (SELECT day FROM days WHERE name = 'a')
        AND EXISTS (SELECT 1 FROM sales i WHERE i.id = sales.id + 1) AND id NOT IN (SELECT id FROM keys)
    """,
    "union of one": "SELECT * FROM (SELECT * FROM sales UNION ALL SELECT * FROM sales) WHERE day = 2",
    "sets": "SELECT id FROM sales EXCEPT SELECT id FROM sales WHERE day = 1 INTERSECT SELECT id FROM sales",
    "grouping sets": "SELECT day, count(DISTINCT id), count(DISTINCT x) FROM sales GROUP BY CUBE (day)",
    "limits": "(SELECT id FROM sales ORDER BY id LIMIT 3) UNION ALL (SELECT id FROM sales ORDER BY id DESC LIMIT 3)",
    "join with no files": "SELECT * FROM sales LEFT JOIN nothing USING (id) WHERE sales.day = 1",
    "no files on both sides": "SELECT * FROM nothing l JOIN nothing r USING (id)",
    "no files in recursion": """
        WITH RECURSIVE t(id) AS (VALUES (1L) UNION ALL SELECT nothing.id FROM nothing JOIN t ON nothing.day = t.id)
        SELECT * FROM t
    """,
}


def _cached(frame: Any) -> Any:
    return [frame.cache().where("day = 1").count(), frame.where("day = 1").collect(), frame.unpersist().count()]


def _after_failure(frame: Any) -> Any:
    failing = frame.selectExpr("id", "IF(id = 77, raise_error('here'), id) AS e")
    errors = []
    for action in (lambda: failing.collect(), lambda: failing.agg({"e": "max"}).collect()):
        with pytest.raises(Exception, match="here"):
            action()
        errors.append(failing.where("id < 5").collect())
    return [errors, len(frame.take(2)), len(frame.limit(7).collect()), len(frame.tail(2)), frame.collect()]


def _mapped(frame: Any) -> Any:
    mapped = frame.mapInPandas(lambda parts: (part[part.id % 3 == 0] for part in parts), frame.schema)
    arrow = frame.mapInArrow(lambda parts: parts, frame.schema)
    return [mapped.union(mapped).collect(), arrow.join(mapped, "id").collect(), mapped.count()]


def _batches(frame: Any, path: str, scratch: str) -> Any:
    """A stream whose batches are used twice, and join the table that is read."""
    found: list[Any] = []

    def use(batch: Any, _: int) -> None:
        found.append([batch.count(), batch.join(frame, "id").count(), batch.agg({"id": "sum"}).collect()])

    spark, format_ = frame.sparkSession, Path(path).name
    stream = spark.readStream.format(format_).schema(frame.schema).load(path)
    query = stream.writeStream.foreachBatch(use).option("checkpointLocation", scratch).trigger(availableNow=True)
    query.start().awaitTermination(600)
    return found


#: Ways to use one frame again that SQL has no words for.
ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collected again": lambda frame: [frame.collect(), frame.collect(), frame.count()],
    "after failures and limits": _after_failure,
    "cached": _cached,
    "checkpoint": lambda frame: [frame.localCheckpoint().union(frame).collect(), frame.localCheckpoint().count()],
    "joined with itself": lambda frame: frame.alias("l").join(frame.where("day = 1").alias("r"), "id").collect(),
    "union": lambda frame: frame.union(frame).union(frame.where("id < 9")).groupBy("day").count().collect(),
    "mapped": _mapped,
    "rdd": lambda frame: [frame.rdd.map(tuple).collect(), frame.rdd.union(frame.rdd).count(), frame.toPandas().values],
    "prepared": lambda frame: [
        frame.sparkSession.sql("SELECT * FROM {t} WHERE day = :day", {"day": day}, t=frame).collect()
        for day in (1, 2, 1)
    ],
}


@pytest.fixture(scope="module")
def directory(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same tables in both formats: partitions, several files that are sorted by a column, and one without files."""
    directory = tmp_path_factory.mktemp("reuse")
    tree = spark.createDataFrame([(1, None), (2, 1), (3, 1), (4, 2), (5, 4)], "id INT, parent_id INT")
    sales = spark.range(0, 200, 1, 4).selectExpr("id", "id % 10 / 2.0D AS x", "int(id DIV 50) AS day")
    days = spark.createDataFrame([(1, "a"), (2, "a"), (3, "b")], "day INT, name STRING").coalesce(1)
    keys = spark.createDataFrame([(7, "x"), (150, "y")], "id BIGINT, name STRING").coalesce(1)
    for format_ in FORMATS:
        tree.write.format(format_).save(f"{directory}/tree/{format_}")
        sales.write.format(format_).partitionBy("day").save(f"{directory}/sales/{format_}")
        days.write.format(format_).save(f"{directory}/days/{format_}")
        keys.write.format(format_).save(f"{directory}/keys/{format_}")
        spark.sql(
            f"CREATE TABLE nothing_{format_} (id BIGINT, y INT, day INT) USING {format_} PARTITIONED BY (day) "
            f"LOCATION '{directory}/nothing/{format_}'"
        )
    yield directory
    for format_ in FORMATS:
        spark.sql(f"DROP TABLE nothing_{format_}")


def _load(spark: Any, directory: Path, format_: str) -> Any:
    for name in ("tree", "sales", "days", "keys"):
        spark.read.format(format_).load(f"{directory}/{name}/{format_}").createOrReplaceTempView(name)
    spark.table(f"nothing_{format_}").createOrReplaceTempView("nothing")
    return spark.table("sales")


def _plain(value: Any) -> Any:
    """Rows in an order of their own, because that of files is nobody's promise."""
    if isinstance(value, list):
        parts = [_plain(each) for each in value]
        return sorted(parts, key=repr) if parts and isinstance(value[0], tuple) else parts
    return _plain(list(map(tuple, value))) if type(value).__name__ == "ndarray" else value


def test_queries(spark: Any, directory: Path) -> None:
    """With and without adaptive plans, which filter scans at run time in ways of their own; one of both, in short."""
    _load(spark, directory, "parquet")
    expected = {name: _plain(spark.sql(query).collect()) for name, query in QUERIES.items()}
    _load(spark, directory, "mosaic")
    for turn, adaptive in enumerate(("true", "false")):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        try:
            for name, query in list(QUERIES.items()) if LONG else list(QUERIES.items())[turn::2]:
                assert _plain(spark.sql(query).collect()) == expected[name], f"{name}, adaptive: {adaptive}"
        finally:
            spark.conf.unset("spark.sql.adaptive.enabled")


def test_frames(spark: Any, directory: Path, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    for format_ in FORMATS:
        frame = _load(spark, directory, format_)
        found[format_] = {name: _plain(action(frame)) for name, action in ACTIONS.items()}
        path = f"{directory}/sales/{format_}"
        found[format_]["batches of a stream"] = _batches(frame, path, str(tmp_path / format_))
    assert found["mosaic"] == found["parquet"]


def test_scans_with_other_options_are_others(spark: Any, tmp_path: Path) -> None:
    """One table twice in a query, by two time zones for the names of its directories: their exchange is not shared."""
    if spark.version.startswith("4.1."):
        pytest.skip("Spark 4.1 gives a table the options of its first mention in a query")
    (tmp_path / "ts=2024-02-29 12%3A00%3A00").mkdir()
    smalti.write_table(pa.table({"id": [1]}), tmp_path / "ts=2024-02-29 12%3A00%3A00" / "a.mosaic")
    spark.sql(f"CREATE TABLE zoned (id BIGINT, ts TIMESTAMP) USING mosaic PARTITIONED BY (ts) LOCATION '{tmp_path}'")
    try:
        query = "SELECT id, string(ts) AS ts, count(*) FROM zoned {} GROUP BY 1, 2"
        both = query.format("WITH (timeZone = 'Asia/Tokyo')") + " UNION ALL " + query.format("")
        found = [row.ts for row in spark.sql(both).collect()]
        assert found == ["2024-02-29 03:00:00", "2024-02-29 12:00:00"]
        frame = spark.table("zoned").groupBy("id").count()
        assert "ReusedExchange" in _executed(frame.union(frame)), "those with the same options share it"
    finally:
        spark.sql("DROP TABLE zoned")


def _executed(frame: Any) -> str:
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_a_frame_answers_from_one_table(spark: Any, tmp_path: Path) -> None:
    """After an overwrite by files of the same names and sizes, a frame that was loaded before gives no rows at all."""

    def write(start: int) -> None:
        for part in range(2):
            rows = list(range(start + 10 * part, start + 10 * part + 10))
            smalti.write_table(pa.table({"x": rows, "y": rows}), tmp_path / f"{part}.mosaic", stats_columns=["x"])
            os.utime(tmp_path / f"{part}.mosaic", ns=(start, start))

    write(1000)
    load = lambda: spark.read.format("mosaic").load(str(tmp_path))  # noqa: E731
    frame, sizes = load(), [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    queries: list[Callable[[Any], Any]] = [
        lambda frame: frame.collect(),
        lambda frame: frame.where("x >= 2000").count(),
        lambda frame: frame.where("x = 1005").collect(),
        lambda frame: frame.where("x = 2005").select("y").collect(),
        lambda frame: frame.agg({"x": "max"}).collect(),
        lambda frame: frame.agg({"y": "max"}).collect(),
        lambda frame: frame.count(),
        lambda frame: frame.select("_metadata.file_modification_time").collect(),
        lambda frame: frame.limit(1).collect(),
        lambda frame: frame.groupBy().agg({"x": "min", "*": "count"}).union(frame.selectExpr("x", "y")).collect(),
    ]
    assert [len(str(query(frame))) > 0 for query in queries] == [True] * len(queries)
    write(2000)
    assert [path.stat().st_size for path in sorted(tmp_path.iterdir())] == sizes
    for query in queries:
        with pytest.raises(Exception, match="ReplacedError"):
            query(frame)
    assert load().where("x >= 2000").count() == 20
    (tmp_path / "0.mosaic").unlink()
    for query in queries:
        with pytest.raises(Exception, match=r"ReplacedError|RemovedError"):
            query(frame)


class TestCaches:
    """What is cached is never older than what Spark has written. Each count is a query that is planned anew."""

    def test_of_a_path(self, spark: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "t")
        writer = lambda first, last: spark.range(first, last).write.format("mosaic")  # noqa: E731
        load = lambda: spark.read.format("mosaic").load(path)  # noqa: E731
        writer(0, 3).save(path)
        frame = load().cache()
        load().createOrReplaceTempView("cached_view")  # answered by the same cache
        spark.sql(f"CREATE TEMPORARY VIEW cached_using USING mosaic OPTIONS (path '{path}')")
        spark.sql("CACHE TABLE cached_using")
        among = spark.range(99).where(f"id IN (SELECT id FROM mosaic.`{path}`)").cache()
        glob = spark.read.format("mosaic").load(str(tmp_path / "[t]")).cache()
        spark.sql(f"CREATE TABLE cached_at (id BIGINT) USING mosaic LOCATION '{path}'")
        try:
            spark.sql("CACHE TABLE cached_at")

            def counts() -> dict[int, list[str]]:
                views = {name: spark.table(name) for name in ("cached_view", "cached_using", "cached_at")}
                found: dict[int, list[str]] = {}
                for name, each in {"frame": frame, "load": load(), "among": among, "glob": glob, **views}.items():
                    found.setdefault(each.count(), []).append(name)
                return found

            assert list(counts()) == [3]
            writer(3, 5).mode("append").save(path)
            assert list(counts()) == [5], counts()
            writer(0, 2).mode("overwrite").save(path + "/../t/")
            assert list(counts()) == [2], counts()
            spark.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING mosaic SELECT id FROM range(4)")
            assert list(counts()) == [4], counts()
            spark.sql("INSERT INTO cached_at VALUES (90), (91)")
            assert list(counts()) == [6], counts()
            assert frame.storageLevel.useMemory
            assert "InMemoryTableScan" in str(load()._jdf.queryExecution().executedPlan().toString())
            writer(0, 9).mode("overwrite").save(str(tmp_path / "other"))
            os.rename(tmp_path / "t", tmp_path / "gone")  # noqa: PTH104
            os.rename(tmp_path / "other", tmp_path / "t")  # noqa: PTH104
            assert load().count() == 9, "a path that is loaded after Spark's back has changed is read"
            assert frame.count() == 6, "and what was loaded before is as it was"
            spark.range(1).selectExpr("string(id) AS id").write.format("mosaic").mode("overwrite").save(path)
            assert load().collect() == [("0",)], "caches of another type are dropped, and the write has succeeded"
        finally:
            spark.sql("DROP TABLE cached_at")
            spark.catalog.clearCache()

    def test_of_queries_of_a_table(self, spark: Any) -> None:
        spark.sql("CREATE TABLE sources (id BIGINT, p INT) USING mosaic PARTITIONED BY (p)")
        try:
            spark.sql("INSERT INTO sources VALUES (1, 1), (2, 2)")
            spark.sql("CACHE TABLE derived AS SELECT count(*) AS n, max(id) AS most FROM sources")
            for statement, expected in {
                "INSERT INTO sources VALUES (3, 3)": (3, 3),
                "INSERT OVERWRITE sources PARTITION (p = 1) SELECT 7": (3, 7),
                "INSERT OVERWRITE sources VALUES (5, 5), (6, 6)": (2, 6),
                "ALTER TABLE sources DROP PARTITION (p = 6)": (1, 5),
                "TRUNCATE TABLE sources": (0, None),
            }.items():
                spark.sql(statement)
                found = spark.sql("SELECT * FROM derived").first()
                assert found == spark.sql("SELECT count(*), max(id) FROM sources").first() == expected, statement
        finally:
            spark.sql("DROP TABLE sources")
            spark.catalog.clearCache()
