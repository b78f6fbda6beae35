"""How much memory a read takes: what may be asked for, what is refused, and that slices hold the same rows."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import smalti
from smalti import memory
from smalti.cli.main import main as command_line
from smalti.memory import _group_memory, default_limit, free_memory, rows_per_slice
from smalti.mosaic import scan
from smalti.spec import MAX_ROW_GROUP_SIZE
from tests.support.bombs import BOMBS, MANY, PLAIN_OPTIONS, WAYS, forget_peak, peak, repeated
from tests.support.children import ROOT
from tests.support.compare import assert_same
from tests.support.files import written
from tests.support.oracle.writer import RowGroup, assemble, pack_bucket, schema_payload
from tests.support.tables import matrix

MIB = 1 << 20


@pytest.mark.parametrize(
    ("stored", "machine", "limit"),
    [
        (0, 16 << 30, 1152 * MIB),
        (1 * MIB, 16 << 30, 1408 * MIB),
        (1 << 30, 16 << 30, 16 << 30),
        (0, 100 * MIB, 100 * MIB),
    ],
)
def test_default_limit_follows_file_and_machine(stored: int, machine: int, limit: int) -> None:
    assert default_limit(stored, machine) == limit


@pytest.mark.parametrize(
    ("rows", "size", "target", "batch", "expected"),
    [
        (100, 1000, 1000, None, 100),
        (100, 1001, 1000, None, 99),
        (100, 10_000, 1000, 3, 9),
        (100, 10_000, 1000, 50, 10),  # a batch of 50 would be larger than a slice may be
        (100, 10_000, 1000, 500, 10),
        (100, 10**9, 1000, 7, 1),
    ],
)
def test_rows_of_a_slice(rows: int, size: int, target: int, batch: int | None, expected: int) -> None:
    assert rows_per_slice(rows, size, target, batch) == expected


def test_bombs_are_refused_or_read_in_slices(tmp_path: Path) -> None:
    """Whole reads are refused within a limit, single batches need the memory of a slice.."""
    command = [sys.executable, "-m", "tests.support.bombs", str(tmp_path)]
    limit = {"SMALTI_MEMORY_LIMIT": str(640 * MIB)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=900, check=False, env=os.environ | limit
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == len(BOMBS) * len(WAYS)
    problems = [outcome for outcome in outcomes if not _is_expected(outcome)]
    assert problems == []


def _is_expected(outcome: dict[str, Any]) -> bool:
    way, is_inflated = outcome["way"], "compressed" in outcome["bomb"]
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        outcome["peak"] = 0  # AddressSanitizer keeps what is freed
    if way in ("read", "dataset") or is_inflated:
        text = outcome.get("refused", "")
        return outcome["size"] < 30_000 and "memory_limit raises it" in text and outcome["peak"] < 700 * MIB
    wanted = {"layout": "columns", "head": "1 rows"}.get(way, "10 rows")
    is_read = outcome.get("result", "").endswith(wanted) or outcome.get("result") == "no rows"
    return is_read and outcome["peak"] < 300 * MIB


def test_a_table_may_take_what_the_machine_can_hold(tmp_path: Path) -> None:
    """Whatever the file's size: zeros that take 800 MB are read, and more than there is free memory is refused."""
    zeros = pa.repeat(0, 10_000)
    data = written(pa.table([zeros] * 10_000, [f"c{i:04d}" for i in range(10_000)]))
    assert len(data) < 30_000
    assert smalti.read_table(data).nbytes == 800_000_000
    (tmp_path / "huge.mosaic").write_bytes(repeated(pa.array([7, 7]), 2 + free_memory() // (8 * MANY), MANY))
    for read in (smalti.read_table, lambda path: smalti.dataset(path).to_table()):
        held = pa.total_allocated_bytes()
        with pytest.raises(smalti.MemoryLimitError, match=r"huge\.mosaic, index: .* bytes in all"):
            read(tmp_path / "huge.mosaic")
        assert pa.total_allocated_bytes() == held


@pytest.mark.parametrize(
    ("groups", "files", "left"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "1000", "a/memory.current": "300"}, 700),
        ("0::/a", {"a/memory.max": "1000", "a/memory.current": "900", "a/memory.stat": "inactive_file 50"}, 150),
        ("0::/outside", {"memory.max": "1000", "memory.current": "2000"}, 0),
        (
            "3:cpu:/x\n2:memory:/x\n0::/",
            {"memory/x/memory.limit_in_bytes": "800", "memory/x/memory.usage_in_bytes": "100"},
            700,
        ),
        ("0::/", {"memory.max": "max"}, 1 << 62),
    ],
)
def test_what_control_groups_leave(tmp_path: Path, groups: str, files: dict[str, str], left: int) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name("memory.stat").touch()
        path.write_text(text)
    assert min([1 << 62, *_group_memory(tmp_path, groups, 1 << 62)]) == left


_LIMITED = """
import resource, sys
from pathlib import Path
import smalti, smalti.loading.loader

path, many = sys.argv[1], 8_000_000
tall, exact = {"batch_size": many}, {"batch_size": many, "exact": True}
for kind, field, count in ((resource.RLIMIT_DATA, 5, 1), (resource.RLIMIT_AS, 0, 6)):
    used = int(Path("/proc/self/statm").read_text().split()[field]) * resource.getpagesize()
    resource.setrlimit(kind, (used + (260 << 20), resource.RLIM_INFINITY))
    for limit in ({}, {"memory_limit": 1 << 40}):
        ways = {
            "read": lambda: smalti.read_table(path, **limit),
            "dataset": lambda: smalti.dataset(path, **limit).to_table(),
            "exact": lambda: next(smalti.scan(path, **limit, **exact).to_batches()),
            "head": lambda: smalti.dataset(path, **limit).head(many),
            "loader": lambda: next(iter(smalti.loader(smalti.dataset(path, **limit), **tall))),
            "batch": lambda: next(smalti.open(path, **limit).iter_batches(10)).num_rows,
        }
        for way, read in list(ways.items())[:count]:
            try:
                print(kind, len(limit), way, type(read()).__name__)
            except BaseException as error:
                print(kind, len(limit), way, type(error).__name__, error)
    resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer reserves terabytes")
def test_a_limit_of_the_process_counts_and_failed_allocations_are_told_alike(tmp_path: Path) -> None:
    """Of address space, and of data. Where the limit of a read is higher, allocations fail in kernels and in Arrow."""
    path = tmp_path / "small.mosaic"
    path.write_bytes(repeated(pa.array([7, 7]), 8, 4_500_000, groups=2))
    command = [sys.executable, "-c", _LIMITED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [line.split(" ", 4) for line in done.stdout.splitlines()]
    assert len(outcomes) == 2 * (1 + 6)
    for kind, has_limit, way, found, *text in outcomes:
        assert found == ("int" if way == "batch" else "MemoryLimitError"), (kind, has_limit, way, text)
        has_failed = bool(text) and "the system has no memory left" in text[0]
        assert has_failed == (has_limit == "1" and way != "batch"), (kind, has_limit, way, text)


def test_the_index_counts(tmp_path: Path) -> None:
    """A row group takes 3 bytes of the index, and 40 bytes of memory."""
    path, schema = tmp_path / "groups.mosaic", pa.schema([("c", pa.int64())])
    path.write_bytes(assemble(schema_payload(schema, 1), [RowGroup(0, ())] * 500_000, 1, PLAIN_OPTIONS))
    for read in (smalti.open, smalti.read_table, lambda path, **limit: smalti.dataset(path, **limit).num_rows):
        with pytest.raises(smalti.MemoryLimitError, match=r"groups.mosaic, row group index: .* 20,000,040|23,"):
            read(path, memory_limit=20_000_000)
    with smalti.open(path, memory_limit=30_000_000) as file:
        assert file.num_row_groups == 500_000


WIDE = pa.schema([("a", pa.int64()), ("missing", pa.int64())])
ROADS = {
    "read_table": lambda path, limit: smalti.read_table(path, memory_limit=limit),
    "read_table, schema": lambda path, limit: smalti.read_table(path, memory_limit=limit, schema=WIDE),
    "scan": lambda path, limit: smalti.scan(path, memory_limit=limit, schema=WIDE).to_table(),
    "file": lambda path, limit: smalti.open(path / "1.mosaic", memory_limit=limit).read(schema=WIDE),
    "to_pandas": lambda path, limit: smalti.open(path / "1.mosaic", memory_limit=limit).to_pandas(),
    "to_polars": lambda path, limit: smalti.dataset(path, memory_limit=limit).to_polars(),
    "to_duckdb": lambda path, limit: smalti.dataset(path, memory_limit=limit).to_duckdb(),
    "dataset, schema": lambda path, limit: smalti.dataset(path, memory_limit=limit, schema=WIDE).to_table(),
    "filter": lambda path, limit: smalti.dataset(path, memory_limit=limit).to_table(filters=[("a", "=", 1)]),
    "read ahead": lambda path, limit: smalti.dataset(path, memory_limit=limit, readahead=4).to_table(),
}


@pytest.mark.parametrize("road", ROADS)
def test_every_road_to_a_table_has_one_allowance(tmp_path: Path, road: str) -> None:
    """Row groups, files, and columns that become wider or are missing count together: 1 MB is stored as int8."""
    for name in ("1", "2"):
        smalti.write_table(
            pa.table({"a": pa.repeat(pa.scalar(1, pa.int8()), 500_000)}),
            tmp_path / f"{name}.mosaic",
            row_group_max_rows=50_000,
        )
    smalti.write_table(pa.table({"a": pa.array([1], pa.int64())}), tmp_path / "3.mosaic")
    with pytest.raises(smalti.MemoryLimitError):
        ROADS[road](tmp_path, 450_000 if "file" in road or "pandas" in road else 4_000_000)
    ROADS[road](tmp_path, 40_000_000)


@pytest.mark.parametrize("layout", ["monolithic", "paged"])
def test_what_a_filter_has_decompressed_counts(layout: str) -> None:
    """Each column takes about 4 MB, decompressed as much as decoded; buckets of the filter stay decompressed."""
    texts = pa.array([f"{i:01000d}" for i in range(4_000)])
    data = written(
        pa.table({"f": texts, "o": texts}), num_buckets=2, page_size_threshold=0 if layout == "paged" else 1 << 30
    )
    with smalti.open(data, memory_limit=10 * MIB, cache_bytes=0) as file:
        assert file.read(["o"]).num_rows == 4_000
        with pytest.raises(smalti.MemoryLimitError):
            file.read(["o"], filters=[("f", ">=", "0")])
    with smalti.open(data, memory_limit=14 * MIB, cache_bytes=0) as file:
        for _ in range(3):
            assert file.read(["o"], filters=[("f", ">=", "0")]).num_rows == 4_000


def test_what_is_read_ahead_counts_together() -> None:
    """Row groups of 8 MB each, of which the index tells only the offsets."""
    data = written(pa.table({"a": pa.repeat("x" * 1000, 320_000)}), row_group_max_rows=8_000)
    forget_peak()
    before, rows = peak(), 0
    with smalti.open(data, memory_limit=40 * MIB, readahead=30) as file:
        for batch in file.iter_batches():
            rows += batch.num_rows
            time.sleep(0.01)  # time to read as far ahead as is allowed
    assert rows == 320_000
    assert peak() - before < 60 * MIB or "asan" in os.environ.get("LD_PRELOAD", "")


@pytest.fixture(scope="module")
def tall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of 10 row groups of 10 MB. The columns are constant, so the files are small and decoded in no time."""
    path = tmp_path_factory.mktemp("tall")
    schema = pa.schema({"one": pa.float64(), "text": pa.string(), "two": pa.int64()})
    columns = [pa.array([1.5] * 2), pa.array(["x" * 980] * 2), pa.array([7] * 2)]
    group = RowGroup(10_000, (pack_bucket(0, list(schema), columns, PLAIN_OPTIONS),))
    for name in ("1", "2"):
        data = assemble(schema_payload(schema, 1), [group] * 10, 1, PLAIN_OPTIONS)
        (path / f"{name}.mosaic").write_bytes(data)
    return path


def _drain(batches: Iterable[Any]) -> int:
    """The rows of all batches, of which each is released before the next one comes."""
    return sum(len(next(iter(batch.values()))) if isinstance(batch, dict) else batch.num_rows for batch in batches)


_EXACT: dict[str, Any] = {"exact": True}
_MATCH = [("two", ">=", 0)]
#: Reads that keep rows of several batches, with more rows than the limit holds and with fewer; and the rows of these.
KEEPING: dict[str, tuple[Callable[[Any], Any], Callable[[Any], int], int]] = {
    "exact batches": (
        lambda table: _drain(table.to_batches(batch_size=80_000, **_EXACT)),
        lambda table: _drain(table.to_batches(batch_size=3_000, **_EXACT)),
        200_000,
    ),
    "exact batches of two columns": (
        lambda table: _drain(table.to_batches(["text", "one", "text"], batch_size=80_000, **_EXACT)),
        lambda table: _drain(table.to_batches(["text", "one", "text"], batch_size=3_000, **_EXACT)),
        200_000,
    ),
    "head": (lambda table: table.head(80_000), lambda table: table.head(8_000).num_rows, 8_000),
    "head of matches": (
        lambda table: table.head(80_000, None, _MATCH),
        lambda table: table.head(8_000, None, _MATCH).num_rows,
        8_000,
    ),
    "head of a scan": (
        lambda table: table.scan(with_row_index="row").head(80_000),
        lambda table: table.scan(with_row_index="row").head(8_000).num_rows,
        8_000,
    ),
    "tail": (lambda table: table.tail(80_000), lambda table: table.tail(8_000).num_rows, 8_000),
    "tail of matches": (
        lambda table: table.tail(80_000, None, _MATCH),
        lambda table: table.tail(8_000, None, _MATCH).num_rows,
        8_000,
    ),
    "take": (lambda table: table.take(range(80_000)), lambda table: table.take([0] * 5_000).num_rows, 5_000),
    "loader": (
        lambda table: _drain(smalti.loader(table, batch_size=80_000)),
        lambda table: _drain(smalti.loader(table, batch_size=1000, buffer_bytes=1)),
        200_000,
    ),
    "loader that mixes": (
        lambda table: _drain(smalti.loader(table, batch_size=80_000, shuffle=True)),
        lambda table: _drain(smalti.loader(table, ["one", "two"], shuffle=True)),
        200_000,
    ),
    "loader of tables": (
        lambda table: _drain(smalti.loader(table, batch_size=80_000, shuffle=True, output="arrow")),
        lambda table: _drain(smalti.loader(table, ["one", "two"], shuffle=True, output="arrow")),
        200_000,
    ),
    "rows of a loader": (
        lambda table: smalti.loader(table)[range(80_000)],
        lambda table: len(smalti.loader(table)[range(0, 80_000, 40)]["one"]),
        2_000,
    ),
}


@pytest.mark.parametrize("kind", ["file", "table"])
@pytest.mark.parametrize("way", KEEPING)
def test_rows_that_a_read_keeps_count(tall: Path, way: str, kind: str) -> None:
    """What is kept and what is decoded meanwhile count together, whoever keeps it."""
    limit, (too_many, few, rows) = 60 * MIB, KEEPING[way]
    opened = smalti.dataset(tall, memory_limit=limit)
    if kind == "file":
        opened, rows = smalti.open(tall / "1.mosaic", memory_limit=limit, cache_bytes=0), min(rows, 100_000)
    with opened as table:
        pa.default_memory_pool().release_unused()
        forget_peak()
        before = peak()
        with pytest.raises(smalti.MemoryLimitError):
            too_many(table)
        assert few(table) == rows
        # Allocators of a process that has run for long keep released memory for a moment.
        assert peak() - before < limit + 100 * MIB or "asan" in os.environ.get("LD_PRELOAD", "")


def test_the_limit_can_be_raised_and_lowered() -> None:
    data = written(pa.table({"a": pa.array([7] * 1_000_000), "b": pa.array(["text"] * 1_000_000)}))
    with pytest.raises(smalti.MemoryLimitError, match=r"8,000,000 bytes asked for, 0 held.*1,000,000 bytes in all"):
        smalti.read_table(data, ["a"], memory_limit=1_000_000)
    assert smalti.read_table(data, memory_limit=40_000_000).num_rows == 1_000_000
    with smalti.open(data, memory_limit=1_000_000) as file:
        assert sum(batch.num_rows for batch in file.iter_batches()) == 1_000_000
        assert file.count_rows([("a", "=", 7)]) == 1_000_000


def test_the_command_line_and_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sevens.mosaic"
    smalti.write_table(pa.table({"a": pa.repeat(7, 1_000_000)}), path)
    for arguments, code in ((["--memory-limit", "9"], 1), (["--memory-limit", "1K"], 0), ([], 0)):
        assert command_line(["head", "-n", "1", str(path), *arguments]) == code
    assert "memory_limit raises it" in capsys.readouterr().err
    monkeypatch.setenv("SMALTI_MEMORY_LIMIT", "5000")
    with pytest.raises(smalti.MemoryLimitError):
        smalti.read_table(path)
    assert smalti.read_table(path, memory_limit=1 << 30).num_rows == 1_000_000


def test_sparks_option() -> None:
    from smalti.spark.options import parse_read_options

    assert parse_read_options({"path": "t", "memoryLimit": "1GiB"}).memory_limit == 1 << 30


def test_all_row_groups_of_a_table_count(tmp_path: Path) -> None:
    """Each row group takes 800 kB; three of them are within the limit, five are not."""
    table = pa.table({"a": pa.array([7] * 300_000)})
    for name in ("x", "y"):
        smalti.write_table(table, tmp_path / f"{name}.mosaic", row_group_max_rows=100_000)
    assert smalti.read_table(tmp_path / "x.mosaic", memory_limit=3_000_000).num_rows == 300_000
    for filters in (None, [("a", "=", 7)]):
        with pytest.raises(smalti.MemoryLimitError):
            smalti.dataset(tmp_path, memory_limit=3_000_000).to_table(filters=filters)
        batches = smalti.dataset(tmp_path, memory_limit=3_000_000).to_batches(filters=filters)
        assert sum(batch.num_rows for batch in batches) == 600_000


@pytest.mark.parametrize("layout", ["monolithic", "paged"])
def test_slices_hold_the_rows_of_the_row_group(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All types and encodings, nested ones included, cut at any row, with and without a filter."""
    rng = random.Random(5)
    for num_rows in (1, 9, 70, 200):
        table = matrix(rng.randrange(1 << 30), num_rows)
        data = written(table, num_buckets=7, page_size_threshold=0 if layout == "paged" else 1 << 30)
        for size in (1, 1000, 30_000, 200_000):
            monkeypatch.setattr(scan, "BATCH_BYTES", size)
            with smalti.open(data) as file:
                whole = file.read()
                batches = list(file.iter_batches(rng.choice([None, 3, 64])))
                assert_same(pa.Table.from_batches(batches), whole)
                name = rng.choice(table.column_names)
                condition = pc.field(name).is_valid()
                filtered = list(file.iter_batches(columns=table.column_names[:20], filters=condition))
                rows = sum(batch.num_rows for batch in filtered)
                assert rows == file.count_rows(condition) == num_rows - whole[name].null_count


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_every_bucket_counts(compression: str) -> None:
    """Blocks that are not compressed take no memory to inflate, and so give none back."""
    table = pa.table({f"c{i:02d}": pa.array(range(i, i + 1000)) for i in range(50)})
    data = written(table, compression=compression, num_buckets=50)
    assert smalti.read_table(data, memory_limit=500_000).equals(table)
    with pytest.raises(smalti.MemoryLimitError):
        smalti.read_table(data, memory_limit=300_000)


def test_what_the_writer_writes_the_default_read_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 600 MB was written above the documented limit; one of 400 MB that repeats itself was not read."""
    assert memory.LEAST_LIMIT >= 2 * MAX_ROW_GROUP_SIZE  # inflated and decoded
    monkeypatch.setattr("smalti.mosaic.open_row_group.MAX_ROW_GROUP_SIZE", 2 * MIB)
    monkeypatch.setattr(memory, "LEAST_LIMIT", 2 * 2 * MIB + MIB)
    largest = pa.table({"text": ["ab" * (MIB - 100)]})
    smalti.write_table(largest, tmp_path / "a.mosaic")
    with smalti.open(tmp_path / "a.mosaic") as file:
        assert pa.Table.from_batches(file.iter_batches()) == largest
    with pytest.raises(smalti.SchemaError, match=r"row 1: a row is larger than a row group may be: found 2,097,\d+ b"):
        smalti.write_table(pa.table({"text": ["a", "ab" * MIB]}), tmp_path / "b.mosaic")
