"""Tables with odd things in them: links, long names, broken records, kept files, stores without a permission."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import smalti
from smalti import jobs
from smalti.errors import LeftoverWarning
from smalti.file.reader import MosaicFile
from smalti.io import locate
from smalti.io.locations import Location
from smalti.jobs import copy_job
from smalti.jobs.formats.registry import FORMATS
from smalti.jobs.staging import Staging
from smalti.jobs.target import Target
from smalti.spark.driver.write import begin_write
from smalti.spark.options import parse_write_options
from smalti.table.listing import FoundFile, Listing, list_files, open_found
from smalti.table.log import CommitLog
from smalti.table.names import JOBS, KEPT, is_ours
from smalti.table.records import record_name
from tests.support.racing_child import ROWS
from tests.support.s3 import S3Server, s3_by_uri


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_by_uri("odd") as server:
        yield server


def put(path: Path, *ids: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    smalti.write_table(pa.table({"id": ids}), path)
    return str(path.parent)


def ids(table: object) -> list[int]:
    return sorted(smalti.dataset(str(table)).to_table(["id"])["id"].to_pylist())


# --- names and links ------------------------------------------------------------------------------------------------


def test_an_overwrite_does_not_take_a_table_with_a_dangling_link_for_an_empty_one(tmp_path: Path) -> None:
    table, source = put(tmp_path / "t/a.mosaic", 1), put(tmp_path / "s/b.mosaic", 2)
    (tmp_path / "t/x.mosaic").symlink_to("nowhere")
    for overwrite in (False, True):
        with pytest.raises(FileNotFoundError, match=r"leads to nothing: .*x\.mosaic"):
            jobs.convert(source, table, overwrite=overwrite)
    (tmp_path / "t/x.mosaic").unlink()
    assert ids(table) == [1]


@pytest.mark.parametrize("to", ["me.txt", "a.mosaic/x", "nowhere"])
def test_links_beside_the_files_of_a_table_that_lead_nowhere(tmp_path: Path, to: str) -> None:
    table = put(tmp_path / "t/a.mosaic", 1)
    (tmp_path / "t/me.txt").symlink_to(to)
    assert ids(table) == [1]


def test_long_names(tmp_path: Path) -> None:
    """Writers add to names, and so do commits: whatever the source may be called, a table can be made of it."""
    for end in "ab":
        put(tmp_path / "s/short.mosaic", 1)
        (tmp_path / "s/short.mosaic").rename(tmp_path / f"s/{'é' * 123}{end}.mosaic")
    for table in ("t", "u"):
        jobs.convert(str(tmp_path / "s"), str(tmp_path / table))
        found = (tmp_path / table).glob("*.mosaic")
        assert [len(os.fsencode(path.name)) for path in found] == [254, 254]
        assert ids(tmp_path / table) == [1, 1]


def test_names_of_others_that_look_like_ours() -> None:
    assert not is_ours("sensor-1700000000000000-00001.mosaic"), "microseconds since 1970"
    assert not is_ours("a-0123456789abcdef-00000\n.mosaic")


def test_many_files_are_found_in_time_that_grows_with_them(tmp_path: Path) -> None:
    location = locate(str(tmp_path))
    files = [FoundFile(f"{tmp_path}/{number}.mosaic", 1) for number in range(20_000)]
    began = time.monotonic()
    listing = Listing(location.filesystem, files, location.path)
    assert len(Target(location, FORMATS["mosaic"], ".mosaic").files(listing)) == 20_000
    assert time.monotonic() - began < 20, "it took an hour"


def test_hidden_files_in_a_directory_of_another_format(tmp_path: Path) -> None:
    source = put(tmp_path / "s/a.mosaic", 1)
    (tmp_path / "o/_temporary").mkdir(parents=True)
    (tmp_path / "o/_temporary/x.parquet").write_bytes(b"of somebody else")
    assert jobs.convert(source, tmp_path / "o", target_format="parquet").num_rows == 1


# --- broken records -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last",
    [
        b"garbage",
        b'{"version":3,"job":"x","token":"y","add":[],"remove":[]}',
        b'{"version":3,"job":"x","token":"y","add":[],"remove":[["a",1e999,""]]}',
        b'{"version":3,"job":"x","token":"y","add":[],"remove":[],"is_transient":"no"}',
        b'{"version":3,"checkpoint":{"hidden":[["a",Infinity]],"streams":{}}}',
    ],
)
def test_cleaning_gets_past_two_broken_records(tmp_path: Path, last: bytes) -> None:
    table = put(tmp_path / "t/a.mosaic", 1)
    (tmp_path / "t" / JOBS).mkdir()
    for number, data in ((4, b"garbage"), (5, last)):
        (tmp_path / "t" / JOBS / record_name(number)).write_bytes(data)
    with pytest.raises(smalti.MosaicError, match="not a commit record"):
        smalti.dataset(table)
    jobs.clean(table, timedelta(0))
    assert ids(table) == [1]
    assert CommitLog(locate(table)).state()[:2] == (6, ())


def test_a_first_record_of_a_wrong_clock(tmp_path: Path) -> None:
    """The first record stays for ever: its time says nothing about now."""
    table, source = str(tmp_path / "t"), put(tmp_path / "s/a.mosaic", 1)
    for _ in range(2):
        jobs.convert(source, table, overwrite=True)
    os.utime(tmp_path / "t" / JOBS / record_name(1), (4e9, 4e9))
    assert abs(CommitLog(locate(table)).state().time - time.time()) < 1000


# --- kept files -----------------------------------------------------------------------------------------------------


def test_kept_files_of_one_name(tmp_path: Path) -> None:
    table, source = put(tmp_path / "t/a.mosaic", 1), put(tmp_path / "s/b.mosaic", 5)
    listing = list_files(table)
    for hours in (1, 2):
        jobs.convert(source, table, overwrite=True, keep=hours)
        put(tmp_path / "t/a.mosaic", 2)
    (tmp_path / "t/a.mosaic").unlink()
    with MosaicFile(open_found(listing.files[0], listing.filesystem)) as file:
        assert file.read().to_pydict() == {"id": [1]}


def test_links_in_the_place_of_kept_files(tmp_path: Path) -> None:
    table, source = put(tmp_path / "t/a.mosaic", 1), put(tmp_path / "s/b.mosaic", 5)
    outside = tmp_path / "outside/2020-1"
    outside.mkdir(parents=True)
    (tmp_path / "t" / JOBS).mkdir()
    (tmp_path / "t" / JOBS / KEPT).symlink_to(tmp_path / "outside")
    with pytest.raises(smalti.MosaicError, match="leads out of its table"):
        jobs.convert(source, table, overwrite=True, keep=1)
    jobs.convert(source, table, overwrite=True)
    jobs.clean(table, timedelta(0))
    assert outside.exists()


def test_cleaning_takes_what_was_kept_for_long_enough(tmp_path: Path) -> None:
    table, source = put(tmp_path / "t/a.mosaic", 1), put(tmp_path / "s/b.mosaic", 5)
    jobs.convert(source, table, overwrite=True, keep=1)
    kept = tmp_path / "t" / JOBS / KEPT
    (directory,) = kept.iterdir()
    jobs.clean(table)
    assert directory.exists()
    directory.rename(kept / f"{int(time.time()) - 1}-1")
    (kept / "2020-photos").mkdir()
    jobs.clean(table)
    assert [path.name for path in kept.iterdir()] == ["2020-photos"]


def test_files_that_cannot_be_kept_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, source = put(tmp_path / "t/a.mosaic", 1), put(tmp_path / "s/b.mosaic", 5)

    def refuse(*_: object) -> OSError:
        return PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(CommitLog, "_keep", refuse)
        with pytest.warns(LeftoverWarning, match="1 removed files, which stay hidden"):
            jobs.convert(source, table, overwrite=True, keep=1)
    assert ids(table) == [5]
    jobs.compact(table, options=smalti.WriterOptions())
    assert (ids(table), (tmp_path / "t/a.mosaic").exists()) == ([5], False)


def test_a_job_that_is_killed_while_files_are_kept(server: S3Server, tmp_path: Path) -> None:
    """Stores that are passed do not say which kind of error it is when a file has been moved already."""
    table = f"odd/{tmp_path.name}"
    for name, number in (("t", 1), ("s", 2)):
        jobs.convert(put(tmp_path / name / "a.mosaic", number), f"s3://{table}/{name}")
    passed = pafs.S3FileSystem(endpoint_override=server.environment["AWS_ENDPOINT_URL"])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CommitLog, "_delete", killed)
        with pytest.raises(KeyboardInterrupt):
            jobs.convert(f"{table}/s", f"{table}/t", overwrite=True, keep=1, filesystem=passed)
    assert ids(f"s3://{table}/t") == [2]
    jobs.recover(f"{table}/t", filesystem=passed)
    assert ids(f"s3://{table}/t") == [2]


# --- what is not an error -------------------------------------------------------------------------------------------


def test_other_formats_on_a_store_that_refuses_to_delete(server: S3Server, tmp_path: Path) -> None:
    source, table = put(tmp_path / "s/a.mosaic", 1), f"s3://odd/{tmp_path.name}"
    server.reset(fail="POST /odd?delete", times=10_000)
    with pytest.warns(LeftoverWarning):
        jobs.convert(source, f"{table}/o", target_format="parquet")
    with pytest.warns(LeftoverWarning):
        jobs.convert(source, f"{table}/o", target_format="parquet", overwrite=True)
    for _ in range(2):
        with pytest.warns(LeftoverWarning, match="the file is there; staged files stay"):
            jobs.convert(f"{source}/a.mosaic", f"{table}/one.parquet", overwrite=True)
    server.reset()
    for path in ("o/a", "one"):
        assert jobs.convert(f"{table}/{path}.parquet", tmp_path / f"{path[-1]}.mosaic").num_rows == 1


def test_two_runs_of_the_very_same_job_to_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = put(tmp_path / "s/a.mosaic", 1) + "/a.mosaic", tmp_path / "one.mosaic"
    mark_done, others = Staging.mark_done, [True]

    def later(staging: Staging, *arguments: Any) -> None:
        while others:
            others.pop()
            jobs.convert(source, target, overwrite=True)
        mark_done(staging, *arguments)

    monkeypatch.setattr(Staging, "mark_done", later)
    with pytest.raises(smalti.ConflictError, match="a staged file has gone"):
        jobs.convert(source, target, overwrite=True)
    assert ids(target) == [1]


def test_a_mark_of_success_that_cannot_be_written(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = parse_write_options({"path": str(table), "successfile": "true"})
    writer = begin_write(options, ROWS, "append")
    message = writer.plan.write(0, [pa.record_batch({"id": [1], "day": [1]})])
    (table / "_SUCCESS").mkdir()
    with pytest.warns(LeftoverWarning, match="the commit has happened"):
        writer.commit([message])
    assert ids(table) == [1]


def test_a_stream_that_does_not_know_whether_its_record_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer got lost, and then the network was away: Spark gives the batch up, but it has happened."""
    table = str(tmp_path / "t")
    writer = begin_write(parse_write_options({"path": table, "streamid": "s"}), ROWS, "append", streams=True)
    message = writer.plan.write(0, [pa.record_batch({"id": [1], "day": [1]})])
    create = Location.create_exclusively

    def lost(location: Location, data: bytes) -> bool:
        if not location.exists():
            create(location, data)
        raise OSError(5, "no answer")

    with monkeypatch.context() as patched:
        patched.setattr(Location, "create_exclusively", lost)
        with pytest.raises(OSError, match="no answer"):
            writer.commit([message], batch=0)
    writer.abort([message])
    assert ids(table) == [1]
    jobs.recover(table)
    assert ids(table) == [1]


def test_a_record_that_cannot_be_written_leaves_what_was_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table = put(tmp_path / "s/a.mosaic", 1), str(tmp_path / "t")
    create, tries = Location.create_exclusively, [1]

    def refused(location: Location, data: bytes) -> bool:
        if tries and "commit-" in location.path:
            tries.pop()
            raise OSError(5, "no answer")
        return create(location, data)

    with monkeypatch.context() as patched:
        patched.setattr(Location, "create_exclusively", refused)
        with pytest.raises(OSError, match="no answer"):
            jobs.convert(source, table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jobs.convert(source, table).resumed_splits == 1
    record = json.loads((tmp_path / "t" / JOBS / record_name(1)).read_bytes())
    assert not record["add"], "the number was taken by a record that changes nothing"


@pytest.mark.parametrize("keep", [None, 1])
def test_a_conversion_beside_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: float | None) -> None:
    """What is kept is found by jobs too; what is not gives an error that says what happened."""
    for number in range(3):
        table = put(tmp_path / f"t/{number}.mosaic", number)
    copy_split, others = copy_job.copy_split, [True]

    def later(*arguments: Any) -> Any:
        while others:
            others.pop()
            jobs.compact(table, keep=keep, workers=1)
        return copy_split(*arguments)

    monkeypatch.setattr(copy_job, "copy_split", later)
    if keep:
        assert jobs.convert(table, tmp_path / "o", workers=1).num_rows == 3
    else:
        with pytest.raises(jobs.JobError, match="removed after the table was listed"):
            jobs.convert(table, tmp_path / "o", workers=1)


def test_a_store_without_buckets(tmp_path: Path) -> None:
    table = f"memory:///{tmp_path.name}"
    jobs.convert(put(tmp_path / "s/a.mosaic", 1), table)
    assert ids(table) == [1]


def test_mode_ignore_leaves_out_rows_only_if_there_are_others(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    writer = begin_write(parse_write_options({"path": table}), ROWS, "ignore")
    message = writer.plan.write(0, [pa.record_batch({"id": [1], "day": [1]})])
    jobs.clean(table, timedelta(0))
    with pytest.raises(smalti.ConflictError, match="a staged file has gone"):
        writer.commit([message])
