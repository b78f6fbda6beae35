"""Streams from plain directories: each new file becomes rows once. `spark.paimon` has those from Paimon tables.

Nothing is kept between two questions: offsets are in Spark's checkpoint, and Java passes back what was available when
a stream that ends by itself has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.spark.driver.offsets import Offset, added, advance, check_rewritten, first_offset
from smalti.spark.driver.plan import Table, find_table
from smalti.spark.options import ReadOptions
from smalti.table.splits import Piece

if TYPE_CHECKING:
    from smalti.spark.paimon import SnapshotStream


def find_stream(options: ReadOptions) -> DirectoryStream | SnapshotStream:
    """The stream of the table that read options name, as the table is now."""
    table = find_table(options, may_be_empty=True, may_be_missing=True)
    if isinstance(table, Table):
        return DirectoryStream(table)
    from smalti.spark.paimon import SnapshotStream

    return SnapshotStream(table)


class DirectoryStream:
    """Reads files as they appear. An offset says which files have been read; see `offsets`.

    A table that was compacted or changed since then is refused, because its rows would be read again.
    """

    source: None = None

    def __init__(self, table: Table) -> None:
        self.table = table

    def first_offset(self) -> Offset:
        """The offset of a stream that has read nothing."""
        return first_offset()

    def available(self) -> dict[str, int]:
        """What there is now, as JSON has it, for streams that end when they have read that much.

        Here it is when each file was modified, by the name that it keeps once its commit is carried out.
        """
        return {file.name: file.modified for file in self.table.files}

    def next_offset(self, start: Offset, available: Any, max_files: int | None) -> Offset:
        """How far a batch reads that begins at `start`; `available` is None for all that there is now."""
        rewritten = self.table.rewritten
        check_rewritten(start, rewritten)
        end = advance(start, self.available() if available is None else available, max_files)
        return end if end is start or not rewritten else {**end, "rewritten": dict(rewritten)}

    def splits(self, schema: pa.Schema, start: Offset, end: Offset) -> Sequence[tuple[Piece, ...]]:
        """What each task reads between two offsets."""
        names = added(start, end)
        files = {file.name: file for file in self.table.files}
        gone = [name for name in names if name not in files]
        if gone:
            raise MosaicError("files of a batch have gone before they were read", path=gone[0], found=len(gone))
        return self.table.splits(schema, files=[files[name] for name in names])
