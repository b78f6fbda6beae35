"""What users import: the names, and what importing them costs."""

from __future__ import annotations

import io
import subprocess
import sys

import pyarrow as pa
import pytest

import smalti
from tests.support.children import ROOT

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


def test_a_second_interpreter_is_refused_and_the_first_goes_on() -> None:
    """What docs/safety.md says of subinterpreters."""
    script = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import pyarrow as pa, smalti, io
smalti.write_table(pa.table({"a": [1]}), io.BytesIO())
second = interpreters.create()
try:
    found = interpreters.run_string(second, f"import sys; sys.path = {sys.path!r}; import smalti._core.names")
except Exception as error:
    found = error
print("ImportError" in str(found) or "ImportError" in repr(found))
out = io.BytesIO()
smalti.write_table(pa.table({"a": [1]}), out)
print(smalti.read_table(out.getvalue()).num_rows)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"]


def test_returned_types_are_exported() -> None:
    """Whoever gets an object can import its class, from where the function is that returned it."""
    table = pa.table({"a": [1, 2]})
    summary = smalti.write_table(table, out := io.BytesIO())
    with smalti.open(out.getvalue()) as file:
        layout, statistics = file.layout(), file.row_group(0).statistics
        found = [summary, summary.layout, file, file.scan(), file.row_group(0), statistics["a"], layout]
    group = layout.row_groups[0]
    found += [layout.index, group, group.buckets[0], group.buckets[0].columns[0]]
    assert [type(each).__name__ for each in found if type(each).__name__ not in smalti.__all__] == []
