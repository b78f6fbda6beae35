"""A table on S3, through Spark: credentials and endpoint by option, commits without renames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


def test_write_read_overwrite(spark: Any, endpoint: str) -> None:
    from pyarrow.fs import S3FileSystem

    credentials = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
    store = S3FileSystem(**credentials, endpoint_override=endpoint, scheme="http", allow_bucket_creation=True)
    store.create_dir("bucket")
    options = {
        "storage.accessKey": "key",
        "storage.secretKey": "secret",
        "storage.region": "us-east-1",
        "storage.endpointOverride": endpoint,
        "storage.scheme": "http",
    }

    def load() -> Any:
        return spark.read.format("mosaic").options(**options).load("s3a://bucket/t")

    def read() -> list[tuple[Any, ...]]:
        return sorted(map(tuple, load().collect()))

    frame = spark.range(4).selectExpr("id", "id % 2 AS p")
    frame.write.format("mosaic").mode("append").options(**options, partitionBy="p").save("s3a://bucket/t")
    assert read() == [(0, 0), (1, 1), (2, 0), (3, 1)]
    before = load()
    assert [before.count(), before.where("id > 3").count()] == [4, 0]
    frame.where("id = 3").write.format("mosaic").mode("overwrite").options(**options, partitionBy="p").save(
        "s3a://bucket/t"
    )
    assert read() == [(3, 1)]
    for query in (before.collect, before.count, before.where("id > 3").count, before.agg({"id": "max"}).collect):
        with pytest.raises(Exception, match=r"ReplacedError|RemovedError"):
            query()
