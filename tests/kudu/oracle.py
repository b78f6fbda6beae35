"""RLE and bit shuffling written for clarity instead of speed, to compare the kernels with."""

from __future__ import annotations


def rle_encode(values: list[int], width: int) -> bytes:
    """Kudu's choice of runs, one value at a time, as in its util/rle-encoding.h; `width` in bits."""
    out = bytearray()
    current = repeats = 0
    buffered: list[int] = []
    literal: list[int] = []

    def number(value: int) -> None:
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def emit_repeat() -> None:
        nonlocal repeats
        number(repeats << 1)
        out.extend(current.to_bytes((width + 7) // 8, "little"))
        repeats = 0

    def emit_literal() -> None:
        number(-(-len(literal) // 8) << 1 | 1)
        packed = sum(value << (i * width) for i, value in enumerate(literal))
        out.extend(packed.to_bytes(-(-len(literal) * width // 8), "little"))
        literal.clear()

    for value in values:
        if value == current:
            repeats += 1
            if repeats > 8:
                continue
        else:
            if repeats >= 8:
                emit_repeat()
                buffered.clear()
            repeats, current = 1, value
        buffered.append(value)
        if len(buffered) == 8:
            if repeats >= 8:
                buffered.clear()
                if literal:
                    emit_literal()
            else:
                literal += buffered
                buffered.clear()
                if len(literal) == 504:
                    emit_literal()
                repeats = 0
    if repeats > 0 and not literal and (len(buffered) == repeats or not buffered):
        emit_repeat()
    elif literal or buffered:
        literal += buffered
        emit_literal()
    return bytes(out)


def bit_planes(values: list[int], width: int) -> bytes:
    """One chunk: bit b of all elements is plane b, element i at bit i % 8 of byte i // 8."""
    planes = bytearray()
    for bit in range(8 * width):
        plane = sum((value >> bit & 1) << i for i, value in enumerate(values))
        planes += plane.to_bytes(len(values) // 8, "little")
    return bytes(planes)
