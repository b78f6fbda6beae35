"""Parsing of untrusted bytes: fixed headers, parts behind their size, and the place an error is given on its way out.

A kernel or parser knows only an offset in the bytes it was given. Each caller wraps it in `inside`, so that the error
that reaches the user names the file, the section of it and the offset in that section.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from smalti.errors import CorruptFileError, MosaicError
from smalti.kudu._kernels import leb128


@contextmanager
def inside(section: str | None = None, base: int = 0, *, path: str | None = None) -> Iterator[None]:
    """Add the place to errors raised in this context.

    `section` goes before the sections that inner contexts have named, and `base`, the offset at which the bytes of
    this context start, is added to the error's offset.
    """
    try:
        yield
    except MosaicError as error:
        place = error.place
        if section is not None:
            place["section"] = f"{section}, {place['section']}" if "section" in place else section
        if "offset" in place:
            place["offset"] += base
        error.locate(path=path)
        raise


def need(data: memoryview, size: int, what: str) -> None:
    """Refuse data that is shorter than the `size` bytes that `what` takes."""
    if len(data) < size:
        raise CorruptFileError(f"no room for {what}", found=len(data), expected=size, offset=0)


def read_data_header(layout: struct.Struct, data: memoryview, *expected: tuple[str, int | None]) -> tuple[int, ...]:
    """The 32-bit numbers at the start of a block's data part.

    `expected` has the name of each number and the value that the rest of the block asks for, `None` for any value.
    """
    need(data, layout.size, "the data header")
    numbers = layout.unpack_from(data)
    for i, (name, value) in enumerate(expected):
        if value is not None and numbers[i] != value:
            raise CorruptFileError(f"{name} in the data header", found=numbers[i], expected=value, offset=4 * i)
    return numbers


def read_sized(body: memoryview, at: int) -> tuple[memoryview, int]:
    """The part of a block that follows its own size at offset `at`, and the offset of the part's first byte."""
    size, start = leb128.decode32(body, at)
    if size > len(body) - start:
        raise CorruptFileError("part is longer than the block", found=size, expected=len(body) - start, offset=at)
    return body[start : start + size], start
