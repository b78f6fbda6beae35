"""The row groups of a table as blocks, which are read in any order: those of the files that a listing has found."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.file.blocks import RowBlocks, block_sizes, identity_of
from smalti.file.reader import MosaicFile
from smalti.file.taking import in_order_of
from smalti.memory import most_memory
from smalti.mosaic.rows import parse_indices, plan_take, split_rows
from smalti.table.planning import ReadPlan
from smalti.table.reading import choose_columns, plan_file
from smalti.table.snapshot import OpenFiles, Snapshot

#: Files that stay open between reads: enough for the row groups that are mixed at a time.
_MAX_OPEN = 64


class TableBlocks(RowBlocks):
    """Row groups of the files of a snapshot. Files are opened when they are read; the last ones stay open.

    A file that was replaced since the table was listed is refused, so that rows of two states are never mixed.
    """

    def __init__(self, table: Snapshot, plan: ReadPlan, opened: OpenFiles) -> None:
        self._table, self._plan = table, plan
        self.schema, self.budget = plan.output, table.budget
        names = [name for name in plan.asked if name not in table.partitions.names]
        found: dict[int, tuple[list[int], list[int]]] = {}

        def ask(file: MosaicFile) -> tuple[list[int], list[int]]:
            return block_sizes(file, file.columns.whole(file.columns.present(names)))

        for index, (_, answer) in enumerate(table.visit(plan.files, ask, opened)):
            found[index] = answer
        self._blocks = [(index, group) for index, (counts, _) in found.items() for group in range(len(counts))]
        self.counts = [rows for counts, _ in found.values() for rows in counts]
        self.sizes = [size for _, sizes in found.values() for size in sizes]
        named = zip(plan.files, (counts for counts, _ in found.values()), strict=True)
        self.identity = identity_of((PurePosixPath(file.name).name, file.size, counts) for file, counts in named)
        self._starts = [0]
        for counts, _ in found.values():
            self._starts.append(self._starts[-1] + sum(counts))
        self._open: OrderedDict[int, MosaicFile] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, block: int, rows: range | None = None) -> pa.Table:
        index, group = self._blocks[block]
        opened = self._file(index)
        if rows is not None:
            start = opened._row_starts[group]
            rows = range(start + rows.start, start + rows.stop)
        return self._read(index, Allowance(most_memory()), row_groups=[group], rows=rows)

    def _read(self, index: int, kept: Allowance, **which: Any) -> pa.Table:
        opened, file = self._file(index), self._plan.files[index]
        constants = self._table.constants_of(file)
        read = plan_file(self._plan, choose_columns(self._plan, opened), constants)
        batches = []
        for unit in opened.units(read.columns, None, kept, **which):
            batches += [batch if read.finish is None else read.finish(batch, kept) for batch in unit.run()]
        return pa.Table.from_batches(batches, self.schema)

    def take(self, indices: Any) -> pa.Table:
        kept = Allowance(most_memory())
        wanted = plan_take(parse_indices(indices, self._starts[-1]))
        parts = [self._read(index, kept, rows=rows) for index, rows in split_rows(wanted.rows, self._starts)]
        return in_order_of(wanted, pa.concat_tables(parts or [self.schema.empty_table()]), kept)

    def _file(self, index: int) -> MosaicFile:
        opened = self._open.get(index) or self._table.open(self._plan.files[index])
        with self._lock:
            opened = self._open.setdefault(index, opened)  # Another thread may have been faster.
            self._open.move_to_end(index)
            while len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)  # It is closed with its last reader.
        return opened

    def close(self) -> None:
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def __getstate__(self) -> dict[str, Any]:
        """Files are opened again where the blocks arrive."""
        return {name: value for name, value in vars(self).items() if name not in ("_open", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _open=OrderedDict(), _lock=threading.Lock())
