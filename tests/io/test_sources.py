"""Sources and sinks: the same contract on every kind, S3 included (moto's server speaks the real protocol)."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest

import smalti
from smalti.io import Range, Source, fetch, open_sink, open_source, sinks
from tests.support.s3 import S3Server

CONTENT = bytes(range(256)) * 300


@pytest.fixture(scope="module")
def s3() -> Iterator[pyarrow.fs.FileSystem]:
    with S3Server(buckets=["bucket"]) as server:
        yield pyarrow.fs.S3FileSystem(
            access_key="a", secret_key="b", endpoint_override=server.address, scheme="http", region="us-east-1"
        )


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
    "mapped file",
    "s3",
    "memory",
    "fsspec",
]


def opened(kind: str, tmp_path: Path, s3: pyarrow.fs.FileSystem) -> Source:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    if kind == "s3":
        with s3.open_output_stream("bucket/content") as stream:
            stream.write(CONTENT)
        return open_source("bucket/content", s3)
    if kind == "memory":
        sink = open_sink("memory://bucket/content")
        sink.write(CONTENT)
        sink.commit()
        return open_source("memory://bucket/content")
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
        "mapped file": mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ),
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


def test_a_spool_on_a_disk_that_writes_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unbuffered files may take fewer bytes than they are given, also while a spool in memory moves to disk."""

    class Halving(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(memoryview(data)[: (len(data) + 1) // 2])

    monkeypatch.setattr(sinks, "SPOOL_MEMORY", 1000)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Halving(tmp_path / "spool", "w+"))
    sink = open_sink("content", pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem()))
    for start in range(0, len(CONTENT), 700):
        sink.write(CONTENT[start : start + 700])
    sink.commit()
    assert (tmp_path / "content").read_bytes() == CONTENT


def test_paths_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `file:/...` is a URI of this machine; a file system is an object, or a URI with a scheme."""
    monkeypatch.chdir(tmp_path)
    smalti.write_table(pa.table({"a": [1]}), "file:odd.mosaic")
    assert [path.name for path in tmp_path.iterdir()] == ["file:odd.mosaic"]
    assert smalti.read_table(f"file:{tmp_path}/file:odd.mosaic").num_rows == 1
    assert smalti.dataset("").count_rows() == 1
    with pytest.raises(pa.ArrowInvalid, match="empty scheme"):
        smalti.open("odd.mosaic", filesystem="file")
    with pytest.raises(TypeError, match="expected a file system of pyarrow or fsspec, or a store of obstore, got int"):
        smalti.dataset("odd.mosaic", filesystem=5)
