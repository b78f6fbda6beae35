"""Types and what Spark knows of columns beyond them, by value: as Spark has them itself, and as with Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

#: Before the calendar of Rome, before the year 1, in the days that the Gregorian calendar skipped, on the day that Apia
#: skipped, and after the years that Python has.
DAYS = ["-5000-03-01", "-0001-02-03", "0000-12-31", "0001-01-01", "1500-02-28", "1582-10-04", "1582-10-05"]
DAYS += [
    "1582-10-10",
    "1582-10-15",
    "1970-01-01",
    "2011-12-29",
    "2011-12-30",
    "2011-12-31",
    "9999-12-31",
    "+12345-01-01",
]


@contextmanager
def settings(spark: Any, **values: object) -> Iterator[None]:
    """Settings of the session, whose names have two underscores for each dot."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, str(value))
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_days_and_moments_of_every_year(spark: Any, tmp_path: Path) -> None:
    """Filters keep what they keep of rows that Spark has in memory. Parquet loses rows of 1582-10-05."""
    values = ", ".join(f"({n}, date'{day}', timestamp_ntz'{day} 12:34:56.789012')" for n, day in enumerate(DAYS))
    with settings(spark, spark__sql__session__timeZone="Pacific/Apia"):
        frame = spark.sql(f"SELECT id, d, n, timestamp(n) AS t FROM VALUES {values} AS v(id, d, n)").coalesce(1)
        frame.write.format("mosaic").option("rowGroupMaxRows", 2).save(str(tmp_path / "t"))
        filters = [f"d = date'{day}'" for day in ("1582-10-05", "2011-12-30", DAYS[-1])]
        filters += [f"d > date'{day}'" for day in (DAYS[0], "1582-10-10")]
        filters += [f"d IN (date'{DAYS[0]}', date'1582-10-05', date'{DAYS[-1]}')", f"n < timestamp_ntz'{DAYS[1]}'"]
        filters += ["t > timestamp'1582-10-05 12:34:56.789012'"]
        frame.createOrReplaceTempView("in_memory")
        spark.read.format("mosaic").load(str(tmp_path / "t")).createOrReplaceTempView("stored")

        def kept(table: str, each: list[str]) -> Any:
            parts = [f"SELECT {n} AS filter, id FROM {table} WHERE {one}" for n, one in enumerate(each)]
            return rows(spark.sql(" UNION ALL ".join(parts)))

        assert kept("stored", filters) == kept("in_memory", filters)


def test_days_of_partitions(spark: Any, tmp_path: Path) -> None:
    """Partitions are chosen by filters, also by those that come at run time, as with Parquet."""
    values = ", ".join(f"({n}, date'{day}')" for n, day in enumerate(DAYS[3:-1]))
    found = {}
    with settings(spark, spark__sql__session__timeZone="Pacific/Apia"):
        frame = spark.sql(f"SELECT id, d FROM VALUES {values} AS v(id, d)").coalesce(1)
        frame.where("id % 3 = 0").selectExpr("d AS day", "id AS key").write.parquet(str(tmp_path / "keys"))
        spark.read.parquet(str(tmp_path / "keys")).createOrReplaceTempView("keys")
        for format_ in ("mosaic", "parquet"):
            frame.write.format(format_).partitionBy("d").save(str(tmp_path / format_))
            spark.read.format(format_).load(str(tmp_path / format_)).createOrReplaceTempView("t")
            joined = spark.sql("SELECT id, string(d) FROM t JOIN keys ON d = day WHERE key > 0")
            assert "dynamicpruning" in joined._jdf.queryExecution().executedPlan().toString()
            skipped = "d IN (date'1582-10-05', date'2011-12-30') OR d < date'-0001-02-03'"
            found[format_] = rows(joined), rows(spark.sql(f"SELECT id FROM t WHERE {skipped}"))
        assert found["mosaic"] == found["parquet"]
        assert list(map(len, found["mosaic"])) == [3, 2]
    for day in (DAYS[0], DAYS[-1]):
        far = spark.sql(f"SELECT 1 AS id, date'{day}' AS d").write.format("mosaic").partitionBy("d")
        with pytest.raises(Exception, match=r"column 'd': a date or timestamp cannot be a partition value: found \S*5"):
            far.save(str(tmp_path / "far"))
    assert not list((tmp_path / "far").rglob("*.mosaic"))


FORMATS = ("mosaic", "parquet")


def shown(frame: Any) -> tuple[str, list[tuple[Any, ...]]]:
    return frame.schema.simpleString(), rows(frame)


def test_fields_of_structs_in_any_case(spark: Any, tmp_path: Path) -> None:
    """At every depth: in a schema that is asked for, in files that spell them differently, and not if case matters."""
    deep = "named_struct('a', {0}, 'b', array(named_struct('C', {0})), 'm', map('k', named_struct('V', {0})))"
    found: dict[str, list[Any]] = {}
    for format_ in FORMATS:
        path, results = str(tmp_path / format_), found.setdefault(format_, [])
        spark.sql(f"SELECT 1 AS id, {deep.format(5)} AS s").coalesce(1).write.format(format_).save(path)
        other = deep.format(6).replace("'a'", "'A'").replace("'C'", "'c'").replace("'V'", "'v'")
        spark.sql(f"SELECT 2 AS id, {other} AS s").coalesce(1).write.format(format_).mode("append").save(path)
        asked = "S struct<B:array<struct<c:int>>,a:int,M:map<string,struct<v:int>>,none:int>"
        for sensitive in ("false", "true"):
            with settings(spark, spark__sql__caseSensitive=sensitive):
                schema = asked if sensitive == "false" else asked.replace("S struct", "s struct")
                results.append(shown(spark.read.format(format_).schema(schema).load(path)))
                merging = spark.read.format(format_).option("mergeSchema", "true")
                if format_ == "parquet" and sensitive == "false" and spark.version.startswith(("4.1.", "4.2.")):
                    with pytest.raises(AnalysisException, match="COLUMN_ALREADY_EXISTS"):
                        merging.load(path)
                    results.append(found["mosaic"][len(results)])
                    continue
                results.append(shown(merging.load(path).selectExpr("id", "s.a", "s.b.C[0]", "s.m['k'].V")))
        pruned = spark.read.format(format_).schema(f"id int, {asked}").load(path).where("s.A > 5 AND id > 0")
        results.append(shown(pruned.selectExpr("s.b.c[0]")))
    assert found["mosaic"] == found["parquet"]
    assert [len(each) for _, each in found["mosaic"]] == [2, 2, 2, 2, 1]
    assert found["mosaic"][1][1] == [(1, 5, 5, 5), (2, 6, 6, 6)]


def test_both_spellings_in_one_struct(spark: Any, tmp_path: Path) -> None:
    """Parquet fails here: each is read by its own spelling, and any other spelling reads the first."""
    with settings(spark, spark__sql__caseSensitive="true"):
        spark.sql("SELECT named_struct('a', 1, 'A', 2) AS s").write.format("mosaic").save(str(tmp_path / "t"))
    for asked, value in (("s struct<A:int>", 2), ("s struct<a:int>", 1)):
        assert rows(spark.read.format("mosaic").schema(asked).load(str(tmp_path / "t")).select("s.*")) == [(value,)]


def test_collations(spark: Any, tmp_path: Path) -> None:
    """At every depth, on a path; also in files to which a column was added, and of a column with a comment."""
    nested = (
        "struct<t:string collate utf8_lcase,l:array<string collate unicode_ci>,m:map<int,string collate utf8_lcase>>"
    )
    first = "SELECT cast('{0}' AS string collate utf8_lcase) AS c, cast(null AS {1}) AS n"
    found: dict[str, list[Any]] = {}
    for format_ in FORMATS:
        path, results = str(tmp_path / format_), found.setdefault(format_, [])
        words = [first.format(word, nested) for word in ("Ab", "aB", "b")]
        spark.sql(" UNION ALL ".join(words)).coalesce(1).write.format(format_).save(path)
        more = spark.sql(first.format("AB", nested)).selectExpr("c", "n", "1 AS added")
        more = more.withMetadata("c", {"comment": "from elsewhere"})
        more.coalesce(1).write.format(format_).mode("append").save(path)
        frame = spark.read.format(format_).option("mergeSchema", "true").load(path)
        results += [field.dataType.simpleString() for field in frame.schema]
        results.append(frame.where("c = 'AB'").count())
        results.append(frame.groupBy("c").count().selectExpr("lower(c)", "count"))
        results[-1] = rows(results[-1])
        results.append(frame.selectExpr("count(DISTINCT c)", "lower(min(c))", "lower(max(c))").first())
        other = frame.selectExpr("c AS d")
        results.append(frame.join(other, frame.c == other.d).count())
    assert found["mosaic"] == found["parquet"]
    assert found["mosaic"][0] == "string collate UTF8_LCASE"
    assert found["mosaic"][3:] == [3, [("ab", 3), ("b", 1)], (2, "ab", "b"), 10]


def test_defaults_of_files_that_lack_the_column(spark: Any, tmp_path: Path) -> None:
    """In results, filters, orders and aggregates; values that a file has stay, also nulls."""
    columns = "b INT DEFAULT 7, t STRING COLLATE UTF8_LCASE DEFAULT 'X', d DATE DEFAULT date'0101-02-03', "
    columns += "n DECIMAL(9,2) DEFAULT 1.5, f FLOAT DEFAULT 0.1, y BINARY DEFAULT x'00FF', "
    columns += "w TIMESTAMP DEFAULT timestamp'2024-02-29 01:02:03.5', l ARRAY<STRING> DEFAULT array('x', 'y'), "
    columns += "s STRUCT<x: INT, z: DATE> DEFAULT named_struct('x', 1, 'z', date'2024-02-29')"
    found: dict[str, list[Any]] = {}
    for format_ in FORMATS:
        table, path = f"defaults_{format_}", str(tmp_path / format_)
        spark.range(4).selectExpr("int(id) AS a").coalesce(1).write.format(format_).save(path)
        spark.sql(f"CREATE TABLE {table} (a INT, {columns}) USING {format_} LOCATION '{path}'")
        try:
            spark.sql(f"INSERT INTO {table} (a, b) VALUES (4, NULL), (5, 8)")
            frame = spark.table(table)
            with settings(
                spark, spark__sql__parquet__enableVectorizedReader=False
            ):  # which takes no nested defaults, and no bytes
                everything = rows(frame)
            frame = frame.drop("l", "s", "y")
            parts = frame.where("b = 7 AND t = 'x'"), frame.orderBy("b", "a").limit(2).select("a", "b")
            aggregates = frame.selectExpr("count(b)", "min(b)", "max(b)", "min(d)", "count(*)")
            found[format_] = [everything, *map(rows, parts), rows(aggregates)]
        finally:
            spark.sql(f"DROP TABLE {table}")
    assert found["mosaic"] == found["parquet"]
    assert len(found["mosaic"][1]) == 4
    assert found["mosaic"][2] == [(0, 7), (4, None)]


def test_conditions_keep_their_order(spark: Any, tmp_path: Path) -> None:
    """A condition that only Spark understands guards one that could be pushed down, and is an error for some rows."""
    guarded = "reverse(s) <> '0' AND 1 / id < 1"
    for format_ in FORMATS:
        spark.sql("SELECT id, string(id) AS s FROM range(3)").write.format(format_).save(str(tmp_path / format_))
        assert spark.read.format(format_).load(str(tmp_path / format_)).where(guarded).count() == 1
