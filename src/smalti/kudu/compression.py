"""Compressed blocks: a 4-byte size, then the codec's output, or the block itself where that saves too little.

LZ4 and Snappy are pyarrow's (the bytes equal Kudu's), zlib is Python's. Owns the size header and the store-raw rule
(note, section 6). Refuses blocks of more than 16 MiB and output of another size than the header says.
"""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from smalti.errors import CorruptFileError, SchemaError
from smalti.kudu._kernels import leb128, lz4
from smalti.kudu.spec import MAX_COMPRESSED_BLOCK, MAX_RATIO, Compression

_SIZE = struct.Struct("<I")


def compress_block(data: bytes, compression: Compression) -> bytes:
    """Wrap a block as Kudu stores it; without a codec it stays as it is.

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
    """The block inside the wrapping of `compress_block`."""
    if compression is Compression.NONE:
        return data
    if len(data) < _SIZE.size:
        raise CorruptFileError("no room for the size of a compressed block", found=len(data), expected=4, offset=0)
    (size,) = _SIZE.unpack(data[: _SIZE.size])
    packed = data[_SIZE.size :]
    if size > MAX_COMPRESSED_BLOCK:
        raise CorruptFileError(
            "compressed block says it is too large", found=size, expected=f"{MAX_COMPRESSED_BLOCK} at most", offset=0
        )
    if len(packed) == size:
        return packed
    try:
        return memoryview(_decompress(packed, size, compression))
    except CorruptFileError as error:
        raise error.locate(offset=_SIZE.size) from None
    except (OSError, pa.ArrowInvalid, zlib.error) as error:
        raise CorruptFileError(f"{compression.name} data does not decompress", found=str(error), offset=4) from None


def _compress(data: bytes, compression: Compression) -> bytes:
    if compression is Compression.ZLIB:
        return zlib.compress(data)
    codec = pa.Codec("lz4_raw" if compression is Compression.LZ4 else "snappy")
    packed: bytes = codec.compress(data, asbytes=True)
    return packed


def _decompress(packed: memoryview, size: int, compression: Compression) -> bytes:
    if compression is Compression.LZ4:
        return lz4.decompress(packed, size)
    if compression is Compression.ZLIB:
        return _inflate(packed, size)
    # Snappy says its size itself; the codec trusts ours, so both must agree first.
    stated, _ = leb128.decode32(packed)
    if stated != size:
        raise CorruptFileError("snappy block has another size than said", found=stated, expected=size)
    data: bytes = pa.Codec("snappy").decompress(pa.py_buffer(packed), size, asbytes=True)
    return data


def _inflate(packed: memoryview, size: int) -> bytes:
    inflater = zlib.decompressobj()
    data = inflater.decompress(packed, size + 1)
    if len(data) != size or not inflater.eof or inflater.unused_data:
        raise CorruptFileError("zlib block has another size than said", found=len(data), expected=size)
    return data
