"""Object stores on a real S3 protocol: how often they are asked, for which bytes, and what a failure leaves behind."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import obstore
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import s3fs
from benchmarks.remote import bytes_needed

import smalti
from smalti.errors import MosaicError, UnsupportedFeatureError
from smalti.io import Location, Range, fetch, locate, open_sink, open_source
from smalti.io.services import store_settings
from smalti.io.sources import REMOTE_TAIL
from smalti.table.listing import list_files, open_found
from tests.support.children import ROOT
from tests.support.s3 import Request, S3Server, rounds

MIB = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(buckets=["bucket"]) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.reset()


@pytest.fixture(params=["uri", "pyarrow", "s3fs"])
def way(request: pytest.FixtureRequest, server: S3Server) -> tuple[str, Any]:
    """What goes before the name of an object, and the file system to pass: the three ways to the same bucket."""
    if request.param == "uri":
        return "s3://bucket/", None
    if request.param == "pyarrow":
        return "bucket/", pyarrow.fs.S3FileSystem(endpoint_override=server.address, scheme="http", region="us-east-1")
    return "bucket/", s3fs.S3FileSystem(
        endpoint_url=f"http://{server.address}", skip_instance_cache=True, default_block_size=6 * MIB
    )


def wide(columns: int, rows: int) -> pa.Table:
    return pa.table({f"c{i:05d}": [i * at for at in range(rows)] for i in range(columns)})


class TestEveryWay:
    def test_round_trip_with_projection_and_filter(self, way: tuple[str, Any]) -> None:
        start, filesystem = way
        table = pa.table({f"c{i:04d}": [i, i + 1, None] for i in range(2000)})
        smalti.write_table(table, f"{start}wide.mosaic", filesystem=filesystem, stats_columns=["c0000"])
        assert smalti.read_table(f"{start}wide.mosaic", filesystem=filesystem).equals(table)
        found = smalti.read_table(f"{start}wide.mosaic", ["c1999"], [("c0000", ">", 0)], filesystem=filesystem)
        assert found.to_pydict() == {"c1999": [2000]}

    def test_a_failed_write_shows_nothing_and_keeps_what_was_there(self, way: tuple[str, Any]) -> None:
        start, filesystem = way
        before = pa.table({"a": [1]})
        smalti.write_table(before, f"{start}kept.mosaic", filesystem=filesystem)
        writer = smalti.MosaicWriter(f"{start}kept.mosaic", pa.schema([("a", pa.int64())]), filesystem=filesystem)
        writer.write(pa.table({"a": [2]}))
        with pytest.raises(smalti.SchemaError):
            writer.write(pa.table({"b": [2]}))
        assert smalti.read_table(f"{start}kept.mosaic", filesystem=filesystem).equals(before)

    @pytest.mark.parametrize("refused", ["uploads", "partNumber=2", "POST /bucket/big?uploadId"])
    def test_a_failed_upload_keeps_what_was_there_and_may_be_tried_again(
        self, way: tuple[str, Any], server: S3Server, refused: str
    ) -> None:
        start, filesystem = way
        smalti.write_table(pa.table({"a": [1]}), f"{start}big", filesystem=filesystem)
        table = pa.table({"a": [os.urandom(MIB) for _ in range(24)]})
        writer = smalti.MosaicWriter(f"{start}big", table.schema, filesystem=filesystem)
        writer.write(table)
        before = server.open_uploads("bucket")
        server.reset(fail=refused, times=20)
        with pytest.raises(OSError, match=r"403|FORBIDDEN|[Ff]orbidden|ACCESS_DENIED|privileges"):
            writer.close()
        assert any(refused.partition("?")[2] in request.query for request in server.requests())
        server.reset()
        if filesystem is None or isinstance(filesystem, s3fs.S3FileSystem):  # pyarrow offers no way to abort
            assert server.open_uploads("bucket") == before
        assert smalti.read_table(f"{start}big", filesystem=filesystem).to_pydict() == {"a": [1]}
        with pytest.raises(MosaicError, match="writer is closed"):
            writer.write(table)
        writer.close()
        assert writer.summary is not None
        assert smalti.read_table(f"{start}big", filesystem=filesystem).equals(table)

    @pytest.mark.parametrize("way", ["uri", "s3fs"], indirect=True)  # pyarrow gets all bytes in one call
    def test_an_error_of_this_machine_leaves_what_was_there(
        self, way: tuple[str, Any], server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The spooled file cannot be read to its end."""
        start, filesystem = way
        smalti.write_table(pa.table({"a": [1]}), f"{start}spooled", filesystem=filesystem)
        sink: Any = open_sink(f"{start}spooled", filesystem)
        sink.write(os.urandom(24 * MIB))
        read, left, before = sink._file.read, [2], server.open_uploads("bucket")

        def failing(size: int = -1) -> bytes:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(5, "the disk is gone")
            return read(size)

        monkeypatch.setattr(sink._file, "read", failing)
        with pytest.raises(OSError, match="the disk is gone"):
            sink.commit()
        sink.abort()
        assert server.open_uploads("bucket") == before
        assert smalti.read_table(f"{start}spooled", filesystem=filesystem).to_pydict() == {"a": [1]}

    def test_missing(self, way: tuple[str, Any]) -> None:
        start, filesystem = way
        with pytest.raises(FileNotFoundError):
            smalti.open(f"{start}nowhere.mosaic", filesystem=filesystem)

    def test_a_dataset(self, way: tuple[str, Any]) -> None:
        start, filesystem = way
        for day in (1, 2):
            smalti.write_table(pa.table({"a": [day]}), f"{start}ds/day={day}/x.mosaic", filesystem=filesystem)
        found = smalti.dataset(f"{start}ds", filesystem=filesystem).to_table(filters=[("day", "=", 2)])
        assert found.to_pydict() == {"a": [2], "day": [2]}

    def test_three_columns_are_not_the_whole_file(self, way: tuple[str, Any], server: S3Server) -> None:
        start, filesystem = way
        table = pa.table({f"c{i:03d}": [os.urandom(40_000)] for i in range(300)})
        smalti.write_table(table, f"{start}large.mosaic", filesystem=filesystem, compression="none")
        server.reset()
        columns = ["c001", "c150", "c290"]
        assert smalti.read_table(f"{start}large.mosaic", columns, filesystem=filesystem).equals(table.select(columns))
        wanted = 3 * 3 * 40_000  # a bucket has three columns
        assert sum(request.sent for request in server.requests()) <= 1.05 * wanted + REMOTE_TAIL


class TestRequests:
    """What an object store is asked for, when it is reached by URI."""

    @pytest.mark.parametrize("threshold", [1 << 30, 0], ids=["monolithic", "paged"])
    @pytest.mark.parametrize("count", [1, 3, 100, 3000])
    def test_opening_is_one_request_and_reading_one_round_or_two(
        self, server: S3Server, threshold: int, count: int
    ) -> None:
        table = pa.table({f"c{i:04d}": [os.urandom(1500)] for i in range(3000)})
        uri = f"s3://bucket/{threshold}.mosaic"
        smalti.write_table(table, uri, page_size_threshold=threshold)
        columns = table.column_names[:: 3000 // count][:count]
        latency = 1.0 if count == 100 else 0.3  # the server must have all requests before it answers the first
        with smalti.open(uri) as file:
            needed = bytes_needed(file, columns)
            server.reset()
            with smalti.open(uri) as file:
                (opening,) = server.requests()
                assert (opening.method, opening.span) == ("GET", f"bytes=-{REMOTE_TAIL}")
                server.reset(latency=latency)
                assert file.read(columns).equals(table.select(columns))
        requests = server.requests()
        assert rounds(requests) == 1
        # Bytes that are not needed are read only in place of requests.
        assert sum(request.sent for request in requests) <= (1.05 * needed if count in (1, 3000) else file._source.size)
        assert len(requests) <= (100 if count == 100 else 2 * count)
        assert not overlapping([*requests, opening], REMOTE_TAIL, file._source.size)

    def test_a_small_file_is_one_request_in_all(self, server: S3Server) -> None:
        table = pa.table({f"c{i}": [i] for i in range(500)})
        smalti.write_table(table, "s3://bucket/small.mosaic")
        server.reset()
        assert smalti.read_table("s3://bucket/small.mosaic").equals(table)
        assert [request.method for request in server.requests()] == ["GET"]

    def test_long_ranges_are_fetched_in_pieces_at_the_same_time(self, server: S3Server) -> None:
        data = os.urandom(30 * MIB)
        sink = open_sink("s3://bucket/long")
        sink.write(data)
        sink.commit()
        source = open_source("s3://bucket/long")
        server.reset(latency=0.5)
        (found,) = fetch(source, [Range(0, 30 * MIB - REMOTE_TAIL)])
        assert found == data[: 30 * MIB - REMOTE_TAIL]
        assert [len(server.requests()), rounds(server.requests())] == [4, 1]

    def test_a_replaced_file_is_an_error_and_never_a_mix(self) -> None:
        first, second = (pa.table({f"c{i}": [os.urandom(4000)] for i in range(300)}) for _ in range(2))
        smalti.write_table(first, "s3://bucket/replaced", compression="none")
        with smalti.open("s3://bucket/replaced") as file:
            smalti.write_table(second, "s3://bucket/replaced", compression="none")
            with pytest.raises(MosaicError, match=r"bucket/replaced.*was replaced while it was read"):
                file.read(["c0", "c200"])
            smalti.write_table(first, "s3://bucket/replaced", compression="none")
            assert file.read(["c0"]).equals(first.select(["c0"]))  # The same bytes have the same ETag.

    def test_an_empty_object_is_no_file(self) -> None:
        open_sink("s3://bucket/empty").commit()
        with pytest.raises(smalti.CorruptFileError):
            smalti.open("s3://bucket/empty")

    def test_a_file_of_another_format_is_read_by_ranges(self, server: S3Server) -> None:
        """pyarrow's readers, which the jobs use, work on the same file system."""
        table = wide(200, 1000)
        location = locate("s3://bucket/t.parquet")
        with location.filesystem.open_output_stream(location.path) as stream:
            pq.write_table(table, stream)
        size = location.info().size
        server.reset()
        with location.filesystem.open_input_file(location.path) as file:
            assert pq.read_table(file, columns=["c00007"]).equals(table.select(["c00007"]))
        assert sum(request.sent for request in server.requests()) < size / 2


def overlapping(requests: list[Request], tail: int, size: int) -> bool:
    """Whether some byte was fetched twice."""
    spans = sorted(span(request, tail, size) for request in requests)
    return any(one[1] > following[0] for one, following in pairwise(spans))


def span(request: Request, tail: int, size: int) -> tuple[int, int]:
    start, end = request.span.removeprefix("bytes=").split("-")
    return (int(start), int(end) + 1) if start else (size - tail, size)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], 0),
        ([(0, 1)], 1),
        ([(0, 1), (0, 2), (1, 2)], 2),
        ([(0, 10), (1, 2), (3, 4), (5, 6)], 3),  # one that takes long does not hide those beside it
        ([(0, 3), (1, 4), (2, 5)], 1),
    ],
)
def test_rounds(times: list[tuple[float, float]], expected: int) -> None:
    assert rounds(Request("GET", "/", "", "", start, end, 0) for start, end in times) == expected


AZURE = {"account_name": "a", "account_key": "k"}


@pytest.mark.parametrize(
    ("uri", "storage", "service", "path", "config"),
    [
        ("s3://b/t/x%3A y", {}, "s3", "b/t/x%3A y", {}),
        ("s3a://b/t/", {"accesskey": "k"}, "s3", "b/t", {"access_key_id": "k"}),
        ("s3n://b", {"anonymous": "true"}, "s3", "b", {"skip_signature": True}),
        ("s3://b/t", {"endpoint_override": "h:1"}, "s3", "b/t", {"endpoint": "https://h:1"}),
        ("s3://b/t", {"endpoint_override": "http://h:1"}, "s3", "b/t", {"endpoint": "http://h:1"}),
        ("s3://b/t?region=r", {"region": "q"}, "s3", "b/t", {"region": "q"}),
        ("gcs://b/t", {"access_token": "x", "project_id": "p"}, "gs", "b/t", {"bearer_token": "x"}),
        ("gs://b/t", {"endpoint_override": "h", "scheme": "http"}, "gs", "b/t", {"base_url": "http://h"}),
        ("az://c/t", AZURE, "abfs", "c/t", AZURE),
        (
            "abfss://c@a.dfs.core.windows.net/t",
            {"sas_token": "s"},
            "abfs",
            "c/t",
            {"account_name": "a", "sas_key": "s"},
        ),
        (
            "abfs://c/t",
            {**AZURE, "blob_storage_authority": ".blob.other.net"},
            "abfs",
            "c/t",
            {**AZURE, "endpoint": "https://a.blob.other.net"},
        ),
        (
            "abfs://c/t",
            {**AZURE, "blob_storage_authority": "h:1", "blob_storage_scheme": "http"},
            "abfs",
            "c/t",
            {**AZURE, "endpoint": "http://h:1/a"},
        ),
        ("s3://k:s%40@b/t", {}, "s3", "b/t", {"access_key_id": "k", "secret_access_key": "s@"}),
        ("s3://k:s@b/t", {"secretkey": "q"}, "s3", "b/t", {"access_key_id": "k", "secret_access_key": "q"}),
        ("gs://anonymous@b/t", {}, "gs", "b/t", {"skip_signature": True}),
        ("https://h:1/t?v=1", {}, "https", "h:1/t?v=1", {}),
        ("memory:///t", {}, "memory", "t", {}),
    ],
)
def test_uris(uri: str, storage: dict[str, str], service: str, path: str, config: dict[str, Any]) -> None:
    settings, found = store_settings(uri, storage)
    assert (settings.service, found, dict(settings.config)) == (service, path, config)


@pytest.mark.parametrize(
    ("uri", "storage", "message"),
    [
        ("s3://b/t", {"password": "p"}, "unknown storage option 'password' for s3; there are access_key, "),
        ("s3://b/t?regoin=r", {}, "unknown storage option 'regoin' for s3; did you mean 'region'"),
        ("http://h/t", {"region": "r"}, "storage options are not known for this scheme: found http"),
        ("s3:///t", {}, "names no bucket"),
        ("s3://k@b/t", {}, r"s3://\*\*\*: the URI names no bucket in a form that is known"),
        ("s3://k:s/s@b/t", {}, "in which %2F stands for a slash in the secret"),
    ],
)
def test_uris_that_are_refused(uri: str, storage: dict[str, str], message: str) -> None:
    with pytest.raises(MosaicError, match=message):
        locate(uri, storage_options=storage)


class TestPlaces:
    """The operations that listings and commits use, the same as with pyarrow's own file system."""

    @pytest.fixture
    def locations(self, server: S3Server) -> list[Location]:
        ours = locate("s3a://bucket/tree")
        arrow = pyarrow.fs.S3FileSystem(endpoint_override=server.address, scheme="http", region="us-east-1")
        for name in ["a=1%3A2/x y", "a=1%3A2/z", "b/c/d", "top"]:
            smalti.io.write_whole(ours.child(name), name.encode())
        return [ours, Location(arrow, ours.path)]

    @pytest.mark.parametrize("recursive", [False, True])
    @pytest.mark.parametrize("below", ["", "a=1%3A2", "b", "none", "top"])
    def test_listings(self, locations: list[Location], recursive: bool, below: str) -> None:
        ours, arrow = (
            sorted((info.path, info.kind, info.size) for info in location.child(below).entries(recursive=recursive))
            for location in locations
        )
        assert ours == arrow
        assert ours or below in ("none", "top")

    @pytest.mark.parametrize("name", ["", "a=1%3A2", "a=1%3A2/x y", "b/c", "b/c/d", "b/", "none", "to"])
    def test_infos(self, locations: list[Location], name: str) -> None:
        ours, arrow = (location.child(name).info() for location in locations)
        assert (ours.path, ours.kind, ours.size) == (arrow.path, arrow.kind, arrow.size)
        if ours.is_file:
            assert ours.modified == arrow.modified
            assert ours.etag

    def test_moving_and_deleting(self, locations: list[Location]) -> None:
        root = locations[0]
        root.filesystem.move(root.child("top").path, root.child("b/moved").path)
        assert (root.child("top").exists(), root.child("b/moved").read_bytes()) == (False, b"top")
        with pytest.raises(FileNotFoundError, match="tree/none"):
            root.filesystem.move(root.child("none").path, root.child("x").path)
        root.filesystem.delete_dir(root.child("b").path)
        assert not root.child("b").exists()
        assert root.child("a=1%3A2/z").exists()
        root.filesystem.delete_dir(root.path)
        assert not root.exists()

    def test_what_the_store_refuses_to_copy_is_not_copied_otherwise(
        self, locations: list[Location], server: S3Server
    ) -> None:
        """The store may still carry out what it has refused, so nothing else may write there meanwhile."""
        root = locations[0]
        server.reset(fail="PUT /bucket/tree/copied")
        with pytest.raises(PermissionError):
            root.filesystem.copy_file(root.child("top").path, root.child("copied").path)
        assert not root.child("copied").exists()
        root.filesystem.delete_dir(root.path)

    def test_many_deletions_are_few_requests(self, locations: list[Location], server: S3Server) -> None:
        root = locations[0]
        server.reset()
        assert root.delete_files([root.child(f"gone-{number}").path for number in range(2500)]) == {}
        assert [request.method for request in server.requests()] == ["POST"] * 3
        server.reset(fail="POST /bucket", times=2)
        failed = root.delete_files([root.child(f"gone-{number}").path for number in range(1500)])
        assert len(failed) == 1500
        assert isinstance(failed[root.child("gone-0").path], PermissionError)

    def test_copies_that_replace_nothing(self, locations: list[Location]) -> None:
        root = locations[0]
        assert root.stores is not None
        assert root.stores.copy_new(root.child("top").path, root.child("new").path)
        assert not root.stores.copy_new(root.child("b/c/d").path, root.child("new").path)
        assert root.child("new").read_bytes() == b"top"
        copy = obstore.copy

        def unable(*arguments: Any, overwrite: bool = True) -> None:
            if not overwrite:
                raise obstore.exceptions.NotSupportedError("no conditions")
            copy(*arguments)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(obstore, "copy", unable)
            assert not root.stores.copy_new(root.child("top").path, root.child("new").path)
            assert root.stores.copy_new(root.child("top").path, root.child("newer").path)
        root.filesystem.delete_dir(root.path)

    def test_names_that_are_no_paths(self, locations: list[Location], server: S3Server) -> None:
        client = boto3.client("s3", endpoint_url=server.environment["AWS_ENDPOINT_URL"])
        client.put_object(Bucket="bucket", Key="tree//x.mosaic", Body=b"x")
        with pytest.raises(smalti.MosaicError, match=r"rename or delete the object: found .*tree//x\.mosaic"):
            locations[0].entries(recursive=True)
        client.delete_object(Bucket="bucket", Key="tree//x.mosaic")

    def test_a_mark_of_a_directory_is_no_file(self, server: S3Server) -> None:
        server.ask("/bucket/marked/", "PUT")
        server.ask("/bucket/marked/sub/", "PUT")
        smalti.write_table(pa.table({"a": [1]}), "s3://bucket/marked/sub/x.mosaic")
        found = locate("s3://bucket/marked").entries(recursive=True)
        assert [info.name for info in found if info.is_file] == ["x.mosaic"]
        assert smalti.dataset("s3://bucket/marked").count_rows() == 1

    def test_an_object_named_like_a_directory_is_a_file(self) -> None:
        for number, name in enumerate(["sub.mosaic", "sub.mosaic/x.mosaic"]):
            smalti.write_table(pa.table({"a": [number]}), f"s3://bucket/twice/{name}")
        assert smalti.dataset("s3://bucket/twice").to_table()["a"].to_pylist() == [0, 1]

    def test_deleting_a_marked_directory_keeps_the_object_of_the_same_name(self, server: S3Server) -> None:
        server.ask("/bucket/same/", "PUT")
        for name in ("same", "same/x"):
            smalti.io.write_whole(locate(f"s3://bucket/{name}"), b"x")
        location = locate("s3://bucket/same")
        location.filesystem.delete_dir(location.path)
        assert (location.read_bytes(), location.child("x").exists()) == (b"x", False)

    def test_other_processes_get_the_same_place(self) -> None:
        location = locate("s3://bucket/t", storage_options={"accessKey": "k", "secretKey": "s"})
        again = pickle.loads(pickle.dumps(location))
        assert again.filesystem.equals(location.filesystem)
        assert again.path == "bucket/t"
        assert "secret" not in repr(location)

    def test_errors_name_the_place_in_one_line(self, server: S3Server) -> None:
        with pytest.raises(FileNotFoundError, match=r"No such bucket.*s3://nowhere") as error:
            locate("s3://nowhere/x").read_bytes()
        assert "\n" not in str(error.value)
        server.reset(fail="/bucket/secret")
        with pytest.raises(PermissionError, match=r"403 Forbidden.*bucket/secret") as refused:
            locate("s3://bucket/secret").read_bytes()
        assert "\n" not in str(refused.value)


class TestExclusiveCreation:
    @pytest.mark.parametrize("start", ["s3://bucket", "memory://bucket", "local"])
    def test_one_of_many_wins(self, start: str, tmp_path: Path) -> None:
        location = locate(tmp_path / "record" if start == "local" else f"{start}/records/{os.urandom(4).hex()}")
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda number: location.create_exclusively(b"%d" % number), range(8)))
        assert won.count(True) == 1
        assert location.read_bytes() == b"%d" % won.index(True)
        if start == "local":
            assert [path.name for path in tmp_path.iterdir()] == ["record"]

    def test_an_answer_that_got_lost(self) -> None:
        location = locate("s3://bucket/lost")
        assert location.create_exclusively(b"mine")
        assert location.create_exclusively(b"mine")  # as when the request is sent again
        assert not location.create_exclusively(b"another's")

    def test_not_everywhere(self, server: S3Server) -> None:
        arrow = pyarrow.fs.S3FileSystem(endpoint_override=server.address, scheme="http", region="us-east-1")
        for location in [Location(arrow, "bucket/x"), locate("https://example.org/x")]:
            with pytest.raises(UnsupportedFeatureError, match="cannot create a file only if there is none"):
                location.create_exclusively(b"")

    def test_local_directories_have_to_exist(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            locate(tmp_path / "no" / "record").create_exclusively(b"")


class TestHttp:
    @pytest.fixture
    def address(self, tmp_path: Path) -> Iterator[str]:
        handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
            threading.Thread(target=web.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{web.server_port}"
            web.shutdown()

    def test_a_server_that_knows_no_ranges(self, address: str, tmp_path: Path) -> None:
        table = pa.table({f"c{i}": [os.urandom(4000)] for i in range(300)})
        smalti.write_table(table, tmp_path / "t.mosaic")
        assert smalti.read_table(f"{address}/t.mosaic", ["c7"]).equals(table.select(["c7"]))
        with pytest.raises(FileNotFoundError):
            smalti.open(f"{address}/none.mosaic")

    def test_a_server_that_knows_ranges(self, server: S3Server) -> None:
        table = pa.table({f"c{i}": [os.urandom(4000)] for i in range(300)})
        buffer = io.BytesIO()
        smalti.write_table(table, buffer)
        server.ask("/bucket/web.mosaic", "PUT", buffer.getvalue(), {"x-amz-acl": "public-read", "Content-Type": "a/b"})
        server.reset()
        assert smalti.read_table(f"http://{server.address}/bucket/web.mosaic", ["c0"]).equals(table.select(["c0"]))
        assert [request.method for request in server.requests()] == ["GET", "GET"]


def test_an_object_of_the_same_size_in_the_place_of_one_that_was_listed() -> None:
    """A read in parts would have rows of both; stores tell times in seconds, and another one for what they move."""
    uri = "s3://bucket/same-size/a.mosaic"
    smalti.write_table(pa.table({"a": ["old"]}), uri)
    listing = list_files("s3://bucket/same-size")
    file = listing.files[0]
    open_found(file, listing.filesystem).close()
    older = replace(file, modified=file.modified - 3 * 10**9, etag="")
    smalti.write_table(pa.table({"a": ["new"]}), uri)
    for found in (file, older):
        with pytest.raises(smalti.MosaicError, match="replaced after the table was listed"):
            open_found(found, listing.filesystem)
    open_found(replace(older, path=f"{file.path}-staged", final=file.path), listing.filesystem).close()


def test_without_obstore_the_error_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "obstore.py").write_text("raise ModuleNotFoundError('No module', name='obstore')")
    command = "import smalti; smalti.open('s3://bucket/x')"
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", command], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert "s3://bucket/x: object stores need the package obstore: pip install 'smalti[cloud]'" in done.stderr


def test_a_forked_child_gets_an_error_and_does_not_wait_for_ever() -> None:
    smalti.write_table(pa.table({"a": [1]}), "s3://bucket/fork.mosaic")
    child = os.fork()
    if child == 0:  # pragma: no cover
        signal.alarm(20)
        try:
            smalti.open("s3://bucket/fork.mosaic")
        except MosaicError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_profiles_of_the_aws_tools(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smalti.write_table(pa.table({"a": [1]}), "s3://bucket/profile.mosaic")
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = k\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert smalti.read_table("s3://bucket/profile.mosaic").num_rows == 1
    assert server.requests()[-1].method == "GET"
