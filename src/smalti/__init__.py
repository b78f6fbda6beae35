"""Mosaic, the columnar-bucket file format for very wide tables: Arrow in, Arrow out.

Names are imported from their modules when first used, so that the command line can answer without loading Arrow.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smalti.dataset import MosaicDataset, dataset
    from smalti.errors import CorruptFileError, MosaicError, SchemaError, UnsupportedFeatureError
    from smalti.format.statistics import ColumnStatistics
    from smalti.options import WriterOptions
    from smalti.reader import MosaicFile, RowGroup, read_table
    from smalti.reader import open_file as open
    from smalti.writer import MosaicWriter, WriteSummary, write_table

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
    "MosaicDataset": "smalti.dataset",
    "MosaicError": "smalti.errors",
    "MosaicFile": "smalti.reader",
    "MosaicWriter": "smalti.writer",
    "RowGroup": "smalti.reader",
    "SchemaError": "smalti.errors",
    "UnsupportedFeatureError": "smalti.errors",
    "WriteSummary": "smalti.writer",
    "WriterOptions": "smalti.options",
    "dataset": "smalti.dataset",
    "open": "smalti.reader:open_file",
    "read_table": "smalti.reader",
    "write_table": "smalti.writer",
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


class _Package(ModuleType):
    """Importing a submodule binds its name here; `smalti.dataset` must stay the function all the same."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "dataset" and isinstance(value, ModuleType):
            value = value.dataset
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
