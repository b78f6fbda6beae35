"""The page and the docstrings say what happens: their code runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pyarrow as pa
import pytest

import smalti.kudu

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kudu.md").read_text()
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(smalti.kudu.__path__, "smalti.kudu.") if "_kernels" not in m.name
)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/kudu.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "4 string DICT" in printed
    assert "[[None], None, [], [4, 2]]" in printed


def test_bytes_drawn_on_the_page_are_those_of_the_blocks() -> None:
    drawn = re.findall(r"^(0[3a] .*│ \w{8})$", PAGE, re.MULTILINE)
    assert len(drawn) == 2
    b = bytes.fromhex(drawn[0].replace("│", ""))
    assert smalti.kudu.decode_array_block(b, pa.int32()).to_pylist() == [[None], None, [], [4, 2]]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names() -> None:
    assert smalti.kudu.__all__ == [
        "CFileMetadata",
        "CFileReader",
        "CFileWriter",
        "Compression",
        "DataType",
        "Dictionary",
        "Encoding",
        "Entry",
        "decode_array_block",
        "encode_array_block",
    ]
    for name in smalti.kudu.__all__:
        documented = getattr(smalti.kudu, name).__doc__
        assert documented
        only_returned = name in ("CFileMetadata", "Compression", "DataType", "Encoding", "Entry")
        assert only_returned or ">>>" in documented


def test_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.kudu_arrays import main

    assert main(["--arrays", "200", "--rounds", "1"]) == 0
    assert "kudu bit_shuffle" in capsys.readouterr().out
