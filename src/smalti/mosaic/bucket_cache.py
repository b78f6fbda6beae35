"""Buckets in memory: fetched bytes and inflated columns, and the cache of an open file."""

from __future__ import annotations

import threading
from collections import OrderedDict

from smalti._core.batch import BucketViews
from smalti._core.physical import PhysicalColumns
from smalti.format.bucket import directory_size
from smalti.format.compression import Page
from smalti.format.index import MONOLITHIC, BucketEntry
from smalti.threads import renew_in_child

#: Estimated inflated bytes per compressed byte of a page: the index has no uncompressed size for a paged bucket, and
#: pages rarely compress below a quarter. Used to share out work and to budget memory.
PAGE_RATIO = 4
#: Estimated bytes of the Python objects of a cached bucket, and of each column: in tiny buckets these dominate.
BUCKET_COST, COLUMN_COST = 1000, 200


class Bucket:
    """The bytes of a bucket that were fetched, and the columns that were inflated from them.

    `data` is all of the bucket, or only the directory of a paged one if not all columns are wanted.
    """

    __slots__ = ("block", "child_rows", "data", "entry", "group", "is_released", "number", "pages", "physical", "slots")

    def __init__(self, group: int, number: int, physical: PhysicalColumns, entry: BucketEntry) -> None:
        self.group = group
        self.number = number
        self.physical = physical
        self.entry = entry
        self.data = memoryview(b"")
        #: Of a paged bucket: the rows of each physical column below an array or map, see `Directory`.
        self.child_rows: list[int] = []
        #: Of a paged bucket: the compressed pages by physical column, as far as they were fetched.
        self.slots: dict[int, memoryview] = {}
        #: Of a paged bucket: the inflated pages by physical column, None for a column that is ALL_NULL.
        self.pages: dict[int, Page | None] = {}
        #: Of a monolithic bucket: the columns of its inflated block.
        self.block: BucketViews | None = None
        self.is_released = False

    def uninflated_slots(self) -> list[tuple[int, memoryview]]:
        return [(node, slot) for node, slot in self.slots.items() if node not in self.pages]

    @property
    def uninflated_bytes(self) -> int:
        """Estimated size, once inflated, of the parts that are still compressed."""
        if self.entry.mode == MONOLITHIC:
            return 0 if self.block is not None else self.entry.uncompressed_size
        pages = self.pages
        return PAGE_RATIO * sum([len(slot) for node, slot in self.slots.items() if node not in pages])

    def release(self) -> None:
        """Drop the bytes of a bucket that is not decoded again."""
        self.data, self.slots, self.pages, self.block, self.is_released = memoryview(b""), {}, {}, None, True

    def copy(self) -> Bucket:
        """A shallow copy, which another reader may fill and release."""
        copy = Bucket(self.group, self.number, self.physical, self.entry)
        copy.data, copy.child_rows, copy.block = self.data, self.child_rows, self.block
        copy.slots, copy.pages = dict(self.slots), dict(self.pages)
        return copy

    def detached(self) -> tuple[Bucket, int]:
        """A copy for the cache, of inflated columns without compressed bytes, and its size in memory.

        Pages are copied, because many of them share one piece of memory.
        """
        kept = Bucket(self.group, self.number, self.physical, self.entry)
        if self.block is not None:
            kept.block = self.block
            return kept, BUCKET_COST + COLUMN_COST * self.physical.num_physical + self.entry.uncompressed_size
        kept.data, kept.child_rows = memoryview(bytes(self.data[: directory_size(self.physical)])), self.child_rows
        kept.pages = {node: page and bytes(page) for node, page in self.pages.items()}  # type: ignore[arg-type]
        size = len(kept.data) + sum(len(page) for page in kept.pages.values() if page is not None)
        return kept, BUCKET_COST + COLUMN_COST * len(kept.pages) + size


class BucketCache:
    """The inflated buckets that were used last, up to a number of bytes. Safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[int, int], tuple[Bucket, int]] = OrderedDict()
        renew_in_child(self)

    def renew_lock(self) -> None:
        self._lock = threading.Lock()
        self.num_bytes = sum(size for _, size in self._kept.values())

    def takes(self, num_bytes: int) -> bool:
        """Whether a read of this size is cached: a large one would drive all others out."""
        return num_bytes <= self._max_bytes // 4

    def get(self, group: int, bucket: int) -> Bucket | None:
        """A cached bucket. Readers must copy it before they change it."""
        with self._lock:
            found = self._kept.get((group, bucket))
            if found is None:
                return None
            self._kept.move_to_end((group, bucket))
        return found[0]

    def put(self, bucket: Bucket) -> None:
        """Cache an inflated bucket in place of an earlier state of it, and drop the oldest ones."""
        key = bucket.group, bucket.number
        kept, size = bucket.detached()
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = kept, size
            self.num_bytes += size - before
            while self.num_bytes > self._max_bytes:
                _, (_, size) = self._kept.popitem(last=False)
                self.num_bytes -= size

    def close(self) -> None:
        """Drop everything, and cache nothing more."""
        with self._lock:
            self._max_bytes = self.num_bytes = 0
            self._kept.clear()
