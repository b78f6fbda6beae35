"""Commands on a real S3 protocol: moto's server on loopback, pyarrow's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smalti
from tests.support.s3 import S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(buckets=["tables"]) as running:
        yield running


@pytest.mark.parametrize("way", ["environment", "query"])
def test_commands_on_s3(run: Any, server: S3Server, mixed: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    from pyarrow.fs import FileSystem

    for name, value in server.environment.items():
        if way == "environment" or name != "AWS_ENDPOINT_URL":
            monkeypatch.setenv(name, value)
    query = server.query if way == "query" else ""
    uri = f"s3://tables/{way}.mosaic{query}"
    filesystem, inner = FileSystem.from_uri(uri)
    with filesystem.open_output_stream(inner) as stream:
        stream.write(mixed.read_bytes())
    assert json.loads(run("meta", uri, "--json").out)["rows"] == 100
    assert run("count", uri, "--where", "id >= 95").out == "5\n"
    assert run("head", uri, "-c", "id", "-n", 1, "--json").out == '{"id": 0}\n'
    assert run("diff", uri, mixed).out == "files are equal\n"
    assert run("report", uri, "-o", f"s3://tables/{way}.html{query}").code == 0
    with filesystem.open_input_stream(f"tables/{way}.html") as stream:
        assert stream.read().startswith(b"<!doctype html>")
    assert "--overwrite" in run("report", uri, "-o", f"s3://tables/{way}.html{query}").err
    missing = run("head", f"s3://tables/none.mosaic{query}")
    assert missing.code == 1
    assert missing.err.count("\n") == 1


def test_a_bucket_that_is_not_there(run: Any, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message named a path that nobody had typed: 'nobucket/_mosaic_jobs'."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    assert run("head", "s3://nobucket/nope.mosaic").err == "smalti: error: s3://nobucket: No such bucket\n"
    with pytest.raises(FileNotFoundError, match="No such bucket: 's3://nobucket'"):
        smalti.read_table("s3://nobucket/nope.mosaic")
