"""RLE as a value encoding: the header of PLAIN, then runs at the width of the type (Kudu's rle_block.h)."""

from __future__ import annotations

from smalti.kudu._kernels import rle_bits, rle_ints
from smalti.kudu.encodings.dense import Dense
from smalti.kudu.encodings.plain import HEADER
from smalti.kudu.parsing import read_data_header
from smalti.kudu.types import Physical


def encode(values: Dense, ordinal: int) -> bytes:
    """The data part of an RLE block."""
    width = values.physical.width
    stream = rle_ints.encode(values.data, width) if width else rle_bits.encode(values.data, values.start, values.count)
    return HEADER.pack(values.count, ordinal) + stream


def decode(data: memoryview, physical: Physical, count: int, ordinal: int | None) -> Dense:
    """Values of an RLE block. The last literal group may be filled up to eight values; nothing may follow it."""
    read_data_header(HEADER, data, ("number of values", count), ("first ordinal", ordinal))
    stream = data[HEADER.size :]
    if physical.width:
        return Dense(physical, count, memoryview(rle_ints.decode(stream, physical.width, count, padded=True)))
    return Dense(physical, count, memoryview(rle_bits.decode(stream, count, whole=True)[0]))
