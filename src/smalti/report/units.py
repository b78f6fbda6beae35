"""Numbers of bytes and of things as text for people, for summaries, the command line and notebooks."""

from __future__ import annotations

_UNITS = {1000: ("B", "kB", "MB", "GB", "TB"), 1024: ("B", "KiB", "MiB", "GiB", "TiB")}


def show_bytes(count: float, *, binary: bool = False) -> str:
    """A number of bytes with its unit: powers of 1,000, or with `binary` powers of 1,024.

    Examples
    --------
    >>> show_bytes(999), show_bytes(12_345_678), show_bytes(5_500_000, binary=True)
    ('999 B', '12.3 MB', '5.2 MiB')
    """
    step = 1024 if binary else 1000
    value, unit = float(count), 0
    while value >= step - 0.05 and unit < len(_UNITS[step]) - 1:  # what would be rounded up to a whole step
        value /= step
        unit += 1
    return f"{count:,.0f} B" if unit == 0 else f"{value:.1f} {_UNITS[step][unit]}"


def show_count(count: int, noun: str) -> str:
    """A number of things, with the plural where there is not exactly one.

    Examples
    --------
    >>> show_count(1, "file"), show_count(1200, "row group")
    ('1 file', '1,200 row groups')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
