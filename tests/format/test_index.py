"""The entry of a bucket in the index."""

from __future__ import annotations

import pytest

from smalti.format.index import EMPTY, MONOLITHIC, PAGED, BucketEntry


@pytest.mark.parametrize(
    ("stored", "entry"),
    [
        ((7, 100, 300), BucketEntry(MONOLITHIC, 7, 100, 300)),
        ((7, 100, 0), BucketEntry(PAGED, 7, 100, 0)),
        ((0, 0, 0), BucketEntry(EMPTY, 0, 0, 0)),
    ],
)
def test_the_mode_of_a_bucket_is_in_its_sizes(stored: tuple[int, int, int], entry: BucketEntry) -> None:
    assert BucketEntry.decode(*stored) == entry
    offset, size, uncompressed = stored
    assert entry.pack(3) == bytes([3, *offset.to_bytes(8, "big"), size]) + (b"\xac\x02" if uncompressed else b"\0")
