"""Planning a scan, on the driver: which files a table has, its schema, and what each task reads.

A file is opened at most once for all of this, and a small one only for its schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import Filter

from smalti.errors import MosaicError, PaimonTableError, SchemaError
from smalti.file.columns import SharedSchemas
from smalti.file.reader import MosaicFile
from smalti.io import locate
from smalti.predicate import prune_partitions
from smalti.spark.files import UNREADABLE, skip_unreadable, stored_columns
from smalti.spark.filters import comparable_values, filter_tree
from smalti.spark.options import ReadOptions
from smalti.table.listing import FoundFile, list_files, open_found, read_again
from smalti.table.partitions import partition_schema, with_partitions
from smalti.table.schemas import unify_schemas
from smalti.table.splits import Piece, cut, pack

if TYPE_CHECKING:
    from smalti.spark.paimon import SnapshotTable

#: How many files are opened at the same time.
_PARALLEL = 16


class Table:
    """The table that read options name, as it is when this object is made.

    Spark derives the schema in one process and plans the scan in another. The object travels between them, so that the
    second one finds what the first has learnt. If the table `may_be_empty`, as at the start of a stream, its directory
    may also be missing.
    """

    def __init__(self, options: ReadOptions, *, may_be_empty: bool = False) -> None:
        places = [locate(path, storage=options.storage) for path in options.paths]
        self._options = options
        self._filesystem = places[0].filesystem
        self._name = ", ".join(map(str, places))
        for place, path in zip(places, options.paths, strict=True):
            if not place.filesystem.equals(self._filesystem):
                raise MosaicError("paths on several file systems", found=path, expected=self._filesystem.type_name)
        if options.storage and places[0].is_local:
            raise MosaicError("storage options are for remote paths", found=options.paths[0])
        self._places = places
        self._may_be_empty = may_be_empty
        self._list()

    def _list(self) -> None:
        """Find the files, and forget what is known of the files that were found before."""
        #: All files, sorted by name.
        self.files: list[FoundFile] = []
        with suppress(FileNotFoundError) if self._may_be_empty else nullcontext():
            self.files = list_files(self._places, plain=self._options.plain).files
        if not self.files and not self._may_be_empty:
            raise MosaicError("no Mosaic files", path=self._name, expected="names that end in .mosaic")
        self._schemas = SharedSchemas()
        self._pieces: dict[str, list[Piece]] = {}  # of the files that were opened; none if a file is skipped
        self._has_derived_schema = False
        self._stored_partitions: set[str] | None = None

    def schema(self) -> pa.Schema:
        """The union of the schemas of all files, or the schema of the first file; then the partition columns."""
        return read_again(self._find_schema, self._list)

    def _find_schema(self) -> pa.Schema:
        merge = self._options.merge_schema
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found = (pool.map if merge else map)(self._examine, self.files)
            pairs = zip(self.files, found, strict=True)
            readable = ((file.path, schema) for file, schema in pairs if schema is not None)
            schemas = list(readable if merge else islice(readable, 1))
        if not schemas:
            raise MosaicError("no file can be read", path=self._name)
        self._has_derived_schema = True
        schema = with_partitions(unify_schemas(schemas), partition_schema(self.files))
        if self._options.columns is None:
            return schema
        for name in self._options.columns:
            if schema.get_field_index(name) < 0:
                raise SchemaError("option columns names a column the table does not have", found=name)
        return pa.schema([schema.field(name) for name in dict.fromkeys(self._options.columns)])

    def splits(
        self, schema: pa.Schema, filters: Sequence[Filter] = (), files: Sequence[FoundFile] | None = None
    ) -> list[tuple[Piece, ...]]:
        """What each task reads. Partitions that cannot match are left out, row groups of large files are spread.

        Parameters
        ----------
        schema : pyarrow.Schema
            As Spark asks for it. A schema of the user's is checked here, so that the query fails while it is planned.
        filters : sequence of Filter
        files : sequence of FoundFile, optional
            The files of one batch of a stream; by default all.
        """
        unchecked = {file.path for file in self._unchecked()} if files is None else set()
        files = self.files if files is None else files
        kept = _matching(files, schema, filters, self._find_stored_partitions()) if filters else files
        large = {file.path for file in kept if file.size > self._options.max_partition_bytes}
        to_open = [file for file in files if file.path not in self._pieces and file.path in unchecked | large]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(lambda file: self._examine(file, schema), to_open))
        pieces = [piece for file in kept for piece in self._pieces.get(file.path, [_whole(file)])]
        packed = pack(
            [piece.num_bytes + self._options.open_cost_bytes for piece in pieces], self._options.max_partition_bytes
        )
        return [tuple(pieces[place] for place in group) for group in packed]

    def _find_stored_partitions(self) -> set[str]:
        """The partition columns that files store too, so that the text of a directory decides nothing about them.

        The first file stands for all.
        """
        if self._stored_partitions is None:
            self._stored_partitions = set()
            if self.files and self.files[0].partition:
                with MosaicFile(open_found(self.files[0], self._filesystem)) as opened:
                    self._stored_partitions = set(opened.columns.present(list(self.files[0].partition)))
        return self._stored_partitions

    def _unchecked(self) -> Sequence[FoundFile]:
        """The files that are checked on the driver against a schema that may be the user's.

        The first file stands for all where `mergeSchema` is off, and in scans that are planned anew for each query.
        Tasks check the others.
        """
        if self._has_derived_schema:
            return ()
        return self.files[:1] if self._options.own_scan or not self._options.merge_schema else self.files

    def _examine(self, file: FoundFile, wanted: pa.Schema | None = None) -> pa.Schema | None:
        """Open a file, remember the pieces that it is cut into, and return its columns; None if it is skipped.

        `wanted` is the schema that Spark asks for, which the file must fit; without it, the whole file is looked at.
        """
        self._pieces[file.path] = []
        limit = self._options.max_partition_bytes
        try:
            with MosaicFile(open_found(file, self._filesystem), self._schemas) as opened:
                stored = opened.schema if wanted is None else stored_columns(opened, file, wanted)
                self._pieces[file.path] = [_whole(file)]
                if file.size > limit:
                    columns = set(stored.names)
                    if wanted is None and self._options.columns is not None:
                        columns &= set(self._options.columns)
                    self._pieces[file.path] = cut(_whole(file).file, _row_group_bytes(opened, columns), limit)
                return stored
        except UNREADABLE as error:
            skip_unreadable(file, error, self._options)
            return None


def find_table(options: ReadOptions) -> Table | SnapshotTable:
    """The table that read options name: a plain directory, or a Paimon table as of a snapshot."""
    if options.plain or (options.snapshot_id or options.tag_name or options.timestamp) is None:
        try:
            return Table(options)
        except PaimonTableError as error:
            if len(options.paths) > 1 or error.place["path"] != locate(options.paths[0]).path.rstrip("/"):
                raise
    from smalti.spark.paimon import SnapshotTable

    return SnapshotTable(options)


def _matching(
    files: Sequence[FoundFile], schema: pa.Schema, filters: Sequence[Filter], stored: set[str]
) -> list[FoundFile]:
    """The files whose partition values, but for those of `stored` columns, leave a chance that rows match."""
    spelled = [{name: text for name, text in file.partition.items() if name not in stored} for file in files]
    partitions = [comparable_values(partition, schema) for partition in spelled]
    types = {name: value.type for partition in partitions for name, value in partition.items()}
    tree = filter_tree(filters, types)
    may_match = [True] * len(files) if tree is None else prune_partitions(tree, partitions)
    return [file for file, keep in zip(files, may_match, strict=True) if keep]


def _whole(file: FoundFile) -> Piece:
    """A file in one piece. Its time is of this machine, and a task may run on one that has a copy of its own."""
    return Piece(replace(file, modified=0), file.size)


def _row_group_bytes(opened: MosaicFile, columns: set[str]) -> list[int]:
    """How many bytes reading some columns takes, for each row group."""
    if len(columns) == opened.num_columns:  # The index knows the sum, so no name needs to be searched for.
        return [sum(bucket.size for bucket in group.buckets) for group in opened.layout(()).row_groups]
    return [opened.row_group(group).stored_bytes(list(columns)) for group in range(opened.num_row_groups)]
