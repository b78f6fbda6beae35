"""Files, tables and scans have one vocabulary, and take filters as text."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smalti
from tests.support.children import ROOT

TABLE = pa.table(
    {
        "user_id": range(10),
        "name": [f"{'a' if number % 2 else 'b'}{number}" for number in range(10)],
        "day": [1, 2] * 5,
        "at": [{"x": number} for number in range(10)],
    }
)
TEXT = "user_id > 1 and name like 'a%'"
TUPLES: Any = [("user_id", ">", 1), ("user_id", "in", [1, 3, 5, 7, 9])]


@pytest.fixture
def origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A file, a table, and a scan of each, which read the same rows."""
    monkeypatch.chdir(tmp_path)
    smalti.write_table(TABLE, "f.mosaic", row_group_max_rows=3)
    smalti.write_dataset(TABLE, "d", partition_by="day")
    file, table = smalti.open("f.mosaic"), smalti.dataset("d")
    return {
        "file": file,
        "dataset": table,
        "scan of a file": file.scan(),
        "scan of a dataset": smalti.scan("d"),
        "pickled": pickle.loads(pickle.dumps(smalti.scan("d", ["user_id", "name"]))),
        "scan with more": file.scan(["name", "user_id"], "at.x < 10", with_row_index="row", batch_size=4, exact=True),
    }


def test_every_verb_of_every_origin(origins: dict[str, Any]) -> None:
    for name, origin in origins.items():
        assert {"user_id", "name"} <= set(origin.column_names) == set(origin.schema.names), name
        assert (origin.num_rows, origin.count_rows(), origin.count_rows(TEXT), origin.count_rows(TUPLES)) == (
            10,
            10,
            4,
            4,
        )
        assert origin.head(3, ["user_id"]).num_rows == 3
        assert origin.head(3, ["user_id"], "user_id >= 8").num_rows == 2
        assert sorted(origin.to_table(["user_id"], TEXT)["user_id"].to_pylist()) == [3, 5, 7, 9]
        batches = list(origin.to_batches(["name"], TEXT, 2))
        assert max(batch.num_rows for batch in batches) <= 2
        assert sorted(value for batch in batches for value in batch["name"].to_pylist()) == ["a3", "a5", "a7", "a9"]


def test_a_scan_is_narrowed(origins: dict[str, Any]) -> None:
    scan = origins["file"].scan(["user_id", "name"], "user_id < 6")
    assert scan.to_table(["name"], "user_id > 3").to_pydict() == {"name": ["b4", "a5"]}
    assert scan.to_table(["na*"]).column_names == ["name"]
    assert (scan.count_rows("day = 1"), scan.head(1, filters="day = 2")["user_id"].to_pylist()) == (3, [1])
    with pytest.raises(smalti.SchemaError, match="no column 'day'"):
        scan.to_table(["day"])


@pytest.mark.parametrize("origin", ["file", "dataset", "scan of a dataset"])
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (("user_id", ">", 1), r"put it in a list: found \('user_id', '>', 1\), expected \[\('user_id', '>', 1\)\]"),
        ("user_i > 1", "no column 'user_i'.*; did you mean 'user_id'?"),
        ("user_id > 'x'", "user_id"),
        ("user_id >", "expected a value or a column name"),
    ],
)
def test_mistakes_in_filters(origins: dict[str, Any], origin: str, filters: Any, message: str) -> None:
    with pytest.raises(smalti.SchemaError, match=message):
        origins[origin].to_table(filters=filters)


def test_text_is_the_language_of_the_command_line(origins: dict[str, Any]) -> None:
    for text in ["at.x between 2 and 4", "day = 2 or not user_id < 9", "name in ('a1', 'b2')", "day = 1"]:
        command = [sys.executable, "-m", "smalti", "count", "d", "--where", text]
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")}
        )
        assert int(printed.stdout.replace(",", "").split()[0]) == smalti.dataset("d").count_rows(text)
    assert origins["file"].to_table(["user_id"], "row = 3", with_row_index="row")["user_id"].to_pylist() == [3]
    assert origins["file"].matching_row_groups("user_id > 8") == [3]


def test_files_that_text_rules_out_by_partition_are_not_opened(origins: dict[str, Any], tmp_path: Path) -> None:
    (broken,) = [path for path in (tmp_path / "d" / "day=2").iterdir() if path.suffix == ".mosaic"]
    broken.write_bytes(b"no Mosaic file")
    assert smalti.read_table("d", ["user_id"], filters="day = 1").num_rows == 5
    del origins


@given(sizes=st.lists(st.integers(0, 9), max_size=8), batch_size=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_exact_batches(sizes: list[int], batch_size: int) -> None:
    from smalti._core.allowance import Allowance
    from smalti.file.scans import exact_batches

    rows = iter(range(100))
    batches = [pa.record_batch({"a": pa.array([next(rows) for _ in range(size)], pa.int64())}) for size in sizes]
    found = list(exact_batches(iter(batches), batch_size, Allowance(1 << 20)))
    assert [value for batch in found for value in batch["a"].to_pylist()] == list(range(sum(sizes)))
    assert all(batch.num_rows == batch_size for batch in found[:-1])
    assert not found or 0 < found[-1].num_rows <= batch_size


def test_exact_batches_of_files_and_tables(origins: dict[str, Any]) -> None:
    for name in ("file", "dataset"):
        for columns in (None, [], ["name", "at", "name"]):
            sizes = [batch.num_rows for batch in origins[name].to_batches(columns, None, 4, exact=True)]
            assert sizes == [4, 4, 2]
    assert [batch.num_rows for batch in origins["file"].iter_batches(4, exact=True)] == [4, 4, 2]
    with pytest.raises(smalti.MosaicError, match="exact batches need their size"):
        origins["file"].iter_batches(exact=True)


def test_packages_load_when_they_are_used() -> None:
    code = """
import sys, smalti
assert not {"smalti.jobs", "smalti.polars", "smalti.duckdb", "pyarrow"} & set(sys.modules)
for name in ("jobs", "polars", "duckdb", "kudu", "spark"):
    assert name in dir(smalti)
assert smalti.jobs.convert and smalti.polars.scan_mosaic and smalti.duckdb.query and smalti.kudu.CFileReader
assert smalti.spark.session
try:
    smalti.job
except AttributeError as error:
    assert "no attribute 'job'" in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})


def test_progress_is_drawn_as_the_command_line_does(
    origins: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`progress=True` was called: 'bool' object is not callable."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("smalti.progress.INTERVAL", 0)
    calls: list[Callable[[], Any]] = [
        lambda: smalti.read_table("f.mosaic", progress=True),
        lambda: smalti.read_table("d", progress=True),
        lambda: list(smalti.scan("f.mosaic", progress=True).to_batches()),
        lambda: smalti.jobs.convert("d", str(tmp_path / f"out{len(list(tmp_path.iterdir()))}/"), progress=True),
        lambda: smalti.jobs.verify("d", progress=True),
        lambda: smalti.jobs.profile("d", progress=True),
    ]
    for call in calls:
        monkeypatch.setattr("sys.stderr", Terminal())
        call()
        drawn = sys.stderr.getvalue()  # type: ignore[attr-defined]
        assert "░" in drawn
        assert drawn.endswith("\r\x1b[K")
        monkeypatch.setattr("sys.stderr", io.StringIO())
        call()
        assert sys.stderr.getvalue().count("\n") == 1  # type: ignore[attr-defined]
        assert "10 rows in" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr("sys.stderr", Terminal())
    smalti.read_table("d", progress=False)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
    del origins
