"""Changes of tables at the edges: requests that look alike, tables that are odd, other jobs at the same time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.io import Location
from smalti.jobs import change_data, change_task


def read(root: Path) -> dict[str, list[Any]]:
    return smalti.dataset(root).to_table().to_pydict()


def write_files(root: Path, *tables: pa.Table) -> None:
    root.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        smalti.write_table(table, root / f"{number}.mosaic")


@pytest.mark.parametrize("form", ["expression", "numpy"])
def test_requests_that_differ_in_the_middle_are_not_mixed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow and numpy leave out the middle of long lists when they print them."""
    write_files(tmp_path / "t", pa.table({"x": range(5000)}), pa.table({"x": range(5000)}))
    real, calls = change_task.rewrite_file, []

    def failing(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(*arguments, **named)

    def where(middle: int) -> Any:
        values = [*range(1000), middle, *range(2000, 3000)]
        return pc.field("x").isin(values) if form == "expression" else [("x", "in", np.array(values))]

    monkeypatch.setattr(change_task, "rewrite_file", failing)
    with pytest.raises(OSError, match="No space"):
        jobs.delete(tmp_path / "t", where(1500), workers=1)
    (finished,) = (tmp_path / "t").rglob("changed.mosaic")
    jobs.delete(tmp_path / "t", where(1500), dry_run=True)
    assert finished.exists()
    report = jobs.delete(tmp_path / "t", where(1501), workers=1)
    assert report.resumed_files == 0
    assert sorted(set(read(tmp_path / "t")["x"])) == [*range(1000, 1501), *range(1502, 2000), *range(3000, 5000)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), Decimal("1.5")),
        (pa.float32(), 1e300),
        (pa.date32(), dt.datetime(2026, 1, 1, 5)),
        (pa.timestamp("s"), dt.datetime(2026, 1, 1, 5, 0, 0, 5)),
        (pa.duration("s"), dt.timedelta(microseconds=5)),
    ],
)
def test_values_that_would_lose_a_part_are_refused(type_: pa.DataType, value: Any, tmp_path: Path) -> None:
    file = tmp_path / "t.mosaic"
    smalti.write_table(
        pa.table({"x": pa.array([7]).cast(pa.int32() if type_ == pa.date32() else pa.int64()).cast(type_)}), file
    )
    with pytest.raises(smalti.SchemaError, match="it would become"):
        jobs.update(file, {"x": value})
    jobs.update(file, {"x": None})
    assert smalti.read_table(file).to_pydict() == {"x": [None]}


def test_values_that_are_finer_than_the_types_of_python(tmp_path: Path) -> None:
    file, time = tmp_path / "t.mosaic", pd.Timestamp("2026-01-01 00:00:00.000000001")
    smalti.write_table(pa.table({"x": pa.array([0], pa.timestamp("ns"))}), file)
    jobs.update(file, {"x": time})
    assert smalti.read_table(file)["x"].to_pylist() == [time]


@pytest.mark.parametrize("everywhere", [True, False])
def test_partition_columns_that_files_store(everywhere: bool, tmp_path: Path) -> None:
    """They are refused like others, since directories would contradict; inserted rows go to their directories."""
    root = tmp_path / "t"
    for p in (1, 2):
        (root / f"p={p}").mkdir(parents=True)
        rows = pa.table({"id": [10 * p], "p": pa.array([p], pa.int32()), "x": [1]})
        smalti.write_table(rows if everywhere or p == 1 else rows.drop_columns("p"), root / f"p={p}/a.mosaic")
    acts: list[Callable[[], object]] = [
        lambda: jobs.update(root, {"p": 3}),
        lambda: jobs.drop_columns(root, "p"),
        lambda: jobs.rename_columns(root, {"p": "q"}),
        lambda: jobs.replace_columns(root, lambda batch: {"p": batch["p"]}),
        lambda: jobs.merge(root, pa.table({"id": [10], "p": [2]}), on="id"),
    ]
    for act in acts:
        with pytest.raises(smalti.SchemaError, match="partition column"):
            act()
    report = jobs.merge(root, pa.table({"id": [10, 30], "p": [1, 3], "x": [5, 6]}), on=["id", "p"])
    assert (report.rows_updated, report.rows_inserted) == (1, 1)
    assert sorted(zip(*read(root).values(), strict=True)) == [(10, 1, 5), (20, 2, 1), (30, 3, 6)]
    assert [path.name for path in sorted(root.iterdir()) if path.name[0] != "_"] == ["p=1", "p=2", "p=3"]
    assert smalti.dataset(root).count_rows([("p", "=", 3)]) == 1


def test_nulls_in_a_column_that_only_one_file_takes_none_of(tmp_path: Path) -> None:
    root, strict = tmp_path / "t", pa.schema([pa.field("a", pa.int64(), nullable=False), ("k", pa.int64())])
    write_files(root, pa.table({"a": [1, 2], "k": [1, 2]}, strict), pa.table({"a": [3, None], "k": [3, 4]}))
    jobs.update(root, {"a": None}, "k = 1")
    jobs.merge(root, pa.table({"k": [2, 3], "a": pa.array([None, 9], pa.int64())}), on="k")
    assert read(root) == {"a": [None, None, 9, None], "k": [1, 2, 3, 4]}


def test_row_groups_of_files_that_stay_are_not_counted(tmp_path: Path) -> None:
    write_files(tmp_path / "t", pa.table({"k": [1]}), pa.table({"k": [2], "x": [1]}))
    report = jobs.update(tmp_path / "t", {"x": 5}, "k = 2")
    assert (report.files, report.row_groups) == (1, 1)


def test_a_merge_beside_files_that_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a match may be replaced. What was found in the others is not forgotten, so no key comes twice."""
    root = tmp_path / "t"
    write_files(root, *(pa.table({"id": [number], "x": [0]}) for number in range(4)))
    real, is_first = change_task.rewrite_file, [True]

    def busy(*arguments: Any, **named: Any) -> Any:
        if is_first and is_first.pop():
            for number in (0, 1):
                (root / f"{number}.mosaic").unlink()
                smalti.write_table(pa.table({"id": [number + 100], "x": [0]}), root / f"n{number}.mosaic")
        return real(*arguments, **named)

    monkeypatch.setattr(change_task, "rewrite_file", busy)
    report = jobs.merge(root, pa.table({"id": [2, 3], "x": [7, 8]}), on="id", workers=1)
    assert (report.rows_updated, report.rows_inserted) == (2, 0)
    assert sorted(zip(*read(root).values(), strict=True)) == [(2, 7), (3, 8), (100, 0), (101, 0)]


def test_the_same_job_twice_at_once_stages_its_data_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process has mapped to memory must not be cut off."""
    root, data = tmp_path / "t", tmp_path / "new.parquet"
    write_files(root, pa.table({"id": [1, 2]}))
    pq.write_table(pa.table({"x": [3, 4]}), data)
    monkeypatch.setattr(change_data, "CHUNK_BYTES", 0)
    real, places, rewrite_file = change_data.Spool._stage, [], change_task.rewrite_file

    def stage(self: Any, rows: pa.Table) -> Any:
        staged = real(self, rows)
        places.append(staged.path)
        if len(places) == 1:
            monkeypatch.setattr(change_task, "rewrite_file", stopped)
            with pytest.raises(smalti.SchemaError, match="stopped"):  # Another run, when its data is staged.
                jobs.add_columns(root, data)
            monkeypatch.setattr(change_task, "rewrite_file", rewrite_file)
        return staged

    def stopped(*_: Any, **__: Any) -> Any:
        raise smalti.SchemaError("stopped")

    monkeypatch.setattr(change_data.Spool, "_stage", stage)
    jobs.add_columns(root, data)
    assert len(set(places)) == 2
    assert read(root) == {"id": [1, 2], "x": [3, 4]}


def test_functions_that_return_something_else(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_files(root, pa.table({"a": [1, 2]}), pa.table({"a": [3, 4]}))
    for value in ("ab", 5, np.zeros((2, 2)), [1]):
        with pytest.raises(smalti.SchemaError, match="function has returned"):
            jobs.add_columns(root, lambda _, value=value: {"n": value})
    for made in ([[1, 2]], 7, {"n": [1], "m": [1, 2]}, {5: [1, 2]}, pa.array([1, 2])):
        with pytest.raises(smalti.SchemaError, match="function has returned"):
            jobs.add_columns(root, lambda _, made=made: made)
    assert read(root) == {"a": [1, 2, 3, 4]}


def test_all_rows_deleted_beside_a_file_without_rows(tmp_path: Path) -> None:
    """The table keeps all of its columns, and files without rows do not become more and more."""
    root = tmp_path / "t"
    write_files(root, pa.table({"a": pa.array([], pa.int64())}), pa.table({"a": [1], "b": [2]}))
    for _ in range(3):
        jobs.delete(root, "a > 0")
        assert smalti.dataset(root).schema.names == ["a", "b"]
        jobs.merge(root, pa.table({"a": [5], "b": [6]}), on="a")
    assert len(list(root.glob("*.mosaic"))) == 3


def test_a_merge_counts_the_same_for_a_file_and_a_table(tmp_path: Path) -> None:
    rows, data = pa.table({"a": [1, 2], "b": [3, 4]}), pa.table({"a": [2, None, 7], "b": [5, 6, 7]})
    write_files(tmp_path / "t", rows)
    smalti.write_table(rows, tmp_path / "f.mosaic")
    for action in ("insert", "ignore"):
        for dry_run in (True, False):
            reports = [
                jobs.merge(tmp_path / name, data, "a", when_not_matched=action, dry_run=dry_run)
                for name in ("t", "f.mosaic")
            ]
            counts = [
                (each.rows, each.rows_unmatched, each.rows_updated, each.rows_inserted, each.null_keys)
                for each in reports
            ]
            assert counts[0] == counts[1]


def test_fractions_are_not_looked_for_among_texts(tmp_path: Path) -> None:
    """A directory says 2.0 and Arrow 2, so the row would be inserted a second time."""
    rows = pa.table({"id": [1], "p": [2.0]})
    smalti.write_dataset(rows, tmp_path / "t", partition_by="p")
    with pytest.raises(smalti.SchemaError, match="text in several ways"):
        jobs.merge(tmp_path / "t", rows, on=["id", "p"])
    assert jobs.merge(tmp_path / "t", pa.table({"id": [1], "p": ["2.0"]}), on=["id", "p"]).rows_inserted == 0


@pytest.mark.parametrize("is_nested", [False, True])
def test_data_whose_dictionaries_differ(is_nested: bool, tmp_path: Path) -> None:
    """Batches of a reader, and files of a table, have dictionaries of their own."""
    root, data = tmp_path / "t", tmp_path / "data"
    write_files(root, pa.table({"a": [1, 2, 3]}), pa.table({"a": [4]}))
    parts = []
    for letter in "wxyz":
        column = pa.array([letter]).dictionary_encode()
        parts.append(pa.table({"n": pa.ListArray.from_arrays([0, 1], column) if is_nested else column}))
    write_files(data, *parts)
    reader = pa.RecordBatchReader.from_batches(parts[0].schema, [part.to_batches()[0] for part in parts])
    jobs.add_columns(root, reader)
    jobs.add_columns(root, data, replace=True)
    found = [[letter] if is_nested else letter for letter in "wxyz"]
    assert read(root) == {"a": [1, 2, 3, 4], "n": found}


def test_a_merge_of_many_columns_takes_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the values of all columns are in memory twice, where all rows of a row group are found."""
    names = [f"c{i}" for i in range(600)]
    write_files(tmp_path / "t", pa.table({"id": [1, 2, 3], **{name: [0, 0, 0] for name in names}}))
    data = pa.table({"id": [3, 1, 2], **{name: [30 + i, 10 + i, 20 + i] for i, name in enumerate(names)}})
    gather, widths = change_data.KeyedRows.gather, []

    def noting(self: change_data.KeyedRows, rows: Any, fields: Any) -> Any:
        widths.append(len(fields))
        return gather(self, rows, fields)

    monkeypatch.setattr(change_data.KeyedRows, "gather", noting)
    jobs.merge(tmp_path / "t", data, on="id")
    assert widths == [256, 256, 88]
    assert read(tmp_path / "t") == {"id": [1, 2, 3], **{n: [10 + i, 20 + i, 30 + i] for i, n in enumerate(names)}}


def test_rows_of_several_chunks_are_put_in_order_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for each row took a third of the time of a join of one column."""
    monkeypatch.setattr(pc, "index_in", None)
    parts = [
        pa.table({"k": [1, 2], "v": ["a", "b"]}),
        pa.table({"k": [3], "v": ["c"]}),
        pa.table({"k": [4], "v": ["d"]}),
    ]
    starts = [0, 2, 3]
    chunks = tuple(change_data.Chunk(at, len(part), part) for at, part in zip(starts, parts, strict=True))
    rows = change_data.KeyedRows(chunks, pa.schema([("k", pa.int64())]))
    numbers = pa.array([3, None, 0, 1, 3, 0], pa.int64())
    (found,) = rows.gather(numbers, [pa.field("v", pa.string())])
    assert found.to_pylist() == ["d", None, "a", "b", "d", "a"]
    (alone,) = rows.gather(pa.array([1, 0], pa.int64()), [pa.field("v", pa.string())])
    assert alone.to_pylist() == ["b", "a"]


def test_a_missing_table_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was looked for as long as a table is whose files are replaced: 400,000 times in ten seconds."""
    looked, exists = [], Location.exists

    def noting(self: Location) -> bool:
        looked.append(self.path)
        return exists(self)

    monkeypatch.setattr(Location, "exists", noting)
    monkeypatch.setattr("smalti.table.listing._READ_PATIENCE", 0.2)
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        with pytest.raises(FileNotFoundError):
            jobs.delete(tmp_path / name, "a = 1")
        assert looked.count(str(tmp_path / name)) == 1
