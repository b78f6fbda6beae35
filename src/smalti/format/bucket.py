"""The frame of a paged bucket (section 8): child counts, directory, slots. Monolithic buckets have none."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from smalti._core.nodes import BucketNodes
from smalti.errors import CorruptFileError
from smalti.format.compression import inflate
from smalti.spec import MAX_PAGED_CHILDREN


def directory_size(num_columns: int, num_nodes: int) -> int:
    """Bytes before the first slot: the child counts, when there are containers, and one slot size per column."""
    children = num_nodes - num_columns
    return (2 + 4 * children if children else 0) + 4 * num_nodes


@dataclass(frozen=True)
class Directory:
    """What the head of a paged bucket says; `slots` are (offset in the bucket, size), size 0 for ALL_NULL."""

    child_rows: list[int]
    slots: list[tuple[int, int]]


def parse_directory(data: bytes | memoryview, nodes: BucketNodes, bucket_size: int) -> Directory:
    """Parse the head of a paged bucket of `bucket_size` bytes; `data` has at least its first bytes."""
    size = directory_size(nodes.num_columns, nodes.num_nodes)
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
    """The head of a paged bucket."""
    head = b""
    if child_rows:
        if len(child_rows) > MAX_PAGED_CHILDREN:
            raise AssertionError(f"{len(child_rows)} children do not fit a paged bucket")
        head = struct.pack(f"<H{len(child_rows)}I", len(child_rows), *child_rows)
    return head + struct.pack(f"<{len(slots)}I", *slots)


def open_slot(slot: bytes | memoryview) -> bytes:
    """The page in a slot: a varint of its size, then its zstd frame."""
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
    return inflate(slot[at:], size)
