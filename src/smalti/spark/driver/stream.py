"""Streams from plain directories: each new file becomes rows once. `spark.paimon` has those from Paimon tables.

Nothing is kept between two questions: offsets are in Spark's checkpoint, and Java passes back what was available when
a stream that ends by itself has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.io import locate
from smalti.spark.driver.offsets import Offset, added, advance, check_rewritten, first_offset
from smalti.spark.driver.plan import Table
from smalti.spark.options import ReadOptions
from smalti.table.paimon_layout import is_paimon_table
from smalti.table.splits import Piece

if TYPE_CHECKING:
    from smalti.spark.paimon import SnapshotStream


def find_stream(options: ReadOptions) -> DirectoryStream | SnapshotStream:
    """The stream that read options name."""
    locations = [locate(path, storage_options=options.storage) for path in options.paths]
    if options.plain or len(locations) > 1 or not is_paimon_table(locations[0]):
        return DirectoryStream(options)
    from smalti.spark.paimon import SnapshotStream

    return SnapshotStream(options)


class DirectoryStream:
    """Reads files as they appear. An offset says which files have been read; see `offsets`.

    A table that was compacted or changed since then is refused, because its rows would be read again.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def first_offset(self) -> Offset:
        """The offset of a stream that has read nothing."""
        return first_offset()

    def available(self) -> dict[str, int]:
        """What there is now, as JSON has it, for streams that end when they have read that much.

        Here it is when each file was modified, by the name that it keeps once its commit is carried out.
        """
        return {file.name: file.modified for file in self._table().files}

    def next_offset(self, start: Offset, available: Any, max_files: int | None) -> Offset:
        """How far a batch reads that begins at `start`; `available` is None for all that there is now."""
        table = self._table()
        check_rewritten(start, table.rewritten)
        listed = {file.name: file.modified for file in table.files} if available is None else available
        end = advance(start, listed, max_files)
        return end if end is start or not table.rewritten else {**end, "rewritten": dict(table.rewritten)}

    def splits(self, schema: pa.Schema, start: Offset, end: Offset) -> Sequence[tuple[Piece, ...]]:
        """What each task reads between two offsets."""
        names = added(start, end)
        if not names:
            return []
        table = self._table()
        files = {file.name: file for file in table.files}
        gone = [name for name in names if name not in files]
        if gone:
            raise MosaicError("files of a batch have gone before they were read", path=gone[0], found=len(gone))
        return table.splits(schema, files=[files[name] for name in names])

    def _table(self) -> Table:
        return Table(self._options, may_be_empty=True, may_be_missing=True)
