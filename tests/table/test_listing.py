"""What readers find while a commit is carried out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

import smalti
from smalti import jobs
from smalti.errors import MosaicError, ReplacedError
from smalti.io import Location, Source, locate
from smalti.table.listing import FoundFile, list_table
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, staging_directory
from tests.support.commits import NEW, OLD, STAGED_FILES, commit, partitioned, planned, table_in


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("t", [(3, 3), (10, 1), (20, 2), (40, 4)]),
        ("t/day=*", [(3, 3), (10, 1), (20, 2), (40, 4)]),
        ("t/day=[13]/*.mosaic", [(3, 3), (10, 1)]),
        ("t/*/new.mosaic", [(10, 1), (20, 2), (40, 4)]),
        ("t/day=1", [(10, None)]),
        ("t/day=4", [(40, None)]),  # a directory that is not there yet
        ("*", [(3, 3), (10, 1), (20, 2), (40, 4)]),
    ],
)
def test_parts_of_a_table(tmp_path: Path, path: str, expected: list[tuple[int, int | None]]) -> None:
    log = partitioned(tmp_path / "t")

    def rows() -> list[tuple[int, int | None]]:
        found = smalti.dataset(f"{tmp_path}/{path}").to_table().to_pylist()
        return sorted((row["x"], row.get("day")) for row in found)

    before = smalti.dataset(f"{tmp_path}/{path}")
    assert rows() == expected
    log.finish_pending()
    assert rows() == expected
    # What was found before its files were moved finds them still.
    assert sorted(before.to_table()["x"].to_pylist()) == [x for x, _ in expected]


def test_what_a_commit_replaces_by_name_is_not_seen(tmp_path: Path) -> None:
    for name in ("a", "b"):
        smalti.write_table(pa.table({"x": [0]}), tmp_path / f"{name}.mosaic")
    log = CommitLog(Location(LocalFileSystem(), str(tmp_path)))
    staged = [f"{staging_directory('job', '0')}/{name}.mosaic" for name in ("a", "b")]
    (tmp_path / staged[0]).parent.mkdir(parents=True)
    for path in staged:
        smalti.write_table(pa.table({"x": [1]}), tmp_path / path)
    made = planned("job", staged, [], "append")
    log.publish(made)
    log._add(made, made.add[0])
    assert smalti.dataset(tmp_path).to_table()["x"].to_pylist() == [1, 1]


def test_other_paths_to_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = partitioned(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t/day=1")
    monkeypatch.chdir(tmp_path / "t/day=1")
    for path in (".", "../day=1", "new.mosaic", tmp_path / "link", tmp_path / "t/day=1/new.mosaic"):
        assert smalti.dataset(path).to_table()["x"].to_pylist() == [10], path
    log.finish_pending()
    for path in (".", "../day=1", "new.mosaic", tmp_path / "link"):
        assert smalti.dataset(path).to_table()["x"].to_pylist() == [10], path


def test_a_file_that_was_replaced_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """Old rows of one file and new rows of another would be a table that never was."""
    for name in ("a", "b"):
        smalti.write_table(pa.table({"x": [1, 2]}), tmp_path / f"{name}.mosaic")
    begun, ds = smalti.dataset(tmp_path).to_batches(), smalti.dataset(tmp_path, schema=pa.schema([("x", pa.int64())]))
    batches = ds.to_batches()  # Its schema is given, so that a file is opened when its turn comes.
    assert [next(begun)["x"].to_pylist(), next(batches)["x"].to_pylist()] == [[1, 2], [1, 2]]
    smalti.write_table(pa.table({"x": [3, 4]}), tmp_path / "b.mosaic")  # of the same size
    assert [batch["x"].to_pylist() for batch in begun] == [[1, 2]]  # The old file is still open.
    with pytest.raises(MosaicError, match=r"b\.mosaic: the file was replaced after the table was listed"):
        list(batches)


def test_a_reader_starts_over_when_files_have_gone(tmp_path: Path) -> None:
    """A dataset that was opened before an overwrite lists the table again, and has all of the new rows."""
    log = table_in(tmp_path)
    reads = ("to_table", "to_batches", "count_rows", "filtered", "schema", "begun")
    opened = {name: smalti.dataset(tmp_path) for name in reads}
    begun = opened["begun"].to_batches(batch_size=1)
    assert next(begun)["x"].to_pylist() == OLD[:1]
    commit(log, planned("job", STAGED_FILES, ["old.mosaic"], "overwrite"))
    assert opened["to_table"].to_table()["x"].to_pylist() == NEW
    assert [value for batch in opened["to_batches"].to_batches() for value in batch["x"].to_pylist()] == NEW
    assert opened["count_rows"].count_rows() == 2
    assert opened["filtered"].count_rows([("x", ">", 10)]) == 1
    assert opened["schema"].schema == pa.schema([("x", pa.int64())])
    # What was begun is read to its end: the file that is open is there until it is closed.
    assert [value for batch in begun for value in batch["x"].to_pylist()] == OLD[1:]


def test_a_reader_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_in(tmp_path)
    found = smalti.dataset(tmp_path)
    tries = []

    def replaced(file: FoundFile, _: FileSystem) -> Source:
        tries.append(file.path)
        raise ReplacedError("the file was replaced", path=file.path)

    monkeypatch.setattr("smalti.table.snapshot.open_found", replaced)
    for patience in (0.0, 0.5):
        monkeypatch.setattr("smalti.table.listing._READ_PATIENCE", patience)
        tries.clear()
        begun = time.monotonic()
        with pytest.raises(ReplacedError):
            found.count_rows()
        assert time.monotonic() - begun >= patience
        assert len(tries) >= 10


def test_what_is_missing_is_not_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo beside a million files costs a look or two, and fails as a typo."""
    entries, listed = Location.entries, []

    def counted_entries(location: Location, *, recursive: bool = False) -> Sequence[object]:
        listed.append(location.path)
        return entries(location, recursive=recursive)

    monkeypatch.setattr(Location, "entries", counted_entries)
    with pytest.raises(FileNotFoundError):
        smalti.dataset(tmp_path / "nope")
    assert listed == [f"{tmp_path}/{JOBS}"]  # only the commits of the directory above are looked at


@pytest.mark.parametrize("scheme", ["memory", "file", "subtree"])
def test_file_systems_that_list_by_another_spelling(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fs = SubTreeFileSystem(str(tmp_path), LocalFileSystem()) if scheme == "subtree" else fsspec.filesystem(scheme)
    spelled = ("/one", "one/") if scheme != "file" else ("./one", f"{tmp_path}//one")
    for number, path in enumerate(spelled):
        fs.create_dir(path) if scheme == "subtree" else fs.makedirs(path, exist_ok=True)
        smalti.write_table(pa.table({"x": [number]}), f"{path.rstrip('/')}/{number}.mosaic", filesystem=fs)
    for path in ("one", *spelled):
        assert sorted(smalti.dataset(path, filesystem=fs).to_table()["x"].to_pylist()) == [0, 1], path
    jobs.convert(spelled[0], spelled[0].replace("one", "two"), filesystem=fs)
    with pytest.raises(FileExistsError):
        jobs.convert(spelled[0], spelled[1].replace("one", "two"), filesystem=fs)
    jobs.convert(spelled[0], spelled[1].replace("one", "two"), filesystem=fs, overwrite=True)
    assert smalti.dataset("two", filesystem=fs).count_rows() == 2


def test_a_committed_file_that_is_gone(tmp_path: Path) -> None:
    partitioned(tmp_path / "t")
    (tmp_path / "t" / staging_directory("job", "0") / "day=4/new.mosaic").unlink()
    with pytest.raises(MosaicError, match=r"day=4/new\.mosaic: a committed file has gone"):
        smalti.dataset(tmp_path / "t")


def test_a_table_within_a_table(tmp_path: Path) -> None:
    """Who overwrites the outer one must know the files of the inner one by the names they will have."""
    partitioned(tmp_path / "lake/sales")
    smalti.write_table(pa.table({"x": [1]}), tmp_path / "lake/other.mosaic")
    found = list_table(locate(tmp_path / "lake")).files
    names = [str(Path(file.path).relative_to(tmp_path / "lake")) for file in found]
    days = [(1, "new"), (2, "new"), (3, "old"), (4, "new")]
    assert names == ["other.mosaic", *(f"sales/day={day}/{name}.mosaic" for day, name in days)]


def test_readers_move_nothing(tmp_path: Path) -> None:
    """Whoever only reads needs the permission to read: a commit that is pending stays pending."""
    partitioned(tmp_path / "t")
    before = sorted(path for path in (tmp_path / "t").rglob("*"))
    assert jobs.convert(tmp_path / "t", tmp_path / "out", target_format="parquet").num_rows == 4
    assert jobs.verify(tmp_path / "t").ok
    assert jobs.profile(tmp_path / "t").num_rows == 4
    assert smalti.dataset(tmp_path / "t").count_rows() == 4
    assert sorted(path for path in (tmp_path / "t").rglob("*")) == before
