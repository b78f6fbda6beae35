"""Driver side, acting: the files of a table as they are now, its schema, and its splits."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

import pyarrow as pa
from pyspark.sql.datasource import Filter

from smalti.errors import MosaicError, SchemaError
from smalti.io import locate
from smalti.predicate import prune_partitions
from smalti.spark.filters import filter_tree
from smalti.spark.options import ReadOptions
from smalti.spark.partitions import comparable_values
from smalti.spark.read import UNREADABLE, Adapter, open_table_file, report_bad_file
from smalti.table.listing import FoundFile, list_files
from smalti.table.partitions import partition_schema, with_partitions
from smalti.table.schemas import unify_schemas
from smalti.table.splits import Piece, cut, pack

#: Ends of files read at once.
_PARALLEL = 16


class Table:
    """The table that read options name.

    Parameters
    ----------
    options : ReadOptions
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._places = [locate(path, storage=options.storage) for path in options.paths]
        self.filesystem = self._places[0].filesystem
        for place, path in zip(self._places, options.paths, strict=True):
            if not place.filesystem.equals(self.filesystem):
                raise MosaicError("paths on several file systems", found=path, expected=self.filesystem.type_name)
        if options.storage and self._places[0].is_local:
            raise MosaicError("storage options are for remote paths", found=options.paths[0])

    def find(self) -> list[FoundFile]:
        """All files, sorted by name."""
        return list_files(self._places).files

    def files(self) -> list[FoundFile]:
        """The same, of a table that has some."""
        files = self.find()
        if not files:
            raise MosaicError(
                "no Mosaic files", path=", ".join(map(str, self._places)), expected="names that end in .mosaic"
            )
        return files

    def schema(self, files: Sequence[FoundFile]) -> pa.Schema:
        """The union of the files' schemas, or the first one's; then the partition columns."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found = (pool.map if self.options.merge_schema else map)(self._stored_schema, files)
            readable = ((file.path, schema) for file, schema in zip(files, found, strict=True) if schema is not None)
            schemas = list(readable if self.options.merge_schema else islice(readable, 1))
        if not schemas:
            raise MosaicError("no file can be read", path=", ".join(map(str, self._places)))
        return self._chosen(with_partitions(unify_schemas(schemas), partition_schema(files)))

    def _chosen(self, schema: pa.Schema) -> pa.Schema:
        """Only what the option `columns` names."""
        if self.options.columns is None:
            return schema
        known = set(schema.names)
        for name in self.options.columns:
            if name not in known:
                raise SchemaError("option columns names a column the table does not have", found=name)
        return pa.schema([schema.field(name) for name in dict.fromkeys(self.options.columns)])

    def check(self, files: Sequence[FoundFile], schema: pa.Schema) -> None:
        """Raise if a schema that may be the user's does not fit the files.

        The first file stands for all where `mergeSchema` is off, and in scans that are planned for each query anew;
        tasks check the others.
        """
        first_only = self.options.own_scan or not self.options.merge_schema
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(lambda file: self._check(file, schema), files[:1] if first_only else files))

    def _check(self, file: FoundFile, schema: pa.Schema) -> None:
        try:
            with open_table_file(file, self.filesystem) as opened:
                Adapter(opened, file, schema)
        except UNREADABLE as error:
            self._skip(file, error)

    def splits(
        self, files: Sequence[FoundFile], schema: pa.Schema, filters: Sequence[Filter]
    ) -> list[tuple[Piece, ...]]:
        """What each task reads: partitions that cannot match are left out, the row groups of large files spread."""
        target = self.options.max_partition_bytes
        # Times are of this machine; a task may run on one that has its own copy.
        files = [replace(file, modified=0) for file in files]
        partitions = [comparable_values(file.partition, schema) for file in files]
        types = {name: value.type for partition in partitions for name, value in partition.items()}
        tree = filter_tree(filters, types)
        if tree is not None:
            files = [file for file, keep in zip(files, prune_partitions(tree, partitions), strict=True) if keep]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            cut = pool.map(lambda file: self._cut(file, schema.names, target), files)
            pieces = [piece for some in cut for piece in some]
        packed = pack([piece.num_bytes + self.options.open_cost_bytes for piece in pieces], target)
        return [tuple(pieces[place] for place in group) for group in packed]

    def _cut(self, file: FoundFile, columns: list[str], target: int) -> list[Piece]:
        if file.size <= target:
            return [Piece(file, file.size)]  # no need to look inside
        try:
            with open_table_file(file, self.filesystem) as opened:
                found = zip(columns, opened.find_columns(columns), strict=True)
                stored = [name for name, position in found if position is not None]
                groups = map(opened.row_group, range(opened.num_row_groups))
                return cut(file, [group.stored_bytes(stored) for group in groups], target)
        except UNREADABLE as error:
            self._skip(file, error)
            return []

    def _stored_schema(self, file: FoundFile) -> pa.Schema | None:
        try:
            with open_table_file(file, self.filesystem) as opened:
                return opened.schema
        except UNREADABLE as error:
            self._skip(file, error)
            return None

    def _skip(self, file: FoundFile, error: Exception) -> None:
        if not self.options.ignore_corrupt_files:
            raise error
        report_bad_file(file.path, error, self.options)
