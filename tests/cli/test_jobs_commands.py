"""convert, compact, verify, profile: the command line in front of `smalti.jobs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
from tests.cli.conftest import mixed_table


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("id,name,score\n" + "".join(f"{i},n{i % 3},{i / 4}\n" for i in range(100)))
    return path


def test_convert_there_and_back(run: Any, csv: Path, tmp_path: Path) -> None:
    mosaic, parquet = tmp_path / "t.mosaic", tmp_path / "t.parquet"
    done = run("convert", csv, mosaic, "--stats-columns", "id", "--num-buckets", 2, "--compression-level", 3)
    assert done.code == 0, done.err
    assert "100 rows" in done.out
    with smalti.open(mosaic) as file:
        assert (file.num_rows, file.num_buckets) == (100, 2)
        assert set(file.row_group(0).statistics) == {"id"}
    summary = json.loads(run("convert", mosaic, parquet, "--json", "-c", "id,score").out)
    assert summary["num_rows"] == 100
    assert pq.read_schema(parquet).names == ["id", "score"]
    assert run("diff", parquet, mosaic, "-c", "id,score").code == 0


def test_globs_choose_columns(run: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a1": [1], "a2": [2], "b": [3]}), tmp_path / "t.parquet")
    assert run("convert", tmp_path / "t.parquet", tmp_path / "t.mosaic", "-c", "a*").code == 0
    assert smalti.open(tmp_path / "t.mosaic").column_names == ["a1", "a2"]


def test_nothing_is_overwritten_unasked(run: Any, csv: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.mosaic"
    smalti.write_table(pa.table({"old": [1]}), target)
    refused = run("convert", csv, target)
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert smalti.open(target).column_names == ["old"]
    assert run("convert", csv, target, "--overwrite").code == 0
    assert smalti.open(target).num_columns == 3


@pytest.mark.parametrize(
    "arguments", [["--num-buckets", "x"], ["--row-group-max-bytes", "lots"], ["--engine", "abacus"]]
)
def test_wrong_usage(run: Any, csv: Path, arguments: list[str]) -> None:
    assert run("convert", csv, "t.mosaic", *arguments).code == 2


def test_bad_options_and_sources_are_one_line(run: Any, csv: Path, tmp_path: Path) -> None:
    for arguments in (
        [csv, tmp_path / "t.mosaic", "--compression-level", 99],
        [csv, tmp_path / "t.mosaic", "--to", "xyz"],
        [csv, tmp_path / "t.mosaic", "--stats-columns", "nope"],
        [tmp_path / "none.csv", tmp_path / "t.mosaic"],
    ):
        done = run("convert", *arguments)
        assert done.code == 1
        assert done.err.startswith("smalti: error: ")
        assert done.err.count("\n") == 1
        assert "bug" not in done.err


def test_columns_with_a_comma_in_their_name(run: Any, tmp_path: Path) -> None:
    table = pa.table({"a,b": [1], "a": [2], "b": [3], "c": [4]})
    smalti.write_table(table, tmp_path / "t.mosaic")
    for chosen, names in (
        (["-c", "a,b"], ["a,b"]),
        (["-c", "a,c"], ["a", "c"]),
        (["-c", "c", "-c", "a,b"], ["c", "a,b"]),
    ):
        done = run("convert", tmp_path / "t.mosaic", tmp_path / "o.parquet", *chosen, "--overwrite")
        assert done.code == 0, done.err
        assert pq.read_schema(tmp_path / "o.parquet").names == names
        profiled = json.loads(run("profile", tmp_path / "t.mosaic", *chosen, "--json").out)
        assert [column["column"] for column in profiled["columns"]] == names


def test_compact_leaves_files_of_the_right_size(run: Any, tmp_path: Path) -> None:
    """Options that were not given are not a reason to write all files anew."""
    (tmp_path / "t").mkdir()
    smalti.write_table(pa.table({"id": range(9)}), tmp_path / "t/a.mosaic")
    before = (tmp_path / "t/a.mosaic").stat()
    assert json.loads(run("compact", tmp_path / "t", "--json").out)["files"] == []
    assert (tmp_path / "t/a.mosaic").stat().st_ino == before.st_ino
    assert len(json.loads(run("compact", tmp_path / "t", "--compression-level", 3, "--json").out)["files"]) == 1


def test_compact(run: Any, tmp_path: Path) -> None:
    source = tmp_path / "small"
    source.mkdir()
    for i in range(5):
        smalti.write_table(pa.table({"id": [9 - i, i]}), source / f"{i}.mosaic")
    done = run("compact", source, tmp_path / "large", "--sort-by", "id", "--stats-columns", "id")
    assert done.code == 0, done.err
    assert smalti.dataset(tmp_path / "large").count_rows() == 10
    assert len(list((tmp_path / "large").glob("*.mosaic"))) == 1


def test_compact_leaves_large_files_as_they_are(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    table.mkdir()
    for i in range(2):
        smalti.write_table(pa.table({"id": [i]}), table / f"{i}.mosaic")
    assert run("compact", table).code == 0
    (made,) = table.glob("*.mosaic")
    assert run("compact", table).code == 0
    assert list(table.glob("*.mosaic")) == [made]
    assert run("compact", table, "--compression-level", 3).code == 0  # other options are a reason to write it again
    assert list(table.glob("*.mosaic")) != [made]


def test_clean(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    (table / "_mosaic_jobs/dead/0").mkdir(parents=True)
    smalti.write_table(pa.table({"id": [1]}), table / "a.mosaic")
    leftover = table / ".b.mosaic.0123.mosaic-tmp"
    leftover.write_bytes(b"half")
    assert run("clean", table).out == "nothing to remove\n"
    assert run("clean", table, "--older-than", "2h").out == "nothing to remove\n"
    done = run("clean", table, "--older-than", "0", "--json")
    assert json.loads(done.out) == {"table": str(table), "removed": ["dead", leftover.name]}
    assert sorted(path.name for path in table.iterdir()) == ["_mosaic_jobs", "a.mosaic"]
    assert run("clean", table, "--older-than", "0").out == "nothing to remove\n"
    missing = run("clean", tmp_path / "nope")
    assert (missing.code, missing.err) == (1, f"smalti: error: {tmp_path}/nope: No such directory\n")
    assert run("clean", table, "--older-than", "soon").code == 2


def test_clean_says_what_it_cannot_do(run: Any, tmp_path: Path) -> None:
    """A commit whose files have gone is reported in one line; all else is cleaned."""
    record = tmp_path / "_mosaic_jobs/commit-0000000000000001.json"
    (tmp_path / "_mosaic_jobs/dead/0").mkdir(parents=True)
    add = [["_mosaic_jobs/j/0/a.mosaic", "a.mosaic"]]
    record.write_text(json.dumps({"version": 2, "job": "j", "token": "t", "add": add, "remove": []}))
    done = run("clean", tmp_path, "--older-than", "1h")
    assert done.code == 1
    assert "a.mosaic: a committed file has gone; to give the commit up" in done.err
    assert done.err.count("\n") == 1
    assert run("clean", tmp_path, "--older-than", "0").out == f"removed {record.name}\nremoved dead\n"


def test_verify(run: Any, mixed: Path, tmp_path: Path) -> None:
    done = run("verify", mixed)
    assert done.code == 0, done
    assert "ok" in done.out
    data = bytearray(mixed.read_bytes())
    data[60] ^= 0xFF
    broken = tmp_path / "broken.mosaic"
    broken.write_bytes(data)
    found = run("verify", mixed, broken)
    assert found.code == 1
    assert str(broken) in found.out
    document = json.loads(run("verify", broken, "--json").out)
    assert document["ok"] is False


def test_profile(run: Any, mixed: Path, tmp_path: Path) -> None:
    done = run("profile", mixed)
    assert done.code == 0, done.err
    assert any(line.startswith("id ") for line in done.out.splitlines())
    document = json.loads(run("profile", mixed, "--json", "-c", "id,na*").out)
    assert [item["column"] for item in document["columns"]] == ["id", "name"]
    page, table = tmp_path / "p.html", tmp_path / "p.mosaic"
    assert run("profile", mixed, "--html", page, "-o", table).code == 0
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert smalti.open(table).num_rows == len(mixed_table().schema)
