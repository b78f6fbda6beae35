"""What a type checker tells users: a mistyped option fails before the program runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from smalti.options import WriterOptions, WriterOptionValues
from tests.support.children import ROOT

PROGRAM = """
import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import smalti
import smalti.jobs
from smalti.options import WriterOptionValues

table = pa.table({"a": [1]})
smalti.write_table(table, "t.mosaic", compression="zstd", stats_columns=["a"], layout="small")
with smalti.MosaicWriter("t.mosaic", table.schema, num_buckets=3, checksum=False) as writer:
    writer.write(table)
shared: WriterOptionValues = {"compression_level": 3}
smalti.write_table(table, "t.mosaic", **shared)
version: str = smalti.__version__
smalti.write_dataset(table, "d", partition_by=["a"], mode="append", storage_options={"region": "eu"})
smalti.write_dataset((batch for batch in table.to_batches()), "d", partition_by="a")
smalti.read_table("d", ["a"], "a > 1 and a < 5", progress=True)
smalti.scan("d", batch_size=100, exact=True).head(3, filters="a = 1")
smalti.jobs.verify("d", storage_options={"AWS_REGION": "eu", "allow_http": True})
smalti.polars.scan_mosaic("d", n_rows=5, include_file_paths="path").collect()
smalti.duckdb.query("SELECT * FROM 'd/' WHERE a = ?", params=[1])
# What people type: lists that were made elsewhere are lists of something narrower than what a function declares.
filters = [("a", ">", 1)]
either = [[("a", "=", 1)], [("a", ">", 3), ("a", "<", 5)]]
names = ("a",)
smalti.read_table("t.mosaic", filters=filters)
smalti.read_table("t.mosaic", columns=names, filters=either)
smalti.read_table(Path("t.mosaic"), columns=["a"], filters=[("a", ">", 1), ("a", "<", datetime.date(2026, 1, 1))])
smalti.read_table("t.mosaic", filters=pc.field("a") > 1)
smalti.read_table("t.mosaic", filters="a > 1 and a < 5")
smalti.dataset("days/").to_table(columns=list(names), filters=filters)
smalti.dataset([Path("a.mosaic"), Path("b.mosaic")]).count_rows(filters)
for batch in smalti.open("t.mosaic").iter_batches(batch_size=100, columns=["a"], filters=either):
    rows: int = batch.num_rows
smalti.jobs.convert("a.parquet", "b.mosaic", columns=["a"], progress=print)
smalti.jobs.verify(["a.mosaic", "b.mosaic"]).ok
"""
WRONG = {
    'smalti.write_dataset(table, "d", mode="replace")': 'Argument "mode" to "write_dataset" has incompatible type',
    'smalti.write_dataset(table, "d", compresion_level=3)': 'Unexpected keyword argument "compresion_level"',
    'smalti.write_table(table, "t.mosaic", comression="zstd")': 'Unexpected keyword argument "comression"',
    'smalti.write_table(table, "t.mosaic", compression="gzip")': "expected \"Literal['zstd', 'none']\"",
    'smalti.MosaicWriter("t.mosaic", table.schema, num_bucket=3)': 'Unexpected keyword argument "num_bucket"',
    'smalti.write_table(table, "t.mosaic", stats_columns="id")': "incompatible type \"Literal['id']\"",
}


def test_a_mistyped_option_fails_in_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    first = PROGRAM.count("\n") + 1
    found = {int(line.split(":")[1]): line for line in done.stdout.splitlines() if ": error:" in line}
    assert sorted(found) == [first + number for number in range(len(WRONG))], done.stdout
    for number, message in enumerate(WRONG.values()):
        assert message in found[first + number]


def test_what_people_type_passes_pyright(tmp_path: Path) -> None:
    """The lists of the README's own example were refused, because a list is invariant."""
    pyright = shutil.which("basedpyright") or shutil.which("pyright")
    if pyright is None:
        pytest.skip("needs pyright")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = {"typeCheckingMode": "basic", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [pyright, "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert not [line for line in done.stdout.splitlines() if "error:" in line], done.stdout


def test_the_typed_options_are_the_options() -> None:
    assert list(WriterOptionValues.__annotations__) == [field.name for field in fields(WriterOptions)]
