"""Spark applications that tests start as processes of their own.

python -m tests.spark.apps endless <table>            overwrites the table with rows that never end
python -m tests.spark.apps cluster <master> <table>   writes and reads while tasks are slow, copied and lost; compacts
python -m tests.spark.apps connect <table>            reads and writes through Spark Connect; says what it found
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import smalti.spark
from smalti.spark import jobs

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
    """The first attempt of task 0 hangs once rows are written; the test kills the worker of another one."""
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
    summary = jobs.compact(spark, table, table + ".compacted")
    print(f"compacted {summary.num_rows} rows, verified {jobs.verify(spark, table + '.compacted').ok}")
    spark.stop()


def connect(table: str) -> None:
    """`table` has columns x = 0 to 9 and y = 2 x."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[1]").getOrCreate()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        enabled = [smalti.spark.enable(spark), smalti.spark.enable(spark)]
    frame = spark.read.format("mosaic").load(table)
    frame.where("x < 3").write.format("mosaic").mode("overwrite").save(table + ".copy")
    found = {
        "session": type(spark).__module__,
        "enabled": enabled,
        "warnings": [str(warning.message) for warning in caught if "Mosaic" in str(warning.message)],
        "union": frame.where("x = 1").union(frame.where("x = 2")).select("y").toPandas()["y"].tolist(),
        "by_schema": spark.read.format("mosaic").schema("y bigint").load(table).where("y > 14").count(),
        "copied": spark.read.format("mosaic").option("columns", "y").load(table + ".copy").count(),
    }
    print("found", json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    {"endless": endless, "cluster": cluster, "connect": connect}[sys.argv[1]](*sys.argv[2:])
