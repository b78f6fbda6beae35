"""A real S3 server on loopback that counts: moto's, in a process of its own, for as long as a `with` block lasts.

It can make every request take longer, as a network would, and refuse requests, as services do. ``python -m
tests.support.s3 PORT`` is that process; the tests and the benchmark use `S3Server`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

#: Below this path the server is told what to do, and tells what it has counted.
CONTROL = "/counting-s3/"


@dataclass(frozen=True)
class Request:
    """One request: when the server had its headers and when it had the answer, in seconds, and the bytes it sent."""

    method: str
    path: str
    query: str
    span: str
    started: float
    ended: float
    sent: int


@functools.cache
def shared_server() -> S3Server:
    """Return the server that all tests of this process share, because it takes seconds to start. Use own buckets."""
    server = S3Server(buckets=[]).__enter__()
    atexit.register(server.__exit__, None, None, None)
    return server


@contextlib.contextmanager
def s3_by_uri(bucket: str) -> Iterator[S3Server]:
    """Make a bucket in the shared server, which this process reaches by ``s3://`` alone while the block lasts."""
    server = shared_server()
    server.make(bucket)
    server.reset()
    with mock.patch.dict(os.environ, server.environment):
        yield server


def rounds(requests: Iterable[Request]) -> int:
    """How many times a client had to wait for an answer before it could ask on, at least.

    That is the length of the longest chain of requests each of which began after the one before had been answered.
    Requests that overlap in time are in the same round.
    """
    count, answered = 0, float("-inf")
    for request in sorted(requests, key=lambda request: request.ended):
        if request.started >= answered:
            count, answered = count + 1, request.ended
    return count


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
        self.address = f"127.0.0.1:{self.port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{self.address}",
        }
        self.query = f"?scheme=http&endpoint_override={self.address}&region=us-east-1"

    def __enter__(self) -> S3Server:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.s3", str(self.port)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for bucket in self._buckets:
                self.make(bucket)
        except BaseException:
            self._stop()
            raise
        return self

    def make(self, bucket: str) -> None:
        """Make a bucket, as soon as the server has started."""
        end = time.monotonic() + 60
        while True:
            try:
                self.ask(f"/{bucket}", "PUT")
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def ask(self, path: str, method: str = "GET", data: bytes | None = None, headers: Any = None) -> bytes:
        """The answer to a request without a signature, which moto does not need."""
        url = f"http://{self.address}{path}"
        request = urllib.request.Request(url, data, headers or {}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def reset(self, *, latency: float = 0, fail: str = "", times: int = 1, after: int = 0, how: str = "403") -> None:
        """Forget what was counted, and set how long every request takes in addition, in seconds.

        The next `times` requests in which `fail` occurs are refused; `after` so many such requests are answered first.
        It is looked for in ``"METHOD path?query"``. `how` is the number of a status, ``"cut"`` to close the connection
        without an answer, ``"lost"`` to do so after the request was carried out, or ``"half"`` in the middle of the
        answer.
        """
        told = {"latency": latency, "fail": fail, "times": times, "after": after, "how": how}
        quoted = urllib.parse.urlencode(told)
        self.ask(f"{CONTROL}reset?{quoted}", "POST")

    def requests(self) -> list[Request]:
        """What was asked since `reset`."""
        return [Request(**fields) for fields in json.loads(self.ask(f"{CONTROL}requests"))]

    def open_uploads(self, bucket: str) -> int:
        """Multipart uploads that were neither completed nor aborted."""
        return self.ask(f"/{bucket}?uploads").count(b"<UploadId>")

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


# --- the process of the server --------------------------------------------------------------------------------------


class Counting:
    """A WSGI application around another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._requests: list[Request] = []
        self._latency, self._fail, self._times, self._after, self._how = 0.0, "", 0, 0, "403"
        self._deciding = threading.Lock()
        #: moto looks whether an object is there, or which one, and then puts another; S3 does both at once.
        self._creating = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        started = time.monotonic()
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        if path.startswith(CONTROL):
            return self._control(path.removeprefix(CONTROL), urllib.parse.parse_qs(query), start)
        time.sleep(self._latency)
        asked = f"{environ['REQUEST_METHOD']} {path}?{query}"
        how = self._fault(asked)
        if how.isdecimal() or how == "cut":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            if how == "cut":
                _hang_up(environ)
            start(f"{how} Refused", [("Content-Length", "0")])
            answer: Iterable[bytes] = [b""]
        elif environ["REQUEST_METHOD"] == "PUT" and {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environ.keys():
            with self._creating:
                answer = [b"".join(self._inner(environ, start))]
        else:
            answer = self._inner(environ, start)
        # Counted before it is sent, so that a client that has its answer finds it counted.
        body = b"".join(answer)
        span = environ.get("HTTP_RANGE", "")
        request = Request(environ["REQUEST_METHOD"], path, query, span, started, time.monotonic(), len(body))
        self._requests.append(request)
        if how == "lost":
            _hang_up(environ)
        return _half(body, environ) if how == "half" else [body]

    def _fault(self, asked: str) -> str:
        """How a request is to fail; an empty text if it is not."""
        with self._deciding:
            if not self._times or not self._fail or self._fail not in asked:
                return ""
            if self._after:
                self._after -= 1
                return ""
            self._times -= 1
            return self._how

    def _control(self, what: str, values: dict[str, list[str]], start: Any) -> list[bytes]:
        if what == "reset":
            self._requests = []
            self._latency = float(values["latency"][0])
            self._fail, self._times = values.get("fail", [""])[0], int(values["times"][0])
            self._after, self._how = int(values["after"][0]), values["how"][0]
        body = json.dumps([asdict(request) for request in self._requests]).encode()
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


def _half(body: bytes, environ: dict[str, Any]) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    _hang_up(environ)


def _hang_up(environ: dict[str, Any]) -> None:
    connection = environ["werkzeug.socket"]
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def serve(port: int) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, run_simple

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept, as services keep them

    # Its standard input ends with the process that has started the server, even if that process was killed.
    threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
    application = Counting(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=Handler)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
