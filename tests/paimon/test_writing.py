"""Rows that smalti writes to Paimon tables, read by pypaimon with the reference's decoder; commits at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
import smalti.paimon
from tests.paimon.kinds import BASIC, KINDS, in_order, read_by_pypaimon, rows
from tests.support.s3 import S3Server


def definition(path: str) -> dict[str, Any]:
    """What it takes to create an empty table like the one at `path`."""
    schemas = sorted(Path(path, "schema").iterdir(), key=lambda file: int(file.name.partition("-")[2]))
    schema = json.loads(schemas[-1].read_text())
    return {
        "partition_by": schema["partitionKeys"],
        "primary_key": schema["primaryKeys"],
        "options": {key: value for key, value in schema["options"].items() if not key.startswith("rowkind")},
    }


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"without_snapshot", "emptied"}))
def test_every_kind_written_by_smalti_is_what_pypaimon_reads(
    kind: str, made: Callable[..., str], tmp_path: Path
) -> None:
    """The rows of each kind, written to an empty table of the same definition, decoded by the reference."""
    source = made(kind)
    expected = read_by_pypaimon(source)
    path = smalti.paimon.create(tmp_path / "target", expected.schema, **definition(source))
    assert smalti.paimon.write(smalti.paimon.dataset(source), path) == 1
    assert "mosaic" not in sys.modules or "smalti" not in sys.modules["mosaic"].__name__
    found = read_by_pypaimon(path)
    assert found.schema.equals(expected.schema)
    assert in_order(found) == in_order(expected)
    assert in_order(smalti.paimon.dataset(path).to_table()) == in_order(expected)
    with smalti.open(smalti.paimon.dataset(path).files[0]) as file:
        assert file.num_rows


class TestModes:
    def test_primary_keys_replace(self, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC, primary_key=["id"], options={"bucket": "2"})
        smalti.paimon.write(rows(0, 10), path)
        smalti.paimon.write(rows(5, 15, "new"), path)
        assert in_order(read_by_pypaimon(path)) == in_order(
            pa.concat_tables([rows(0, 5), rows(5, 15, "new")]).cast(smalti.paimon.dataset(path).schema)
        )

    def test_overwriting_all_a_partition_and_those_that_are_written(self, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC, partition_by=["n"])
        smalti.paimon.write(rows(0, 14), path)
        fresh = rows(100, 101)  # n = 2
        smalti.paimon.write(fresh, path, mode="overwrite", partition={"n": 2})
        assert sorted(read_by_pypaimon(path)["id"].to_pylist()) == [0, 1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 100]
        smalti.paimon.write(rows(200, 201), path, mode="overwrite")  # n = 4
        assert sorted(read_by_pypaimon(path)["id"].to_pylist()) == [0, 1, 3, 5, 6, 7, 8, 10, 12, 13, 100, 200]
        whole = smalti.paimon.create(tmp_path / "u", BASIC)
        smalti.paimon.write(rows(0, 14), whole)
        smalti.paimon.write(fresh, whole, mode="overwrite")
        assert read_by_pypaimon(whole)["id"].to_pylist() == [100]

    def test_columns_are_found_by_name_and_types_must_fit(self, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        smalti.paimon.write(pa.table({"n": pa.array([1], pa.int64()), "id": pa.array([2], pa.int32())}), path)
        assert read_by_pypaimon(path).to_pylist() == [{"id": 2, "x": None, "n": 1}]
        for bad in ({"id": [1], "absent": [1]}, {"id": ["text"]}, {"id": [1], "n": [1 << 40]}):
            with pytest.raises(smalti.SchemaError):
                smalti.paimon.write(pa.table(bad), path)
        keyed = smalti.paimon.create(tmp_path / "k", BASIC, primary_key=["id"], options={"bucket": "1"})
        for bad in ({"x": ["a"]}, {"id": pa.array([None], pa.int64())}):
            with pytest.raises(smalti.SchemaError, match="must not be null"):
                smalti.paimon.write(pa.table(bad), keyed)
        assert read_by_pypaimon(path).num_rows == 1
        # What failed has left no data file.
        assert list(Path(path).rglob("*.mosaic")) == [Path(smalti.paimon.dataset(path).files[0])]
        assert not list(Path(keyed).rglob("*.mosaic"))

    def test_the_data_comes_first(self, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        for table in (path, Path(path), smalti.paimon.dataset(path).table):
            with pytest.raises(TypeError, match=r"the data comes first, then the table: smalti\.paimon\.write"):
                smalti.paimon.write(table, rows(0, 1))  # type: ignore[arg-type]

    def test_creating(self, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        with pytest.raises(FileExistsError):
            smalti.paimon.create(path, BASIC)
        with pytest.raises(smalti.PaimonTableError):
            smalti.paimon.create(f"{path}/inside", BASIC)
        with pytest.raises(smalti.SchemaError, match="no such column"):
            smalti.paimon.create(tmp_path / "u", BASIC, partition_by=["absent"])
        struct = pa.struct([("a", pa.int32())])
        row = pa.schema([("id", pa.int64()), ("r", pa.list_(struct))])
        for refused in (row, pa.schema([("m", pa.map_(pa.string(), struct))])):
            with pytest.raises(smalti.UnsupportedFeatureError, match="ROW columns"):
                smalti.paimon.create(tmp_path / "v", refused)
        assert not (tmp_path / "v").exists()
        other = smalti.paimon.create(tmp_path / "w", row, options={"file.format": "parquet"})
        smalti.paimon.write(pa.table({"id": [1], "r": [[{"a": 2}]]}), other)
        assert smalti.paimon.dataset(other).to_table().to_pylist() == [{"id": 1, "r": [{"a": 2}]}]
        with pytest.raises(smalti.MosaicError, match="append or overwrite"):
            smalti.paimon.write(rows(0, 1), path, mode="upsert")  # type: ignore[arg-type]
        assert smalti.paimon.dataset(path).to_table().num_rows == 0


COMMITTER = """
    import sys, pyarrow as pa, smalti.paimon
    path, number, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(times):
        smalti.paimon.write(pa.table({"id": [number * 1000 + turn], "x": ["x"]}), path)
"""


def start(script: str, *arguments: object, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, **(environment or {})}, **pipes)


def race(path: str, environment: dict[str, str] | None = None) -> None:
    """Let processes commit to a new table at the same moment, several times each: nothing may be lost."""
    times, processes = 3, 2
    smalti.paimon.create(path, BASIC)
    children = [start(COMMITTER, path, number, times, environment=environment) for number in range(processes)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.wait(600) for child in children] == [0] * processes
    found = smalti.paimon.dataset(path)
    assert found.snapshot_id == processes * times
    expected = [number * 1000 + turn for number in range(processes) for turn in range(times)]
    assert sorted(found.to_table(["id"])["id"].to_pylist()) == expected


def test_commits_of_several_processes_at_once_are_all_there(tmp_path: Path) -> None:
    race(str(tmp_path / "t"))


def test_a_process_killed_before_its_commit_has_changed_nothing(tmp_path: Path) -> None:
    path = smalti.paimon.create(tmp_path / "t", BASIC)
    smalti.paimon.write(rows(0, 5), path)
    script = """
        import sys, pyarrow as pa
        from smalti.paimon.tables import open_for_commit
        from smalti.paimon.writing import Job, write_files
        table = open_for_commit(sys.argv[1]).table
        print(len(write_files([pa.record_batch({"id": [1000], "x": ["never"]})], table, Job())), flush=True)
        sys.stdin.readline()
    """
    child = start(script, path)
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    child.send_signal(signal.SIGKILL)
    child.wait(120)
    assert len(list(Path(path).rglob("*.mosaic"))) == 2  # written, and in no snapshot
    assert smalti.paimon.dataset(path).to_table().num_rows == 5
    assert smalti.paimon.write(rows(5, 6), path) == 2
    assert read_by_pypaimon(path)["id"].to_pylist() == [0, 1, 2, 3, 4, 5]


def test_object_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server(["bucket"]) as server:
        path = f"s3://bucket/lake/t{server.query}&access_key=a&secret_key=b"
        smalti.paimon.create(path, BASIC, partition_by=["n"])
        smalti.paimon.write(rows(0, 20), path)
        smalti.paimon.write(rows(20, 30), path, mode="append")
        dataset = smalti.paimon.dataset(path)
        assert in_order(dataset.to_table()) == in_order(rows(0, 30))
        assert dataset.count_rows([("n", "=", 3)]) == 4
        keyed = f"s3://bucket/lake/k{server.query}&access_key=a&secret_key=b"
        smalti.paimon.create(keyed, BASIC, primary_key=["id"], options={"bucket": "1"})
        for word in ("old", "new"):
            smalti.paimon.write(rows(0, 5, word), keyed)
        assert set(smalti.paimon.dataset(keyed).to_table(["x"])["x"].to_pylist()) == {f"new{i}" for i in range(5)}
        # Several processes commit at the same moment.
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        race(f"s3://bucket/race{server.query}", server.environment)
