"""Fetching and decoding columns of one row group: the plan says which buckets, this does the IO and the threads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from smalti import threads
from smalti._core.batch import Batch
from smalti._core.nodes import BucketNodes
from smalti.errors import MosaicError
from smalti.file.plan import BucketRead, plan_buckets
from smalti.file.tail import Tail
from smalti.format.bucket import directory_size, open_slot, parse_directory
from smalti.format.compression import inflate
from smalti.io import Range, Source, fetch
from smalti.spec import Compression


class Stored:
    """A bucket on its way from the file: where it is, what of it was fetched, its slots when it is paged."""

    __slots__ = ("bulk_size", "child_rows", "data", "offset", "size", "slots")

    def __init__(self, offset: int, size: int, bulk_size: int) -> None:
        self.offset = offset
        self.size = size
        self.bulk_size = bulk_size
        self.data = memoryview(b"")
        self.child_rows: list[int] = []
        self.slots: dict[int, memoryview] = {}


class RowGroupReader:
    """Reads columns of row groups; keeps the types of the buckets it has seen."""

    def __init__(self, source: Source, tail: Tail) -> None:
        self._source = source
        self._tail = tail
        self._nodes: dict[int, BucketNodes] = {}

    def read(self, group: int, positions: list[int], schema: pa.Schema) -> pa.RecordBatch:
        """Columns (sorted indices) of one row group, as `schema`."""
        batch = Batch(len(positions), self._tail.index.rows(group))
        reads = plan_buckets(self._tail.schema, positions)

        def decode(item: tuple[BucketRead, Stored | None]) -> None:
            read, stored = item
            try:
                self._decode(batch, read, stored)
            except MosaicError as error:
                raise self._locate(error, group, read.bucket) from None

        work = zip(reads, self._fetch(group, reads), strict=True)
        for _ in threads.ordered_map(decode, work, min(threads.cpu_count(), len(reads))):
            pass
        return pa.RecordBatch._import_from_c(batch.address(), schema)

    def _bucket_nodes(self, bucket: int) -> BucketNodes:
        nodes = self._nodes.get(bucket)
        if nodes is None:
            nodes = self._nodes[bucket] = self._tail.schema.bucket_nodes(bucket)
        return nodes

    def _fetch(self, group: int, reads: list[BucketRead]) -> list[Stored | None]:
        """Two rounds at most: whole buckets and directories, then the slots the directories point at."""
        stored: list[Stored | None] = []
        first: list[Range] = []
        for read in reads:
            entry = self._tail.index.bucket(group, read.bucket)
            if entry is None:
                stored.append(None)
                first.append(Range(0, 0))
                continue
            item = Stored(*entry)
            nodes = self._bucket_nodes(read.bucket)
            head = directory_size(nodes.num_columns, nodes.num_nodes)
            partial = item.bulk_size == 0 and not read.whole and head <= item.size
            stored.append(item)
            first.append(Range(item.offset, head if partial else item.size))
        for fetched, data in zip(stored, fetch(self._source, first), strict=True):
            if fetched is not None:
                fetched.data = data
        second: list[Range] = []
        slots: list[tuple[Stored, int]] = []
        for read, paged in zip(reads, stored, strict=True):
            if paged is not None and paged.bulk_size == 0:
                try:
                    self._plan_slots(read, paged, second, slots)
                except MosaicError as error:
                    raise self._locate(error, group, read.bucket) from None
        for (paged, node), data in zip(slots, fetch(self._source, second), strict=True):
            paged.slots[node] = data
        return stored

    def _plan_slots(self, read: BucketRead, item: Stored, ranges: list[Range], slots: list[tuple[Stored, int]]) -> None:
        nodes = self._bucket_nodes(read.bucket)
        directory = parse_directory(item.data, nodes, item.size)
        item.child_rows = directory.child_rows
        for column in read.columns:
            for node in nodes.subtree(column):
                offset, size = directory.slots[node]
                if len(item.data) == item.size:
                    item.slots[node] = item.data[offset : offset + size]
                else:
                    ranges.append(Range(item.offset + offset, size))
                    slots.append((item, node))

    def _decode(self, batch: Batch, read: BucketRead, stored: Stored | None) -> None:
        nodes = self._bucket_nodes(read.bucket)
        if stored is None:
            batch.decode_missing(nodes, read.columns, read.places)
        elif stored.bulk_size:
            data: Any = stored.data
            if self._tail.footer.compression is Compression.ZSTD:
                data = inflate(stored.data, stored.bulk_size)
            batch.decode_monolithic(nodes, data, read.columns, read.places)
        else:
            pages: dict[int, bytes | None] = {}
            for node, slot in stored.slots.items():
                try:
                    pages[node] = open_slot(slot) if len(slot) else None
                except MosaicError as error:
                    raise error.locate(column=node) from None
            batch.decode_pages(nodes, pages, stored.child_rows, read.columns, read.places)

    def _locate(self, error: MosaicError, group: int, bucket: int) -> MosaicError:
        """Add the place; kernels know a physical column by number, say which it is."""
        node = error.place.get("column")
        if isinstance(node, int):
            first, stop = self._tail.schema.bucket_columns(bucket)
            names = self._tail.schema.names()[first:stop]
            error.place["column"] = self._bucket_nodes(bucket).paths(names)[node][1]
        return error.locate(path=self._source.name, row_group=group, bucket=bucket)
