"""Compact: gathering, union of schemas, sorting in little memory, in place or elsewhere."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.io.locations import Location
from smalti.io.sources import LocalSource
from smalti.jobs import compact_job, copy_task, planning, sorting
from smalti.jobs.formats.columnar import MosaicFileReader
from smalti.mosaic.scan import Scanner
from tests.jobs.data import hidden, mixed, mosaic_files, rows_of, visible
from tests.jobs.test_convert import CRASHING_COMMIT
from tests.support.children import ROOT


def small_files(root: Path, count: int = 4, rows: int = 50) -> pa.Table:
    tables = [mixed(rows, number * rows) for number in range(count)]
    mosaic_files(root, tables)
    return pa.concat_tables(tables)


def test_in_place(tmp_path: Path) -> None:
    table = small_files(tmp_path / "d")
    summary = jobs.compact(tmp_path / "d")
    assert (summary.source_files, len(summary.files), summary.num_rows) == (4, 1, 200)
    assert visible(tmp_path / "d") == [summary.files[0].path]
    assert rows_of(tmp_path / "d").equals(table)
    assert hidden(tmp_path) == []
    with smalti.open(tmp_path / "d" / summary.files[0].path) as file:
        assert file.num_row_groups == 1
    # There is nothing left to do.
    again = jobs.compact(tmp_path / "d")
    assert (again.splits, again.files) == (0, ())
    assert hidden(tmp_path) == []


def test_elsewhere(tmp_path: Path) -> None:
    table = small_files(tmp_path / "d")
    before = visible(tmp_path / "d")
    jobs.compact(tmp_path / "d", tmp_path / "e")
    assert visible(tmp_path / "d") == before
    assert rows_of(tmp_path / "e").equals(table)
    with pytest.raises(FileExistsError):
        jobs.compact(tmp_path / "d", tmp_path / "e")
    jobs.compact(tmp_path / "d", tmp_path / "e", overwrite=True, sort_by="reading")
    assert len(visible(tmp_path / "e")) == 1
    with pytest.raises(smalti.MosaicError, match="target lies in the source"):
        jobs.compact(tmp_path / "d", tmp_path / "d/e")
    with pytest.raises(smalti.MosaicError, match="overlap"):
        jobs.compact(tmp_path / "d", tmp_path, overwrite=True)


def test_partitions_stay_apart(tmp_path: Path) -> None:
    for day in range(2):
        small_files(tmp_path / f"d/day={day}", count=2)
    jobs.compact(tmp_path / "d")
    assert [name.split("/")[0] for name in visible(tmp_path / "d")] == ["day=0", "day=1"]


def test_target_size(tmp_path: Path) -> None:
    table = small_files(tmp_path / "d", count=8)
    size = (tmp_path / "d/f0.mosaic").stat().st_size
    summary = jobs.compact(tmp_path / "d", target_file_bytes=3 * size)
    assert summary.source_files >= 6
    assert 2 <= len(visible(tmp_path / "d")) < 8
    assert rows_of(tmp_path / "d").sort_by("id").equals(table)


def test_schemas_become_one(tmp_path: Path) -> None:
    tables = [
        pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]}),
        pa.table({"c": [True], "a": pa.array([1 << 40], pa.int64())}),
    ]
    mosaic_files(tmp_path / "d", tables)
    jobs.compact(tmp_path / "d")
    found = rows_of(tmp_path / "d")
    assert found.schema.field("a").type == pa.int64()
    assert found.to_pylist() == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": "y", "c": None},
        {"a": 1 << 40, "b": None, "c": True},
    ]


def test_schemas_that_do_not_fit(tmp_path: Path) -> None:
    mosaic_files(tmp_path / "d", [pa.table({"a": [1]}), pa.table({"a": ["x"]})])
    with pytest.raises(jobs.JobError, match=r"f1\.mosaic, column 'a': files disagree"):
        jobs.compact(tmp_path / "d")
    assert visible(tmp_path / "d") == ["f0.mosaic", "f1.mosaic"]


@pytest.mark.parametrize("chunk", [1 << 30, 2000])
@pytest.mark.parametrize(
    "keys", ["reading", ["city", ("id", "descending")], [("day", "descending"), "flag"]], ids=["one", "two", "ties"]
)
def test_sorting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, keys: object) -> None:
    monkeypatch.setattr(sorting, "SORT_CHUNK_BYTES", chunk)
    table = small_files(tmp_path / "d")
    jobs.compact(tmp_path / "d", sort_by=keys, workers=1)  # type: ignore[arg-type]
    order = [(key, "ascending") if isinstance(key, str) else key for key in ([keys] if isinstance(keys, str) else keys)]  # type: ignore[attr-defined]
    assert rows_of(tmp_path / "d").equals(table.sort_by(order))


def statistics_of(directory: Path) -> dict[str, tuple[object, object]]:
    """The bounds of columns in the first row group of the only file of a directory."""
    (path,) = smalti.dataset(directory).files
    with smalti.open(path) as file:
        return {name: (item.min, item.max) for name, item in file.row_group(0).statistics.items()}


@pytest.mark.parametrize("sort_by", [None, "id"])
def test_columns_of_narrow_tables_keep_statistics(tmp_path: Path, sort_by: str | None) -> None:
    table = small_files(tmp_path / "d")
    smalti.write_table(table, tmp_path / "whole.mosaic")
    with smalti.open(tmp_path / "whole.mosaic") as file:
        expected = {name: (item.min, item.max) for name, item in file.row_group(0).statistics.items()}
    jobs.compact(tmp_path / "d", sort_by=sort_by)
    assert statistics_of(tmp_path / "d") == expected
    assert expected["id"] == (0, 199)


def test_wide_tables_keep_their_statistics(tmp_path: Path) -> None:
    """Keys that are looked up by statistics are still found so after the table was compacted."""
    columns = {f"c{i:03d}": pa.array([i, i + 1]) for i in range(150)}
    for number in range(2):
        table = pa.table({"id": [2 * number, 2 * number + 1], "s": [{"x": number}] * 2, **columns})
        (tmp_path / "d").mkdir(exist_ok=True)
        smalti.write_table(table, tmp_path / f"d/{number}.mosaic", stats_columns=["id", "s.x"])
    for sort_by, expected in ((None, {"id", "s.x"}), ("c007", {"id", "s.x", "c007"})):
        summary = jobs.compact(tmp_path / "d", sort_by=sort_by)
        with smalti.open(tmp_path / "d" / summary.files[0].path) as file:
            assert set(file.row_group(0).statistics) == expected
            assert file.row_group(0).statistics["id"].max == 3
    summary = jobs.compact(tmp_path / "d", options=smalti.WriterOptions(stats_columns=["c001"]))
    with smalti.open(tmp_path / "d" / summary.files[0].path) as file:
        assert set(file.row_group(0).statistics) == {"c001"}


def test_options_rewrite_even_large_files(tmp_path: Path) -> None:
    table = small_files(tmp_path / "d", count=1)
    options = smalti.WriterOptions(num_buckets=2, row_group_max_rows=20, stats_columns="all")
    summary = jobs.compact(tmp_path / "d", options=options)
    with smalti.open(tmp_path / "d" / summary.files[0].path) as file:
        assert (file.num_buckets, file.num_row_groups) == (2, 3)
    assert rows_of(tmp_path / "d").equals(table)


def test_unknown_sort_column_and_order(tmp_path: Path) -> None:
    small_files(tmp_path / "d")
    with pytest.raises(jobs.JobError, match=r"no column .nope. to sort by"):
        jobs.compact(tmp_path / "d", sort_by="nope")
    with pytest.raises(smalti.MosaicError, match="unknown sort order"):
        jobs.compact(tmp_path / "d", sort_by=[("id", "up")])
    assert len(visible(tmp_path / "d")) == 4


def test_a_link_to_another_directory_of_the_table(tmp_path: Path) -> None:
    """Both names lead to the same files, whose rows would take the place of themselves twice."""
    mosaic_files(tmp_path / "t/2024", [mixed(5), mixed(5)])
    (tmp_path / "t/latest").symlink_to("2024")
    with pytest.raises(smalti.MosaicError, match="two paths lead to the same file, through a symbolic link"):
        jobs.compact(tmp_path / "t")
    assert smalti.dataset(tmp_path / "t/2024").count_rows() == 10


def test_a_skipped_file_stays(tmp_path: Path) -> None:
    small_files(tmp_path / "d")
    bad = tmp_path / "d/f1.mosaic"
    bad.write_bytes(bad.read_bytes()[:-5])
    with pytest.raises(jobs.JobError, match=r"f1\.mosaic"):
        jobs.compact(tmp_path / "d")
    summary = jobs.compact(tmp_path / "d", on_error="skip")
    assert [item.path for item in summary.skipped] == [str(bad)]
    assert sorted(visible(tmp_path / "d")) == sorted(["f1.mosaic", summary.files[0].path])
    assert summary.num_rows == 150


def test_a_table_that_is_overwritten_before_its_files_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smalti.write_dataset(mixed(5), tmp_path / "d")
    real, meanwhile = compact_job.source_files, [mixed(7)]

    def later(*arguments: Any, **named: Any) -> Any:
        while meanwhile:
            smalti.write_dataset(meanwhile.pop(), tmp_path / "d", mode="overwrite")
        return real(*arguments, **named)

    monkeypatch.setattr(compact_job, "source_files", later)
    jobs.compact(tmp_path / "d")
    assert not meanwhile
    assert rows_of(tmp_path / "d").num_rows == 7


@pytest.mark.parametrize(("method", "after"), [("_add", 0), ("_delete", 0), ("_delete_staged", 0), ("_create", 1)])
def test_killed_in_its_commit(tmp_path: Path, method: str, after: int) -> None:
    table = small_files(tmp_path / "d")
    script = CRASHING_COMMIT.format(method=method, call="jobs.compact(sys.argv[1], sort_by='id')")
    command = [sys.executable, "-c", script, str(tmp_path / "d"), "-", str(after)]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert smalti.dataset(tmp_path / "d").to_table().equals(table)  # no row twice, none missing
    summary = jobs.compact(tmp_path / "d", sort_by="id")
    assert summary.num_rows == 200
    assert len(visible(tmp_path / "d")) == 1
    assert rows_of(tmp_path / "d").equals(table)
    assert hidden(tmp_path) == []


def test_dictionaries_and_runs_that_are_too_many_together(tmp_path: Path) -> None:
    """The files are good by themselves; gathered, they have more entries and rows than their types can count."""
    tables = []
    for number in range(2):
        entries = pa.array([f"{number} {i}" for i in range(100)])
        codes = pa.DictionaryArray.from_arrays(pa.array([i % 100 for i in range(20_000)], pa.int8()), entries)
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([20_000], pa.int16()), pa.array([number]))
        tables.append(pa.table({"word": codes, "run": runs}))
    mosaic_files(tmp_path / "d", tables)
    rows = [row for table in tables for row in table.to_pylist()]
    jobs.compact(tmp_path / "d", tmp_path / "sorted", sort_by=[("word", "descending")])
    found = smalti.read_table(tmp_path / "sorted").to_pylist()
    assert found == sorted(rows, key=lambda row: row["word"], reverse=True)
    jobs.compact(tmp_path / "d")
    assert len(visible(tmp_path / "d")) == 1
    assert smalti.read_table(tmp_path / "d").to_pylist() == rows


# --- row groups that are large enough are copied ----------------------------------------------------------------------


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every batch that is decoded."""
    rows: list[int] = []
    decode = Scanner.decode

    def counted(self: Scanner, *args: Any, **named: Any) -> pa.RecordBatch:
        batch = decode(self, *args, **named)
        rows.append(batch.num_rows)
        return batch

    monkeypatch.setattr(Scanner, "decode", counted)
    return rows


def test_large_row_groups_are_copied_and_small_neighbours_become_one(
    tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SMALL_ROW_GROUP", 3000)
    tables = [
        pa.table({"id": range(2000), "b": [float(i) for i in range(2000)]}),
        pa.table({"id": range(3), "b": [0.5, 1.5, 2.5]}),
        pa.table({"id": range(5), "b": [0.5] * 5}),
        pa.table({"id": range(1000, 3000), "b": [i / 3 for i in range(2000)], "c": ["new"] * 2000}),
    ]
    mosaic_files(tmp_path / "t", tables)
    summary = jobs.compact(tmp_path / "t")
    assert decoded == [3, 5]
    assert len(summary.files) == 1
    with smalti.open(tmp_path / "t" / summary.files[0].path) as file:
        assert [file.row_group(group).num_rows for group in range(file.num_row_groups)] == [2000, 8, 2000]
        assert file.row_group(0).statistics["id"].max == 1999
    expected = pa.concat_tables(tables, promote_options="default")
    assert smalti.read_table(tmp_path / "t").equals(expected)
    assert jobs.verify(tmp_path / "t").ok


def test_columns_are_chosen_without_decoding(tmp_path: Path, decoded: list[int]) -> None:
    table = pa.table({"id": range(100), "s": [{"x": i, "y": "a"} for i in range(100)], "t": ["q"] * 100})
    smalti.write_table(table, tmp_path / "a.mosaic", row_group_max_rows=40)
    assert jobs.convert(tmp_path / "a.mosaic", tmp_path / "b.mosaic", columns=["s", "id"]).num_rows == 100
    assert decoded == []
    assert smalti.read_table(tmp_path / "b.mosaic").equals(table.select(["s", "id"]))
    jobs.convert(tmp_path / "a.mosaic", tmp_path / "c.mosaic", options=smalti.WriterOptions(num_buckets=1))
    assert decoded  # Another layout was asked for.


def test_damage_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    mosaic_files(tmp_path / "t", [pa.table({"id": range(500)})] * 2)
    path = tmp_path / "t/f1.mosaic"
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    summary = jobs.convert(tmp_path / "t", tmp_path / "out", on_error="skip")
    assert [Path(item.path).name for item in summary.skipped] == ["f1.mosaic"]
    assert summary.num_rows == 500


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that gathers many files opens some of them twice rather than have all of them open."""
    monkeypatch.setattr(copy_task, "most_open_readers", lambda _: 4)
    monkeypatch.setattr(planning, "SMALL_ROW_GROUP", 10)
    mosaic_files(tmp_path / "t", [pa.table({"id": range(number, 50)}) for number in range(30)])
    before = len(list(Path("/proc/self/fd").iterdir()))
    most = 0
    read = LocalSource.read_at

    def counted(self: LocalSource, offset: int, size: int) -> bytes:
        nonlocal most
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))
        return read(self, offset, size)

    monkeypatch.setattr(LocalSource, "read_at", counted)
    assert len(jobs.compact(tmp_path / "t").files) == 1
    assert most - before < 15
    assert smalti.read_table(tmp_path / "t").num_rows == sum(50 - number for number in range(30))


@pytest.mark.parametrize("count", [3, 9])
@pytest.mark.parametrize("options", [None, smalti.WriterOptions(num_buckets=1)])
def test_each_file_is_opened_once(
    count: int, options: smalti.WriterOptions | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the schema and for the rows; on the driver only files that have no neighbour, several at a time."""
    tables = [mixed(20, number * 20) for number in range(count)]
    mosaic_files(tmp_path / "t", tables)
    mosaic_files(tmp_path / "alone", [mixed(300)], row_group_max_rows=100)
    (tmp_path / "alone/f0.mosaic").rename(tmp_path / "alone/alone.mosaic")
    opened, original = Counter[str](), MosaicFileReader._open

    def counted(reader: MosaicFileReader, location: Location, stack: ExitStack) -> pa.Schema:
        opened[location.name] += 1
        return original(reader, location, stack)

    monkeypatch.setattr(MosaicFileReader, "_open", counted)
    jobs.compact(tmp_path / "t", options=options)
    assert opened == {f"f{number}.mosaic": 1 for number in range(count)}
    assert rows_of(tmp_path / "t").equals(pa.concat_tables(tables))
    jobs.compact(tmp_path / "alone", options=options)
    assert opened["alone.mosaic"] == (2 if options is None else 1)
