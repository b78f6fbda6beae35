"""A file that is not Mosaic is named as what it is, by every way to open one; so is one whose end is missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

import smalti
from smalti.cli.main import main as command_line

MISSING = r"the end is missing \(it was not closed, or not copied whole\)"


@pytest.fixture
def table() -> pa.Table:
    return pa.table({"a": list(range(1000)), "b": [str(i * i) for i in range(1000)]})


def test_other_formats_are_named(
    tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    polars = pytest.importorskip("smalti.polars")
    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(table, "p.parquet")
    pyarrow.parquet.write_table(table, "lies.mosaic")
    pyarrow.orc.write_table(table, "o.orc")
    pyarrow.feather.write_feather(table, "f.feather", compression="uncompressed")
    Path("c.csv").write_text("a,b\n1,2\n")
    Path("notes").write_text("Dear diary, today I have written a very long line of text.\n")
    smalti.write_table(table, "t.mosaic")
    Path("t.gz").write_bytes(gzip.compress(Path("t.mosaic").read_bytes()))
    for path, said in {
        "p.parquet": "p.parquet is a Parquet file: use pyarrow.parquet, or smalti convert p.parquet p.mosaic",
        "lies.mosaic": "lies.mosaic is a Parquet file: use pyarrow.parquet, or smalti convert --from parquet lies",
        "o.orc": "o.orc is an ORC file: use pyarrow.orc, or smalti convert o.orc o.mosaic",
        "f.feather": "f.feather is an Arrow IPC file: use pyarrow.ipc, or smalti convert f.feather f.mosaic",
        "c.csv": "c.csv is a text file (CSV): smalti convert c.csv c.mosaic",
        "notes": "notes is a text file, not a Mosaic file",
        "t.gz": "t.gz is a gzip file",
    }.items():
        for read in (smalti.open, smalti.read_table, smalti.scan, polars.scan_mosaic):
            with pytest.raises(smalti.CorruptFileError) as refused:
                read(path)
            assert str(refused.value).startswith(said)
        assert command_line(["verify", path]) == 1
        assert said.partition(":")[0] in capsys.readouterr().out
    assert command_line(["convert", "p.parquet", "p.mosaic"]) == 0  # as the message says
    assert smalti.read_table("p.mosaic") == table


@pytest.mark.parametrize("kept", [0, 1, 31, 32, 1000, -33, -1])
def test_a_file_that_was_cut(tmp_path: Path, table: pa.Table, kept: int) -> None:
    path = tmp_path / "t.mosaic"
    smalti.write_table(table, path)
    path.write_bytes(path.read_bytes()[:kept])
    for read in (smalti.open, smalti.read_table):
        with pytest.raises(smalti.CorruptFileError, match=MISSING):
            read(path)


def test_the_name_of_another_format_is_warned_about(tmp_path: Path, table: pa.Table) -> None:
    with pytest.warns(UserWarning, match=r"x\.parquet will be a Mosaic file, though its name says Parquet") as seen:
        smalti.write_table(table, tmp_path / "x.parquet")
    assert seen[0].filename == __file__  # the line that is to be changed
    assert smalti.read_table(tmp_path / "x.parquet") == table
