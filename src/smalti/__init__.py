"""Mosaic, the columnar-bucket file format for very wide tables: Arrow in, Arrow out.

Names are imported from their modules when first used, so that the command line can answer without loading Arrow.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti import duckdb as duckdb
    from smalti import jobs as jobs
    from smalti import kudu as kudu
    from smalti import paimon as paimon
    from smalti import polars as polars
    from smalti import report as report
    from smalti import spark as spark
    from smalti.errors import (
        ConflictError,
        CorruptFileError,
        MemoryLimitError,
        MosaicError,
        NoSuchRowError,
        PaimonTableError,
        SchemaError,
        UnsupportedFeatureError,
    )
    from smalti.file.reader import MosaicFile
    from smalti.file.reader import open_file as open
    from smalti.file.row_group import RowGroup
    from smalti.file.scans import Scan
    from smalti.file.writer import MosaicWriter, WriteSummary, write_table
    from smalti.format.statistics import ColumnStatistics
    from smalti.io.sources import ReadAt
    from smalti.loading.loader import Loader, loader
    from smalti.mosaic.layout import BucketLayout, ColumnLayout, FileLayout, RowGroupLayout, Section
    from smalti.mosaic.layout_choice import LayoutChoice
    from smalti.options import WriterOptions
    from smalti.table.dataset import MosaicDataset, dataset
    from smalti.table.opening import read_table, scan
    from smalti.table.writing import DatasetSummary, write_dataset

#: The one place of the version; pyproject.toml takes it from here. It ends in ".dev0" until there is a release.
__version__ = "0.1.0.dev0"

__all__ = [
    "BucketLayout",
    "ColumnLayout",
    "ColumnStatistics",
    "ConflictError",
    "CorruptFileError",
    "DatasetSummary",
    "FileLayout",
    "LayoutChoice",
    "Loader",
    "MemoryLimitError",
    "MosaicDataset",
    "MosaicError",
    "MosaicFile",
    "MosaicWriter",
    "NoSuchRowError",
    "PaimonTableError",
    "ReadAt",
    "RowGroup",
    "RowGroupLayout",
    "Scan",
    "SchemaError",
    "Section",
    "UnsupportedFeatureError",
    "WriteSummary",
    "WriterOptions",
    "__version__",
    "dataset",
    "loader",
    "open",
    "read_table",
    "scan",
    "write_dataset",
    "write_table",
]

#: Modules and the names that they hold. What is `open` here is `open_file` there, so as not to hide Python's own.
_HOMES = {
    "smalti.errors": (
        "ConflictError",
        "CorruptFileError",
        "MemoryLimitError",
        "MosaicError",
        "NoSuchRowError",
        "PaimonTableError",
        "SchemaError",
        "UnsupportedFeatureError",
    ),
    "smalti.file.reader": ("MosaicFile", "open"),
    "smalti.file.row_group": ("RowGroup",),
    "smalti.file.scans": ("Scan",),
    "smalti.file.writer": ("MosaicWriter", "WriteSummary", "write_table"),
    "smalti.format.statistics": ("ColumnStatistics",),
    "smalti.io.sources": ("ReadAt",),
    "smalti.loading.loader": ("Loader", "loader"),
    "smalti.mosaic.layout": ("BucketLayout", "ColumnLayout", "FileLayout", "RowGroupLayout", "Section"),
    "smalti.mosaic.layout_choice": ("LayoutChoice",),
    "smalti.options": ("WriterOptions",),
    "smalti.table.dataset": ("MosaicDataset", "dataset"),
    "smalti.table.opening": ("read_table", "scan"),
    "smalti.table.writing": ("DatasetSummary", "write_dataset"),
}


#: Packages that are imported when they are used, and the package that each needs, if any.
_PACKAGES = {
    "duckdb": "duckdb",
    "jobs": "",
    "kudu": "",
    "paimon": "pypaimon",
    "polars": "polars",
    "report": "",
    "spark": "pyspark",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"smalti.{name}")
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), "open_file" if name == "open" else name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *(name for name, needs in _PACKAGES.items() if not needs or find_spec(needs))})
