"""Streams from Paimon tables: a batch has the rows that commits have appended since the batch before."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.paimon.changes import appended, last_of_batch, latest_snapshot, refuse_stream
from smalti.spark.driver.offsets import Offset
from smalti.spark.options import ReadOptions
from smalti.spark.paimon import SnapshotTable
from smalti.table.splits import Piece


class SnapshotStream:
    """Reads what is appended to a table. An offset is the id of the last snapshot that was read; 0 before the first.

    The first batch has all rows of the newest snapshot.
    """

    def __init__(self, options: ReadOptions) -> None:
        if (options.snapshot_id or options.tag_name or options.timestamp) is not None:
            raise MosaicError(
                "a stream begins with the newest snapshot: snapshotId, tagName and timestamp are for batches",
                path=options.paths[0],
            )
        self._table = SnapshotTable(options)
        refuse_stream(self._table.table.table)

    def first_offset(self) -> Offset:
        return {"snapshot": 0}

    def available(self) -> int:
        """The id of the newest snapshot."""
        return latest_snapshot(self._table.table.table)

    def next_offset(self, start: Offset, available: int | None, max_files: int | None) -> Offset:
        latest = self.available() if available is None else available
        return {"snapshot": last_of_batch(self._table.table.table, start["snapshot"], latest, max_files)}

    def splits(self, schema: pa.Schema, start: Offset, end: Offset) -> Sequence[tuple[Piece, ...]]:  # noqa: ARG002
        return self._table.tasks(appended(self._table.table, start["snapshot"], end["snapshot"]))
