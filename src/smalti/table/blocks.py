"""The row groups of a table as blocks, which are read in any order: those of the files that a listing has found."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from smalti._compat.arrow import empty_table
from smalti._core.allowance import Allowance
from smalti.file.blocks import RowBlocks, block_sizes, identity_of
from smalti.file.reader import MosaicFile
from smalti.file.taking import in_order_of
from smalti.memory import allocation_errors
from smalti.mosaic.rows import Taken, split_rows
from smalti.table.planning import ReadPlan
from smalti.table.reading import choose_columns, plan_file
from smalti.table.snapshot import Snapshot

#: Files that stay open between reads: enough for the row groups that are mixed at a time.
_MAX_OPEN = 64


def _open(table: Snapshot, plan: ReadPlan, index: int) -> MosaicFile:
    return table.open(plan.files[index])


class TableBlocks(RowBlocks):
    """Row groups of the files of a snapshot. Files are opened when they are read; the last ones stay open.

    A file that was replaced since the table was listed is refused, so that rows of two states are never mixed.
    """

    def __init__(self, table: Snapshot, plan: ReadPlan) -> None:
        self._table, self._plan = table, plan
        self.schema, self.budget, self.memory_limit = plan.output, table.budget, table.settings.memory_limit
        names = [name for name in plan.asked if name not in table.partitions.names]

        def ask(file: MosaicFile) -> tuple[list[int], list[int]]:
            return block_sizes(file, file.columns.whole(file.columns.present(names)))

        found = [answer for _, answer in table.visit(plan.files, ask)]
        self._blocks = [(index, group) for index, (counts, _) in enumerate(found) for group in range(len(counts))]
        self.counts = [rows for counts, _ in found for rows in counts]
        self.sizes = [size for _, sizes in found for size in sizes]
        named = zip(plan.files, found, strict=True)
        self.identity = identity_of((PurePosixPath(file.name).name, file.size, counts) for file, (counts, _) in named)
        self._starts = [0, *accumulate(sum(counts) for counts, _ in found)]
        self._forget_files()

    def _forget_files(self) -> None:
        # A file that leaves the cache is closed when its last reader is done with it.
        self._file = lru_cache(_MAX_OPEN)(partial(_open, self._table, self._plan))

    def read(self, block: int, rows: range | None, kept: Allowance) -> pa.Table:
        index, group = self._blocks[block]
        if rows is not None:
            start = self._file(index)._row_starts[group]
            rows = range(start + rows.start, start + rows.stop)
        return self._read(index, kept, row_groups=[group], rows=rows)

    def _read(self, index: int, kept: Allowance, **which: Any) -> pa.Table:
        opened, file = self._file(index), self._plan.files[index]
        constants = self._table.constants_of(file)
        read = plan_file(self._plan, choose_columns(self._plan, opened.columns), constants)
        batches = []
        for unit in opened.units(read.columns, None, kept, **which):
            batches += [batch if read.finish is None else read.finish(batch, kept) for batch in unit.run()]
        return pa.Table.from_batches(batches, self.schema)

    def take(self, indices: Any) -> pa.Table:
        kept, taken = self.allowance(), Taken(indices)
        wanted = split_rows(taken.among(self._starts[-1]), self._starts)
        with allocation_errors():
            parts = [self._read(index, kept, rows=rows) for index, rows in wanted]
            return in_order_of(taken, pa.concat_tables(parts or [empty_table(self.schema)]), kept)

    def close(self) -> None:
        self._file.cache_clear()

    def __getstate__(self) -> dict[str, Any]:
        """Files are opened again where the blocks arrive."""
        return {name: value for name, value in vars(self).items() if name != "_file"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_files()
