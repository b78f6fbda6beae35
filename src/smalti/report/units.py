"""Numbers of bytes and of things as text for people, for summaries, the command line and notebooks."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def show_bytes(count: float) -> str:
    """A number of bytes with its unit, in powers of 1,024, as everything that people are shown.

    Examples
    --------
    >>> show_bytes(999), show_bytes(5_500_000)
    ('999 B', '5.2 MiB')
    """
    value, unit = float(count), 0
    while value >= _STEP - 0.05 and unit < len(_UNITS) - 1:  # what would be rounded up to a whole step
        value /= _STEP
        unit += 1
    return f"{count:,.0f} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def show_count(count: int, noun: str) -> str:
    """A number of things, with the plural where there is not exactly one.

    Examples
    --------
    >>> show_count(1, "file"), show_count(1200, "row group")
    ('1 file', '1,200 row groups')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
