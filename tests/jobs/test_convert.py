"""Convert: structure, commits, crashes, resumption, bad input."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.io.locations import locate
from smalti.jobs.staging import Staging, describe, job_digest
from smalti.table import splits
from smalti.table.names import JOBS, is_ours
from tests.jobs.data import hidden, mixed, mosaic_files, partitioned, rows_of, stems, visible
from tests.support.children import ROOT


def test_a_file_stays_a_file(tmp_path: Path) -> None:
    pq.write_table(mixed(1000), tmp_path / "a.parquet", row_group_size=100)
    summary = jobs.convert(tmp_path / "a.parquet", tmp_path / "new/a.mosaic", split_bytes=1, target_file_bytes=1)
    assert [file.path for file in summary.files] == ["a.mosaic"]
    assert smalti.read_table(tmp_path / "new/a.mosaic").equals(mixed(1000))
    assert hidden(tmp_path) == []


def test_a_directory_keeps_its_structure(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "raw")
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out")
    assert stems(visible(tmp_path / "out")) == [f"day={p}/f{f}.mosaic" for p in range(2) for f in range(3)]
    assert all(is_ours(name) for name in visible(tmp_path / "out"))
    assert rows_of(tmp_path / "out").equals(table)
    assert (summary.num_rows, summary.source_files, summary.splits) == (300, 6, 1)
    assert summary.num_bytes == sum((tmp_path / "out" / name).stat().st_size for name in visible(tmp_path / "out"))
    assert hidden(tmp_path) == []


def test_large_files_are_cut_at_row_groups(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pq.write_table(mixed(1000), tmp_path / "raw/a.parquet", row_group_size=250)
    size = (tmp_path / "raw/a.parquet").stat().st_size
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=size // 3)
    assert stems(file.path for file in summary.files) == ["a.mosaic"] * 4
    assert rows_of(tmp_path / "out").equals(mixed(1000))


def test_files_are_rolled_at_a_size(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pq.write_table(mixed(1000), tmp_path / "raw/a.parquet")
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", batch_size=100, target_file_bytes=4000)
    assert len(summary.files) > 1
    assert rows_of(tmp_path / "out").equals(mixed(1000))


def test_names_that_would_meet(tmp_path: Path) -> None:
    """`a.parquet`, cut in two, and a file that has the name of its first part already."""
    (tmp_path / "raw").mkdir()
    pq.write_table(mixed(1000), tmp_path / "raw/a.parquet", row_group_size=500)
    pq.write_table(mixed(1), tmp_path / "raw/a-00000.parquet")
    size = (tmp_path / "raw/a.parquet").stat().st_size
    with pytest.raises(smalti.MosaicError, match=r"same name: found a-00000\.arrow"):
        jobs.convert(tmp_path / "raw", tmp_path / "out", target_format="arrow", split_bytes=size // 2)
    assert visible(tmp_path / "out") == []
    assert jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=size // 2).num_rows == 1001


def test_refuses_to_overwrite(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    jobs.convert(tmp_path / "raw", tmp_path / "out")
    with pytest.raises(FileExistsError, match="overwrite"):
        jobs.convert(tmp_path / "raw", tmp_path / "out")
    single = tmp_path / "raw/day=0/f0.parquet"
    jobs.convert(single, tmp_path / "a.mosaic")
    with pytest.raises(FileExistsError, match="overwrite"):
        jobs.convert(single, tmp_path / "a.mosaic")
    jobs.convert(single, tmp_path / "a.mosaic", overwrite=True)


def test_overwrite_replaces_files_of_the_format_only(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "raw")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/README.md").write_text("keep")
    smalti.write_table(mixed(1), tmp_path / "out/old.mosaic")
    jobs.convert(tmp_path / "raw", tmp_path / "out", overwrite=True)
    assert "old.mosaic" not in visible(tmp_path / "out")
    assert (tmp_path / "out/README.md").read_text() == "keep"
    (tmp_path / "out/README.md").unlink()
    assert rows_of(tmp_path / "out").equals(table)


def test_a_failed_overwrite_leaves_the_old_data(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    jobs.convert(tmp_path / "raw", tmp_path / "out")
    before = {name: (tmp_path / "out" / name).read_bytes() for name in visible(tmp_path / "out")}
    (tmp_path / "raw/day=1/f9.parquet").write_bytes(b"PAR1 broken PAR1")
    with pytest.raises(jobs.JobError, match=r"day=1/f9\.parquet: cannot be read as Parquet"):
        jobs.convert(tmp_path / "raw", tmp_path / "out", overwrite=True, split_bytes=1)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in visible(tmp_path / "out")} == before


def test_broken_files_are_skipped_and_listed(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "raw")
    bad = tmp_path / "raw/day=0/bad.parquet"
    bad.write_bytes(b"PAR1 broken PAR1")
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", on_error="skip")
    assert [item.path for item in summary.skipped] == [str(bad)]
    assert summary.skipped[0].reason.startswith("cannot be read as Parquet")
    assert summary.source_files == 6
    assert rows_of(tmp_path / "out").equals(table)


def test_no_part_of_a_broken_file_is_kept(tmp_path: Path) -> None:
    """A Mosaic file whose last row group is damaged, cut into one task per row group."""
    (tmp_path / "raw").mkdir()
    path = tmp_path / "raw/a.mosaic"
    smalti.write_table(mixed(400), path, row_group_max_rows=100)
    smalti.write_table(mixed(10), tmp_path / "raw/b.mosaic")
    with smalti.open(path) as file:
        bucket = file.layout().row_groups[3].buckets[0]
    data = bytearray(path.read_bytes())
    data[bucket.offset + bucket.size // 2] ^= 0xFF
    path.write_bytes(data)
    summary = jobs.convert(
        tmp_path / "raw", tmp_path / "out", target_format="parquet", split_bytes=500, on_error="skip"
    )
    assert summary.splits > 2
    assert [item.path for item in summary.skipped] == [str(path)]
    assert visible(tmp_path / "out") == ["b.parquet"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"engine": "dask"}, smalti.MosaicError, "unknown engine: found dask"),
        ({"source_format": "xml"}, smalti.MosaicError, "unknown format: found xml"),
        ({"target_format": "parquet"}, smalti.MosaicError, "another format"),
        ({"on_error": "ignore"}, smalti.MosaicError, "on_error"),
        ({"workers": 0}, smalti.MosaicError, "workers"),
        ({"batch_size": 0}, smalti.MosaicError, "batch_size"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, object], error: type[Exception], message: str) -> None:
    pq.write_table(mixed(3), tmp_path / "a.parquet")
    with pytest.raises(error, match=message):
        jobs.convert(tmp_path / "a.parquet", tmp_path / "a.mosaic", **arguments)
    assert visible(tmp_path) == ["a.parquet"]


def test_missing_and_overlapping_paths(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        jobs.convert(tmp_path / "nope", tmp_path / "out")
    mosaic_files(tmp_path / "in", [mixed(3)])
    with pytest.raises(smalti.MosaicError, match="overlap"):
        jobs.convert(tmp_path / "in", tmp_path / "in", overwrite=True)
    (tmp_path / "in/notes.txt").write_text("x")
    with pytest.raises(smalti.MosaicError, match=r"notes\.txt: cannot tell the format"):
        jobs.convert(tmp_path / "in", tmp_path / "out")


def test_progress_counts_up(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    events: list[jobs.Progress] = []
    jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, progress=events.append)
    assert [event.done for event in events] == sorted(event.done for event in events)
    last = events[-1]
    assert (last.done, last.total, last.num_rows, last.fraction) == (6, 6, 300, 1.0)
    assert last.total_bytes * 0.99 <= last.num_bytes <= last.total_bytes
    with pytest.raises(AttributeError):
        last.done = 0  # type: ignore[misc]


def test_summary_travels(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out")
    assert pickle.loads(pickle.dumps(summary)) == summary
    assert jobs.JobSummary.from_dict(summary.to_dict()) == summary
    assert "300 rows" in str(summary)


def test_a_file_system_without_rename_or_local_paths(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "raw")
    fs = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    jobs.convert("raw", "out", filesystem=fs)
    assert rows_of(tmp_path / "out").equals(table)
    assert jobs.verify("out", filesystem=fs).ok
    jobs.compact("out", filesystem=fs)
    assert len(visible(tmp_path / "out")) == 2
    assert rows_of(tmp_path / "out").equals(table)
    assert jobs.profile("out", html="p.html", filesystem=fs).num_rows == 300
    assert hidden(tmp_path) == []


# --- crashes ----------------------------------------------------------------------------------------------------

CRASHING = """
import os, signal, sys
from smalti import jobs
def listen(event):
    if event.done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
jobs.convert(sys.argv[1], sys.argv[2], split_bytes=1, workers=1, overwrite=True, progress=listen)
"""


@pytest.mark.parametrize("done", [1, 4])
def test_a_killed_job_is_resumed(tmp_path: Path, done: int) -> None:
    table = partitioned(tmp_path / "raw")
    old = mixed(5)
    (tmp_path / "out").mkdir()
    smalti.write_table(old, tmp_path / "out/old.mosaic")
    command = [sys.executable, "-c", CRASHING, str(tmp_path / "raw"), str(tmp_path / "out"), str(done)]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    # The table is as it was, for whoever reads it now.
    assert smalti.dataset(str(tmp_path / "out")).to_table().equals(old)
    (staging,) = (tmp_path / "out" / JOBS).iterdir()
    finished = {path: path.stat().st_mtime_ns for path in staging.rglob("*.mosaic")}
    assert len(finished) == done
    again = jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, overwrite=True)
    assert again.resumed_splits == done
    kept = {path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.mosaic")}
    assert set(finished.values()) <= kept
    assert rows_of(tmp_path / "out").equals(table)
    assert hidden(tmp_path / "out") == []


@pytest.mark.parametrize(("first", "second"), [(1, 16), (16, 1)])
def test_a_job_is_resumed_on_a_machine_with_other_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    """A split is smaller where there are more cores. The later run goes on with the splits of the earlier one."""
    monkeypatch.setattr(splits, "MIN_SPLIT_BYTES", 1)
    table = partitioned(tmp_path / "raw")
    broken = tmp_path / "raw/day=1/f1.parquet"
    whole, modified = broken.read_bytes(), broken.stat()
    broken.write_bytes(bytes(len(whole)))
    os.utime(broken, ns=(modified.st_atime_ns, modified.st_mtime_ns))  # It is the same work, so the file must look so.
    with pytest.raises(jobs.JobError):
        jobs.convert(tmp_path / "raw", tmp_path / "out", workers=first)
    done = len(list((tmp_path / "out").rglob("done/*.json")))
    assert done
    broken.write_bytes(whole)
    os.utime(broken, ns=(modified.st_atime_ns, modified.st_mtime_ns))
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", workers=second)
    assert summary.resumed_splits == done
    assert rows_of(tmp_path / "out").equals(table)
    assert hidden(tmp_path / "out") == []


def test_changed_input_is_not_resumed(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    (tmp_path / "raw/day=1/f9.parquet").write_bytes(b"broken")
    with pytest.raises(jobs.JobError):
        jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1)
    assert len(hidden(tmp_path / "out")) == 1
    pq.write_table(mixed(5), tmp_path / "raw/day=1/f9.parquet")
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1)
    assert summary.resumed_splits == 0
    assert len(jobs.clean(tmp_path / "out", timedelta(0))) == 1
    assert hidden(tmp_path / "out") == []


@pytest.mark.parametrize(
    "argument",
    [
        lambda middle: pc.field("n").isin([*range(99), middle, *range(99)]),
        lambda middle: [("n", "in", np.array([*range(999), middle, *range(999)]))],
        lambda middle: pa.schema([pa.field("n", pa.int64(), metadata={"k": f"{'x' * 999}{middle}"})]),
    ],
)
def test_work_whose_text_is_the_same_is_told_apart(argument: Callable[[int], Any]) -> None:
    """The text of long lists, arrays and metadata has no middle, and their digest has."""
    assert repr(argument(1000)) == repr(argument(1001))
    assert job_digest(argument(1000)) == job_digest(argument(1000)) != job_digest(argument(1001))


def test_equal_requests_are_the_same_work_in_every_process() -> None:
    """Sets come in another order in each, and equal texts may be one object or two."""
    code = (
        "from smalti.jobs.staging import describe; print(describe([('user', 'in', {'a', 'b', 'c', frozenset('de')})]))"
    )
    found = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        found.add(subprocess.run(command, env=environment, capture_output=True, check=True, cwd=ROOT).stdout)
    assert len(found) == 1
    assert found != {b"None\n"}
    one, other = ("".join(["te", "xt"]) for _ in range(2))
    assert describe((one, one)) == describe((one, other)) != describe((one, "other"))
    assert describe([{"a"}]) != describe([{"b"}])
    cycle: list[object] = []
    cycle.append(cycle)
    assert describe(cycle) is None


def test_the_rows_of_another_condition_are_not_resumed(tmp_path: Path) -> None:
    """A killed job leaves finished splits. Another condition may have the same `repr`, which shortens long lists."""
    (tmp_path / "raw").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"n": range(number * 1000, number * 1000 + 1000)}), tmp_path / f"raw/f{number}.parquet")

    def killed(event: jobs.Progress) -> None:
        if event.done == 1:
            raise KeyboardInterrupt

    def keep(middle: int) -> Any:
        return pc.field("n").isin([*range(10), *range(middle, middle + 500), *range(2000, 2010)])

    with pytest.raises(KeyboardInterrupt):
        jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1, where=keep(100), progress=killed)
    assert len(list((tmp_path / "out").rglob("done/*.json"))) == 1
    other = jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1, where=keep(300))
    assert other.resumed_splits == 0
    expected = [*range(10), *range(300, 800), *range(2000, 2010)]
    assert sorted(rows_of(tmp_path / "out")["n"].to_pylist()) == expected


def test_without_resume_it_starts_afresh(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    (tmp_path / "raw/day=1/f9.parquet").write_bytes(b"broken")
    before: dict[Path, int] = {}
    for resume in (True, False):
        with pytest.raises(jobs.JobError):
            jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1, resume=resume)
        finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("done/*.json")}
        assert len(finished) == 6
        assert resume or finished != before
        before = finished
    # What is skipped is not what fails: the finished splits count for both.
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1, on_error="skip")
    assert summary.resumed_splits == 6
    assert len(summary.skipped) == 1


CRASHING_COMMIT = """
import os, signal, sys
from smalti import jobs
from smalti.table import log as commit_log
steps = 0
step = commit_log.CommitLog.{method}
commit_log.PATIENCE = 0
def counted(self, *arguments):
    global steps
    steps += 1
    if steps > int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *arguments)
commit_log.CommitLog.{method} = counted
{call}
"""


@pytest.mark.parametrize(
    ("method", "after"),
    [("_add", 0), ("_add", 2), ("_remove", 0), ("_delete", 0), ("_delete_staged", 0), ("_create", 1)],
)
def test_a_commit_that_was_begun_is_finished(tmp_path: Path, method: str, after: int) -> None:
    table = partitioned(tmp_path / "raw")
    (tmp_path / "out").mkdir()
    for name in ("old", "older"):
        smalti.write_table(mixed(5), tmp_path / f"out/{name}.mosaic")
    call = "jobs.convert(sys.argv[1], sys.argv[2], overwrite=True)"
    script = CRASHING_COMMIT.format(method=method, call=call)
    command = [sys.executable, "-c", script, str(tmp_path / "raw"), str(tmp_path / "out"), str(after)]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    # For whoever reads it now, it has happened already.
    assert smalti.dataset(tmp_path / "out", partitioning=None).to_table().equals(table)
    again = jobs.convert(tmp_path / "raw", tmp_path / "out", overwrite=True)
    assert again.num_rows == table.num_rows
    assert rows_of(tmp_path / "out").equals(table)
    assert hidden(tmp_path / "out") == []


def test_an_unfinished_commit_of_another_job_goes_first(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw", partitions=1, files=1)
    script = CRASHING_COMMIT.format(method="_add", call="jobs.convert(sys.argv[1], sys.argv[2])")
    command = [sys.executable, "-c", script, str(tmp_path / "raw"), str(tmp_path / "out"), "0"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    (summary,) = jobs.recover(tmp_path / "out")
    assert summary.num_rows == 50
    assert stems(visible(tmp_path / "out")) == ["day=0/f0.mosaic"]


def test_tasks_travel(tmp_path: Path) -> None:
    staging = Staging(locate(tmp_path), "0123")
    assert pickle.loads(pickle.dumps(staging)) == staging


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A file ten times a batch is converted in a small multiple of a row group, not of the file."""
    rows = 400_000
    table = pa.table({f"c{i}": pa.array([float(i * j % 977) for j in range(rows)]) for i in range(10)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows // 10)
    script = """
import sys, smalti
from smalti import jobs
from smalti.jobs.summary import peak_memory
import pyarrow.parquet
before = peak_memory()
options = smalti.WriterOptions(row_group_max_bytes=2 << 20)
jobs.convert(sys.argv[1], sys.argv[2], options=options)
print(peak_memory() - before)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "a.parquet"), str(tmp_path / "a.mosaic")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "MALLOC_ARENA_MAX": "1"}
    )
    assert int(done.stdout) < table.nbytes, f"{int(done.stdout):,} of {table.nbytes:,}"


# --- odd names --------------------------------------------------------------------------------------------------


def test_what_exists_is_taken_by_its_name(tmp_path: Path) -> None:
    """`t[1]` is a directory here, and a glob that matches `t1` elsewhere."""
    mosaic_files(tmp_path / "t[1]", [mixed(10), mixed(10, 10)])
    mosaic_files(tmp_path / "t1", [mixed(5, 100), mixed(5, 200)])
    assert smalti.dataset(tmp_path / "t[1]").count_rows() == 20
    assert jobs.compact(tmp_path / "t[1]").num_rows == 20
    assert rows_of(tmp_path / "t[1]").num_rows == 20
    assert rows_of(tmp_path / "t1").num_rows == 10
    partitioned(tmp_path / "raw", partitions=1, files=1)
    jobs.convert(tmp_path / "raw", tmp_path / "t[2]")  # t2 is there, and none of its business
    with pytest.raises(FileExistsError):
        jobs.convert(tmp_path / "t[1]", tmp_path / "t[2]")
    jobs.convert(tmp_path / "t[1]", tmp_path / "t[2]", overwrite=True)
    assert rows_of(tmp_path / "t[2]").num_rows == 20


def test_paths_that_mean_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitioned(tmp_path / "raw", partitions=1, files=2)
    monkeypatch.chdir(tmp_path)
    jobs.convert("./raw", f"{tmp_path}//out/.")
    assert smalti.dataset(["out", tmp_path / "out", "./out"]).count_rows() == 300  # as often as it is named
    again = jobs.convert("raw", f"{tmp_path}/./out", overwrite=True, filesystem=pafs.LocalFileSystem())
    assert again.num_rows == rows_of(tmp_path / "out").num_rows == 100


def test_nothing_is_replaced_by_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.parquet").write_bytes(b"broken")
    mosaic_files(tmp_path / "out", [mixed(5)])
    with pytest.raises(smalti.MosaicError, match="nothing could be read, so nothing is replaced"):
        jobs.convert(tmp_path / "raw", tmp_path / "out", overwrite=True, on_error="skip")
    assert rows_of(tmp_path / "out").num_rows == 5


def test_a_damaged_marker_means_that_a_split_is_done_again(tmp_path: Path) -> None:
    partitioned(tmp_path / "raw")
    (tmp_path / "raw/day=1/f9.parquet").write_bytes(b"broken")
    with pytest.raises(jobs.JobError):
        jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1)
    done = sorted((tmp_path / "out" / JOBS).rglob("done/*.json"))
    done[0].write_text("{}")
    done[1].write_text("half of i")
    summary = jobs.convert(tmp_path / "raw", tmp_path / "out", split_bytes=1, workers=1, on_error="skip")
    assert summary.resumed_splits == len(done) - 2


def test_links_are_seen_through(tmp_path: Path) -> None:
    mosaic_files(tmp_path / "t", [mixed(5)])
    (tmp_path / "link").symlink_to(tmp_path / "t")
    for source, target in [("link", "t"), ("t", "x/../t"), ("t", "link")]:
        with pytest.raises(smalti.MosaicError, match="overlap"):
            jobs.convert(tmp_path / source, tmp_path / target, overwrite=True)
    # A partition that lies elsewhere is read; that it cannot be written is said before any work is done.
    mosaic_files(tmp_path / "disk", [mixed(5), mixed(5)])
    (tmp_path / "p").mkdir()
    (tmp_path / "p/day=1").symlink_to(tmp_path / "disk")
    assert smalti.dataset(tmp_path / "p").count_rows() == 10
    with pytest.raises(smalti.MosaicError, match="leads out of its table, through a symbolic link"):
        jobs.compact(tmp_path / "p")
    assert len(visible(tmp_path / "disk")) == 2
    assert jobs.clean(tmp_path / "p", timedelta(0)) == []
