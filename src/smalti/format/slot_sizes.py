"""The sizes of all slots, in a zstd skippable frame between the schema block and the companion.

A reader of a store that knows where slots are asks for them and for the directory of their bucket at the same time,
which saves a round trip. The directory decides: sizes that are wrong, by damage or on purpose, cost a request and
change no value. So a frame that cannot be used is ignored. Writers leave it out unless it comes with the first read of
a file.

The frame has the envelope of the companion, with a tag of its own. Its payload is a zstd frame of 32-bit numbers, the
first bytes of all of them, then the second bytes, and so on: for each bucket of each row group the number of its slots,
0 if it is not paged; then the sizes of all slots.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate

import zstandard

from smalti.errors import MosaicError
from smalti.format.companion import pack_frame, split_frame
from smalti.format.compression import deflate, inflate

TAG = b"SMLS"
#: The most numbers that a frame has: a few rows of buckets more than fit into the first read of a file.
MAX_NUMBERS = 1 << 18
_LEVEL = 3


class SlotSizes:
    """Where slots of paged buckets are said to be."""

    def __init__(self, counts: Sequence[int], sizes: memoryview, num_buckets: int) -> None:
        self._num_buckets = num_buckets
        self._starts = list(accumulate(counts, initial=0))
        self._sizes = sizes

    def find(self, group: int, bucket: int, num_slots: int, wanted: Sequence[int]) -> list[tuple[int, int]]:
        """(offset behind the directory, size) of the `wanted` slots; empty if the bucket has another number of slots.

        Examples
        --------
        >>> import array
        >>> SlotSizes([0, 3], memoryview(array.array("I", [10, 20, 30])), num_buckets=2).find(0, 1, 3, [0, 2])
        [(0, 10), (30, 30)]
        """
        at = group * self._num_buckets + bucket
        if at + 1 >= len(self._starts) or self._starts[at + 1] - self._starts[at] != num_slots:
            return []
        sizes = self._sizes[self._starts[at] : self._starts[at + 1]]
        ends = list(accumulate(sizes, initial=0))
        return [(ends[node], sizes[node]) for node in wanted]


def pack_slot_sizes(buckets: Sequence[Sequence[int]]) -> bytes:
    """The frame for the slots of all buckets of all row groups, an empty sequence for a bucket that is not paged.

    Empty if no bucket is paged, or if there are too many numbers.
    """
    numbers = [len(sizes) for sizes in buckets]
    if not any(numbers) or len(numbers) + sum(numbers) > MAX_NUMBERS:
        return b""
    numbers += [size for sizes in buckets for size in sizes]
    data = struct.pack(f"<{len(numbers)}I", *numbers)
    return pack_frame(TAG, deflate(b"".join(data[i::4] for i in range(4)), _LEVEL, False), 0)


def split_slot_sizes(section: bytes) -> tuple[bytes, bytes]:
    """The section of the schema block without the frame, and the frame; empty if there is none."""
    if section[-4:] != TAG:
        return section, b""
    start = len(section) - int.from_bytes(section[-8:-4], "big")
    if start < 0 or section[start + 8 : start + 12] != TAG:
        return section, b""  # The last bytes of the schema block happen to look like the tag.
    return section[:start], section[start:]


def parse_slot_sizes(frame: bytes, num_row_groups: int, num_buckets: int) -> SlotSizes | None:
    """Parse a frame; None if there is none or it cannot be used."""
    try:
        found = split_frame(frame, TAG)
        if found is None:
            return None
        payload = found[1]
        size = zstandard.frame_content_size(payload)
        num_entries = num_row_groups * num_buckets
        if size % 4 or not 4 * num_entries <= size <= 4 * MAX_NUMBERS:
            return None
        shuffled, data = inflate(payload, size), bytearray(size)
    except (MosaicError, zstandard.ZstdError):
        return None
    for i in range(4):
        data[i::4] = shuffled[i * size // 4 : (i + 1) * size // 4]
    numbers = memoryview(data).cast("I")
    counts = numbers[:num_entries].tolist()
    return SlotSizes(counts, numbers[num_entries:], num_buckets) if sum(counts) == len(numbers) - num_entries else None
