"""Numbers of bytes and of things: formatted for people, and sizes parsed from strings."""

from __future__ import annotations

from contextlib import suppress

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def show_bytes(count: float) -> str:
    """Format a number of bytes with its unit, in powers of 1,024.

    Examples
    --------
    >>> show_bytes(999), show_bytes(5_500_000)
    ('999 B', '5.2 MiB')
    """
    value, unit = float(count), 0
    while value >= _STEP - 0.05 and unit < len(_UNITS) - 1:  # 1,023.95 would be rounded up to a whole step
        value /= _STEP
        unit += 1
    return f"{count:,.0f} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def show_count(count: int, noun: str) -> str:
    """Format a number of things, with the plural where there is not exactly one.

    Examples
    --------
    >>> show_count(1, "file"), show_count(1200, "row group")
    ('1 file', '1,200 row groups')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def parse_bytes(text: str, *, least: int = 0) -> int:
    """Parse a number of bytes with an optional K, M or G (powers of 1,024). ValueError if it is out of bounds.

    Examples
    --------
    >>> parse_bytes("1000"), parse_bytes("64MB"), parse_bytes("1.5GiB")
    (1000, 67108864, 1610612736)
    """
    from decimal import Decimal  # only parsing needs it

    number = text.strip().lower().removesuffix("b").removesuffix("i")
    power = "kmg".find(number[-1:]) + 1 if number else 0
    with suppress(ArithmeticError):  # Decimal raises it for strings that are no numbers
        count = Decimal(number[:-1] if power else number) * _STEP**power
        if least <= count < 1 << 62:
            return int(count)
    raise ValueError(f"{text!r} is not a number of bytes, such as 256M")
