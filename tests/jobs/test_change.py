"""Changes of tables in place: what is copied and what is encoded, and bad input is refused."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.errors import LeftoverWarning
from smalti.io import locate
from smalti.jobs import change_task
from smalti.table.log import CommitLog
from smalti.table.names import JOBS
from smalti.table.records import Commit
from tests.jobs.data import hidden, visible
from tests.support.children import ROOT

# --- what is copied -------------------------------------------------------------------------------------------------


def three_files(root: Path, columns: int = 40, rows: int = 300) -> pa.Table:
    """Files of three row groups each; `id` has statistics."""
    root.mkdir()
    tables = []
    for number in range(3):
        choose = random.Random(number)
        data: dict[str, Any] = {"id": range(number * rows, number * rows + rows)}
        data |= {f"c{i:02d}": [choose.random() for _ in range(rows)] for i in range(columns)}
        tables.append(
            pa.table(data | {"user": [None if i % 10 == 0 else f"u{number * rows + i}" for i in range(rows)]})
        )
        options: dict[str, Any] = {"row_group_max_rows": 100, "stats_columns": ["id"], "page_size_threshold": 0}
        smalti.write_table(tables[-1], root / f"f{number}.mosaic", **options)
    return pa.concat_tables(tables)


def size_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.mosaic"))


def test_a_change_costs_what_changes(tmp_path: Path) -> None:
    """Statistics decide without reading, files without a match keep their names, and only new values are encoded."""
    root = tmp_path / "t"
    whole = three_files(root)
    size, group = size_of(root), size_of(root) / 9
    dry = jobs.delete(root, "id = 450", dry_run=True)
    before = {path: path.read_bytes() for path in root.rglob("*.mosaic")}
    assert dry.dry_run
    report = jobs.delete(root, "id = 450")
    assert (report.rows, report.files, report.row_groups, report.total_files) == (1, 1, 1, 3)
    assert (dry.rows, dry.files, dry.row_groups) == (1, 1, 1)
    assert report.bytes_encoded < 1.05 * group
    assert report.bytes_copied < 2.05 * group
    assert sum(path.exists() for path in before) == 2
    report = jobs.update(root, {"c00": 0.5}, "id = 17")
    assert (report.files, report.row_groups) == (1, 1)
    assert report.bytes_encoded < 0.05 * group
    report = jobs.add_columns(root, lambda batch: {"n": batch["id"]}, columns=["id"])
    assert report.bytes_encoded < 0.02 * size
    assert report.bytes_copied > 0.9 * size
    report = jobs.merge(root, pa.table({"id": [3, 900], "c01": [7.0, 8.0]}), on="id")
    assert (report.rows_updated, report.rows_inserted, report.files) == (1, 1, 2)
    found = smalti.dataset(root).to_table().sort_by("id")
    assert found.num_rows == whole.num_rows
    assert found["id"].to_pylist() == [number for number in range(901) if number != 450]


def test_deleted_values_are_gone_from_the_bytes(tmp_path: Path) -> None:
    """Also from dictionaries in the companion, and when rows in the same row group stay."""
    file, secret = tmp_path / "t.mosaic", "a very personal text"
    texts = pa.array(["x", secret, "y", "z"] * 5).dictionary_encode()
    table = pa.table({"id": range(20), "text": texts, "plain": texts.cast(pa.string())})
    smalti.write_table(table, file, compression="none", row_group_max_rows=7)
    assert secret.encode() in file.read_bytes()
    assert jobs.delete(file, [("plain", "=", secret)]).rows == 5
    assert secret.encode() not in file.read_bytes()
    assert smalti.read_table(file)["id"].to_pylist() == [i for i in range(20) if i % 4 != 1]


def test_all_rows_deleted(tmp_path: Path) -> None:
    root = tmp_path / "t"
    whole = three_files(root, 2)
    assert jobs.delete(root, "id >= 0").rows == whole.num_rows
    assert len(visible(root)) == 1
    found = smalti.dataset(root).to_table()
    assert (found.num_rows, found.schema) == (0, whole.schema)
    assert jobs.delete(root, "id >= 0").rows == 0
    jobs.merge(root, whole.slice(0, 5), on="id")
    assert smalti.dataset(root).to_table().equals(whole.slice(0, 5))


def test_rows_stay_where_they_are(tmp_path: Path) -> None:
    """The files of one writer differ by a number at the end of their names, which a change keeps."""
    ids = list(range(60))
    smalti.write_dataset(pa.table({"id": ids}), tmp_path / "t", max_file_rows=10)
    for gone in (3, 55, 31, 12, 47, 22, 33):
        ids.remove(gone)
        jobs.delete(tmp_path / "t", f"id = {gone}")
        assert smalti.read_table(tmp_path / "t")["id"].to_pylist() == ids
    jobs.add_columns(tmp_path / "t", pa.table({"same": ids}))
    table = smalti.read_table(tmp_path / "t")
    assert table["id"].to_pylist() == table["same"].to_pylist() == ids
    assert max(len(Path(path).name) for path in smalti.dataset(tmp_path / "t").files) < 80


# --- bad input ------------------------------------------------------------------------------------------------------

KEYS = pa.table({"id": [1, 2], "new": ["a", "b"]})
BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a key column that is missing": (
        lambda path: jobs.add_columns(path, pa.table({"idd": [1], "x": [2]}), on="id"),
        "no column 'id' in the data, to join by; did you mean 'idd'",
    ),
    "a key that the table lacks": (
        lambda path: jobs.merge(path, pa.table({"key": [1], "c00": [2.0]}), on="key"),
        "no column 'key' in the table, to join by",
    ),
    "the same key twice": (
        lambda path: jobs.add_columns(path, pa.table({"id": [1, 2, 1], "x": [1, 2, 3]}), on="id"),
        "several rows with the same key, so it is not clear which of them to take: found {'id': 1}",
    ),
    "keys of another type": (
        lambda path: jobs.merge(path, pa.table({"id": ["one"], "c00": [2.0]}), on="id"),
        "do not fit the type of the table's column",
    ),
    "values of another type": (
        lambda path: jobs.merge(path, pa.table({"id": [1], "c00": ["two"]}), on="id"),
        "column 'c00'",
    ),
    "columns that the table lacks": (
        lambda path: jobs.merge(path, KEYS, on="id"),
        "no column 'new' in the table; add_columns adds new ones",
    ),
    "too few rows": (
        lambda path: jobs.add_columns(path, pa.table({"x": range(899)})),
        "found 899 rows, expected 900 rows",
    ),
    "too many rows": (
        lambda path: jobs.add_columns(path, pa.table({"x": range(901)})),
        "found 901 rows, expected 900 rows",
    ),
    "a column that exists": (
        lambda path: jobs.add_columns(path, pa.table({"c00": range(900)})),
        "has a column of this name; replace=True",
    ),
    "a column to replace that is not there": (
        lambda path: jobs.replace_columns(path, pa.table({"c99": range(900)})),
        "no column 'c99' to replace",
    ),
    "the last column": (lambda path: jobs.drop_columns(path, "*"), "all of them would go"),
    "a column to drop that is not there": (lambda path: jobs.drop_columns(path, "c1"), "no column 'c1'"),
    "a name that is taken": (lambda path: jobs.rename_columns(path, {"c00": "c01"}), "same name"),
    "a name for two": (lambda path: jobs.rename_columns(path, {"c00": "x", "c01": "x"}), "same name"),
    "a condition on no column": (lambda path: jobs.delete(path, "nobody = 3"), "no column 'nobody'"),
    "no condition": (lambda path: jobs.delete(path, None), "delete needs a condition"),
    "a value of another type": (lambda path: jobs.update(path, {"id": "text"}), "does not fit the type"),
    "a value that is too large": (lambda path: jobs.update(path, {"id": 1 << 70}), "does not fit the type"),
    "an expression of another type": (lambda path: jobs.update(path, {"id": pc.field("user")}), "column 'id'"),
    "an expression of no column": (
        lambda path: jobs.update(path, {"id": pc.field("nobody") + 1}),
        "no column 'nobody' in the expression for 'id'",
    ),
    "a function with other columns": (
        lambda path: jobs.add_columns(path, lambda batch: {f"x{batch['id'][0].as_py() % 7}": batch["id"]}),
        "other columns than for the first rows",
    ),
    "a function with other rows": (
        lambda path: jobs.add_columns(path, lambda batch: {"x": batch["id"].slice(1)}),
        "another number of rows than it was given",
    ),
    "a function with an array": (
        lambda path: jobs.add_columns(path, lambda batch: batch["id"]),
        "no table: found <class 'pyarrow.lib.Int64Array'>, expected a batch, or a dict of names and arrays",
    ),
    "a new name that is no mapping": (lambda path: jobs.rename_columns(path, "c00"), "expected {old name: new name}"),
    "an unknown word": (lambda path: jobs.merge(path, KEYS, "id", "replace"), "unknown when_matched"),
    "an engine that is not there": (lambda path: jobs.drop_columns(path, "c00", engine="dask"), "unknown engine"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "t"
    three_files(root, 3)
    return root


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str, sound: Path) -> None:
    act, message = BAD[case]
    before = {path: path.read_bytes() for path in sound.rglob("*") if path.is_file()}
    with pytest.raises(smalti.MosaicError) as raised:
        act(sound)
    assert message in str(raised.value)
    assert {path: path.read_bytes() for path in sound.rglob("*") if path.is_file()} == before


def test_partition_columns(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"t/day={day}").mkdir(parents=True)
        smalti.write_table(pa.table({"id": [day, day + 10]}), tmp_path / f"t/day={day}/f.mosaic")
    table = tmp_path / "t"
    for act in (
        lambda: jobs.update(table, {"day": 3}),
        lambda: jobs.drop_columns(table, "day"),
        lambda: jobs.rename_columns(table, {"day": "date"}),
        lambda: jobs.rename_columns(table, {"id": "day"}),
        lambda: jobs.add_columns(table, pa.table({"day": [1, 2, 3, 4]}), replace=True),
    ):
        with pytest.raises(smalti.MosaicError, match="partition column"):
            act()
    with pytest.raises(smalti.MosaicError, match="lacks a column that the table is partitioned by"):
        jobs.merge(table, pa.table({"id": [77]}), on="id")
    # They can be keys and conditions, and decide without a look into files.
    report = jobs.merge(table, pa.table({"id": [1, 2, 77], "day": [1, 1, 3]}), on=["id", "day"])
    assert (report.rows_updated, report.rows_inserted) == (0, 2)
    assert jobs.delete(table, "day = 2").files == 1
    found = smalti.dataset(table).to_table().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 11, 77], "day": [1, 1, 1, 3]}


def test_null_keys_match_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"k": [1, None], "j": ["a", "b"], "x": [1.0, 2.0]}), file)
    data = pa.table({"k": [None, None, 1], "j": ["b", "b", None], "x": [7.0, 8.0, 9.0]})
    report = jobs.merge(file, data, ["k", "j"], when_not_matched="ignore")
    assert (report.rows, report.null_keys) == (0, 3)
    assert jobs.merge(file, data, ["k", "j"]).rows_inserted == 3
    report = jobs.add_columns(file, pa.table({"k": [1, None], "y": [5, 6]}), on="k")
    assert smalti.read_table(file)["y"].to_pylist() == [5, None, None, None, 5]


def test_files_that_differ(tmp_path: Path) -> None:
    """Files lack a column, or have it in another type: the table's type counts, and values of other rows stay."""
    table = tmp_path / "t"
    table.mkdir()
    smalti.write_table(pa.table({"id": [1, 2], "x": pa.array([1, 2], pa.int32())}), table / "a.mosaic")
    smalti.write_table(pa.table({"id": [3, 4], "x": pa.array([3, 4], pa.int64())}), table / "b.mosaic")
    smalti.write_table(pa.table({"id": [5, 6]}), table / "c.mosaic")
    jobs.update(table, {"x": 1 << 40}, "id in (1, 5)")
    jobs.merge(table, pa.table({"id": [4], "x": [44]}), on="id")
    assert smalti.dataset(table).to_table(["x"])["x"].to_pylist() == [1 << 40, 2, 3, 44, 1 << 40, None]
    jobs.rename_columns(table, {"x": "y"})
    assert jobs.drop_columns(table, "y").files == 3


def test_pandas_finds_its_index(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [9, 2, 5], "b": [3, 4, 7], "c": [5, 6, 8]}).set_index("a")
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.Table.from_pandas(frame), file)
    jobs.rename_columns(file, {"a": "key", "b": "d"})
    jobs.drop_columns(file, "c")
    found = smalti.read_table(file).to_pandas()
    assert (found.index.name, list(found.columns), list(found.index)) == ("key", ["d"], [9, 2, 5])
    jobs.rename_columns(file, {"d": "e"})
    jobs.drop_columns(file, "key")
    assert list(smalti.read_table(file).to_pandas().columns) == ["e"]


def test_a_paimon_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t/schema").mkdir(parents=True)
    (tmp_path / "t/snapshot").mkdir()
    (tmp_path / "t/schema/schema-0").write_text('{"fields": [1], "options": {}}')
    (tmp_path / "t/bucket-0").mkdir()
    smalti.write_table(pa.table({"a": [1]}), tmp_path / "t/bucket-0/data.mosaic")
    for place in (tmp_path / "t", tmp_path / "t/bucket-0/data.mosaic"):
        with pytest.raises(smalti.errors.PaimonTableError, match="ALTER TABLE for columns"):
            jobs.drop_columns(place, "a")


# --- interruptions --------------------------------------------------------------------------------------------------


def test_resumed_where_the_data_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were finished are kept; a second run with the same data goes on with the others."""
    root, data = tmp_path / "t", tmp_path / "new.parquet"
    three_files(root, 3)
    pq.write_table(pa.table({"id": range(900), "x": range(900)}), data)
    real, calls = change_task.rewrite_file, []

    def failing(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return real(*arguments, **named)

    monkeypatch.setattr(change_task, "rewrite_file", failing)
    with pytest.raises(OSError, match="nothing was changed, and what is finished stays in"):
        jobs.add_columns(root, data, on="id", workers=1)
    assert "x" not in smalti.dataset(root).schema.names
    report = jobs.add_columns(root, data, on="id", workers=1)
    assert (report.resumed_files, len(calls)) == (2, 4)
    assert smalti.dataset(root).to_table(["x"])["x"].to_pylist() == list(range(900))
    assert hidden(tmp_path) == []


def test_a_table_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append is changed too; a file that was replaced is a conflict; rows side by side allow neither."""
    root = tmp_path / "t"
    three_files(root, 3)
    real = change_task.rewrite_file
    meanwhile: list[Callable[[], object]] = []

    def busy(*arguments: Any, **named: Any) -> Any:
        if meanwhile:
            meanwhile.pop()()
        return real(*arguments, **named)

    def append() -> None:
        smalti.write_table(pa.table({"id": [5000], "c00": [1.0], "user": ["new"]}), root / "g.mosaic")

    monkeypatch.setattr(change_task, "rewrite_file", busy)
    meanwhile.append(append)
    jobs.drop_columns(root, "c00")
    found = smalti.dataset(root)
    assert ("c00" in found.schema.names, found.num_rows) == (False, 901)
    meanwhile.append(lambda: jobs.delete(root, "id = 3"))
    with pytest.raises(smalti.ConflictError):
        jobs.rename_columns(root, {"c01": "x"})
    assert "c01" in smalti.dataset(root).schema.names
    meanwhile.append(lambda: smalti.write_table(pa.table({"id": [6000]}), root / "h.mosaic"))
    with pytest.raises(smalti.ConflictError, match="added files"):
        jobs.add_columns(root, pa.table({"x": range(900)}))
    # A merge sees the keys of an append that comes first.
    meanwhile.append(lambda: smalti.write_table(pa.table({"id": [7000], "c01": [0.0]}), root / "i.mosaic"))
    report = jobs.merge(root, pa.table({"id": [1, 7000], "c01": [1.5, 2.5]}), on="id")
    assert (report.rows_updated, report.rows_inserted) == (2, 0)
    assert smalti.dataset(root).to_table(["c01"], filters=[("id", "=", 7000)])["c01"].to_pylist() == [2.5]


def test_an_append_does_not_bring_old_columns_back(tmp_path: Path) -> None:
    """An append that begins before columns are dropped, renamed or retyped, and ends after that, is a conflict."""
    root, schema = tmp_path / "t", pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    rows = pa.RecordBatch.from_pylist([{"id": 1, "a": 2, "b": 3}], schema)

    def append(meanwhile: Callable[[], object]) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            yield rows
            meanwhile()
            yield rows

        smalti.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), root, mode="append")

    append(lambda: None)
    changes: list[Callable[[], object]] = [
        lambda: jobs.drop_columns(root, "a"),
        lambda: jobs.rename_columns(root, {"b": "c"}),
        lambda: jobs.replace_columns(root, lambda batch: {"c": batch["c"].cast(pa.string())}, columns=["c"]),
    ]
    for change in changes:
        with pytest.raises(smalti.ConflictError, match="removed, renamed or given another type"):
            append(change)
    assert smalti.dataset(root).to_table().to_pydict() == {"id": [1, 1], "c": ["3", "3"]}
    # Other changes and appends do not mind each other.
    jobs.rename_columns(root, {"c": "b"})
    rows = pa.RecordBatch.from_pylist([{"id": 5, "b": "x"}])
    schema = rows.schema
    append(lambda: jobs.delete(root, "id = 1"))
    assert smalti.dataset(root).to_table().to_pydict() == {"id": [5, 5], "b": ["x", "x"]}


def test_a_private_file_stays_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not read the file may not read what is staged for it either, and links stay links."""
    file, link = tmp_path / "t.mosaic", tmp_path / "link.mosaic"
    smalti.write_table(pa.table({"a": [1, 2], "b": [3, 4]}), file)
    file.chmod(0o600)
    link.symlink_to(file)
    real, modes = change_task.rewrite_file, []

    def look(where: str, *arguments: Any, **named: Any) -> Any:
        modes.append(Path(where).parents[1].stat().st_mode & 0o777)
        return real(where, *arguments, **named)

    monkeypatch.setattr(change_task, "rewrite_file", look)
    jobs.drop_columns(link, "b")
    assert (modes, file.stat().st_mode & 0o777, link.is_symlink()) == ([0o700], 0o600, True)
    assert smalti.open(file).column_names == ["a"]
    assert hidden(tmp_path) == []


def put(path: Path, columns: dict[str, list[int]], mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    smalti.write_table(pa.table(columns), path)
    path.chmod(mode)


PRIVATE_CHANGES: dict[str, Callable[[Path], object]] = {
    "delete": lambda root: jobs.delete(root, "a = 1"),
    "delete everything": lambda root: jobs.delete(root, "a >= 0"),
    "drop columns": lambda root: jobs.drop_columns(root, "b"),
    "insert": lambda root: jobs.merge(root, pa.table({"a": [9], "b": [9]}), on="a"),
    "merge": lambda root: jobs.merge(root, pa.table({"a": [1, 9], "b": [8, 9]}), on="a"),
    "compact": lambda root: jobs.compact(root),
}


@pytest.mark.parametrize("name", PRIVATE_CHANGES)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_files_of_a_private_table_stay_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: int
) -> None:
    """New files have the mode of the files whose rows they hold, and are staged where only their readers can look."""
    for number in range(3):
        put(tmp_path / f"t/{number}.mosaic", {"a": [number, 1 if number else 0], "b": [3, 4]}, mode)
    staged, real = [], CommitLog.publish

    def look(log: CommitLog, commit: Commit) -> bool:
        (job,) = commit.jobs
        staged.append((tmp_path / "t" / JOBS / job).stat().st_mode & 0o777)
        return real(log, commit)

    monkeypatch.setattr(CommitLog, "publish", look)
    PRIVATE_CHANGES[name](tmp_path / "t")
    files = [tmp_path / "t" / path for path in visible(tmp_path / "t")]
    assert {path.stat().st_mode & 0o777 for path in files} == {mode}
    assert staged == [{0o600: 0o700, 0o640: 0o750, 0o664: 0o755}[mode]]


def test_a_file_of_several_has_the_rights_that_all_of_them_grant(tmp_path: Path) -> None:
    modes = {"p=1": [0o600, 0o644], "p=2": [0o664, 0o646], "p=3": [0o640, 0o640]}
    for partition, each in modes.items():
        for number, mode in enumerate(each):
            put(tmp_path / f"t/{partition}/{number}.mosaic", {"a": [number]}, mode)
    jobs.compact(tmp_path / "t")
    found = {path.split("/")[0]: (tmp_path / "t" / path).stat().st_mode & 0o777 for path in visible(tmp_path / "t")}
    assert found == {"p=1": 0o600, "p=2": 0o644, "p=3": 0o640}


def test_a_link_to_a_file_is_not_changed(tmp_path: Path) -> None:
    """The file that it leads to is not part of the table, and would keep the deleted rows."""
    put(tmp_path / "elsewhere/1.mosaic", {"a": [1, 2]})
    put(tmp_path / "t/2.mosaic", {"a": [3, 4]})
    (tmp_path / "t/1.mosaic").symlink_to(tmp_path / "elsewhere/1.mosaic")
    for dry_run in (True, False):
        with pytest.raises(smalti.MosaicError, match=r"1\.mosaic: .*symbolic link.*elsewhere/1\.mosaic"):
            jobs.delete(tmp_path / "t", "a = 1", dry_run=dry_run)
    assert jobs.delete(tmp_path / "t", "a = 3").rows == 1  # The linked file does not change.
    assert smalti.dataset(str(tmp_path / "t")).to_table()["a"].to_pylist() == [1, 2, 4]


def test_a_partition_without_rows_leaves_no_directory(tmp_path: Path) -> None:
    for user in ("u1", "u2"):
        put(tmp_path / f"t/user={user}/day=1/x.mosaic", {"a": [1]})
    (tmp_path / "t/user=u2/note.txt").touch()
    jobs.delete(tmp_path / "t", "user = 'u1'")
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [JOBS, "user=u2"]
    jobs.delete(tmp_path / "t", "user = 'u2' and day = 1")
    assert smalti.dataset(str(tmp_path / "t")).schema.types == [pa.int64(), pa.string(), pa.int64()]
    assert jobs.delete(tmp_path / "t", "user = 'u2' and day = 1").rows == 0
    assert [path.name for path in (tmp_path / "t/user=u2").iterdir()] == ["note.txt"]


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"a": [1, 2], "b": [3, 4]}), file)
    real = change_task.rewrite_file

    def busy(*arguments: Any, **named: Any) -> Any:
        summary = real(*arguments, **named)
        smalti.write_table(pa.table({"a": [7, 8, 9], "b": [3, 4, 5]}), file)
        return summary

    monkeypatch.setattr(change_task, "rewrite_file", busy)
    with pytest.raises(smalti.ConflictError, match="replaced while it was changed"):
        jobs.drop_columns(file, "b")
    assert smalti.read_table(file)["a"].to_pylist() == [7, 8, 9]


CRASHING = """
import sys, os, signal
import pyarrow.compute as pc
from smalti import jobs
from smalti.table.log import CommitLog
step, table, run_id = sys.argv[1:]
real = getattr(CommitLog, step)
def crash(self, *arguments):
    if step == "carry_out" or step == "publish":
        os.kill(os.getpid(), signal.SIGKILL)
    found = real(self, *arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(CommitLog, step, crash)
jobs.update(table, {"id": pc.add(pc.field("id"), 1000)}, "id < 100 or id >= 1000", workers=1, run_id=run_id or None)
"""


def add_1000(table: Path, **named: Any) -> jobs.ChangeReport:
    return jobs.update(table, {"id": pc.add(pc.field("id"), 1000)}, "id < 100 or id >= 1000", **named)


@pytest.mark.parametrize(
    ("step", "is_done", "run_id"), [("publish", False, ""), ("carry_out", True, "2026-11-19"), ("_add", True, "")]
)
def test_killed(step: str, is_done: bool, run_id: str, tmp_path: Path) -> None:
    """Before the record nothing has happened; after it everything has. Only a name tells that it is the same run."""
    root = tmp_path / "t"
    three_files(root, 3)
    command = [sys.executable, "-c", CRASHING, step, str(root), run_id]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL

    def greatest() -> int:
        return pc.max(smalti.dataset(root).to_table(["id"])["id"]).as_py()

    assert greatest() == (1099 if is_done else 899)
    report = add_1000(root, run_id=run_id or None)
    assert (report.rows, greatest()) == (100, 2099 if is_done and not run_id else 1099)
    assert hidden(tmp_path) == []


def test_a_commit_of_another_that_is_pending_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds it carries it out, and then does the work that it was asked for."""
    root = tmp_path / "t"
    three_files(root, 1)
    monkeypatch.setattr("smalti.table.log.PATIENCE", 0)

    def leave_pending(job: Callable[[], object]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(CommitLog, "_add", refused)
            with pytest.warns(LeftoverWarning):
                job()

    def refused(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    for resume in (True, False):
        leave_pending(lambda: add_1000(root))
        pending = smalti.dataset(root).to_table(["id"])["id"].to_pylist()
        report = add_1000(root, dry_run=True)
        assert (report.rows, report.dry_run, len(CommitLog(locate(root)).state().pending)) == (100, True, 1)
        with pytest.raises(smalti.SchemaError):
            jobs.drop_columns(root, "nope", dry_run=True)
        assert len(CommitLog(locate(root)).state().pending) == 1, "a dry run changes nothing"
        assert add_1000(root, resume=resume).rows == 100
        expected = [number + 1000 if number >= 1000 else number for number in pending]
        assert smalti.dataset(root).to_table(["id"])["id"].to_pylist() == expected
    leave_pending(lambda: jobs.compact(root, sort_by="id"))
    assert jobs.compact(root, sort_by="id").source_files == 1


def test_a_named_run_is_committed_once(tmp_path: Path) -> None:
    root, nothing = tmp_path / "t", pa.table({"id": [7000], "c00": [1.0]})
    three_files(root, 1)
    report = add_1000(root, run_id="1")
    jobs.compact(root)
    jobs.update(root, {"c00": 0.5}, "id = 1000", run_id="2")
    state = CommitLog(locate(root)).state()
    assert add_1000(root, run_id="1") == report
    assert CommitLog(locate(root)).state() == state
    assert add_1000(root, run_id="1", dry_run=True).dry_run
    with pytest.raises(smalti.MosaicError, match=r"asked for something else.*found run_id='1' of update"):
        jobs.update(root, {"c00": 0.5}, run_id="1")
    with pytest.raises(smalti.MosaicError, match="asked for something else"):
        jobs.drop_columns(root, "c00", run_id="1")
    for run_id in ("", "x" * 201, 5):
        with pytest.raises(
            smalti.MosaicError, match=r"run_id is not a name for a run.*expected text of at most 200 characters"
        ):
            add_1000(root, run_id=run_id)
    # Data in memory has no digest, and a run that finds nothing to do counts as well.
    assert jobs.merge(root, nothing, on="id", when_not_matched="ignore", run_id="3").rows == 0
    smalti.write_dataset(nothing, root, mode="append")
    assert jobs.merge(root, pa.table({"id": [7000], "c00": [2.0]}), on="id", run_id="3").rows == 0
    assert jobs.merge(root, pa.table({"id": [7000], "c00": [2.0]}), on="id", run_id="4").rows == 1


def test_two_runs_of_one_name_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They touch different files, so only the name tells that one of them has to give way."""
    root, new = tmp_path / "t", pa.table({"id": [7000], "c00": [1.0]})
    three_files(root, 1)
    publish, others = CommitLog.publish, [lambda: jobs.merge(root, new.slice(0, 0), on="id", run_id="1")]

    def later(log: CommitLog, commit: Any) -> bool:
        while others:
            others.pop()()
        return publish(log, commit)

    monkeypatch.setattr(CommitLog, "publish", later)
    with pytest.raises(smalti.ConflictError, match="another process has committed this run meanwhile"):
        jobs.merge(root, new, on="id", run_id="1")
    assert smalti.dataset(root).num_rows == 900
    assert jobs.merge(root, new, on="id", run_id="1").rows == 0


def test_files_with_other_columns_that_are_added_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a verb has checked holds for every file that it changes, or it changes nothing."""
    real, meanwhile = change_task.rewrite_file, list[Callable[[], object]]()

    def busy(*arguments: Any, **named: Any) -> Any:
        while meanwhile:
            meanwhile.pop()()
        return real(*arguments, **named)

    monkeypatch.setattr(change_task, "rewrite_file", busy)
    acts: dict[str, tuple[Callable[[Path], object], dict[str, Any]]] = {
        "rename": (lambda root: jobs.rename_columns(root, {"a": "b"}), {"id": [9], "a": [8], "b": [7]}),
        "join": (lambda root: jobs.add_columns(root, pa.table({"id": [1], "b": [5]}), "id"), {"id": [9], "b": [7]}),
        "function": (lambda root: jobs.add_columns(root, lambda rows: {"b": rows["a"]}), {"id": [9], "b": [7]}),
        "drop": (lambda root: jobs.drop_columns(root, "a*"), {"id": [9], "a": [8], "ab": [7]}),
        "update": (lambda root: jobs.update(root, {"a": 5}), {"id": [9], "a": [1.5]}),
        "delete": (lambda root: jobs.delete(root, "a = 3"), {"id": [9], "a": ["3"]}),
    }
    for name, (act, added) in acts.items():
        root = tmp_path / name
        smalti.write_dataset(pa.table({"id": [1, 2], "a": [3, 4]}), root)
        before = smalti.dataset(root).to_table().to_pylist()
        meanwhile.append(lambda root=root, added=added: smalti.write_table(pa.table(added), root / "z.mosaic"))
        with pytest.raises(smalti.ConflictError, match=r"added files with other columns or types.*nothing was changed"):
            act(root)
        assert smalti.read_table(root / "z.mosaic").to_pydict() == added
        (root / "z.mosaic").unlink()
        assert smalti.dataset(root).to_table().to_pylist() == before


def test_what_a_single_file_has_no_place_for(tmp_path: Path) -> None:
    file = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"id": [1]}), file)
    for more in ({"keep": 24}, {"run_id": "1"}):
        with pytest.raises(smalti.MosaicError, match=rf"{next(iter(more))} is for tables, and a single file"):
            add_1000(file, **more)
    with pytest.raises(smalti.MosaicError, match="keep is for tables, and a single file"):
        jobs.convert(file, tmp_path / "other.mosaic", keep=1.0)
    assert hidden(tmp_path) == []


def test_refused_data_leaves_nothing(tmp_path: Path) -> None:
    root, file, twice = tmp_path / "t", tmp_path / "f.mosaic", tmp_path / "twice.parquet"
    three_files(root, 1)
    smalti.write_table(pa.table({"id": [1]}), file)
    file.chmod(0o600)
    pq.write_table(pa.table({"id": [1, 1], "x": [2, 3]}), twice)
    for table in (root, file):
        with pytest.raises(smalti.MosaicError, match="same key"):
            jobs.add_columns(table, twice, on="id")
        with pytest.raises(smalti.MosaicError):
            jobs.drop_columns(table, "nope")
    with pytest.raises(smalti.MosaicError):
        jobs.convert(twice, file, where="nope = 1", overwrite=True)
    assert not list(tmp_path.rglob("_mosaic_jobs"))


def test_a_commit_that_cannot_be_carried_out_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is there, so the change has happened; the files that it names must not be tidied away."""
    root = tmp_path / "t"
    three_files(root, 3)

    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "_add", fail)
        with pytest.warns(LeftoverWarning, match="the commit has happened"):
            jobs.add_columns(root, lambda batch: {"x": batch["id"]}, columns=["id"])
    assert smalti.dataset(root).to_table(["x"])["x"].to_pylist() == list(range(900))
    jobs.recover(root)
    assert smalti.dataset(root).to_table(["x"])["x"].to_pylist() == list(range(900))
    assert hidden(tmp_path) == []
