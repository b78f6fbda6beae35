"""Mosaic, the columnar-bucket file format for very wide tables: Arrow in, Arrow out."""

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
