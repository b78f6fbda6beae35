"""Streams from Paimon tables: a batch has the rows that commits have appended since the batch before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles
from pyspark.sql.types import StructType

from smalti.errors import MosaicError
from smalti.paimon.changes import appended, last_of_batch, latest_snapshot, refuse_stream
from smalti.spark.options import ReadOptions
from smalti.spark.paimon import SnapshotTable
from smalti.spark.stream import MosaicStreamReader

Offset = dict[str, Any]


class SnapshotStreamReader(MosaicStreamReader):
    """Reads what is appended to a table. An offset is the id of the last snapshot that was read; 0 before the first.

    The first batch has all rows of the newest snapshot.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if (options.snapshot_id or options.tag_name or options.timestamp) is not None:
            raise MosaicError(
                "a stream begins with the newest snapshot: snapshotId, tagName and timestamp are for batches",
                path=options.paths[0],
            )
        refuse_stream(SnapshotTable(options).table.table)
        #: With Trigger.AvailableNow: the snapshot that was the newest at the start.
        self._last: int | None = None

    def initialOffset(self) -> Offset:
        return {"snapshot": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = latest_snapshot(SnapshotTable(self._options).table.table)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        table = SnapshotTable(self._options).table.table
        latest = latest_snapshot(table) if self._last is None else self._last
        max_files = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return {"snapshot": last_of_batch(table, start["snapshot"], latest, max_files)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        table = SnapshotTable(self._options)
        return [InputPartition(task) for task in table.tasks(appended(table.table, start["snapshot"], end["snapshot"]))]
