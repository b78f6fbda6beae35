"""CRC-32C, the checksum of blocks, header and footer: Castagnoli, not masked, little endian (note, section 6).

The sum itself is google-crc32c's: hardware instructions, Apache licence, and no second implementation to keep right.
Owns where the four bytes are and what a mismatch says.
"""

from __future__ import annotations

import struct

import google_crc32c

from smalti.errors import CorruptFileError
from smalti.kudu.spec import CHECKSUM_SIZE


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C of some bytes.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    # The library takes bytes only.
    value: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return value


def seal(data: bytes) -> bytes:
    """The bytes with their checksum behind them."""
    return data + struct.pack("<I", crc32c(data))


def unseal(data: memoryview) -> memoryview:
    """The bytes before the checksum, once it is found right."""
    if len(data) < CHECKSUM_SIZE:
        raise CorruptFileError("no room for the checksum", found=len(data), expected=CHECKSUM_SIZE, offset=0)
    body = data[:-CHECKSUM_SIZE]
    check(body, data[-CHECKSUM_SIZE:], offset=len(body))
    return body


def check(data: bytes | memoryview, stored: bytes | memoryview, *, offset: int) -> None:
    """Refuse data whose checksum is not the one stored at `offset`."""
    (expected,) = struct.unpack("<I", stored)
    found = crc32c(data)
    if found != expected:
        raise CorruptFileError("checksum does not match", found=hex(found), expected=hex(expected), offset=offset)
