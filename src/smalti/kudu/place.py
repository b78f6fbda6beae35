"""Where in a block something is wrong: kernels know an offset in their own bytes, the layers above the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smalti.errors import MosaicError


@contextmanager
def inside(section: str, base: int = 0) -> Iterator[None]:
    """Errors raised inside name the section (outermost first) and count their offset from `base` further out."""
    try:
        yield
    except MosaicError as error:
        place = error.place
        place["section"] = f"{section}, {place['section']}" if "section" in place else section
        if "offset" in place:
            place["offset"] += base
        raise
