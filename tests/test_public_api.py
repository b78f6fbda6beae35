"""What users import: the names, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import smalti
from tests.children import ROOT

NAMES = [
    "ConflictError",
    "CorruptFileError",
    "MosaicError",
    "MosaicFile",
    "MosaicWriter",
    "SchemaError",
    "UnsupportedFeatureError",
    "WriterOptions",
    "open",
    "read_table",
    "write_table",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_public(name: str) -> None:
    assert name in smalti.__all__
    assert getattr(smalti, name).__doc__


def test_everything_public_exists() -> None:
    assert [name for name in smalti.__all__ if not hasattr(smalti, name)] == []
    assert sorted(smalti.__all__) == list(smalti.__all__)


def test_import_brings_in_no_engine() -> None:
    """`import smalti` is to cost little more than pyarrow."""
    heavy = [
        "pyarrow.compute",
        "pandas",
        "polars",
        "duckdb",
        "pyspark",
        "pyarrow.parquet",
        "pyarrow.dataset",
        "pyarrow.fs",
        "matplotlib",
    ]
    script = f"import sys, smalti; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
