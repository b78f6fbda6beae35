"""The rows of a file or table in blocks, which are read in any order: row groups, or what else is read at once.

Blocks are what a loader keeps for as long as it runs: the files that were listed, and no others.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from smalti._core.allowance import Allowance
from smalti.errors import ReplacedError
from smalti.memory import chosen_limit
from smalti.mosaic.scan import estimate_bytes
from smalti.readahead import Budget

if TYPE_CHECKING:
    from smalti.file.reader import MosaicFile


class RowBlocks(ABC):
    """Columns of a file or table, in blocks of rows in the order of the table. Can be pickled.

    Attributes
    ----------
    schema : pyarrow.Schema
    counts : sequence of int
        The rows of each block.
    sizes : sequence of int
        About how many bytes each block takes in memory.
    identity : str
        Tells this table from another one, also on another machine.
    budget : Budget
        How many blocks are worth reading at the same time.
    memory_limit : int, optional
        Bytes that everything which is read and kept may take together, if the user has set a limit.
    """

    schema: pa.Schema
    counts: Sequence[int]
    sizes: Sequence[int]
    identity: str
    budget: Budget
    memory_limit: int | None

    def allowance(self) -> Allowance:
        """The memory for everything that is read and kept."""
        return Allowance(chosen_limit(self.memory_limit))

    @abstractmethod
    def read(self, block: int, rows: range | None, kept: Allowance) -> pa.Table:
        """Read a block, or some of its rows, which count in `kept`. Several threads may call it."""

    @abstractmethod
    def take(self, indices: Any) -> pa.Table:
        """Read rows by their number in the table, see `Scannable.take`."""

    def close(self) -> None:
        """Close what was opened for reading."""
        return


def identity_of(parts: Iterable[tuple[str, int, Sequence[int]]]) -> str:
    """A short text for files: their names, their sizes, and the rows of their row groups."""
    digest = hashlib.sha256()
    for name, size, counts in parts:
        digest.update(json.dumps([name, size, list(counts)]).encode())
    return digest.hexdigest()[:24]


def block_sizes(file: MosaicFile, columns: Sequence[str] | None) -> tuple[list[int], list[int]]:
    """The rows of each row group, and about how many bytes some columns of it take in memory."""
    stored, tail = file._project(columns).stored, file._tail
    groups = range(file.num_row_groups)
    return list(map(tail.index.rows, groups)), [estimate_bytes(tail, stored, group).decoded for group in groups]


class FileBlocks(RowBlocks):
    """The row groups of one file, which stays open."""

    def __init__(self, file: MosaicFile, columns: Sequence[str] | None, budget: Budget) -> None:
        self._file = file
        self._columns = columns
        self.schema = file.scan(columns).schema
        self.counts, self.sizes = block_sizes(file, columns)
        self.identity = self._identity()
        self.budget, self.memory_limit = budget, file._memory_limit

    def _identity(self) -> str:
        source = self._file._source
        name = (source.name or "").rpartition("/")[2]
        return identity_of([(name, source.size, [row_group.num_rows for row_group in self._groups()])])

    def _groups(self) -> Iterable[Any]:
        return map(self._file.row_group, range(self._file.num_row_groups))

    def read(self, block: int, rows: range | None, kept: Allowance) -> pa.Table:
        if rows is not None:
            start = self._file._row_starts[block]
            rows = range(start + rows.start, start + rows.stop)
        return self._file._scan_table(self._file._scan_of(self._columns, None, [block], rows=rows), kept)

    def take(self, indices: Any) -> pa.Table:
        return self._file.take(indices, self._columns)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The file was opened again, and has to be the same."""
        vars(self).update(state)
        if self._identity() != self.identity:
            reason = "the file was replaced after it was opened; open it again"
            raise ReplacedError(reason, path=self._file._source.name)
