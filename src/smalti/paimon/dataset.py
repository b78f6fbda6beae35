"""A Paimon table as of one snapshot, read like any dataset: pypaimon plans which files are read, smalti reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pypaimon.read.split import Split

from smalti._core.allowance import Allowance
from smalti.file.blocks import RowBlocks, identity_of
from smalti.file.scans import Scan, keep_batches
from smalti.file.streams import Scannable
from smalti.logical.patterns import check_columns
from smalti.logical.types import fixed_bytes
from smalti.mosaic.rows import parse_rows
from smalti.paimon.predicates import to_predicate
from smalti.paimon.split_reader import SplitReader
from smalti.paimon.tables import AnyTable, AnyTime, PaimonTable, open_table
from smalti.readahead import MIN_LOCAL_BYTES, Budget
from smalti.table.planning import fit_filter, parse_filter
from smalti.threads import cpu_count

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter


#: Rows of a part that is read at once for a loader: a file may have many row groups, which pypaimon does not tell.
_BLOCK_ROWS = 1 << 15


class PaimonDataset(Scannable):
    """The rows of a Paimon table as of one snapshot. Made by `smalti.paimon.dataset`.

    Attributes
    ----------
    table : PaimonTable
        Its attribute `table` is the table of pypaimon that is read.
    snapshot_id : int, optional
        None for a table that has no snapshot yet, and therefore no rows.
    """

    def __init__(self, table: PaimonTable, readahead: int | None = None, memory_limit: int | None = None) -> None:
        self.table = table
        self._readahead = readahead
        self._memory_limit = memory_limit
        snapshot = table.snapshot
        self.snapshot_id: int | None = None if snapshot is None else snapshot.id

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table, in its order."""
        return self.table.schema_of(None)

    @property
    def files(self) -> list[str]:
        """The data files of the snapshot, sorted."""
        return sorted(str(file.physical_path()) for split in self.splits() for file in split.files)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows the table has, or how many match. Without filters, splits that need no merging are not read."""
        if filters is not None:
            return sum(batch.num_rows for batch in self.to_batches([], filters))
        return self._reader(pa.schema([])).count(self.splits()).num_rows

    def splits(self, filters: Filter | None = None) -> list[Split]:
        """What pypaimon plans to read; files that cannot have matching rows are left out."""
        if self.snapshot_id is None:
            return []
        builder = self.table.table.new_read_builder()
        if filters is not None:
            types = self.table.schema_of(filters.columns)
            predicate = to_predicate(fit_filter(filters, types).tree, builder.new_predicate_builder(), types)
            if predicate is not None:
                builder = builder.with_filter(predicate)
        return list(builder.new_scan().plan().splits())

    def __repr__(self) -> str:
        return f"<smalti.PaimonDataset {self.table.path}: snapshot {self.snapshot_id}>"

    # --- how a scan is read -----------------------------------------------------------------------------------------

    def _reader(self, output: pa.Schema, filter_: Filter | None = None, row_index: str | None = None) -> SplitReader:
        return SplitReader(self.table, output, filter_, self._readahead, self._memory_limit, row_index)

    def _scan_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.schema if columns is None else self.table.schema_of(columns)

    def _ahead(self) -> Budget:
        limits = self._readahead, self._memory_limit
        return Budget.choose(*limits, is_remote=self.table.is_remote, unit_bytes=MIN_LOCAL_BYTES)

    def _scan_batches(self, scan: Scan, held: Allowance) -> Iterator[pa.RecordBatch]:
        output, filter_ = self._scan_schema(scan.columns), parse_filter(scan.filters)
        if scan.rows is None and scan.row_index is None:
            return self._reader(output, filter_).batches(self.splits(filter_), scan.progress, held)
        reader = self._reader(output, filter_, scan.row_index)
        every = reader.count(self.splits())
        rows = None if scan.rows is None else parse_rows(scan.rows, every.num_rows)
        return reader.numbered(every, rows, scan.progress, held)

    def row_blocks(self, columns: Sequence[str] | None = None) -> RowBlocks:
        """Parts of the rows of the snapshot, which are read in any order, for `smalti.loader`."""
        return PaimonBlocks(self, self._scan_schema(check_columns(columns)))


class PaimonBlocks(RowBlocks):
    """The rows of a snapshot in parts of some ten thousand: of files that hold rows of the table, or of merged splits.

    A part of a merged split is read from the beginning of the split, so such tables are better compacted first.
    """

    def __init__(self, dataset: PaimonDataset, output: pa.Schema) -> None:
        self._dataset, self.schema = dataset, output
        splits, self._reader = dataset.splits(), dataset._reader(output)
        self._parts = self._reader.count(splits)
        self._spans = [
            range(first, min(end, first + _BLOCK_ROWS))
            for start, end in pairwise(self._parts.starts)
            for first in range(start, end, _BLOCK_ROWS)
        ]
        self.counts = [len(span) for span in self._spans]
        width = sum(fixed_bytes(field.type) + 16 for field in output)
        self.sizes = [count * width for count in self.counts]
        files = (str(file.file_name) for split in splits for file in split.files)
        self.identity = identity_of([*((name, 0, ()) for name in files), ("", 0, self.counts)])
        self.budget, self.memory_limit = Budget(cpu_count()), dataset._memory_limit

    def read(self, block: int, rows: range | None, kept: Allowance) -> pa.Table:
        span = self._spans[block]
        wanted = span if rows is None else span[rows.start : rows.stop]
        batches = self._reader.numbered(self._parts, wanted, None, kept)
        return pa.Table.from_batches(keep_batches(batches, kept), self.schema)

    def take(self, indices: Any) -> pa.Table:
        return self._dataset.take(indices, self.schema.names)


def dataset(
    table: AnyTable,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: AnyTime | None = None,
    storage_options: Mapping[str, Any] | None = None,
    readahead: int | None = None,
    memory_limit: int | None = None,
) -> PaimonDataset:
    """Open a Paimon table as of one snapshot: by default the newest at this moment.

    pypaimon decides which files and rows the snapshot has. smalti reads files that hold rows of the table as they are,
    which is most of an append table. Rows that have to be merged are read by pypaimon, which reads the files with
    smalti.

    Parameters
    ----------
    table : path, URI, or table of a pypaimon catalog
    snapshot : int, optional
        The id of a snapshot.
    tag : str, optional
    timestamp : int, datetime or str, optional
        The newest snapshot at this moment: milliseconds since 1970, a time, or text such as ``2026-11-16 12:00:00``.
    storage_options : mapping, optional
        Credentials and endpoints for a URI; see `smalti.io.locations.locate`.
    readahead : int, optional
        As in `smalti.dataset`.
    memory_limit : int, optional
        Bytes that reading a file may hold at a time, see `smalti.open`. What pypaimon merges does not count, and
        `to_table` keeps all rows.

    Raises
    ------
    FileNotFoundError
        If there is no Paimon table.
    MosaicError
        If there is no such snapshot.

    Examples
    --------
    >>> import pyarrow as pa, smalti.paimon
    >>> path = smalti.paimon.create("lake/people", pa.schema([("id", pa.int64()), ("x", pa.string())]))
    >>> first = smalti.paimon.write(pa.table({"id": [1, 2], "x": ["a", "b"]}), path)
    >>> second = smalti.paimon.write(pa.table({"id": [3], "x": ["c"]}), path)
    >>> smalti.paimon.dataset(path).to_table(filters=[("id", ">", 1)]).to_pydict()
    {'id': [2, 3], 'x': ['b', 'c']}
    >>> smalti.paimon.dataset(path, snapshot=first).count_rows()
    2
    """
    opened = open_table(table, storage_options, snapshot=snapshot, tag=tag, timestamp=timestamp)
    return PaimonDataset(opened, readahead, memory_limit)
