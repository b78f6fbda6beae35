"""The jar where no Python driver has a hand in it: a Spark Connect server, and the command spark-sql."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import smalti
from smalti.cli.main import main
from smalti.spark.setup.java import ensure_java
from tests.spark.test_kill import HOME, process, wait_for
from tests.support.children import ROOT
from tests.support.long import long_only

COLUMNS = 2_000
SMALL = ["--driver-memory", "1g", "--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("jar") / "smalti-spark.jar"
    assert main(["spark-jar", "-o", str(path)]) == 0
    return str(path)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@long_only  # The next test has a server of Connect, too.
def test_connect_reads_3_of_2000_columns(jar: str, tmp_path: Path) -> None:
    """The client is another process, and has nothing but pyspark. A bucket that is not needed is damaged."""
    path = tmp_path / "wide.mosaic"
    names = [f"c{i:04d}" for i in range(COLUMNS)]
    smalti.write_table(pa.table({name: [i, i + 1, i + 2] for i, name in enumerate(names)}), path, num_buckets=200)
    wanted = [names[0], names[5], names[1999]]
    with smalti.open(path) as file:
        needed = {file.bucket_of(name) for name in wanted}
        damaged = next(file.bucket_of(name) for name in names if file.bucket_of(name) not in needed)
        bucket = file.layout(()).row_groups[0].buckets[damaged]
    data = bytearray(path.read_bytes())
    data[bucket.offset + bucket.size // 2] ^= 0xFF
    path.write_bytes(data)
    port = free_port()
    server = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", *SMALL, "--jars", jar]
    server += ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = tmp_path / "server.log"
    with process(server, log):
        wait_for(lambda: "Spark Connect server started" in log.read_text(), "server", log)
        client = [sys.executable, "-m", "tests.spark.apps", "client", f"sc://127.0.0.1:{port}", str(path), *wanted]
        with process(client, tmp_path / "client.log") as child:
            child.wait(900)
        output = (tmp_path / "client.log").read_text()
    (line,) = [line for line in output.splitlines() if line.startswith("found ")] or [output]
    assert json.loads(line.removeprefix("found ")) == {
        "steps": 1 + 3 + 3,
        "rows": [[0, 5, 1999], [1, 6, 2000], [2, 7, 2001]],
        "all": "checksum",
        "table": 2,
        "partitions": [[0, 3], [1, 1]],
    }


def test_a_client_of_connect_brings_the_jar(tmp_path: Path) -> None:
    """The server was started without it. Before that, the error says what to do."""
    smalti.write_table(pa.table({"x": range(10), "y": range(0, 20, 2)}), tmp_path / "t.mosaic")
    ensure_java()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "tests.spark.apps", "connect", str(tmp_path / "t.mosaic")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    found = json.loads(line.removeprefix("found "))
    assert found.pop("session").startswith("pyspark.sql.connect")
    assert found == {"before": True, "union": [2, 4], "copied": 3, "refused": True}


@long_only  # A server of Connect runs SQL without a Python driver, too.
def test_spark_sql(jar: str, tmp_path: Path) -> None:
    warehouse = f"spark.sql.warehouse.dir={tmp_path}/warehouse"
    statements = """
        CREATE TABLE t (id BIGINT, name STRING, day INT) USING mosaic PARTITIONED BY (day)
        TBLPROPERTIES ('statsColumns' = 'id');
        INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2);
        INSERT OVERWRITE t PARTITION (day = 2) SELECT 3, 'c';
        SELECT 'rows', * FROM t ORDER BY id;
        SELECT 'path', count(*), max(id) FROM mosaic.`{path}`;
    """.replace("{path}", f"{tmp_path}/warehouse/t")
    command = [str(HOME / "bin" / "spark-sql"), "--master", "local[1]", *SMALL, "--jars", jar, "--conf", warehouse]
    command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.catalogImplementation=in-memory"]
    log = tmp_path / "log"
    with process([*command, "-e", statements], log) as child:
        child.wait(900)
    output = log.read_text()
    found = [line.split("\t") for line in output.splitlines() if line.startswith(("rows\t", "path\t"))]
    assert found == [["rows", "1", "a", "1"], ["rows", "3", "c", "2"], ["path", "2", "3"]], output[-3000:]
    with smalti.open(next((tmp_path / "warehouse/t/day=2").glob("*.mosaic"))) as file:
        assert set(file.row_group(0).statistics) == {"id"}


def test_a_running_session_gets_it(tmp_path: Path) -> None:
    """`enable` on a session that was made without it, as in a notebook, twice; then a LIMIT."""
    with process([sys.executable, "-m", "tests.spark.apps", "enable", str(tmp_path)], tmp_path / "log") as child:
        child.wait(900)
    output = (tmp_path / "log").read_text()
    (line,) = [line for line in output.splitlines() if line.startswith("found ")] or [output]
    assert json.loads(line.removeprefix("found ")) == {
        "before": {"append": True, "table": True, "schema": True, "save": False},
        "default mode": True,
        "refused": [True] * 4,
        "altered": [[1, None, 2], ["a", "b", "p"]],
        "rows": 3,
        "planned": True,
        "limit": [2, 3, 1],
    }
    # A LIMIT closes readers early, and nobody complains: not Spark, and not the workers, which share its stderr.
    said = output.partition("limit begins\n")[2].partition("limit ends\n")[0].strip()
    assert not any(word in said for word in ("Traceback", "Exception", "ERROR")), said
