"""Mistakes of the first hour, run, with what smalti says to each; `generate.py` makes a page of them."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import smalti
from smalti.cli.main import main

#: What was typed, by subject. What begins with `smalti ` is typed to a shell, all else to Python.
MISTAKES = {
    "filters": [
        'smalti.read_table("t.mosaic", filters=[("user_id", "=", "1")])',
        'smalti.read_table("t.mosaic", filters=[("user_id", "in", ["1"])])',
        'smalti.read_table("t.mosaic", filters=[("name", "=", 7)])',
        'smalti.read_table("t.mosaic", filters=[("day", "=", "tomorrow")])',
        'smalti.read_table("t.mosaic", filters=[("usr_id", "=", 1)])',
        'smalti.read_table("t.mosaic", filters=("user_id", "=", 1))',
        "smalti count t.mosaic --where \"user_id = '1'\"",
        "smalti count t.mosaic --where 'name = \"ann\"'",
    ],
    "files": [
        'smalti.read_table("t.parquet")',
        'smalti.read_table("t.csv")',
        'smalti.read_table("cut.mosaic")',
        'smalti.read_table("notes")',
        'smalti.read_table("nothing.mosaic")',
        'smalti.write_table(table, "t2.parquet")',
        "smalti head notes",
        "smalti convert damaged.mosaic out.mosaic --on-error skip",
        "smalti convert damaged.mosaic saved.mosaic --on-error skip-columns",
        "smalti verify damaged.mosaic",
        "smalti compact tbl",
    ],
    "columns": [
        'smalti.read_table("t.mosaic", columns=["user_di"])',
        'smalti.read_table("t.mosaic", columns="user_id")',
    ],
    "the command line": [
        "smalti haed t.mosaic",
        "smalti head t.mosaic --colums user_id",
        "smalti sql \"FROM 'tbl'\"",
        "smalti sql \"SELECT usr_id FROM 't.mosaic'\"",
        "smalti convert t.csv t3.mosaic --types zip=text",
    ],
}


def prepare() -> pa.Table:
    """Make the files that the mistakes are made with, in the current directory."""
    days = pa.array(range(20_454, 20_457), pa.date32())
    table = pa.table({"user_id": [1, 2, 3], "name": ["ann", "bob", "cho"], "day": days})
    smalti.write_table(table, "t.mosaic", num_buckets=3)
    pq.write_table(table, "t.parquet")
    Path("t.csv").write_text("user_id,zip\n1,01234\n")
    whole = Path("t.mosaic").read_bytes()
    Path("cut.mosaic").write_bytes(whole[:-40])
    with smalti.open("t.mosaic") as file:
        bucket = file.layout().row_groups[0].buckets[1]
    broken = bytearray(whole)
    broken[bucket.offset + bucket.size // 2] ^= 0xFF
    Path("damaged.mosaic").write_bytes(broken)
    for directory in ("tbl", "notes"):
        Path(directory).mkdir()
    Path("tbl/a.mosaic").write_bytes(whole)
    Path("notes/a.txt").touch()
    return table


def said(typed: str, table: pa.Table) -> str:
    """What smalti says to what was typed: the error, the warning, or what the command prints."""
    if typed.startswith("smalti "):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
            main(shlex.split(typed)[1:])
        lines = (out.getvalue() + err.getvalue()).splitlines()
        return "\n".join(line for line in lines if not line.startswith(("usage:", " ")) and " in 0." not in line)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(typed, {"smalti": smalti, "table": table})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return f"{warned[0].category.__name__}: {warned[0].message}"


def rows() -> list[list[str]]:
    """Subject, what was typed, what smalti says."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            table = prepare()
            here = str(Path.cwd())
            return [
                [subject, typed, said(typed, table).replace(f"{here}/", "").replace(here, ".")]
                for subject, list_ in MISTAKES.items()
                for typed in list_
            ]
        finally:
            os.chdir(before)
