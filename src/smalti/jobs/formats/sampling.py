"""Types of text files where the beginning of one file does not tell them: from several files, or from a whole one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io.places import Place
from smalti.jobs.formats.reading import ReadRequest, content_errors
from smalti.jobs.formats.registry import Format
from smalti.jobs.formats.text import TextReader, with_given_types
from smalti.table.listing import Listing

#: About how many files are sampled, spread evenly over all text files.
MAX_SAMPLED = 50


def with_agreed_types(request: ReadRequest, listing: Listing, formats: Sequence[tuple[Format, str]]) -> ReadRequest:
    """The request with types on which the text files of a listing agree; types that it has already come first.

    A broken file is passed over: the task that reads it will fail and say why.
    """
    text = [(file.path, format_) for file, (format_, _) in zip(listing.files, formats, strict=True) if format_.is_text]
    if len(text) < 2:
        return request
    whole = replace(request, columns=None)
    agreed: pa.Schema | None = None
    for path, format_ in text[:: max(1, len(text) // MAX_SAMPLED)]:
        try:
            with content_errors(path, format_.title):
                reader = _open_text(Place(listing.filesystem, path), format_, whole)
                agreed = reader.unify([reader.schema] if agreed is None else [agreed, reader.schema])
        except MosaicError:
            continue
    return request if agreed is None else replace(request, types=with_given_types(agreed, request.types))


def scan_types(place: Place, format_: Format, request: ReadRequest) -> pa.Schema:
    """Types that hold all of a text file whose first lines led to a wrong guess; reads the file once."""
    with content_errors(place.path, format_.title):
        reader = _open_text(place, format_, replace(request, types=None, columns=None))
        found = reader.scan_types()
        known = set(found.names)
        given = [field for field in request.types or () if field.name in known]
        return reader.unify([found, pa.schema(given)]) or found


def _open_text(place: Place, format_: Format, request: ReadRequest) -> TextReader:
    reader = format_.reader(place, request)
    assert isinstance(reader, TextReader)
    return reader
