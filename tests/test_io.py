"""Sources and sinks: the same contract on every kind, S3 included (moto's server speaks the real protocol)."""

from __future__ import annotations

import contextlib
import io
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest

import smalti
from smalti.io import Range, Source, fetch, open_sink, open_source

CONTENT = bytes(range(256)) * 300


@pytest.fixture(scope="module")
def s3() -> Iterator[pyarrow.fs.FileSystem]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=1).close()
                break
            time.sleep(0.1)
        filesystem = pyarrow.fs.S3FileSystem(
            access_key="a",
            secret_key="b",
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        filesystem.create_dir("bucket")
        yield filesystem
    finally:
        server.kill()
        server.wait()


KINDS = [
    "path",
    "pathlib",
    "file uri",
    "bytes",
    "memoryview",
    "arrow buffer",
    "file",
    "BytesIO",
    "native file",
    "s3",
    "fsspec",
]


def opened(kind: str, tmp_path: Path, s3: pyarrow.fs.FileSystem) -> Source:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    if kind == "s3":
        with s3.open_output_stream("bucket/content") as stream:
            stream.write(CONTENT)
        return open_source("bucket/content", s3)
    if kind == "fsspec":
        return open_source(str(path), fsspec.filesystem("file"))
    subject: Any = {
        "path": str(path),
        "pathlib": path,
        "file uri": path.as_uri(),
        "bytes": CONTENT,
        "memoryview": memoryview(CONTENT),
        "arrow buffer": pa.py_buffer(CONTENT),
        "file": path.open("rb"),
        "BytesIO": io.BytesIO(CONTENT),
        "native file": pa.OSFile(str(path)),
    }[kind]
    return open_source(subject)


@pytest.mark.parametrize("kind", KINDS)
class TestSources:
    def test_any_range_in_any_order(self, kind: str, tmp_path: Path, s3: pyarrow.fs.FileSystem) -> None:
        source = opened(kind, tmp_path, s3)
        assert source.size == len(CONTENT)
        for offset, size in [(0, 10), (len(CONTENT) - 5, 5), (1000, 70_000), (7, 0)]:
            assert source.read_at(offset, size) == CONTENT[offset : offset + size]
        source.close()

    def test_a_short_read_is_an_error(self, kind: str, tmp_path: Path, s3: pyarrow.fs.FileSystem) -> None:
        source = opened(kind, tmp_path, s3)
        with pytest.raises((smalti.CorruptFileError, OSError)):
            source.read_at(len(CONTENT) - 5, 10)
        source.close()

    def test_ranges_come_back_as_asked(self, kind: str, tmp_path: Path, s3: pyarrow.fs.FileSystem) -> None:
        source = opened(kind, tmp_path, s3)
        wanted = [Range(500, 20), Range(0, 10), Range(10, 5), Range(3, 0), Range(40_000, 30_000)]
        assert [bytes(view) for view in fetch(source, wanted)] == [CONTENT[r.offset : r.end] for r in wanted]
        source.close()


def counted(path: str, filesystem: pyarrow.fs.FileSystem) -> tuple[Any, list[int]]:
    """A remote source, and the sizes of the requests made to it."""
    source: Any = open_source(path, filesystem)
    requests: list[int] = []
    read_at = source.read_at

    def counting(offset: int, size: int) -> bytes:
        requests.append(size)
        return read_at(offset, size)

    source.read_at = counting
    return source, requests


class TestRemote:
    def test_round_trip_with_projection_and_filter(self, s3: pyarrow.fs.FileSystem) -> None:
        table = pa.table({f"c{i:04d}": [i, i + 1, None] for i in range(2000)})
        smalti.write_table(table, "bucket/wide.mosaic", filesystem=s3, stats_columns=["c0000"])
        assert smalti.read_table("bucket/wide.mosaic", filesystem=s3).equals(table)
        found = smalti.read_table("bucket/wide.mosaic", ["c1999"], [("c0000", ">", 0)], filesystem=s3)
        assert found.to_pydict() == {"c1999": [2000]}

    def test_opening_costs_one_request_and_reading_one_more(self, s3: pyarrow.fs.FileSystem) -> None:
        names = [f"group_{i % 97:02d}_measurement_{i:05d}_of_sensor" for i in range(10_000)]
        table = pa.table({name: [i * at for at in range(60)] for i, name in enumerate(names)})
        smalti.write_table(table, "bucket/large.mosaic", filesystem=s3, compression="none")
        source, requests = counted("bucket/large.mosaic", s3)
        assert source.size > 4 << 20
        with smalti.MosaicFile(source) as file:
            assert len(requests) == 1
            assert file.read(names[5:6]).equals(table.select(names[5:6]))
        assert len(requests) == 2

    def test_a_small_file_is_one_request_in_all(self, s3: pyarrow.fs.FileSystem) -> None:
        table = pa.table({f"c{i}": [i] for i in range(500)})
        smalti.write_table(table, "bucket/small.mosaic", filesystem=s3)
        source, requests = counted("bucket/small.mosaic", s3)
        with smalti.MosaicFile(source) as file:
            assert file.read().equals(table)
        assert requests == [source.size]

    def test_a_failed_write_shows_nothing_and_keeps_what_was_there(self, s3: pyarrow.fs.FileSystem) -> None:
        before = pa.table({"a": [1]})
        smalti.write_table(before, "bucket/kept.mosaic", filesystem=s3)
        writer = smalti.MosaicWriter("bucket/kept.mosaic", pa.schema([("a", pa.int64())]), filesystem=s3)
        writer.write(pa.table({"a": [2]}))
        with pytest.raises(smalti.SchemaError):
            writer.write(pa.table({"b": [2]}))
        assert smalti.read_table("bucket/kept.mosaic", filesystem=s3).equals(before)

    def test_missing(self, s3: pyarrow.fs.FileSystem) -> None:
        with pytest.raises(FileNotFoundError):
            smalti.open("bucket/nowhere.mosaic", filesystem=s3)

    def test_a_dataset(self, s3: pyarrow.fs.FileSystem) -> None:
        for day in (1, 2):
            smalti.write_table(pa.table({"a": [day]}), f"bucket/ds/day={day}/x.mosaic", filesystem=s3)
        assert smalti.dataset("bucket/ds", filesystem=s3).to_table(filters=[("day", "=", 2)]).to_pydict() == {
            "a": [2],
            "day": [2],
        }


class TestLocalSink:
    def test_nothing_shows_before_commit(self, tmp_path: Path) -> None:
        sink = open_sink(tmp_path / "x")
        sink.write(b"abc")
        assert not (tmp_path / "x").exists()
        assert all(path.name.startswith(".") for path in tmp_path.iterdir())
        sink.commit()
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
        assert (tmp_path / "x").read_bytes() == b"abc"

    def test_abort_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"old")
        sink = open_sink(str(tmp_path / "x"))
        sink.write(b"abc")
        sink.abort()
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")]

    def test_where_it_cannot_be(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError):
            open_sink(tmp_path)
        with pytest.raises(FileNotFoundError):
            open_sink(tmp_path / "no" / "such" / "directory")
        with pytest.raises(TypeError, match="int"):
            open_sink(7)


def test_places_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `file:/...` is a URI of this machine; a file system is an object, or a URI with a scheme."""
    monkeypatch.chdir(tmp_path)
    smalti.write_table(pa.table({"a": [1]}), "file:odd.mosaic")
    assert [path.name for path in tmp_path.iterdir()] == ["file:odd.mosaic"]
    assert smalti.read_table(f"file:{tmp_path}/file:odd.mosaic").num_rows == 1
    assert smalti.dataset("").count_rows() == 1
    with pytest.raises(pa.ArrowInvalid, match="empty scheme"):
        smalti.open("odd.mosaic", filesystem="file")
    with pytest.raises(TypeError, match="expected a pyarrow or fsspec file system, got int"):
        smalti.dataset("odd.mosaic", filesystem=5)
