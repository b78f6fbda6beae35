"""BIT_SHUFFLE: bit planes of chunks of elements, each chunk an LZ4 block (note, section 5).

Owns the 20-byte header; the planes are the kernel's. pyarrow's LZ4 gives the bytes Kudu's does.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from smalti.errors import CorruptFileError
from smalti.kudu._kernels import bitshuffle
from smalti.kudu.encodings.dense import Dense, check_header, need_header
from smalti.kudu.place import inside
from smalti.kudu.types import Physical

_HEADER = struct.Struct("<5I")  # ordinal, count, size of all this, count rounded up to 8, bytes per element
_CHUNK_SIZE = struct.Struct(">I")
_CHUNK = 8192  # bytes: max(128, 8192 / width) elements for every width there is


def encode(values: Dense, ordinal: int) -> bytes:
    """The data part of a BIT_SHUFFLE block."""
    return encode_words(values.data, values.physical.width, ordinal)


def encode_words(words: memoryview, width: int, ordinal: int) -> bytes:
    """The same for words of any width, which the codes of a dictionary use."""
    count = len(words) // width
    padded = -(-count // 8) * 8
    planes = memoryview(
        bitshuffle.shuffle(words if count == padded else bytes(words).ljust(padded * width, b"\0"), width)
    )
    codec = pa.Codec("lz4_raw")
    parts = [b""]
    for at in range(0, len(planes), _CHUNK):
        packed = codec.compress(planes[at : at + _CHUNK], asbytes=True)
        parts += (_CHUNK_SIZE.pack(len(packed)), packed)
    size = _HEADER.size + sum(map(len, parts))
    parts[0] = _HEADER.pack(ordinal, count, size, padded, width)
    return b"".join(parts)


def decode(data: memoryview, physical: Physical, count: int, ordinal: int | None) -> Dense:
    """Values of a BIT_SHUFFLE block."""
    words, _ = decode_words(data, (physical.width,), count, ordinal)
    return Dense(physical, count, words)


def decode_words(data: memoryview, widths: tuple[int, ...], count: int, ordinal: int | None) -> tuple[memoryview, int]:
    """`count` words of one of these widths, and the width found."""
    need_header(data, _HEADER.size)
    first, found, size, padded, width = _HEADER.unpack(data[: _HEADER.size])
    check_header("first ordinal", first, ordinal, 0)
    check_header("number of values", found, count, 4)
    check_header("size", size, len(data), 8)
    check_header("padded number of values", padded, -(-count // 8) * 8, 12)
    if width not in widths:
        raise CorruptFileError("bytes per element in the data header", found=width, expected=widths, offset=16)
    with inside("bit planes", _HEADER.size):
        words = bitshuffle.unshuffle(data[_HEADER.size :], width, padded)
    return memoryview(words)[: count * width], width
