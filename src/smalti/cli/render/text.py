"""Numbers and values as text that is safe and short enough for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from functools import partial

from smalti.units import show_bytes

#: What a terminal makes of text: the codes of its escape sequences.
BOLD, DIM, RED, GREEN = "1", "2", "31", "32"

size = show_bytes


def ratio(stored: int, uncompressed: int) -> str:
    """How many times smaller the stored bytes are; a dash where nothing is known."""
    return f"{uncompressed / stored:.1f}x" if stored and uncompressed else "-"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def printable(text: str, escape: Callable[[str], str] = _escaped) -> str:
    """Text from a file, with characters that could steer a terminal written as escapes.

    Examples
    --------
    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape(char) for char in text)


def visible(text: str) -> str:
    """Text that is data, with the same characters written as JSON writes them, so that JSON stays JSON.

    Examples
    --------
    >>> visible("a\\x9b2Jb \\u202e \\U000e0001")
    'a\\\\u009b2Jb \\\\u202e \\\\udb40\\\\udc01'
    """
    return printable(text, _as_json)


def _as_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


class Null(str):
    """The text of a missing value, which a terminal can show apart from the same text that is a value."""

    __slots__ = ()


NULL = Null("null")


def painted(text: str, code: str) -> str:
    """Text in a colour or weight of the terminal; the caller knows whether the terminal wants it."""
    return f"\x1b[{code}m{text}\x1b[0m" if text else text


def cell(value: object) -> str:
    """A value as the text of a table's cell."""
    if value is None:
        return NULL
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
    """`text` in exactly `room` columns, padded or cut in its middle."""
    if width(text) > room:
        text = shorten(text, room)
    pad = " " * (room - width(text))
    return pad + text if right else text + pad


def shorten(text: str, room: int) -> str:
    """Cut the middle out of `text`, because names often begin alike and differ at their ends.

    Examples
    --------
    >>> shorten("sensor_temperature_mean_00417", 15)
    'sensor_…n_00417'
    """
    if width(text) <= room:
        return text
    return _head(text, (room - 1) // 2) + "…" + _tail(text, room - 1 - (room - 1) // 2)


def _head(text: str, room: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += width(char)
        if taken > room:
            return text[:at]
    return text


def _tail(text: str, room: int) -> str:
    taken, at = 0, len(text)
    while at and taken + width(text[at - 1]) <= room:
        at -= 1
        taken += width(text[at])
    while at < len(text) and unicodedata.combining(text[at]):  # the letter that it belongs to was cut off
        at += 1
    return text[at:]


def _common_start(texts: Collection[str]) -> str:
    first, last = min(texts), max(texts)
    same = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(same, min(len(first), len(last)))]


def cutter(texts: Collection[str], room: int) -> Callable[[str], str]:
    """How to cut texts to `room` columns so that different ones stay different, as far as the room allows it.

    The middle is cut out first. If texts would look alike then, what all long ones begin with is cut off, and then also
    what they end with.

    Examples
    --------
    >>> names = ["customer_features_rolling_mean_7_days_v2", "customer_features_rolling_mean_9_days_v2"]
    >>> [cutter(names, 12)(name) for name in names]
    ['…7_days_v2', '…9_days_v2']
    """
    long = {text for text in texts if width(text) > room}
    if not long:
        return partial(shorten, room=room)
    start = _common_start(long)
    end = _common_start([text[len(start) :][::-1] for text in long])[::-1]

    def without(text: str, start: str, end: str) -> str:
        if width(text) <= room or not (text.startswith(start) and text[len(start) :].endswith(end)):
            return shorten(text, room)
        rest = text[len(start) : len(text) - len(end)]
        return shorten(f"{'…' if start else ''}{rest}{'…' if end else ''}", room)

    ways: list[Callable[[str], str]] = [
        partial(shorten, room=room),
        partial(without, start=start, end=""),
        partial(without, start=start, end=end),
    ]
    return max(ways, key=lambda way: len({way(text) for text in long}))
