"""Files, tables and scans as Arrow streams, for whoever takes them; by name, by pattern, in another process."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pytest

import smalti

TABLE = pa.table({"id": [1, 2, 3, 4], "click.a": [7, 8, 9, None], "click.b": ["x", None, "z", "w"], "x*": [0.5] * 4})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "one.mosaic"
    smalti.write_table(TABLE, path, row_group_max_rows=2, stats_columns=["id"])
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, part in (("a", TABLE.slice(0, 2)), ("b", TABLE.slice(2))):
        (tmp_path / "dir").mkdir(exist_ok=True)
        smalti.write_table(part, tmp_path / "dir" / f"{name}.mosaic")
    return tmp_path / "dir"


@pytest.fixture(params=["file", "dataset", "scan of a file", "scan of a directory"])
def origin(request: pytest.FixtureRequest, path: Path, directory: Path) -> Any:
    makers = {
        "file": lambda: smalti.open(path),
        "dataset": lambda: smalti.dataset(directory),
        "scan of a file": lambda: smalti.scan(path),
        "scan of a directory": lambda: smalti.scan(directory),
    }
    return makers[request.param]()


class TestStreams:
    def test_anything_that_takes_arrow_streams_takes_it(self, origin: Any) -> None:
        assert pa.table(origin).equals(TABLE)
        assert pa.schema(origin).equals(TABLE.schema)
        assert pl.DataFrame(origin).equals(pl.DataFrame(TABLE))
        assert pa.RecordBatchReader.from_stream(origin).read_all().equals(TABLE)

    def test_conveniences(self, origin: Any) -> None:
        pd.testing.assert_frame_equal(origin.to_pandas(), TABLE.to_pandas())
        assert origin.to_polars().equals(pl.DataFrame(TABLE))
        assert origin.to_duckdb().order("id").fetchall() == list(zip(*TABLE.to_pydict().values(), strict=True))

    def test_it_travels_to_other_processes(self, origin: Any) -> None:
        assert pa.table(pickle.loads(pickle.dumps(origin))).equals(TABLE)

    def test_it_can_be_read_again(self, origin: Any) -> None:
        assert pa.table(origin).equals(pa.table(origin))


FILTERS: list[Any] = [[("id", ">", 1)], pc.field("id") > 1]


@pytest.mark.parametrize("condition", FILTERS, ids=["tuples", "expression"])
@pytest.mark.parametrize("kind", ["path", "directory"])
def test_filters(kind: str, condition: Any, request: pytest.FixtureRequest) -> None:
    source = request.getfixturevalue(kind)
    expected = TABLE.slice(1).select(["click.a"])
    opened = smalti.open(source) if kind == "path" else smalti.dataset(source)
    assert smalti.read_table(source, ["click.a"], filters=condition).equals(expected)
    assert smalti.scan(source, ["click.a"], filters=condition).to_table().equals(expected)
    assert smalti.scan(source, ["click.a"], condition).count_rows() == 3
    assert opened.count_rows(filters=condition) == 3
    read = opened.read if isinstance(opened, smalti.MosaicFile) else opened.to_table
    assert read(["click.a"], filters=condition).equals(expected)
    with pytest.raises(TypeError, match="'filter'"):
        read(filter=condition)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["click.*"], ["click.a", "click.b"]),
        (["click.?", "id"], ["click.a", "click.b", "id"]),
        (["id", "click.b", "click.*"], ["id", "click.b", "click.a"]),
        (["click.[b-z]"], ["click.b"]),
        (["x*"], ["x*"]),  # a name that exists is no pattern
        (["*"], TABLE.column_names),
    ],
)
@pytest.mark.parametrize("kind", ["path", "directory"])
def test_columns_by_pattern(kind: str, columns: list[str], names: list[str], request: pytest.FixtureRequest) -> None:
    source = request.getfixturevalue(kind)
    assert smalti.read_table(source, columns).equals(TABLE.select(names))
    assert smalti.scan(source, columns).schema.names == names


@pytest.mark.parametrize("kind", ["path", "directory"])
def test_a_pattern_that_matches_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(smalti.SchemaError, match=r"no column matches .y\*."):
        smalti.read_table(request.getfixturevalue(kind), ["y*"])


#: Columns that are asked for, and those that come: a repeated column is repeated, patterns and struct fields are not.
REPEATED = {
    "id,id": "id,id",
    "click.b,id,click.b": "click.b,id,click.b",
    "id,click.*,id,click.?": "id,click.a,click.b,id",
    "id,id,*": "id,id,click.a,click.b,x*,s",
    "*,id,id": "id,click.a,click.b,x*,s,id",
    "id,s.a,id,s.a,click.a,s.b,click.a": "id,s,id,click.a,click.a",
    "s.a,s,s": "s,s",
    "": "",
}
STRUCTS = TABLE.append_column("s", pa.array([{"a": n, "b": str(n)} for n in range(4)])).replace_schema_metadata(
    {"k": "v"}
)
READS: dict[str, Callable[[Any, list[str]], pa.Table]] = {
    "to_table": lambda opened, columns: opened.to_table(columns),
    "to_batches": lambda opened, columns: pa.Table.from_batches(opened.to_batches(columns)),
    "exact": lambda opened, columns: pa.Table.from_batches(opened.to_batches(columns, batch_size=3, exact=True)),
    "filtered": lambda opened, columns: pa.Table.from_batches(opened.to_batches(columns, "id > 0")),
    "by number": lambda opened, columns: pa.Table.from_batches(opened.to_batches(columns, rows=range(4))),
    "reader": lambda opened, columns: opened.scan(columns).to_reader().read_all(),
    "narrowed": lambda opened, columns: opened.scan().to_table(columns),
    "cast": lambda opened, columns: opened.scan(columns, schema=STRUCTS.schema).to_table(),
    "head": lambda opened, columns: opened.head(4, columns),
    "tail": lambda opened, columns: opened.tail(4, columns),
    "take": lambda opened, columns: opened.take(range(4), columns),
    "read": lambda opened, columns: opened.read(columns),
    "iter_batches": lambda opened, columns: pa.Table.from_batches(opened.iter_batches(columns=columns)),
    "row group": lambda opened, columns: opened.row_group(0).read(columns),
}


@pytest.mark.parametrize("read", READS)
def test_every_read_repeats_repeated_columns_and_keeps_metadata(read: str, tmp_path: Path) -> None:
    smalti.write_table(STRUCTS, tmp_path / "t.mosaic", row_group_max_rows=2)
    file = smalti.open(tmp_path / "t.mosaic")
    for opened in (file,) if read in ("read", "iter_batches", "row group") else (file, smalti.dataset(tmp_path)):
        for asked, names in REPEATED.items():
            if read in ("narrowed", "cast") and "s.a" in asked:
                continue  # Both choose among columns.
            columns, wanted = ([name for name in text.split(",") if name] for text in (asked, names))
            found = READS[read](opened, columns)
            assert found.schema.names == wanted, (asked, opened)
            assert found.schema.metadata == STRUCTS.schema.metadata, (asked, opened)
            assert found.num_rows == (2 if read == "row group" else 4)
            for index, name in enumerate(wanted):
                assert name == "s" or found.column(index).equals(STRUCTS[name].slice(0, found.num_rows)), (
                    asked,
                    opened,
                )


@pytest.mark.parametrize("columns", [None, ["id", "id"], []], ids=["all", "repeated", "none"])
@pytest.mark.parametrize("filters", [None, "id != 2"], ids=["rows", "matching rows"])
def test_the_first_and_last_rows(origin: Any, columns: list[str] | None, filters: Any) -> None:
    """Negative numbers leave rows out at the other end, as in pandas and Polars."""
    rows = TABLE.to_pandas() if filters is None else TABLE.to_pandas().query("id != 2")
    for count in (0, 1, 3, 4, 9, -1, -3, -4, -9):
        found = [(origin.head(count, columns, filters), rows.head(count))]
        if hasattr(origin, "tail"):
            found.append((origin.tail(count, columns, filters), rows.tail(count)))
        for table, expected in found:
            assert table.num_rows == len(expected), count
            assert table.schema.names == (TABLE.column_names if columns is None else columns)
            assert columns == [] or table.column(0).to_pylist() == expected["id"].to_list()


def test_a_number_of_rows_is_whole(origin: Any) -> None:
    assert origin.head(np.int64(1)).num_rows == 1
    with pytest.raises(smalti.MosaicError, match=r"not a whole number: found 2\.5"):
        origin.head(2.5)


class TestSources:
    @pytest.mark.parametrize("shape", ["{0}", "{0}/*.mosaic", "{0}/[ab].mosaic"])
    def test_directories_and_patterns(self, directory: Path, shape: str) -> None:
        assert smalti.read_table(shape.format(directory)).equals(TABLE)

    def test_lists(self, directory: Path, path: Path) -> None:
        assert smalti.read_table([directory / "a.mosaic", directory / "b.mosaic"]).equals(TABLE)
        assert smalti.read_table([path, directory]).num_rows == 8

    def test_a_file_system(self, directory: Path) -> None:
        files = pyarrow.fs.SubTreeFileSystem(str(directory), pyarrow.fs.LocalFileSystem())
        assert smalti.read_table("a.mosaic", filesystem=files).num_rows == 2
        assert smalti.read_table("", filesystem=files).equals(TABLE)

    def test_bytes_and_file_objects(self, path: Path) -> None:
        assert smalti.scan(path.read_bytes()).to_table().equals(TABLE)
        assert pickle.loads(pickle.dumps(smalti.open(path.read_bytes()))).read().equals(TABLE)
        with path.open("rb") as file:
            assert smalti.read_table(file).equals(TABLE)
            with pytest.raises(TypeError, match="pickled"):
                pickle.dumps(smalti.open(file))

    @pytest.mark.parametrize("missing", ["nowhere.mosaic", "nowhere/*.mosaic"])
    def test_what_is_not_there(self, tmp_path: Path, missing: str) -> None:
        with pytest.raises(FileNotFoundError):
            smalti.read_table(tmp_path / missing)
        with pytest.raises(FileNotFoundError):
            smalti.scan(tmp_path / missing)


def test_a_missing_engine_names_the_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'smalti\[polars\]'"):
        smalti.open(path).to_polars()


def test_a_stream_whose_table_has_other_types_by_now(tmp_path: Path) -> None:
    """Whoever takes a stream believes its schema, and would take the memory of one type for that of another."""
    smalti.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int64())}), tmp_path / "a.mosaic")
    scan = smalti.scan(tmp_path)
    reader, stream = scan.to_reader(), pa.RecordBatchReader.from_stream(scan)
    smalti.write_table(pa.table({"a": pa.array([7] * 10, pa.int32())}), tmp_path / "a.mosaic")
    with pytest.raises(smalti.MosaicError, match="replaced by one with other columns or types"):
        reader.read_all()
    with pytest.raises(pa.ArrowInvalid, match="replaced by one with other columns or types"):
        stream.read_all()
    assert pa.table(scan)["a"].to_pylist() == [7] * 10


def _frames() -> dict[str, Any]:
    frame = pd.DataFrame({"a": [3, 1, 2], "b": list("xyz"), "c.d": [1.0, 2.0, 3.0]})
    return {
        "range": frame,
        "steps": frame.set_axis(pd.RangeIndex(5, 11, 2)),
        "a column": frame.set_index("b"),
        "two columns": frame.set_index(["b", "c.d"]),
        "no name": frame.set_axis([7, 8, 9]),
        "moments": frame.set_axis(pd.date_range("2024-01-01", periods=3, name="when", tz="UTC")),
        "categories": frame.set_axis(pd.CategoricalIndex(list("qrq"))),
        "a pattern": frame.set_axis(pd.Index([1, 2, 3], name="a*")),
    }


@pytest.mark.parametrize("kind", _frames())
def test_the_index_of_pandas_comes_with_any_columns(tmp_path: Path, kind: str) -> None:
    """As pandas.read_parquet, which reads the columns of the index whether they are asked for or not."""
    frame = _frames()[kind]
    frame.to_parquet(tmp_path / "t.parquet")
    table = pa.Table.from_pandas(frame)
    smalti.write_table(table, tmp_path / "t.mosaic")
    for columns, filters in itertools.product((["a"], [], None, table.column_names), (None, [("a", ">", 1)])):
        expected = pd.read_parquet(tmp_path / "t.parquet", columns=columns, filters=filters)
        with smalti.open(tmp_path / "t.mosaic") as file:
            found = [file.to_pandas(columns, filters), smalti.dataset(tmp_path).to_pandas(columns, filters)]
        found.append(smalti.scan(tmp_path / "t.mosaic", columns, filters, schema=table.schema).to_pandas())
        for each in found:
            pd.testing.assert_frame_equal(each, expected)
    assert list(smalti.read_table(tmp_path / "t.mosaic", ["a"]).column_names) == ["a"]
