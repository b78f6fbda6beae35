"""The row group that a writer is filling: how large it may become, and the rows it has so far."""

from __future__ import annotations

import pyarrow as pa

from smalti._core.input import Feeds, InputBatch
from smalti._core.physical import PhysicalColumns
from smalti.errors import SchemaError
from smalti.mosaic.layout_choice import ROW_GROUP_ROWS, row_group_bytes
from smalti.options import WriterOptions
from smalti.spec import MAX_ROW_GROUP_SIZE, MAX_UNBACKED_ROWS

#: A batch, the first of some of its rows, and their number.
Slice = tuple[InputBatch, int, int]


class OpenRowGroup:
    """The row group that is being filled: slices of batches, until it is full in bytes or in rows."""

    def __init__(self, physical: PhysicalColumns, indices: list[int], options: WriterOptions) -> None:
        self._physical = physical
        self.indices = indices
        wanted = options.row_group_max_bytes or row_group_bytes(len(indices))
        self._max_bytes = min(wanted, MAX_ROW_GROUP_SIZE)
        # A layout that is asked for is the reference's, which does not count rows.
        default = MAX_UNBACKED_ROWS if options.is_layout_given else ROW_GROUP_ROWS
        self._max_rows = min(options.row_group_max_rows or default, MAX_UNBACKED_ROWS)
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self.slices: list[Slice] = []
        self.num_rows = 0
        self.num_bytes = 0
        self._num_owned = 0

    @property
    def is_full(self) -> bool:
        return self.num_bytes >= self._max_bytes or self.num_rows >= self._max_rows

    def take(self, batch: InputBatch, start: int, whole: Feeds | None = None) -> int:
        """Add the rows from `start` that fit, at least one to an empty row group; return their number.

        `whole` are the columns of all rows of the batch, if they are at hand.
        """
        rows = min(batch.num_rows - start, self._max_rows - self.num_rows)
        left = self._max_bytes - self.num_bytes
        feeds = whole if rows == batch.num_rows else None
        while (size := (feeds or Feeds(self._physical, self.indices, [(batch, start, rows)])).measure()) > left:
            feeds = None
            if rows == 1:
                if self.num_rows:
                    return 0
                if size > MAX_ROW_GROUP_SIZE:
                    raise SchemaError(
                        "a row is larger than a row group may be",
                        row=start,
                        found=f"{size:,} bytes",
                        expected=f"{MAX_ROW_GROUP_SIZE:,} at most",
                    )
                break
            # Rows are alike more often than not: aim a little below the number that their average suggests.
            rows = max(1, min(rows - 1, rows * left * 31 // (size * 32)))
        self.slices.append((batch, start, rows))
        self.num_rows += rows
        self.num_bytes += size
        return rows

    def own(self, copy: bool) -> None:
        """Take ownership of the slices added since the last call; copy them if the caller may change their buffers."""
        if copy:
            self.slices[self._num_owned :] = [_copied(piece) for piece in self.slices[self._num_owned :]]
        self._num_owned = len(self.slices)


def _copied(piece: Slice) -> Slice:
    """The same rows in memory that no one else can change."""
    batch, start, num_rows = piece
    rows = batch.batch.slice(start, num_rows)
    if not batch.has_dictionaries():
        return InputBatch(pa.ipc.read_record_batch(rows.serialize(), rows.schema)), 0, num_rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:  # which has the values of dictionaries, too
        stream.write_batch(rows)
    return InputBatch(pa.ipc.open_stream(sink.getvalue()).read_next_batch()), 0, num_rows
