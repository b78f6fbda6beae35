"""What users import: the names, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import io
import subprocess
import sys

import pyarrow as pa
import pytest

import smalti
from tests.support.children import ROOT

#: All that is public, as docs/releasing.md says: a name that comes or goes is a decision.
NAMES = {
    "smalti": (
        "BucketLayout ColumnLayout ColumnStatistics ConflictError CorruptFileError DatasetSummary FileLayout "
        "LayoutChoice Loader MemoryLimitError MosaicDataset MosaicError MosaicFile MosaicWriter NoSuchRowError "
        "PaimonTableError ReadAt RowGroup RowGroupLayout Scan SchemaError Section UnsupportedFeatureError "
        "WriteSummary WriterOptions __version__ dataset loader open read_table scan write_dataset "
        "write_table"
    ),
    "smalti.duckdb": "query query_reader scan",
    "smalti.jobs": (
        "ChangeReport FileReport JobError JobSummary Problem Profile Progress Skipped VerifyReport WrittenFile "
        "add_columns clean compact convert delete drop_columns merge profile recover rename_columns reorder_columns "
        "replace_columns update verify"
    ),
    "smalti.kudu": (
        "CFileMetadata CFileReader CFileWriter Compression DataType Dictionary Encoding Entry "
        "decode_array_block encode_array_block"
    ),
    "smalti.paimon": (
        "JobSummary PaimonDataset PaimonTable Profile VerifyReport convert create dataset install profile "
        "uninstall verify write"
    ),
    "smalti.polars": "scan_mosaic",
    "smalti.report": "render_report write_report",
    "smalti.spark": "enable session",
}


def names_of(module: str) -> list[str]:
    """The names in ``__all__`` of a module. Its source is read, so that no engine is needed."""
    place = ROOT.joinpath("src", *module.split("."))
    tree = ast.parse((place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text())
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (names,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
    return list(ast.literal_eval(names))


@pytest.mark.parametrize("module", NAMES)
def test_public_names(module: str) -> None:
    found = names_of(module)
    assert sorted(found) == NAMES[module].split()
    assert len(found) == len(set(found))


@pytest.mark.parametrize("module", NAMES)
def test_public_names_exist_and_are_explained(module: str) -> None:
    if module == "smalti.paimon":
        pytest.importorskip("pypaimon")
    home = importlib.import_module(module)
    for name in NAMES[module].split():
        assert name == "__version__" or getattr(home, name).__doc__, name


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
