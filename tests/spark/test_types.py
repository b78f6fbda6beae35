"""Types and what Spark knows of columns beyond them, by value: as Spark has them itself, and as with Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
