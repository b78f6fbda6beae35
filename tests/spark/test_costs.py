"""What a scan and a write cost: options parsed, ends of files read, file systems made. No session needed."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StringType, StructField, StructType

import smalti
from smalti.io.sources import LocalSource
from smalti.spark import source as spark_source
from smalti.spark.driver import plan
from smalti.spark.options import parse_read_options
from smalti.spark.source import MosaicDataSource
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


def travel(value: Any) -> Any:
    """To another process, as Spark sends it."""
    return pickle.loads(cloudpickle.dumps(value))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options that were parsed."""
    calls: list[Any] = []
    parse = spark_source.parse_read_options
    monkeypatch.setattr(spark_source, "parse_read_options", lambda given: calls.append(given) or parse(given))  # type: ignore[func-returns-value]
    return calls


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
GIVEN = StructType([*SCHEMA, StructField("p", StringType())])


@pytest.mark.parametrize(
    ("options", "schema", "tasks"),
    [
        (LARGE, None, 6),
        ({**LARGE, "columns": "x"}, None, 6),
        ({**LARGE, "mergeschema": "false"}, None, 6),
        (LARGE, GIVEN, 6),
        ({**LARGE, "mergeschema": "false"}, GIVEN, 6),
        ({"minpartitions": "1"}, None, 1),
    ],
)
def test_planning_reads_the_end_of_a_file_once(
    table: str,
    parsed: list[Any],
    ends: Counter[str],
    options: dict[str, str],
    schema: StructType | None,
    tasks: int,
) -> None:
    """Whether the schema is derived or given: in one process and another, as Spark calls them."""
    source = MosaicDataSource({"path": table, **options})
    schema = schema or source.schema()
    reader = travel(source).reader(schema)
    assert len(reader.partitions()) == tasks
    assert dict(ends) == {f"p={name}": 1 for name in "abc"}
    assert len(parsed) == 1
    assert travel(reader)._table is None


def test_options_are_parsed_once_for_each_source(table: str, parsed: list[Any]) -> None:
    source = MosaicDataSource({"path": table})
    schema = source.schema()
    source.reader(schema)
    source.reader(schema)
    assert len(parsed) == 1


def test_a_task_makes_one_file_system(table: str, filesystems: Callable[[], int]) -> None:
    source = MosaicDataSource({"path": table, "minpartitions": "1"})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert len(partition.value) == 3
    assert filesystems() == 1
    reader, partition = travel(reader), travel(partition)
    assert filesystems() == 0
    assert [value for batch in reader.read(partition) for value in batch["x"].to_pylist()] == ROWS
    assert filesystems() == 1


def test_a_write_resolves_its_path_once(tmp_path: Path, filesystems: Callable[[], int]) -> None:
    source = MosaicDataSource({"path": str(tmp_path / "t")})
    writer = travel(source.writer(SCHEMA, overwrite=True))
    assert filesystems() == 1
    message = travel(travel(writer).write(iter([pa.record_batch({"x": range(10)})] * 3)))
    travel(writer).commit([message])
    travel(writer).abort([None])
    assert filesystems() == 0
    assert smalti.dataset(tmp_path / "t").to_table()["x"].to_pylist() == ROWS


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
    table = plan.find_table(parse_read_options({"path": str(tmp_path), "smalti.provider": "1"}))
    assert table.schema().names == ["x", "y"]
    assert len(made) == 60
    assert sum(made) == 60 if most == 10_000 else sum(made) <= 17  # those that threads were about to open
    assert table.num_row_groups == 60
    pieces = sum(map(len, table.splits(table.schema(), [("EqualTo", "x", 7)])))
    assert pieces == 1 if most == 10_000 else pieces >= 60 - 17
