"""Kudu's nullable array data block and the CFile around it: Arrow lists in, Kudu's bytes out, and back."""

from smalti.kudu.array_block import decode_array_block, encode_array_block
from smalti.kudu.encodings import Dictionary
from smalti.kudu.reader import CFileMetadata, CFileReader
from smalti.kudu.writer import CFileWriter

__all__ = [
    "CFileMetadata",
    "CFileReader",
    "CFileWriter",
    "Dictionary",
    "decode_array_block",
    "encode_array_block",
]
