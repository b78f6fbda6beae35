"""Compressed blocks: the size before compression in 4 bytes, then the codec's output.

A block that the codec does not make at least a tenth smaller is stored as it is, behind the same 4 bytes (Kudu's
`block_compression.cc`). pyarrow compresses LZ4 and Snappy, which gives Kudu's bytes, and decompresses Snappy; LZ4 is
decompressed by a kernel of this package, which proves the size; zlib is Python's. This module owns the size header
and the rule of storing raw. It refuses blocks of more than 16 MiB and output of another size than the header says.
"""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from smalti.errors import CorruptFileError, SchemaError
from smalti.kudu._kernels import leb128, lz4
from smalti.kudu.parsing import inside, need
from smalti.kudu.spec import MAX_COMPRESSED_BLOCK, MAX_RATIO, Compression

_SIZE = struct.Struct("<I")


def compress_block(data: bytes, compression: Compression) -> bytes:
    """The block as Kudu stores it; without a codec it stays as it is.

    Examples
    --------
    >>> compress_block(bytes(1000), Compression.LZ4)[:4]
    b'\\xe8\\x03\\x00\\x00'
    """
    if compression is Compression.NONE:
        return data
    if len(data) > MAX_COMPRESSED_BLOCK:
        raise SchemaError(
            "block is too large to compress: Kudu would refuse it",
            found=len(data),
            expected=f"{MAX_COMPRESSED_BLOCK} at most",
        )
    packed = _compress(data, compression)
    if len(packed) >= len(data) or len(packed) / len(data) > MAX_RATIO:
        packed = data
    return _SIZE.pack(len(data)) + packed


def decompress_block(data: memoryview, compression: Compression) -> memoryview:
    """The block that `compress_block` was given."""
    if compression is Compression.NONE:
        return data
    need(data, _SIZE.size, "the size of a compressed block")
    (size,) = _SIZE.unpack_from(data)
    packed = data[_SIZE.size :]
    if size > MAX_COMPRESSED_BLOCK:
        raise CorruptFileError(
            "compressed block says it is too large", found=size, expected=f"{MAX_COMPRESSED_BLOCK} at most", offset=0
        )
    if len(packed) == size:
        return packed
    with inside(base=_SIZE.size):
        try:
            return memoryview(_decompress(packed, size, compression))
        except (OSError, pa.ArrowInvalid, zlib.error) as error:
            raise CorruptFileError(f"{compression.name} data does not decompress", found=str(error), offset=0) from None


def _compress(data: bytes, compression: Compression) -> bytes:
    if compression is Compression.ZLIB:
        return zlib.compress(data)
    return pa.Codec("lz4_raw" if compression is Compression.LZ4 else "snappy").compress(data, asbytes=True)


def _decompress(packed: memoryview, size: int, compression: Compression) -> bytes:
    if compression is Compression.LZ4:
        return lz4.decompress(packed, size)
    if compression is Compression.ZLIB:
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, size + 1)  # never more than one byte too many
        if len(data) != size or not inflater.eof or inflater.unused_data:
            raise CorruptFileError("zlib block has another size than said", found=len(data), expected=size, offset=0)
        return data
    # A Snappy block begins with its own size, and the codec trusts the one it is given: the two must agree first.
    stated, _ = leb128.decode32(packed)
    if stated != size:
        raise CorruptFileError("snappy block has another size than said", found=stated, expected=size, offset=0)
    return pa.Codec("snappy").decompress(pa.py_buffer(packed), size, asbytes=True)
