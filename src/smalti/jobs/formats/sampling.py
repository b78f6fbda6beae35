"""Types of text files that their beginning does not tell: by looking at several files, or at all of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io.places import Place
from smalti.jobs.formats.reading import ReadRequest, reading
from smalti.jobs.formats.registry import Format
from smalti.jobs.formats.text import TextReader, union
from smalti.table.listing import Listing

#: Files looked at, spread over all there are.
MAX_SAMPLED = 50


def agree_on_types(listing: Listing, formats: Sequence[tuple[Format, str]], request: ReadRequest) -> pa.Schema | None:
    """Types for the text files among several; what the caller gave goes first. A broken file fails in its task."""
    text = [(file, format_) for file, (format_, _) in zip(listing.files, formats, strict=True) if format_.is_text]
    if len(text) < 2:
        return request.types
    step = max(1, len(text) // MAX_SAMPLED)
    found: pa.Schema | None = None
    for file, format_ in text[::step]:
        try:
            with reading(file.path, format_.title):
                reader = format_.reader(Place(listing.filesystem, file.path), replace(request, columns=None))
                assert isinstance(reader, TextReader)
                found = reader.schema if found is None else union([found, reader.schema], reader._widen)
        except MosaicError:
            continue
    if found is None or request.types is None:
        return found if request.types is None else request.types
    given = dict(zip(request.types.names, request.types.types, strict=True))
    return pa.schema([pa.field(field.name, given.get(field.name, field.type)) for field in found])


def scan_all(filesystem: Any, path: str, format_: Format, request: ReadRequest) -> pa.Schema:
    """Types that hold all of a text file that did not fit the guess; reads it once."""
    with reading(path, format_.title):
        reader = format_.reader(Place(filesystem, path), replace(request, types=None, columns=None))
        assert isinstance(reader, TextReader)
        found = reader.scan_types()
        if request.types is None:
            return found
        known = set(found.names)
        return union([found, pa.schema([field for field in request.types if field.name in known])], reader._widen)
