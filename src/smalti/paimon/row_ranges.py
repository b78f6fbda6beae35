"""Rows of Mosaic files that pypaimon asks for by their positions, as its index searches and its PyTorch dataset do.

pypaimon 2.1 hands positions to the readers of Vortex, Lance and others, and not to the one of Mosaic files: of these it
reads all rows and drops most of them, one by one, in Python. While smalti is inside, wanted rows are read by number.
"""

from __future__ import annotations

from typing import Any

from pypaimon.read.reader.data_file_batch_reader import DataFileBatchReader
from pypaimon.read.reader.format_mosaic_reader import FormatMosaicReader
from pypaimon.read.reader.row_range_filter_record_reader import RowIdFilterRecordBatchReader
from pypaimon.utils.range import Range

from smalti.paimon import mosaic


class RowRangeReader(RowIdFilterRecordBatchReader):  # type: ignore[misc]
    """Takes the place of pypaimon's filter of row positions, and filters as it does where it cannot select rows."""

    def __init__(self, reader: Any, first_row_id: int, row_id_ranges: list[Range]) -> None:
        super().__init__(reader, first_row_id, row_id_ranges)
        selected = _selectable(reader)
        self._is_selected = selected is not None
        if selected is not None:
            ranges = Range.sort_and_merge_overlap(row_id_ranges, True)
            rows = [row - first_row_id for each in ranges for row in range(each.from_, each.to + 1)]
            kept = selected.select_rows(rows)
            reader.row_id_offsets = kept  # pypaimon numbers the rows by these.

    def read_arrow_batch(self) -> Any:
        if not self._is_selected:
            return super().read_arrow_batch()
        batch = self.reader.read_arrow_batch()
        self._refresh_blob_view_lookup(self.reader)
        return batch


def _selectable(reader: Any) -> mosaic.MosaicReader | None:
    """The reader of a Mosaic file of which nothing was read, and whose rows no predicate drops."""
    if type(reader) is not DataFileBatchReader or type(reader.format_reader) is not FormatMosaicReader:
        return None
    found = reader.format_reader
    is_plain = found._predicate is None and found._row_group_predicate is None and found._current_rg == 0
    is_ours = isinstance(found._reader, mosaic.MosaicReader) and reader.row_id_offsets is None
    return found._reader if is_plain and is_ours else None
