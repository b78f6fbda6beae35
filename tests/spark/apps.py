"""Spark applications that tests start as processes of their own.

python -m tests.spark.apps endless <table>            overwrites the table with rows that never end
python -m tests.spark.apps cluster <master> <table>   writes and reads while tasks are slow, copied and lost; compacts
python -m tests.spark.apps connect <table>            brings the jar to a Spark Connect server; reads and writes there
python -m tests.spark.apps client <url> <file> <columns>  the same with a Connect server that has the jar
python -m tests.spark.apps enable <directory>         adds the provider to a session that runs
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import smalti.spark
from smalti import jobs

ROWS = 4_000
PARTS = 4


def endless(table: str) -> None:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while True:
                yield batch

    spark = smalti.spark.session("local[2]", driver_memory="1g")
    frame = spark.range(0, 20_000, numPartitions=2).mapInArrow(rows, "id bigint")
    frame.write.format("mosaic").mode("overwrite").options(maxFileBytes="50KB", rowGroupMaxRows=5000).save(table)


def cluster(master: str, table: str) -> None:
    """The first attempt of task 0 hangs once rows are written; the test kills the executor of another one."""
    marker = Path(table + ".slow")

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        time.sleep(1)
        if TaskContext.get().partitionId() == 0 and not marker.exists():
            marker.touch()
            time.sleep(10)

    settings = {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.5",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.memory": "1g",
    }
    spark = smalti.spark.session(master, **settings)
    frame = spark.range(0, ROWS, numPartitions=PARTS).mapInArrow(slow, "id bigint")
    frame.write.format("mosaic").mode("append").save(table)
    read = spark.read.format("mosaic").load(table)
    print("result", read.selectExpr("count(*)", "count(DISTINCT id)", "sum(id)").first())
    summary = jobs.compact(table, table + ".compacted", engine="spark", spark=spark)
    verified = jobs.verify(table + ".compacted", engine="spark", spark=spark)
    print(f"compacted {summary.num_rows} rows, verified {verified.ok}")
    spark.stop()


def connect(table: str) -> None:
    """`table` has columns x = 0 to 9 and y = 2 x. The client brings the jar; the server was started without it."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[1]").getOrCreate()
    try:
        spark.read.format("mosaic").load(table).collect()
        before = ""
    except Exception as error:
        before = str(error)
    smalti.spark.enable(spark)
    smalti.spark.enable(spark)
    frame = spark.read.format("mosaic").load(table)
    frame.where("x < 3").write.format("mosaic").save(table + ".copy")
    found = {
        "session": type(spark).__module__,
        "before": "smalti.spark.enable(spark)" in before,
        "union": frame.where("x = 1").union(frame.where("x = 2")).select("y").toPandas()["y"].tolist(),
        "copied": spark.read.format("mosaic").load(table + ".copy").count(),
    }
    spark.sql(f"CREATE TABLE kept (x BIGINT, y BIGINT) USING mosaic LOCATION '{table}.copy'")
    try:
        spark.sql("ALTER TABLE kept RENAME COLUMN x TO z")
    except Exception as error:
        found["refused"] = "smalti.jobs.rename_columns(" in str(error)
    print("found", json.dumps(found), flush=True)
    spark.stop()


def client(url: str, file: str, *columns: str) -> None:
    """A client that does not import smalti. `file` has 3 rows, and a damaged bucket that `columns` do not need."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).getOrCreate()
    frame = spark.read.format("mosaic").load(file)
    try:
        everything = str(len(frame.collect()))
    except Exception as error:
        everything = "checksum" if "checksum" in str(error) or "bucket" in str(error) else str(error)
    target = file + ".table"
    spark.range(3).selectExpr("id", "id % 2 AS p").write.format("mosaic").partitionBy("p").save(target)
    spark.range(1).selectExpr("id", "id AS p").write.format("mosaic").partitionBy("p").mode("append").save(target)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql("SELECT 7L AS id, 1L AS p").write.format("mosaic").partitionBy("p").mode("overwrite").save(target)
    by_partition = spark.read.format("mosaic").load(target).groupBy("p").count().orderBy("p").collect()
    spark.sql(f"CREATE TABLE nothing (id BIGINT) USING mosaic LOCATION '{target}.nothing'")
    steps = f"""
        WITH RECURSIVE t(p) AS (VALUES (0L) UNION ALL SELECT p + 1 FROM mosaic.`{target}` JOIN t USING (p))
        SELECT count(*) AS n FROM t LEFT JOIN nothing ON t.p = nothing.id
    """
    found = {
        "steps": spark.sql(steps).collect()[0].n,
        "rows": [list(row) for row in frame.select(*columns).orderBy(columns[0]).collect()],
        "all": everything,
        "table": spark.sql(f"SELECT max(p) + 1 AS n FROM mosaic.`{target}`").collect()[0].n,
        "partitions": [[row.p, row["count"]] for row in by_partition],
    }
    print("found", json.dumps(found), flush=True)
    spark.stop()


def enable(directory: str) -> None:
    from pyspark.sql import SparkSession

    from smalti.spark.setup.local import SETTINGS

    builder = SparkSession.builder.master("local[1]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", f"{directory}/warehouse")
    spark = builder.config("spark.driver.memory", "1g").getOrCreate()
    frame = spark.range(3)
    found: dict[str, object] = {}

    def refused(action: Callable[[], object]) -> str:
        try:
            action()
        except Exception as error:
            return str(error)
        return "accepted"

    spark.sql("CREATE TABLE early (a INT, p INT) USING mosaic PARTITIONED BY (p)")
    before = {
        "append": lambda: frame.write.format("mosaic").mode("append").save(f"{directory}/t"),
        "table": lambda: spark.sql("SELECT * FROM early").collect(),
        "schema": lambda: spark.read.format("mosaic").schema("a INT").load(f"{directory}/t").collect(),
        "save": lambda: frame.write.format("mosaic").save(f"{directory}/t"),
    }
    messages = {name: refused(action) for name, action in before.items()}
    found["before"] = {name: "smalti.spark.enable(spark)" in message for name, message in messages.items()}
    # Spark refuses the default mode without asking the data source: docs/troubleshooting.md has this message.
    found["default mode"] = 'The data source "mosaic" cannot be written in the "ErrorIfExists" mode' in messages["save"]
    smalti.spark.enable(spark)
    smalti.spark.enable(spark)
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{directory}/d' USING mosaic SELECT 1 AS a")
    spark.sql("INSERT INTO early VALUES (1, 2)")
    found["refused"] = [
        "smalti.jobs.rename_columns(" in refused(lambda: spark.sql("ALTER TABLE early RENAME COLUMN a TO b")),
        "smalti.jobs.replace_columns(" in refused(lambda: spark.sql("ALTER TABLE early ALTER COLUMN a TYPE STRING")),
        "smalti.jobs.delete(" in refused(lambda: spark.sql("DELETE FROM early WHERE a = 1")),
    ]
    spark.sql("ALTER TABLE early ADD COLUMN b INT")
    spark.sql("MSCK REPAIR TABLE early")
    spark.sql("CREATE TABLE alike LIKE early")
    found["altered"] = [list(spark.table("early").collect()[0]), spark.table("alike").columns]
    # A session of its own, which nothing was called on.
    other = spark.newSession()
    found["refused"] += ["rename_columns" in refused(lambda: other.sql("ALTER TABLE early RENAME COLUMN a TO c"))]
    frame.write.format("mosaic").save(f"{directory}/t")
    read = spark.read.format("mosaic").load(f"{directory}/t")
    found["rows"] = len(read.collect())
    found["planned"] = "PushedFilters" in read._jdf.queryExecution().toString()  # type: ignore[operator]
    many = spark.range(0, 400_000, numPartitions=1).selectExpr("id", "uuid() AS u")
    many.write.format("mosaic").option("rowGroupMaxRows", 10_000).save(f"{directory}/many")
    few = spark.read.format("mosaic").option("batchSize", 5_000).load(f"{directory}/many").where("length(u) > id % 2")
    print("limit begins", flush=True)
    found["limit"] = [len(few.limit(2).collect()), len(few.head(3)), len(few.take(1))]
    time.sleep(1)  # A worker that still had something to say would say it now.
    print("limit ends", flush=True)
    print("found", json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    applications = {"endless": endless, "cluster": cluster, "connect": connect, "client": client, "enable": enable}
    applications[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
