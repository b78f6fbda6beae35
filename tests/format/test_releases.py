"""Old and new read each other: files of every version by today's code, today's files by both releases of the reference.

`tests/data/releases/README.md` says where the files come from.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from tests.support import reference
from tests.support.children import ROOT
from tests.support.compare import assert_same
from tests.support.files import written
from tests.tools import release_files

RELEASES = sorted(path for path in (ROOT / "tests/data/releases").glob("*.zip") if not path.name.startswith("tables-"))
OLD_REFERENCE = ROOT / ".venv" / "reference-0.1.0"
#: What it does with the files of today that are named on its command line: the same as their own version does.
READ_BY_OLD = """
import sys
import pyarrow as pa
import mosaic
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    found = mosaic.read_table(lambda offset, length: data[offset : offset + length], len(data), None)
    with pa.OSFile(path + ".arrow", "wb") as sink, pa.ipc.new_stream(sink, found.schema) as stream:
        stream.write_table(found)
"""


def check(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.equals(expected.schema)
    if "vector" in found.column_names:  # `assert_same` compares bits, of the types that the format has.
        assert found.equals(expected)
    else:
        assert_same(found, expected)


def arrow(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(io.BytesIO(data)).read_all()


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_files_of_a_release_are_read_as_it_read_them(release: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(release) as archive:
        names = {name.partition(".")[0] for name in archive.namelist()}
        assert names >= {"scalars", "scalars-paged", "scalars-plain", "wide", "groups", "empty"}
        for name in sorted(names):
            data, expected = archive.read(f"{name}.mosaic"), arrow(archive.read(f"{name}.arrow"))
            some = expected.column_names[::3]
            check(smalti.read_table(data), expected)
            check(smalti.read_table(data, columns=some), expected.select(some))
            path = tmp_path / f"{name}.mosaic"
            path.write_bytes(data)
        if "groups" in names:
            found = smalti.read_table(tmp_path / "groups.mosaic", filters=[("id", ">=", 250), ("colour", "=", "red")])
            assert found["id"].to_pylist() == list(range(251, 300, 3))
            with smalti.open(tmp_path / "groups.mosaic") as file:
                assert [file.row_group(number).statistics["id"].max for number in range(3)] == [99, 199, 299]


@cache
def todays_files() -> dict[str, tuple[bytes, pa.Table]]:
    """Files of today with the options of `release_files` and with none, and what is stored in them."""
    found = {}
    tables = [*release_files.FILES, ("logical", release_files.logical, {})]
    for name, make, options in tables:
        for kind, more in (("", {}), ("-small", {"layout": "small"}), ("-one", {"num_buckets": 1, "checksum": False})):
            chosen: dict[str, Any] = {**options, **more} if "num_buckets" not in options else options
            data = written(make(), row_group_max_rows=100, **chosen)
            with smalti.open(data, logical=False) as file:
                found[f"{name}{kind}"] = data, file.read()
    return found


def test_the_reference_reads_todays_files() -> None:
    for data, stored in todays_files().values():
        check(reference.read(data), stored)


@pytest.mark.skipif(not OLD_REFERENCE.exists(), reason="make test installs paimon-mosaic 0.1.0 there")
def test_the_first_release_of_the_reference_reads_todays_files(tmp_path: Path) -> None:
    """It has no lists and no maps, so that it is asked for no files with these."""
    files = {
        name: file
        for name, file in todays_files().items()
        if not any(pa.types.is_nested(kind) for kind in file[1].schema.types)
    }
    assert {"scalars", "wide", "groups", "empty"} <= files.keys()
    for name, (data, _) in files.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", READ_BY_OLD, *(str(tmp_path / name) for name in files)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(OLD_REFERENCE)}, cwd=tmp_path)
    for name, (_, stored) in files.items():
        check(arrow((tmp_path / f"{name}.arrow").read_bytes()), stored)
