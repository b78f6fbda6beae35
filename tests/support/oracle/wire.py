"""Varints, bit streams and a cursor."""

from __future__ import annotations


def uv(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zz(value: int) -> bytes:
    """Zigzag of a signed integer, as LEB128."""
    return uv(value << 1 if value >= 0 else (-value << 1) - 1)


def pack_bits(values: list[int], width: int) -> bytes:
    """Each value in `width` bits, least significant first, zero padded to a byte."""
    out, pending, held = bytearray(), 0, 0
    for value in values:
        pending |= value << held
        held += width
        while held >= 8:
            out.append(pending & 0xFF)
            pending >>= 8
            held -= 8
    return bytes(out) + (bytes([pending]) if held else b"")


def unpack_bits(data: bytes, count: int, width: int) -> list[int]:
    values, pending, held, following = [], 0, 0, iter(data)
    for _ in range(count):
        while held < width:
            pending |= next(following) << held
            held += 8
        values.append(pending & (1 << width) - 1)
        pending >>= width
        held -= width
    return values


def bit_width(entries: int) -> int:
    """Bits of a dictionary index."""
    return 0 if entries <= 1 else (entries - 1).bit_length()


class Cursor:
    """Moves over trusted bytes; running off the end is an assertion."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, count: int) -> bytes:
        assert 0 <= count <= self.left, f"{count} bytes at {self.position} of {len(self.data)}"
        piece = self.data[self.position : self.position + count]
        self.position += count
        return piece

    def u8(self) -> int:
        return self.take(1)[0]

    def be(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def le(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def uv(self) -> int:
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zz(self) -> int:
        value = self.uv()
        return -(value + 1 >> 1) if value & 1 else value >> 1

    def text(self) -> str:
        return self.take(self.uv()).decode()
