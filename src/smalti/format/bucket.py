"""Paged buckets (section 8): the directory at their start, and the slots that hold one compressed page each.

Monolithic buckets are one compressed block without a frame; the kernels walk them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from smalti._core.nodes import BucketNodes
from smalti.errors import CorruptFileError
from smalti.format.compression import deflate, has_checksum, inflate
from smalti.format.varint import pack_varint
from smalti.spec import MAX_PAGED_CHILDREN

#: An uncompressed page begins with its encoding and its flags.
PAGE_HEAD_SIZE = 2


def directory_size(nodes: BucketNodes) -> int:
    """Bytes before the first slot: the child counts, if there are arrays or maps, and the size of every slot."""
    children = nodes.num_nodes - nodes.num_columns
    return (2 + 4 * children if children else 0) + 4 * nodes.num_nodes


@dataclass(frozen=True)
class Directory:
    """The directory of a paged bucket.

    `child_rows` has the rows of each physical column below an array or map, `slots` the (offset in the bucket, size)
    of every physical column. The size is 0 for a column that is ALL_NULL.
    """

    child_rows: list[int]
    slots: list[tuple[int, int]]


def parse_directory(data: bytes | memoryview, nodes: BucketNodes, bucket_size: int) -> Directory:
    """Parse the directory of a paged bucket of `bucket_size` bytes, of which `data` has at least the directory."""
    size = directory_size(nodes)
    if size > bucket_size:
        raise CorruptFileError("paged bucket is smaller than its directory", found=bucket_size, expected=size)
    children = nodes.num_nodes - nodes.num_columns
    child_rows: list[int] = []
    if children:
        (count,) = struct.unpack_from("<H", data)
        if count != children:
            raise CorruptFileError(
                "bucket header counts other children than the schema", found=count, expected=children
            )
        child_rows = list(struct.unpack_from(f"<{children}I", data, 2))
    sizes = struct.unpack_from(f"<{nodes.num_nodes}I", data, size - 4 * nodes.num_nodes)
    slots = []
    at = size
    for slot in sizes:
        slots.append((at, slot))
        at += slot
    if at != bucket_size:
        raise CorruptFileError("directory and slots do not fill the bucket", found=at, expected=bucket_size)
    return Directory(child_rows, slots)


def pack_directory(child_rows: list[int], slots: list[int]) -> bytes:
    """The directory of a paged bucket; `slots` are the sizes."""
    head = b""
    if child_rows:
        if len(child_rows) > MAX_PAGED_CHILDREN:
            raise AssertionError(f"{len(child_rows)} children do not fit a paged bucket")
        head = struct.pack(f"<H{len(child_rows)}I", len(child_rows), *child_rows)
    return head + struct.pack(f"<{len(slots)}I", *slots)


def open_slot(slot: bytes | memoryview) -> bytes | None:
    """The page in a slot; None for the empty slot of a column that is ALL_NULL."""
    return inflate(*_split_slot(slot)) if len(slot) else None


def pack_slot(page: bytes | None, level: int, checksum: bool) -> bytes:
    """The slot of a page: a varint of its size, then its zstd frame. A column that is ALL_NULL has no page."""
    return b"" if page is None else pack_varint(len(page)) + deflate(page, level, checksum)


def slot_has_checksum(slot: bytes | memoryview) -> bool:
    """Whether the zstd frame in a slot carries a checksum; False for a slot that cannot be opened."""
    try:
        return has_checksum(_split_slot(slot)[0])
    except CorruptFileError:
        return False


def _split_slot(slot: bytes | memoryview) -> tuple[bytes | memoryview, int]:
    """The zstd frame in a slot, and the size of its page."""
    size = shift = at = 0
    while True:
        if at >= len(slot) or at == 5:
            raise CorruptFileError("size of a page is cut off or too long", found=bytes(slot[:5]))
        byte = slot[at]
        size |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            break
    if byte == 0 and at > 1:
        raise CorruptFileError("size of a page is written in more bytes than it needs", found=size)
    return slot[at:], size
