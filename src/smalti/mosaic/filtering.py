"""A filter applied to one file: which row groups statistics rule out, and which rows of the others match.

Imported only when there is a filter: loading Arrow's compute functions takes longer than many reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from smalti.format.statistics import StatisticsRecord
from smalti.mosaic.columns import Columns, FilterColumn
from smalti.mosaic.rows import RowIndex, row_numbers
from smalti.mosaic.tail import Tail
from smalti.predicate import Filter, GroupStatistics, Outcome, fit_values, match_mask, prune
from smalti.predicate.tree import Compare, IsIn, MatchString, is_null_only_where_columns_are


class FilterPlan:
    """The outcome of a filter for each row group of a file.

    Parameters
    ----------
    filter_ : Filter
    compared : mapping
        The column that is compared for each name in the filter.
    tail : Tail
    columns : Columns
    numbered : tuple of RowIndex and int64 array, optional
        The column of row numbers, if there is one, and the number of the first row of each row group, then of the end.
    """

    def __init__(
        self,
        filter_: Filter,
        compared: Mapping[str, FilterColumn],
        tail: Tail,
        columns: Columns,
        numbered: tuple[RowIndex, Sequence[int]] | None = None,
    ) -> None:
        self._compared = compared
        self._index = None if numbered is None or numbered[0].name not in filter_.columns else numbered[0]
        names = list(dict.fromkeys(name for column in compared.values() for name in column.stored))
        plain = columns.project(names)
        found = {names.index(c.stored[0]): c.dictionary for c in compared.values() if c.dictionary is not None}
        #: The columns that are read to filter rows.
        self.projection = plain.with_dictionaries(
            {index: each.type for index, each in found.items()}, {index: [(0, each)] for index, each in found.items()}
        )
        stored = dict(zip(names, plain.schema.types, strict=True))
        types = {name: stored[c.stored[0]] if c.type is None else c.type for name, c in compared.items()}
        if self._index is not None:
            types[self._index.name] = pa.int64()
        self._filter = fit_values(filter_, types)
        positions = dict(zip(names, columns.find(names), strict=True))
        wanted, groups = set(positions.values()), range(tail.index.num_row_groups)
        records = [{record.column: record for record in tail.statistics(group, wanted)} for group in groups]
        statistics = {
            name: _group_statistics([group.get(positions[c.stored[0]]) for group in records], stored[c.stored[0]], c)
            for name, c in compared.items()
            if c.has_bounds and any(positions[c.stored[0]] in group for group in records)
        }
        if self._index is not None and numbered is not None:
            statistics[self._index.name] = _number_statistics(numbered[1], self._index.start)
        self._nulls = {name: each.null_count for name, each in statistics.items()}
        self._outcomes = prune(self._filter.tree, statistics, [tail.index.rows(group) for group in groups])

    def outcome(self, group: int) -> Outcome:
        """How many rows of the group can match."""
        return self._outcomes[group]

    def null_rows(self, group: int) -> int | None:
        """For how many rows of the group the condition is null, if statistics tell."""
        if self._outcomes[group] is Outcome.ALL:
            return 0
        counts = [self._nulls[name][group].as_py() if name in self._nulls else None for name in self._compared]
        if None in counts or not is_null_only_where_columns_are(self._filter.tree):
            return None
        if not any(counts):
            return 0
        is_single = isinstance(self._filter.tree, (Compare, IsIn, MatchString))
        return counts[0] if is_single else None

    def rules_out(self, group: int) -> bool:
        """Whether no row of the group can match."""
        return self._outcomes[group] is Outcome.NONE

    def takes_all(self, group: int) -> bool:
        """Whether every row of the group matches, so that its rows need no filtering."""
        return self._outcomes[group] is Outcome.ALL

    def matching_rows(self, batch: pa.RecordBatch, start: int, num_rows: int) -> pa.UInt64Array:
        """The indices of the rows that match in a batch of `projection`, whose first row has the number `start`."""
        arrays = [column.convert(*map(batch.column, column.stored)) for column in self._compared.values()]
        names = list(self._compared)
        if self._index is not None:
            arrays.append(row_numbers(start, num_rows))
            names.append(self._index.name)
        if arrays:
            batch = pa.RecordBatch.from_arrays(arrays, names=names)
        return pc.indices_nonzero(match_mask(batch, self._filter))


def _number_statistics(starts: Sequence[int], first: int) -> GroupStatistics:
    """The bounds of the row numbers of each row group; a group without rows has none."""
    bounds = [(low + first, high + first - 1) if low < high else (None, None) for low, high in pairwise(starts)]
    return GroupStatistics(
        pa.array([0] * len(bounds), pa.int64()),
        pa.array([low for low, _ in bounds], pa.int64()),
        pa.array([high for _, high in bounds], pa.int64()),
    )


def _group_statistics(
    records: list[StatisticsRecord | None], type_: pa.DataType, column: FilterColumn
) -> GroupStatistics:
    """The statistics of one column; of a row group without a record they are unknown."""
    unknown = StatisticsRecord(0, 0, None, None)
    lows, highs = zip(*[(record or unknown).bounds(type_) for record in records], strict=True)
    nulls = pa.array([None if record is None else record.null_count for record in records], pa.int64())
    return GroupStatistics(nulls, *(column.convert(pa.array(bounds, type_)) for bounds in (lows, highs)))
