"""Writes that take batches in columns: the same rows as by way of rows, and when Spark's plan allows it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
from tests.support.long import LONG

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
        executions = store.executionsList(first, max(1, last - first))  # Spark refuses to list none.
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
    "constants": "SELECT 7 AS seven, CAST(NULL AS string) AS nothing, 'a' AS a FROM t",
    "fields": "SELECT r.a, r.t AS `r.t`, size(l) AS n, m['k'] AS k FROM t WHERE id % 2 = 0",
    # try_divide is null where the other condition is an error.
    "a condition that is null": "SELECT id FROM t WHERE try_divide(1, id) < 1 AND 1 / id < 1",
}


@pytest.fixture(scope="module")
def sources(spark: Any, tmp_path_factory: pytest.TempPathFactory, parquet: Path) -> dict[str, Any]:
    """The same rows in each format that Spark reads in batches; memory off Java's heap is another class of vectors."""
    root = tmp_path_factory.mktemp("sources")
    given = spark.read.option("mergeSchema", "true").parquet(str(parquet))
    for source in ("orc", "mosaic"):
        given.repartition(2).write.format(source).save(str(root / source))
    return {
        "parquet": given,
        "parquet off heap": given,
        "orc": spark.read.orc(str(root / "orc")),
        "mosaic": spark.read.format("mosaic").load(str(root / "mosaic")),
    }


#: In the short form, those of vectors that Spark copies like its usual ones.
SOME_QUERIES = ("all", "computed for some rows")


@pytest.mark.parametrize("source", ["parquet", "parquet off heap", "orc", "mosaic"])
def test_rows_are_the_same(
    spark: Any, tmp_path: Path, sources: dict[str, Any], took_batches: Callable[[], bool], source: str
) -> None:
    sources[source].createOrReplaceTempView("t")
    spark.conf.set("spark.sql.columnVector.offheap.enabled", source == "parquet off heap")
    try:
        for query, text in QUERIES.items():
            if source in ("parquet off heap", "orc") and query not in SOME_QUERIES and not LONG:
                continue
            took_batches()
            spark.sql(text).write.format("mosaic").mode("overwrite").save(str(tmp_path / "batches"))
            assert took_batches(), query
            spark.sql(text).coalesce(1).write.format("mosaic").mode("overwrite").save(str(tmp_path / "rows"))
            assert not took_batches()  # of what is coalesced, rows are written
            found, expected = (smalti.read_table(tmp_path / name) for name in ("batches", "rows"))
            assert found.schema.equals(expected.schema), query
            assert rows(found) == rows(expected), query
            assert (query == "no row") == (found.num_rows == 0)
    finally:
        spark.conf.unset("spark.sql.columnVector.offheap.enabled")


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_vectors_that_refuse_to_give_nulls(
    spark: Any, tmp_path: Path, parquet: Path, took_batches: Callable[[], bool]
) -> None:
    """Those of Arrow do. Spark 4.3 can cache tables in them, if it is told so when it starts, or as here."""
    package = "org.apache.spark.sql.execution.columnar"
    serializer = f"{package}.ArrowCachedBatchSerializer"
    relations = getattr(getattr(spark._jvm, f"{package}.InMemoryRelation$"), "MODULE$")
    try:
        spark._jvm.java.lang.Class.forName(serializer)
    except Exception:
        pytest.skip("this Spark has no Arrow cache")
    settings = spark._jsparkSession.sessionState().conf()
    frame = spark.read.parquet(str(parquet / "p=1"))
    try:
        settings.setConfString("spark.sql.cache.serializer", serializer)
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        relations.clearSerializer()
        frame.cache()
        took_batches()
        frame.write.format("mosaic").save(str(tmp_path / "t"))
        assert took_batches()
        found, expected = smalti.read_table(tmp_path / "t"), pq.read_table(parquet / "p=1", partitioning=None)
        assert rows(found) == rows(expected)
    finally:
        frame.unpersist()
        spark.conf.unset("spark.sql.adaptive.enabled")
        settings.unsetConf("spark.sql.cache.serializer")
        relations.clearSerializer()


def test_large_values(spark: Any, tmp_path: Path, took_batches: Callable[[], bool]) -> None:
    """Neither nested values, nor texts that a file has once, nor computed ones make batches of hundreds of MB."""
    count, length = 300, 1 << 16
    lists = pa.ListArray.from_arrays(np.arange(count + 1, dtype="int32") * length, np.ones(count * length))
    texts = pa.DictionaryArray.from_arrays([n % 3 for n in range(count)], [letter * (1 << 20) for letter in "abc"])
    table = pa.table({"id": range(count), "l": lists, "t": texts})
    pq.write_table(table, tmp_path / "large.parquet")
    frame = spark.read.parquet(str(tmp_path / "large.parquet"))
    memory = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    most = max(memory.getPeakMemoryAllocation(), 300 << 20)
    computed = frame.where("id % 10 != 4").selectExpr("id", "id * 2 AS twice", "repeat(left(t, 4), 1 << 19) AS r")
    for written in (frame.select("l"), frame.select("t"), computed):
        took_batches()
        written.write.format("mosaic").mode("overwrite").save(str(tmp_path / "large"))
        assert took_batches()
        assert memory.getPeakMemoryAllocation() < most, written.columns
        assert memory.getAllocatedMemory() == 0
    found = smalti.read_table(tmp_path / "large", columns=["id", "twice"])
    assert found.to_pylist() == [{"id": n, "twice": 2 * n} for n in range(count) if n % 10 != 4]


def test_settings_of_scans(spark: Any, tmp_path: Path) -> None:
    """Only a scan of many columns gets settings of its own, and these columns may be fields of one."""
    state = spark._jsparkSession.sessionState()
    skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    numbers = [pa.array([n]) for n in range(5000)]
    wide = {f"c{n}": number for n, number in enumerate(numbers)}
    tables = {
        "narrow": (pa.table({"id": numbers[0]}), 4096),
        "wide": (pa.table(wide), 838),
        "struct": (pa.table({"r": pa.StructArray.from_arrays(numbers, list(wide))}), 838),
    }
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        for name, (table, expected) in tables.items():
            pq.write_table(table, tmp_path / f"{name}.parquet")
            spark.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView("t")
            text = f"CREATE TABLE {name} USING mosaic LOCATION '{tmp_path / name}' AS SELECT * FROM t LIMIT 0"
            spark.sql(text)
            write = state.executePlan(state.sqlParser().parsePlan(f"INSERT INTO {name} SELECT * FROM t"), skip)
            batches = write.executedPlan().children().head()
            assert batches.nodeName() == "MosaicBatches"
            session = batches.children().head().relation().sparkSession()
            assert session.equals(spark._jsparkSession) == (name == "narrow")
            assert session.sessionState().conf().parquetVectorizedReaderBatchSize() == expected
            assert session.sessionState().conf().sessionLocalTimeZone() == "Asia/Kathmandu"
            spark.sql(f"DROP TABLE {name}")
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


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
    """Random numbers, subqueries, names of files, computed structs and collated strings, sorts by partition."""
    spark.read.parquet(str(parquet)).createOrReplaceTempView("t")
    queries = {
        "SELECT id, rand(1) AS x FROM t": 2 * ROWS,
        "SELECT id FROM t WHERE id > (SELECT avg(id) FROM t)": ROWS,
        "SELECT id, input_file_name() AS name FROM t": 2 * ROWS,
        "SELECT id, named_struct('a', id) AS r FROM t": 2 * ROWS,
        "SELECT s COLLATE UNICODE_CI || 'x' AS s FROM t": 2 * ROWS,
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
