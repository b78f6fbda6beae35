"""Numbers for people."""

from __future__ import annotations


def show_bytes(count: float) -> str:
    """
    Examples
    --------
    >>> show_bytes(999), show_bytes(12_345_678)
    ('999 B', '12.3 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
