"""Commands on a real S3 protocol: moto's server on loopback, pyarrow's own client."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SETTINGS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The query part of URIs into a bucket of a server that lives as long as this module's tests."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{port}/tables", method="PUT")
                urllib.request.urlopen(request, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
    finally:
        server.terminate()
        server.wait(20)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def test_commands_on_s3(run: Any, bucket: str, mixed: Path) -> None:
    from pyarrow.fs import FileSystem

    uri = f"s3://tables/mixed.mosaic{bucket}"
    filesystem, inner = FileSystem.from_uri(uri)
    with filesystem.open_output_stream(inner) as stream:
        stream.write(mixed.read_bytes())
    assert json.loads(run("meta", uri, "--json").out)["rows"] == 100
    assert run("count", uri, "--where", "id >= 95").out == "5\n"
    assert run("head", uri, "-c", "id", "-n", 1, "--json").out == '{"id": 0}\n'
    assert run("diff", uri, mixed).out == "files are equal\n"
    page = f"s3://tables/page.html{bucket}"
    assert run("report", uri, "-o", page).code == 0
    with filesystem.open_input_stream("tables/page.html") as stream:
        assert stream.read().startswith(b"<!doctype html>")
    missing = run("head", f"s3://tables/none.mosaic{bucket}")
    assert missing.code == 1
    assert missing.err.count("\n") == 1
