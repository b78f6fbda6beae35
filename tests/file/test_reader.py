"""Reading what was asked for, and only that: columns, row groups, batches, statistics, sources, errors."""

from __future__ import annotations

import datetime
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import smalti
from smalti._core.allowance import Allowance
from tests.support import oracle, reference
from tests.support.compare import assert_same
from tests.support.files import read, written
from tests.support.golden import MALFORMED, expected_table, golden_bytes, golden_path
from tests.support.oracle.writer import Bucket, RowGroup, pack_bucket, schema_payload
from tests.support.tables import matrix

TABLE = pa.table({"b": [1, 2, 3, 4, 5], "a": ["v", "w", None, "y", "z"], "c": [[1], None, [], [2, 3], [4]]})


@pytest.fixture(scope="module")
def data() -> bytes:
    """Three row groups of two, two and one row."""
    return written(TABLE, row_group_max_rows=2, num_buckets=2, stats_columns=["a", "b"])


class TestProjection:
    @pytest.mark.parametrize("columns", [["a"], ["c", "a"], ["b", "a", "c"], ["a", "b", "c"]], ids=",".join)
    def test_order_is_the_order_asked_for(self, data: bytes, columns: list[str]) -> None:
        assert_same(read(data, columns=columns), TABLE.select(columns))

    def test_all_columns_come_in_the_order_written(self, data: bytes) -> None:
        assert_same(read(data), TABLE)

    def test_no_columns_still_has_rows(self, data: bytes) -> None:
        table = read(data, columns=[])
        assert (table.num_rows, table.num_columns) == (5, 0)
        assert read(data, columns=[], filters=[("b", ">", 3)]).num_rows == 2

    @pytest.mark.parametrize("columns", [["nope"], ["a", "nope"], ["A"], [""], ["a "], ["a\0"]], ids=repr)
    def test_unknown_name(self, data: bytes, columns: list[str]) -> None:
        with pytest.raises(smalti.SchemaError, match="column") as caught:
            read(data, columns=columns)
        assert repr(columns[-1]) in str(caught.value)

    def test_a_string_is_not_a_list_of_columns(self, data: bytes) -> None:
        with pytest.raises(TypeError):
            read(data, columns="abc")

    def test_every_name_of_a_bpe_schema_is_found(self) -> None:
        expected = expected_table("names_bpe")
        with smalti.open(golden_path("names_bpe")) as file:
            for name in expected.column_names:
                assert_same(file.read(columns=[name]), expected.select([name]))
            for wrong in ("battery", "zzz", expected.column_names[0] + "x", expected.column_names[-1][:-1]):
                with pytest.raises(smalti.SchemaError):
                    file.read(columns=[wrong])
                with pytest.raises(smalti.SchemaError):  # many names are looked up another way
                    file.read(columns=[*expected.column_names[:50], wrong])
            assert_same(file.read(columns=expected.column_names), expected)

    def test_subsets_of_every_type(self) -> None:
        table = matrix(40, 30)
        for options in ({"num_buckets": 3}, {"num_buckets": 3, "page_size_threshold": 0}):
            blob = written(table, **options)
            for start in range(0, 40, 7):
                columns = table.column_names[start::17]
                assert_same(read(blob, columns=columns), table.select(columns))


class TestRowGroups:
    @pytest.mark.parametrize(
        ("groups", "rows"), [([0], [0, 1]), ([2], [4]), ([2, 0], [4, 0, 1]), ([], []), ([-1], [4])]
    )
    def test_selection(self, data: bytes, groups: list[int], rows: list[int]) -> None:
        assert_same(read(data, row_groups=groups), TABLE.take(pa.array(rows, pa.int64())))

    def test_out_of_range(self, data: bytes) -> None:
        with smalti.open(data) as file:
            for number in (3, -4):
                with pytest.raises(IndexError):
                    file.read(row_groups=[number])
                with pytest.raises(IndexError):
                    file.row_group(number)

    def test_counts(self, data: bytes) -> None:
        with smalti.open(data) as file:
            assert (file.num_rows, file.num_columns, file.num_row_groups) == (5, 3, 3)
            assert [file.row_group(number).num_rows for number in range(3)] == [2, 2, 1]
            assert file.column_names == ["b", "a", "c"]
            assert file.schema == TABLE.schema


class TestBatches:
    @pytest.mark.parametrize(("size", "lengths"), [(None, [2, 2, 1]), (1, [1] * 5), (2, [2, 2, 1]), (100, [2, 2, 1])])
    def test_batches_never_span_row_groups(self, data: bytes, size: int | None, lengths: list[int]) -> None:
        with smalti.open(data) as file:
            batches = list(file.iter_batches(batch_size=size))
        assert [batch.num_rows for batch in batches] == lengths
        assert_same(pa.Table.from_batches(batches), TABLE)

    def test_projection_and_filter(self, data: bytes) -> None:
        with smalti.open(data) as file:
            batches = list(file.iter_batches(columns=["a"], filters=[("b", ">=", 4)]))
        assert pa.Table.from_batches(batches).to_pydict() == {"a": ["y", "z"]}

    def test_no_columns(self, data: bytes) -> None:
        with smalti.open(data) as file:
            assert [(batch.num_rows, batch.num_columns) for batch in file.iter_batches(columns=[])] == [
                (2, 0),
                (2, 0),
                (1, 0),
            ]

    @pytest.mark.parametrize("size", [0, -1])
    def test_bad_size(self, data: bytes, size: int) -> None:
        with smalti.open(data) as file, pytest.raises(ValueError, match="batch_size"):
            list(file.iter_batches(batch_size=size))

    @pytest.mark.parametrize("options", [{}, {"compression": "none"}, {"page_size_threshold": 0}], ids=str)
    def test_kept_strings_do_not_change_while_reading_on(self, options: dict[str, Any]) -> None:
        """The format's first implementation let a reused buffer show through: first_value became second_valx."""
        texts = ["first_value", "second_valx", "third_value", "x" * 5000, "y" * 5000]
        blob = written(pa.table({"s": texts, "t": texts[::-1]}), row_group_max_rows=1, **options)
        with smalti.open(blob) as file:
            kept, seen = [], []
            for batch in file.iter_batches(columns=["s"]):
                kept.append(batch)
                seen.append([earlier["s"].to_pylist() for earlier in kept])
        expected = [[text] for text in texts]
        assert seen == [expected[: number + 1] for number in range(5)]
        assert [batch["s"].to_pylist() for batch in kept] == expected

    def test_results_outlive_the_file_and_its_bytes(self) -> None:
        blob = bytearray(written(TABLE, compression="none"))
        file = smalti.open(bytes(blob))
        batches = list(file.iter_batches())
        file.close()
        del file
        assert_same(pa.Table.from_batches(batches), TABLE)

    def test_results_do_not_alias_a_buffer_the_caller_changes(self) -> None:
        blob = bytearray(written(TABLE, compression="none"))
        with smalti.open(blob) as file:
            table = file.read()
        blob[:] = bytes(len(blob))
        assert_same(table, TABLE)

    def test_one_file_read_from_several_threads(self) -> None:
        table = matrix(41, 60)
        blob = written(table, row_group_max_rows=20, num_buckets=5)
        found: list[pa.Table] = []
        with smalti.open(blob) as file:
            workers = [threading.Thread(target=lambda: found.append(file.read())) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        assert len(found) == 4
        for result in found:
            assert_same(result, table)


class TestSources:
    def sources(self, path: Path) -> dict[str, Callable[[], Any]]:
        blob = path.read_bytes()
        return {
            "str": lambda: str(path),
            "Path": lambda: path,
            "bytes": lambda: blob,
            "bytearray": lambda: bytearray(blob),
            "memoryview": lambda: memoryview(blob),
            "pyarrow.Buffer": lambda: pa.py_buffer(blob),
            "BytesIO": lambda: io.BytesIO(blob),
            "file object": lambda: path.open("rb"),
            "NativeFile": lambda: pa.OSFile(str(path)),
            "file URI": lambda: path.absolute().as_uri(),
        }

    @pytest.mark.parametrize(
        "kind",
        [
            "str",
            "Path",
            "bytes",
            "bytearray",
            "memoryview",
            "pyarrow.Buffer",
            "BytesIO",
            "file object",
            "NativeFile",
            "file URI",
        ],
    )
    def test_kinds(self, kind: str) -> None:
        path = golden_path("row_groups_6")
        make = self.sources(path)[kind]
        source = make()
        with smalti.open(source) as file:
            assert_same(file.read(), expected_table("row_groups_6"))
        if hasattr(source, "close"):
            source.close()

    def test_missing_file(self, tmp_path: Path) -> None:
        for source in (tmp_path / "none.mosaic", str(tmp_path / "none.mosaic")):
            with pytest.raises(FileNotFoundError):
                smalti.open(source)
            with pytest.raises(FileNotFoundError):
                smalti.read_table(source)

    def test_directory(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError):
            smalti.open(tmp_path)

    @pytest.mark.parametrize(
        "blob", [b"", b"MOSA", b"PAR1" * 20, bytes(64), b"\xff" * 16 + bytes(8) + b"\1\1\0\0MOSA"], ids=repr
    )
    def test_something_else(self, blob: bytes, tmp_path: Path) -> None:
        path = tmp_path / "x.mosaic"
        path.write_bytes(blob)
        with pytest.raises(smalti.CorruptFileError) as caught:
            smalti.open(path)
        assert caught.value.place["path"] == str(path)

    @pytest.mark.parametrize("bad", [None, 7, ["a"]], ids=repr)
    def test_not_a_source(self, bad: Any) -> None:
        with pytest.raises(TypeError):
            smalti.open(bad)

    def test_a_closed_file_reads_no_more(self) -> None:
        file = smalti.open(golden_path("row_groups_6"))
        file.close()
        file.close()
        with pytest.raises(ValueError, match=r"closed|released"):
            file.read()


#: type -> (Arrow type, values)
STATISTICS = {
    "bool": (pa.bool_(), [True, None, False]),
    "i8": (pa.int8(), [3, -128, None]),
    "i64": (pa.int64(), [3, -(2**63), 2**63 - 1]),
    "f32": (pa.float32(), [1.5, float("-inf"), None]),
    "f64": (pa.float64(), [1.5, 0.1, None]),
    "date": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
    "str": (pa.string(), ["b", "", "é"]),
    "dec": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.00"), None]),
    "time": (pa.time32("ms"), [datetime.time(1, 2, 3, 4000), datetime.time(23, 59)]),
    "ts3": (pa.timestamp("ms"), [datetime.datetime(2024, 2, 29, 1), datetime.datetime(1950, 1, 1)]),
    "ts6": (pa.timestamp("us"), [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None]),
    "tz": (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)]),
}


class TestStatistics:
    @pytest.mark.parametrize("name", STATISTICS)
    @pytest.mark.parametrize("writer", ["smalti", "reference"])
    def test_python_values_of_every_type(self, name: str, writer: str) -> None:
        kind, values = STATISTICS[name]
        table = pa.table({"x": pa.array(values, kind)})
        write = written if writer == "smalti" else reference.write
        with smalti.open(write(table, stats_columns=["x"])) as file:
            (found,) = file.row_group(0).statistics.values()
        real = [value for value in values if value is not None]
        assert (found.null_count, found.min, found.max) == (len(values) - len(real), min(real), max(real))
        assert type(found.min) is type(real[0])

    @pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC")], ids=str)
    def test_bounds_no_python_date_can_hold(self, kind: pa.DataType) -> None:
        """They stay Arrow scalars; the other columns' statistics are not lost over them."""
        extreme = (1 << kind.bit_width - 1) - 1
        table = pa.table({"x": pa.array([extreme, -extreme], kind), "y": [1, 2]})
        with smalti.open(written(table, stats_columns=["x", "y"])) as file:
            found = file.row_group(0).statistics
            assert file.read(filters=pc.field("y") == 2)["y"].to_pylist() == [2]
        assert (found["y"].min, found["y"].max) == (1, 2)
        assert (found["x"].min, found["x"].max) == (table["x"][1], table["x"][0])

    def test_no_statistics_asked_for(self) -> None:
        with smalti.open(written(TABLE, stats_columns=())) as file:
            assert file.row_group(0).statistics == {}

    def test_narrow_tables_have_statistics_unless_they_are_long(self) -> None:
        """Whether a layout is given makes no difference."""
        narrow = pa.table(
            {f"c{at:03d}": [at, at + 1] for at in range(98)} | {"text": ["a" * 70, "b" * 70], "l": [[1]] * 2}
        )
        for options in ({}, {"num_buckets": 100}, {"page_size_threshold": 0}):
            with smalti.open(written(narrow, **options)) as file:
                assert sorted(file.row_group(0).statistics) == narrow.column_names[:98]
        with smalti.open(written(narrow.append_column("more", [[1, 2]]))) as file:
            assert file.row_group(0).statistics == {}
        with smalti.open(written(narrow, stats_columns="all")) as file:
            assert "text" in file.row_group(0).statistics

    def test_all_null(self) -> None:
        with smalti.open(written(pa.table({"x": pa.nulls(3, pa.int32())}), stats_columns=["x"])) as file:
            found = file.row_group(0).statistics["x"]
        assert (found.null_count, found.min, found.max) == (3, None, None)

    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_nan_does_not_poison(self, position: int) -> None:
        values = [2.5, -1.5]
        values.insert(position, float("nan"))
        with smalti.open(written(pa.table({"x": values}), stats_columns=["x"])) as file:
            found = file.row_group(0).statistics["x"]
        assert (found.null_count, found.min, found.max) == (0, -1.5, 2.5)

    def test_nan_statistics_of_the_reference_are_unknown(self) -> None:
        table = pa.table({"x": [float("nan"), 2.5, -1.5]})
        with smalti.open(reference.write(table, stats_columns=["x"])) as file:
            found = file.row_group(0).statistics["x"]
            assert (found.null_count, found.min, found.max) == (0, None, None)
            assert file.read(filters=[("x", ">", 2)]).to_pydict() == {"x": [2.5]}

    def test_nothing_but_nan(self) -> None:
        with smalti.open(written(pa.table({"x": [float("nan")] * 3}), stats_columns=["x"])) as file:
            found = file.row_group(0).statistics["x"]
        assert (found.null_count, found.min, found.max) == (0, None, None)


@pytest.mark.parametrize(("millis", "nanos"), [(1 << 62, 0), (-(1 << 63), 0), (0, 1_000_000), (0, -1)])
def test_impossible_nanosecond_statistics_are_corruption(millis: int, nanos: int) -> None:
    """Bounds no nanosecond timestamp can have, in a file that is otherwise whole."""
    schema = pa.schema([("t", pa.timestamp("ns"))])
    options = oracle.Options(compression="none")
    bucket = pack_bucket(0, [schema.field(0)], [pa.array([1, 2], schema.field(0).type)], options)
    bound = millis.to_bytes(8, "big", signed=True) + nanos.to_bytes(4, "big", signed=True)
    record = b"\x01" + b"\x00\x00" + bound + bound  # one record: column 0, no nulls
    blob = oracle.assemble(schema_payload(schema, 1), [RowGroup(2, (bucket,), record)], 1, options)

    with pytest.raises(smalti.CorruptFileError):
        read_statistics(blob)


def read_statistics(blob: bytes) -> None:
    with smalti.open(blob) as file:
        _ = file.row_group(0).statistics


class TestMissingBuckets:
    """A bucket the index does not list reads as nulls where the column allows them."""

    SCHEMA = pa.schema([("a", pa.int32()), ("l", pa.list_(pa.string())), ("z", pa.string())])
    BATCH = pa.RecordBatch.from_pydict({"a": [1, 2], "l": [["x"], None], "z": ["p", "q"]}, schema=SCHEMA)

    def file(self, present: list[list[int]], schema: pa.Schema = SCHEMA, *, listed_empty: bool = False) -> bytes:
        """One row group per list of the buckets present in it; the others are left out, or listed as (0, 0)."""
        options = oracle.Options(compression="none")
        groups = []
        for numbers in present:
            buckets = [
                pack_bucket(number, [schema.field(number)], [self.BATCH.column(number)], options)
                if number in numbers
                else Bucket(number, b"", 0)
                for number in range(3)
            ]
            kept = buckets if listed_empty else [bucket for bucket in buckets if bucket.stored]
            groups.append(RowGroup(2, tuple(kept)))
        return oracle.assemble(schema_payload(schema, 3), groups, 3, options)

    @pytest.mark.parametrize("listed_empty", [False, True])
    def test_reads_as_nulls(self, listed_empty: bool) -> None:
        blob = self.file([[0, 1, 2], [0], []], listed_empty=listed_empty)
        expected = {
            "a": [1, 2, 1, 2, None, None],
            "l": [["x"], None, None, None, None, None],
            "z": ["p", "q", None, None, None, None],
        }
        assert_same(read(blob), pa.table(expected, schema=self.SCHEMA))
        assert read(blob, columns=["z"]).to_pydict() == {"z": expected["z"]}
        assert read(blob, filters=[("a", "==", 2)]).to_pydict() == {"a": [2, 2], "l": [None, None], "z": ["q", None]}

    def test_is_an_error_where_nulls_are_not_allowed(self) -> None:
        schema = self.SCHEMA.set(2, pa.field("z", pa.string(), nullable=False))
        blob = self.file([[0, 1]], schema)
        with pytest.raises(smalti.CorruptFileError) as caught:
            read(blob)
        assert caught.value.place["bucket"] == 2
        assert_same(read(blob, columns=["a"]), pa.table({"a": [1, 2]}, schema=pa.schema([("a", pa.int32())])))

    def test_layout_calls_it_empty(self) -> None:
        with smalti.open(self.file([[0]])) as file:
            buckets = file.layout().row_groups[0].buckets
        assert [bucket.mode for bucket in buckets] == ["monolithic", "empty", "empty"]


class TestErrors:
    def test_tree(self) -> None:
        assert issubclass(smalti.MosaicError, ValueError)
        for kind in (smalti.CorruptFileError, smalti.UnsupportedFeatureError, smalti.SchemaError):
            assert issubclass(kind, smalti.MosaicError)

    @pytest.mark.parametrize("name", ["b03_dict_index_out_of_range", "t03_footer_only", "f04_compression_2"])
    def test_pickling_keeps_all_parts(self, name: str) -> None:
        """Spark ships errors between processes."""
        with pytest.raises(smalti.MosaicError) as caught:
            smalti.read_table(MALFORMED / f"{name}.mosaic")
        error = caught.value
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.place) == (type(error), str(error), error.place)
        assert (copy.found, copy.expected, copy.reason) == (error.found, error.expected, error.reason)

    def test_a_bad_column_does_not_hide_its_paged_neighbours(self) -> None:
        """Pages are separate: damage in one leaves the others readable."""
        table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
        blob = bytearray(written(table, num_buckets=1, page_size_threshold=0))
        with smalti.open(bytes(blob)) as file:
            (bucket,) = file.layout().row_groups[0].buckets
        blob[bucket.offset + bucket.size - 6] ^= 0xFF
        assert read(bytes(blob), columns=["a"]).to_pydict() == {"a": [1, 2, 3]}
        with pytest.raises(smalti.CorruptFileError) as caught:
            read(bytes(blob), columns=["b"])
        assert caught.value.place["column"] == "b"


@pytest.mark.parametrize("mode", ["monolithic", "paged"])
def test_only_what_was_asked_for_is_read(mode: str) -> None:
    """Requests and bytes for one of 10,000 columns: the tail, then one bucket, or one directory and one slot."""
    table = pa.table({f"column_{at:05d}": pa.array(range(at, at + 50), pa.int64()) for at in range(10_000)})
    blob = written(table, page_size_threshold=0 if mode == "paged" else 1 << 30)
    counter = CountingFile(blob)
    with smalti.open(counter) as file:
        assert_same(file.read(columns=["column_07777"]), table.select(["column_07777"]))
        reads = list(counter.reads)
        layout = file.layout()
    (bucket,) = [b for b in layout.row_groups[0].buckets if b.columns[0].name == "column_07700"]
    assert bucket.mode == mode
    tail, *rest = reads
    assert layout.size - layout.schema_block.offset <= tail <= 64 << 10
    slot = bucket.columns[77].stored_size
    assert rest == ([bucket.size] if mode == "monolithic" else [4 * 100, slot])


@pytest.mark.parametrize("mode", ["monolithic", "paged"])
@pytest.mark.parametrize("columns", [["other"], ["other", "key"], ["key"], [], None])
def test_a_filter_without_statistics_reads_its_own_columns_first(mode: str, columns: list[str] | None) -> None:
    """The other columns are read only of the row group that has a matching row, and no bucket is read twice."""
    rows = 40
    table = pa.table({"key": range(rows), "other": [f"text {at}" for at in range(rows)], "third": range(rows)})
    threshold = 0 if mode == "paged" else 1 << 30
    blob = written(table, num_buckets=3, row_group_max_rows=10, page_size_threshold=threshold, stats_columns=())
    counter = CountingFile(blob)
    with smalti.open(counter) as file:
        groups = [group.buckets for group in file.layout().row_groups]
        counter.reads.clear()
        found = file.read(columns, filters=[("key", "in", [23, 27])])
    names = table.column_names if columns is None else columns
    assert_same(found, table.filter(pc.is_in(table["key"], pa.array([23, 27]))).select(names))
    keys = [group[0].size for group in groups]
    others = [bucket.size for bucket in groups[2][1:] if bucket.columns[0].name in names]
    assert sum(counter.reads) == sum(keys) + sum(others)


@pytest.mark.parametrize("mode", ["monolithic", "paged"])
def test_a_bucket_that_the_filter_has_read_is_not_read_again(mode: str) -> None:
    table = pa.table({"a": range(10), "b": range(10, 20), "c": ["x"] * 10})
    blob = written(table, num_buckets=1, page_size_threshold=0 if mode == "paged" else 1 << 30)
    counter = CountingFile(blob)
    with smalti.open(counter, cache_bytes=0) as file:
        (bucket,) = file.layout().row_groups[0].buckets
        counter.reads.clear()
        assert file.read(["c", "b"], filters=[("a", ">", 7)]).to_pydict() == {"c": ["x", "x"], "b": [18, 19]}
        assert counter.reads == [bucket.size]
        counter.reads.clear()
        assert file.read(["c"], filters=[("a", ">", 7)]).to_pydict() == {"c": ["x", "x"]}
    slots = {column.name: column.stored_size or 0 for column in bucket.columns}
    directory = bucket.size - sum(slots.values())
    assert counter.reads == ([bucket.size] if mode == "monolithic" else [directory, slots["a"], slots["c"]])


class CountingFile(io.BytesIO):
    """Remembers the size of every read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[int] = []

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.reads.append(len(found))
        return found


def test_zero_rows_and_zero_columns() -> None:
    table = read(golden_bytes("zero_rows"), columns=[expected_table("zero_rows").column_names[0]])
    assert (table.num_rows, table.num_columns) == (0, 1)
    with smalti.open(golden_bytes("zero_columns_5_rows")) as file:
        assert (file.read().num_rows, sum(batch.num_rows for batch in file.iter_batches())) == (5, 5)
    with smalti.open(golden_bytes("zero_rows")) as file:
        assert list(file.iter_batches()) == []


class TestCache:
    """Buckets of an open file that were decompressed are kept, up to a number of bytes."""

    TABLE = pa.table({f"c{at:03d}": pa.array(range(at, at + 2000)) for at in range(300)} | {"l": [[1, 2], []] * 1000})

    @pytest.mark.parametrize("threshold", [0, 1 << 30], ids=["paged", "monolithic"])
    def test_the_second_read_of_a_bucket_reads_nothing(self, threshold: int) -> None:
        counter = CountingFile(
            written(self.TABLE, num_buckets=10, page_size_threshold=threshold, row_group_max_rows=900)
        )
        with smalti.open(counter) as file:
            for columns in (["c000", "l"], ["c000"], ["l", "c000"]):
                assert_same(file.read(columns), self.TABLE.select(columns))
                if columns == ["c000", "l"]:
                    counter.reads.clear()
            assert counter.reads == []
            # A neighbour in a paged bucket has a slot of its own, and its directory is known.
            assert_same(file.read(["c001"], filters=[("c000", "<", 700)]), self.TABLE.select(["c001"]).slice(0, 700))
            assert len(counter.reads) == (1 if threshold == 0 else 0)
            assert_same(file.read(), self.TABLE)

    def test_memory_is_bounded_and_the_oldest_go_first(self) -> None:
        counter = CountingFile(written(self.TABLE, num_buckets=300, page_size_threshold=1 << 30))
        with smalti.open(counter, cache_bytes=100_000) as file:
            for at in range(300):
                file.read([f"c{at:03d}"])
                assert file._scanner.buckets.cache.num_bytes <= 100_000
            counter.reads.clear()
            file.read(["c299"])
            assert counter.reads == []
            file.read(["c000"])
            assert len(counter.reads) == 1

    def test_tiny_buckets_count_with_what_surrounds_them(self) -> None:
        data = written(self.TABLE.slice(0, 1).select(["c000", "c001"]), num_buckets=2)
        with smalti.open(data) as file:
            file.read(["c000"])
            assert file._scanner.buckets.cache.num_bytes > 1000

    @pytest.mark.parametrize("threshold", [0, 1 << 30])
    def test_a_closed_file_is_not_read_from_the_cache(self, threshold: int, tmp_path: Path) -> None:
        smalti.write_table(self.TABLE, tmp_path / "a.mosaic", num_buckets=3, page_size_threshold=threshold)
        file = smalti.open(tmp_path / "a.mosaic")
        file.read(["c000"])
        assert file._scanner.buckets.cache.num_bytes > 0
        file.close()
        assert file._scanner.buckets.cache.num_bytes == 0
        with pytest.raises(ValueError, match="closed"):
            file.read(["c000"])

    def test_no_cache(self) -> None:
        counter = CountingFile(written(self.TABLE))
        with smalti.open(counter, cache_bytes=0) as file:
            file.read(["c000"])
            before = len(counter.reads)
            file.read(["c000"])
            assert len(counter.reads) > before

    def test_threads_share_it(self) -> None:
        data = written(self.TABLE, num_buckets=3, page_size_threshold=0)
        with smalti.open(data, cache_bytes=300_000) as file, ThreadPoolExecutor(8) as pool:
            names = [f"c{at % 300:03d}" for at in range(0, 6000, 7)]
            for name, found in zip(names, pool.map(lambda name: file.read([name]), names), strict=True):
                assert found.column(0).equals(self.TABLE.column(name)), name

    def test_damage_is_found_on_every_read(self) -> None:
        blob = bytearray(written(self.TABLE, num_buckets=1, page_size_threshold=0))
        with smalti.open(bytes(blob)) as file:
            (bucket,) = file.layout().row_groups[0].buckets
        blob[bucket.offset + bucket.size - 6] ^= 0xFF
        with smalti.open(bytes(blob)) as file:
            assert_same(file.read(["c000"]), self.TABLE.select(["c000"]))
            for _ in range(2):
                with pytest.raises(smalti.CorruptFileError):
                    file.read()
                assert_same(file.read(["c000"]), self.TABLE.select(["c000"]))


@pytest.mark.slow
def test_constants_of_many_rows_are_cut_before_they_are_decoded() -> None:
    """Ten rows of a hundred million take the memory of a slice, not of the row group, which would be 3 GB."""
    rows = 100_000_000
    schema = pa.schema([(name, pa.int64()) for name in "abcd"])
    options = oracle.Options(compression="none")
    buckets = [pack_bucket(at, [field], [pa.array([at, at])], options) for at, field in enumerate(schema)]
    blob = oracle.assemble(schema_payload(schema, 4), [RowGroup(rows, tuple(buckets))], 4, options)
    limited = (
        "import resource, sys, smalti, pyarrow\n"
        "blob = bytes.fromhex(sys.argv[1])\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))\n"
        "with smalti.open(blob) as file:\n"
        "    print(next(file.iter_batches(batch_size=10)).to_pylist()[9])\n"
        "    print(next(file.scan(['c'], batch_size=3).to_batches()).to_pylist())\n"
    )
    done = subprocess.run([sys.executable, "-c", limited, blob.hex()], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["{'a': 0, 'b': 1, 'c': 2, 'd': 3}", "[{'c': 2}, {'c': 2}, {'c': 2}]"], (
        done.stderr
    )
    with smalti.open(blob) as file:
        batches = file.iter_batches(batch_size=7_000_000, columns=["b"])
        assert sum(batch.num_rows for batch in batches) == rows


@pytest.mark.parametrize(
    "deleted", [[], [0], [3, 99, 100, 101, 250], list(range(90, 210)), list(range(0, 300, 2)), list(range(300))]
)
@pytest.mark.parametrize("slice_bytes", [500, 64 << 20])
def test_rows_that_are_deleted_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: list[int], slice_bytes: int
) -> None:
    """With and without filters and columns, in whole row groups and in slices, kept, ahead and one at a time."""
    monkeypatch.setattr("smalti.mosaic.scan.BATCH_BYTES", slice_bytes)
    table = pa.table({"id": range(300), "x": [f"x{i % 7}" for i in range(300)]})
    path = tmp_path / "a.mosaic"
    smalti.write_table(table, path, row_group_max_rows=100, stats_columns=["id"])
    left = [i for i in range(300) if i not in set(deleted)]
    with smalti.open(path) as file:
        for filters, matches in ((None, left), ([("id", ">", 95)], [i for i in left if i > 95])):
            for kept, ahead in ((None, None), (Allowance(1 << 30), None), (None, Allowance(1 << 30))):
                units = [*file.units(["x", "id"], filters, kept, None, ahead, deleted)]
                batches = [batch for unit in units for batch in unit.run()]
                assert [i for batch in batches for i in batch["id"].to_pylist()] == matches
                assert [x for batch in batches for x in batch["x"].to_pylist()] == [f"x{i % 7}" for i in matches]
            bare = [batch for unit in file.units([], filters, deleted=deleted) for batch in unit.run()]
            assert sum(batch.num_rows for batch in bare) == len(matches)


def test_files_and_tables_have_the_same_verbs(tmp_path: Path) -> None:
    """The same names, with the same arguments in the same order, and the same rows."""
    table = pa.table({"a": range(30), "b": [f"v{at}" for at in range(30)]})
    smalti.write_table(table, tmp_path / "a.mosaic", row_group_max_rows=10)
    with smalti.open(tmp_path / "a.mosaic") as file:
        for source in (file, smalti.dataset(tmp_path)):
            assert source.schema == table.schema
            assert (source.column_names, source.num_rows, source.count_rows([("a", "<", 5)])) == (["a", "b"], 30, 5)
            assert_same(source.to_table(["b"], [("a", ">", 27)]), table.slice(28).select(["b"]))
            assert [batch.num_rows for batch in source.to_batches(["a"], [("a", ">", 7)], 8)] == [2, 8, 2, 8, 2]
            assert_same(source.head(12, ["a"]), table.slice(0, 12).select(["a"]))
            assert_same(source.tail(12, ["b"]), table.slice(18).select(["b"]))
            assert_same(source.tail(2, None, [("a", "<", 15)]), table.slice(13, 2))
            assert_same(source.head(2, ["b"], [("a", ">=", 19)]), table.slice(19, 2).select(["b"]))
            assert (source.head(0).num_rows, source.tail(0).num_rows, source.head(99).num_rows) == (0, 0, 30)
