"""Readers that give fewer rows or columns than a file has: those that match a condition, and those that can be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io.locations import Location
from smalti.jobs.formats.columnar import MosaicFileReader
from smalti.jobs.formats.registry import Format
from smalti.jobs.formats.request import Reader, ReadRequest, select_fields
from smalti.jobs.verify_task import unreadable_columns
from smalti.table.planning import fit_filter, owners_of, parse_filter
from smalti.table.reading import filtered


def open_reader(format_: Format, location: Location, request: ReadRequest) -> tuple[Reader, dict[str, str]]:
    """Open a file for a request; also return the columns that are left out, with the reasons, if that was asked for."""
    lost: dict[str, str] = {}
    if request.salvage and format_.name == "mosaic":
        request, lost = _without_lost(location, request)
    if request.where is None:
        return format_.reader(location, request), lost
    return MatchingReader(format_, location, request), lost


def _without_lost(location: Location, request: ReadRequest) -> tuple[ReadRequest, dict[str, str]]:
    with contextlib.closing(MosaicFileReader(location, replace(request, where=None, row_groups=None))) as reader:
        names: Sequence[str] = reader.schema.names
    stored = unreadable_columns(location)
    # A struct is stored as several columns, whose names begin with its own; without one of them it is lost.
    lost = {
        name: reason for name in names for part, reason in stored.items() if part == name or part.startswith(f"{name}.")
    }
    if len(lost) == len(names) and names:
        raise MosaicError("no column can be read", path=location.path, found=next(iter(lost.values())))
    return replace(request, columns=tuple(name for name in names if name not in lost)), lost


class MatchingReader:
    """The rows of another reader that match a condition; its columns are read even if they are not asked for."""

    def __init__(self, format_: Format, location: Location, request: ReadRequest) -> None:
        with contextlib.closing(format_.reader(location, replace(request, columns=None))) as whole:
            schema = whole.schema
        found = parse_filter(request.where, schema)
        assert found is not None
        columns = request.columns
        if columns is not None:
            columns = tuple(dict.fromkeys([*columns, *owners_of(found.columns, schema.names)]))
        self._reader = format_.reader(location, replace(request, columns=columns))
        self._filter = fit_filter(found, self._reader.schema)
        self.schema: pa.Schema = select_fields(self._reader.schema, request.columns)
        self.close = self._reader.close

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch, num_bytes in self._reader.batches():
            yield filtered(batch, self._filter, self.schema), num_bytes
