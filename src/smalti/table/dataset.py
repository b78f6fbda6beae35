"""Many files as one table: a directory, partitions in its paths, the union of the files' schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

import pyarrow as pa

from smalti.errors import SchemaError
from smalti.file.reader import MosaicFile
from smalti.io.places import AnyFileSystem, AnyPath
from smalti.table.adapt import Adapter, adapt_batch
from smalti.table.listing import FoundFile, Listing, list_files, open_found, read_again, stream_again
from smalti.table.partitions import partition_schema, partition_value, with_partitions
from smalti.table.schemas import unify_schemas

if TYPE_CHECKING:
    from smalti.predicate import Filter
    from smalti.predicate.python import AnyFilter


class MosaicDataset:
    """A set of Mosaic files read as one table. Made by `smalti.dataset`.

    Files are opened when they are needed: for `schema`, all of them, once; for reading, those whose partition and
    statistics leave a chance that rows match.
    """

    def __init__(self, find: Callable[[], Listing], schema: pa.Schema | None, partitioned: bool) -> None:
        self._find = find
        self._given_schema = schema
        self._partitioned = partitioned
        self._list()

    def _list(self) -> None:
        """Find the files, and forget what is known of the files that were found before."""
        listing = self._find()
        self._found = listing.files
        self._filesystem = listing.filesystem
        self._schema = self._given_schema
        self.partition_schema = partition_schema(self._found) if self._partitioned else pa.schema([])

    @property
    def files(self) -> list[str]:
        """Paths, sorted."""
        return [file.path for file in self._found]

    @property
    def schema(self) -> pa.Schema:
        """Columns of all files, then the partition columns."""
        return read_again(self._find_schema, self._list)

    def _find_schema(self) -> pa.Schema:
        if self._schema is None:
            stored = unify_schemas((file.path, self._file_schema(file)) for file in self._found)
            self._schema = with_partitions(stored, self.partition_schema)
        return self._schema

    def to_table(self, columns: Sequence[str] | None = None, filters: AnyFilter = None) -> pa.Table:
        """Read to a table; `columns` and `filters` as in `MosaicFile.read`, partition columns included."""
        return read_again(
            lambda: pa.Table.from_batches(list(self._batches(columns, filters)), schema=self._output_schema(columns)),
            self._list,
        )

    def to_batches(
        self, columns: Sequence[str] | None = None, filters: AnyFilter = None, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch, one row group of one file at a time.

        If files are replaced after the first batch was read, the rest is an error, because rows would be missing or
        there twice. Before that, and in `to_table`, the table is listed again.
        """
        return stream_again(lambda: self._batches(columns, filters, batch_size), self._list)

    def _batches(
        self, columns: Sequence[str] | None, filters: AnyFilter, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        output, files, filter_ = self._output_schema(columns), self._found, None
        if filters is not None:
            from smalti.predicate import normalize_filters, prune_partitions  # slow to import: smalti.file.filtering

            filter_ = normalize_filters(filters)
            self._check_columns(filter_.columns)
            fields = list(self.partition_schema)
            partitions = [{field.name: partition_value(file.partition, field) for field in fields} for file in files]
            files = list(compress(files, prune_partitions(filter_.tree, partitions)))
        for file in files:
            yield from self._read_file(file, output, batch_size, filter_)

    def count_rows(self, filters: AnyFilter = None) -> int:
        """How many rows there are, or would remain."""
        return read_again(lambda: self._count_rows(filters), self._list)

    def _count_rows(self, filters: AnyFilter) -> int:
        if filters is not None:
            return sum(batch.num_rows for batch in self._batches([], filters))
        total = 0
        for file in self._found:
            with self._open(file) as opened:
                total += opened.num_rows
        return total

    def __repr__(self) -> str:
        return f"<smalti.MosaicDataset: {len(self._found):,} files>"

    # --- how --------------------------------------------------------------------------------------------------------

    def _open(self, file: FoundFile) -> MosaicFile:
        return MosaicFile(open_found(file, self._filesystem))

    def _file_schema(self, file: FoundFile) -> pa.Schema:
        with self._open(file) as opened:
            return opened.schema

    def _check_columns(self, names: Sequence[str]) -> None:
        known = set(self.schema.names)
        for name in names:
            if name not in known:
                raise SchemaError("no such column in the dataset", found=name)

    def _output_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        if columns is None:
            return self.schema
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the string {columns!r}")
        self._check_columns(columns)
        return pa.schema([self.schema.field(name) for name in dict.fromkeys(columns)])

    def _present(self, opened: MosaicFile, names: Sequence[str]) -> list[str]:
        """The columns among `names` that are read from a file."""
        partitions = set(self.partition_schema.names)
        stored = [name for name in names if name not in partitions]
        return [name for name, at in zip(stored, opened.find_columns(stored), strict=True) if at is not None]

    def _read_file(
        self, file: FoundFile, output: pa.Schema, batch_size: int | None, filter_: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        partition = file.partition if len(self.partition_schema) else {}
        with self._open(file) as opened:
            if filter_ is None or self._is_pushable(opened, filter_):
                columns = self._present(opened, output.names)
                adapter = Adapter(output, columns, partition)
                for batch in opened.iter_batches(batch_size, columns, filter_):
                    yield adapter.adapt(batch)
                return
            from smalti.predicate import filter_batch

            needed = pa.schema([self.schema.field(name) for name in dict.fromkeys([*output.names, *filter_.columns])])
            columns = self._present(opened, needed.names)
            adapter = Adapter(needed, columns, partition)
            for batch in opened.iter_batches(batch_size, columns):
                kept = filter_batch(adapter.adapt(batch), filter_)
                if kept.num_rows:
                    yield adapt_batch(kept, output)

    def _is_pushable(self, opened: MosaicFile, filter_: Filter) -> bool:
        """Whether the file can filter by itself: it has all columns of the filter, in the dataset's types."""
        if self._present(opened, filter_.columns) != list(filter_.columns):
            return False
        stored = opened.schema_of(filter_.columns)
        return all(field.type == self.schema.field(field.name).type for field in stored)


def dataset(
    source: AnyPath | Sequence[AnyPath],
    *,
    schema: pa.Schema | None = None,
    partitioning: str | None = "hive",
    filesystem: AnyFileSystem = None,
) -> MosaicDataset:
    """Open a directory, glob or list of Mosaic files as one table.

    Parameters
    ----------
    source : str, os.PathLike or list of them
        Directories are searched for ``*.mosaic`` at any depth; names that start with a dot or an underscore are
        passed over.
    schema : pyarrow.Schema, optional
        Read as this schema instead of the union of the files' schemas, partition columns included.
    partitioning : {"hive", None}
        Whether directories called ``key=value`` are columns.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional

    Examples
    --------
    >>> import os, pyarrow as pa, smalti
    >>> os.makedirs("sales/year=2024", exist_ok=True)
    >>> _ = smalti.write_table(pa.table({"a": [1, 2]}), "sales/year=2024/part.mosaic")
    >>> smalti.dataset("sales").to_table(filters=[("year", "=", 2024)]).to_pydict()
    {'a': [1, 2], 'year': [2024, 2024]}
    """
    if partitioning not in ("hive", None):
        raise ValueError(f'partitioning is "hive" or None, not {partitioning!r}')
    return MosaicDataset(partial(list_files, source, filesystem), schema, partitioning == "hive")
