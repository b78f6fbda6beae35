"""What a type checker tells users: a mistyped option fails before the program runs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from smalti.options import WriterOptions, WriterOptionValues
from tests.support.children import ROOT

PROGRAM = """
import pyarrow as pa
import smalti
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


def test_the_typed_options_are_the_options() -> None:
    assert list(WriterOptionValues.__annotations__) == [field.name for field in fields(WriterOptions)]
