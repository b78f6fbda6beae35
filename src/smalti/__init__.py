"""Mosaic, the columnar-bucket file format for very wide tables: Arrow in, Arrow out.

Names are imported from their modules when first used, so that the command line can answer without loading Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.errors import CorruptFileError, MosaicError, SchemaError, UnsupportedFeatureError
    from smalti.file.reader import MosaicFile, RowGroup, read_table
    from smalti.file.reader import open_file as open
    from smalti.file.writer import MosaicWriter, WriteSummary, write_table
    from smalti.format.statistics import ColumnStatistics
    from smalti.options import WriterOptions
    from smalti.table.dataset import MosaicDataset, dataset

__all__ = [
    "ColumnStatistics",
    "CorruptFileError",
    "MosaicDataset",
    "MosaicError",
    "MosaicFile",
    "MosaicWriter",
    "RowGroup",
    "SchemaError",
    "UnsupportedFeatureError",
    "WriteSummary",
    "WriterOptions",
    "dataset",
    "open",
    "read_table",
    "write_table",
]

#: Module of each name, and what it is called there if not the same.
_HOMES = {
    "ColumnStatistics": "smalti.format.statistics",
    "CorruptFileError": "smalti.errors",
    "MosaicDataset": "smalti.table.dataset",
    "MosaicError": "smalti.errors",
    "MosaicFile": "smalti.file.reader",
    "MosaicWriter": "smalti.file.writer",
    "RowGroup": "smalti.file.reader",
    "SchemaError": "smalti.errors",
    "UnsupportedFeatureError": "smalti.errors",
    "WriteSummary": "smalti.file.writer",
    "WriterOptions": "smalti.options",
    "dataset": "smalti.table.dataset",
    "open": "smalti.file.reader:open_file",
    "read_table": "smalti.file.reader",
    "write_table": "smalti.file.writer",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, original = home.partition(":")
    value = globals()[name] = getattr(import_module(module), original or name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
