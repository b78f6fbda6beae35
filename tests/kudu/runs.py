"""Lists in and out of the RLE kernels, which take packed bits and 16-bit numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from smalti.kudu._kernels import rle_bits, rle_ints


def encode_bitmap(bits: Sequence[bool | int]) -> bytes:
    packed = sum(bool(bit) << i for i, bit in enumerate(bits)).to_bytes(-(-len(bits) // 8), "little")
    return rle_bits.encode(packed, 0, len(bits))


def decode_bitmap(data: bytes, count: int) -> list[bool]:
    packed, ones = rle_bits.decode(data, count)
    bits = [bool(packed[i >> 3] >> (i & 7) & 1) for i in range(count)]
    assert sum(bits) == ones
    return bits


def encode_counts(counts: Sequence[int]) -> bytes:
    return rle_ints.encode(struct.pack(f"<{len(counts)}H", *counts), 2)


def decode_counts(data: bytes, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}H", rle_ints.decode(data, 2, count)))
