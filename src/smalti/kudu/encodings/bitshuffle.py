"""BIT_SHUFFLE: bit planes of chunks of numbers, each chunk an LZ4 block (Kudu's bshuf_block.h).

Owns the 20-byte header. The kernel makes the planes and reads LZ4; pyarrow's LZ4 writes the bytes that Kudu's writes.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import bitshuffle
from smalti.kudu.parsing import inside, read_data_header

_HEADER = struct.Struct("<5I")  # ordinal, count, size of the data part, count rounded up to 8, bytes per element
_CHUNK_SIZE = struct.Struct(">I")
_CHUNK = 8192  # bytes: max(128, 8192 / width) elements for every width there is


def encode(numbers: memoryview, width: int, ordinal: int) -> bytes:
    """The data part of a BIT_SHUFFLE block of numbers of `width` bytes, which may be the codes of a dictionary."""
    count = len(numbers) // width
    padded = -(-count // 8) * 8
    whole = numbers if count == padded else bytes(numbers).ljust(padded * width, b"\0")
    planes = memoryview(bitshuffle.shuffle(whole, width))
    codec = pa.Codec("lz4_raw")
    parts = [b""]  # the header's place: it holds the size of what follows
    for at in range(0, len(planes), _CHUNK):
        packed = codec.compress(planes[at : at + _CHUNK], asbytes=True)
        parts += (_CHUNK_SIZE.pack(len(packed)), packed)
    size = _HEADER.size + sum(map(len, parts))
    parts[0] = _HEADER.pack(ordinal, count, size, padded, width)
    return b"".join(parts)


def decode(data: memoryview, widths: tuple[int, ...], count: int, ordinal: int | None) -> tuple[memoryview, int]:
    """The `count` numbers of a BIT_SHUFFLE block, which have one of these widths, and the width that was found."""
    padded = -(-count // 8) * 8
    expected = ("first ordinal", ordinal), ("number of values", count), ("size", len(data))
    *_, width = read_data_header(_HEADER, data, *expected, ("padded number of values", padded))
    if width not in widths:
        raise CorruptFileError("bytes per element in the data header", found=width, expected=widths, offset=16)
    with inside("bit planes", _HEADER.size):
        numbers = bitshuffle.unshuffle(data[_HEADER.size :], width, padded)
    return memoryview(numbers)[: count * width], width
