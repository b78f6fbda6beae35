"""Files of any format read as one table, in the same way as Mosaic files are: columns, filters, batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import MosaicError, SchemaError
from smalti.file.scans import Scan
from smalti.file.streams import Scannable
from smalti.io.locations import Location
from smalti.jobs.formats.registry import Format
from smalti.jobs.formats.request import ReadRequest, SchemaDrift, content_errors
from smalti.jobs.formats.text import with_agreed_types
from smalti.logical.adapt import Adapter
from smalti.logical.patterns import match_names
from smalti.logical.widen import unify_schemas
from smalti.mosaic.rows import RowIndex, parse_rows
from smalti.progress import Meter
from smalti.table.listing import FoundFile, Listing, location_of
from smalti.table.partitions import constants_of, partition_schema, with_partitions
from smalti.table.planning import fit_filter, owners_of, parse_filter
from smalti.table.reading import numbered

if TYPE_CHECKING:
    from smalti.predicate.python import AnyFilter


class FormatTable(Scannable):
    """The files of a listing, each of a format that `smalti.jobs.convert` reads, as one table.

    Files are read one after another. A filter is applied to rows that were read; statistics of other formats are not
    asked. Columns that are in `types` are read as the types there, and values that do not fit them are refused.
    """

    def __init__(self, listing: Listing, formats: Sequence[tuple[Format, str]], types: pa.Schema | None = None) -> None:
        self.listing = listing
        self.formats = [format_ for format_, _ in formats]
        self._types = {} if types is None else dict(zip(types.names, types, strict=True))
        self._request = with_agreed_types(ReadRequest(types=types), listing, formats)
        self._partitions = self._typed(partition_schema(listing.files))

    def _typed(self, schema: pa.Schema) -> pa.Schema:
        """The schema with the types that were given."""
        return pa.schema([self._types.get(field.name, field) for field in schema]).with_metadata(schema.metadata or {})

    @property
    def files(self) -> list[str]:
        return [file.path for file in self.listing.files]

    @cached_property
    def _schemas(self) -> list[pa.Schema]:
        found = []
        for file, format_ in zip(self.listing.files, self.formats, strict=True):
            location = self._location(file)
            with content_errors(file.path, format_.title), closing(format_.reader(location, self._request)) as reader:
                found.append(self._typed(reader.schema))
        return found

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of all files, then the partition columns; with metadata on which all files agree."""
        union = with_partitions(unify_schemas(zip(self.files, self._schemas, strict=True)), self._partitions)
        metadata = self._schemas[0].metadata
        is_shared = metadata is not None and all(found.metadata == metadata for found in self._schemas)
        return union.with_metadata(metadata or {}) if is_shared else union

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows the table has, or how many of them match; reads one column, or those of the filter."""
        return sum(batch.num_rows for batch in self.scan([], filters).to_batches())

    def _location(self, file: FoundFile) -> Location:
        return location_of(file, self.listing.filesystem)

    def _scan_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        if columns is None:
            return self.schema
        return pa.schema([self.schema.field(name) for name in match_names(self.schema.names, columns)])

    def _scan_batches(self, scan: Scan, held: Allowance) -> Generator[pa.RecordBatch, None, None]:  # noqa: ARG002
        output, filter_ = self._scan_schema(scan.columns), parse_filter(scan.filters)
        compared = [] if filter_ is None else [name for name in filter_.columns if name != scan.row_index]
        needed = self._scan_schema(list(dict.fromkeys([*output.names, *owners_of(compared, self.schema.names)])))
        if filter_ is not None:
            filter_ = fit_filter(filter_, scan.with_index(needed))
        rows = None if scan.rows is None else parse_rows(scan.rows, self.count_rows())
        index = None if scan.row_index is None else RowIndex(scan.row_index)
        with closing(self._batches(needed, scan)) as batches:
            yield from numbered(batches, scan.with_index(output), filter_=filter_, row_index=index, rows=rows)

    def _batches(self, needed: pa.Schema, scan: Scan) -> Generator[pa.RecordBatch, None, None]:
        """All rows of the columns that are needed."""
        files = self.listing.files
        meter = Meter("read", len(files), sum(file.size for file in files), scan.progress)
        for file, format_, schema in zip(files, self.formats, self._schemas, strict=True):
            # A partition column that a file stores is read from it, as `with_partitions` says.
            stored = [field.name for field in needed if field.name in schema.names]
            # No format is asked for no column, which some of them take for all columns.
            names = stored or schema.names[:1]
            adapter = Adapter(needed, names, constants_of(file.partition))
            request = replace(self._request, columns=tuple(names), batch_size=scan.batch_size)
            with (
                content_errors(file.path, format_.title),
                closing(format_.reader(self._location(file), request)) as reader,
            ):
                try:
                    for batch, num_bytes in reader.batches():
                        meter.add(batch.num_rows, num_bytes)
                        yield adapter.adapt(batch)
                except SchemaDrift as error:
                    if self._types:
                        raise SchemaError(f"values do not fit the types of the table: {error}") from None
                    reason = f"a line does not fit the types that the first lines have ({error})"
                    raise MosaicError(f"{reason}; `smalti convert` can read it") from None
