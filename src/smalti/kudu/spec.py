"""Kudu's CFile as data: magic, codes and limits, with the file of Kudu's source each comes from.

Owns the numbers and the names users give them. Refuses only names and codes that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import TypeVar

from smalti.errors import SchemaError, UnsupportedFeatureError

#: A file of version 2 has these bytes near both of its ends (cfile_writer.cc).
MAGIC = b"kuducfl2"
#: Version 1, whose compressed blocks differ. It is not read.
MAGIC_V1 = b"kuducfil"
#: Bytes of the CRC-32C that stands behind a block and the header, and before the footer.
CHECKSUM_SIZE = 4

#: With a codec, a block may have this many bytes before compression (block_compression.cc).
MAX_COMPRESSED_BLOCK = 16 << 20
#: A block is stored raw when its compressed form takes more than this part of its size (block_compression.cc).
MAX_RATIO = 0.9
#: Size at which an index block is closed. Kudu counts 16 bytes for the trailer (index_block.cc).
INDEX_BLOCK_SIZE = 32 * 1024
INDEX_TRAILER_ESTIMATE = 16
#: Kudu raises smaller block sizes to this one.
MIN_BLOCK_SIZE = 512
DEFAULT_BLOCK_SIZE = 262144

# A run of a few bytes can stand for any number of cells, so the size of a block does not bound what decoding it
# allocates. These two limits of this package do. They lie far above what Kudu's row sets hold, and the writer begins a
# new block before it reaches them.
MAX_BLOCK_CELLS = 1 << 24
MAX_BLOCK_ELEMENTS = 1 << 24


class DataType(IntEnum):
    """`CFileFooterPB.data_type` of cfile.proto: the type of the elements."""

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
    """`CFileFooterPB.encoding`."""

    PLAIN = 1
    PREFIX = 2
    RLE = 4
    DICT = 5
    BIT_SHUFFLE = 6


class Compression(IntEnum):
    """`CFileFooterPB.compression`."""

    NONE = 1
    SNAPPY = 2
    LZ4 = 3
    ZLIB = 4


class Feature(IntFlag):
    """`CFileFooterPB.incompatible_features`: a reader must know each of them."""

    CHECKSUM = 1
    ARRAY_DATA_BLOCK = 2


KNOWN_FEATURES = int(Feature.CHECKSUM | Feature.ARRAY_DATA_BLOCK)


class DictMode(IntEnum):
    """First number of a DICT block: codes follow, or plain values if the dictionary was full (binary_dict_block.cc)."""

    CODES = 1
    PLAIN = 2


_ENCODING_NAMES = {
    **{encoding.name.lower(): encoding for encoding in Encoding},
    **{f"{encoding.name.lower()}_encoding": encoding for encoding in (Encoding.PLAIN, Encoding.PREFIX, Encoding.DICT)},
    "bitshuffle": Encoding.BIT_SHUFFLE,
}
_COMPRESSION_NAMES = {**{codec.name.lower(): codec for codec in Compression}, "no_compression": Compression.NONE}
_E = TypeVar("_E", bound=IntEnum)


def encoding_named(name: str) -> Encoding:
    """The encoding a user names, in the spelling of this package or of Kudu."""
    return _named(_ENCODING_NAMES, name, "encoding", "plain, bit_shuffle, rle or dict")


def compression_named(name: str | None) -> Compression:
    """The compression a user names, in the spelling of this package or of Kudu; `None` is no compression."""
    if name is None:
        return Compression.NONE
    return _named(_COMPRESSION_NAMES, name, "compression", "None, lz4, snappy or zlib")


def _named(members: Mapping[str, _E], name: str, what: str, expected: str) -> _E:
    found = members.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise SchemaError(f"no such {what}", found=name, expected=expected)
    return found


def known(kind: type[_E], code: int, what: str) -> _E:
    """The member of an enumeration whose code a footer gives."""
    try:
        return kind(code)
    except ValueError:
        raise UnsupportedFeatureError(f"unknown {what}", found=code, section="footer") from None
