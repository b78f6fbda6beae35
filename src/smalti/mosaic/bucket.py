"""Reads the buckets of a file: fetches and inflates them, and finds their columns, whether they are paged or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from smalti._core.allowance import Allowance
from smalti._core.batch import BucketViews, view_beginning, view_block, view_pages
from smalti.errors import CorruptFileError, MemoryLimitError, MosaicError
from smalti.format.bucket import directory_size, inflate_slots, parse_directory
from smalti.format.compression import inflate_beginning, inflate_bucket
from smalti.format.index import EMPTY, MONOLITHIC, PAGED
from smalti.io import Range, Source, fetch
from smalti.io.ranges import SPARE, Parts, plan_whole
from smalti.mosaic.bucket_cache import Bucket, BucketCache
from smalti.mosaic.columns import BucketRead
from smalti.mosaic.tail import Tail
from smalti.spec import Compression

#: First guess for the size of a prefix: BEGINNING bytes for a dictionary, plus MAX_VALUE for each row.
BEGINNING, MAX_VALUE = 40 << 10, 16
NONE_FETCHED: Mapping[int, Bucket] = MappingProxyType({})


class Wanted(NamedTuple):
    """The buckets that are wanted of a row group.

    `fetched` has buckets, by number, that were read already and may have other readers, `whole` the numbers of those
    of which all columns will be wanted.
    """

    group: int
    reads: Sequence[BucketRead]
    fetched: Mapping[int, Bucket] = NONE_FETCHED
    whole: Set[int] = frozenset()


class BucketReader:
    """Fetches and inflates the buckets of one file. `spare` bounds the bytes that are read without being wanted."""

    def __init__(self, source: Source, tail: Tail, cache: BucketCache | None = None, spare: int = SPARE) -> None:
        self.source = source
        self.tail = tail
        self.cache = cache
        self._spare = spare

    def close(self) -> None:
        """Close the file and its cache, so that no read of a closed file works by chance."""
        self.source.close()
        if self.cache is not None:
            self.cache.close()

    @property
    def is_compressed(self) -> bool:
        """Whether blocks are inflated, and count as memory; otherwise they are the bytes of the file."""
        return self.tail.footer.compression is Compression.ZSTD

    def fetch(
        self,
        group: int,
        reads: Sequence[BucketRead],
        fetched: Mapping[int, Bucket] = NONE_FETCHED,
        whole: Set[int] = frozenset(),
    ) -> list[Bucket]:
        """Read buckets of one row group, see `fetch_groups`."""
        return self.fetch_groups([Wanted(group, reads, fetched, whole)])[0]

    def fetch_groups(self, wanted: Sequence[Wanted]) -> list[list[Bucket]]:
        """Read buckets of some row groups, in two rounds of requests at most.

        The first round reads monolithic buckets and the directories of paged ones, or all of a paged bucket if all its
        columns are wanted; the second reads the wanted slots. From a store, small paged buckets are read whole where
        that takes less time; and where the companion has the sizes of slots, these are read in the first round too. The
        directory still decides: a slot that is elsewhere is read again. Of buckets that are fetched or cached, only
        missing slots are read. All buckets that are returned belong to the caller, who inflates and releases them.
        """
        pending = [self._pending(one, read) for one in wanted for read in one.reads]
        self._choose_whole(pending)
        ranges = [where for each in pending for where in each.first_round()]
        blobs = iter(fetch(self.source, ranges, self._spare))
        missing: list[tuple[Bucket, int, Range]] = []
        for each in pending:
            try:
                missing += each.cut(blobs)
            except MosaicError as error:
                raise self.locate(error, each.bucket) from None
        slots = fetch(self.source, [where for _, _, where in missing], self._spare)
        for (bucket, node, _), data in zip(missing, slots, strict=True):
            bucket.slots[node] = data
        buckets = iter(pending)
        return [[next(buckets).bucket for _ in one.reads] for one in wanted]

    def _pending(self, wanted: Wanted, read: BucketRead) -> _Pending:
        """What of a bucket is still to be read."""
        group, number = wanted.group, read.bucket
        bucket = wanted.fetched.get(number)
        if bucket is None and self.cache is not None:
            bucket = self.cache.get(group, number)
        if bucket is not None:
            return _Pending(bucket.copy(), read, 0)
        bucket = Bucket(group, number, read.physical, self.tail.entry(group, number))
        size = bucket.entry.size
        if bucket.entry.mode == PAGED and not read.whole and number not in wanted.whole:
            size = min(size, directory_size(read.physical))
        pending = _Pending(bucket, read, size)
        if size < bucket.entry.size and self.source.connection is not None and self.tail.slot_sizes is not None:
            found = self.tail.slot_sizes.find(group, number, read.physical.num_physical, read.wanted_physical)
            if all(size + offset + length <= bucket.entry.size for offset, length in found):
                pending.expected = [(size + offset, length) for offset, length in found]
        return pending

    def _choose_whole(self, pending: Sequence[_Pending]) -> None:
        """Read paged buckets whole where that takes less time than two rounds."""
        if self.source.connection is None:
            return
        in_parts = [each for each in pending if each.size < each.bucket.entry.size and each.size and not each.expected]
        parts = [
            Parts(
                each.bucket.entry.size,
                each.size,
                len(each.read.wanted_physical) / each.read.physical.num_physical,
                len(each.read.wanted_physical),
            )
            for each in in_parts
        ]
        for each, is_whole in zip(in_parts, plan_whole(parts, self.source.connection.cost, self._spare), strict=True):
            if is_whole:
                each.size, each.is_spare = each.bucket.entry.size, True

    def inflate_pages(self, buckets: Sequence[Bucket], allowance: Allowance) -> int:
        """Inflate the slots of paged buckets, all in one call; return the number of bytes that this took."""
        pending: list[tuple[Bucket, int, memoryview]] = []
        for bucket in buckets:
            for node, slot in bucket.uninflated_slots():
                if len(slot):
                    pending.append((bucket, node, slot))
                else:
                    bucket.pages[node] = None
        try:
            pages = inflate_slots([slot for _, _, slot in pending], allowance.take)
        except MemoryLimitError as error:
            raise error.locate(path=self.source.name, row_group=buckets[0].group) from None
        except MosaicError as error:
            bucket, error.place["column"], _ = pending[error.place["column"]]
            raise self.locate(error, bucket) from None
        for (bucket, node, _), page in zip(pending, pages, strict=True):
            bucket.pages[node] = page
        return sum(map(len, pages))

    def views(self, bucket: Bucket, allowance: Allowance, first: int | None = None) -> tuple[BucketViews, int]:
        """Find the columns of a bucket, whose pages are inflated already; return also the bytes that this took.

        A monolithic bucket is inflated here, unless it is or the file is not compressed. If only the `first` rows are
        wanted, a bucket of one column is inflated no further than they reach.
        """
        if bucket.is_released:
            raise RuntimeError(f"bucket {bucket.number} of row group {bucket.group} was released; fetch it again")
        physical, num_rows = bucket.physical, self.tail.index.rows(bucket.group)
        if bucket.entry.mode == MONOLITHIC:
            if first is not None and bucket.block is None and self.is_compressed and physical.num_physical == 1:
                found = _view_beginning(bucket, num_rows, first, allowance)
                if found is not None:
                    return found
            size = 0
            if bucket.block is None:
                block: bytes | memoryview = bucket.data
                if self.is_compressed:
                    size = bucket.entry.uncompressed_size
                    allowance.take(size)
                    block = inflate_bucket(bucket.data, size)
                bucket.block = view_block(physical, block, num_rows)
            return bucket.block, size
        if bucket.entry.mode == EMPTY:
            bucket.pages = dict.fromkeys(range(physical.num_physical))
            bucket.child_rows = [0] * (physical.num_physical - physical.num_columns)
        return view_pages(physical, bucket.pages, [num_rows] * physical.num_columns + bucket.child_rows), 0

    def locate(self, error: MosaicError, bucket: Bucket) -> MosaicError:
        """Add the bucket to an error, and the name of a physical column that kernels know by number."""
        node = error.place.get("column")
        if isinstance(node, int):
            names = self.tail.schema.names()[bucket.physical.first_column :]
            error.place["column"] = bucket.physical.paths(names)[node][1]
        return error.locate(path=self.source.name, row_group=bucket.group, bucket=bucket.number)


def _view_beginning(bucket: Bucket, num_rows: int, first: int, allowance: Allowance) -> tuple[BucketViews, int] | None:
    """The first rows of a bucket of one column, and the bytes inflated for them; None if these are most of it."""
    size = BEGINNING + num_rows // 8 + MAX_VALUE * first
    while size * 2 < bucket.entry.uncompressed_size:
        allowance.take(size)
        try:
            return view_beginning(bucket.physical, inflate_beginning(bucket.data, size), num_rows, first), size
        except CorruptFileError:  # Values are longer than expected, or the bucket is damaged: reading all of it tells.
            allowance.give(size)
            size *= 8
    return None


class _Pending:
    """A bucket that is being fetched: `size` of its bytes, from the first on, and slots where they are `expected`."""

    __slots__ = ("bucket", "expected", "is_spare", "read", "size")

    def __init__(self, bucket: Bucket, read: BucketRead, size: int) -> None:
        self.bucket = bucket
        self.read = read
        self.size = size
        #: Whether more of the bucket is read than is wanted, and released afterwards.
        self.is_spare = False
        #: (offset in the bucket, size) of the wanted slots by the companion; empty if it does not tell.
        self.expected: list[tuple[int, int]] = []

    def first_round(self) -> Iterator[Range]:
        start = self.bucket.entry.offset
        yield Range(start, self.size)
        for offset, size in self.expected:
            yield Range(start + offset, size)

    def cut(self, blobs: Iterator[memoryview]) -> Iterator[tuple[Bucket, int, Range]]:
        """Take the bytes of the first round, and cut the wanted slots out; yield those that are still to be fetched."""
        bucket, wanted, data = self.bucket, self.read.wanted_physical, next(blobs)
        guessed: dict[int, tuple[tuple[int, int], memoryview]] = {}
        for node, where in zip(wanted, self.expected, strict=False):
            guessed[node] = where, next(blobs)
        bucket.data = bucket.data or data
        if bucket.entry.mode != PAGED:
            return
        entry, data = bucket.entry, bucket.data
        directory = parse_directory(data, bucket.physical, entry.size, wanted)
        bucket.child_rows = directory.child_rows
        for node, (offset, size) in zip(wanted, directory.slots, strict=True):
            if node in bucket.slots or node in bucket.pages:
                continue
            guess = guessed.get(node)
            if guess is not None and guess[0] == (offset, size):
                bucket.slots[node] = guess[1]
            elif len(data) == entry.size:
                slot = data[offset : offset + size]
                bucket.slots[node] = memoryview(bytes(slot)) if self.is_spare else slot
            else:
                yield bucket, node, Range(entry.offset + offset, size)
        if self.is_spare:
            bucket.data = memoryview(bytes(data[: directory_size(bucket.physical)]))
