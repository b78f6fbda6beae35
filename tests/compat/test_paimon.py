"""Each fault of pypaimon that `smalti._compat.paimon` avoids. A test fails when the fault is gone."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

pytest.importorskip("pypaimon")


def test_fields_are_built_for_each_file() -> None:
    from pypaimon.read.reader import data_file_batch_reader

    opening = inspect.getsource(data_file_batch_reader.DataFileBatchReader.__init__)
    assert "PyarrowFieldParser.from_paimon_schema(" in opening


def test_two_processes_can_both_write_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pypaimon.common.options import Options
    from pypaimon.filesystem.local_file_io import LocalFileIO

    file_io, path = LocalFileIO(str(tmp_path), Options({})), str(tmp_path / "snapshot-1")
    monkeypatch.setattr(Path, "exists", lambda _: False)  # as both see it, before either has renamed its file
    assert [file_io.try_to_write_atomic(path, content) for content in ("first", "second")] == [True, True]
