"""Blocks (section 9): one zstd frame each, inflated to exactly the size the file declares.

A declared size is believed only as far as zstd can expand at all, so a lie costs no memory. Contexts are kept per
thread: a new one for every block costs more than a small block itself.
"""

from __future__ import annotations

import io
import threading

import zstandard

from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.spec import MAX_BLOCK_SIZE, MAX_ZSTD_RATIO

_contexts = threading.local()


def inflate(data: bytes | memoryview, size: int) -> bytes:
    """Decompress `data`, which must hold exactly `size` bytes.

    Several frames in a row and skippable frames are read as other decoders do; anything else after a frame is not.
    """
    if size > len(data) * MAX_ZSTD_RATIO:
        raise CorruptFileError(
            "declared size is beyond what zstd can expand", found=size, expected=f"at most {len(data) * MAX_ZSTD_RATIO}"
        )
    if size > MAX_BLOCK_SIZE:
        raise UnsupportedFeatureError("block is too large", found=size, expected=f"at most {MAX_BLOCK_SIZE}")
    try:
        if zstandard.frame_content_size(data) == size:
            # Content sizes agree: one allocation, one call. A file of many frames takes the other road.
            try:
                return _decompressor().decompress(data, allow_extra_data=False)
            except zstandard.ZstdError as error:
                if "unused data" not in str(error):
                    raise
        return _inflate_frames(data, size)
    except zstandard.ZstdError as error:
        raise CorruptFileError(f"zstd block cannot be decompressed ({error})") from None


def _inflate_frames(data: bytes | memoryview, size: int) -> bytes:
    reader = _decompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    out = reader.read(size + 1)
    while len(out) <= size and (more := reader.read(size + 1 - len(out))):
        out += more
    if len(out) != size:
        found: object = len(out) if len(out) < size else f"more than {size}"
        raise CorruptFileError("zstd block has another size than declared", found=found, expected=size)
    return out


def deflate(data: bytes | memoryview | bytearray, level: int, checksum: bool) -> bytes:
    """Compress to one frame with its content size and, if wanted, a checksum of the content."""
    compressors: dict[tuple[int, bool], zstandard.ZstdCompressor] | None = getattr(_contexts, "compressors", None)
    if compressors is None:
        compressors = _contexts.compressors = {}
    compressor = compressors.get((level, checksum))
    if compressor is None:
        compressor = compressors[level, checksum] = zstandard.ZstdCompressor(level=level, write_checksum=checksum)
    return compressor.compress(data)


def _decompressor() -> zstandard.ZstdDecompressor:
    decompressor = getattr(_contexts, "decompressor", None)
    if decompressor is None:
        decompressor = _contexts.decompressor = zstandard.ZstdDecompressor()
    return decompressor
