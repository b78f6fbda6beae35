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
from smalti.cli.commands import COMMANDS


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


def test_what_can_be_read_of_a_damaged_file_is_saved(typed: Any, here: Path) -> None:
    code, out, _ = typed("verify", "damaged.mosaic")
    assert code == 1
    assert out.splitlines()[-1].endswith("damaged.mosaic: 3 of 4 columns are readable; lost: name")
    code, out, _ = typed("convert", "damaged.mosaic", "saved.mosaic", "--on-error", "skip-columns")
    assert code == 0
    assert re.search(r"^lost .*damaged\.mosaic: column 'name': ", out, re.MULTILINE)
    assert smalti.read_table("saved.mosaic") == smalti.read_table("t.mosaic").drop_columns(["name"])
    # Columns of a paged bucket stand for themselves.
    table = pa.table({f"gene_{i:04}": [float((j * i) % 97) for j in range(50)] for i in range(800)})
    smalti.write_table(table, "paged.mosaic", num_buckets=4, page_size_threshold=1)
    blob = bytearray((here / "paged.mosaic").read_bytes())
    with smalti.open("paged.mosaic") as file:
        bucket = file.layout().row_groups[0].buckets[1]
    assert bucket.mode == "paged"
    blob[bucket.offset + bucket.size - 20] ^= 0xFF
    (here / "paged.mosaic").write_bytes(blob)
    code, out, _ = typed("verify", "paged.mosaic")
    lost = re.search(r"799 of 800 columns are readable; lost: (gene_\d+)$", out.strip())
    assert lost is not None
    assert typed("convert", "paged.mosaic", "genes", "--on-error", "skip-columns")[0] == 0
    assert smalti.dataset("genes").to_table() == table.drop_columns([lost[1]])


def test_convert_by_condition_and_with_types(typed: Any, here: Path) -> None:
    (here / "t.csv").write_text("zip,price,name\n01234,1.5,ann\n99999,2.5,bob\n")
    assert typed("convert", "t.csv", "zip.mosaic", "--types", "zip=string", "--where", "price > 2", "-c", "zip")[0] == 0
    assert smalti.read_table("zip.mosaic").to_pydict() == {"zip": ["99999"]}
    for source in ("t.mosaic", "t.parquet"):
        condition = "user_id < 3 and name like 'user%'"
        assert typed("convert", source, "some.mosaic", "--where", condition, "--overwrite")[0] == 0
        assert smalti.read_table("some.mosaic") == smalti.read_table("t.mosaic").slice(0, 3)
    code, _, err = typed("convert", "t.csv", "x.mosaic", "--types", "zip=strng")
    assert (code, "zip=strng is no NAME=TYPE" in err) == (2, True)
    assert (
        "no column 'prise'; did you mean 'price'?" in typed("convert", "t.csv", "x.mosaic", "--where", "prise > 1")[2]
    )


def test_defaults_of_report_and_compact(typed: Any, here: Path) -> None:
    assert typed("report", "t.mosaic")[0] == 0
    assert (here / "t.html").exists()
    assert "nothing to do" in typed("compact", "tbl")[1]


def test_findings_come_first(typed: Any, here: Path) -> None:
    rows = 200
    table = pa.table({
        "id": range(rows),
        **{f"empty_{i}": pa.nulls(rows, pa.int32()) for i in range(6)},
        **{f"constant_{i}": [7] * rows for i in range(3)},
        **{f"dup_{i:02}": [float(j * j % 89) for j in range(rows)] for i in range(5)},
        "rare": [1, *[None] * (rows - 1)],
    })  # fmt: skip
    smalti.write_table(table, "f.mosaic", num_buckets=16)
    code, out, _ = typed("profile", "f.mosaic", "-o", "f.csv")
    assert code == 0
    said = "6 columns are empty, 3 constant, 4 identical to dup_00, 1 nearly empty"
    assert out.splitlines()[0].startswith(said)
    out = typed("profile", "f.mosaic", "--only", "duplicate,nearly-empty")[1]
    shown = [line.split()[0] for line in out.splitlines()[4:-1]]
    assert shown == ["dup_01", "dup_02", "dup_03", "dup_04", "rare"]
    for more in ([], ["--values"]):
        assert typed("report", "f.mosaic", "--overwrite", *more)[0] == 0
        page = (here / "f.html").read_text()
        assert '"words":"4 columns are identical to dup_00"' in page.replace('": "', '":"')
    smalti.write_table(pa.table({f"c{i}": [i] for i in range(300)}), "wide.mosaic")
    out = typed("profile", "wide.mosaic", "-o", "w.csv")[1]
    assert "… 250 more columns are in w.csv" in out
    assert len(out.splitlines()) < 60


def test_help_speaks_the_language_of_the_reader(typed: Any) -> None:
    for command in COMMANDS:
        footer = typed(command, "--help")[1].rpartition("Reads ")[2]
        assert not re.search(r"\b(tails?|slots?|buckets?|row groups?)\b", footer.replace("`--bucket`", "")), command


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
        (["head", "t.mosaic", "-n", "x"], 2, "argument -n: 'x' is no whole number"),
        (["sql"], 2, "the following arguments are required: QUERY\n"),
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
