"""Kudu's run-length encoding of bitmaps and of element counts, for use on its own (note, section 2).

Looks like Parquet's hybrid of repeated and literal runs, but the last literal run is not filled up to a group of
eight. Written runs are chosen as Kudu chooses them; any valid sequence of runs is read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from smalti.errors import SchemaError
from smalti.kudu._kernels import rle_bits, rle_ints
from smalti.kudu.spec import MAX_ARRAY_LENGTH


def encode_bitmap(bits: Sequence[bool | int]) -> bytes:
    """Encode bits at width 1.

    Examples
    --------
    >>> encode_bitmap([1, 1, 1, 1, 1, 1, 1, 1, 0, 1]).hex(" ")
    '10 01 03 02'
    """
    packed = bytearray(-(-len(bits) // 8))
    for i, bit in enumerate(bits):
        packed[i >> 3] |= bool(bit) << (i & 7)
    return rle_bits.encode(packed, 0, len(bits))


def decode_bitmap(data: bytes | memoryview, count: int) -> list[bool]:
    """Decode `count` bits; what follows them is ignored, as Kudu's reader does.

    Examples
    --------
    >>> decode_bitmap(bytes.fromhex("037b"), 7)
    [True, True, False, True, True, True, True]
    """
    packed, _ = rle_bits.decode(data, count)
    return [bool(packed[i >> 3] >> (i & 7) & 1) for i in range(count)]


def encode_counts(counts: Sequence[int]) -> bytes:
    """Encode numbers of elements at width 16.

    Examples
    --------
    >>> encode_counts([10]).hex(" ")
    '02 0a 00'
    """
    for i, count in enumerate(counts):
        if not 0 <= count <= MAX_ARRAY_LENGTH:
            raise SchemaError(f"number of elements {i}", found=count, expected=f"0 to {MAX_ARRAY_LENGTH}")
    return rle_ints.encode(struct.pack(f"<{len(counts)}H", *counts), 2)


def decode_counts(data: bytes | memoryview, count: int) -> list[int]:
    """Decode exactly `count` numbers of elements; more, fewer or a filled-up last group are refused.

    Examples
    --------
    >>> decode_counts(bytes.fromhex("020a00"), 1)
    [10]
    """
    return list(struct.unpack(f"<{count}H", rle_ints.decode(data, 2, count)))
