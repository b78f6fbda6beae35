"""RLE as a value encoding: a header, then a stream of runs at the width of the type (note, section 5)."""

from __future__ import annotations

import struct

from smalti.kudu._kernels import rle_bits, rle_ints
from smalti.kudu.encodings.dense import Dense, check_header, need_header
from smalti.kudu.types import Physical

_HEADER = struct.Struct("<II")  # count, ordinal


def encode(values: Dense, ordinal: int) -> bytes:
    """The data part of an RLE block."""
    width = values.physical.width
    stream = rle_ints.encode(values.data, width) if width else rle_bits.encode(values.data, values.start, values.count)
    return _HEADER.pack(values.count, ordinal) + stream


def decode(data: memoryview, physical: Physical, count: int, ordinal: int | None) -> Dense:
    """Values of an RLE block. The last literal group may be filled up; nothing may follow it."""
    need_header(data, _HEADER.size)
    found, first = _HEADER.unpack(data[: _HEADER.size])
    check_header("number of values", found, count, 0)
    check_header("first ordinal", first, ordinal, 4)
    stream = data[_HEADER.size :]
    if physical.width:
        return Dense(physical, count, memoryview(rle_ints.decode(stream, physical.width, count, padded=True)))
    return Dense(physical, count, memoryview(rle_bits.decode(stream, count, whole=True)[0]))
