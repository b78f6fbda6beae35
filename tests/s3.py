"""A real S3 server on loopback: moto's, in a process of its own, for as long as a `with` block lasts."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from types import TracebackType


class S3Server:
    """Starts the server and makes `buckets`.

    Attributes
    ----------
    environment : dict
        What a client needs to find it by ``s3://`` alone.
    query : str
        The same for the end of a URI.
    """

    def __init__(self, buckets: list[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._buckets = buckets
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }
        self.query = f"?scheme=http&endpoint_override=127.0.0.1:{self.port}&region=us-east-1"

    def __enter__(self) -> S3Server:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for bucket in self._buckets:
                self._make(bucket)
        except BaseException:
            self._stop()
            raise
        return self

    def _make(self, bucket: str) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{bucket}", method="PUT")
        end = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(request, timeout=5).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
