"""Paimon tables read in Spark: the driver plans by snapshot, tasks read splits.

`SnapshotTable` stands where `driver.plan.Table` does for a plain directory, and `SnapshotStream` where
`driver.stream.DirectoryStream` does: a batch has the rows that commits have appended since the batch before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import pyarrow as pa

from smalti.errors import MosaicError, SchemaError, UnsupportedFeatureError
from smalti.logical.adapt import Adapter
from smalti.paimon.changes import appended, last_of_batch, latest_snapshot, refuse_stream
from smalti.paimon.dataset import PaimonDataset
from smalti.paimon.split_reader import SplitReader
from smalti.paimon.tables import PaimonTable, open_table
from smalti.predicate import Filter, normalize_filters
from smalti.spark.driver.offsets import Offset
from smalti.spark.filters import filter_tree, without_not_null
from smalti.spark.options import ReadOptions, asked
from smalti.spark.task.read import OwnPiece, TaskScan, to_spark
from smalti.table.listing import FoundFile
from smalti.table.splits import Piece, pack

#: Options that choose files of a directory, or control how their columns are merged.
_OF_DIRECTORIES = (
    *("base_path", "path_glob_filter", "recursive_file_lookup"),
    *("modified_before", "modified_after", "merge_schema"),
)


@dataclass(frozen=True)
class SplitPiece(OwnPiece):
    """A split that pypaimon has planned, as a piece of work for a task; `file` is the first of its files."""

    split: Any = None

    def read(self, scan: TaskScan) -> Iterator[pa.RecordBatch]:
        """The rows of the split, as Spark wants them; some that do not match are left out."""
        table: PaimonTable = scan.source
        names = [name for name in scan.stored.names if name in table.table.field_dict]
        output = table.schema_of(names)
        adapter = Adapter(scan.stored, names, convert=partial(to_spark, table.path))
        wanted = as_filter(output, without_not_null(scan.filters))
        for batch in SplitReader(table, output, wanted, memory_limit=scan.options.memory_limit).batches([self.split]):
            step = scan.options.batch_size or max(1, batch.num_rows)
            for start in range(0, batch.num_rows, step):
                yield adapter.adapt(batch.slice(start, step))


class SnapshotTable:
    """A Paimon table as of the snapshot that read options name; by default the newest when this object is made."""

    def __init__(self, options: ReadOptions) -> None:
        if len(options.paths) != 1:
            raise MosaicError("a Paimon table is read by itself", found=f"{len(options.paths)} paths")
        self.options = options
        (path,) = options.paths
        if refused := asked(options, _OF_DIRECTORIES):
            reason = "a Paimon table is read by its snapshots; options for files go with plain=true, which reads them"
            raise MosaicError(f"{', '.join(refused)}: {reason}", path=path)
        travel = {"snapshot": options.snapshot_id, "tag": options.tag_name, "timestamp": options.timestamp}
        self.table = open_table(path, options.storage, **travel)  # type: ignore[arg-type]
        #: Shared by all tasks; see `SplitPiece`.
        self.source = self.table
        self._dataset = PaimonDataset(self.table)

    @property
    def files(self) -> list[FoundFile]:
        """The data files of the snapshot."""
        return [found_file(file) for split in self._dataset.splits() for file in split.files]

    def schema(self) -> pa.Schema:
        """The columns of the table, or those that the option `columns` names."""
        return self.table.schema_of(self.options.columns)

    def partitions(self) -> pa.Schema:
        """The partition columns."""
        return self.table.schema_of(self.table.table.partition_keys)

    def partition_values(self, schema: pa.Schema) -> list[list[object]]:
        """Spark's catalog does not manage the partitions of a Paimon table."""
        raise UnsupportedFeatureError("partitions of a Paimon table are Paimon's to show", found=schema.names)

    def filterable(self) -> set[str]:
        """The columns by which values that a join has found may rule out files."""
        return set(self.partitions().names)

    def learn_facts(self, most: int | None = None) -> None:
        """Nothing: what Paimon's manifests tell is used in `splits`."""

    @property
    def num_row_groups(self) -> None:
        """None, because it is not known without opening files."""

    def by_row_group(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        return pieces

    def summarize(self, pieces: Sequence[Piece]) -> dict[str, int]:
        """Splits, and bytes of their files."""
        return {"files": len(pieces), "bytes": sum(piece.num_bytes for piece in pieces)}

    def aggregate(self, schema: pa.Schema, functions: Sequence[Sequence[str]], groups: Sequence[str] = ()) -> None:
        """None: rows of a Paimon table may replace each other, so they have to be read."""

    def decides(self, schema: pa.Schema, filters: Sequence[Any]) -> list[bool]:  # noqa: ARG002
        """None: Spark applies all filters again."""
        return [False] * len(filters)

    def narrow(self, schema: pa.Schema, filters: Sequence[Any]) -> None:
        """Never asked for, because `decides` promises nothing."""

    def statistics(self, schema: pa.Schema, pieces: Sequence[Piece]) -> dict[str, dict[str, object]]:  # noqa: ARG002
        """None, because rows may replace each other."""
        return {}

    def splits(
        self,
        schema: pa.Schema,
        filters: Sequence[Any] = (),
        limit: int | None = None,
    ) -> list[tuple[Piece, ...]]:
        """What each task reads. Partitions, buckets and files that cannot match are left out.

        With a limit, splits after those that have `limit` rows are left out, if it is known how many they have.
        """
        for name in schema.names:
            if name not in self.table.table.field_dict:
                raise SchemaError("no such column in the table", path=self.table.path, found=name)
        planned = self._dataset.splits(as_filter(self.table.schema_of(schema.names), filters))
        if limit is not None:
            before = accumulate((split.merged_row_count() or 0 for split in planned), initial=0)
            planned = [split for split, rows in zip(planned, before, strict=False) if rows < limit]
        return self.tasks(planned)

    def tasks(self, planned: Sequence[Any]) -> list[tuple[Piece, ...]]:
        """Splits that pypaimon has planned, shared out among tasks."""
        pieces = []
        for split in planned:
            size = sum(file.file_size for file in split.files)
            pieces.append(SplitPiece(found_file(split.files[0]), size, split=split))
        sizes = [piece.num_bytes + self.options.open_cost_bytes for piece in pieces]
        groups = pack(sizes, self.options.max_partition_bytes)
        return [tuple(pieces[index] for index in group) for group in groups]


class SnapshotStream:
    """Reads what is appended to a table.

    An offset is the id of the last snapshot that was read; 0 before the first. The first batch has all rows of the
    newest snapshot.
    """

    def __init__(self, table: SnapshotTable) -> None:
        options = table.options
        if (options.snapshot_id or options.tag_name or options.timestamp) is not None:
            raise MosaicError(
                "a stream begins with the newest snapshot: snapshotId, tagName and timestamp are for batches",
                path=options.paths[0],
            )
        self.table = table
        refuse_stream(table.table.table)

    def first_offset(self) -> Offset:
        return {"snapshot": 0}

    def available(self) -> int:
        """The id of the newest snapshot."""
        return latest_snapshot(self.table.table.table)

    def next_offset(self, start: Offset, available: Any, max_files: int | None) -> Offset:
        latest = self.available() if available is None else available
        return {"snapshot": last_of_batch(self.table.table.table, start["snapshot"], latest, max_files)}

    @property
    def source(self) -> PaimonTable:
        return self.table.table

    def splits(self, schema: pa.Schema, start: Offset, end: Offset) -> Sequence[tuple[Piece, ...]]:  # noqa: ARG002
        return self.table.tasks(appended(self.table.table, start["snapshot"], end["snapshot"]))


def as_filter(types: pa.Schema, filters: Sequence[Any]) -> Filter | None:
    """The part of Spark's filters that the columns of a table decide; None if there is none."""
    tree = filter_tree(filters, {field.name: field.type for field in types})
    return None if tree is None else normalize_filters(tree)


def found_file(file: Any) -> FoundFile:
    return FoundFile(str(file.physical_path()), file.file_size)
