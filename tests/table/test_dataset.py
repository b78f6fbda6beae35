"""Many files as one table: discovery, partitions, union of schemas, filters across them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.cli.main import main as command_line
from smalti.io import open_source
from smalti.kudu import CFileReader, CFileWriter
from smalti.logical import mapping
from smalti.logical.mapping import SharedSchemas
from smalti.table.listing import FoundFile, list_files, open_found
from smalti.table.names import parse_partition
from smalti.table.partitions import by_directory, partition_schema
from tests.support.reads import note_reads
from tests.support.s3 import s3_by_uri


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """Three partitions: the second widens a column and adds one, the third has a null partition value."""
    tables = {
        "year=2023/city=Oslo/a.mosaic": pa.table({"id": pa.array([1, 2], pa.int32()), "x": [0.5, None]}),
        "year=2024/city=S%C3%A3o%20Paulo/b.mosaic": pa.table({"id": [3, 4 << 40], "note": ["n", None]}),
        "year=2024/city=__HIVE_DEFAULT_PARTITION__/c.mosaic": pa.table({"id": [5], "x": [1.5]}),
    }
    for name, table in tables.items():
        path = tmp_path / "sales" / name
        path.parent.mkdir(parents=True)
        smalti.write_table(table, path, stats_columns=["id"])
    for hidden in ("_SUCCESS", ".c.mosaic.crc", "_temporary/x.mosaic", ".staging/y.mosaic", "notes.txt"):
        path = tmp_path / "sales" / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not mosaic")
    return tmp_path / "sales"


ROWS = [
    {"id": 1, "x": 0.5, "note": None, "year": 2023, "city": "Oslo"},
    {"id": 2, "x": None, "note": None, "year": 2023, "city": "Oslo"},
    {"id": 3, "x": None, "note": "n", "year": 2024, "city": "São Paulo"},
    {"id": 4 << 40, "x": None, "note": None, "year": 2024, "city": "São Paulo"},
    {"id": 5, "x": 1.5, "note": None, "year": 2024, "city": None},
]


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def test_union_of_schemas_with_partitions(sales: Path) -> None:
    ds = smalti.dataset(sales)
    assert [Path(path).name for path in ds.files] == ["a.mosaic", "b.mosaic", "c.mosaic"] or len(ds.files) == 3
    assert {field.name: field.type for field in ds.schema} == {
        "id": pa.int64(),
        "x": pa.float64(),
        "note": pa.string(),
        "year": pa.int64(),
        "city": pa.string(),
    }
    assert by_id(ds.to_table()) == sorted(ROWS, key=lambda row: row["id"])
    assert ds.count_rows() == 5


FILTERS = [
    [("year", "=", 2024)],
    [("year", "=", 2023), ("id", ">", 1)],
    [("note", "=", "n")],
    [[("city", "=", "Oslo")], [("id", ">=", 4)]],
    [("city", "not in", ["Oslo"])],
    pc.field("city").is_null(),
    pc.field("x").is_null() & (pc.field("year") > 2023),
    pc.field("id") == 4 << 40,
    ~(pc.field("year") == 2023),
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("columns", [None, ["id"], ["city", "id"], ["note", "id", "year"]], ids=str)
def test_filters_keep_exactly_their_rows(sales: Path, filters: Any, columns: list[str] | None) -> None:
    ds = smalti.dataset(sales)
    expression = filters if isinstance(filters, pc.Expression) else pq.filters_to_expression(filters)
    expected = ds.to_table().filter(expression)
    if columns is not None:
        expected = expected.select(columns)
    found = ds.to_table(columns, filters)
    if columns is None:  # Columns that no file has which partitions leave are not read.
        missing = set(expected.column_names) - set(found.column_names)
        assert all(expected[name].null_count == len(expected) for name in missing)
        expected = expected.select(found.column_names)
    expected = expected.cast(found.schema)  # Types are those of the files that partitions leave.
    assert found.schema.equals(expected.schema)
    assert by_id(found) == by_id(expected)
    assert ds.count_rows(filters) == expected.num_rows


def test_a_partition_that_cannot_match_is_not_opened(sales: Path) -> None:
    ds = smalti.dataset(sales)
    assert ds.schema  # opens every file
    next((sales / "year=2023").rglob("a.mosaic")).write_bytes(b"broken")
    assert ds.to_table(["id"], [("year", ">", 2023)]).num_rows == 3
    with pytest.raises(smalti.CorruptFileError, match=r"a\.mosaic"):  # It was replaced, so the table is listed again.
        ds.to_table(["id"])
    with pytest.raises(smalti.CorruptFileError, match=r"a\.mosaic"):
        smalti.dataset(sales).to_table(["id"])


def test_statistics_decide_beside_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition on a partition column does not keep row groups from being skipped by the others."""
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        table = pa.table({"id": range(day * 100, day * 100 + 100)})
        smalti.write_table(table, tmp_path / f"day={day}/a.mosaic", stats_columns=["id"], row_group_max_rows=10)
    reads = note_reads(monkeypatch)
    ds = smalti.dataset(tmp_path)
    for filters, rows, groups in [
        ([("day", "=", 2), ("id", ">=", 295)], 5, [9]),
        ((pc.field("day") > 1) & (pc.field("id") < 203) & pc.field("id").is_valid(), 3, [0]),
        ([[("day", "=", 1), ("id", "<", 105)], [("id", "=", 230)]], 6, None),
        ([("day", "=", 2)], 100, list(range(10))),
        ([("day", "=", 3), ("id", ">", 0)], 0, []),
    ]:
        assert ds.to_table(filters=filters).num_rows == ds.count_rows(filters) == rows
        reads.clear()
        assert ds.to_table(["id"], filters).num_rows == rows
        assert groups is None or [group for _, group in reads.row_groups()] == groups


def test_batches_are_bounded(sales: Path) -> None:
    batches = list(smalti.dataset(sales).to_batches(["id"], batch_size=1))
    assert [batch.num_rows for batch in batches] == [1] * 5


def test_a_given_schema_is_read_as_given(sales: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("missing", pa.string()), ("year", pa.int64())])
    table = smalti.dataset(sales, schema=schema).to_table()
    assert table.schema.equals(schema)
    assert table["missing"].null_count == 5


def test_without_partitioning_directories_say_nothing(sales: Path) -> None:
    assert smalti.dataset(sales, partitioning=None).schema.names == ["id", "x", "note"]
    with pytest.raises(ValueError, match="partitioning"):
        smalti.dataset(sales, partitioning="directory")


def test_unknown_columns(sales: Path) -> None:
    ds = smalti.dataset(sales)
    for call in (lambda: ds.to_table(["nope"]), lambda: ds.to_table(filters=[("nope", "=", 1)])):
        with pytest.raises(smalti.SchemaError, match="nope"):
            call()


class TestDiscovery:
    @pytest.mark.parametrize(
        ("pattern", "files"),
        [
            ("", 3),
            ("year=2024", 2),
            ("year=*/city=Oslo/*.mosaic", 1),
            ("year=202[34]/*", 3),
            ("*/*/?.mosaic", 3),
            ("**", 3),
            ("**/*.mosaic", 3),
            ("**/city=Oslo/*.mosaic", 1),
            ("year=2024/**/*.mosaic", 2),
            ("**/year=2024/**/?.mosaic", 2),
            ("**/**/city=*/**", 3),
        ],
    )
    def test_paths_and_globs(self, sales: Path, pattern: str, files: int) -> None:
        (sales / "_hidden").mkdir()
        smalti.write_table(pa.table({"id": [9]}), sales / "_hidden/x.mosaic")
        found = list_files(f"{sales}/{pattern}".rstrip("/")).files
        assert len(found) == files

    def test_globs_of_any_depth(self, tmp_path: Path) -> None:
        for number, name in enumerate(["a.mosaic", "p/b.mosaic", "p/q/c.mosaic", "p/q/r/d.mosaic"]):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            smalti.write_table(pa.table({"x": [number]}), tmp_path / name)
        for pattern, rows in [
            ("**/*.mosaic", [0, 1, 2, 3]),
            ("p/**/*.mosaic", [1, 2, 3]),
            ("**/q/**/*.mosaic", [2, 3]),
        ]:
            assert sorted(smalti.dataset(f"{tmp_path}/{pattern}").to_table()["x"].to_pylist()) == rows
        with pytest.raises(FileNotFoundError, match="Nothing matches"):
            smalti.dataset(f"{tmp_path}/**/z/*.mosaic")

    def test_globs_keep_the_partitions_of_what_they_match(self, sales: Path) -> None:
        files = list_files(f"{sales}/year=2023/*/*.mosaic").files
        assert [file.partition for file in files] == [{"city": "Oslo"}]
        files = list_files(f"{sales}/year=*").files
        assert {file.partition["year"] for file in files} == {"2023", "2024"}

    def test_lists_are_joined_and_repeats_count(self, sales: Path) -> None:
        one = next(sales.rglob("a.mosaic"))
        assert len(list_files([one, one, sales / "year=2024"]).files) == 4

    def test_a_named_file_is_taken_whatever_its_suffix(self, tmp_path: Path) -> None:
        path = tmp_path / "data.bin"
        smalti.write_table(pa.table({"a": [1]}), path)
        assert smalti.dataset(path).to_table().to_pydict() == {"a": [1]}

    @pytest.mark.parametrize("missing", ["nowhere", "nowhere/*.mosaic", "year=1999/*"])
    def test_what_is_not_there(self, sales: Path, missing: str) -> None:
        with pytest.raises(FileNotFoundError):
            list_files(f"{sales}/{missing}")

    def test_a_pyarrow_file_system_and_a_uri(self, sales: Path) -> None:
        local = pyarrow.fs.SubTreeFileSystem(str(sales.parent), pyarrow.fs.LocalFileSystem())
        assert smalti.dataset("sales", filesystem=local).count_rows() == 5
        assert smalti.dataset(sales.as_uri()).count_rows() == 5

    def test_partition_values_keep_their_text_unless_they_are_whole_numbers(self, tmp_path: Path) -> None:
        for value in ("007", "8"):
            path = tmp_path / f"code={value}" / "x.mosaic"
            path.parent.mkdir()
            smalti.write_table(pa.table({"a": [1]}), path)
        assert partition_schema(list_files(tmp_path).files) == pa.schema([("code", pa.string())])

    def test_files_partitioned_in_different_ways(self, tmp_path: Path) -> None:
        for directory in ("a=1", "b=1"):
            (tmp_path / directory).mkdir()
            smalti.write_table(pa.table({"x": [1]}), tmp_path / directory / "x.mosaic")
        with pytest.raises(smalti.SchemaError, match="different ways"):
            smalti.dataset(tmp_path)

    def test_a_partition_shows_what_the_path_says(self) -> None:
        assert parse_partition(["x", "k=a=b", "=v", "e="]) == {"k": "a=b", "e": ""}


class TestReadingManyFiles:
    """Files are opened once, their schema block is checked once, and they are read ahead in order."""

    @pytest.fixture
    def many(self, tmp_path: Path) -> Path:
        for number in range(12):
            table = pa.table({"id": [number * 2, number * 2 + 1], "x": [0.5, None]})
            smalti.write_table(table, tmp_path / f"{number:02d}.mosaic", row_group_max_rows=1)
        return tmp_path

    @pytest.fixture
    def opened(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names of the files that are opened."""
        names: list[str] = []

        def noting(file: FoundFile, filesystem: Any) -> Any:
            names.append(Path(file.path).name)
            return open_found(file, filesystem)

        monkeypatch.setattr("smalti.table.snapshot.open_found", noting)
        return names

    @pytest.mark.parametrize("readahead", [None, 0, 1, 5])
    def test_rows_are_in_order(self, many: Path, readahead: int | None) -> None:
        ds = smalti.dataset(many, readahead=readahead)
        assert ds.to_table(["id"]).column(0).to_pylist() == list(range(24))
        assert [batch.num_rows for batch in ds.to_batches(batch_size=1)] == [1] * 24
        assert ds.count_rows() == 24
        assert ds.count_rows([("id", ">=", 5)]) == 19
        assert smalti.dataset(many, readahead=readahead, schema=ds.schema).to_table().equals(ds.to_table())

    @pytest.mark.parametrize("columns", [None, ["id"], []], ids=str)
    def test_each_file_is_opened_once(self, many: Path, opened: list[str], columns: list[str] | None) -> None:
        smalti.dataset(many).to_table(columns)
        assert sorted(opened) == [f"{number:02d}.mosaic" for number in range(12)]

    @pytest.mark.parametrize("count", [3, 12])
    def test_files_whose_rows_are_known_are_not_opened_to_count_them(
        self, many: Path, opened: list[str], count: int
    ) -> None:
        ds = smalti.dataset([many / f"{number:02d}.mosaic" for number in range(count)])
        assert (len(ds.schema), ds.count_rows(), ds.num_rows) == (2, 2 * count, 2 * count)
        assert len(opened) == count
        again = smalti.dataset(many)
        assert (again.count_rows(), again.count_rows(), len(again.schema)) == (24, 24, 2)
        assert len(opened) == count + 12

    @pytest.mark.parametrize("read", ["table", "dataset", "count", "head", "batches", "mixed", "nothing"])
    def test_one_partition_of_many_opens_its_own_files(
        self, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch, read: str
    ) -> None:
        for day in range(40):
            (tmp_path / f"day={day}").mkdir()
            for part in "ab":
                table = pa.table({"x": [day]} if day != 7 else {"x": [0.5], "only here": [1]})
                smalti.write_table(table, tmp_path / f"day={day}" / f"{day}{part}.mosaic")
        scanned: list[str] = []
        scandir = os.scandir
        monkeypatch.setattr(os, "scandir", lambda path: (scanned.append(Path(path).name), scandir(path))[1])
        filters = [("day", "=", 3)] if read != "mixed" else [("day", "=", 3), ("x", ">", 2)]
        ds = smalti.dataset(tmp_path)
        scanned.clear()
        found = {
            "table": lambda: smalti.read_table(tmp_path, ["x"], filters).num_rows,
            "mixed": lambda: smalti.read_table(tmp_path, filters=filters).num_rows,
            "dataset": lambda: ds.to_table(filters=filters).num_rows,
            "count": lambda: ds.count_rows(filters),
            "head": lambda: ds.head(5, filters=filters).num_rows,
            "batches": lambda: sum(batch.num_rows for batch in ds.to_batches(filters=filters)),
            "nothing": lambda: smalti.read_table(tmp_path, filters=[("day", "=", 99)]).num_rows + 2,
        }[read]()
        assert found == 2
        assert sorted(opened) == (["0a.mosaic"] if read == "nothing" else ["3a.mosaic", "3b.mosaic"])
        if read in ("table", "mixed"):  # The directories of the other days are not even listed.
            assert [name for name in scanned if name.startswith("day=")] == ["day=3"]
        # A column of other files can be named all the same, and is null here.
        assert smalti.read_table(tmp_path, ["only here"], [("day", "=", 3)])["only here"].null_count == 2

    def test_the_first_rows_open_the_first_files(self, many: Path, opened: list[str]) -> None:
        assert smalti.dataset(many).head(3)["id"].to_pylist() == [0, 1, 2]
        assert opened == [f"{number:02d}.mosaic" for number in range(5)]
        opened.clear()
        assert smalti.dataset(many).tail(2)["id"].to_pylist() == [22, 23]
        assert opened == ["11.mosaic"]

    def test_a_partition_column_that_files_store_rules_out_nothing(self, tmp_path: Path) -> None:
        """The stored values count, so that directories whose names say otherwise are read."""
        for name, value in (("day=1", 1), ("day=2", 1), ("day=3", 3)):
            (tmp_path / name).mkdir()
            smalti.write_table(pa.table({"x": [value], "day": [value]}), tmp_path / name / "a.mosaic")
        for read in (smalti.read_table, lambda path, columns, filters: smalti.dataset(path).to_table(columns, filters)):
            assert read(tmp_path, ["x"], [("day", "=", 1)])["x"].to_pylist() == [1, 1]
            assert read(tmp_path, ["x"], [("day", "=", 2)]).num_rows == 0

    def test_the_type_of_a_partition_column_is_that_of_all_directories(self, tmp_path: Path) -> None:
        for name in ("day=1", "day=x"):
            (tmp_path / name).mkdir()
            smalti.write_table(pa.table({"x": [1]}), tmp_path / name / "a.mosaic")
        assert smalti.read_table(tmp_path, filters=[("day", "=", "1")])["day"].to_pylist() == ["1"]
        with pytest.raises(smalti.SchemaError):
            smalti.read_table(tmp_path, filters=[("day", "=", 1)])

    def test_a_column_that_no_file_has_is_refused_before_anything_is_read(
        self, many: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reads = note_reads(monkeypatch)
        with pytest.raises(smalti.SchemaError, match=r"no column .nope. in the dataset"):
            smalti.dataset(many).to_table(["id", "nope"])
        assert reads.row_groups() == []

    def test_rows_without_columns(self, many: Path) -> None:
        assert smalti.dataset(many).to_table([]).shape == (24, 0)

    def test_a_schema_block_is_parsed_once_in_a_process(self, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not once for each file, nor for each dataset; also if threads open the files at the same time."""
        smalti.write_table(pa.table({"id": [99]}), many / "99.mosaic")
        mapping.PROCESS_SCHEMAS.forget()
        parsed: list[int] = []
        parse = mapping.parse_schema
        monkeypatch.setattr(mapping, "parse_schema", lambda *args: (parsed.append(1), parse(*args))[1])
        for _ in range(3):
            ds = smalti.dataset(many)
            assert ds.to_table(["id"]).num_rows == 25
            assert ds.schema.names == ["id", "x"]
        assert len(parsed) == 2
        mapping.PROCESS_SCHEMAS.forget()
        ds = smalti.dataset(many, readahead=8)
        assert ds.to_table(["id"]).num_rows == 25
        assert len(ds.typed_columns.variants) == 2

    def test_files_with_the_same_schema_share_their_columns_and_no_others(self, tmp_path: Path) -> None:
        shared = SharedSchemas()
        tables = [pa.table({"a": [1]}), pa.table({"a": [2]}), pa.table({"a": [1.5]}), pa.table({"b": [1]})]
        found = []
        for number, table in enumerate(tables):
            smalti.write_table(table, tmp_path / f"{number}.mosaic")
            file = smalti.MosaicFile(open_source(tmp_path / f"{number}.mosaic"), shared)
            assert file.read().equals(table)
            found.append(file.columns)
        assert [columns is found[0] for columns in found] == [True, True, False, False]

    @pytest.mark.parametrize("readahead", [0, 4])
    def test_an_error_comes_after_the_rows_before_it(self, many: Path, readahead: int) -> None:
        ds = smalti.dataset(many, readahead=readahead)
        schema = ds.schema
        (many / "05.mosaic").write_bytes(b"broken")
        ds = smalti.dataset(many, readahead=readahead, schema=schema)
        rows: list[int] = []
        with pytest.raises(smalti.CorruptFileError, match=r"05\.mosaic"):
            rows.extend(batch.column("id")[0].as_py() for batch in ds.to_batches())
        assert rows == list(range(10))

    @pytest.mark.parametrize("readahead", [0, 4])
    def test_stopping_early_opens_no_more(self, many: Path, opened: list[str], readahead: int) -> None:
        schema = pa.schema([("id", pa.int64())])
        batches = smalti.dataset(many, readahead=readahead, schema=schema).to_batches()
        next(batches)
        batches.close()  # type: ignore[attr-defined]
        assert len(opened) <= 2 * readahead + 2

    def test_types_are_widened_without_a_schema(self, many: Path) -> None:
        smalti.write_table(
            pa.table({"id": pa.array([24], pa.int32()), "x": pa.array([1.5], pa.float32())}), many / "a.mosaic"
        )
        for ds in (smalti.dataset(many), smalti.dataset(many, readahead=4)):
            table = ds.to_table(["x", "id"])
            assert table.schema.types == [pa.float64(), pa.int64()]
            assert table["id"].to_pylist() == list(range(25))
        smalti.write_table(pa.table({"id": ["text"]}), many / "b.mosaic")
        with pytest.raises(smalti.SchemaError, match=r"b\.mosaic.*files disagree on the type of a column"):
            smalti.dataset(many).to_table(["id"])
        assert smalti.dataset(many).to_table(["x"]).num_rows == 26  # the column that differs is not asked for

    def test_progress_tells_of_every_file(self, many: Path) -> None:
        seen: list[Any] = []
        smalti.dataset(many).scan(["id"], progress=seen.append).to_table()
        assert (seen[-1].done, seen[-1].total, seen[-1].num_rows, seen[-1].fraction) == (12, 12, 24, 1)


def test_types_that_disagree_only_where_partitions_rule_files_out(tmp_path: Path) -> None:
    """As with Parquet: what is not read may be anything. The schema of a scan is that of its result."""
    days: dict[str, dict[str, Any]] = {
        "1": {"x": ["text"], "id": [1]},
        "2": {"x": [5], "id": [2], "y": [0.5]},
        "3": {"x": pa.array([7], pa.int32()), "id": [3]},
    }
    for day, columns in days.items():
        (tmp_path / f"day={day}").mkdir()
        smalti.write_table(pa.table(columns), tmp_path / f"day={day}" / "a.mosaic")
    later, ds = pc.field("day") > 1, smalti.dataset(tmp_path)
    with pytest.raises(smalti.SchemaError, match="files disagree on the type of a column"):
        _ = ds.schema
    for filters, rows in (
        (later, [{"x": 5, "id": 2, "y": 0.5, "day": 2}, {"x": 7, "id": 3, "y": None, "day": 3}]),
        ([("day", ">", 1), ("x", ">", 2**70)], []),
        ([("day", "in", [2, 9]), ("x", "<", 5.5)], [{"x": 5, "id": 2, "y": 0.5, "day": 2}]),
        ([("day", "=", 1), ("x", "=", "text")], [{"x": "text", "id": 1, "day": 1}]),
    ):
        scan = ds.scan(None, filters)
        found = scan.to_table()
        assert found.to_pylist() == rows
        assert scan.schema == found.schema == scan.to_reader().read_all().schema
        assert pa.Table.from_batches(scan.to_batches(), found.schema).to_pylist() == rows
        assert ds.count_rows(filters) == len(rows)
    assert ds.scan(["x"], later).schema == pa.schema([("x", pa.int64())])
    assert ds.to_table(["id"], [("id", ">", 1)])["id"].to_pylist() == [2, 3]  # asks for nothing that differs
    for filters in ([("x", "=", 5)], [[("day", "=", 2)], [("id", "=", 1)]]):
        with pytest.raises(smalti.SchemaError, match="files disagree on the type of a column"):
            ds.to_table(filters=filters)


def test_text_partitions_are_not_compared_with_numbers(tmp_path: Path) -> None:
    """An equality raised Arrow's error, and a list found nothing."""
    for part in ("1", "a"):
        (tmp_path / f"p={part}").mkdir()
        smalti.write_table(pa.table({"id": [1]}), tmp_path / f"p={part}" / "a.mosaic")
    ds = smalti.dataset(tmp_path)
    number: list[Any] = [[("p", "=", 1)], [("p", "in", [1, 2])], pc.field("p") < 1.5, [("p", "not in", [1])]]
    for filters in number:
        with pytest.raises(
            smalti.SchemaError, match=r"filter \('p', .*: column is string, value is a number; write '1"
        ):
            ds.to_table(filters=filters)
    assert ds.count_rows([("p", "=", "1")]) == ds.count_rows([("p", "in", ["1", "2"])]) == 1


def test_the_last_rows(tmp_path: Path) -> None:
    """They have the columns and types of the files that are read for them, and are those of one state of the table."""
    for number in range(4):
        smalti.write_table(pa.table({"n": pa.array([number] * 2, pa.uint8())}), tmp_path / f"{number}.mosaic")
    smalti.write_table(pa.table({"n": pa.array([300], pa.uint16()), "more": ["x"]}), tmp_path / "0.mosaic")
    for logical in (True, False):
        whole = smalti.dataset(tmp_path, logical=logical)
        for rows in (0, 1, 2, 3, 7, 100):
            assert whole.tail(rows)["n"].to_pylist() == [300, 1, 1, 2, 2, 3, 3][max(0, 7 - rows) :]
            assert whole.with_schema().tail(rows).equals(whole.to_table().slice(max(0, 7 - rows)))
            assert whole.with_schema().head(rows).equals(whole.to_table().slice(0, rows))
        assert (whole.tail(2).schema.names, whole.tail(7).schema.names) == (["n"], ["n", "more"])
        assert whole.tail(3, ["n"], [("n", "<", 2)])["n"].to_pylist() == [1, 1]
    opened = smalti.dataset(tmp_path)
    assert len(opened.schema) == 2
    jobs.compact(tmp_path)  # The files that were listed are gone: the new ones are listed and read.
    assert opened.tail(3).num_rows == 3


def test_partition_values_that_paths_could_misread(tmp_path: Path) -> None:
    """Text stays text, also the text that stands for null in a path, and null stays null."""
    texts = [
        "__HIVE_DEFAULT_PARTITION__",
        "%5F_HIVE_DEFAULT_PARTITION__",
        "__DEFAULT_PARTITION__",
        None,
        "",
        "..",
        "a/b",
        "=",
        "%",
        "_x",
        "\n é",
    ]
    batch = pa.record_batch({"id": list(range(len(texts))), "p=/%": texts})
    for directory, rows in by_directory(batch, ["p=/%"]):
        (tmp_path / directory).mkdir()
        smalti.write_table(pa.table(rows), tmp_path / directory / "part.mosaic")
    found = smalti.dataset(tmp_path).to_table().sort_by("id")
    assert found.to_pydict() == batch.to_pydict()
    kept = smalti.dataset(tmp_path).to_table(filters=[("p=/%", "=", texts[0])])
    assert kept["id"].to_pylist() == [0]


LISTS = {
    "in their order": ["k=2/m=x/f", "k=1/m=x/f"],
    "one": ["k=1/m=x/f"],
    "twice": ["k=1/m=x/f", "k=2/m=x/f", "k=1/m=x/f"],
    "by other names": ["k=1/m=x/f", "../t/k=1/m=x/f"],
    "other depths": ["k=1/m=x/f", "f", "k=3/f"],
}


@pytest.mark.parametrize("is_absolute", [True, False])
@pytest.mark.parametrize("names", LISTS)
def test_lists_of_files_as_pyarrow_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, is_absolute: bool
) -> None:
    """With the partition columns of their paths, and as often as they are named."""
    directory = tmp_path / "day=7" / "t"
    for number, name in enumerate(("f", "k=1/m=x/f", "k=2/m=x/f", "k=3/f")):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"a": [number, number + 10]})
        smalti.write_table(table, directory / f"{name}.mosaic")
        pq.write_table(table, directory / f"{name}.parquet")
    monkeypatch.chdir(directory)
    paths = [str(directory / name) if is_absolute else name for name in LISTS[names]]
    expected = pq.read_table([f"{path}.parquet" for path in paths])
    mosaic = [f"{path}.mosaic" for path in paths]
    for found in (
        smalti.read_table(mosaic),
        smalti.dataset(mosaic).to_table(filters=pc.field("a") >= 0),
        smalti.dataset(mosaic, filesystem=pyarrow.fs.LocalFileSystem(), readahead=3).to_table(),
        pa.Table.from_batches(smalti.dataset(mosaic).to_batches()),
    ):
        assert found.to_pydict() == expected.to_pydict()
    assert smalti.dataset(mosaic).count_rows() == expected.num_rows


@pytest.mark.parametrize(
    ("files", "holds"),
    [
        ([], "no files at all"),
        (
            [*(f"day=1/{i}.parquet" for i in range(12)), "a.csv", "_SUCCESS", ".x.mosaic"],
            r"12 \.parquet, 1 \.csv",
        ),
        ([f"{i}.{suffix}" for i, suffix in enumerate("abcdef")], ", ".join(rf"1 \.{each}" for each in "abcdef")),
    ],
)
def test_a_directory_without_mosaic_files(
    tmp_path: Path, files: list[str], holds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It read as a table without columns and rows."""
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for read in (smalti.dataset, smalti.read_table, smalti.scan, lambda path: smalti.dataset([path])):
        with pytest.raises(smalti.MosaicError, match=rf"no \*\.mosaic files in '.*' \({holds}\)"):
            read(tmp_path)
    assert command_line(["count", "--from", "mosaic", str(tmp_path)]) == 1
    assert "no *.mosaic files" in capsys.readouterr().err
    schema = pa.schema([("a", pa.int64())])
    assert smalti.dataset(tmp_path, schema=schema).to_table() == schema.empty_table()
    (tmp_path / "_mosaic_jobs").mkdir()
    assert smalti.dataset(tmp_path).to_table().shape == (0, 0)


def test_relative_paths_mean_the_directory_of_their_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": [1, 2]})
    Path("t").mkdir()
    smalti.write_table(table, "t/one.mosaic")
    opened = [smalti.dataset("t"), smalti.dataset("t/*.mosaic"), smalti.dataset(["t/one.mosaic"]), smalti.scan("t")]
    travelling = pickle.dumps([smalti.open("t/one.mosaic"), *opened])
    with CFileWriter("one.cfile", pa.int64()) as cfile:
        cfile.write(pa.array([[1], [2]]))
    travelling_cfile = pickle.dumps(CFileReader("one.cfile"))
    writer = smalti.MosaicWriter("late.mosaic", table.schema)
    writer.write(table)
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    writer.close()
    assert smalti.read_table(tmp_path / "late.mosaic") == table
    assert pickle.loads(travelling_cfile).read().to_pylist() == [[1], [2]]
    for each in (*opened, *pickle.loads(travelling)):
        assert pa.table(each) == table


def test_one_partition_on_a_store_takes_few_requests() -> None:
    """A directory of a hundred partitions is listed once, and then the one that the filter leaves."""
    with s3_by_uri("partitions") as server:
        for day in range(100):
            smalti.write_table(pa.table({"x": [day]}), f"s3://partitions/t/day={day}/a.mosaic")
        server.reset()
        rows = smalti.read_table("s3://partitions/t", ["x"], [("day", "=", 7)])
        assert rows["x"].to_pylist() == [7]
        listings = [request for request in server.requests() if "list-type" in request.query]
        files = {request.path for request in server.requests() if request.path.endswith(".mosaic")}
        assert (len(files), len(listings)) == (1, 5), [request.query for request in listings]
        server.reset()
        assert smalti.read_table("s3://partitions/t", ["x"], [("day", ">=", 0)]).num_rows == 100
        listings = [request for request in server.requests() if "list-type" in request.query]
        assert len(listings) <= 6, "so many partitions match that all files are listed at once"


def test_an_error_of_a_read_that_needs_all_directories_stands_alone(tmp_path: Path) -> None:
    """Starting over with all of them is nothing that a user should read about."""
    for day in (1, 2):
        smalti.write_dataset(pa.table({"day": [day], "a": [day]}), tmp_path, partition_by=["day"], mode="append")
    with pytest.raises(smalti.NoSuchRowError) as error:
        smalti.read_table(tmp_path, filters=[("day", "=", 1)], rows=range(5, 9))
    assert error.value.__context__ is None
