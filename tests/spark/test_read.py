"""Reading through Spark: types, paths, partitions, union of schemas, splits, options, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import smalti
from tests.support import tables


def write(path: Path, columns: dict[str, Any], **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    smalti.write_table(pa.table(columns), path, **options)
    return str(path)


def load(spark: Any, path: Any, **options: Any) -> Any:
    return spark.read.format("mosaic").options(**options).load(path)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_every_type(spark: Any, tmp_path: Path) -> None:
    kinds = {k: t for k, t in tables.TYPES.items() if not k.startswith(("ts", "tz", "lm", "time"))}
    table = tables.matrix(3, 40, kinds, nan=False)
    table = table.select([name for name in table.column_names if name.endswith(("_Pn", "_Dn"))])
    smalti.write_table(table, tmp_path / "t.mosaic")
    frame = load(spark, str(tmp_path / "t.mosaic"))
    assert frame.columns == table.column_names
    found = frame.toArrow()
    for name in table.column_names:
        stored = table[name]
        if pa.types.is_nested(stored.type):
            assert found[name].to_pylist() == stored.to_pylist(), name
        elif name.startswith("decneg"):
            assert found[name].to_pylist() == stored.cast(pa.decimal128(9, 0)).to_pylist(), name
        else:
            assert found[name].cast(stored.type).equals(stored), name


def test_times(spark: Any, tmp_path: Path) -> None:
    micro = [0, -1, 1_700_000_000_123_456, None]
    nanos = pa.array([1_999, -1, -1_000, None], pa.timestamp("ns"))
    columns = {
        "ms": pa.array([0, -1, 1_700_000_000_123, None], pa.timestamp("ms")),
        "us": pa.array(micro, pa.timestamp("us")),
        "ns": nanos,
        "zoned": pa.array(micro, pa.timestamp("us", "Europe/Paris")),
        "list_ns": pa.array([[1_999], [-1], [], None], pa.list_(pa.timestamp("ns"))),
        "time": pa.array([0, 1, 86_399_999, None], pa.time32("ms")),
    }
    frame = load(spark, write(tmp_path / "t.mosaic", columns))
    assert [kind for _, kind in frame.dtypes] == [
        "timestamp_ntz",
        "timestamp_ntz",
        "timestamp_ntz",
        "timestamp",
        "array<timestamp_ntz>",
        "int",
    ]
    found = frame.toArrow()
    assert found["ms"].cast(pa.int64()).to_pylist() == [0, -1_000, 1_700_000_000_123_000, None]
    assert found["us"].cast(pa.int64()).to_pylist() == micro
    assert found["ns"].cast(pa.int64()).to_pylist() == [1, -1, -1, None]  # rounded down
    assert found["zoned"].cast(pa.int64()).to_pylist() == micro
    assert found["list_ns"].combine_chunks().flatten().cast(pa.int64()).to_pylist() == [1, -1]
    assert found["time"].to_pylist() == [0, 1, 86_399_999, None]


def test_paths(spark: Any, tmp_path: Path) -> None:
    a, b = write(tmp_path / "t/a.mosaic", {"x": [1]}), write(tmp_path / "t/b.mosaic", {"x": [2]})
    write(tmp_path / "t/_hidden.mosaic", {"x": [3]})
    write(tmp_path / "t/.hidden.mosaic", {"x": [4]})
    (tmp_path / "t/notes.txt").write_text("not a table")
    both = [(1,), (2,)]
    assert rows(load(spark, a)) == [(1,)]
    assert rows(load(spark, str(tmp_path / "t"))) == both
    assert rows(load(spark, f"file://{tmp_path}/t")) == both
    assert rows(load(spark, f"{tmp_path}/t/*.mosaic")) == both
    assert rows(load(spark, f"{tmp_path}/t/[b].mosaic")) == [(2,)]
    assert rows(load(spark, [a, b])) == both
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING mosaic OPTIONS (path '{tmp_path}/t')")
    assert spark.sql("SELECT sum(x) FROM v").first()[0] == 3


def test_partitions(spark: Any, tmp_path: Path) -> None:
    for day, city in [("1", "São%20Paulo"), ("2", "__HIVE_DEFAULT_PARTITION__")]:
        write(tmp_path / f"t/day={day}/city={city}/x.mosaic", {"x": [int(day) * 10]})
    frame = load(spark, str(tmp_path / "t"))
    assert frame.dtypes == [("x", "bigint"), ("day", "int"), ("city", "string")]
    assert rows(frame) == [(10, 1, "São Paulo"), (20, 2, None)]
    assert rows(frame.select("city").where("day = 1")) == [("São Paulo",)]
    given = spark.read.format("mosaic").schema("day string, x int").load(str(tmp_path / "t"))
    with pytest.raises(Exception, match="does not fit"):
        given.collect()
    assert rows(spark.read.format("mosaic").schema("day string, x bigint").load(str(tmp_path / "t"))) == [
        ("1", 10),
        ("2", 20),
    ]


def test_union_of_schemas(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "t/a.mosaic", {"i": pa.array([1], pa.int32()), "f": pa.array([0.5], pa.float32()), "old": ["o"]})
    write(tmp_path / "t/b.mosaic", {"new": ["n"], "i": pa.array([2**40]), "f": pa.array([0.25])})
    frame = load(spark, str(tmp_path / "t"))
    assert frame.dtypes == [("i", "bigint"), ("f", "double"), ("old", "string"), ("new", "string")]
    assert rows(frame) == [(1, 0.5, "o", None), (2**40, 0.25, None, "n")]
    first = load(spark, str(tmp_path / "t/a.mosaic"), mergeSchema="false")
    assert first.dtypes == [("i", "int"), ("f", "float"), ("old", "string")]
    narrow = load(spark, str(tmp_path / "t"), mergeSchema="false")
    with pytest.raises(Exception, match=r"b\.mosaic.*column 'i'.*does not fit"):
        narrow.collect()


def test_splits(spark: Any, tmp_path: Path) -> None:
    values = list(range(10_000))
    text = [f"{v * 7919 % 10007:x}" * 20 for v in values]
    path = write(tmp_path / "t/large.mosaic", {"x": values, "s": text}, row_group_max_rows=1000)
    one = load(spark, path, minPartitions="1")
    assert one.rdd.getNumPartitions() == 1
    many = load(spark, path, maxPartitionBytes="1", openCostBytes="1")
    assert many.rdd.getNumPartitions() == 10
    assert many.selectExpr("sum(x)", "count(s)").first() == (sum(values), 10_000)
    for i in range(20):
        write(tmp_path / f"small/{i}.mosaic", {"x": [i]})
    assert load(spark, str(tmp_path / "small"), minPartitions="1").rdd.getNumPartitions() == 1
    some = load(spark, str(tmp_path / "small"), maxPartitionBytes="10MB", openCostBytes="1MB", minPartitions="1")
    assert some.rdd.getNumPartitions() in (2, 3)


def test_batch_size(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "t.mosaic", {"x": list(range(1000))})
    sizes = load(spark, path, batchSize="300").mapInArrow(lambda batches: batches, "x bigint")
    assert sizes.count() == 1000


class TestBadInput:
    """Errors come when the query is planned, and say what and where."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> str:
        write(tmp_path / "t/a.mosaic", {"x": [1, 2], "s": ["a", "b"]})
        write(tmp_path / "t/c.mosaic", {"x": [3], "s": ["c"]})
        return str(tmp_path / "t")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batchRows": "3"}, r"unknown option 'batchRows' for reading Mosaic; there are .*batchSize.*storage"),
            ({"batchSize": "0"}, r"option batchSize cannot be read: found '0', expected a positive whole number"),
            ({"mergeSchema": "maybe"}, r"option mergeSchema .* expected true or false"),
            ({"columns": "x,y"}, r"option columns names a column the table does not have: found y"),
            ({"storage.accessKey": "k"}, r"storage options are for remote paths"),
        ],
    )
    def test_options(self, spark: Any, table: str, options: dict[str, str], message: str) -> None:
        with pytest.raises(AnalysisException, match=message):
            load(spark, table, **options)

    def test_missing(self, spark: Any, tmp_path: Path) -> None:
        with pytest.raises(AnalysisException, match=r"PATH_NOT_FOUND.*nowhere"):
            load(spark, str(tmp_path / "nowhere"))
        with pytest.raises(AnalysisException, match=r"PATH_NOT_FOUND.*\*\.mosaic"):
            load(spark, f"{tmp_path}/*.mosaic")
        (tmp_path / "empty").mkdir()
        with pytest.raises(AnalysisException, match=r"empty: no Mosaic files"):
            load(spark, str(tmp_path / "empty"))

    def test_schema_that_does_not_fit(self, spark: Any, table: str) -> None:
        frame = spark.read.format("mosaic").schema("x string").load(table)
        with pytest.raises(AnalysisException, match=r"a\.mosaic, column 'x': column does not fit.*int64.*string"):
            frame.collect()
        write(Path(table) / "b.mosaic", {"x": ["text"]})
        with pytest.raises(AnalysisException, match=r"b\.mosaic, column 'x': files disagree"):
            load(spark, table)

    def test_corrupt_file(self, spark: Any, table: str) -> None:
        (Path(table) / "b.mosaic").write_bytes(b"not a Mosaic file at all, not even close to one")
        with pytest.raises(AnalysisException, match=r"b\.mosaic.*footer.*bad magic|b\.mosaic.*footer"):
            load(spark, table)
        assert load(spark, table, ignoreCorruptFiles="true").count() == 3

    def test_corrupt_bucket(self, spark: Any, table: str) -> None:
        """Found by a task, not by the driver: the path and the place still come through."""
        path = Path(table) / "a.mosaic"
        data = bytearray(path.read_bytes())
        data[6] ^= 0xFF
        path.write_bytes(data)
        frame = load(spark, table)
        with pytest.raises(Exception, match=r"a\.mosaic, row group 0, bucket 0"):
            frame.collect()
        assert rows(load(spark, table, ignoreCorruptFiles="true")) == [(3, "c")]

    def test_a_file_that_is_gone_or_replaced_is_not_skipped(self, spark: Any, table: str) -> None:
        """The table was overwritten after the query was planned: its rows are not those of the others."""
        frame = load(spark, table, ignoreCorruptFiles="true")
        assert frame.count() == 3
        path = Path(table) / "a.mosaic"
        data = path.read_bytes()
        write(path, {"x": [7, 7, 7, 7], "y": ["", "", "", ""]})
        with pytest.raises(Exception, match=r"a\.mosaic: the file was replaced after the table was listed"):
            frame.collect()
        path.unlink()
        with pytest.raises(Exception, match=r"RemovedError.*a\.mosaic"):
            frame.collect()
        path.write_bytes(data)
