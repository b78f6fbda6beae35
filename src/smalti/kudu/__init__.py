"""Kudu's nullable array data block and the CFile around it: Arrow lists in, Kudu's bytes out, and back."""

from smalti.kudu.array_block import decode_array_block, encode_array_block
from smalti.kudu.encodings import Dictionary
from smalti.kudu.index import Entry
from smalti.kudu.reader import CFileMetadata, CFileReader
from smalti.kudu.spec import Compression, DataType, Encoding
from smalti.kudu.writer import CFileWriter

__all__ = [
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
