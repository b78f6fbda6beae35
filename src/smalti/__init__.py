"""Mosaic, the columnar-bucket file format for very wide tables: Arrow in, Arrow out."""

from smalti.errors import CorruptFileError, MosaicError, SchemaError, UnsupportedFeatureError
from smalti.format.statistics import ColumnStatistics
from smalti.reader import MosaicFile, RowGroup, read_table
from smalti.reader import open_file as open

__all__ = [
    "ColumnStatistics",
    "CorruptFileError",
    "MosaicError",
    "MosaicFile",
    "RowGroup",
    "SchemaError",
    "UnsupportedFeatureError",
    "open",
    "read_table",
]
