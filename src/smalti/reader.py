"""Reading a file: open the tail, find the columns, fetch their buckets, decode them to Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, cast

import pyarrow as pa

from smalti import threads
from smalti._core.decode import Batch
from smalti._core.index import RowGroupIndex
from smalti._core.nodes import BucketNodes
from smalti._core.schema import SchemaBlock
from smalti.columnless import columnless_batch
from smalti.errors import CorruptFileError, MosaicError, SchemaError
from smalti.format.bucket import Directory, directory_size, open_slot, parse_directory
from smalti.format.compression import inflate
from smalti.format.footer import Footer, parse_footer
from smalti.format.statistics import ColumnStatistics, describe, raw_value, to_scalar
from smalti.io import Range, Source, fetch, open_source
from smalti.layout import FileLayout, build_layout
from smalti.plan import BucketRead, plan_buckets
from smalti.predicate import Filter, GroupStatistics, Outcome, normalize_filters, prune
from smalti.spec import FOOTER_SIZE, SCHEMA_PREFIX_SIZE, Compression


class MosaicFile:
    """An open Mosaic file. Made by `smalti.open`; reading is safe from several threads.

    Opening reads the end of the file once (or twice, when the schema is large) and checks schema and index in full;
    nothing is built for a column until it is asked for.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            tail = _Tail(source)
            self._footer = tail.footer
            self._schema_block = tail.schema
            self._index = tail.index
            self._schema_size = tail.schema_size
        except MosaicError as error:
            source.close()
            raise error.locate(path=source.name) from None
        except BaseException:
            source.close()
            raise
        self._schema: pa.Schema | None = None
        self._names: list[str] | None = None
        self._positions: dict[str, int] = {}
        self._nodes: dict[int, BucketNodes] = {}

    # --- what is in it --------------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        return self._index.num_rows

    @property
    def num_columns(self) -> int:
        return self._schema_block.num_columns

    @property
    def num_row_groups(self) -> int:
        return self._index.num_row_groups

    @property
    def num_buckets(self) -> int:
        return self._schema_block.num_buckets

    @property
    def column_names(self) -> list[str]:
        """Names in the order the columns were written."""
        if self._names is None:
            by_name = self._schema_block.names()
            self._names = [by_name[i] for i in self._schema_block.column_order()]
        return list(self._names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in the order the columns were written; built when first asked for."""
        if self._schema is None:
            self._schema = self._arrow_schema(self._schema_block.column_order(), self.column_names)
        return self._schema

    def row_group(self, index: int) -> RowGroup:
        """One row group; negative numbers count from the end."""
        if not -self.num_row_groups <= index < self.num_row_groups:
            raise IndexError(f"row group {index} of {self.num_row_groups}")
        return RowGroup(self, index % self.num_row_groups)

    def layout(self) -> FileLayout:
        """How the file is laid out: row groups, buckets, and how each column is encoded. Reads all of it."""
        try:
            return build_layout(self._source, self._footer, self._schema_block, self._index, self._schema_size)
        except MosaicError as error:
            raise error.locate(path=self._source.name) from None

    # --- reading --------------------------------------------------------------------------------------------------

    def read(
        self, columns: Sequence[str] | None = None, filters: Any = None, row_groups: Sequence[int] | None = None
    ) -> pa.Table:
        """Read to a table.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read, in this order; by default all, in the order they were written. An empty list gives a
            table with rows and no columns.
        filters : pyarrow.compute.Expression or list of tuples, optional
            Rows to keep. Statistics skip row groups; the rows that remain are filtered exactly.
        row_groups : sequence of int, optional
            Row groups to read, in this order.
        """
        selection = self._select(columns, filters, row_groups)
        batches = [batch for group in selection.groups if (batch := selection.read(group)) is not None]
        return pa.Table.from_batches(batches, schema=selection.output_schema)

    def iter_batches(
        self,
        batch_size: int | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch, holding one row group of the wanted columns at a time.

        `batch_size` cuts row groups into batches of at most so many rows. Batches stay valid for as long as they are
        kept, whatever is read after them.
        """
        if batch_size is not None and batch_size < 1:
            raise MosaicError("batch_size must be positive", found=batch_size)
        selection = self._select(columns, filters, row_groups)
        for group in selection.groups:
            batch = selection.read(group)
            if batch is None or batch.num_rows == 0:
                continue
            step = batch_size or batch.num_rows
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)

    def count_rows(self, filters: Any = None) -> int:
        """How many rows there are, or would remain; reads only the columns of `filters`, if any."""
        if filters is None:
            return self.num_rows
        selection = self._select([], filters, None)
        return sum(batch.num_rows for group in selection.groups if (batch := selection.read(group)) is not None)

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> MosaicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<smalti.MosaicFile {self._source.name or ''}: {self.num_rows:,} rows, {self.num_columns:,} columns, "
            f"{self.num_row_groups:,} row groups, {self.num_buckets:,} buckets>"
        )

    # --- how ------------------------------------------------------------------------------------------------------

    def _find(self, names: Sequence[str]) -> list[int]:
        """Sorted indices of columns; one walk over the schema block for all that are new."""
        new = [name for name in dict.fromkeys(names) if name not in self._positions]
        if new:
            for name in new:
                if not isinstance(name, str):
                    raise TypeError(f"column names are strings, got {name!r}")
            for name, position in zip(new, self._schema_block.find(new), strict=True):
                if position < 0:
                    raise SchemaError("no such column", path=self._source.name, found=name)
                self._positions[name] = position
        return [self._positions[name] for name in names]

    def _arrow_schema(self, positions: list[int], names: list[str]) -> pa.Schema:
        return pa.Schema._import_from_c_capsule(self._schema_block.arrow_schema(positions, names))

    def _bucket_nodes(self, bucket: int) -> BucketNodes:
        nodes = self._nodes.get(bucket)
        if nodes is None:
            nodes = self._nodes[bucket] = self._schema_block.bucket_nodes(bucket)
        return nodes

    def _select(
        self, columns: Sequence[str] | None, filters: Any, row_groups: Sequence[int] | None
    ) -> _Selection:
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the string {columns!r}")
        groups = list(range(self.num_row_groups)) if row_groups is None else self._check_groups(row_groups)
        filter_ = normalize_filters(filters)
        outcomes = self._prune(filter_) if filter_ else None
        if outcomes is not None:
            groups = [group for group in groups if outcomes[group] is not Outcome.NONE]
        return _Selection(self, columns, filter_, groups, outcomes)

    def _check_groups(self, row_groups: Sequence[int]) -> list[int]:
        return [self.row_group(index).index for index in row_groups]

    def _prune(self, filter_: Filter) -> list[Outcome]:
        positions = self._find(filter_.columns)
        wanted = set(positions)
        records = [
            {record[0]: record for record in self._index.statistics(group, wanted)}
            for group in range(self.num_row_groups)
        ]
        statistics = {}
        for name, position in zip(filter_.columns, positions, strict=True):
            if any(position in record for record in records):
                statistics[name] = self._group_statistics(name, position, [r.get(position) for r in records])
        return prune(filter_.tree, statistics, [self._index.rows(g) for g in range(self.num_row_groups)])

    def _group_statistics(self, name: str, position: int, records: list[Any]) -> GroupStatistics:
        type_ = self._arrow_schema([position], [name]).field(0).type
        type_id, _, precision, _ = self._schema_block.descriptor(position)

        def bound(record: Any, which: int) -> pa.Scalar:
            raw = None if record is None or record[which] is None else raw_value(type_id, precision, record[which])
            return to_scalar(raw, type_)

        def bounds(which: int) -> pa.Array:
            scalars = [bound(record, which) for record in records]
            return pa.concat_arrays([_repeat(scalar, type_) for scalar in scalars]) if scalars else pa.nulls(0, type_)

        nulls = pa.array([None if record is None else record[1] for record in records], pa.int64())
        return GroupStatistics(nulls, bounds(2), bounds(3))

    def _read_group(self, group: int, positions: list[int], schema: pa.Schema) -> pa.RecordBatch:
        """Fetch and decode columns (sorted indices) of one row group."""
        batch = Batch(len(positions), self._index.rows(group))
        reads = plan_buckets(self._schema_block, positions)
        blobs = self._fetch(group, reads)
        workers = min(threads.cpu_count(), len(reads))

        def decode(item: tuple[BucketRead, _Stored | None]) -> None:
            read, stored = item
            try:
                self._decode(batch, read, stored)
            except MosaicError as error:
                error.locate(path=self._source.name, row_group=group, bucket=read.bucket)
                raise self._name_column(error, read.bucket) from None

        for _ in threads.ordered_map(decode, zip(reads, blobs, strict=True), workers):
            pass
        return pa.RecordBatch._import_from_c(batch.address(), schema)

    def _fetch(self, group: int, reads: list[BucketRead]) -> list[_Stored | None]:
        """Two rounds at most: whole buckets and directories, then the slots the directories point at."""
        stored: list[_Stored | None] = []
        first: list[Range] = []
        for read in reads:
            entry = self._index.bucket(group, read.bucket)
            if entry is None:
                stored.append(None)
                first.append(Range(0, 0))
                continue
            offset, size, bulk_size = entry
            nodes = self._bucket_nodes(read.bucket)
            head = directory_size(nodes.num_columns, nodes.num_nodes)
            partial = bulk_size == 0 and not read.whole and head <= size
            stored.append(_Stored(offset, size, bulk_size))
            first.append(Range(offset, head if partial else size))
        for item, data in zip(stored, fetch(self._source, first), strict=True):
            if item is not None:
                item.data = data
        second: list[Range] = []
        slots: list[tuple[_Stored, int]] = []
        for read, item in zip(reads, stored, strict=True):
            if item is not None and item.bulk_size == 0:
                try:
                    self._plan_slots(read, item, second, slots)
                except MosaicError as error:
                    raise error.locate(path=self._source.name, row_group=group, bucket=read.bucket) from None
        for (item, node), data in zip(slots, fetch(self._source, second), strict=True):
            item.slots[node] = data
        return stored

    def _plan_slots(
        self, read: BucketRead, item: _Stored, ranges: list[Range], slots: list[tuple[_Stored, int]]
    ) -> None:
        nodes = self._bucket_nodes(read.bucket)
        item.directory = parse_directory(item.data, nodes, item.size)
        for column in read.columns:
            for node in nodes.subtree(column):
                offset, size = item.directory.slots[node]
                if len(item.data) == item.size:
                    item.slots[node] = item.data[offset : offset + size]
                else:
                    ranges.append(Range(item.offset + offset, size))
                    slots.append((item, node))

    def _decode(self, batch: Batch, read: BucketRead, stored: _Stored | None) -> None:
        nodes = self._bucket_nodes(read.bucket)
        if stored is None:
            batch.decode_missing(nodes, read.columns, read.places)
        elif stored.bulk_size:
            data: Any = stored.data
            if self._footer.compression is Compression.ZSTD:
                data = inflate(stored.data, stored.bulk_size)
            batch.decode_monolithic(nodes, data, read.columns, read.places)
        else:
            directory = cast(Directory, stored.directory)
            pages: dict[int, bytes | None] = {}
            for node, slot in stored.slots.items():
                try:
                    pages[node] = open_slot(slot) if len(slot) else None
                except MosaicError as error:
                    raise error.locate(column=node) from None
            batch.decode_pages(nodes, pages, directory.child_rows, read.columns, read.places)

    def _name_column(self, error: MosaicError, bucket: int) -> MosaicError:
        """Kernels know a physical column by number; say which it is."""
        node = error.place.get("column")
        if isinstance(node, int):
            first, stop = self._schema_block.bucket_columns(bucket)
            names = self._schema_block.names()[first:stop]
            error.place["column"] = self._bucket_nodes(bucket).paths(names)[node][1]
        return error


class RowGroup:
    """One row group of an open file."""

    def __init__(self, file: MosaicFile, index: int) -> None:
        self._file = file
        self.index = index

    @property
    def num_rows(self) -> int:
        return self._file._index.rows(self.index)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        """Statistics by column name, for the columns that have them."""
        file = self._file
        records = file._index.statistics(self.index)
        if not records:
            return {}
        names = file._schema_block.names()
        out = {}
        for position, *rest in records:
            type_ = file._arrow_schema([position], [names[position]]).field(0).type
            type_id, _, precision, _ = file._schema_block.descriptor(position)
            out[names[position]] = describe(type_id, precision, type_, *rest)
        return out

    def read(self, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
        """As `MosaicFile.read`, for this row group."""
        return self._file.read(columns, filters, [self.index])

    def __repr__(self) -> str:
        return f"<smalti.RowGroup {self.index}: {self.num_rows:,} rows>"


class _Tail:
    """Schema block, index and footer, in one read if the guess is large enough, else in two."""

    def __init__(self, source: Source) -> None:
        size = source.size
        guess = min(size, source.tail_size)
        data = source.read_at(size - guess, guess)
        self.footer: Footer = parse_footer(data[-FOOTER_SIZE:], size)
        start = self.footer.schema_offset
        if start < size - guess:
            data = source.read_at(start, size - guess - start) + data
        else:
            data = data[start - (size - guess) :]
        index_at = self.footer.index_offset - start
        try:
            block = _schema_bytes(data[:index_at], self.footer.compression)
            self.schema_size = len(block)
            self.schema = SchemaBlock(block)
        except MosaicError as error:
            raise error.locate(section="schema block") from None
        if self.schema.num_buckets != self.footer.num_buckets:
            raise CorruptFileError(
                "bucket counts of footer and schema block differ",
                section="footer",
                found=self.footer.num_buckets,
                expected=self.schema.num_buckets,
            )
        try:
            self.index = RowGroupIndex(
                data[index_at:-FOOTER_SIZE],
                self.schema,
                self.footer.num_row_groups,
                start,
                self.footer.compression is Compression.ZSTD,
            )
        except MosaicError as error:
            raise error.locate(section="row group index") from None


def _schema_bytes(section: bytes, compression: Compression) -> bytes:
    size = int.from_bytes(section[:SCHEMA_PREFIX_SIZE], "big")
    payload = section[SCHEMA_PREFIX_SIZE:]
    if compression is Compression.ZSTD:
        return inflate(payload, size)
    if len(payload) != size:
        raise CorruptFileError("schema block has another size than declared", found=len(payload), expected=size)
    return payload


class _Stored:
    """A bucket on its way from the file: where it is, what of it was fetched, its slots when it is paged."""

    __slots__ = ("bulk_size", "data", "directory", "offset", "size", "slots")

    def __init__(self, offset: int, size: int, bulk_size: int) -> None:
        self.offset = offset
        self.size = size
        self.bulk_size = bulk_size
        self.data = memoryview(b"")
        self.directory: Directory | None = None
        self.slots: dict[int, memoryview] = {}


class _Selection:
    """The columns of one read, resolved: what goes out, and what is read besides for the filter."""

    def __init__(
        self,
        file: MosaicFile,
        columns: Sequence[str] | None,
        filter_: Filter | None,
        groups: list[int],
        outcomes: list[Outcome] | None,
    ) -> None:
        self.groups = groups
        self._file = file
        self._filter = filter_
        self._outcomes = outcomes
        if columns is None:
            names = file.column_names
            self._positions = file._schema_block.column_order()
            self.output_schema = file.schema
        else:
            names = list(dict.fromkeys(columns))
            self._positions = file._find(names)
            self.output_schema = file._arrow_schema(self._positions, names)
        self._extra = [name for name in filter_.columns if name not in set(names)] if filter_ else []
        self._all_positions = self._positions + file._find(self._extra)
        self._schema = file._arrow_schema(self._all_positions, names + self._extra) if self._extra else self.output_schema

    def read(self, group: int) -> pa.RecordBatch | None:
        """One row group, filtered; None if nothing of it remains."""
        file = self._file
        if file._index.rows(group) == 0:
            return None
        if self._filter is None or (self._outcomes and self._outcomes[group] is Outcome.ALL):
            return file._read_group(group, self._positions, self.output_schema)
        batch = file._read_group(group, self._all_positions, self._schema)
        batch = _filter_rows(batch, self._filter)
        if self._extra:
            batch = _drop_columns(batch, self.output_schema)
        return batch


def _filter_rows(batch: pa.RecordBatch, filter_: Filter) -> pa.RecordBatch:
    table = pa.Table.from_batches([batch]).filter(filter_.expression).combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else batch.slice(0, 0)


def _drop_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The first columns of a batch; with none left, the number of rows is all that remains."""
    if len(schema):
        return pa.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema)
    return columnless_batch(batch.num_rows)


def _repeat(scalar: pa.Scalar, type_: pa.DataType) -> pa.Array:
    return pa.nulls(1, type_) if not scalar.is_valid else pa.repeat(scalar, 1)


def open_file(source: Any, *, filesystem: Any = None) -> MosaicFile:
    """Open a Mosaic file for reading.

    Parameters
    ----------
    source : str, os.PathLike, bytes-like or seekable binary file object
        A local path, a URI such as ``s3://bucket/key``, the bytes of a file, or an open file.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        Where to look a path up.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> smalti.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), "two.mosaic")
    >>> with smalti.open("two.mosaic") as f:
    ...     f.num_rows, f.column_names, f.read(columns=["b"]).to_pydict()
    (2, ['a', 'b'], {'b': ['x', None]})
    """
    return MosaicFile(open_source(source, filesystem))


def read_table(
    source: Any, columns: Sequence[str] | None = None, filters: Any = None, *, filesystem: Any = None
) -> pa.Table:
    """Read a Mosaic file to a table: `open` and `MosaicFile.read` in one.

    Examples
    --------
    >>> import pyarrow as pa, smalti
    >>> smalti.write_table(pa.table({"id": [1, 2, 3], "b": ["x", "y", "z"]}), "three.mosaic", stats_columns=["id"])
    >>> smalti.read_table("three.mosaic", columns=["b"], filters=[("id", ">", 1)]).to_pydict()
    {'b': ['y', 'z']}
    """
    with open_file(source, filesystem=filesystem) as file:
        return file.read(columns, filters)
