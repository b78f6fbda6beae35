"""Decompressed buckets of an open file that are kept for the next read of their columns, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict

from smalti._core.batch import BucketViews
from smalti._core.physical import PhysicalColumns
from smalti.format.bucket import directory_size
from smalti.format.compression import Page
from smalti.format.index import BucketEntry

#: Bytes that a bucket, and a column in it, take in memory beside their content, about: many are tiny.
BUCKET_COST, COLUMN_COST = 1000, 200


class FetchedBucket:
    """The bytes of a bucket that were read from the file.

    `data` is all of the bucket, or only the directory of a paged one if not all columns are wanted. A paged bucket
    also has `child_rows`, see `Directory`, and the slots of the physical columns that are wanted.
    """

    __slots__ = ("block", "child_rows", "data", "entry", "pages", "slots")

    def __init__(self, entry: BucketEntry) -> None:
        self.entry = entry
        self.data = memoryview(b"")
        self.child_rows: list[int] = []
        self.slots: dict[int, memoryview] = {}
        #: Pages by physical column, decompressed; None for a column that is ALL_NULL.
        self.pages: dict[int, Page | None] = {}
        #: The columns of a monolithic bucket, decompressed.
        self.block: BucketViews | None = None

    def closed_slots(self) -> list[tuple[int, memoryview]]:
        """The slots whose pages are still to be decompressed."""
        return [(node, slot) for node, slot in self.slots.items() if node not in self.pages]

    def copy(self) -> FetchedBucket:
        """The same bytes for another reader, who may add columns."""
        copy = FetchedBucket(self.entry)
        copy.data, copy.child_rows, copy.block = self.data, self.child_rows, self.block
        copy.slots, copy.pages = dict(self.slots), dict(self.pages)
        return copy

    def detached(self, nodes: PhysicalColumns) -> tuple[FetchedBucket, int]:
        """The decompressed bytes by themselves, and how many they take with what surrounds them.

        What was read from the file is let go, and pages are copied, because many of them share one piece of memory.
        """
        kept = FetchedBucket(self.entry)
        if self.block is not None:
            kept.block = self.block
            return kept, BUCKET_COST + COLUMN_COST * nodes.num_physical + self.entry.uncompressed_size
        kept.data, kept.child_rows = memoryview(bytes(self.data[: directory_size(nodes)])), self.child_rows
        kept.pages = {node: page and bytes(page) for node, page in self.pages.items()}  # type: ignore[arg-type]
        kept.slots = dict.fromkeys(kept.pages, memoryview(b""))
        size = len(kept.data) + sum(len(page) for page in kept.pages.values() if page is not None)
        return kept, BUCKET_COST + COLUMN_COST * len(kept.pages) + size


class BucketCache:
    """The buckets that were used last, by row group and number. Safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[int, int], tuple[FetchedBucket, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.num_bytes = 0

    def takes(self, num_bytes: int) -> bool:
        """Whether a read of so many bytes is kept: one that takes up much room would drive all others out."""
        return num_bytes <= self._max_bytes // 4

    def get(self, group: int, bucket: int) -> FetchedBucket | None:
        with self._lock:
            found = self._kept.get((group, bucket))
            if found is None:
                return None
            self._kept.move_to_end((group, bucket))
        return found[0].copy()

    def put(self, group: int, bucket: int, fetched: FetchedBucket, nodes: PhysicalColumns) -> None:
        """Keep a bucket that was decompressed, instead of what is kept of it, and let the oldest ones go."""
        kept, size = fetched.detached(nodes)
        with self._lock:
            _, before = self._kept.pop((group, bucket), (None, 0))
            self._kept[group, bucket] = kept, size
            self.num_bytes += size - before
            while self.num_bytes > self._max_bytes:
                _, (_, size) = self._kept.popitem(last=False)
                self.num_bytes -= size

    def close(self) -> None:
        """Let everything go and keep nothing more."""
        with self._lock:
            self._max_bytes = self.num_bytes = 0
            self._kept.clear()
