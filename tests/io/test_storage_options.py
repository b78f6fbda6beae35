"""`storage_options=` on everything that takes a URI, and stores of obstore as `filesystem=`."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore.store
import polars as pl
import pyarrow as pa
import pytest

import smalti
import smalti.duckdb
import smalti.polars
from smalti import jobs
from smalti.cli.main import main
from smalti.io.services import storage_arguments
from smalti.kudu import CFileReader, CFileWriter
from tests.io.test_secrets import SECRET, shown
from tests.support.s3 import S3Server

TABLE = pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]})


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(["bucket"]) as server:
        yield server


@pytest.fixture
def options(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a person types. Nothing else leads to the server."""
    for name in server.environment:
        monkeypatch.delenv(name, raising=False)
    return {
        "access_key_id": "key",
        "secret_access_key": SECRET,
        "endpoint": f"http://{server.address}",
        "region": "us-east-1",
    }


def test_everything_that_takes_a_uri_takes_them(options: dict[str, Any]) -> None:
    here: Any = {"storage_options": options}
    file, table = "s3://bucket/all/t.mosaic", "s3://bucket/table"
    smalti.write_table(TABLE, file, **here)
    with smalti.MosaicWriter("s3://bucket/all/w.mosaic", TABLE.schema, **here) as writer:
        writer.write(TABLE)
    smalti.write_dataset(TABLE, table, partition_by="id", **here)
    smalti.write_dataset(TABLE, table, partition_by="id", mode="append", **here)
    assert smalti.read_table(file, **here) == TABLE
    with smalti.open(file, **here) as opened:
        assert pickle.loads(pickle.dumps(opened)).num_rows == 3
    assert smalti.scan(file, ["id"], **here).to_table().num_columns == 1
    assert smalti.dataset(table, **here).count_rows() == 6
    assert smalti.polars.scan_mosaic(file, **here).select(pl.col("x").sum()).collect().item() == 4.5
    assert smalti.duckdb.scan(table, **here).aggregate("sum(id)").fetchall() == [(12,)]
    assert smalti.duckdb.query(f"SELECT count(*) FROM '{file}'", **here).fetchall() == [(3,)]  # type: ignore[union-attr]
    jobs.convert(file, "s3://bucket/out.parquet", **here)
    assert jobs.verify(table, **here).ok
    assert jobs.profile(file, **here).table.num_rows == 2
    assert jobs.compact(table, **here).num_rows == 6
    assert jobs.add_columns(table, lambda rows: {"y": [1] * rows.num_rows}, **here).rows == 6
    assert next(iter(smalti.loader(file, ["x"], 2, **here)))["x"].tolist() == [0.5, 1.5]
    smalti.report.write_report(file, io.BytesIO(), **here)
    assert jobs.recover(table, **here) == []
    assert jobs.clean(table, **here) == []
    with CFileWriter("s3://bucket/c.cfile", pa.int64(), array=False, **here) as cfile:
        cfile.write(TABLE["id"].combine_chunks())
    assert len(CFileReader("s3://bucket/c.cfile", **here).read()) == 3


def test_the_command_line_takes_them(
    options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]
    smalti.write_table(TABLE, tmp_path / "t.mosaic")
    assert main(["convert", str(tmp_path / "t.mosaic"), "s3://bucket/cli/", *flags]) == 0
    assert main(["count", "s3://bucket/cli/", "--where", "id > 1", *flags]) == 0
    assert capsys.readouterr().out.split()[-1] == "2"
    assert main(["verify", "s3://bucket/cli/", *flags]) == 0
    assert main(["head", "s3://bucket/none.mosaic", *flags]) == 1
    assert main(["head", "s3://bucket/none.mosaic", "--storage-option", f"secret_kee={SECRET}"]) == 1
    with pytest.raises(SystemExit):
        main(["head", "s3://bucket/none.mosaic", "--storage-option", SECRET])
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert "did you mean 'secret_key'?" in shown.err
    assert "an option is KEY=VALUE" in shown.err
    with pytest.raises(smalti.MosaicError, match="the store cannot be reached with these options"):
        smalti.open("s3://bucket/t.mosaic", storage_options={"access_key_id": "k"})


def test_local_paths_need_none(tmp_path: Path, options: dict[str, Any]) -> None:
    """So that a job can go from here to there with the options of one side."""
    smalti.write_table(TABLE, tmp_path / "t.mosaic", storage_options=options)
    jobs.convert(tmp_path / "t.mosaic", "s3://bucket/copied.mosaic", storage_options=options)
    assert smalti.read_table("s3://bucket/copied.mosaic", storage_options=options) == TABLE


@pytest.mark.parametrize(
    ("service", "given", "expected"),
    [
        ("s3", {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}, {"access_key": "k", "secret_key": "s"}),
        ("s3", {"aws_endpoint_url": "u", "aws_region": "r"}, {"endpoint_override": "u", "region": "r"}),
        ("s3", {"AWS_ENDPOINT_URL_S3": "u", "AWS_TOKEN": "t"}, {"endpoint_override": "u", "session_token": "t"}),
        ("s3", {"key": "k", "secret": "s", "anon": "true"}, {"access_key": "k", "secret_key": "s", "anonymous": True}),
        ("s3", {"AWS_ALLOW_HTTP": "true", "skip_signature": "true"}, {"allow_http": True, "anonymous": True}),
        ("s3", {"virtual_hosted_style_request": "false"}, {"virtual_hosted_style_request": False}),
        ("gs", {"GOOGLE_APPLICATION_CREDENTIALS": "f"}, {"application_credentials": "f"}),
        ("gs", {"service_account_path": "f", "base_url": "u"}, {"service_account": "f", "endpoint_override": "u"}),
        ("abfs", {"AZURE_STORAGE_ACCOUNT_NAME": "a"}, {"account_name": "a"}),
        ("abfs", {"azure_storage_account_key": "k"}, {"account_key": "k"}),
        ("abfs", {"AZURE_CLIENT_ID": "i", "sas_key": "s"}, {"client_id": "i", "sas_token": "s"}),
    ],
)  # fmt: skip
def test_names_of_all_the_libraries(service: str, given: dict[str, str], expected: dict[str, str]) -> None:
    assert storage_arguments(service, given) == expected


def test_names_of_obstore_are_taken_by_obstore(options: dict[str, Any]) -> None:
    """Every option that is passed on under its own name is one that the store has."""
    flags: dict[str, Any] = {"virtual_hosted_style_request": False, "unsigned_payload": True, "disable_tagging": True}
    smalti.write_table(TABLE, "s3://bucket/flags.mosaic", storage_options={**options, **flags, "allow_http": True})
    assert smalti.read_table("s3://bucket/flags.mosaic", storage_options={**options, **flags}).num_rows == 3


def test_values_are_shown_nowhere(options: dict[str, Any]) -> None:
    here: Any = {"storage_options": options}
    smalti.write_dataset(TABLE, "s3://bucket/secret", **here)
    with smalti.dataset("s3://bucket/secret", **here) as t:
        texts = [repr(t), repr(t.files), repr(t.locations), repr(t.scan()), t._repr_html_()]
    compacted = jobs.compact("s3://bucket/secret", **here)
    texts += [repr(compacted), str(compacted.to_dict()), repr(jobs.profile("s3://bucket/secret", **here))]
    records = [entry for entry in t.locations[0].parent.child("_mosaic_jobs").entries() if entry.size]
    texts += [t.locations[0].parent.child(f"_mosaic_jobs/{entry.name}").read_bytes().decode() for entry in records]
    texts += [
        shown(lambda: smalti.open("s3://bucket/none.mosaic", **here)),
        shown(lambda: smalti.read_table("s3://bucket/secret", ["nope"], **here)),
        shown(lambda: smalti.read_table("s3://bucket/t", storage_options={"secret_access_kee": SECRET})),
        shown(lambda: smalti.read_table("s3://bucket/t", storage_options={"secret_access_key": [SECRET]})),
        shown(lambda: smalti.read_table("s3://bucket/t", storage_options={**options, "access_key_id": None})),
        shown(lambda: smalti.read_table("s3://bucket/t", storage_options={"conditional_put": SECRET, **options})),
        shown(lambda: smalti.read_table("s3://bucket/t", filesystem="memory://", **here)),
        shown(lambda: smalti.read_table("s3://bucket/t", storage_options=SECRET)),  # type: ignore[arg-type]
    ]
    assert records
    assert [text for text in texts if SECRET in text] == []
    assert "did you mean 'secret_access_key'?" in texts[-6]


def test_stores_of_obstore_are_file_systems(options: dict[str, Any], tmp_path: Path) -> None:
    given: list[Any] = [
        obstore.store.S3Store("bucket", prefix="pre", config=options, client_options={"allow_http": True}),
        obstore.store.MemoryStore(),
        obstore.store.LocalStore(tmp_path),
    ]
    (tmp_path / "deep").mkdir()
    for store in given:
        smalti.write_table(TABLE, "deep/t.mosaic", filesystem=store)
        assert smalti.read_table("deep/t.mosaic", filesystem=store) == TABLE
        smalti.write_dataset(TABLE, "table", partition_by="id", filesystem=store)
        smalti.write_dataset(TABLE, "table", partition_by="id", mode="append", filesystem=store)
        assert smalti.dataset("table", filesystem=store).count_rows() == 6
        assert jobs.compact("table", filesystem=store).num_rows == 6
        assert smalti.dataset("table", filesystem=store).to_table()["x"].to_pylist() == [0.5, 0.5, 1.5, 1.5, 2.5, 2.5]
        with pytest.raises(FileNotFoundError):
            smalti.read_table("none.mosaic", filesystem=store)
    with pytest.raises(smalti.MosaicError, match="a path in a store begins below its bucket"):
        smalti.open("s3://bucket/t.mosaic", filesystem=given[0])
    opened = smalti.open("deep/t.mosaic", filesystem=given[0])
    assert pickle.loads(pickle.dumps(opened)).read() == TABLE
    assert smalti.read_table("s3://bucket/pre/deep/t.mosaic", storage_options=options) == TABLE
