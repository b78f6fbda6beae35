"""What a scan and a write cost: questions, ends of files read, file systems made. No session needed."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import smalti
from smalti.io.sources import LocalSource
from smalti.spark.driver import plan, questions
from smalti.spark.driver.questions import answer
from smalti.spark.options import parse_read_options
from smalti.spark.task.read import Metrics
from smalti.spark.types import spark_schema
from tests.docs.test_imports import SOURCE, imports

SCHEMA = StructType([StructField("x", LongType())])
ROWS = [*range(10), *range(10), *range(10)]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three files of two row groups each."""
    for name in "abc":
        path = tmp_path / f"t/p={name}/f.mosaic"
        path.parent.mkdir(parents=True)
        smalti.write_table(pa.table({"x": range(10), "y": range(10)}), path, row_group_max_rows=5)
    return str(tmp_path / "t")


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the end of each file was read."""
    counts: Counter[str] = Counter()
    read_at = LocalSource.read_at

    def counting(self: LocalSource, offset: int, size: int) -> bytes:
        if offset + size == self.size:
            counts[Path(str(self.name)).parent.name] += 1
        return read_at(self, offset, size)

    monkeypatch.setattr(LocalSource, "read_at", counting)
    return counts


@pytest.fixture
def filesystems(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """How many file systems were made since the last call."""
    made = 0
    kind = pafs.LocalFileSystem

    def make() -> pafs.FileSystem:
        nonlocal made
        made += 1
        return kind()

    def since() -> int:
        nonlocal made
        count, made = made, 0
        return count

    monkeypatch.setattr(pafs, "LocalFileSystem", make)
    return since


LARGE = {"maxpartitionbytes": "1", "opencostbytes": "1"}
#: What Java asks of a plan beside its columns: here nothing.
PLAN = {"filters": [], "order": [], "hidden": None, "defaults": {}, "statistics": False}
GIVEN = StructType([*SCHEMA, StructField("p", StringType())])


def ask(question: str, *parts: bytes, **details: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The answer to a question of Java's. Questions and facts travel as JSON."""
    facts, answered = answer(json.loads(json.dumps({"question": question, **details})), parts)
    return json.loads(json.dumps(facts)), list(answered)


def plan_of(table: str, options: dict[str, str]) -> tuple[dict[str, Any], list[bytes]]:
    """What Java asks for a query of a table: one question when it is loaded, and one when it is planned."""
    facts, _ = ask("open", options={"path": table, **options})
    return ask("plan", table=facts["table"], schema=facts["schema"], decided=[], **PLAN)


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (LARGE, 6),
        ({**LARGE, "columns": "x"}, 6),
        ({"minpartitions": "1"}, 1),
    ],
)
def test_planning_reads_the_end_of_a_file_once(
    table: str, ends: Counter[str], options: dict[str, str], tasks: int
) -> None:
    """The process that has opened a table keeps what it has learnt."""
    _, parts = plan_of(table, options)
    assert len(parts) - 1 == tasks
    assert dict(ends) == {f"p={name}": 1 for name in "abc"}


def test_a_schema_is_written_once_for_all_loads(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again if the table is loaded again, and not at all if Spark has the schema from its catalog."""
    made: list[int] = []
    make = spark_schema
    monkeypatch.setattr(questions, "spark_schema", lambda schema: (made.append(len(schema)), make(schema))[1])
    monkeypatch.setattr(questions, "_schemas", {})
    written = [ask("open", options={"path": table})[0]["schema"] for _ in range(3)]
    assert len(set(written)) == len(made) == 1
    assert ask("open", options={"path": table}, given=True)[0]["schema"] is None
    smalti.write_table(pa.table({"other": [1]}), tmp_path / "other.mosaic")
    assert ask("open", options={"path": str(tmp_path / "other.mosaic")})[0]["schema"] != written[0]
    assert made == [3, 1]


def test_a_process_that_does_not_know_a_table_is_told(table: str, ends: Counter[str]) -> None:
    """The process that has opened a table may have ended, or have been asked about other tables since."""
    facts, kept = ask("open", options={"path": table})
    details = {"table": facts["table"], "schema": GIVEN.json(), "functions": [["count"]], "groups": [], "decided": []}
    questions._tables.clear()
    with pytest.raises(questions.UnknownTableError):
        ask("aggregate", **details)
    assert ask("aggregate", *kept, **details)[0] == {"rows": [[30]]}
    assert ask("aggregate", **details)[0] == {"rows": [[30]]}
    assert set(ends.values()) == {1}
    for _ in range(questions._MAX_TABLES):
        ask("open", options={"path": table})
    assert facts["table"] not in questions._tables
    assert len(questions._tables) == questions._MAX_TABLES


def test_a_plan_leaves_the_table_as_it_is(table: str) -> None:
    """Filters that partitions decide leave out files of one plan only."""
    facts, _ = ask("open", options={"path": table, "minpartitions": "1"})
    common = {"table": facts["table"], "schema": GIVEN.json(), **PLAN}
    partitions = StructType([StructField("p", StringType())]).json()
    for decided, files in ([["=", "p", "a"]], 1), ([], 3), ([["=", "p", "b"]], 1):
        assert ask("plan", **common, partitions=partitions, decided=decided)[0]["files"] == files


def test_a_task_makes_one_file_system(table: str, filesystems: Callable[[], int]) -> None:
    _, (scan, split) = plan_of(table, {"minpartitions": "1"})
    assert len(pickle.loads(split)) == 3
    filesystems()
    batches = pickle.loads(scan).read(split, Metrics())
    assert [value for _, batch in batches for value in batch["x"].to_pylist()] == ROWS
    assert filesystems() == 1


def test_a_write_resolves_its_path_once(tmp_path: Path, filesystems: Callable[[], int]) -> None:
    details = {"options": {"path": str(tmp_path / "t")}, "schema": SCHEMA.json(), "streams": False}
    facts, (schema, plan, write) = ask("begin", mode="overwrite", **details)
    assert facts == {"order": []}
    assert pa.ipc.read_schema(pa.py_buffer(schema)) == pa.schema([("x", pa.int64())])
    assert filesystems() == 1
    message = pickle.loads(plan).write(0, [pa.record_batch({"x": range(10)})] * 3)
    ask("commit", write, message)
    ask("abort", write)
    assert filesystems() == 0
    assert smalti.dataset(tmp_path / "t").to_table()["x"].to_pylist() == ROWS
    for mode in ("error", "ignore"):
        assert ask("begin", mode=mode, **details) == ({"exists": True}, [])


@pytest.mark.parametrize(
    ("module", "other"),
    [("driver.plan", "task.read"), ("driver.plan", "task.write"), ("task.read", "driver"), ("task.write", "driver")],
)
def test_driver_and_tasks_stay_apart(module: str, other: str) -> None:
    names = {name for name, _ in imports(SOURCE / "smalti" / "spark" / f"{module.replace('.', '/')}.py")}
    assert not [name for name in names if name.startswith(f"smalti.spark.{other}")]


@pytest.mark.parametrize("most", [100, 10_000])
def test_statistics_of_very_many_files_are_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Making them takes far longer than opening the files; then tasks skip row groups, by what they find there."""
    for number in range(60):
        smalti.write_table(pa.table({"x": [number], "y": [1]}), tmp_path / f"{number}.mosaic")
    made: list[bool] = []
    of = plan.FileFacts.of

    def noting(*given: Any, has_statistics: bool) -> Any:
        made.append(has_statistics)
        return of(*given, has_statistics=has_statistics)

    monkeypatch.setattr(plan, "_MAX_STATISTICS", most)
    monkeypatch.setattr(plan.FileFacts, "of", noting)
    table = plan.find_table(parse_read_options({"path": str(tmp_path)}))
    assert table.schema().names == ["x", "y"]
    assert len(made) == 60
    assert sum(made) == 60 if most == 10_000 else sum(made) <= 17  # those that threads were about to open
    assert table.num_row_groups == 60
    pieces = sum(map(len, table.splits(table.schema(), [("=", "x", 7)])))
    assert pieces == 1 if most == 10_000 else pieces >= 60 - 17
