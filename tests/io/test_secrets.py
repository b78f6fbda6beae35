"""Credentials that come with a URI are in no error, repr, summary or record."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.errors import without_secrets
from smalti.io import locate
from smalti.io.services import StorageOptions, store_settings
from tests.support.children import ROOT
from tests.support.s3 import S3Server

SECRET = "Zx9SECRETzX"

URIS = {
    # A library that takes a URI for a path escapes the mark before its query.
    f"GET http://host/t%3Fsig={SECRET}&se=1 failed": "GET http://host/t%3Fsig=***&se=*** failed",
    "s3://b/t?access_key=KEY&secret_key=a/b+c==&region=eu": "s3://b/t?access_key=***&secret_key=***&region=eu",
    "s3://b/t?endpointoverride=h:9000&SessionToken=x": "s3://b/t?endpointoverride=h:9000&SessionToken=***",
    "abfss://files@account.dfs.core.windows.net/t?sas_token=sv=1&sig=2": (
        "abfss://files@account.dfs.core.windows.net/t?sas_token=***&sig=***"
    ),
    "hdfs://ann:p@ss:w@host:8020/t": "hdfs://ann:***@host:8020/t",
    "hdfs://ann:pass@host:8020/t": "hdfs://ann:***@host:8020/t",
    "https://h/t?X-Amz-Signature=1&X-Amz-Credential=2#part": "https://h/t?X-Amz-Signature=***&X-Amz-Credential=***#part",
    "cannot open 's3://b/t?secret_key=k' now": "cannot open 's3://b/t?secret_key=***' now",
    "/data/what?secret_key=file.mosaic": "/data/what?secret_key=file.mosaic",
    "s3://b/t": "s3://b/t",
    "s3://KEY:se/cr+et=@b/t": "s3://KEY:***@b/t",
    "https://h:8080/t/a@b": "https://h:8080/t/a@b",
}


@pytest.mark.parametrize("text", URIS)
def test_what_is_shown_of_a_uri(text: str) -> None:
    assert without_secrets(text) == URIS[text]


def test_storage_options_show_their_names() -> None:
    options = StorageOptions(secret_key=SECRET, region="eu")
    assert repr(options) == str(options) == f"{options}" == "{'secret_key': ***, 'region': ***}"
    assert pickle.loads(pickle.dumps(options)) == {"secret_key": SECRET, "region": "eu"}
    assert type(pickle.loads(pickle.dumps(options))) is StorageOptions


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(["bucket"]) as server:
        yield server


@pytest.fixture
def secret_uri(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return lambda path: f"s3://bucket/{path}{server.query}&access_key={SECRET}&secret_key={SECRET}"


def shown(act: Callable[[], Any]) -> str:
    """All that an error shows of itself, also after it has travelled."""
    with pytest.raises(Exception, match=r"\w") as raised:
        act()
    error = raised.value
    again = pickle.loads(pickle.dumps(error))
    parts = [*traceback.format_exception(error), repr(error), repr(vars(error)), str(again), repr(vars(again))]
    return "\n".join([*parts, repr(getattr(error, "filename", ""))])


def test_no_error_shows_them(secret_uri: Callable[[str], str], server: S3Server) -> None:
    server.ask("/bucket/broken.mosaic", "PUT", b"not a Mosaic file" * 10)
    smalti.write_table(pa.table({"a": [1]}), secret_uri("good.mosaic"))
    writer = smalti.MosaicWriter(secret_uri("w.mosaic"), pa.schema([("a", pa.int64())]))
    unknown = "s3://bucket/t?access_kee=" + SECRET
    errors = [
        shown(lambda: smalti.open(secret_uri("none.mosaic"))),
        shown(lambda: smalti.open(secret_uri("broken.mosaic"))),
        shown(lambda: smalti.open(secret_uri("good.mosaic")).read(["b"])),
        shown(lambda: smalti.dataset(secret_uri("none"))),
        shown(lambda: smalti.dataset(secret_uri("broken.mosaic")).to_table()),
        shown(lambda: writer.write(pa.table({"a": ["x"]}))),
        shown(lambda: smalti.open(unknown)),
        shown(lambda: locate(f"nosuch://ann:{SECRET}@host/t")),
        shown(lambda: smalti.open(f"https://ann:{SECRET}@127.0.0.1:9/t")),
        shown(lambda: smalti.open(f"http://{server.address}/none/t?sig={SECRET}")),
        *(
            shown(lambda act=act, uri=uri: act(uri))  # type: ignore[misc]
            for act in (smalti.open, smalti.dataset, lambda uri: smalti.write_table(pa.table({"a": [1]}), uri))
            for uri in (
                f"s3://KEY:{SECRET}@none/t.mosaic{server.query}",
                f"s3a://KEY:{SECRET}/x@bucket/t.mosaic",
                f"s3://KEY:1/{SECRET}@bucket/t.mosaic",
                f"s3://:{SECRET}@bucket/t.mosaic",
                f"s3://KEY:{SECRET}",
                f"gs://KEY:{SECRET}@bucket/t.mosaic",
                f"abfss://files:{SECRET}@account.dfs.core.windows.net/t.mosaic",
            )
        ),
        shown(lambda: jobs.convert(secret_uri("broken.mosaic"), secret_uri("out.parquet"))),
        shown(lambda: jobs.compact(secret_uri("none"))),
        shown(lambda: jobs.convert(secret_uri("good.mosaic"), secret_uri("good.mosaic"), overwrite=True)),
    ]
    assert [error for error in errors if SECRET in error] == []


def test_credentials_before_the_bucket(secret_uri: Callable[[str], str], server: S3Server) -> None:
    """As pyarrow takes them; the bucket was called KEY:SECRET@bucket."""
    uri = f"s3://KEY:{SECRET}%2F@bucket/before.mosaic{server.query}"
    smalti.write_table(pa.table({"a": [1]}), uri)
    assert smalti.read_table(secret_uri("before.mosaic")).to_pydict() == {"a": [1]}
    with smalti.open(uri) as file:
        assert SECRET not in repr(file) + repr(smalti.dataset(uri).files)
    assert dict(store_settings(uri, {})[0].config).items() >= {
        ("access_key_id", "KEY"),
        ("secret_access_key", f"{SECRET}/"),
    }


def test_nothing_else_shows_them(secret_uri: Callable[[str], str], server: S3Server) -> None:
    smalti.write_table(pa.table({"a": [1, 2]}), secret_uri("t/one.mosaic"))
    smalti.write_table(pa.table({"a": [3]}), secret_uri("t/two.mosaic"))
    table = smalti.dataset(secret_uri("t"))
    location = locate(secret_uri("t"))
    with smalti.open(secret_uri("t/one.mosaic")) as file:
        texts = [repr(file), file._repr_html_(), repr(file.row_group(0)), repr(file.layout()), repr(file.scan())]
    converted = jobs.convert([secret_uri("t")], secret_uri("copy"))
    compacted = jobs.compact(secret_uri("t"))
    profile = jobs.profile(secret_uri("t"))
    texts += [repr(table), repr(table.files), repr(location), repr(location.stores), repr(converted), repr(compacted)]
    texts += [str(converted.to_dict()), str(profile.source), repr(profile), repr(jobs.verify(secret_uri("t")))]
    texts += [server.ask("/bucket?list-type=2").decode()]
    assert "access_key=***" in converted.source
    # Records of commits stay in the table, where everybody who may read it reads them.
    records = [info.path for info in locate(secret_uri("t")).child("_mosaic_jobs").entries() if info.size]
    assert records
    texts += [locate(secret_uri("")).child(path.partition("/")[2]).read_bytes().decode() for path in records]
    assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize("path", ["none.mosaic", "t.mosaic"])
def test_the_command_line_shows_none(path: str, secret_uri: Callable[[str], str]) -> None:
    smalti.write_table(pa.table({"a": [1, 2]}), secret_uri("t.mosaic"))
    command = [sys.executable, "-m", "smalti", "meta", secret_uri(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
