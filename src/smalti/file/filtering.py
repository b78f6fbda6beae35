"""A filter applied to one file: statistics rule out row groups, and the rows of the others are filtered.

Imported only when there is a filter: Arrow's compute functions take longer to load than many reads take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from smalti.file.tail import Tail
from smalti.format.statistics import raw_value, to_scalar
from smalti.predicate import GroupStatistics, Outcome, filter_batch, normalize_filters, prune


class FilterPlan:
    """What a filter means for each row group.

    Parameters
    ----------
    filters : whatever `normalize_filters` takes
    tail : Tail
    find : callable
        From names to sorted indices; raises for unknown columns.
    """

    def __init__(self, filters: object, tail: Tail, find: Callable[[Sequence[str]], list[int]]) -> None:
        self._filter = normalize_filters(filters)
        self.columns = self._filter.columns
        positions = find(self.columns)
        groups = range(tail.index.num_row_groups)
        wanted = set(positions)
        records = [{record[0]: record for record in tail.index.statistics(group, wanted)} for group in groups]
        statistics = {
            name: _group_statistics(tail, position, name, [record.get(position) for record in records])
            for name, position in zip(self.columns, positions, strict=True)
            if any(position in record for record in records)
        }
        self._outcomes = prune(self._filter.tree, statistics, [tail.index.rows(group) for group in groups])

    def rules_out(self, group: int) -> bool:
        """Whether no row of the group can match."""
        return self._outcomes[group] is Outcome.NONE

    def takes_all(self, group: int) -> bool:
        """Whether every row of the group matches, so that nothing need be filtered."""
        return self._outcomes[group] is Outcome.ALL

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match."""
        return filter_batch(batch, self._filter)


def _group_statistics(tail: Tail, position: int, name: str, records: list[Any]) -> GroupStatistics:
    type_ = pa.Schema._import_from_c_capsule(tail.schema.arrow_schema([position], [name])).field(0).type
    type_id, _, precision, _ = tail.schema.descriptor(position)

    def bounds(which: int) -> pa.Array:
        scalars = []
        for record in records:
            raw = None if record is None or record[which] is None else raw_value(type_id, precision, record[which])
            scalars.append(to_scalar(raw, type_))
        return _array(scalars, type_)

    nulls = pa.array([None if record is None else record[1] for record in records], pa.int64())
    return GroupStatistics(nulls, bounds(2), bounds(3))


def _array(scalars: list[pa.Scalar], type_: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.repeat(scalar, 1) if scalar.is_valid else pa.nulls(1, type_) for scalar in scalars])
