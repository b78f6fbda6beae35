"""What pypaimon imports as `mosaic`, over smalti: of paimon-mosaic's names those that pypaimon asks for.

`smalti.paimon.install` puts this module under that name. Nothing here is meant to be imported by anyone else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

import smalti
from smalti.errors import UnsupportedFeatureError
from smalti.format.statistics import ColumnStatistics
from smalti.jobs.change_task import one_batch
from smalti.logical.mapping import PROCESS_SCHEMAS, ColumnMapping
from smalti.logical.types import is_legacy_timestamp
from smalti.mosaic.rows import split_rows

#: paimon-mosaic, if it is installed; `smalti.paimon.engine` puts it here.
replaced: ModuleType | None = None


def __getattr__(name: str) -> Any:
    """What pypaimon does not ask for is for programs that use paimon-mosaic themselves, beside pypaimon."""
    if replaced is None:
        raise AttributeError(f"module 'mosaic' of smalti has no {name!r}, and paimon-mosaic is not installed")
    return getattr(replaced, name)


def refuse_rows(schema: pa.Schema) -> None:
    """Raise if there are structs: smalti would store them, and other readers of the table could not read them."""
    for field in schema:
        if _has_struct(field.type):
            raise UnsupportedFeatureError(
                "other readers of a Paimon table know no ROW columns in Mosaic files; choose another file.format",
                column=field.name,
                found=str(field.type),
            )


def _has_struct(type_: pa.DataType) -> bool:
    if pt.is_struct(type_):
        return not is_legacy_timestamp(type_)
    if pt.is_map(type_):  # Arrow has the entries of a map as structs.
        return _has_struct(type_.key_type) or _has_struct(type_.item_type)
    return any(_has_struct(type_.field(index).type) for index in range(type_.num_fields))


def WriterOptions(
    zstd_level: int = 1, num_buckets: int = 0, row_group_max_size: int = 256 << 20, stats_columns: Sequence[str] = ()
) -> smalti.WriterOptions:
    """Options under paimon-mosaic's names. Values that equal its defaults are left to smalti's choice."""
    return smalti.WriterOptions(
        compression_level=zstd_level,
        num_buckets=num_buckets or None,
        row_group_max_bytes=None if row_group_max_size == 256 << 20 else row_group_max_size,
        stats_columns=tuple(stats_columns),
    )


def write_table(table: pa.Table, stream: Any, options: smalti.WriterOptions | None = None) -> None:
    """Write to an open stream, which stays open."""
    refuse_rows(table.schema)
    with smalti.MosaicWriter(stream, table.schema, options) as writer:
        writer.write(table)


class _Name(NamedTuple):
    """All that pypaimon asks of a field when it finds out which columns a file has."""

    name: str


@lru_cache(maxsize=1)
def names_of(columns: ColumnMapping) -> list[_Name]:
    """The names of the columns of a file; files of a table mostly have the same."""
    return [_Name(name) for name in columns.names]


class MosaicReader:
    """Reads the row groups of a file, all columns or those that were projected."""

    def __init__(self, file: smalti.MosaicFile) -> None:
        self._file = file
        self._columns: list[str] | None = None
        #: The rows of each row group that are wanted, by number in the file; None for all.
        self._rows: dict[int, Any] | None = None

    @staticmethod
    def from_input_file(read_at_fn: Callable[[int, int], Any], file_length: int) -> MosaicReader:
        return MosaicReader(smalti.MosaicFile(smalti.ReadAt(read_at_fn, file_length), PROCESS_SCHEMAS))

    @property
    def schema(self) -> list[_Name]:
        """The names only, because building 10,000 fields takes long."""
        return names_of(self._file.columns)

    @property
    def num_row_groups(self) -> int:
        return self._file.num_row_groups

    def project(self, columns: Sequence[str]) -> None:
        self._file.schema_of(columns)  # refuses a column that is not there
        self._columns = list(dict.fromkeys(columns))

    def select_rows(self, rows: Sequence[int]) -> list[int]:
        """Read only rows with these numbers, in ascending order, from now on. Return those that the file has."""
        kept = [row for row in rows if 0 <= row < self._file.num_rows]
        self._rows = dict(split_rows(pa.array(kept, pa.int64()), self._file._row_starts))
        return kept

    def read_row_group(self, rg_index: int) -> pa.RecordBatch:
        if self._rows is None:
            # Not by `iter_batches`, which cuts a large row group and has no batch for one without rows.
            table = self._file.read(self._columns, row_groups=[rg_index])
        else:
            start = self._file._row_starts[rg_index]
            wanted = [start + row for row in self._rows[rg_index].to_pylist()] if rg_index in self._rows else []
            table = self._file.take(wanted, self._columns)
        return one_batch(table)

    def row_group_num_rows(self, rg_index: int) -> int:
        return self._file.row_group(rg_index).num_rows

    def get_row_group_statistics(self, rg_index: int) -> dict[str, ColumnStatistics]:
        return self._file.row_group(rg_index).raw_statistics
