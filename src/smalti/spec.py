"""Mosaic v1 as data: constants, codes and limits, each with its section of the notes (docs/format.md).

Nothing here computes; the kernels include the same numbers through `_core/physical.pxd`, and a test compares the two.
"""

from __future__ import annotations

from enum import IntEnum

# --- Section 1: file skeleton -----------------------------------------------------------------------------------

MAGIC = b"MOSA"
VERSION = 1
FOOTER_SIZE = 32
#: The schema block starts with its uncompressed length, u32 big-endian.
SCHEMA_PREFIX_SIZE = 4
FILE_SUFFIX = ".mosaic"


class Compression(IntEnum):
    """Section 9: how bucket and schema blocks are compressed, for the whole file."""

    NONE = 0
    ZSTD = 1


# --- Section 2: schema block ------------------------------------------------------------------------------------


class NameEncoding(IntEnum):
    """Section 2.3."""

    FRONT = 0
    BPE = 1


#: Section 2.3: tokens 0x80 to 0xFF are merge rules.
MAX_BPE_RULES = 128
#: Section 2.4: the default number of buckets, at most one for each column.
DEFAULT_NUM_BUCKETS = 100


class TypeId(IntEnum):
    """Section 2.5."""

    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    INTEGER = 3
    BIGINT = 4
    FLOAT = 5
    DOUBLE = 6
    DATE = 7
    CHAR = 8
    VARCHAR = 9
    STRING = 10
    BINARY = 11
    VARBINARY = 12
    BYTES = 13
    DECIMAL = 14
    TIME = 15
    TIMESTAMP = 16
    TIMESTAMP_LTZ = 17
    ARRAY = 18
    MAP = 19


#: Section 4: decimals of up to 18 digits are 8 bytes, longer ones are variable.
MAX_COMPACT_PRECISION = 18
MAX_DECIMAL_PRECISION = 38

# --- Sections 5 to 8: buckets -----------------------------------------------------------------------------------


class Encoding(IntEnum):
    """Section 5: how one physical column of one row group is stored."""

    PLAIN = 0
    CONST = 1
    DICT = 2
    ALL_NULL = 3


#: Section 8: the default threshold: a bucket is paged if its pages have this many bytes or more on average.
DEFAULT_PAGE_SIZE_THRESHOLD = 32 << 10
#: Section 8: paged buckets of a file must be zstd, and count their containers' children in 16 bits.
MAX_PAGED_CHILDREN = 0xFFFF

# --- Limits of ours, where the format has none (section 16) -----------------------------------------------------

#: One name, expanded. The format's own limit is a varint.
MAX_NAME_SIZE = 0xFFFF
#: All names of a file, expanded: with front coding and BPE, a small block can expand to far more bytes.
MAX_NAMES_SIZE = 1 << 28
#: ARRAY and MAP levels; Arrow itself stops importing at 64 levels and a MAP takes two.
MAX_NESTING = 30
#: Rows (or elements) of a column whose encoding stores nothing per row: CONST, ALL_NULL, one-entry DICT.
MAX_UNBACKED_ROWS = 1 << 27
#: Rows (or elements) of any column of a row group; what the reference's default row group size can hold at most.
MAX_ROWS = 1 << 28
#: Section 9: a zstd block of 128 KiB takes at least 4 bytes, so nothing expands further than this.
MAX_ZSTD_RATIO = 1 << 15
#: The largest block, uncompressed, that is read: the limit of Arrow's 32-bit offsets.
MAX_BLOCK_SIZE = (1 << 31) - 1
#: The largest row group, uncompressed, that is written: newer readers of the reference refuse blocks above 512 MiB.
MAX_ROW_GROUP_SIZE = 511 << 20
#: Every size and count in the format is a 32-bit number.
MAX_UINT32 = 0xFFFFFFFF
