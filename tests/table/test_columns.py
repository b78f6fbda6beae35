"""Columns of tables: found by name, and nothing made for those that a query does not name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti.logical import mapping
from smalti.mosaic.columns import Columns
from smalti.table import columns, snapshot
from smalti.table.columns import TableColumns, table_columns

WIDTH = 300


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping.PROCESS_SCHEMAS.forget()
    monkeypatch.setattr(columns, "_tables", {})


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Four files with the same columns, one of which has a type that only the companion knows."""
    for number in range(4):
        rows = {f"c{index:03d}": pa.array([float(number), index]) for index in range(WIDTH)}
        table = pa.table({"id": [2 * number, 2 * number + 1], "u": pa.array([1, 2], pa.uint64()), **rows})
        smalti.write_table(table, tmp_path / f"{number}.mosaic", stats_columns=["id"])
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of columns of each schema and projection that is made from schema blocks."""
    made: list[int] = []
    project = Columns._project

    def note(self: Columns, positions: list[int], names: list[str]) -> Any:
        made.append(len(positions))
        return project(self, positions, names)

    monkeypatch.setattr(Columns, "_project", note)
    return made


def read_arrow(path: Path) -> Any:
    return smalti.read_table(path, ["c001"], [("id", "<", 2)])["c001"].to_pylist()


def read_pandas(path: Path) -> Any:
    pytest.importorskip("pandas")
    return smalti.dataset(path).to_pandas(["c001"], [("id", "<", 2)])["c001"].tolist()


def read_as_schema(path: Path) -> Any:
    schema = pa.schema([("id", pa.int64()), ("c001", pa.float64())])
    return smalti.read_table(path, filters=[("id", "<", 2)], schema=schema)["c001"].to_pylist()


def read_duckdb(path: Path) -> Any:
    pytest.importorskip("duckdb")
    import smalti.duckdb

    found = smalti.duckdb.query(f"SELECT C001 FROM '{path}/' WHERE id < 2 ORDER BY id")
    assert found is not None
    return [value for (value,) in found.fetchall()]


def read_duckdb_by_name(path: Path) -> Any:
    pytest.importorskip("duckdb")
    import smalti.duckdb

    found = smalti.duckdb.query("SELECT c001 FROM t WHERE id < 2 ORDER BY id", t=path)
    assert found is not None
    return [value for (value,) in found.fetchall()]


@pytest.mark.parametrize("read", [read_arrow, read_pandas, read_as_schema, read_duckdb, read_duckdb_by_name])
def test_a_query_makes_fields_of_the_columns_that_it_names(
    wide: Path, made: list[int], read: Callable[[Path], Any]
) -> None:
    assert read(wide) == [0.0, 1.0]
    assert sum(made) <= 8, "a projection for the result, the filter and both, not one for each file"
    made.clear()
    assert read(wide) == [0.0, 1.0]
    assert made == [], "another query with the same columns finds them"


@pytest.mark.parametrize(("read", "times"), [(read_arrow, 1), (read_duckdb, 2)])
def test_a_query_opens_files_for_their_columns_and_for_their_rows(
    wide: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any], times: int
) -> None:
    """An engine asks for columns first and reads later; otherwise a file stays open between the two."""
    opened: list[str] = []
    open_found = snapshot.open_found
    monkeypatch.setattr(snapshot, "open_found", lambda file, fs: (opened.append(file.path), open_found(file, fs))[1])
    assert read(wide) == [0.0, 1.0]
    assert len(opened) == 4 * times


def test_polars_has_its_types_made_once_in_a_process(
    wide: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pl = pytest.importorskip("polars")
    import smalti.polars

    asked: list[int] = []
    types = smalti.polars._polars_types
    monkeypatch.setattr(smalti.polars, "_polars_types", lambda *args: (asked.append(1), types(*args))[1])
    for _ in range(3):
        frame = smalti.polars.scan_mosaic(wide)
        assert frame.filter(pl.col("id") < 2).select("c001", "u").collect()["c001"].to_list() == [0.0, 1.0]
    assert len(asked) == 1
    assert made.count(WIDTH + 2) <= 1, "at most one schema of all columns, for their types"


def test_files_with_equal_columns_have_them_unified_by_their_address(
    wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four equal schemas are one, in whichever order threads open the files."""
    seen: list[int] = []
    unify = columns.unify_schemas

    def note(schemas: Any) -> pa.Schema:
        given = list(schemas)
        seen.append(len(given))
        return unify(given)

    monkeypatch.setattr(columns, "unify_schemas", note)
    for readahead in (None, 4):
        mapping.PROCESS_SCHEMAS.forget()
        ds = smalti.dataset(wide, readahead=readahead)
        assert len(ds.schema) == WIDTH + 2
        assert smalti.dataset(wide, readahead=readahead).schema is ds.schema
    assert seen == [1, 1]


def test_columns_of_a_table_are_those_of_its_schema(tmp_path: Path) -> None:
    """By name, by folded name, as paths, and after a pickle: files that differ, with a partition column."""
    for day, table in enumerate(
        [
            pa.table({"id": pa.array([1], pa.int32()), "S": [{"x": 1, "y": "a"}]}),
            pa.table({"ID": [1.5], "id": pa.array([2], pa.int64()), "S": [{"x": 1}]}),
        ]
    ):
        (tmp_path / f"day={day}").mkdir()
        smalti.write_table(table, tmp_path / f"day={day}" / "a.mosaic")
    ds = smalti.dataset(tmp_path)
    given = TableColumns({}, ds.schema)
    for typed in (
        ds.typed_columns,
        given,
        pickle.loads(pickle.dumps(ds.typed_columns)),
        pickle.loads(pickle.dumps(given)),
    ):
        assert typed.names == ds.column_names == ds.schema.names == ["id", "S", "ID", "day"]
        assert typed.named({"id", "nope"}) == ["id", "ID"]
        assert typed.kinds == given.kinds
        assert typed.present(["ID", "S.x", "day", "nope"]) == ["ID", "day"]
        for names in (["ID", "id"], ["S.y"], ["day", "S.x"], None, []):
            assert typed.project(names).equals(given.project(names)), names
        with pytest.raises(smalti.SchemaError, match=r"no column 'idd' in the dataset; did you mean 'id'"):
            typed.project(["idd"])
    with pytest.raises(smalti.SchemaError, match="names a field of a struct"):
        ds.scan(schema=pa.schema([("S.x", pa.int64())])).to_table()


def test_a_process_keeps_few_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number in range(20):
        smalti.write_table(
            pa.table({f"c{index}": [index] for index in range(number + 1)}), tmp_path / f"{number}.mosaic"
        )
        found.append(smalti.dataset([tmp_path / f"{number}.mosaic"]).typed_columns)
    assert len(columns._tables) == 16
    assert smalti.dataset([tmp_path / "19.mosaic"]).typed_columns is found[19]
    assert smalti.dataset([tmp_path / "0.mosaic"]).typed_columns.names == ["c0"]
    monkeypatch.setattr(columns, "MAX_KEPT_COLUMNS", 40)
    assert len(smalti.dataset([tmp_path / "1.mosaic"]).typed_columns.names) == 2
    assert sum(each.width for each in columns._tables.values()) <= 40
    monkeypatch.setattr(columns, "MAX_KEPT_COLUMNS", 4)
    assert len(table_columns(found[3].variants, pa.schema([])).names) == 4
    assert smalti.dataset([tmp_path / "5.mosaic"]).to_table(["c3"])["c3"].to_pylist() == [3]


def test_names_that_no_column_has_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may ask a table about any number of names."""
    monkeypatch.setattr("smalti.mosaic.columns.MAX_MISSES", 10)
    smalti.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "a.mosaic")
    stored = smalti.open(tmp_path / "a.mosaic").columns.stored
    for number in range(100):
        assert stored.find([f"nope {number}", "b"]) == [-1, 1]
    assert len(stored._positions) <= 12
