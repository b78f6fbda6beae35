"""Changes of tables at the edges: requests that look alike, tables that are odd, other jobs at the same time."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from dataclasses import replace
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


ZONED = dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
NANOSECOND = pd.Timestamp("2026-01-01 00:00:00.000000001")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.struct([("x", pa.int64())]), {"x": 1.7}),
        (pa.struct([("x", pa.int64())]), (1.7,)),
        (pa.struct([("x", pa.int64())]), [("x", 1.7)]),
        (pa.struct([("x", pa.int64())]), {"x": 1, "y": 2}),
        (pa.struct([("x", pa.int64())]), pa.scalar({"x": 1, "y": 2})),
        (pa.list_(pa.struct([("x", pa.int64())])), pa.scalar([{"x": 1, "y": 2}])),
        (pa.list_(pa.int64()), [1, 1.7]),
        (pa.list_(pa.int64(), 1), np.array([1.7])),
        (pa.list_(pa.float32()), [1e300]),
        (pa.list_(pa.list_view(pa.float16())), [[70000.0]]),
        (pa.dictionary(pa.int8(), pa.int64()), 1.7),
        (pa.run_end_encoded(pa.int16(), pa.int64()), 1.7),
        (pa.map_(pa.string(), pa.int64()), [("a", 1.7)]),
        (pa.map_(pa.int64(), pa.string()), {1.7: "a"}),
        (pa.fixed_shape_tensor(pa.int32(), [2]), [1.7, 2]),
        (pa.list_(pa.timestamp("s")), [dt.datetime(2026, 1, 1, 1, 1, 1, 5)]),
        (pa.list_(pa.date32()), [dt.datetime(2026, 1, 1, 5)]),
        (pa.list_(pa.time32("s")), [dt.time(1, 2, 3, 4)]),
        (pa.timestamp("us"), NANOSECOND),
        (pa.duration("us"), pd.Timedelta(1, "ns")),
        (pa.timestamp("us"), ZONED),
        (pa.list_(pa.timestamp("us")), [ZONED]),
        (pa.timestamp("us"), pa.scalar(ZONED)),
        (
            pa.map_(pa.string(), pa.timestamp("us")),
            pa.scalar([("a", ZONED)], pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
        ),
        (pa.timestamp("us"), pc.field("zoned")),
        (pa.struct([("x", pa.timestamp("us"))]), pc.make_struct(pc.field("zoned"), field_names=["x"])),
    ],
)
def test_values_of_any_depth_that_would_lose_a_part_are_refused(type_: Any, value: Any, tmp_path: Path) -> None:
    file, zone = tmp_path / "t.mosaic", pa.array([0], pa.timestamp("us", "UTC"))
    smalti.write_table(pa.table({"x": pa.nulls(1, type_), "zoned": zone}), file)
    with pytest.raises(smalti.SchemaError, match=r"it would become|has no field|would lose|no time zone"):
        jobs.update(file, {"x": value})
    assert smalti.read_table(file)["x"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
        (
            pa.struct([("x", pa.dictionary(pa.int8(), pa.string())), ("y", pa.int8())]),
            {"x": "a"},
            {"x": "a", "y": None},
        ),
        (pa.list_(pa.float32()), [1.5, None, float("inf")], [1.5, None, float("inf")]),
        (pa.timestamp("s", "Europe/Berlin"), ZONED, ZONED),
        (pa.list_(pa.decimal128(5, 2)), [Decimal("1.5")], [Decimal("1.50")]),
        (pa.int32(), np.float64(2.0), 2),
    ],
)
def test_values_of_any_depth_that_fit(type_: Any, value: Any, expected: Any, tmp_path: Path) -> None:
    smalti.write_table(pa.table({"x": pa.nulls(1, type_)}), tmp_path / "t.mosaic")
    jobs.update(tmp_path / "t.mosaic", {"x": value})
    assert smalti.read_table(tmp_path / "t.mosaic")["x"].to_pylist() == [expected]


def test_data_that_would_lose_a_part_is_refused(tmp_path: Path) -> None:
    """In a merge, in keys, and in what a function returns for later rows."""
    file, plain = tmp_path / "t.mosaic", pa.timestamp("us")
    table = pa.table({"k": pa.array([0, 1], plain), "s": pa.array([{"x": 1}, {"x": 2}]), "t": pa.array([0, 1], plain)})
    smalti.write_table(table, file, row_group_max_rows=1)
    zoned = pa.array([0], pa.timestamp("us", "UTC"))
    for data, on in (
        (pa.table({"k": pa.array([0], plain), "s": pa.array([{"x": 1, "y": 2}])}), "k"),
        (pa.table({"k": pa.array([0], plain), "t": zoned}), "k"),
        (pa.table({"k": zoned, "s": pa.array([{"x": 5}])}), "k"),
    ):
        with pytest.raises(smalti.SchemaError, match="would lose"):
            jobs.merge(file, data, on)
    rows = iter([[{"a": 1}], [{"a": 1}], [{"a": 1, "b": 2}]])
    with pytest.raises(smalti.SchemaError, match="would lose the field 'b'"):
        jobs.add_columns(file, lambda _: {"n": pa.array(next(rows))}, workers=1)
    assert smalti.read_table(file).equals(table)


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
    jobs.merge(root, pa.table({"id": [10], "p": [1], "x": [1]}), on="id")
    acts: list[Callable[[], object]] = [
        lambda: jobs.update(root, {"p": 3}),
        lambda: jobs.drop_columns(root, "p"),
        lambda: jobs.rename_columns(root, {"p": "q"}),
        lambda: jobs.replace_columns(root, lambda batch: {"p": batch["p"]}),
    ]
    for act in acts:
        with pytest.raises(smalti.SchemaError, match="partition column"):
            act()
    report = jobs.merge(root, pa.table({"id": [10, 30], "p": [1, 3], "x": [5, 6]}), on=["id", "p"])
    assert (report.rows_updated, report.rows_inserted) == (1, 1)
    assert sorted(zip(*read(root).values(), strict=True)) == [(10, 1, 5), (20, 2, 1), (30, 3, 6)]
    assert [path.name for path in sorted(root.iterdir()) if path.name[0] != "_"] == ["p=1", "p=2", "p=3"]
    assert smalti.dataset(root).count_rows([("p", "=", 3)]) == 1
    jobs.merge(root, pa.table({"id": [10, 20], "p": [2, 1]}), on="id")
    assert sorted(zip(*read(root).values(), strict=True)) == [(10, 2, 5), (20, 1, 1), (30, 3, 6)]
    for value in (1, 2):
        assert smalti.dataset(root).count_rows([("p", "=", value)]) == 1


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


@pytest.mark.parametrize("count", [4, 16])
def test_the_keys_of_many_chunks_are_read_and_indexed_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk was compared with all later ones, and its index made again for each file of the table."""
    monkeypatch.setattr(change_data, "CHUNK_BYTES", 1 << 10)
    reads, made, read, index = [], [], change_data.Chunk.read, change_data.KeyIndex

    def reading(self: change_data.Chunk, columns: Any = None) -> pa.Table:
        reads.append(self.start)
        return read(self, columns)

    def making(keys: pa.Table) -> Any:
        made.append(keys.num_rows)
        return index(keys)

    monkeypatch.setattr(change_data.Chunk, "read", reading)
    monkeypatch.setattr(change_data, "KeyIndex", making)
    parts = [pa.table({"k": [2 * at, 2 * at + 1], "v": ["x" * 1000] * 2}) for at in range(count)]
    chunks = tuple(change_data.Chunk(2 * at, 2, part) for at, part in enumerate(parts))
    rows = change_data.KeyedRows(chunks, pa.schema([("k", pa.int64())]))
    assert rows.check() == 0
    for _ in range(5):  # Files of the table.
        assert rows.find(pa.table({"k": [7, 99, 0]})).to_pylist() == [7, None, 0]
    assert made == [2 * count]
    assert len(reads) == 2 * count
    there = pickle.loads(pickle.dumps(rows))
    assert there.find(pa.table({"k": [5]})).to_pylist() == [5]
    assert len(reads) == 3 * count
    again = change_data.Chunk(2 * count, 1, parts[0].slice(1))
    with pytest.raises(smalti.SchemaError, match="several rows with the same key"):
        replace(rows, chunks=(*chunks, again)).check()


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


@pytest.mark.parametrize("wrapped", [pa.string_view(), pa.run_end_encoded(pa.int32(), pa.string())])
def test_rows_without_a_match_beside_structs_of_views_and_runs(wrapped: Any, tmp_path: Path) -> None:
    """Arrow takes no rows of such structs. They are null where no row matches, and dictionaries keep their order."""
    file, order = tmp_path / "t.mosaic", ["low", "high", "mid"]
    smalti.write_table(pa.table({"k": [1, 2, 3]}), file)
    sizes = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int8()), pa.array(order), ordered=True)
    texts: Any = pa.array(["a", None, "c"])
    texts = texts.cast(wrapped) if wrapped == pa.string_view() else pc.call_function("run_end_encode", [texts])
    structs = pa.StructArray.from_arrays([texts, sizes], ["text", "size"])
    lists = pa.ListArray.from_arrays([0, 1, 3, 3], pa.concat_arrays([structs, structs]).slice(0, 3))
    jobs.add_columns(file, pa.table({"k": [2, 9, 1], "s": structs, "l": lists}), on="k")
    found = smalti.read_table(file)
    assert found["s"].to_pylist() == [{"text": "c", "size": "low"}, {"text": "a", "size": "mid"}, None]
    assert found["l"].to_pylist() == [[], [{"text": "a", "size": "mid"}], None]
    for chunk in found["s"].chunks:
        assert chunk.type.field("size").type.ordered
        assert chunk.field(1).dictionary.to_pylist() == order


def test_a_frame_of_polars_with_a_struct_and_a_row_without_a_match(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    smalti.write_table(pa.table({"k": [1, 2, 3]}), tmp_path / "t.mosaic")
    rows = polars.DataFrame({"k": [1, 2], "s": [{"a": "x"}, {"a": "y"}]})
    assert jobs.add_columns(tmp_path / "t.mosaic", rows, on="k").rows_unmatched == 1
    assert smalti.read_table(tmp_path / "t.mosaic")["s"].to_pylist() == [{"a": "x"}, {"a": "y"}, None]


@pytest.mark.parametrize(("is_file", "is_chunked"), [(False, True), (True, False)])
def test_dictionaries_get_wider_indices_where_new_values_need_them(
    is_file: bool, is_chunked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when they are written: categories of pandas have int8 up to 127 of them."""
    if is_chunked:
        monkeypatch.setattr(change_data, "CHUNK_BYTES", 64)
    path, narrow = tmp_path / ("t.mosaic" if is_file else "t"), pa.dictionary(pa.int8(), pa.string())

    def table(keys: range, words: list[str]) -> pa.Table:
        lists = pa.ListArray.from_arrays(range(len(words) + 1), pa.array(words).cast(narrow))
        return pa.table({"k": keys, "c": pa.array(words).cast(narrow), "l": lists})

    old, new = [f"old {i % 100}" for i in range(200)], [f"new {i}" for i in range(100)]
    (tmp_path / "t").mkdir()
    smalti.write_table(table(range(200), old), path if is_file else path / "a.mosaic", row_group_max_rows=150)
    report = jobs.merge(path, table(range(100, 200), new), on="k")
    assert report.rows_updated == 100
    report = jobs.merge(path, table(range(200, 300), [f"more {i}" for i in range(100)]), on="k")
    assert report.rows_inserted == 100
    jobs.update(path, {"c": pc.field("k").cast(pa.string())}, "k < 140")
    found = smalti.dataset(path).to_table().sort_by("k")
    more = [f"more {i}" for i in range(100)]
    assert found["c"].to_pylist() == [*map(str, range(140)), *new[40:], *more]
    assert found["l"].to_pylist() == [[word] for word in [*old[:100], *new, *more]]
    assert jobs.verify(path).ok


@pytest.mark.parametrize(
    "type_",
    [pa.dictionary(pa.int8(), pa.timestamp("us")), pa.run_end_encoded(pa.int16(), pa.uuid()), pa.list_view(pa.int8())],
)
def test_columns_of_any_type_are_assigned_to_each_other(type_: Any, tmp_path: Path) -> None:
    smalti.write_table(pa.table({"k": [1, 2], "a": pa.nulls(2, type_), "b": pa.nulls(2, type_)}), tmp_path / "t.mosaic")
    assert jobs.update(tmp_path / "t.mosaic", {"a": pc.field("b")}, "k = 1").rows == 1


def test_a_struct_in_which_the_path_of_a_field_is_the_name_of_another(tmp_path: Path) -> None:
    """Its dictionary is widened, so it is compared with the type in the file."""
    fields = [("a.b", pa.dictionary(pa.int8(), pa.string())), ("a", pa.struct([("b", pa.list_(pa.int64()))]))]
    rows = [{"a.b": "x", "a": {"b": [1]}}, None]
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"k": [1, 2], "s": pa.array(rows, pa.struct(fields))}), file)
    jobs.update(file, {"s": rows[0]}, "k = 2")
    assert smalti.read_table(file)["s"].to_pylist() == [rows[0], rows[0]]


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()])
def test_keys_that_are_not_a_number_match_whatever_their_bits(type_: Any, tmp_path: Path) -> None:
    """And so do both zeros."""
    half = np.array([0x7E00, 0xFE00, 0x7E01, 0x8000], np.uint16).view(np.float16)
    one, other, third, zero = (pa.array(half[i : i + 1]).cast(type_) for i in range(4))
    for number, (key, sought) in enumerate([(one, other), (other, third), (zero, pa.array([0.0]).cast(type_))]):
        file = tmp_path / f"{number}.mosaic"
        smalti.write_table(pa.table({"k": key, "v": [1]}), file)
        report = jobs.merge(file, pa.table({"k": sought, "v": [2]}), on="k")
        assert (report.rows_updated, report.rows_inserted) == (1, 0)


@pytest.mark.parametrize("name", ["whole", "word", "zoned", "text", "index"])
def test_replaced_columns_in_what_pandas_knows(name: str, tmp_path: Path) -> None:
    """What it wrote about the type of a column is not true of one with another type."""
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2], dtype="Int64"),
            "word": pd.Categorical(["x", "y"]),
            "zoned": pd.to_datetime(["2026-01-01", "2026-01-02"]).tz_localize("UTC"),
            "text": pd.array(["u", "v"], dtype="string"),
            "index": ["p", "q"],
        }
    ).set_index("index")
    for new in (pa.array(["x", "y"]), pa.array([1.5, 2.5]), pa.array([0, 1], pa.timestamp("us")), pa.array([[1], [2]])):
        smalti.write_table(pa.Table.from_pandas(frame), tmp_path / "t.mosaic")
        jobs.replace_columns(tmp_path / "t.mosaic", pa.table({name: new}))
        found = smalti.read_table(tmp_path / "t.mosaic")
        back, plain = found.to_pandas(), found.replace_schema_metadata(None).to_pandas()
        assert back.index.name == "index"
        pd.testing.assert_series_equal(back.reset_index()[name], plain[name])


def test_columns_that_are_named_twice_or_are_not_there(tmp_path: Path) -> None:
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"x": [1], "y": [2]}), file)
    with pytest.raises(smalti.SchemaError, match="named twice"):
        jobs.reorder_columns(file, ["y", "x", "y"])
    jobs.reorder_columns(file, ["y", "*"])  # A pattern names the others.
    for data in (pa.table({"z": [3]}), pa.table({"x": [3], "z": [3]}), lambda _: {"z": [3]}):
        with pytest.raises(smalti.SchemaError, match="no column 'z' to replace"):
            jobs.replace_columns(file, data)
    assert read(file) == {"y": [2], "x": [1]}


@pytest.mark.parametrize("values", [[1, 2, 3, 4], ["a b", "b/c", "c", None]])
def test_a_merge_with_the_partition_column(values: list[Any], tmp_path: Path) -> None:
    """Rows that match are updated, and move to the partition of the data; new ones go to theirs."""
    root, one, two, three, other = tmp_path / "t", *values

    def rows() -> dict[int, tuple[Any, ...]]:
        return {row["id"]: (row["p"], row["x"], row["y"]) for row in smalti.dataset(root).to_table().to_pylist()}

    words = pa.array(["u", "v", "w", "u"]).dictionary_encode()
    old = pa.table({"id": [1, 2, 3, 6], "p": [one, two, other, one], "x": [1, 2, 3, 6], "y": words})
    smalti.write_dataset(old, root, partition_by="p", row_group_max_rows=1)
    untouched = [path for path in root.rglob("*.mosaic") if smalti.open(path).read(["id"])["id"][0].as_py() == 1]
    report = jobs.merge(
        root, pa.table({"id": [2, 3, 4, 5], "p": [two, other, one, three], "x": [20, 30, 40, 50]}), "id"
    )
    assert (report.rows_updated, report.rows_inserted) == (2, 2)
    expected = {
        1: (one, 1, "u"),
        2: (two, 20, "v"),
        3: (other, 30, "w"),
        4: (one, 40, None),
        5: (three, 50, None),
        6: (one, 6, "u"),
    }
    assert rows() == expected
    assert untouched[0].exists()
    data = pa.table({"id": [1, 2, 3, 7], "p": [two, two, one, other], "x": [100, 200, 300, 700]})
    for matched in ("ignore", "update"):
        dry = jobs.merge(root, data, "id", when_matched=matched, dry_run=True)
        assert (dry.rows_updated, dry.rows_inserted) == (3 if matched == "update" else 0, 1)
    report = jobs.merge(root, data, "id", workers=1)
    assert (report.rows_updated, report.rows_inserted, report.rows) == (3, 1, 4)
    expected |= {1: (two, 100, "u"), 2: (two, 200, "v"), 3: (one, 300, "w"), 7: (other, 700, None)}
    assert rows() == expected
    for value in values:
        where = pc.field("p").is_null() if value is None else pc.field("p") == value
        assert smalti.dataset(root).count_rows(where) == sum(row[0] == value for row in expected.values())
    report = jobs.merge(root, pa.table({"id": [1, 4, 6], "p": [three, three, three]}), "id")
    assert (report.rows_updated, report.rows_inserted) == (3, 0)
    expected |= {1: (three, 100, "u"), 4: (three, 40, None), 6: (three, 6, "u")}
    assert rows() == expected
    assert jobs.merge(root, pa.table({"id": [1], "p": [one], "x": [7]}), "id", when_matched="ignore").rows == 0
    assert jobs.merge(root, pa.table({"id": [1, 2], "x": [7, 8]}), "id", when_not_matched="ignore").rows_updated == 2
    assert rows() == expected | {1: (three, 7, "u"), 2: (two, 8, "v")}
    assert jobs.verify(root).ok


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_column_outlives_the_rows_of_the_only_file_that_has_it(tmp_path: Path, partitioned: bool) -> None:
    options: dict[str, Any] = {"partition_by": ["p"]} if partitioned else {}
    smalti.write_dataset(pa.table({"id": [1, 2], "p": [1, 1]}), tmp_path, **options)
    smalti.write_dataset(pa.table({"id": [3], "p": [2], "x": ["a"]}), tmp_path, mode="append", **options)
    jobs.delete(tmp_path, "id = 3")
    assert smalti.read_table(tmp_path, ["id", "x"]).to_pydict() == {"id": [1, 2], "x": [None, None]}
    jobs.delete(tmp_path, "id = 2")  # and no further file without rows comes
    assert smalti.read_table(tmp_path, ["id", "x"]).to_pydict() == {"id": [1], "x": [None]}
    assert len(smalti.dataset(tmp_path).files) == 2
