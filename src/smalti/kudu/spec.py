"""Kudu's CFile as data: magic, codes, limits, each with its section of the note on the array block.

Owns the numbers and how users name them. Refuses nothing by itself except unknown names and codes.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TypeVar

from smalti.errors import SchemaError, UnsupportedFeatureError

#: Both ends of a version 2 file (7).
MAGIC = b"kuducfl2"
#: Version 1, which had another compressed block (6); not read.
MAGIC_V1 = b"kuducfil"
#: CRC-32C behind a block or header, before a footer (6, 7).
CHECKSUM_SIZE = 4

#: Element numbers are 16 bits wide (8). Kudu's writer does not check; we do.
MAX_ARRAY_LENGTH = 65535
#: Bytes of a block before compression, with a codec (6).
MAX_COMPRESSED_BLOCK = 16 << 20
#: A block is stored raw when its compressed form is more than this part of it (6).
MAX_RATIO = 0.9
#: Bytes of an index block before the next is begun, as Kudu counts them: 16 more for the trailer.
INDEX_BLOCK_SIZE = 32 * 1024
INDEX_TRAILER_ESTIMATE = 16
#: Kudu raises smaller block sizes to this one.
MIN_BLOCK_SIZE = 512
DEFAULT_BLOCK_SIZE = 262144

# Runs let a few bytes stand for any number of cells, so no count of bytes bounds an allocation. These two are limits
# of this package, far above what Kudu's row sets hold; the writer begins a new block before it reaches them.
MAX_BLOCK_CELLS = 1 << 24
MAX_BLOCK_ELEMENTS = 1 << 24


class DataType(IntEnum):
    """`CFileFooterPB.data_type`: the type of the elements (7)."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    UINT64 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT = 10
    DOUBLE = 11
    BINARY = 12
    UNIXTIME_MICROS = 13
    INT128 = 14
    DECIMAL32 = 15
    DECIMAL64 = 16
    DECIMAL128 = 17
    VARCHAR = 19
    DATE = 20


class Encoding(IntEnum):
    """`CFileFooterPB.encoding` (7)."""

    PLAIN = 1
    PREFIX = 2
    RLE = 4
    DICT = 5
    BIT_SHUFFLE = 6


class Compression(IntEnum):
    """`CFileFooterPB.compression` (6)."""

    NONE = 1
    SNAPPY = 2
    LZ4 = 3
    ZLIB = 4


class Feature(IntFlag):
    """`CFileFooterPB.incompatible_features` (7)."""

    CHECKSUM = 1
    ARRAY_DATA_BLOCK = 2


KNOWN_FEATURES = int(Feature.CHECKSUM | Feature.ARRAY_DATA_BLOCK)


class DictMode(IntEnum):
    """First word of a DICT block: codes, or plain values once the dictionary is full (5)."""

    CODES = 1
    PLAIN = 2


_ENCODING_NAMES = {
    "plain": Encoding.PLAIN,
    "plain_encoding": Encoding.PLAIN,
    "prefix": Encoding.PREFIX,
    "prefix_encoding": Encoding.PREFIX,
    "rle": Encoding.RLE,
    "dict": Encoding.DICT,
    "dict_encoding": Encoding.DICT,
    "bit_shuffle": Encoding.BIT_SHUFFLE,
    "bitshuffle": Encoding.BIT_SHUFFLE,
}
_COMPRESSION_NAMES = {
    "none": Compression.NONE,
    "no_compression": Compression.NONE,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zlib": Compression.ZLIB,
}
_E = TypeVar("_E", bound=IntEnum)


def encoding_named(name: str) -> Encoding:
    """The encoding a user names, in our spelling or Kudu's."""
    try:
        return _ENCODING_NAMES[name.lower()]
    except (KeyError, AttributeError):
        raise SchemaError("no such encoding", found=name, expected="plain, bit_shuffle, rle or dict") from None


def compression_named(name: str | None) -> Compression:
    """The compression a user names, in our spelling or Kudu's; `None` is none."""
    if name is None:
        return Compression.NONE
    try:
        return _COMPRESSION_NAMES[name.lower()]
    except (KeyError, AttributeError):
        raise SchemaError("no such compression", found=name, expected="None, lz4, snappy or zlib") from None


def known(kind: type[_E], code: int, what: str) -> _E:
    """The member of an enumeration a file names by number."""
    try:
        return kind(code)
    except ValueError:
        raise UnsupportedFeatureError(f"unknown {what}", found=code, section="footer") from None
