"""Writes that take batches in columns: the same rows as by way of rows, and when Spark's plan allows it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti

ROWS = 1000
Check = Callable[[Any], list[dict[str, Any]]]


@pytest.fixture
def took_batches(spark: Any) -> Callable[[], bool]:
    """Whether a write since the last call has taken batches in columns, by the plans that Spark has run."""
    store = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsCount()

    def look() -> bool:
        nonlocal last
        spark._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        first, last = last, store.executionsCount()
        executions = store.executionsList(first, max(1, last - first))  # Spark 4.1 refuses 0
        ids = [executions.apply(number).executionId() for number in range(executions.size())]
        graphs = [store.planGraph(execution).allNodes() for execution in ids]
        return any(graph.apply(n).name() == "MosaicBatches" for graph in graphs for n in range(graph.size()))

    return look


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kinds of columns with and without nulls, in two partitions; the second has neither `x` nor dictionaries."""
    root = tmp_path_factory.mktemp("columns")
    numbers = list(range(ROWS))
    some = lambda make: [None if n % 7 == 3 else make(n) for n in numbers]  # noqa: E731
    day = dt.datetime(2026, 11, 18)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "b": pa.array(some(lambda n: n % 3 == 0), pa.bool_()),
        "i1": pa.array(some(lambda n: n % 200 - 100), pa.int8()),
        "i2": pa.array(some(lambda n: n - 500), pa.int16()),
        "i4": pa.array(some(lambda n: -n * 1000), pa.int32()),
        "f4": pa.array(some(lambda n: n / 4), pa.float32()),
        "f8": pa.array(some(lambda n: float("nan") if n == 5 else n / 3), pa.float64()),
        "few": pa.array([n % 5 / 2 for n in numbers], pa.float64()),
        "d9": pa.array(some(lambda n: Decimal(n - 500).scaleb(-2)), pa.decimal128(9, 2)),
        "d18": pa.array(some(lambda n: Decimal(-n * 10**12).scaleb(-4)), pa.decimal128(18, 4)),
        "d38": pa.array(some(lambda n: Decimal(n * 10**30).scaleb(-4)), pa.decimal128(38, 4)),
        "s": pa.array(some(lambda n: "é" * (n % 50)), pa.string()),
        "y": pa.array(some(lambda n: bytes([n % 256]) * (n % 3)), pa.binary()),
        "day": pa.array(some(lambda n: day.date() - dt.timedelta(n)), pa.date32()),
        "at": pa.array(some(lambda n: day - dt.timedelta(microseconds=n)), pa.timestamp("us", "UTC")),
        "l": pa.array(some(lambda n: [n, None] * (n % 3)), pa.list_(pa.int64())),
        "r": pa.array(some(lambda n: {"a": n, "t": str(n)}), pa.struct({"a": pa.int32(), "t": pa.string()})),
        "m": pa.array(some(lambda n: {"k": n}), pa.map_(pa.string(), pa.int64())),
        "none": pa.nulls(ROWS, pa.int32()),
        "x": pa.array(some(lambda n: n * 0.5), pa.float64()),
    }
    for part in (1, 2):
        (root / f"p={part}").mkdir()
    pq.write_table(pa.table(columns), root / "p=1" / "a.parquet", row_group_size=300)
    columns.pop("x")
    pq.write_table(pa.table(columns), root / "p=2" / "b.parquet", use_dictionary=False)
    return root


QUERIES = {
    "all": "SELECT * FROM t",
    "renamed": "SELECT s AS a, i4, s, p AS q, id AS `of id` FROM t",
    "some rows": "SELECT * FROM t WHERE i2 % 3 = 0",
    "runs of rows": "SELECT * FROM t WHERE id BETWEEN 250 AND 700 AND id != 400",
    "no row": "SELECT * FROM t WHERE id < 0 OR f4 > 1e9",
    "computed": "SELECT id, i4 + 1L AS n, upper(s) AS s, b, d18 * 2 AS d, day + 1 AS day, x IS NULL AS e FROM t",
    "computed for some rows": "SELECT 1000 / (i2 + 500) AS q, s FROM t WHERE i2 > -500 AND f8 < 200",
    "constants": "SELECT id, 7 AS seven, CAST(NULL AS string) AS nothing, 'a' AS a FROM t",
}


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("source", ["parquet", "orc", "mosaic"])
def test_rows_are_the_same(
    spark: Any, tmp_path: Path, parquet: Path, took_batches: Callable[[], bool], source: str, query: str
) -> None:
    frame = spark.read.option("mergeSchema", "true").parquet(str(parquet))
    if source != "parquet":
        frame.repartition(2).write.format(source).save(str(tmp_path / "source"))
        frame = spark.read.format(source).load(str(tmp_path / "source"))
    frame.createOrReplaceTempView("t")
    took_batches()
    spark.sql(QUERIES[query]).write.format("mosaic").save(str(tmp_path / "batches"))
    assert took_batches()
    # A sort needs rows.
    spark.sql(f"{QUERIES[query]} ORDER BY 1").write.format("mosaic").save(str(tmp_path / "rows"))
    assert not took_batches()
    found, expected = (smalti.read_table(tmp_path / name) for name in ("batches", "rows"))
    assert found.schema.equals(expected.schema)
    assert rows(found) == rows(expected)
    assert (query == "no row") == (found.num_rows == 0)


def test_more_columns_than_spark_reads_in_batches(spark: Any, tmp_path: Path, took_batches: Callable[[], bool]) -> None:
    """Spark makes rows of tables with more than a hundred columns, even if the format could give batches."""
    table = pa.table({f"c{n:04}": pa.array(range(n, n + 3000), pa.int64()) for n in range(2000)})
    pq.write_table(table, tmp_path / "wide.parquet")
    before = spark.conf.get("spark.sql.codegen.maxFields")
    frame = spark.read.parquet(str(tmp_path / "wide.parquet"))
    frame.write.format("mosaic").save(str(tmp_path / "wide"))
    assert took_batches()
    assert smalti.read_table(tmp_path / "wide").equals(table)
    assert spark.conf.get("spark.sql.codegen.maxFields") == before
    assert "Batched: false" in frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE made USING mosaic LOCATION '{path}' AS SELECT id, s FROM t",
        "INSERT INTO kept SELECT id, s FROM t",
        "INSERT OVERWRITE kept SELECT id, s FROM t WHERE id >= 0",
    ],
)
def test_statements(
    spark: Any, tmp_path: Path, parquet: Path, took_batches: Callable[[], bool], statement: str
) -> None:
    spark.read.parquet(str(parquet)).createOrReplaceTempView("t")
    path = tmp_path / "table"
    if "kept" in statement:
        spark.sql(f"CREATE TABLE kept (id bigint, s string) USING mosaic LOCATION '{path}'")
    try:
        took_batches()
        spark.sql(statement.format(path=path))
        assert took_batches()
        assert smalti.dataset(path).count_rows() == 2 * ROWS
    finally:
        spark.sql("DROP TABLE IF EXISTS kept")
        spark.sql("DROP TABLE IF EXISTS made")


def test_what_is_written_from_rows(spark: Any, tmp_path: Path, parquet: Path, took_batches: Callable[[], bool]) -> None:
    """Random numbers, subqueries, names of files, sorts by partition: as ever, and with the same rows."""
    spark.read.parquet(str(parquet)).createOrReplaceTempView("t")
    queries = {
        "SELECT id, rand(1) AS x FROM t": 2 * ROWS,
        "SELECT id FROM t WHERE id > (SELECT avg(id) FROM t)": ROWS,
        "SELECT id, input_file_name() AS name FROM t": 2 * ROWS,
        "SELECT id, named_struct('a', id) AS r FROM t": 2 * ROWS,
        "SELECT count(*) AS n FROM t GROUP BY id": ROWS,
    }
    for number, (query, count) in enumerate(queries.items()):
        spark.sql(query).write.format("mosaic").save(str(tmp_path / str(number)))
        assert not took_batches(), query
        assert smalti.dataset(tmp_path / str(number)).count_rows() == count
    spark.table("t").select("id", "p").write.format("mosaic").partitionBy("p").save(str(tmp_path / "parts"))
    assert not took_batches()
    assert smalti.dataset(tmp_path / "parts").count_rows(filters=[("p", "=", 2)]) == ROWS


def test_a_value_that_cannot_be_computed(spark: Any, tmp_path: Path, parquet: Path) -> None:
    from pyspark.errors import ArithmeticException

    spark.read.parquet(str(parquet)).createOrReplaceTempView("t")
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        spark.sql("SELECT 1 / (i2 + 500) AS q FROM t").write.format("mosaic").save(str(tmp_path / "t"))
    assert not list(tmp_path.rglob("*.mosaic"))
