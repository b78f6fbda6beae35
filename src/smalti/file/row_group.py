"""One row group of an open file: its rows, its bytes, and the statistics of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from smalti.format.statistics import ColumnStatistics, StatisticsRecord
from smalti.logical.mapping import restore_bound
from smalti.units import show_count

if TYPE_CHECKING:
    from smalti.file.reader import MosaicFile
    from smalti.predicate.python import AnyFilter


class RowGroup:
    """One row group of an open file."""

    def __init__(self, file: MosaicFile, index: int) -> None:
        self._file = file
        self.index = index

    @property
    def num_rows(self) -> int:
        return self._file._tail.index.rows(self.index)

    @property
    def num_bytes(self) -> int:
        """Bytes of all buckets of the row group in the file."""
        return self._file._tail.stored_bytes(self.index, self._file._tail.buckets)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        """The statistics of columns that have them, by the name of the column or the path of a struct's field."""
        names, records = self._records()
        types = self._file.columns.stored.project(names).schema.types
        return {
            name: record.describe(type_, partial(restore_bound, self._file.columns.given_type(name)))
            for name, record, type_ in zip(names, records, types, strict=True)
        }

    def bounds(self) -> dict[str, tuple[int, pa.Array]]:
        """The number of nulls of columns with statistics, and minimum and maximum as an Arrow array of two.

        The array has the given type, without dictionaries and runs, and nulls where the bounds are not known.
        """
        names, records = self._records()
        found = {}
        for name, record, field in zip(names, records, self._file.columns.stored.project(names).schema, strict=True):
            given = self._file.columns.given_type(name)
            low, high = (restore_bound(given, bound) for bound in record.bounds(field.type))
            found[name] = record.null_count, pa.concat_arrays([pa.array([end], end.type) for end in (low, high)])
        return found

    @property
    def raw_statistics(self) -> dict[str, ColumnStatistics]:
        """The same with `min` and `max` as the bytes that the file stores; see section 11 of the format.

        For programs that compare them in their own types. They are None if every value is null.

        Examples
        --------
        >>> import pyarrow as pa, smalti
        >>> _ = smalti.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), "raw.mosaic", stats_columns=["a"])
        >>> with smalti.open("raw.mosaic") as f:
        ...     f.row_group(0).raw_statistics["a"].max
        b'\\x00\\x00\\x00\\x02'
        """
        return {
            name: ColumnStatistics(record.null_count, record.low, record.high)
            for name, record in zip(*self._records(), strict=True)
        }

    def _records(self) -> tuple[list[str], list[StatisticsRecord]]:
        """The columns that have statistics, and what the index holds for each."""
        tail = self._file._tail
        records = list(tail.statistics(self.index))
        by_position = tail.schema.names() if records else []
        return [by_position[record.column] for record in records], records

    def stored_bytes(self, columns: Sequence[str]) -> int:
        """Bytes of the buckets that hold some columns. Reading these takes as many, or fewer if buckets are paged."""
        return self._file._tail.stored_bytes(self.index, self._file._project(columns).stored.bucket_ids)

    def read(self, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """As `MosaicFile.read`, for this row group."""
        return self._file.read(columns, filters, [self.index])

    def __repr__(self) -> str:
        return f"<smalti.RowGroup {self.index}: {show_count(self.num_rows, 'row')}>"
