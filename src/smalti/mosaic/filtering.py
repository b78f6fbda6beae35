"""A filter applied to one file: which row groups statistics rule out, and which rows of the others match.

Imported only when there is a filter: loading Arrow's compute functions takes longer than many reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from smalti.format.statistics import StatisticsRecord
from smalti.mosaic.columns import Columns, FilterColumn
from smalti.mosaic.tail import Tail
from smalti.predicate import Filter, GroupStatistics, Outcome, fit_values, match_mask, prune


class FilterPlan:
    """The outcome of a filter for each row group of a file.

    Parameters
    ----------
    filter_ : Filter
    compared : mapping
        The column that is compared for each name in the filter.
    tail : Tail
    columns : Columns
    """

    def __init__(self, filter_: Filter, compared: Mapping[str, FilterColumn], tail: Tail, columns: Columns) -> None:
        self._compared = compared
        names = list(dict.fromkeys(name for column in compared.values() for name in column.stored))
        #: The columns that are read to filter rows.
        self.projection = columns.project(names)
        stored = dict(zip(names, self.projection.schema.types, strict=True))
        types = {name: stored[c.stored[0]] if c.type is None else c.type for name, c in compared.items()}
        self._filter = fit_values(filter_, types)
        positions = dict(zip(names, columns.find(names), strict=True))
        wanted, groups = set(positions.values()), range(tail.index.num_row_groups)
        records = [{record.column: record for record in tail.statistics(group, wanted)} for group in groups]
        statistics = {
            name: _group_statistics([group.get(positions[c.stored[0]]) for group in records], stored[c.stored[0]], c)
            for name, c in compared.items()
            if c.has_bounds and any(positions[c.stored[0]] in group for group in records)
        }
        self._outcomes = prune(self._filter.tree, statistics, [tail.index.rows(group) for group in groups])

    def rules_out(self, group: int) -> bool:
        """Whether no row of the group can match."""
        return self._outcomes[group] is Outcome.NONE

    def takes_all(self, group: int) -> bool:
        """Whether every row of the group matches, so that its rows need no filtering."""
        return self._outcomes[group] is Outcome.ALL

    def matching_rows(self, batch: pa.RecordBatch) -> pa.UInt64Array:
        """The indices of the rows that match in a batch of `projection`."""
        arrays = [column.convert(*map(batch.column, column.stored)) for column in self._compared.values()]
        if arrays:
            batch = pa.RecordBatch.from_arrays(arrays, names=list(self._compared))
        return pc.indices_nonzero(match_mask(batch, self._filter))


def _group_statistics(
    records: list[StatisticsRecord | None], type_: pa.DataType, column: FilterColumn
) -> GroupStatistics:
    """The statistics of one column; of a row group without a record they are unknown."""
    unknown = StatisticsRecord(0, 0, None, None)
    lows, highs = zip(*[(record or unknown).bounds(type_) for record in records], strict=True)
    nulls = pa.array([None if record is None else record.null_count for record in records], pa.int64())
    return GroupStatistics(nulls, *(column.convert(pa.array(bounds, type_)) for bounds in (lows, highs)))
