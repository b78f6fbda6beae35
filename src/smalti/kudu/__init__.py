"""Kudu's nullable array data block and the CFile around it: Arrow lists in, Kudu's bytes out, and back."""

from smalti.kudu.array_block import decode_array_block, encode_array_block
from smalti.kudu.encodings import Dictionary

__all__ = ["Dictionary", "decode_array_block", "encode_array_block"]
