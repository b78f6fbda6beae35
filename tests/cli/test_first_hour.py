"""What a person types in the first hour, and what the command line says to it."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `t.mosaic` (a column in each bucket), `damaged.mosaic` and a table `tbl`."""
    monkeypatch.chdir(tmp_path)
    table = pa.table({
        "user_id": range(100),
        "name": [f"user {i}" for i in range(100)],
        "price": pa.array([2.15, -0.1] * 50, pa.float32()),
        "zip": [f"{i:05}" for i in range(100)],
    })  # fmt: skip
    smalti.write_table(table, "t.mosaic", num_buckets=4, stats_columns="all")
    pq.write_table(table, "t.parquet")
    blob = bytearray(Path("t.mosaic").read_bytes())
    with smalti.open("t.mosaic") as file:
        bucket = next(b for b in file.layout().row_groups[0].buckets if b.columns[0].name == "name")
    blob[bucket.offset + bucket.size // 2] ^= 0xFF
    Path("damaged.mosaic").write_bytes(blob)
    Path("tbl").mkdir()
    smalti.write_table(table, "tbl/a.mosaic")
    return tmp_path


@pytest.fixture
def typed(run: Any) -> Any:
    """Run a command, and return its exit code, what it printed, and its complaints."""
    return lambda *arguments: astuple(run(*arguments))


def test_float32_is_printed_with_its_own_digits(typed: Any, here: Path) -> None:
    for arguments in (["head"], ["head", "--csv"], ["head", "--json"], ["head", "--vertical"], ["stats"], ["profile"]):
        code, out, _ = typed(arguments[0], "t.mosaic", *arguments[1:])
        assert code == 0
        assert "2.15" in out
        assert not re.search(r"2\.15\d|0\.1\d", out), arguments
    assert "2.15\n" in typed("sql", "SELECT price FROM 't.mosaic' LIMIT 1")[1]
    for more in ([], ["--values"]):
        assert typed("report", "t.mosaic", "-o", "page.html", "--overwrite", *more)[0] == 0
        assert not re.search(r"2\.1500|0\.1000", (here / "page.html").read_text())


def test_what_was_skipped_is_named(typed: Any, here: Path) -> None:
    """`convert --on-error skip` wrote nothing, named no file and said that all is well."""
    code, out, _ = typed("convert", "damaged.mosaic", "out.mosaic", "--on-error", "skip")
    assert code == 1
    assert not Path("out.mosaic").exists()
    assert re.search(r"^skipped .*damaged\.mosaic: row group 0, bucket 0: ", out, re.MULTILINE)
    code, out, err = typed("convert", "damaged.mosaic", "-", "--to", "csv", "--on-error", "skip")
    assert (code, out) == (1, "")
    assert "skipped" in err
    (here / "both").mkdir()
    for name in ("t.mosaic", "damaged.mosaic"):
        (here / name).rename(here / "both" / name)
    for command in (["convert", "both", "out"], ["profile", "both"]):
        code, out, _ = typed(*command, "--on-error", "skip")
        assert code == 0
        assert re.search(r"^skipped .*damaged\.mosaic: ", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["count", "t.mosaic", "--where", "user_id = '1'"],
            1,
            "user_id = '1': column is int64, value is text; write 1",
        ),
        (["count", "t.mosaic", "--where", 'name = "a"'], 1, "no column 'a'; text belongs in single quotes: 'a'"),
        (["sql", "FROM 'tbl'"], 1, "no table 'tbl'; a directory is written with a slash at its end: FROM 'tbl/'"),
        (["sql", "FROM tt", "t.mosaic"], 1, "no table 'tt'; did you mean 't'?"),
        (["sql", "SELECT usr_id FROM 't.mosaic'"], 1, "no column 'usr_id'; did you mean 'user_id'?"),
        (
            ["head", "t.mosaic", "--colums", "x"],
            2,
            "smalti head: error: no option '--colums'; did you mean '--columns'",
        ),
        (["sql", "FROM t", "t.mosaic", "-c", "x"], 2, "smalti sql: error: no option '-c'"),
        (["head", "empty"], 1, "in 'empty' (1 .txt)"),
        (["verify", "empty"], 1, "no *.mosaic files in"),
    ],
)
def test_mistakes(typed: Any, here: Path, arguments: list[str], code: int, said: str) -> None:
    (here / "empty").mkdir()
    (here / "empty" / "x.txt").touch()
    found, _, err = typed(*arguments)
    assert found == code
    assert said in err
    assert "pg_" not in err
    assert code == 1 or f"usage: smalti {arguments[0]} [-h]" in err


@pytest.mark.usefixtures("here")
def test_sql_does_not_suggest_a_flag_that_it_lacks(typed: Any) -> None:
    smalti.write_table(pa.table({f"sensor_{i}": [i] for i in range(1000)}), "wide.mosaic")
    assert "columns not shown: name columns in the query, or see" in typed("sql", "FROM 'wide.mosaic'")[1]
    assert "columns not shown: choose with -c 'pattern*', or see" in typed("head", "wide.mosaic")[1]
