"""Numbers and values as text that is safe and short enough for a terminal."""

from __future__ import annotations

import unicodedata
from functools import partial

from smalti.report.units import show_bytes

#: Bytes of a file, in powers of 1,024.
size = partial(show_bytes, binary=True)


def ratio(stored: int, uncompressed: int) -> str:
    """How many times smaller the stored bytes are; a dash where nothing is known."""
    return f"{uncompressed / stored:.1f}x" if stored and uncompressed else "-"


def seconds(value: float) -> str:
    """A duration in seconds, or milliseconds where it is short."""
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def printable(text: str) -> str:
    """Text from a file, with characters that could steer a terminal written as escapes.

    Examples
    --------
    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def visible(text: str) -> str:
    """Text that is data, with the same characters written as JSON writes them, so that JSON stays JSON.

    Examples
    --------
    >>> visible("a\\x9b2Jb \\u202e \\U000e0001")
    'a\\\\u009b2Jb \\\\u202e \\\\udb40\\\\udc01'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _as_json(char) for char in text)


def _as_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def cell(value: object) -> str:
    """A value as the text of a table's cell."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return printable(str(value))


def width(text: str) -> int:
    """Columns of a terminal that `text` takes: East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def fit(text: str, room: int, *, right: bool = False) -> str:
    """`text` in exactly `room` columns, padded or cut with an ellipsis."""
    taken = width(text)
    if taken > room:
        kept, taken = "", 0
        for char in text:
            step = width(char)
            if taken + step > room - 1:
                break
            kept, taken = kept + char, taken + step
        text, taken = kept + "…", taken + 1
    pad = " " * (room - taken)
    return pad + text if right else text + pad
