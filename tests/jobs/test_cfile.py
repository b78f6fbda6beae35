"""Kudu's arrays in and out of Mosaic: null, empty and null elements told apart on both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.kudu import CFileReader, CFileWriter

ARRAYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int32": (pa.int32(), [[1, 2], [], None, [None], [3, None, 4]]),
    "string": (pa.string(), [["a", None], None, [], ["", "é"]]),
    "double": (pa.float64(), [[1.5], [None, None], None, []]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_there_and_back(tmp_path: Path, kind: str) -> None:
    element, values = ARRAYS[kind]
    with CFileWriter(tmp_path / "readings.cfile", element) as writer:
        writer.write(pa.array(values, pa.list_(element)))
    jobs.convert(tmp_path / "readings.cfile", tmp_path / "out.mosaic")
    with smalti.open(tmp_path / "out.mosaic") as file:
        assert file.read().to_pydict() == {"readings": values}
        assert {column.path for bucket in file.layout().row_groups[0].buckets for column in bucket.columns} == {
            "readings",
            "readings.element",
        }
    jobs.convert(tmp_path / "out.mosaic", tmp_path / "back.cfile")
    with CFileReader(tmp_path / "back.cfile") as column:
        assert column.read().to_pylist() == values


def test_a_cfile_holds_one_column(tmp_path: Path) -> None:
    smalti.write_table(pa.table({"a": [[1]], "b": [[2]]}), tmp_path / "two.mosaic")
    with pytest.raises(smalti.MosaicError, match="one column"):
        jobs.convert(tmp_path / "two.mosaic", tmp_path / "two.cfile")
    jobs.convert(tmp_path / "two.mosaic", tmp_path / "b.cfile", columns=["b"])
    with CFileReader(tmp_path / "b.cfile") as column:
        assert column.read().to_pylist() == [[2]]


def test_a_corrupt_cfile_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.cfile").write_bytes(b"kuducfl2 but nothing more")
    with pytest.raises(smalti.MosaicError, match=r"bad\.cfile"):
        jobs.convert(tmp_path / "bad.cfile", tmp_path / "out.mosaic")
    assert not (tmp_path / "out.mosaic").exists()
