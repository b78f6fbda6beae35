"""Paged buckets (section 8): the directory at their start, and the slots that hold one compressed page each.

Monolithic buckets are one compressed block, which the kernels parse.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from smalti._core.pages import find_slots, open_slots
from smalti._core.physical import PhysicalColumns
from smalti.errors import CorruptFileError, MosaicError
from smalti.format.compression import Page, deflate_all, has_checksum, inflate, inflate_all
from smalti.format.varint import pack_varint
from smalti.spec import MAX_PAGED_CHILDREN

#: An uncompressed page begins with its encoding and its flags.
PAGE_HEAD_SIZE = 2


def directory_size(physical: PhysicalColumns) -> int:
    """Bytes before the first slot: the child counts, if there are arrays or maps, and the size of every slot."""
    children = physical.num_physical - physical.num_columns
    return (2 + 4 * children if children else 0) + 4 * physical.num_physical


@dataclass(frozen=True)
class Directory:
    """The directory of a paged bucket.

    `child_rows` has the rows of each physical column below an array or map, `slots` the (offset in the bucket, size)
    of the physical columns that were asked for. The size is 0 for a column that is ALL_NULL.
    """

    child_rows: list[int]
    slots: list[tuple[int, int]]


def parse_directory(
    data: bytes | memoryview, physical: PhysicalColumns, bucket_size: int, wanted: list[int]
) -> Directory:
    """Find the `wanted` slots of a paged bucket of `bucket_size` bytes, of which `data` has at least the directory."""
    size = directory_size(physical)
    if size > bucket_size:
        raise CorruptFileError("paged bucket is smaller than its directory", found=bucket_size, expected=size)
    children = physical.num_physical - physical.num_columns
    child_rows: list[int] = []
    if children:
        (count,) = struct.unpack_from("<H", data)
        if count != children:
            raise CorruptFileError(
                "bucket header counts other children than the schema", found=count, expected=children
            )
        child_rows = list(struct.unpack_from(f"<{children}I", data, 2))
    return Directory(
        child_rows, find_slots(data, size - 4 * physical.num_physical, physical.num_physical, bucket_size, wanted)
    )


def pack_directory(child_rows: list[int], slots: list[int]) -> bytes:
    """The directory of a paged bucket; `slots` are the sizes."""
    head = b""
    if child_rows:
        if len(child_rows) > MAX_PAGED_CHILDREN:
            raise AssertionError(f"{len(child_rows)} children do not fit a paged bucket")
        head = struct.pack(f"<H{len(child_rows)}I", len(child_rows), *child_rows)
    return head + struct.pack(f"<{len(slots)}I", *slots)


def inflate_slots(slots: list[memoryview], take: Callable[[int], None] | None = None) -> list[Page]:
    """Decompress the pages in slots that are not empty. An error names the index of its slot in the list as the column.

    `take` is called with the bytes of pages before memory is allocated for them, and may raise.
    """
    frames, sizes, total = open_slots(slots)
    if total is not None:
        if take is not None:
            take(total)
        try:
            return inflate_all(frames, sizes)
        except CorruptFileError:
            take = None  # Decompress the slots one by one, to find the one that is damaged.
    pages: list[Page] = []
    for index, (frame, size) in enumerate(zip(frames, memoryview(sizes).cast("Q"), strict=True)):
        try:
            pages.append(inflate(frame, size, take))
        except MosaicError as error:
            raise error.locate(column=index) from None
    return pages


def pack_slots(pages: list[bytes | None], level: int, checksum: bool, may_store: bool = False) -> list[bytes]:
    """The slots of pages: a varint of the size, then a zstd frame. A column that is ALL_NULL has no page."""
    frames = iter(deflate_all([page for page in pages if page is not None], level, checksum, may_store))
    return [b"" if page is None else pack_varint(len(page)) + next(frames) for page in pages]


def slot_has_checksum(slot: memoryview) -> bool:
    """Whether the zstd frame in a slot carries a checksum; False for a slot that cannot be opened."""
    try:
        return has_checksum(open_slots([slot])[0][0])
    except CorruptFileError:
        return False
