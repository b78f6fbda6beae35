"""The row group that a writer is filling: slices of batches, gathered until it is full in bytes or in rows."""

from __future__ import annotations

import pyarrow as pa

from smalti._core.input import Feeds, InputBatch
from smalti._core.physical import PhysicalColumns
from smalti.file.layout_choice import row_group_bytes
from smalti.options import WriterOptions
from smalti.spec import MAX_ROW_GROUP_SIZE, MAX_UNBACKED_ROWS

#: A batch, the first of some of its rows, and their number.
Slice = tuple[InputBatch, int, int]


class OpenRowGroup:
    """Rows of all columns (`nodes`, at `positions` of the batches) that wait to be written."""

    def __init__(self, nodes: PhysicalColumns, positions: list[int], options: WriterOptions) -> None:
        self._nodes = nodes
        self._positions = positions
        wanted = options.row_group_max_bytes or row_group_bytes(len(positions))
        self._max_bytes = min(wanted, MAX_ROW_GROUP_SIZE)
        self._max_rows = min(options.row_group_max_rows or MAX_UNBACKED_ROWS, MAX_UNBACKED_ROWS)
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self.slices: list[Slice] = []
        self.num_rows = 0
        self.num_bytes = 0
        self._num_kept = 0

    @property
    def is_full(self) -> bool:
        return self.num_bytes >= self._max_bytes or self.num_rows >= self._max_rows

    def take(self, batch: InputBatch, start: int) -> int:
        """Add as many rows from `start` on as fit, at least one if there are none yet; return their number."""
        rows = min(batch.num_rows - start, self._max_rows - self.num_rows)
        room = self._max_bytes - self.num_bytes
        while (size := self._measure(batch, start, rows)) > room:
            if rows == 1:
                if self.num_rows:
                    return 0
                break
            # Rows are alike more often than not: aim a little below what their average suggests.
            rows = max(1, min(rows - 1, rows * room * 31 // (size * 32)))
        self.slices.append((batch, start, rows))
        self.num_rows += rows
        self.num_bytes += size
        return rows

    def _measure(self, batch: InputBatch, start: int, rows: int) -> int:
        return Feeds(self._nodes, self._positions, [(batch, start, rows)]).measure()

    def keep(self, copy: bool) -> None:
        """Prepare the rows that were added since the last call for staying; `copy` says whether they are borrowed."""
        if copy:
            self.slices[self._num_kept :] = [_copied(piece) for piece in self.slices[self._num_kept :]]
        self._num_kept = len(self.slices)


def _copied(piece: Slice) -> Slice:
    """The same rows in memory that no one else can change."""
    batch, start, num_rows = piece
    rows = batch.batch.slice(start, num_rows)
    return InputBatch(pa.ipc.read_record_batch(rows.serialize(), rows.schema)), 0, num_rows
