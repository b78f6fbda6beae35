"""The pure parts: options, splits, types, filters, partitions, storage. No session needed."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import smalti
from smalti.errors import MosaicError, SchemaError
from smalti.io.locations import locate
from smalti.io.services import storage_arguments
from smalti.moments import TICKS
from smalti.options import WriterOptions
from smalti.predicate import prune_partitions
from smalti.spark.driver import questions
from smalti.spark.driver.plan import Table
from smalti.spark.filters import SparkFilter, comparable_values, filter_tree
from smalti.spark.options import camel_case, parse_names, parse_read_options, parse_write_options
from smalti.spark.task.read import Metrics, TaskScan
from smalti.spark.types import (
    arrow_schema,
    convert_array,
    fits,
    infer_partition_type,
    is_exact,
    spark_schema,
    spark_type,
    stored_schema,
)
from smalti.table.names import partition_directory
from smalti.table.partitions import by_directory, check_partition_columns, partition_value
from smalti.table.snapshot import Snapshot
from smalti.table.splits import rows_per_batch
from smalti.units import parse_bytes
from tests.support import tables
from tests.support.any_arrow import Money


class TestOptions:
    def test_every_writer_option_is_there_in_camel_case(self) -> None:
        names = [camel_case(name) for name in WriterOptions.__dataclass_fields__]
        assert "rowGroupMaxBytes" in names
        given = {
            "compression": "none",
            "compressionlevel": "3",
            "numbuckets": "7",
            "rowgroupmaxbytes": "1MB",
            "rowgroupmaxrows": "10",
            "dictmaxbytes": "0",
            "dictmaxentries": "5",
            "pagesizethreshold": "1k",
            "statscolumns": "a,b",
            "checksum": "FALSE",
            "companion": "false",
            "threads": "2",
            "layout": "fast",
        }
        assert set(given) == {name.lower() for name in names}
        assert parse_write_options({"path": "t", **given}).writer == WriterOptions(
            "none", 3, 7, 1 << 20, 10, 0, 5, 1024, ("a", "b"), False, 2, "fast", False
        )
        assert parse_write_options({"path": "t"}).writer == WriterOptions()

    @pytest.mark.parametrize(
        ("text", "names"),
        [("a", ("a",)), (" a , b ", ("a", "b")), ('["a,b", " c"]', ("a,b", " c")), ("", ())],
    )
    def test_names(self, text: str, names: tuple[str, ...]) -> None:
        assert parse_names(text) == names

    @pytest.mark.parametrize(("text", "size"), [("0", 0), ("12", 12), ("2k", 2048), ("3 MB".replace(" ", ""), 3 << 20)])
    def test_bytes(self, text: str, size: int) -> None:
        assert parse_bytes(text) == size

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (
                {"path": "t", "colums": "a"},
                "unknown option 'colums' for reading Mosaic; there are .*columns, .*storage",
            ),
            ({"path": "t", "numBuckets": "3"}, "unknown option 'numBuckets' for reading"),
            ({"path": "t", "maxPartitionBytes": "12 parsecs"}, "maxPartitionBytes .* found '12 parsecs'"),
            ({"path": "t", "columns": "[1]"}, "option columns cannot be read"),
            ({}, "where to read is missing"),
        ],
    )
    def test_reading_refuses(self, given: dict[str, str], message: str) -> None:
        with pytest.raises(MosaicError, match=message):
            parse_read_options(given)

    def test_the_session_gives_way_to_properties_and_these_to_options(self) -> None:
        session = {"maxPartitionBytes": "1", "maxRecordsPerFile": "9"}
        assert parse_read_options({"path": "t"}, session).max_partition_bytes == 1
        table = {"path": "t", "smalti.table": "true", "smalti.properties": '{"maxPartitionBytes": "2"}'}
        assert parse_read_options(table, session).max_partition_bytes == 2
        assert parse_read_options({**table, "maxpartitionbytes": "3"}, session).max_partition_bytes == 3
        assert parse_write_options(table, session).max_records_per_file == 9

    def test_paths(self) -> None:
        here = str(Path.cwd())
        assert parse_read_options({"paths": '["a", "b/*"]'}).paths == (f"{here}/a", f"{here}/b/*")
        assert parse_read_options({"path": "s3://b/t"}).paths == ("s3://b/t",)
        with pytest.raises(MosaicError, match="option paths cannot be read"):
            parse_read_options({"paths": "[1, 2]"})
        assert parse_write_options({"path": "t"}).path == f"{here}/t"
        assert parse_read_options({"path": "a", "storage.region": "r"}).storage == {"region": "r"}


class TestBatches:
    @pytest.mark.parametrize(("row", "rows"), [(0, 65_536), (1 << 10, 16 << 10), (1 << 30, 64)])
    def test_batches(self, row: int, rows: int) -> None:
        assert rows_per_batch(row, 16 << 20) == rows


class TestTypes:
    @pytest.mark.parametrize("name", tables.TYPES)
    def test_every_mosaic_type_has_a_spark_type_that_is_stored_as_it_was(self, name: str) -> None:
        stored = tables.TYPES[name]
        schema = spark_schema(pa.schema([("x", stored)]))
        assert fits(stored, arrow_schema(schema).field(0).type)
        back = stored_schema(schema).field(0).type
        if name.startswith(("ts", "tz", "decneg", "lm", "time")):
            assert spark_type(back) == spark_type(stored)  # microseconds, UTC, whole numbers, milliseconds
        elif pa.types.is_nested(stored):
            assert spark_type(back) == spark_type(stored)
        else:
            assert back == stored

    @pytest.mark.parametrize(
        ("stored", "wanted", "answer"),
        [
            (pa.int8(), pa.int64(), True),
            (pa.int64(), pa.int32(), False),
            (pa.float32(), pa.float64(), True),
            (pa.int32(), pa.float64(), False),
            (pa.decimal128(5, 2), pa.decimal128(7, 3), True),
            (pa.decimal128(5, 2), pa.decimal128(5, 3), False),
            (pa.timestamp("ns"), pa.timestamp("us"), True),
            (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
            (pa.list_(pa.int8()), pa.list_(pa.int16()), True),
            (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8()), False),
            (pa.time32("ms"), pa.time64("ns"), True),
            (pa.string(), pa.binary(), False),
        ],
    )
    def test_fits(self, stored: pa.DataType, wanted: pa.DataType, answer: bool) -> None:
        assert fits(stored, wanted) is answer

    def test_nested_values_are_converted(self) -> None:
        array = pa.array([[1_999, None], None, [], [-1]], pa.list_(pa.timestamp("ns")))[1:]
        target = pa.list_(pa.field("element", pa.timestamp("us")))
        assert convert_array(array, target).cast(pa.list_(pa.int64())).to_pylist() == [None, [], [-1]]
        pairs = pa.array([[("z", 9)], [("a", 1)], None], pa.map_(pa.string(), pa.int8()))[1:]
        assert convert_array(pairs, pa.map_(pa.string(), pa.int64())).to_pylist() == [[("a", 1)], None]

    @pytest.mark.parametrize(
        "kind",
        [st.YearMonthIntervalType(), st.CalendarIntervalType()],
    )
    def test_refused(self, kind: st.DataType) -> None:
        with pytest.raises(SchemaError, match="column 'c': Spark type has no place in Mosaic"):
            stored_schema(st.StructType([st.StructField("c", kind)]))

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_units_of_dictionaries_and_runs(self, unit: Any) -> None:
        """They were numbers to Spark, or 1,000 times too large beside a file of another unit."""
        plain = pa.array([5 * TICKS[unit], None], pa.duration(unit))
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), plain)
        for array in (plain, plain.dictionary_encode(), runs):
            assert spark_type(array.type) == st.DayTimeIntervalType()
            assert is_exact(array.type) == (unit != "ns")
            for target in (pa.duration("us"), pa.list_(pa.duration("us"))):
                given = array if target == pa.duration("us") else pa.ListArray.from_arrays([0, 2], array)
                expected = [dt.timedelta(seconds=5), None]
                assert convert_array(given, target).to_pylist() == (expected if given is array else [expected])

    def test_times_of_spark(self) -> None:
        schema = st.StructType([st.StructField("t", st.TimeType(6))])
        assert stored_schema(schema).field(0).type == pa.time32("ms")
        assert convert_array(pa.array([5_000_000], pa.time64("ns")), pa.time32("ms")).cast(pa.int32()).to_pylist() == [
            5
        ]
        with pytest.raises(pa.ArrowInvalid):
            convert_array(pa.array([5_000_001], pa.time64("ns")), pa.time32("ms"))


class TestFilters:
    @pytest.mark.parametrize(
        ("filter_", "partition", "answer"),
        [
            (("=", "a", 3), {"a": 3}, True),
            (("=", "a", 3), {"a": 4}, False),
            (("=", "a", 3), {"a": None}, False),
            (("=", "a", 3), {"b": 4}, True),
            (("<=>", "a", None), {"a": 4}, False),
            (("<=>", "a", 3), {"a": None}, False),
            (("NOT", ("=", "a", 3)), {"a": 3}, False),
            (("NOT", ("=", "a", 3)), {"a": None}, False),
            (("NOT", ("<=>", "a", 3)), {"a": 3}, False),
            (("NOT", ("<=>", "a", 3)), {"a": None}, True),
            (("NOT", ("IS_NULL", "a")), {"a": None}, False),
            (("NOT", ("IS_NOT_NULL", "a")), {"a": None}, True),
            (("IN", "a", 1, None), {"a": 2}, False),
            (("IN", "a", 1, 2), {"a": 2}, True),
            (("NOT", ("IN", "a", 1, None)), {"a": 2}, True),
            ((">", "a", 3), {"a": 3}, False),
            (("<=", "a", 3), {"a": 3}, True),
            ((">", "a", "x"), {"a": 3}, True),  # cannot be compared here: Spark decides
            (("IS_NULL", "a"), {"a": 1}, False),
            (("IS_NOT_NULL", "a"), {"a": None}, False),
            (("STARTS_WITH", "a", "2024-"), {"a": "2023-01"}, False),
            (("CONTAINS", "a", "3-"), {"a": "2023-01"}, True),
            (("ENDS_WITH", "a", "-01"), {"a": "2023-02"}, False),
            (("NOT", ("ENDS_WITH", "a", "-01")), {"a": "2023-01"}, False),
            (("CONTAINS", "a", "3"), {"a": 3}, True),  # not text here: Spark decides
        ],
    )
    def test_partitions(self, filter_: SparkFilter, partition: dict[str, Any], answer: bool) -> None:
        values = {name: pa.scalar(value, pa.int64() if value is None else None) for name, value in partition.items()}
        tree = filter_tree([filter_], {name: value.type for name, value in values.items()})
        assert (tree is None or prune_partitions(tree, [values])[0]) is answer

    def test_partitions_of_many_files(self) -> None:
        tree = filter_tree([(">", "a", 1), ("STARTS_WITH", "b", "x")], {"a": pa.int8(), "b": pa.string()})
        assert tree is not None
        numbers = [pa.scalar(value, pa.int8()) for value in (1, 2, 3, None)]
        texts = [pa.scalar(value, pa.string()) for value in ("x", "x", "y", "x")]
        partitions = [{"a": number, "b": text} for number, text in zip(numbers, texts, strict=True)]
        unknown = [{"a": numbers[0]}, {"b": texts[0]}, {"b": texts[2]}, {}]
        assert prune_partitions(tree, partitions + unknown) == [False, True, False, False, False, True, False, True]

    @pytest.mark.parametrize(
        ("filter_", "stored", "groups"),
        [
            (("=", "a", 15), pa.int32(), [1]),
            (("=", "a", 1 << 40), pa.int32(), []),
            (("<", "a", 10), pa.int64(), [0]),
            ((">=", "a", 10), pa.int64(), [1]),
            (("NOT", ("<", "a", 10)), pa.int64(), [1]),
            (("IN", "a", 3, 900), pa.int64(), [0]),
            (("IN", "a", None), pa.int64(), []),
            (("IN", "a", *range(12, 5000)), pa.int64(), [1]),
            (("IN", "a", Decimal("3.00"), Decimal(900)), pa.decimal128(9, 2), [0]),
            (("IS_NULL", "a"), pa.int64(), [1]),
            (("IS_NOT_NULL", "a"), pa.int64(), [0, 1]),
            (("<=>", "a", 15), pa.int64(), [1]),
            (("NOT", ("<=>", "a", 3)), pa.int64(), [0, 1]),
            (("<=>", "a", None), pa.int64(), [1]),
            (("<", "a", 10.0), pa.float64(), [0]),
            ((">", "a", 100.0), pa.float64(), None),  # NaN would pass
            (("NOT", ("<", "a", 100.0)), pa.float64(), [0, 1]),  # so it would here
            (("=", "a", float("nan")), pa.float64(), None),
            (("=", "a", Decimal("15.00")), pa.decimal128(9, 2), [1]),
            (("=", "a", dt.date(1970, 1, 16)), pa.date32(), [1]),
            (("=", "a", dt.datetime(1970, 1, 1, 0, 0, 0, 15)), pa.timestamp("us"), [1]),
            (
                ("=", "a", dt.datetime(1970, 1, 1, 0, 0, 0, 0)),
                pa.timestamp("ns"),
                None,
            ),  # Spark sees rounded values
            (("=", "a", 15), pa.time32("ms"), None),
            (("=", "a", "x"), pa.int64(), None),
            (("=", "b", 1), pa.int64(), None),
            (("STARTS_WITH", "a", "x"), pa.string(), []),
            (("CONTAINS", "a", "x"), pa.string(), [0, 1]),  # bounds do not tell
            (("STARTS_WITH", "a", "x"), pa.int64(), None),
        ],
    )
    def test_statistics(
        self, filter_: SparkFilter, stored: pa.DataType, groups: list[int] | None, tmp_path: Path
    ) -> None:
        """Row groups of 0 to 9 and of 10 to 18 with a null; None: the filter is not asked of statistics at all."""
        tree = filter_tree([filter_], {"a": stored})
        if groups is None:
            assert tree is None
            return
        numbers = [*range(19), None]
        column = (
            pa.array([None if n is None else Decimal(n) for n in numbers], stored) if "dec" in str(stored) else None
        )
        if column is None:
            wide = pa.int32() if stored == pa.date32() else pa.int64()
            column = pa.array(numbers, wide).cast(stored)
        smalti.write_table(pa.table({"a": column}), tmp_path / "t", stats_columns="all", row_group_max_rows=10)
        with smalti.open(tmp_path / "t") as file:
            assert file.matching_row_groups(tree) == groups


@pytest.mark.parametrize(
    "filter_",
    [
        ("IN", "d", "b", "c"),
        ("=", "d", "b"),
        ("STARTS_WITH", "d", "b"),
        ("=", "j", "b"),
        ("IN", "j", "b", "c"),
        ("CONTAINS", "large", "b"),
        ("NOT", ("IN", "d", "a", "c")),
    ],
    ids=str,
)
def test_columns_of_types_that_spark_does_not_know(tmp_path: Path, filter_: SparkFilter) -> None:
    """Spark compares what they hold, and so do we: a categorical of pandas is a text."""
    words = pa.array(["a", "b", None])
    wrapped = pa.ExtensionArray.from_storage(Money(pa.string()), words)
    table = pa.table({"d": words.dictionary_encode(), "j": wrapped, "large": words.cast(pa.large_string())})
    smalti.write_table(table, tmp_path / "t.mosaic", stats_columns="all")
    with smalti.open(tmp_path / "t.mosaic") as file:
        tree = filter_tree([filter_], {field.name: field.type for field in file.schema})
        assert tree is not None
        assert file.read(["d"], filters=tree)["d"].to_pylist() == ["b"]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_both_zeros_are_in_a_list_that_has_one(tmp_path: Path, type_: pa.DataType) -> None:
    smalti.write_table(pa.table({"x": pa.array([0.0, -0.0, 1.0, None], type_)}), tmp_path / "t.mosaic")
    for given in ((0.0, 1.5), (-0.0, 1.5)):
        tree = filter_tree([("IN", "x", *given)], {"x": type_})
        assert smalti.read_table(tmp_path / "t.mosaic", filters=tree).num_rows == 2
        tree = filter_tree([("NOT", ("IN", "x", *given))], {"x": type_})
        assert smalti.read_table(tmp_path / "t.mosaic", filters=tree).num_rows == 1


@pytest.mark.parametrize("limit", [None, 2])
def test_every_task_reports_what_it_has_read(tmp_path: Path, limit: int | None) -> None:
    smalti.write_table(pa.table({"x": range(10)}), tmp_path / "a.mosaic", row_group_max_rows=2)
    table = Table(parse_read_options({"path": str(tmp_path)}))
    schema = table.schema()
    for split in table.splits(schema):
        scan = TaskScan(table.options, schema, limit=limit)
        assert sum(batch.num_rows for _, batch in scan.read(pickle.dumps(split), Metrics())) == (limit or 10)


@pytest.mark.parametrize("count", [3, 9])
def test_the_driver_opens_files_only_where_it_must(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the hidden column, unless it has row groups; and for an aggregate not all files of a large table."""
    for number in range(count):
        smalti.write_table(pa.table({"x": range(4)}), tmp_path / f"{number}.mosaic", row_group_max_rows=2)
    opened, open_file = [], Snapshot.open
    monkeypatch.setattr(Snapshot, "open", lambda table, file: (opened.append(file.path), open_file(table, file))[1])
    monkeypatch.setattr(questions, "_MAX_OPENED", 0)
    monkeypatch.setattr("smalti.spark.driver.plan._MAX_AGGREGATED", 5)

    def ask(question: str, fields: list[str], **named: Any) -> tuple[dict[str, Any], Any]:
        hidden = [st.StructField("_metadata", st.StructType([st.StructField(name, st.LongType()) for name in fields]))]
        schema = st.StructType([st.StructField("x", st.LongType()), *(hidden if fields else [])])
        asked = {"question": "open", "options": {"path": str(tmp_path)}, "given": True}
        table, _ = questions.answer(asked, ())
        opened.clear()
        common = {"table": table["table"], "schema": schema.json(), "filters": [], "decided": [], "order": []}
        common |= {"hidden": "_metadata" if fields else None, "defaults": {}, "statistics": False}
        return questions.answer({"question": question, **common, **named}, ())

    for fields, pieces in ([], 1), (["file_size", "row_index"], 1), (["row_group"], 2):
        _, (scan, *splits) = ask("plan", fields)
        assert len(set(opened)) == (count if pieces == 2 else 1)
        found = [batch for split in splits for _, batch in pickle.loads(scan).read(split, Metrics())]
        assert sum(batch.num_rows for batch in found) == 4 * count
        assert sum(len(pickle.loads(split)) for split in splits) == pieces * count
        hidden = [row["_metadata"] for batch in found for row in batch.to_pylist() if fields]
        assert [row["row_index"] for row in hidden if "row_index" in row] == list(range(4)) * (
            count if pieces == 1 and fields else 0
        )
        assert [row["row_group"] for row in hidden if "row_group" in row] == [0, 0, 1, 1] * (
            count if pieces == 2 else 0
        )
    rows = ask("aggregate", [], functions=[["count"]], groups=[])[0]["rows"]
    assert (rows, len(opened)) == (([[4 * count]], count) if count <= 5 else (None, 0))


@pytest.mark.parametrize("option", ["ignorecorruptfiles", "ignoremissingfiles", "plain"])
def test_a_limit_does_not_count_on_files_that_may_be_skipped(tmp_path: Path, option: str) -> None:
    for number in range(3):
        smalti.write_table(pa.table({"x": [number] * 5}), tmp_path / f"{number}.mosaic")
    table = Table(parse_read_options({"path": str(tmp_path), option: "true"}))
    schema = table.schema()
    table.learn_facts()
    pieces = [piece for split in table.splits(schema, limit=4) for piece in split]
    assert len(pieces) == (1 if option == "plain" else 3)
    assert (table.aggregate(schema, [["count"]]) is None) is (option != "plain")


class TestPartitions:
    def test_by_directory(self) -> None:
        batch = pa.record_batch({"x": [1, 2, 3, 4], "p": ["a", None, "a", ""], "q": [True, True, True, False]})
        parts = {name: rows.to_pydict() for name, rows in by_directory(batch, ["p", "q"])}
        assert parts == {
            "p=a/q=true": {"x": [1, 3]},
            "p=__HIVE_DEFAULT_PARTITION__/q=true": {"x": [2]},
            "p=/q=false": {"x": [4]},
        }
        assert [name for name, _ in by_directory(batch, [])] == [""]

    def test_floating_point_numbers_are_told_from_whole_ones(self) -> None:
        batch = pa.record_batch(
            {"x": [1, 2, 3, 4], "p": pa.array([1.0, 0.1, float("nan"), -float("inf")], pa.float32())}
        )
        names = [name for name, _ in by_directory(batch, ["p"])]
        assert names == ["p=1.0", "p=0.1", "p=NaN", "p=-Infinity"]
        assert infer_partition_type({name[2:] for name in names}) == infer_partition_type({"1.0"}) == pa.float64()

    @pytest.mark.parametrize(
        ("values", "type_"),
        [
            (["7", "-2147483648"], pa.int32()),
            (["7", "2147483648"], pa.int64()),
            (["7", "12345678901234567890"], pa.decimal128(20, 0)),
            (["7", "9" * 39], pa.float64()),
            (["7", "0.5", "1e3"], pa.float64()),
            (["9007199254740993", "0.5"], pa.string()),
            (["2024-02-29"], pa.date32()),
            (["2024-02-30"], pa.string()),
            (["7", ""], pa.string()),
            ([], pa.string()),
        ],
        ids=str,
    )
    def test_no_value_is_changed_by_the_type_that_is_inferred(self, values: list[str], type_: pa.DataType) -> None:
        """As Spark does: numbers that a double does not hold are decimals, or texts beside others with a point."""
        assert infer_partition_type(set(values)) == type_

    def test_names_are_escaped_and_found_again(self) -> None:
        from smalti.table.names import parse_partition

        values = [("näme", "a/b=c%"), ("k", None), ("d", "2024-01-01 10:00:00"), ("dots", "..")]
        assert parse_partition(partition_directory(values).split("/")) == dict(values)

    def test_only_what_compares_alike_is_compared(self) -> None:
        schema = pa.schema(
            [("i", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("x", pa.string())]
        )
        texts = {"i": "7", "t": "2024-01-01 00:00:00", "d": "2024-01-01"}
        assert comparable_values(texts, schema) == {"i": pa.scalar(7), "d": pa.scalar(dt.date(2024, 1, 1))}
        with pytest.raises(SchemaError, match=r"column 'i': a partition value does not fit .*: found seven"):
            comparable_values({"i": "seven"}, schema)

    def test_decimals_in_names_of_directories(self) -> None:
        """A name may come from anywhere, and Arrow's own cast ends the process for the first two."""
        field = pa.field("d", pa.decimal128(10, 2))
        for text in (
            "8104e-18888844",
            f"0.{'0' * 100}1",
            "1e999999999999999999999",
            "1.005",
            "123456789",
            "1_0",
            "x",
            "",
        ):
            with pytest.raises(SchemaError, match="does not fit"):
                partition_value({"d": text}, field)
        for text, value in (("1.5", "1.50"), ("-0e-9999999", "0.00"), ("+15e-1", "1.50"), ("1.500000", "1.50")):
            assert str(partition_value({"d": text}, field)) == value

    def test_binary_is_refused(self) -> None:
        with pytest.raises(SchemaError, match="cannot be partitioned by"):
            check_partition_columns(["b"], pa.schema([("a", pa.int64()), ("b", pa.binary())]))


class TestStorage:
    def test_local(self) -> None:
        for path in ("/a/b", "file:/a/b", "file:///a/b"):
            location = locate(path)
            assert (location.filesystem.type_name, location.path) == ("local", "/a/b")

    def test_arguments(self) -> None:
        given = {"accesskey": "k", "secret_key": "s", "endpointoverride": "http://h", "anonymous": "FALSE"}
        assert storage_arguments("s3", given) == {
            "access_key": "k",
            "secret_key": "s",
            "endpoint_override": "http://h",
            "anonymous": False,
        }
        with pytest.raises(MosaicError, match=r"unknown storage option 'password' for s3; there are access_key"):
            storage_arguments("s3", {"password": "p"})
