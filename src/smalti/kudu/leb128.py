"""LEB128, the unsigned variable-length numbers of block headers and index entries (note, section 1).

A number is written in as few bytes as it takes; reading refuses any other form, numbers that are cut off, and numbers
past the width.
"""

from __future__ import annotations

from smalti.kudu._kernels import leb128 as _kernel


def encode_uleb128(value: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1.

    Examples
    --------
    >>> encode_uleb128(300).hex()
    'ac02'
    """
    return _kernel.encode(value)


def decode_uleb128(data: bytes | memoryview, offset: int = 0, *, bits: int = 32) -> tuple[int, int]:
    """Decode a number of up to 32 (or 64) bits at `offset`.

    Returns
    -------
    tuple of int
        The number, and the offset behind it.

    Examples
    --------
    >>> decode_uleb128(bytes.fromhex("ac02"))
    (300, 2)
    """
    if bits not in (32, 64):
        raise ValueError(f"numbers have 32 or 64 bits, not {bits}")
    return _kernel.decode32(data, offset) if bits == 32 else _kernel.decode64(data, offset)
