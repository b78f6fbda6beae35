"""The S3 server of the tests is the counting one of the benchmark."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks.s3_server import Request, S3Server, rounds

__all__ = ["Request", "S3Server", "rounds", "s3_by_uri"]


@contextmanager
def s3_by_uri(bucket: str) -> Iterator[S3Server]:
    """Run a server with one bucket, which this process reaches by ``s3://`` alone while the block lasts."""
    with S3Server(buckets=[bucket]) as server, pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment.items():
            patched.setenv(name, value)
        yield server
