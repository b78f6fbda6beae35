"""Blocks (section 9): one zstd frame each, inflated to exactly the size the file declares.

A declared size beyond what zstd can expand to is refused before memory is allocated for it. Contexts are kept per
thread, because making a new one costs more than decompressing a small block.
"""

from __future__ import annotations

import io
import threading
from typing import TypeAlias

import zstandard

from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.memory import LARGE, allocate
from smalti.spec import MAX_BLOCK_SIZE, MAX_ZSTD_RATIO

#: A decompressed page; many of them may share one piece of memory.
Page: TypeAlias = "bytes | zstandard.BufferSegment"
#: The magic number of skippable frames, and the kind of block that has one byte for all.
_SKIPPABLE, _REPEATED = 0x184D2A50, 1
#: The level at which zstd does not look for anything to save. Of noise it makes blocks that decoders copy.
_STORING = -(1 << 17)
#: How many pieces of a block, of how many bytes, tell whether it is noise.
_PIECES, _PIECE = 8, 8 << 10
#: Whether many frames can be worked on in one call. The package for PyPy cannot.
_IN_BULK = {"multi_compress_to_buffer", "multi_decompress_to_buffer"} <= zstandard.backend_features


class _Contexts(threading.local):
    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[tuple[int, bool], zstandard.ZstdCompressor] = {}


_contexts = _Contexts()


def inflate(data: bytes | memoryview, size: int) -> bytes:
    """Decompress `data`, which must hold exactly `size` bytes.

    Like other decoders, this takes several frames in a row and skips skippable frames. Anything else after a frame is
    refused.
    """
    check_declared(size, len(data))
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
        raise CorruptFileError(f"zstd block cannot be decompressed ({error})") from None


def inflate_bucket(data: bytes | memoryview, size: int) -> bytes | memoryview:
    """The same, into memory that is kept for the next bucket if there is much of it (see `smalti.memory.allocate`)."""
    check_declared(size, len(data))
    try:
        # The decoder does not say whether the frame is complete and the only one, so its blocks are counted first.
        is_alone = size >= LARGE and _frame_end(data, 0, size >> 10) == len(data)
        if is_alone and zstandard.frame_content_size(data) == size:
            out = allocate(size)
            if _contexts.decompressor.stream_reader(data).readinto(out) == size:
                return out
    except zstandard.ZstdError:
        pass  # `inflate` says what is wrong.
    return inflate(data, size)


def check_declared(size: int, compressed_size: int) -> None:
    """Refuse a size that so many compressed bytes cannot have, or that no block has."""
    if size > compressed_size * MAX_ZSTD_RATIO:
        most = f"at most {compressed_size * MAX_ZSTD_RATIO}"
        raise CorruptFileError("declared size is beyond what zstd can expand", found=size, expected=most)
    if size > MAX_BLOCK_SIZE:
        raise UnsupportedFeatureError("block is too large", found=size, expected=f"at most {MAX_BLOCK_SIZE}")


def _inflate_frames(data: bytes | memoryview, size: int) -> bytes:
    if not _ends_with_a_frame(data):  # The reader does not tell, and a cut frame has no checksum to fail by.
        raise CorruptFileError("zstd block cannot be decompressed (its last frame is not complete)")
    reader = _contexts.decompressor.stream_reader(io.BytesIO(data), read_across_frames=True)
    out = reader.read(size + 1)
    while len(out) <= size and (more := reader.read(size + 1 - len(out))):
        out += more
    if len(out) != size:
        found: object = len(out) if len(out) < size else f"more than {size}"
        raise CorruptFileError("zstd block has another size than declared", found=found, expected=size)
    return out


def _ends_with_a_frame(data: bytes | memoryview) -> bool:
    """Whether the bytes are whole frames, by the sizes of their blocks."""
    at: int | None = 0
    while at is not None and at < len(data):
        at = _frame_end(data, at)
    return at == len(data)


def _frame_end(data: bytes | memoryview, at: int, most_blocks: int | None = None) -> int | None:
    """Where the frame that begins here ends, None if its last block is missing or beyond as many blocks as given."""
    if int.from_bytes(data[at : at + 4], "little") & 0xFFFFFFF0 == _SKIPPABLE:
        return at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    has_checksum = bool(data[at + 4] & 4) if at + 4 < len(data) else False
    at += zstandard.frame_header_size(data[at:])
    blocks = 0
    while at < len(data) and blocks != most_blocks:
        blocks += 1
        head = int.from_bytes(data[at : at + 3], "little")
        is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        at += 3 + (1 if kind == _REPEATED else size)
        if is_last:
            return at + 4 * has_checksum
    return None


def inflate_all(frames: list[memoryview], sizes: bytes) -> list[Page]:
    """Decompress many frames in one call, each to the size it has among the native 64-bit numbers of `sizes`.

    The caller has checked that these are single frames that declare these sizes (see `smalti._core.pages`).
    """
    try:
        if _IN_BULK and frames:
            pages = _contexts.decompressor.multi_decompress_to_buffer(list(frames), decompressed_sizes=sizes)
            return [pages[i] for i in range(len(pages))]
        return [_contexts.decompressor.decompress(frame) for frame in frames]
    except zstandard.ZstdError as error:
        raise CorruptFileError(f"zstd block cannot be decompressed ({error})") from None


def deflate_all(blocks: list[bytes], level: int, checksum: bool, may_store: bool = False) -> list[bytes]:
    """Compress many blocks in one call, with the same result as `deflate` for each."""
    if may_store:
        return [deflate(block, level, checksum, may_store) for block in blocks]
    if _IN_BULK and len(blocks) > 1:
        frames = _compressor(level, checksum).multi_compress_to_buffer(list(blocks))
        return [frames[i].tobytes() for i in range(len(frames))]
    return [deflate(block, level, checksum) for block in blocks]


def deflate(data: bytes | memoryview | bytearray, level: int, checksum: bool, may_store: bool = False) -> bytes:
    """Compress to one frame with its content size and, if wanted, a checksum of the content.

    With `may_store`, bytes of which compression would save less than an eighth become a frame that decoders copy.
    """
    if may_store and _is_noise(data, level):
        level = _STORING
    return _compressor(level, checksum).compress(data)


def _is_noise(data: bytes | memoryview | bytearray, level: int) -> bool:
    """Whether compression saves less than an eighth, by pieces from all over a block; False for small blocks."""
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
