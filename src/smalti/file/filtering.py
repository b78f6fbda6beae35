"""A filter applied to one file: which row groups statistics rule out, and which rows of the others match.

Imported only when there is a filter: loading Arrow's compute functions takes longer than many reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from smalti.file.tail import Tail
from smalti.format.statistics import StatisticsRecord
from smalti.predicate import GroupStatistics, Outcome, match_mask, normalize_filters, prune
from smalti.predicate.python import AnyFilter


class FilterPlan:
    """What a filter means for each row group.

    Parameters
    ----------
    filters : whatever `normalize_filters` takes
    tail : Tail
    find : callable
        From names to sorted indices; raises for unknown columns.
    """

    def __init__(self, filters: AnyFilter, tail: Tail, find: Callable[[Sequence[str]], list[int]]) -> None:
        self._filter = normalize_filters(filters)
        self.columns = self._filter.columns
        positions = find(self.columns)
        types = tail.arrow_schema(positions, list(self.columns)).types
        groups = range(tail.index.num_row_groups)
        records = [{record.column: record for record in tail.statistics(group, set(positions))} for group in groups]
        statistics = {
            name: _group_statistics([group.get(position) for group in records], type_)
            for name, position, type_ in zip(self.columns, positions, types, strict=True)
            if any(position in group for group in records)
        }
        self._outcomes = prune(self._filter.tree, statistics, [tail.index.rows(group) for group in groups])

    def rules_out(self, group: int) -> bool:
        """Whether no row of the group can match."""
        return self._outcomes[group] is Outcome.NONE

    def takes_all(self, group: int) -> bool:
        """Whether every row of the group matches, so that its rows need no filtering."""
        return self._outcomes[group] is Outcome.ALL

    def matching_rows(self, batch: pa.RecordBatch, first: int = 0) -> pa.UInt64Array:
        """The numbers of the rows that match, in a batch of the columns of the filter whose rows begin with `first`."""
        rows = pc.indices_nonzero(match_mask(batch, self._filter))
        return pc.add(rows, pa.scalar(first, pa.uint64())) if first else rows


def _group_statistics(records: list[StatisticsRecord | None], type_: pa.DataType) -> GroupStatistics:
    """The statistics of one column; a row group without a record has unknown ones."""
    unknown = StatisticsRecord(0, 0, None, None)
    lows, highs = zip(*[(record or unknown).bounds(type_) for record in records], strict=True)
    nulls = pa.array([None if record is None else record.null_count for record in records], pa.int64())
    return GroupStatistics(nulls, pa.array(lows, type_), pa.array(highs, type_))
