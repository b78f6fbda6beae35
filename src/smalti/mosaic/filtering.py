"""A filter applied to one file: which row groups statistics rule out, and which rows of the others match.

Imported only when there is a filter: loading Arrow's compute functions takes longer than many reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from smalti.format.statistics import StatisticsRecord
from smalti.logical.arrays import from_stored, misfit
from smalti.mosaic.columns import Columns, FilterColumn
from smalti.mosaic.tail import Tail
from smalti.predicate import GroupStatistics, Outcome, fit_values, match_mask, normalize_filters, prune
from smalti.predicate.python import AnyFilter


class FilterPlan:
    """What a filter means for each row group.

    Parameters
    ----------
    filters : whatever `normalize_filters` takes
    tail : Tail
    compared : callable
        From names to what is compared for them; raises for unknown columns.
    columns : Columns
    """

    def __init__(
        self,
        filters: AnyFilter,
        tail: Tail,
        compared: Callable[[Sequence[str]], list[FilterColumn]],
        columns: Columns,
    ) -> None:
        self._filter = normalize_filters(filters)
        columns.refuse_ambiguous(self._filter.nested)
        self._compared = dict(zip(self._filter.columns, compared(self._filter.columns), strict=True))
        #: What is read to filter rows.
        self.projection = columns.filter_projection(list(self._compared.values()))
        stored = dict(zip(self.projection.schema.names, self.projection.schema.types, strict=True))
        types = {
            # Of a struct nothing can be compared, but whether it is null.
            name: pa.struct([]) if column.is_presence else column.type or stored[column.stored]
            for name, column in self._compared.items()
        }
        self._filter = fit_values(self._filter, types)
        places = dict(zip(stored, columns.find(list(stored)), strict=True))
        wanted, groups = set(places.values()), range(tail.index.num_row_groups)
        records = [{record.column: record for record in tail.statistics(group, wanted)} for group in groups]
        statistics = {
            name: _group_statistics([group.get(places[column.stored]) for group in records], stored, column)
            for name, column in self._compared.items()
            if not column.is_presence and any(places[column.stored] in group for group in records)
        }
        self._outcomes = prune(self._filter.tree, statistics, [tail.index.rows(group) for group in groups])

    def rules_out(self, group: int) -> bool:
        """Whether no row of the group can match."""
        return self._outcomes[group] is Outcome.NONE

    def takes_all(self, group: int) -> bool:
        """Whether every row of the group matches, so that its rows need no filtering."""
        return self._outcomes[group] is Outcome.ALL

    def matching_rows(self, batch: pa.RecordBatch, first: int = 0) -> pa.UInt64Array:
        """The numbers of the rows that match, in a batch of `projection` whose rows begin with `first`."""
        arrays = [_as_compared(batch.column(column.stored), column) for column in self._compared.values()]
        if arrays:
            batch = pa.RecordBatch.from_arrays(arrays, names=list(self._compared))
        rows = pc.indices_nonzero(match_mask(batch, self._filter))
        return pc.add(rows, pa.scalar(first, pa.uint64())) if first else rows


def _as_compared(array: pa.Array, column: FilterColumn) -> pa.Array:
    if column.is_presence:
        array = pc.if_else(array, array, pa.scalar(None, pa.bool_()))
    elif column.type is not None:
        try:
            array = from_stored(array, column.type)
        except (pa.ArrowException, ValueError) as error:
            raise misfit(column.stored, error) from None
    return array


def _group_statistics(
    records: list[StatisticsRecord | None], stored: Mapping[str, pa.DataType], column: FilterColumn
) -> GroupStatistics:
    """The statistics of one column; a row group without a record has unknown ones."""
    type_ = stored[column.stored]
    unknown = StatisticsRecord(0, 0, None, None)
    lows, highs = zip(*[(record or unknown).bounds(type_) for record in records], strict=True)
    nulls = pa.array([None if record is None else record.null_count for record in records], pa.int64())
    bounds = [_as_compared(pa.array(values, type_), column) for values in (lows, highs)]
    return GroupStatistics(nulls, *bounds)
