"""CRC-32C, the checksum of blocks, header and footer: Castagnoli polynomial, not masked, little endian.

google-crc32c computes it with hardware instructions and has an Apache licence. This module owns where the four bytes
lie and what a mismatch says.
"""

from __future__ import annotations

import struct

import google_crc32c

from smalti.errors import CorruptFileError
from smalti.kudu.parsing import need
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
    """Append the checksum to the bytes."""
    return data + struct.pack("<I", crc32c(data))


def unseal(data: memoryview) -> memoryview:
    """Verify the checksum at the end of the bytes and return what is before it."""
    need(data, CHECKSUM_SIZE, "the checksum")
    body = data[:-CHECKSUM_SIZE]
    check(body, data[-CHECKSUM_SIZE:], offset=len(body))
    return body


def check(data: bytes | memoryview, stored: bytes | memoryview, *, offset: int) -> None:
    """Refuse data whose checksum is not the one stored at `offset`."""
    (expected,) = struct.unpack("<I", stored)
    found = crc32c(data)
    if found != expected:
        raise CorruptFileError("checksum does not match", found=hex(found), expected=hex(expected), offset=offset)
