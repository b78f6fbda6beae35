"""A Paimon table as of one snapshot, read like any dataset: pypaimon plans, smalti reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pypaimon.read.split import Split
from pypaimon.schema.data_types import PyarrowFieldParser

from smalti._core.allowance import Allowance
from smalti.errors import SchemaError
from smalti.file.streams import Scan, keep_batches
from smalti.logical.patterns import check_columns, match_names
from smalti.paimon.predicates import to_predicate
from smalti.paimon.reading import SplitReader
from smalti.paimon.tables import AnyTable, AnyTime, PaimonTable, open_table
from smalti.readahead import Budget
from smalti.table.dataset import Dataset, fit_filter

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter


class PaimonDataset(Dataset):
    """The rows of a Paimon table as of one snapshot. Made by `smalti.paimon.dataset`.

    Attributes
    ----------
    table : PaimonTable
        With the table of pypaimon's that is read, as its `table`.
    snapshot_id : int, optional
        None for a table that has no snapshot yet, and therefore no rows.
    """

    def __init__(self, table: PaimonTable, readahead: int | None = None, memory_limit: int | None = None) -> None:
        self.table = table
        self._limits = readahead, memory_limit
        self._memory_limit = memory_limit
        self._schema: pa.Schema | None = None
        snapshot = table.snapshot
        self.snapshot_id: int | None = None if snapshot is None else snapshot.id

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, in its order."""
        if self._schema is None:
            self._schema = PyarrowFieldParser.from_paimon_schema(self.table.table.fields)
        return self._schema

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """The schema of some columns, which must be there, or of all."""
        asked = check_columns(columns)
        if asked is None:
            return self.schema
        # Only the fields that are asked for are built: a table may have 10,000.
        try:
            names = match_names(self.table.table.field_names, asked)
        except SchemaError as error:
            raise error.locate(path=self.table.path) from None
        fields = self.table.table.field_dict
        schema: pa.Schema = PyarrowFieldParser.from_paimon_schema([fields[name] for name in names])
        return schema

    @property
    def files(self) -> list[str]:
        """The data files of the snapshot, sorted."""
        return sorted(str(file.physical_path()) for split in self.splits() for file in split.files)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows there are, or would remain. Without filters, splits that need no merging are not read."""
        if filters is not None:
            return sum(batch.num_rows for batch in self.to_batches([], filters))
        counts = [(split, split.merged_row_count()) for split in self.splits()]
        uncounted = [split for split, rows in counts if rows is None]
        reader = SplitReader(self.table, pa.schema([]))
        read = sum(batch.num_rows for batch in reader.batches(uncounted, self._budget(uncounted)))
        return read + sum(int(rows) for _, rows in counts if rows is not None)

    def splits(self, filters: Filter | None = None) -> list[Split]:
        """What pypaimon plans to read; files that cannot have matching rows are left out."""
        if self.snapshot_id is None:
            return []
        builder = self.table.table.new_read_builder()
        if filters is not None:
            types = self.schema_of(filters.columns)
            predicate = to_predicate(fit_filter(filters, types).tree, builder.new_predicate_builder(), types)
            if predicate is not None:
                builder = builder.with_filter(predicate)
        return list(builder.new_scan().plan().splits())

    def __repr__(self) -> str:
        return f"<smalti.PaimonDataset {self.table.path}: snapshot {self.snapshot_id}>"

    # --- how a scan is read -----------------------------------------------------------------------------------------

    def _budget(self, splits: Sequence[Split]) -> Budget:
        files = [file for split in splits for file in split.files]
        is_remote = self.table.location is None or not self.table.location.is_local
        unit_bytes = sum(file.file_size for file in files) // max(1, len(files))
        return Budget.choose(*self._limits, is_remote=is_remote, unit_bytes=unit_bytes)

    def _scan_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.schema_of(columns)

    def _scan_table(self, scan: Scan, kept: Allowance) -> pa.Table:
        return pa.Table.from_batches(keep_batches(self._scan_batches(scan), kept), schema=self.schema_of(scan.columns))

    def _stream(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        output, filter_ = self.schema_of(scan.columns), None
        if scan.filters is not None:
            from smalti.predicate import normalize_filters

            filter_ = normalize_filters(scan.filters)
        splits = self.splits(filter_)
        reader = SplitReader(self.table, output, filter_, self._limits[1])
        return reader.batches(splits, self._budget(splits), scan.progress)


def dataset(
    table: AnyTable,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: AnyTime | None = None,
    storage: Mapping[str, str] | None = None,
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
    storage : mapping, optional
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
    >>> first = smalti.paimon.write(path, pa.table({"id": [1, 2], "x": ["a", "b"]}))
    >>> second = smalti.paimon.write(path, pa.table({"id": [3], "x": ["c"]}))
    >>> smalti.paimon.dataset(path).to_table(filters=[("id", ">", 1)]).to_pydict()
    {'id': [2, 3], 'x': ['b', 'c']}
    >>> smalti.paimon.dataset(path, snapshot=first).count_rows()
    2
    """
    opened = open_table(table, storage, snapshot=snapshot, tag=tag, timestamp=timestamp)
    return PaimonDataset(opened, readahead, memory_limit)
