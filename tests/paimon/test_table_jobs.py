"""Files converted into Paimon tables, and snapshots verified and profiled, by functions and by commands."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
import smalti.paimon
from smalti.cli.main import main
from smalti.io.locations import Location, default_storage_options
from smalti.jobs.formats import text
from smalti.paimon.tables import _find
from smalti.table import paimon_layout
from tests.paimon.kinds import BASIC, KINDS, in_order, read_by_pypaimon, rows
from tests.support.flags import ignored_options


class TestConvert:
    def test_formats_and_modes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        pq.write_table(rows(0, 10), tmp_path / "a.parquet")
        (tmp_path / "b.csv").write_text("x,id,n\nword,77,\n")
        assert smalti.paimon.convert(tmp_path / "a.parquet", path).num_rows == 10
        assert main(["convert", str(tmp_path / "b.csv"), path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["num_rows"] == 1
        added = pa.table({"id": [77], "x": ["word"], "n": [None]}, schema=BASIC)
        assert in_order(read_by_pypaimon(path)) == in_order(pa.concat_tables([rows(0, 10), added]))
        assert main(["convert", str(tmp_path / "b.csv"), path, "--overwrite", "--stats-columns", "id"]) == 1
        assert "mosaic.stats-columns" in capsys.readouterr().err  # an option of the table, which says how it is written
        assert main(["convert", str(tmp_path / "b.csv"), path, "--overwrite"]) == 0
        assert in_order(read_by_pypaimon(path)) == in_order(added)
        assert smalti.paimon.dataset(path).snapshot_id == 3

    def test_whether_the_target_is_a_paimon_table_is_asked_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = smalti.paimon.create(tmp_path / "lake/t", BASIC)
        pq.write_table(rows(0, 10), tmp_path / "a.parquet")
        asked = []
        original = paimon_layout.is_paimon_table

        def asking(location: Location) -> bool:
            asked.append(location.path)
            return original(location)

        monkeypatch.setattr(paimon_layout, "is_paimon_table", asking)
        for target in (path, f"{path}/", str(tmp_path / "plain")):
            asked.clear()
            assert main(["convert", str(tmp_path / "a.parquet"), target]) == 0
            assert asked.count(target.rstrip("/")) <= 1
        assert smalti.paimon.dataset(path).count_rows() == 20
        # Neither a directory of tables nor a part of a table is one.
        for target in (str(tmp_path / "lake"), f"{path}/bucket-0"):
            assert main(["convert", str(tmp_path / "a.parquet"), target]) == 1

    def test_every_option_works_or_is_refused_by_name(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`--where` was ignored here, so that all rows were written."""
        schema = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("text", pa.string())])
        table = pa.table({"id": range(9), "x": range(9), "text": ["a"] * 9}, schema)
        for name in ("a.parquet", "b.parquet"):
            pq.write_table(table, tmp_path / name)
        paimon = smalti.paimon.create(tmp_path / "from", schema)
        smalti.paimon.write(table, paimon)
        monkeypatch.chdir(tmp_path)

        def call(typed: list[str]) -> Any:
            shutil.rmtree("t", ignore_errors=True)
            path = smalti.paimon.create("t", schema)
            smalti.paimon.write(table.slice(0, 2), path)
            code = main(typed)
            printed = capsys.readouterr()
            found = smalti.paimon.dataset(path).to_table().to_pydict()
            return SimpleNamespace(code=code, out=re.sub(r"[0-9a-f-]{36}", "", printed.out), err=printed.err), found

        assert ignored_options("convert", ["a.parquet", "t"], call, {}, {}) == []
        assert call(["convert", "a.parquet", "t", "--where", "id = 3"])[1]["id"] == [0, 1, 3]
        for written in ("--compression", "none"), ("--no-checksum",), ("--threads", "1"), ("--layout", "small"):
            done, _ = call(["convert", "a.parquet", "t", *written])
            assert done.err.startswith(f"smalti: error: {written[0].replace('--no-', '--')}: table options control")
        assert call(["convert", "from/bucket-0", "t"])[0].code == 1
        assert len(call(["convert", "from/bucket-0", "t", "--plain"])[1]["id"]) == 11
        for command in ("verify", "profile", "head", "cat", "tail", "count"):
            unseen = ["--overwrite", "--on-error", "--output", "--html", "--snapshot"] if command == "profile" else []
            nothing = dict.fromkeys(unseen, "files that it makes are not looked at; the first snapshot is the newest")
            assert ignored_options(command, ["t"], call, {}, nothing) == [], command

    def test_directories_spell_columns(self, tmp_path: Path) -> None:
        schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
        for day in ("2024-01-01", "__HIVE_DEFAULT_PARTITION__"):
            (tmp_path / f"in/day={day}").mkdir(parents=True)
            pq.write_table(pa.table({"id": [1]}), tmp_path / f"in/day={day}/a.parquet")
        path = smalti.paimon.create(tmp_path / "t", schema, partition_by=["day"])
        smalti.paimon.convert(tmp_path / "in", path)
        days = [row["day"] for row in in_order(read_by_pypaimon(path))]
        assert sorted(days, key=str) == [dt.date(2024, 1, 1), None]

    def test_what_fails_changes_nothing(self, tmp_path: Path) -> None:
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        (tmp_path / "b.csv").write_text("id,absent\n1,2\n")
        with pytest.raises(smalti.MosaicError):
            smalti.paimon.convert(tmp_path / "b.csv", path)
        assert smalti.paimon.dataset(path).snapshot_id is None
        assert not list(Path(path).rglob("*.mosaic"))

    def test_text_that_does_not_fit_the_table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also far down, where types that were guessed would be widened: those of the table are given."""
        monkeypatch.setattr(text, "TEXT_BLOCK_BYTES", 64)
        path = smalti.paimon.create(tmp_path / "t", BASIC)
        (tmp_path / "b.csv").write_text("x,id,n\n" + "word,77,\n" * 50 + "word,many,\n")
        with pytest.raises(smalti.SchemaError, match=r"b\.csv: values do not fit the types of the table"):
            smalti.paimon.convert(tmp_path / "b.csv", path)
        assert smalti.paimon.dataset(path).snapshot_id is None


class TestRows:
    @pytest.mark.parametrize("kind", ["append", "primary_key_updated"])
    def test_commands_show_the_rows_of_the_newest_snapshot(
        self, kind: str, made: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = made(kind)
        expected = read_by_pypaimon(path)
        assert main(["count", path]) == 0
        assert capsys.readouterr().out == f"{expected.num_rows}\n"
        assert main(["cat", path, "-c", "i*", "--json"]) == 0
        found = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
        assert sorted(found) == sorted(expected["id"].to_pylist())
        assert main(["schema", path, "--json"]) == 0
        names = [column["name"] for column in json.loads(capsys.readouterr().out)["columns"]]
        assert names == expected.column_names
        assert main(["profile", path, "-c", "i*", "--json"]) == 0
        assert [column["column"] for column in json.loads(capsys.readouterr().out)["columns"]] == ["id"]
        # Its parts are still no tables.
        assert main(["count", path, path]) == 1


class TestSnapshots:
    def test_verify_checks_the_files_of_a_snapshot(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = KINDS["overwritten"](tmp_path)
        old = set(smalti.paimon.dataset(path, snapshot=1).files)
        assert {report.path for report in smalti.paimon.verify(path).files} == set(smalti.paimon.dataset(path).files)
        for damaged in old:
            data = bytearray(Path(damaged).read_bytes())
            data[5] ^= 0xFF
            Path(damaged).write_bytes(data)
        assert main(["verify", path]) == 0
        assert main(["verify", path, "--snapshot", "1"]) == 1
        assert "data-" in capsys.readouterr().out

    @pytest.mark.parametrize("kind", ["append", "primary_key_updated", "renamed"])
    def test_profile_is_of_the_rows(
        self, kind: str, made: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = made(kind)
        expected = read_by_pypaimon(path)
        found = smalti.paimon.profile(path)
        assert (found.num_rows, found.table["column"].to_pylist()) == (expected.num_rows, expected.column_names)
        assert main(["profile", path, "--snapshot", "1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["num_rows"] == smalti.paimon.dataset(path, snapshot=1).count_rows()


def test_storage_options_of_the_command_line_reach_pypaimon() -> None:
    """`--storage-option` sets defaults for the process, which Paimon tables ignored."""
    with default_storage_options({"access_key": "k", "secret_key": "s", "endpoint_override": "localhost:1"}):
        uri, options, location = _find("s3://lake/t?scheme=http", None)
    assert (uri, options["s3.access-key"], options["s3.endpoint"]) == ("s3://lake/t", "k", "http://localhost:1")
    assert location is not None
    assert "s3.access-key" not in _find("s3://lake/t", None)[1]
