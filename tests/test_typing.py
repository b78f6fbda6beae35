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
"""
WRONG = {
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
