"""What Spark shows of a table on S3: no plan, event log, error or repr has the credentials that were given for it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smalti.spark.options import parse_read_options, parse_write_options
from tests.support.s3 import S3Server

SECRETS = ("KEYSECRET1", "SECRETSECRET2", "TOKENSECRET3")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(["bucket"]) as server:
        yield server


def given(server: S3Server, *, in_uri: bool) -> tuple[str, dict[str, str]]:
    """Where a table is, with the credentials in the query of its URI or in options."""
    key, secret, token = SECRETS
    place = {"region": "us-east-1", "endpoint_override": server.address, "scheme": "http"}
    options = {"access_key": key, "secret_key": secret, "session_token": token, **place}
    if in_uri:
        return "s3://bucket/u?" + "&".join(f"{name}={value}" for name, value in options.items()), {}
    return "s3://bucket/t", {f"storage.{name}": value for name, value in options.items()}


@contextlib.contextmanager
def event_log(spark: Any, directory: Path) -> Iterator[None]:
    """Spark's own event log, for as long as this takes."""
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    conf = context.conf().clone()
    for key in ("compress", "rolling.enabled"):
        conf.set(f"spark.eventLog.{key}", "false")
    log = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app", jvm.scala.Option.empty(), jvm.java.net.URI(f"file://{directory}"), conf, context.hadoopConfiguration()
    )
    log.start()
    context.addSparkListener(log)
    try:
        yield
    finally:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(log)
        log.stop()


@pytest.mark.parametrize("in_uri", [False, True], ids=["options", "URI"])
def test_nothing_shows_credentials(in_uri: bool, spark: Any, server: S3Server, tmp_path: Path) -> None:
    path, options = given(server, in_uri=in_uri)
    shown = io.StringIO()
    with event_log(spark, tmp_path), contextlib.redirect_stdout(shown):
        spark.range(4, numPartitions=1).write.format("mosaic").mode("append").options(**options).save(path)
        frame = spark.read.format("mosaic").options(**options).load(path).where("id > 1")
        assert frame.collect() == [(2,), (3,)]
        frame.explain(True)
        frame.explain("formatted")
        frame.createOrReplaceTempView("secret_view")
        spark.sql("DESCRIBE EXTENDED secret_view").show(100, False)
        for missing in (path.replace("bucket/", "bucket/none/"), path.replace("bucket/", "none/")):
            with pytest.raises(Exception, match=r"PATH_NOT_FOUND|No such") as raised:
                spark.read.format("mosaic").options(**options).load(missing).collect()
            print(frame, raised.value, repr(raised.value))
    logs = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    assert any("SparkListenerSQLExecutionStart" in log for log in logs)
    for text in (shown.getvalue(), *logs):
        assert "Physical Plan" in text
        assert [secret for secret in SECRETS if secret in text] == []


def test_options_are_shown_without_secrets(server: S3Server) -> None:
    for in_uri in (False, True):
        path, options = given(server, in_uri=in_uri)
        for parsed in (parse_read_options({"path": path, **options}), parse_write_options({"path": path, **options})):
            assert [secret for secret in SECRETS if secret in f"{parsed!r} {parsed} {vars(parsed)['storage']}"] == []
            assert "us-east-1" in repr(parsed) or "region" in repr(parsed)
