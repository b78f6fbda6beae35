"""Verify: sound files are sound, and every kind of damage is found and placed."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from tests.jobs.data import mixed, mosaic_files, nested
from tests.support.oracle.wire import uv
from tests.support.oracle.writer import Bucket, Options, RowGroup, assemble, pack_bucket, schema_payload


def flip(path: Path, offset: int, mask: int = 0xFF) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def test_sound_files(tmp_path: Path) -> None:
    mosaic_files(tmp_path / "d/day=1", [mixed(300), nested(50)], stats_columns="all", row_group_max_rows=100)
    smalti.write_table(mixed(0), tmp_path / "d/empty.mosaic")
    smalti.write_table(mixed(10), tmp_path / "d/plain.mosaic", compression="none")
    report = jobs.verify(tmp_path / "d")
    assert report.ok, str(report)
    assert report.problems == ()
    by_name = {Path(file.path).name: file for file in report.files}
    assert list(by_name) == ["f0.mosaic", "f1.mosaic", "empty.mosaic", "plain.mosaic"]
    first = by_name["f0.mosaic"]
    assert (first.num_rows, first.num_columns, first.num_row_groups) == (300, 6, 3)
    assert first.frames == first.checksums == 3 * 6 + 1
    assert first.statistics == 18
    assert by_name["plain.mosaic"].frames == 0
    assert report.to_dict()["ok"] is True
    assert "ok: 300 rows" in str(report)


def test_frames_without_checksum_are_counted(tmp_path: Path) -> None:
    smalti.write_table(mixed(10), tmp_path / "a.mosaic", checksum=False)
    (file,) = jobs.verify(tmp_path / "a.mosaic").files
    assert (file.ok, file.frames > 0, file.checksums) == (True, True, 0)


def test_paged_buckets(tmp_path: Path) -> None:
    table = pa.table({f"c{i}": [f"{i}-{j}" for j in range(500)] for i in range(6)})
    smalti.write_table(table, tmp_path / "a.mosaic", num_buckets=2, page_size_threshold=0, dict_max_entries=0)
    (file,) = jobs.verify(tmp_path / "a.mosaic").files
    assert file.ok
    assert file.frames == file.checksums == 7


def test_each_broken_bucket_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.mosaic"
    smalti.write_table(mixed(300), path, row_group_max_rows=100)
    with smalti.open(path) as file:
        layout = file.layout()
    for group, bucket in [(0, 1), (2, 4)]:
        where = layout.row_groups[group].buckets[bucket]
        flip(path, where.offset + where.size - 1)  # the checksum itself
    report = jobs.verify(path)
    assert not report.ok
    assert [(problem.row_group, problem.bucket) for problem in report.problems] == [(0, 1), (2, 4)]
    lines = str(report).splitlines()
    assert len(lines) == 3
    assert lines[2] == f"{path}: 4 of 6 columns are readable; lost: city, id"
    assert lines[0].startswith(f"{path}, row group 0, bucket 1: zstd block cannot be decompressed")


@pytest.mark.parametrize(
    ("found", "wrong", "message"),
    [
        ((7).to_bytes(8, "big"), (6).to_bytes(8, "big"), "statistics have minimum 6, it is 7"),
        ((1234).to_bytes(8, "big"), (1235).to_bytes(8, "big"), "statistics have maximum 1235, it is 1234"),
    ],
)
def test_statistics_that_lie(tmp_path: Path, found: bytes, wrong: bytes, message: str) -> None:
    path = tmp_path / "a.mosaic"
    smalti.write_table(pa.table({"a": [7, None, 1234]}), path, stats_columns=["a"], companion=False)
    data = path.read_bytes()
    at = data.rindex(found)
    path.write_bytes(data[:at] + wrong + data[at + 8 :])
    (problem,) = jobs.verify(path).problems
    assert (problem.column, problem.row_group, problem.reason) == ("a", 0, message)


def test_null_count_that_lies(tmp_path: Path) -> None:
    path = tmp_path / "a.mosaic"
    smalti.write_table(pa.table({"a": [7, None, 1234]}), path, stats_columns=["a"], companion=False)
    data = bytearray(path.read_bytes())
    data[data.rindex((7).to_bytes(8, "big")) - 1] = 2
    path.write_bytes(data)
    (problem,) = jobs.verify(path).problems
    assert problem.reason == "statistics count 2 nulls, there are 1"


def file_with_record(array: pa.Array, record: bytes) -> bytes:
    """A file of one column "a" in one row group, with this record of statistics, whatever it claims."""
    schema, options = pa.schema([("a", array.type)]), Options(checksum=True)
    bucket = pack_bucket(0, list(schema), [array], options)
    group = RowGroup(len(array), (bucket,), uv(1) + uv(0) + record)
    return assemble(schema_payload(schema, 1), [group], 1, options)


def bounds(low: int, high: int) -> bytes:
    return low.to_bytes(4, "big") + high.to_bytes(4, "big")


NO_BOUNDS = "statistics have no bounds, but there are values"


@pytest.mark.parametrize(
    ("values", "record", "reasons"),
    [
        ([7, None, 9], uv(1) + bounds(7, 9), []),
        ([None, None], uv(2), []),
        ([7, None, 9], uv(0) + bounds(7, 9), ["statistics count 0 nulls, there are 1"]),
        ([7, 8, 9], uv(1) + bounds(7, 9), ["statistics count 1 nulls, there are 0"]),
        ([7, None, 9], uv(3), ["statistics count 3 nulls, there are 1", NO_BOUNDS]),
        ([7, 8], uv(2), ["statistics count 2 nulls, there are 0", NO_BOUNDS]),
        (
            [None, None],
            uv(1) + bounds(7, 9),
            [
                "statistics count 1 nulls, there are 2",
                "statistics have minimum 7, it is None",
                "statistics have maximum 9, it is None",
            ],
        ),
        (
            [7, None, 9],
            uv(2) + bounds(6, 9),
            ["statistics count 2 nulls, there are 1", "statistics have minimum 6, it is 7"],
        ),
    ],
)
def test_records_of_statistics_that_are_wrong(
    tmp_path: Path, values: list[int | None], record: bytes, reasons: list[str]
) -> None:
    path = tmp_path / "a.mosaic"
    path.write_bytes(file_with_record(pa.array(values, pa.int32()), record))
    (file,) = jobs.verify(path).files
    assert file.statistics == 1
    assert [problem.reason for problem in file.problems] == reasons
    assert {(problem.row_group, problem.bucket, problem.column) for problem in file.problems} <= {(0, 0, "a")}


def test_overlapping_buckets_are_refused_by_the_index(tmp_path: Path) -> None:
    schema, options = pa.schema([("a", pa.int32()), ("b", pa.int32())]), Options()
    buckets = [pack_bucket(i, [schema.field(i)], [pa.array([1, 2], pa.int32())], options) for i in range(2)]
    group = RowGroup(2, tuple(buckets))
    data = bytearray(assemble(schema_payload(schema, 2), [group], 2, options))
    second = data.rindex(uv(1) + len(buckets[0].stored).to_bytes(8, "big"))
    data[second + 8] -= 1  # the second bucket now starts inside the first
    path = tmp_path / "a.mosaic"
    path.write_bytes(data)
    (file,) = jobs.verify(path).files
    size = len(buckets[0].stored)
    reason = f"buckets overlap (start of one, end of the one before): found {size - 1}, expected {size}"
    assert [problem.reason for problem in file.problems] == [f"row group index: {reason}"]
    assert str(file) == f"{path}: row group index: {reason}\n{path}: nothing is readable"


def test_a_bucket_with_a_broken_slot_still_counts_its_frames(tmp_path: Path) -> None:
    fields = [pa.field("a", pa.int32()), pa.field("b", pa.int32())]
    options = Options(page_size_threshold=0, checksum=True)
    bucket = pack_bucket(0, fields, [pa.array([1, 2, 3], pa.int32())] * 2, options)
    stored = bytearray(bucket.stored)
    stored[8] = 0xFF  # the varint before the first page
    group = RowGroup(3, (Bucket(0, bytes(stored), 0),))
    path = tmp_path / "a.mosaic"
    path.write_bytes(assemble(schema_payload(pa.schema(fields), 1), [group], 1, options))
    (file,) = jobs.verify(path).files
    assert (file.frames, file.checksums) == (3, 2)
    (problem,) = file.problems
    assert (problem.row_group, problem.bucket, problem.column) == (0, 0, "a")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    mosaic_files(tmp_path, [mixed(10)])
    (tmp_path / "short.mosaic").write_bytes(b"MOSA")
    (tmp_path / "alien.mosaic").write_bytes(b"PAR1" * 100)
    report = jobs.verify(tmp_path)
    assert [file.ok for file in report.files] == [False, True, False]
    assert all(str(problem).startswith(problem.path) for problem in report.problems)
    with pytest.raises(FileNotFoundError):
        jobs.verify(tmp_path / "nope.mosaic")


def test_large_files_are_checked_in_parts(tmp_path: Path) -> None:
    smalti.write_table(mixed(500), tmp_path / "a.mosaic", row_group_max_rows=50, stats_columns="all")
    events: list[jobs.Progress] = []
    report = jobs.verify(tmp_path / "a.mosaic", split_bytes=1, progress=events.append)
    assert (report.ok, len(report.files), report.files[0].num_rows) == (True, 1, 500)
    assert events[-1].total == 10
    assert report.files[0].statistics == 60


def test_every_byte_counts(tmp_path: Path) -> None:
    """Any flipped byte is noticed, but for those the format does not care about, or the file reads the same."""
    path = tmp_path / "a.mosaic"
    table = mixed(40)
    smalti.write_table(table, path, stats_columns="all")
    sound = path.read_bytes()
    for offset in random.Random(7).sample(range(len(sound)), 300):
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 0x10]) + sound[offset + 1 :])
        if jobs.verify(path, workers=1).ok:
            found = smalti.read_table(path)
            assert found.equals(table) or found.rename_columns(table.column_names).equals(table), offset
