"""A Paimon table is never taken for a plain directory, and what is in its directory is not changed.

The tables here have the layout of Paimon's and are made by hand, so that pypaimon is not needed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.cli.main import main
from smalti.io import locate, write_whole
from smalti.table.paimon_layout import is_paimon_table
from tests.support.s3 import S3Server, s3_by_uri

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_by_uri("bucket") as server:
        yield server


@pytest.fixture(params=["local", "s3"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory with one Paimon table, `t`."""
    if request.param == "s3":
        request.getfixturevalue("server")
    root = str(tmp_path / "warehouse") if request.param == "local" else f"s3://bucket/{tmp_path.name}"
    lay_out(f"{root}/t", buckets=("bucket-0", "day=1/bucket-0", "day=1/bucket-postpone"))
    return root


def put(path: str, text: str) -> None:
    write_whole(locate(path), text.encode())


def schema_text(**options: str) -> str:
    return json.dumps({"id": 0, "fields": [{"id": 0, "name": "id", "type": "BIGINT"}], "options": options})


def lay_out(path: str, buckets: tuple[str, ...] = ("bucket-0",), snapshot: bool = True, **options: str) -> str:
    for bucket in buckets:
        locate(f"{path}/{bucket}").make_directory()
        smalti.write_table(ROWS, f"{path}/{bucket}/data-0.mosaic")
    put(f"{path}/schema/schema-0", schema_text(**options))
    if snapshot:
        put(f"{path}/snapshot/snapshot-1", "{}")
    return path


def files_below(path: str) -> dict[str, int]:
    return {info.path: info.size for info in locate(path).entries(recursive=True) if info.is_file}


#: What may be asked for: the table, above it, below it, by pattern, by its files.
ASKED = [
    "t",
    "",
    "t/bucket-0",
    "t/day=1",
    "t/day=1/bucket-0",
    "t/*/*.mosaic",
    "t/bucket-*",
    "t/bucket-0/*",
    "*",
    "t/day=*",
]


class TestReading:
    @pytest.mark.parametrize("asked", ASKED)
    def test_is_refused_wherever_the_table_is(self, warehouse: str, asked: str) -> None:
        path = f"{warehouse}/{asked}".rstrip("/")
        for read in (smalti.dataset, smalti.read_table, smalti.scan, jobs.verify, jobs.profile):
            with pytest.raises(smalti.PaimonTableError, match=r"smalti\.paimon\.dataset.*plain=True"):
                read(path)

    def test_lists_of_files_are_refused_and_single_files_are_not(self, warehouse: str) -> None:
        files = [f"{warehouse}/t/bucket-0/data-0.mosaic", f"{warehouse}/t/day=1/bucket-0/data-0.mosaic"]
        with pytest.raises(smalti.PaimonTableError):
            smalti.dataset(files)
        assert smalti.read_table(files[0]).equals(ROWS)
        assert jobs.verify(files[0]).ok

    @pytest.mark.parametrize("asked", ASKED)
    def test_is_plain_if_asked_for(self, warehouse: str, asked: str) -> None:
        path = f"{warehouse}/{asked}".rstrip("/")
        rows = smalti.dataset(path, partitioning=None, plain=True).count_rows()
        assert rows == smalti.dataset(path, plain=True).to_table(["id"]).num_rows if "day" in asked else rows
        assert jobs.verify(path, plain=True).ok

    def test_the_command_line(self, warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        table = f"{warehouse}/t"
        refused = [["convert", table, str(tmp_path / "out")], ["compact", table, "--plain"], ["clean", table]]
        if find_spec("pypaimon") is None:  # with it, they are about the newest snapshot: tests/paimon/test_jobs.py
            refused += [["verify", table], ["profile", table], ["convert", str(tmp_path / "a.mosaic"), table]]
        smalti.write_table(ROWS, tmp_path / "a.mosaic")
        for command in refused:
            assert main(command) != 0
            assert "a Paimon table" in capsys.readouterr().err
        assert main(["verify", table, "--plain"]) == 0


@pytest.mark.skipif(find_spec("pypaimon") is not None, reason="it is installed")
def test_what_to_install_is_said() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'smalti\[paimon\]'"):
        import smalti.paimon  # noqa: F401


class TestWriting:
    @pytest.mark.parametrize("asked", ["t", "", "t/bucket-0", "t/day=1", "t/day=2/bucket-0"])
    def test_is_always_refused_and_changes_nothing(self, warehouse: str, asked: str, tmp_path: Path) -> None:
        path = f"{warehouse}/{asked}".rstrip("/")
        source = tmp_path / "source"
        source.mkdir()
        smalti.write_table(ROWS, source / "a.mosaic")
        before = files_below(warehouse)
        changes: list[Callable[[], Any]] = [
            lambda: jobs.convert(source, path),
            lambda: jobs.convert(source, path, overwrite=True),
            lambda: jobs.compact(source, path, overwrite=True),
            lambda: jobs.compact(path),
            lambda: jobs.compact(path, plain=True),
        ]
        for change in changes if asked != "t/day=2/bucket-0" else changes[:3]:
            with pytest.raises(smalti.PaimonTableError, match=r"smalti\.paimon\.write|plain=True"):
                change()
        assert files_below(warehouse) == before

    @pytest.mark.parametrize("asked", ["t", "", "t/bucket-0"])
    def test_cleaning_is_refused(self, tmp_path: Path, asked: str) -> None:
        lay_out(str(tmp_path / "t"))
        mark = tmp_path / "t" / "snapshot" / ".snapshot-2.0123.tmp"
        mark.write_text("a commit of Paimon's that is under way")
        os.utime(mark, (0, 0))
        with pytest.raises(smalti.PaimonTableError, match=r"smalti\.paimon\.write"):
            jobs.clean(tmp_path / asked, timedelta(0))
        assert mark.exists()

    def test_one_file_of_a_table_is_not_written_by_a_job(self, tmp_path: Path) -> None:
        table = lay_out(str(tmp_path / "t"))
        smalti.write_table(ROWS, tmp_path / "a.mosaic")
        with pytest.raises(smalti.PaimonTableError):
            jobs.convert(tmp_path / "a.mosaic", f"{table}/bucket-0/b.mosaic")


class TestRecognition:
    @pytest.mark.parametrize(
        ("snapshot", "schema", "expected"),
        [
            (True, schema_text(), True),
            (True, "no JSON", True),
            (False, schema_text(), True),  # created, and nothing committed: files in it belong to no snapshot
            (False, schema_text(type="format-table"), False),
            (False, "no JSON", False),
            (False, '{"fields": []}', False),
            (False, '["a", "list"]', False),
        ],
    )
    def test_by_schema_and_snapshots(self, tmp_path: Path, snapshot: bool, schema: str, expected: bool) -> None:
        put(f"{tmp_path}/schema/schema-3", schema)
        if snapshot:
            put(f"{tmp_path}/snapshot/LATEST", "1")
        assert is_paimon_table(locate(tmp_path)) is expected

    def test_format_tables_are_plain_directories(self, tmp_path: Path) -> None:
        lay_out(str(tmp_path), ("day=1",), snapshot=False, type="format-table")
        assert smalti.dataset(tmp_path).to_table().to_pydict() == {"id": [1, 2, 3], "day": [1, 1, 1]}

    def test_directories_with_such_names_are_not_enough(self, tmp_path: Path) -> None:
        for name in ("schema", "snapshot", "bucket-0", "day=1/bucket-0"):
            (tmp_path / name).mkdir(parents=True)
            smalti.write_table(ROWS, tmp_path / name / "a.mosaic")
        for asked in ("", "*", "bucket-0", "day=1/bucket-0"):
            assert smalti.dataset(tmp_path / asked, partitioning=None).count_rows() in (3, 12)

    def test_costs_plain_directories_nothing(self, server: S3Server) -> None:
        for day in (1, 2):
            smalti.write_table(ROWS, f"s3://bucket/plain/day={day}/a.mosaic")
        for path in ("s3://bucket/plain", "s3://bucket/plain/day=1", "s3://bucket/plain/*/*.mosaic"):
            counts = []
            for plain in (True, False):
                server.reset()
                smalti.dataset(path, plain=plain)
                counts.append(len(server.requests()))
            assert counts[0] == counts[1]


class TestPlainDirectories:
    def test_paimons_null_is_null(self, tmp_path: Path) -> None:
        for city in ("__DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__", "Bari"):
            (tmp_path / f"city={city}").mkdir()
            smalti.write_table(pa.table({"id": [1]}), tmp_path / f"city={city}" / "a.mosaic")
        dataset = smalti.dataset(tmp_path)
        assert sorted(dataset.to_table()["city"].to_pylist(), key=str) == ["Bari", None, None]
        assert dataset.count_rows([("city", "=", "Bari")]) == 1

    def test_what_a_file_stores_wins_over_its_directory(self, tmp_path: Path) -> None:
        days = {19723: dt.date(2024, 1, 1), 19724: dt.date(2024, 1, 2)}
        for number, day in days.items():
            (tmp_path / f"day={number}").mkdir()
            table = pa.table({"day": pa.array([day], pa.date32()), "id": [number]})
            smalti.write_table(table, tmp_path / f"day={number}" / "a.mosaic")
        dataset = smalti.dataset(tmp_path)
        assert dataset.to_table().to_pydict() == {"day": list(days.values()), "id": list(days)}
        assert dataset.to_table(["day"]).column("day").to_pylist() == list(days.values())
        for schema in (None, dataset.schema):
            chosen = smalti.dataset(tmp_path, schema=schema)
            assert chosen.to_table(filters=[("day", "=", days[19724])])["id"].to_pylist() == [19724]
            assert chosen.to_table(["id"], filters=[("day", ">", dt.date(2023, 1, 1))]).num_rows == 2

    def test_some_files_may_store_it_and_others_not(self, tmp_path: Path) -> None:
        for year, columns in {2023: {"id": [1]}, 2024: {"id": [2], "year": pa.array([2024], pa.int32())}}.items():
            (tmp_path / f"year={year}").mkdir()
            smalti.write_table(pa.table(columns), tmp_path / f"year={year}" / "a.mosaic")
        table = smalti.dataset(tmp_path).to_table()
        assert table.to_pydict() == {"id": [1, 2], "year": [2023, 2024]}
        assert smalti.dataset(tmp_path).to_table(["id"], filters=[("year", "=", 2023)])["id"].to_pylist() == [1]
