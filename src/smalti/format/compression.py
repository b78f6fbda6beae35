"""Blocks (section 9): one zstd frame each, inflated to exactly the size the file declares.

A declared size beyond what zstd can expand to is refused before memory is allocated for it. Contexts are kept per
thread, because making a new one costs more than decompressing a small block.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import zstandard

from smalti._core.pages import count_frames
from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.memory import LARGE, allocate
from smalti.spec import MAX_BLOCK_SIZE, MAX_ZSTD_RATIO

#: A decompressed page; many of them may share one piece of memory.
Page: TypeAlias = "bytes | zstandard.BufferSegment"
#: Decompressing fewer frames one by one takes less time than in one call.
_FEW = 16
#: A level so low that noise becomes raw blocks, which decoders copy.
_STORING = -(1 << 17)
#: Number and size of the pieces of a block that decide whether it is noise.
_PIECES, _PIECE = 8, 8 << 10


class _Contexts(threading.local):
    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[tuple[int, bool], zstandard.ZstdCompressor] = {}


_contexts = _Contexts()


def inflate(data: bytes | memoryview, size: int, take: Callable[[int], None] | None = None) -> bytes:
    """Decompress `data`, which must hold exactly `size` bytes.

    Like other decoders, this takes several frames in a row and skips skippable frames. Anything else after a frame is
    refused. `take` is called with the size before memory is allocated, and may raise.
    """
    _check_declared(size, len(data))
    if take is not None:
        take(size)
    try:
        if zstandard.frame_content_size(data) == size:
            # One frame that declares the expected size, the usual case: one allocation and one call.
            try:
                return _contexts.decompressor.decompress(data, allow_extra_data=False)
            except zstandard.ZstdError as error:
                if "unused data" not in str(error):
                    raise
        return _inflate_frames(data, size)
    except zstandard.ZstdError as error:
        raise _undecompressed(error) from None


def inflate_bucket(data: bytes | memoryview, size: int) -> bytes | memoryview:
    """As `inflate`; a large block goes into memory that is kept for the next bucket (see `smalti.memory.allocate`)."""
    # The decoder does not say whether the frame is complete and the only one.
    if size >= LARGE and count_frames(data) == (1, size):
        _check_declared(size, len(data))
        out = allocate(size)
        with suppress(zstandard.ZstdError):  # `inflate` raises the error of a damaged frame.
            if _contexts.decompressor.stream_reader(data).readinto(out) == size:
                return out
    return inflate(data, size)


def inflate_beginning(data: bytes | memoryview, size: int) -> bytes:
    """The first `size` bytes that `data` decompresses to, or fewer. The checksum of the frame is not verified."""
    try:
        return _contexts.decompressor.stream_reader(data).read(size)
    except zstandard.ZstdError as error:
        raise _undecompressed(error) from None


def _undecompressed(error: zstandard.ZstdError) -> Exception:
    if "not enough memory" in str(error):
        return MemoryError(f"zstd cannot allocate memory ({error})")
    return CorruptFileError(f"zstd block cannot be decompressed ({error})")


def _check_declared(size: int, compressed_size: int) -> None:
    """Refuse a size that `compressed_size` bytes cannot expand to, or that no block has."""
    if size > compressed_size * MAX_ZSTD_RATIO:
        most = f"at most {compressed_size * MAX_ZSTD_RATIO}"
        raise CorruptFileError("declared size is beyond what zstd can expand", found=size, expected=most)
    if size > MAX_BLOCK_SIZE:
        raise UnsupportedFeatureError("block is too large", found=size, expected=f"at most {MAX_BLOCK_SIZE}")


def _inflate_frames(data: bytes | memoryview, size: int) -> bytes:
    if not count_frames(data)[0]:  # The stream reader ends silently at a truncated frame.
        raise CorruptFileError("zstd block cannot be decompressed (its last frame is not complete)")
    reader = _contexts.decompressor.stream_reader(io.BytesIO(data), read_across_frames=True)
    out = reader.read(size + 1)
    while len(out) <= size and (more := reader.read(size + 1 - len(out))):
        out += more
    if len(out) != size:
        found: object = len(out) if len(out) < size else f"more than {size}"
        raise CorruptFileError("zstd block has another size than declared", found=found, expected=size)
    return out


def inflate_all(frames: list[memoryview], sizes: bytes) -> list[Page]:
    """Decompress many frames in one call, to the `sizes`: native 64-bit numbers.

    The caller has checked that these are single frames that declare these sizes (see `smalti._core.pages`).
    """
    try:
        if len(frames) < _FEW:
            return [_contexts.decompressor.decompress(frame) for frame in frames]
        pages = _contexts.decompressor.multi_decompress_to_buffer(list(frames), decompressed_sizes=sizes)
        return [pages[i] for i in range(len(pages))]
    except zstandard.ZstdError as error:
        raise _undecompressed(error) from None


def deflate_all(blocks: list[bytes], level: int, checksum: bool, may_store: bool = False) -> list[bytes]:
    """Compress many blocks in one call, with the same result as `deflate` for each."""
    if may_store or len(blocks) < 2:
        return [deflate(block, level, checksum, may_store) for block in blocks]
    frames = _compressor(level, checksum).multi_compress_to_buffer(list(blocks))
    return [frames[i].tobytes() for i in range(len(frames))]


def deflate(data: bytes | memoryview | bytearray, level: int, checksum: bool, may_store: bool = False) -> bytes:
    """Compress to one frame with its content size and, if wanted, a checksum of the content.

    With `may_store`, bytes of which compression would save less than an eighth become a frame that decoders copy.
    """
    if may_store and _is_noise(data, level):
        level = _STORING
    return _compressor(level, checksum).compress(data)


def _is_noise(data: bytes | memoryview | bytearray, level: int) -> bool:
    """Whether compression saves less than an eighth, judged by evenly spaced pieces; False for small blocks."""
    if len(data) < _PIECES * _PIECE:
        return False
    view, step = memoryview(data), (len(data) - _PIECE) // (_PIECES - 1)
    sample = b"".join(view[at : at + _PIECE] for at in range(0, step * _PIECES, step))
    return len(deflate(sample, level, False)) * 8 > len(sample) * 7


def _compressor(level: int, checksum: bool) -> zstandard.ZstdCompressor:
    compressor = _contexts.compressors.get((level, checksum))
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level, write_checksum=checksum)
        _contexts.compressors[level, checksum] = compressor
    return compressor


def has_checksum(frame: bytes | memoryview) -> bool:
    """Whether a zstd frame carries a checksum of its content; False for bytes that are no frame."""
    try:
        return bool(zstandard.get_frame_parameters(frame).has_checksum)
    except zstandard.ZstdError:
        return False
