"""The entry of a bucket in the index."""

from __future__ import annotations

import io
import random
import struct

import pyarrow as pa
import pytest

import smalti
from smalti._core.index import RowGroupIndex
from smalti.format.index import EMPTY, MONOLITHIC, PAGED, BucketEntry
from smalti.spec import FOOTER_SIZE


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


@pytest.mark.parametrize("order", ["sorted", "as other writers may have them"])
def test_statistics_of_some_columns_are_found_among_all(order: str) -> None:
    """Not every column has some, and a row group without rows has none."""
    names = [f"c{n:03}" for n in range(120)]
    file = io.BytesIO()
    with smalti.MosaicWriter(file, pa.schema([(name, pa.int64()) for name in names]), stats_columns=names[5::3]) as w:
        for start in (0, 1000):
            w.write(pa.table({name: [start + n, 7000 + n] for n, name in enumerate(names)}))
            w.flush()
    tail = smalti.open(data := file.getvalue())._tail
    section = data[tail.footer.index_offset : -FOOTER_SIZE]
    if order != "sorted":  # Records of the same size change places.
        first, second = (section.index(struct.pack(">qq", 1000 + n, 7000 + n)) - 2 for n in (8, 71))
        one, other = section[first : first + 18], section[second : second + 18]
        section = section.replace(one, b"~" * 18).replace(other, one).replace(b"~" * 18, other)
    index = RowGroupIndex(section, tail.schema, 2, tail.footer.schema_offset, True)
    for group in range(2):
        every = index.statistics(group)
        assert len(every) == 39
        assert ([record[0] for record in every] == sorted(record[0] for record in every)) == (
            order == "sorted" or not group
        )
        for count in (0, 1, 2, 3, 60, 120):
            wanted = set(random.Random(count).sample(range(120), count))
            assert index.statistics(group, wanted) == [record for record in every if record[0] in wanted]
        for column in range(120):
            assert index.statistics(group, {column}) == [record for record in every if record[0] == column]
