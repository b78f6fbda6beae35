"""The two ends of a CFile: the header before the blocks and the footer behind them, each packed and read here.

Both are the magic, the length of a protobuf message and the message, in this order in the header and with the message
first in the footer. The checksum of the header stands behind it, that of the footer before it. The footer is read
first, because only it says whether there are checksums.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from smalti.errors import CorruptFileError, UnsupportedFeatureError
from smalti.io import Source
from smalti.kudu.checksum import check, crc32c, seal, unseal
from smalti.kudu.messages import Footer, parse_header
from smalti.kudu.parsing import inside
from smalti.kudu.spec import CHECKSUM_SIZE, KNOWN_FEATURES, MAGIC, MAGIC_V1

_U32 = struct.Struct("<I")
_FRAME = len(MAGIC) + _U32.size  # magic and length, at both ends of a file


@dataclass(frozen=True)
class Ends:
    """What both ends say; blocks lie between the offsets `begin` and `end` of the file."""

    footer: Footer
    header_metadata: dict[str, bytes]
    begin: int
    end: int


def pack_header(checksum: bool) -> bytes:
    """The start of a file, with an empty `CFileHeaderPB`."""
    header = MAGIC + _U32.pack(0)
    return seal(header) if checksum else header


def pack_footer(footer: Footer) -> bytes:
    """The end of a file."""
    message = footer.pack()
    end = message + MAGIC + _U32.pack(len(message))
    return _U32.pack(crc32c(end)) + end if footer.checksum else end


def read_ends(source: Source) -> Ends:
    """Read and check the footer, then the header."""
    if source.size < 2 * _FRAME:
        raise CorruptFileError("file is too short for a CFile", found=source.size, expected=f"{2 * _FRAME} at least")
    with inside("footer"):
        footer, end = _read_footer(source)
    with inside("header"):
        metadata, begin = _read_header(source, end, footer.checksum)
    return Ends(footer, metadata, begin, end)


def _read_footer(source: Source) -> tuple[Footer, int]:
    """The footer, and the offset at which the blocks end."""
    frame_at = source.size - _FRAME
    frame = source.read_at(frame_at, _FRAME)
    length = _message_length(frame, frame_at)
    start = frame_at - length
    if start < _FRAME:
        raise CorruptFileError(
            "footer is longer than the file", found=length, expected=frame_at - _FRAME, offset=source.size - 4
        )
    message = source.read_at(start, length)
    with inside(base=start):
        footer = Footer.parse(memoryview(message))
    unknown = footer.features & ~KNOWN_FEATURES
    if unknown:
        raise UnsupportedFeatureError(
            f"file needs incompatible features {unknown}, which are not known",
            found=footer.features,
            expected=f"bits of {KNOWN_FEATURES} only",
        )
    end = start
    if footer.checksum:
        end -= CHECKSUM_SIZE
        if end < _FRAME:
            raise CorruptFileError("no room for the checksum", offset=start)
        check(message + frame, source.read_at(end, CHECKSUM_SIZE), offset=end)
    if footer.num_values >= 1 << 32:
        raise CorruptFileError("number of cells", found=footer.num_values, expected="2**32 - 1 at most")
    return footer, end


def _read_header(source: Source, blocks_end: int, checksum: bool) -> tuple[dict[str, bytes], int]:
    """The header's metadata, and the offset at which the blocks begin."""
    length = _message_length(source.read_at(0, _FRAME), 0)
    begin = _FRAME + length + CHECKSUM_SIZE * checksum
    if begin > blocks_end:
        raise CorruptFileError("header is longer than the file", found=length, expected=blocks_end - _FRAME, offset=8)
    header = memoryview(source.read_at(0, begin))
    if checksum:
        header = unseal(header)
    with inside(base=_FRAME):
        return parse_header(header[_FRAME:]), begin


def _message_length(frame: bytes, offset: int) -> int:
    magic = frame[: len(MAGIC)]
    if magic == MAGIC_V1:
        raise UnsupportedFeatureError("CFile of version 1 is not read", found=magic, expected=MAGIC)
    if magic != MAGIC:
        raise CorruptFileError("not a CFile", found=magic, expected=MAGIC, offset=offset)
    (length,) = _U32.unpack_from(frame, len(MAGIC))
    return int(length)
